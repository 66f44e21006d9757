"""Explore any Gymnasium environment with Discrete spaces, single or vector, through ``reset`` and ``step``.

Copies of a vector environment play their episodes in parallel: all are reset, all take at most H steps, all follow one
plan. An episode that terminates before the horizon has ended. A truncation before the horizon violates the declared
horizon and is an error. The hidden type is not read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardmix import environments
from rewardmix._core.checks import Floats, as_count, as_reward_values, raise_input_error
from rewardmix._core.int_dtypes import length_dtype
from rewardmix._core.random_streams import Role, derive_seed, make_generator
from rewardmix.episodes import ARRAY_FIELDS, PADDING, Episodes, allocate_episodes
from rewardmix.exploration.augmented_mdp_triples import AnyPlan
from rewardmix.exploration.compiled_engine import MAX_EPISODE_BYTES
from rewardmix.exploration.exploration_kernels import RANDOM_ACTION
from rewardmix.exploration.exploration_result import infer_keep_every
from rewardmix.exploration.running_counts import RunningCounts
from rewardmix.exploration.strategies import AnyChoices, choice_code, max_picks


class EpisodeBuffer(NamedTuple):
    """Hold episodes while they are being played, as the arrays of ``Episodes``."""

    states: NDArray[Any]
    actions: NDArray[Any]
    reward_indices: NDArray[Any]
    lengths: NDArray[Any]


class EnvironmentEngine:
    """Play an environment.

    The state of its random generator cannot be read in general, so a resumed run draws new random numbers.
    """

    resumes_exactly = False

    def __init__(
        self, env: Any, seed: int, keep: bool, horizon: int | None = None, reward_values: ArrayLike | None = None
    ) -> None:
        num_states, num_actions = environments.get_env_sizes(env)
        length = environments.get_horizon(env) if horizon is None else as_count("horizon", horizon)
        self.sizes = num_states, num_actions, length
        self.reward_values = _resolve_reward_values(env, reward_values)
        self.values = self.reward_values.tolist()
        self.copies: Any = VectorEnvPlayer(env) if hasattr(env, "num_envs") else SingleEnvPlayer(env)
        self.seed: int | None = None
        self._reseed(seed, 0)
        self.rng_state = np.zeros(4, np.uint64)
        self.keep, self.every = keep, 1
        self.batches: list[Episodes] = []

    def new_counts(self, ordered: bool) -> RunningCounts:
        """Return empty counts; the lists of next states grow with the observed transitions."""
        return RunningCounts.empty(self.sizes, self.reward_values, ordered)

    def play(
        self, plan: AnyPlan, choices: AnyChoices, counts: RunningCounts, until: int, replan_after: int, growth: float
    ) -> None:
        """Play one episode in every copy, and count as many of them as the budget allows."""
        episodes, picks = self._play_once(choices, counts.episodes)
        number = min(until - counts.episodes, len(episodes))
        episodes, picks = episodes[:number], picks[:number]
        self._keep(episodes, counts.episodes)  # before they are counted: an interrupt in between then loses nothing
        counts.count(
            (episodes.states, episodes.actions, episodes.reward_indices, episodes.lengths),
            picks,
            growth,
            plan.first_limit(growth),
        )

    def collect_episodes(self, episodes: int) -> Episodes | None:
        """Return the stored episodes (all, or every second, fourth, ...), or None if none are stored."""
        if not self.keep:
            return None
        batches = [self._allocate(0), *self.batches]
        columns = {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in ARRAY_FIELDS}
        self.batches = [Episodes.from_valid_arrays(columns, **self._spec)]
        return self.batches[0][: -(-episodes // self.every)]

    def restore(self, episodes: Episodes | None, total: int) -> None:
        """Continue after ``total`` episodes, of which ``episodes`` were stored (None: none)."""
        self.keep = episodes is not None
        self.every = 1 if episodes is None else infer_keep_every(total, len(episodes))
        self.batches = [episodes] if episodes is not None else []

    def continue_from(self, seed: int, num_played: int) -> None:
        """Draw other random numbers than for the episodes so far; an environment that has a generator keeps it."""
        self._reseed(seed, num_played)
        if environments.has_rng(self.copies.env):
            self.seed = None

    def _reseed(self, seed: int, num_played: int) -> None:
        """Derive the streams of actions and of the environment from the seed and the number of episodes played."""
        self.rng = make_generator(seed, Role.EXPLORED_ACTIONS, num_played)
        self.seed = derive_seed(seed, Role.EXPLORED_ENVIRONMENT, num_played)

    @property
    def _spec(self) -> dict[str, Any]:
        return {"num_states": self.sizes[0], "num_actions": self.sizes[1], "reward_values": self.reward_values}

    def _keep(self, episodes: Episodes, before: int) -> None:
        """Store new episodes, after ``before`` others; drop every second stored one beyond the limit."""
        if not self.keep:
            return
        # The offset keeps episode indices 0, n, 2n, ... over batches of any length.
        self.batches.append(episodes[-before % self.every :: self.every])
        # Merging many small batches at once keeps the cost of storing linear in the number of episodes.
        if len(self.batches) > 256:
            self.collect_episodes(2**62)
        # A step takes 7 bytes at most (state 4, action 2, reward index 1), an episode's first state and length 8 more.
        if sum(len(batch) for batch in self.batches) * (7 * self.sizes[2] + 8) > MAX_EPISODE_BYTES:
            merged = self.collect_episodes(2**62)
            assert merged is not None
            self.batches, self.every = [merged[::2]], 2 * self.every

    def _allocate(self, number: int) -> EpisodeBuffer:
        """Allocate arrays for ``number`` episodes."""
        horizon = self.sizes[2]
        arrays = allocate_episodes(number, horizon, self.sizes[0], self.sizes[1], self.reward_values.size)
        for array in arrays:
            array.fill(PADDING)
        return EpisodeBuffer(*arrays, np.zeros(number, length_dtype(horizon)))

    def _play_once(self, choices: AnyChoices, before: int) -> tuple[Episodes, NDArray[np.int64]]:
        """Play one episode in every copy; return the episodes and the steps that were picked."""
        buffer, picks = (
            self._allocate(self.copies.number),
            np.full((self.copies.number, max_picks(choices)), PADDING, np.int64),
        )
        # Only the first reset is seeded: later resets must continue the environment's stream instead of repeating it.
        seed, self.seed = self.seed, None
        self.copies.play(self, choices, before, seed, buffer, picks)
        return Episodes.from_valid_arrays(buffer._asdict(), **self._spec), picks

    def check_state(self, state: Any, episode: int, step: int) -> int:
        """Return an observed state as an int; raise InputError if it is out of range."""
        try:
            index = int(state)
        except (TypeError, ValueError):
            index = -1
        if not 0 <= index < self.sizes[0]:
            raise_input_error(
                f"state of episode {episode}, step {step}", state, f"a state from 0 to {self.sizes[0] - 1}"
            )
        return index

    def check_reward(self, reward: Any, episode: int, step: int) -> int:
        """Return the index of a reward among the reward values; raise InputError if it is none of them."""
        for z, value in enumerate(self.values):
            if abs(value - float(reward)) <= 1e-9:
                return z
        raise_input_error(
            f"reward of episode {episode}, step {step}", reward, environments.describe_reward_values(self.values)
        )


class SingleEnvPlayer:
    """Play a single environment."""

    number = 1

    def __init__(self, env: Any) -> None:
        self.env = env

    def play(
        self,
        engine: EnvironmentEngine,
        choices: AnyChoices,
        before: int,
        seed: int | None,
        buffer: EpisodeBuffer,
        picks: Any,
    ) -> None:
        """Play one episode into ``buffer`` and ``picks``."""
        state = engine.check_state(self.env.reset(seed=seed)[0], before, 0)
        buffer.states[0, 0] = state
        picked: list[int] = []
        for t in range(engine.sizes[2]):
            code = choice_code(choices, engine.sizes, picked, t, state)
            if code == RANDOM_ACTION:
                code = 2 * int(engine.rng.integers(engine.sizes[1])) + 1
            next_state, reward, terminated, truncated, _ = self.env.step(code >> 1)
            buffer.actions[0, t] = code >> 1
            buffer.reward_indices[0, t] = engine.check_reward(reward, before, t)
            buffer.lengths[0] = t + 1
            if code & 1 == 0 and len(picked) < picks.shape[1]:
                picks[0, len(picked)] = t
                picked.append(state * engine.sizes[1] + (code >> 1))
            state = engine.check_state(next_state, before, t + 1)
            buffer.states[0, t + 1] = state
            if terminated:
                return
            environments.check_horizon(truncated, engine.sizes[2], before, t)


class VectorEnvPlayer:
    """Play a vector environment in any autoreset mode; copies that have ended step on, their output is ignored."""

    def __init__(self, env: Any) -> None:
        self.env, self.number = env, int(env.num_envs)

    def play(
        self,
        engine: EnvironmentEngine,
        choices: AnyChoices,
        before: int,
        seed: int | None,
        buffer: EpisodeBuffer,
        picks: Any,
    ) -> None:
        """Play one episode in each copy into ``buffer`` and ``picks``."""
        states = np.array([engine.check_state(s, before + i, 0) for i, s in enumerate(self.env.reset(seed=seed)[0])])
        buffer.states[:, 0] = states
        picked: list[list[int]] = [[] for _ in range(self.number)]
        running = np.ones(self.number, bool)
        for t in range(engine.sizes[2]):
            picks_and_states = zip(picked, states.tolist(), strict=True)
            codes = np.array([choice_code(choices, engine.sizes, xs, t, s) for xs, s in picks_and_states])
            # Random actions are drawn for all copies at once, so the stream does not depend on which copies need one.
            random_codes = (
                2 * engine.rng.integers(engine.sizes[1], size=self.number) + 1
                if (codes == RANDOM_ACTION).any()
                else codes
            )
            codes = np.where(codes == RANDOM_ACTION, random_codes, codes)
            next_states, rewards, terminated, truncated = environments.step_vector_env(
                self.env, np.where(running, codes >> 1, 0)
            )
            for i in np.flatnonzero(running):
                buffer.actions[i, t] = codes[i] >> 1
                buffer.reward_indices[i, t] = engine.check_reward(rewards[i], before + int(i), t)
                buffer.lengths[i] = t + 1
                if codes[i] & 1 == 0 and len(picked[i]) < picks.shape[1]:
                    picks[i, len(picked[i])] = t
                    picked[i].append(int(states[i]) * engine.sizes[1] + int(codes[i] >> 1))
                states[i] = engine.check_state(next_states[i], before + int(i), t + 1)
                buffer.states[i, t + 1] = states[i]
                environments.check_horizon(truncated[i] and not terminated[i], engine.sizes[2], before + int(i), t)
            running &= ~terminated
            if not running.any():
                return


def _resolve_reward_values(env: Any, reward_values: ArrayLike | None) -> Floats:
    """Return the given reward values, those the environment declares, or 0 and 1."""
    values = environments.get_reward_values(env) if reward_values is None else reward_values
    return as_reward_values((0.0, 1.0) if values is None else values)
