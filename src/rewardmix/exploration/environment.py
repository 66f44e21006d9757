"""Engine (a): any Gymnasium environment with Discrete spaces, one copy or many, through reset and step alone.

Copies play their episodes side by side: all are reset, all take at most H steps, all follow the same plan. An episode
that terminates before the horizon has ended; one that is truncated before it breaks the horizon, and is an error. The
hidden context is never asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardmix import environments
from rewardmix._check import Floats, as_count, as_floats, refuse
from rewardmix.episodes import ABSENT, Episodes
from rewardmix.exploration import kernels
from rewardmix.exploration.augmented import Plan
from rewardmix.exploration.compiled import MEMORY, counts_of
from rewardmix.exploration.kernels import ANY, FIRST, THIRD, Choices
from rewardmix.exploration.tally import Tally

Bools = NDArray[np.bool_]


class EnvironmentEngine:
    """Plays an environment. Where its random numbers stand is its own business, so a resumed run is a new run."""

    exact_resume = False

    def __init__(
        self, env: Any, seed: int, keep: bool, horizon: int | None = None, reward_values: ArrayLike | None = None
    ) -> None:
        num_states, num_actions = environments.sizes_of(env)
        length = environments.horizon_of(env) if horizon is None else as_count("horizon", horizon)
        self.sizes = num_states, num_actions, length
        self.reward_values = _values(env, reward_values)
        self.copies: Any = Many(env) if hasattr(env, "num_envs") else One(env)
        self.seed: int | None = seed
        self.rng = np.random.default_rng([seed, 2])
        self.stream = np.zeros(4, np.uint64)
        self.keep = keep
        self.kept: list[Episodes] = []

    def fresh_tally(self, ordered: bool) -> Tally:
        """An empty tally; the lists of next states grow with what is seen."""
        return Tally.fresh(self.sizes, self.reward_values, ordered)

    def play(self, plan: Plan, choices: Choices, tally: Tally, until: int, patience: int, growth: float) -> None:
        """Play one episode in every copy, and count as many of them as the budget has room for."""
        episodes, picks = self._play_once(choices, tally.episodes)
        number = min(until - tally.episodes, len(episodes))
        episodes, picks = episodes[:number], picks[:number]
        limit = max(1, int(np.ceil(growth * plan.known)))
        tally.pairs.used = int(tally.progress[kernels.USED])
        tally.pairs.make_room(number * self.sizes[2] * (self.sizes[2] + 1) // 2)
        tally.add_episodes_moves(episodes)
        kernels.count_played(
            counts_of(tally), episodes.states, episodes.actions, episodes.outcomes, episodes.lengths, picks,
            tally.ordered, *tally.pairs.hashing, growth, limit,
        )
        self._keep(episodes)

    def gathered(self, episodes: int) -> Episodes | None:
        """The episodes themselves, if they were kept."""
        if not self.keep:
            return None
        parts = [self._blank(0)[0], *self.kept]
        together = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _PARTS}
        self.kept = [Episodes(**together, **self._world)]
        return self.kept[0][:episodes]

    def restore(self, episodes: Episodes | None) -> None:
        """Go on after these episodes (None: they were not kept)."""
        self.keep = episodes is not None
        self.kept = [episodes] if episodes is not None else []

    @property
    def _world(self) -> dict[str, Any]:
        return {"num_states": self.sizes[0], "num_actions": self.sizes[1], "reward_values": self.reward_values}

    def _keep(self, episodes: Episodes) -> None:
        if self.keep:
            self.kept.append(episodes)
            per_episode = 7 * self.sizes[2] + 8
            self.keep = sum(len(part) for part in self.kept[:1]) * per_episode <= MEMORY
            if len(self.kept) > 256:
                self.gathered(2**62)

    def _blank(self, number: int) -> tuple[Episodes, NDArray[np.int64]]:
        horizon = self.sizes[2]
        episodes = Episodes(
            np.full((number, horizon + 1), ABSENT, np.int32),
            np.full((number, horizon), ABSENT, np.int16),
            np.full((number, horizon), ABSENT, np.int8),
            np.zeros(number, np.int32),
            **self._world,
        )
        return episodes, np.full((number, 2), ABSENT, np.int64)

    def _play_once(self, choices: Choices, before: int) -> tuple[Episodes, NDArray[np.int64]]:
        """One episode in every copy, and the steps that were picked."""
        num_states, num_actions, horizon = self.sizes
        episodes, picks = self._blank(self.copies.number)
        everyone = np.arange(self.copies.number)
        states = _checked_states(self.copies.reset(self.seed), num_states, before, 0, everyone)
        self.seed = None
        episodes.states[:, 0] = states
        slot, first = np.zeros(everyone.size, np.int64), np.zeros(everyone.size, np.int64)
        running = np.ones(everyone.size, bool)
        for t in range(horizon):
            codes = _codes(choices, t, states, slot, first, self.rng, num_actions)
            actions = codes >> 1
            following, rewards, terminated, truncated = self.copies.step(np.where(running, actions, 0), running)
            here = everyone[running]
            episodes.actions[here, t] = actions[here]
            episodes.outcomes[here, t] = self._outcomes(rewards[here], before, t, here)
            states = states.copy()
            states[here] = _checked_states(following[here], num_states, before, t + 1, here)
            episodes.states[here, t + 1] = states[here]
            episodes.lengths[here] = t + 1
            _check_horizon(truncated & running & ~terminated, t, horizon, before)
            pick = running & (codes & 1 == 0) & (slot < 2)
            picks[everyone[pick], slot[pick]] = t
            x = np.asarray(episodes.states[:, t], np.int64) * num_actions + actions
            first = np.where(pick & (slot == 0), x, first)
            slot = slot + pick
            running = running & ~terminated
            if not running.any():
                break
        return episodes, picks

    def _outcomes(self, rewards: Floats, before: int, step: int, who: NDArray[np.int64]) -> NDArray[np.int64]:
        distance = np.abs(rewards[:, None] - self.reward_values)
        nearest = np.where(np.isfinite(rewards), distance.argmin(axis=1), 0)
        bad = ~(np.abs(self.reward_values[nearest] - rewards) <= 1e-9)
        if bad.any():
            i = int(bad.argmax())
            expected = f"one of the reward values {self.reward_values.tolist()}"
            refuse(f"reward of episode {before + int(who[i])}, step {step}", float(rewards[i]), expected)
        return nearest


_PARTS = ("states", "actions", "outcomes", "lengths")


class One:
    """A single environment as one copy."""

    number = 1

    def __init__(self, env: Any) -> None:
        self.env = env

    def reset(self, seed: int | None) -> Any:
        """First states (1,)."""
        return np.array([self.env.reset(seed=seed)[0]])

    def step(self, actions: Any, running: Bools) -> tuple[Any, Floats, Bools, Bools]:
        """(next states, rewards, terminated, truncated), each (1,)."""
        state, reward, terminated, truncated, _ = self.env.step(int(actions[0]))
        return np.array([state]), np.array([float(reward)]), np.array([bool(terminated)]), np.array([bool(truncated)])


class Many:
    """A vector environment, in whichever way it resets its copies."""

    def __init__(self, env: Any) -> None:
        self.env, self.number = env, int(env.num_envs)
        mode = getattr(env, "metadata", {}).get("autoreset_mode")
        self.by_hand = "DISABLED" in str(mode).upper()

    def reset(self, seed: int | None) -> Any:
        """First states (n,)."""
        return np.asarray(self.env.reset(seed=seed)[0])

    def step(self, actions: Any, running: Bools) -> tuple[Any, Floats, Bools, Bools]:
        """(next states, rewards, terminated, truncated), each (n,). Copies that have ended step on unheard."""
        following, rewards, terminated, truncated, info = self.env.step(actions)
        following, ended = np.array(following), np.asarray(terminated) | np.asarray(truncated)
        for i in np.flatnonzero(ended & np.asarray(info.get("_final_obs", np.zeros(self.number, bool)))):
            following[i] = info["final_obs"][i]  # the copy has begun its next episode already
        if self.by_hand and ended.any():
            self.env.reset(options={"reset_mask": ended})
        return following, np.asarray(rewards, np.float64), np.asarray(terminated, bool), np.asarray(truncated, bool)


def _codes(
    choices: Choices, t: int, states: Any, slot: Any, first: Any, rng: np.random.Generator, num_actions: int
) -> NDArray[np.int64]:
    row = np.choose(slot, (FIRST, choices.row_of[first], THIRD))
    codes = choices.rows[row, t, states].astype(np.int64)
    anything = 2 * rng.integers(num_actions, size=codes.size) + 1 if (codes == ANY).any() else codes
    return np.where(codes == ANY, anything, codes)


def _values(env: Any, given: ArrayLike | None) -> Floats:
    declared = environments.reward_values_of(env) if given is None else given
    return as_floats("reward_values", (0.0, 1.0) if declared is None else declared, (None,))


def _checked_states(states: Any, num_states: int, before: int, step: int, who: NDArray[np.int64]) -> NDArray[np.int64]:
    bad = (states < 0) | (states >= num_states)
    if bad.any():
        i = int(np.argmax(bad))
        name = f"state of episode {before + int(who[i])}, step {step}"
        refuse(name, int(states[i]), f"a state from 0 to {num_states - 1}")
    return np.asarray(states, dtype=np.int64)


def _check_horizon(truncated: Bools, step: int, horizon: int, before: int) -> None:
    if truncated.any() and step + 1 < horizon:
        name = f"horizon of episode {before + int(truncated.argmax())}, step {step}"
        refuse(name, f"truncated after {step + 1} steps", f"{horizon} steps, or an episode that terminates")
