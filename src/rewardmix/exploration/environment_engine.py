"""Engine (a): any Gymnasium environment with Discrete spaces, one copy or many, through reset and step alone.

Copies play their episodes side by side: all are reset, all take at most H steps, all follow the same plan. An episode
that terminates before the horizon has ended; one that is truncated before it breaks the horizon, and is an error. The
hidden context is never asked for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardmix import environments
from rewardmix._core.checks import Floats, as_count, as_reward_values, refuse
from rewardmix._core.streams import Role, generator, seed_for
from rewardmix._core.widths import length_width
from rewardmix.episodes import ABSENT, PARTS, Episodes, room_for
from rewardmix.exploration.compiled_engine import KEPT_BYTES
from rewardmix.exploration.exploration_kernels import ANY
from rewardmix.exploration.exploration_result import kept_every
from rewardmix.exploration.strategies import AnyChoices, code_of, picks_of
from rewardmix.exploration.tally import Tally
from rewardmix.exploration.triples import Planned


class Sheet(NamedTuple):
    """Episodes that are being written down; see ``Episodes``."""

    states: NDArray[Any]
    actions: NDArray[Any]
    outcomes: NDArray[Any]
    lengths: NDArray[Any]


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
        self.values = self.reward_values.tolist()
        self.copies: Any = Many(env) if hasattr(env, "num_envs") else One(env)
        self.seed: int | None = None
        self._draw_from(seed, 0)
        self.stream = np.zeros(4, np.uint64)
        self.keep, self.every = keep, 1
        self.kept: list[Episodes] = []

    def fresh_tally(self, ordered: bool) -> Tally:
        """An empty tally; the lists of next states grow with what is seen."""
        return Tally.fresh(self.sizes, self.reward_values, ordered)

    def play(self, plan: Planned, choices: AnyChoices, tally: Tally, until: int, patience: int, growth: float) -> None:
        """Play one episode in every copy, and count as many of them as the budget has room for."""
        episodes, picks = self._play_once(choices, tally.episodes)
        number = min(until - tally.episodes, len(episodes))
        episodes, picks = episodes[:number], picks[:number]
        self._keep(episodes, tally.episodes)  # before they are counted: an interrupt in between then loses nothing
        tally.count(
            (episodes.states, episodes.actions, episodes.outcomes, episodes.lengths),
            picks,
            growth,
            plan.first_limit(growth),
        )

    def gathered(self, episodes: int) -> Episodes | None:
        """The episodes themselves, or every so-manieth, if they were kept."""
        if not self.keep:
            return None
        parts = [self._blank(0), *self.kept]
        together = {name: np.concatenate([getattr(part, name) for part in parts]) for name in PARTS}
        self.kept = [Episodes.trusted(together, **self._world)]
        return self.kept[0][: -(-episodes // self.every)]

    def restore(self, episodes: Episodes | None, total: int) -> None:
        """Go on after ``total`` episodes, of which these were kept (None: none)."""
        self.keep = episodes is not None
        self.every = 1 if episodes is None else kept_every(total, len(episodes))
        self.kept = [episodes] if episodes is not None else []

    def go_on(self, seed: int, played: int) -> None:
        """Draw other random numbers than for the episodes played so far; an environment under way keeps its own."""
        self._draw_from(seed, played)
        if environments.was_seeded(self.copies.env):
            self.seed = None

    def _draw_from(self, seed: int, played: int) -> None:
        self.rng = generator(seed, Role.EXPLORED_ACTIONS, played)
        self.seed = seed_for(seed, Role.EXPLORED_ENVIRONMENT, played)

    @property
    def _world(self) -> dict[str, Any]:
        return {"num_states": self.sizes[0], "num_actions": self.sizes[1], "reward_values": self.reward_values}

    def _keep(self, episodes: Episodes, before: int) -> None:
        """Keep new episodes, which come after ``before`` others; where there is no room, every other one makes some."""
        if not self.keep:
            return
        self.kept.append(episodes[-before % self.every :: self.every])
        if len(self.kept) > 256:
            self.gathered(2**62)
        if sum(len(part) for part in self.kept) * (7 * self.sizes[2] + 8) > KEPT_BYTES:
            whole = self.gathered(2**62)
            assert whole is not None
            self.kept, self.every = [whole[::2]], 2 * self.every

    def _blank(self, number: int) -> Sheet:
        horizon = self.sizes[2]
        parts = room_for(number, horizon, self.sizes[0], self.sizes[1], self.reward_values.size)
        for part in parts:
            part.fill(ABSENT)
        return Sheet(*parts, np.zeros(number, length_width(horizon)))

    def _play_once(self, choices: AnyChoices, before: int) -> tuple[Episodes, NDArray[np.int64]]:
        """One episode in every copy, and the steps that were picked."""
        sheet, picks = (
            self._blank(self.copies.number),
            np.full((self.copies.number, picks_of(choices)), ABSENT, np.int64),
        )
        seed, self.seed = self.seed, None
        self.copies.play(self, choices, before, seed, sheet, picks)
        return Episodes.trusted(sheet._asdict(), **self._world), picks

    def state(self, state: Any, episode: int, step: int) -> int:
        """A state that the environment showed, refused if it is none."""
        try:
            found = int(state)
        except (TypeError, ValueError):
            found = -1
        if not 0 <= found < self.sizes[0]:
            refuse(f"state of episode {episode}, step {step}", state, f"a state from 0 to {self.sizes[0] - 1}")
        return found

    def outcome(self, reward: Any, episode: int, step: int) -> int:
        """Which of the reward values this is, refused if it is none."""
        for z, value in enumerate(self.values):
            if abs(value - float(reward)) <= 1e-9:
                return z
        refuse(f"reward of episode {episode}, step {step}", reward, environments.expected_rewards(self.values))


class One:
    """A single environment as one copy."""

    number = 1

    def __init__(self, env: Any) -> None:
        self.env = env

    def play(
        self, engine: EnvironmentEngine, choices: AnyChoices, before: int, seed: int | None, sheet: Sheet, picks: Any
    ) -> None:
        """Play one episode into ``sheet`` and ``picks``."""
        state = engine.state(self.env.reset(seed=seed)[0], before, 0)
        sheet.states[0, 0] = state
        picked: list[int] = []
        for t in range(engine.sizes[2]):
            code = code_of(choices, engine.sizes, picked, t, state)
            if code == ANY:
                code = 2 * int(engine.rng.integers(engine.sizes[1])) + 1
            following, reward, terminated, truncated, _ = self.env.step(code >> 1)
            sheet.actions[0, t] = code >> 1
            sheet.outcomes[0, t] = engine.outcome(reward, before, t)
            sheet.lengths[0] = t + 1
            if code & 1 == 0 and len(picked) < picks.shape[1]:
                picks[0, len(picked)] = t
                picked.append(state * engine.sizes[1] + (code >> 1))
            state = engine.state(following, before, t + 1)
            sheet.states[0, t + 1] = state
            if terminated:
                return
            environments.check_horizon(truncated, engine.sizes[2], before, t)


class Many:
    """A vector environment, in whichever way it resets its copies. Copies that have ended step on unheard."""

    def __init__(self, env: Any) -> None:
        self.env, self.number = env, int(env.num_envs)

    def play(
        self, engine: EnvironmentEngine, choices: AnyChoices, before: int, seed: int | None, sheet: Sheet, picks: Any
    ) -> None:
        """Play one episode in each copy into ``sheet`` and ``picks``."""
        states = np.array([engine.state(s, before + i, 0) for i, s in enumerate(self.env.reset(seed=seed)[0])])
        sheet.states[:, 0] = states
        picked: list[list[int]] = [[] for _ in range(self.number)]
        running = np.ones(self.number, bool)
        for t in range(engine.sizes[2]):
            now = zip(picked, states.tolist(), strict=True)
            codes = np.array([code_of(choices, engine.sizes, xs, t, s) for xs, s in now])
            anything = 2 * engine.rng.integers(engine.sizes[1], size=self.number) + 1 if (codes == ANY).any() else codes
            codes = np.where(codes == ANY, anything, codes)
            following, rewards, terminated, truncated = environments.step_copies(
                self.env, np.where(running, codes >> 1, 0)
            )
            for i in np.flatnonzero(running):
                sheet.actions[i, t] = codes[i] >> 1
                sheet.outcomes[i, t] = engine.outcome(rewards[i], before + int(i), t)
                sheet.lengths[i] = t + 1
                if codes[i] & 1 == 0 and len(picked[i]) < picks.shape[1]:
                    picks[i, len(picked[i])] = t
                    picked[i].append(int(states[i]) * engine.sizes[1] + int(codes[i] >> 1))
                states[i] = engine.state(following[i], before + int(i), t + 1)
                sheet.states[i, t + 1] = states[i]
                environments.check_horizon(truncated[i] and not terminated[i], engine.sizes[2], before + int(i), t)
            running &= ~terminated
            if not running.any():
                return


def _values(env: Any, given: ArrayLike | None) -> Floats:
    declared = environments.reward_values_of(env) if given is None else given
    return as_reward_values((0.0, 1.0) if declared is None else declared)
