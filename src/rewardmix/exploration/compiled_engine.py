"""Play a model in compiled code, episode by episode."""

from __future__ import annotations

import numpy as np

from rewardmix._core.int_dtypes import length_dtype
from rewardmix._core.random_streams import Role, kernel_stream
from rewardmix.episodes import Episodes, allocate_episodes
from rewardmix.exploration import exploration_kernels as kernels
from rewardmix.exploration.augmented_mdp_triples import AnyPlan
from rewardmix.exploration.exploration_kernels import EpisodeStorage
from rewardmix.exploration.exploration_result import infer_keep_every
from rewardmix.exploration.running_counts import RunningCounts
from rewardmix.exploration.strategies import AnyChoices
from rewardmix.exploration.triple_kernels import play_triples
from rewardmix.model import RewardMixingMDP
from rewardmix.simulation_kernels import SamplingTables

CHUNK_STEPS = 1 << 21
"""Steps between two checks for Ctrl-C: some tens of milliseconds."""

MAX_EPISODE_BYTES = 1 << 29
"""Maximum bytes of stored episodes; beyond it every second stored episode is dropped, repeatedly."""


class CompiledEngine:
    """Play a model. The state of its generator is plain data, so a run can be resumed bit for bit."""

    resumes_exactly = True

    def __init__(self, model: RewardMixingMDP, seed: int, keep: bool) -> None:
        self.tables = SamplingTables.from_model(model)
        self.sizes = model.num_states, model.num_actions, model.horizon
        self.reward_values = model.reward_values
        self.rng_state = kernel_stream(seed, Role.EXPLORATION)
        self.keep, self.storage = keep, self._allocate(1024 if keep else 0, 1)

    def new_counts(self, ordered: bool) -> RunningCounts:
        """Return empty counts over the model's lists of next states."""
        return RunningCounts.empty(
            self.sizes, self.reward_values, ordered, (self.tables.row_offsets, self.tables.next_states)
        )

    def play(
        self,
        plan: AnyPlan,
        choices: AnyChoices,
        running_counts: RunningCounts,
        until: int,
        replan_after: int,
        growth: float,
    ) -> None:
        """Play until ``until`` episodes in total, or, from ``replan_after`` on, until a row of the plan is stale."""
        chunk = max(1, CHUNK_STEPS // self.sizes[2])
        # Compiled code cannot be interrupted, so it returns to Python after each chunk.
        until = min(until, running_counts.episodes + chunk)
        running_counts.reserve(1)
        if self.keep:
            until = self._reserve(running_counts.episodes, until)
        capacity, limit = running_counts.pairs.capacity, plan.first_limit(growth)
        storage, counts = self.storage, running_counts.arrays
        if running_counts.triples is not None:
            capacities, triples = (capacity, running_counts.triples.capacity), running_counts.triple_arrays
            arguments = self.tables, choices, counts, triples, storage, self.rng_state, until, replan_after, *capacities
            play_triples(*arguments, growth, limit)
            return
        kernels.play_choices(
            self.tables,
            choices,
            counts,
            storage,
            self.rng_state,
            until,
            replan_after,
            running_counts.ordered,
            capacity,
            growth,
            limit,
        )

    def collect_episodes(self, episodes: int) -> Episodes | None:
        """Return the stored episodes (all, or every second, fourth, ...), or None if none are stored."""
        if not self.keep:
            return None
        number = -(-episodes // self.storage.keep_every)
        arrays = {name: getattr(self.storage, name)[:number].copy() for name in ("states", "actions", "reward_indices")}
        arrays["lengths"] = np.full(number, self.sizes[2], length_dtype(self.sizes[2]))
        return Episodes.from_valid_arrays(arrays, self.sizes[0], self.sizes[1], self.reward_values)

    def restore(self, episodes: Episodes | None, total: int) -> None:
        """Continue after ``total`` episodes, of which ``episodes`` were stored (None: none)."""
        self.keep = episodes is not None
        if episodes is None:
            self.storage = self._allocate(0, 1)
        else:
            every = infer_keep_every(total, len(episodes))
            self.storage = self._allocate(len(episodes), every)
            _copy_episodes(
                self.storage,
                EpisodeStorage(episodes.states, episodes.actions, episodes.reward_indices, every),
                len(episodes),
            )

    def _reserve(self, num_played: int, until: int) -> int:
        """Reserve storage for the episodes after ``num_played``; return up to which episode it suffices.

        If the storage is at its limit, every second stored episode is dropped. What is stored then depends on the
        number of episodes only, not on how many calls they were played in.
        """
        max_stored = max(1, MAX_EPISODE_BYTES // sum(array.itemsize * array.shape[1] for array in self.storage[:3]))
        while num_played >= max_stored * self.storage.keep_every:
            self._drop_every_other()
        until = min(until, max_stored * self.storage.keep_every)
        # The storage at least doubles each time it grows, so copying costs a constant per episode.
        needed, num_allocated = -(-until // self.storage.keep_every), self.storage.states.shape[0]
        if needed > num_allocated:
            old, size = self.storage, min(max(needed, 2 * num_allocated), max_stored)
            self.storage = self._allocate(size, old.keep_every)
            _copy_episodes(self.storage, old, min(num_allocated, max_stored))
        return until

    def _drop_every_other(self) -> None:
        """Drop every second stored episode.

        The choice depends on the episode's index alone, so the rest is an unbiased sample.
        """
        half = -(-self.storage.states.shape[0] // 2)
        for array in self.storage[:3]:
            array[:half] = array[::2].copy()
        self.storage = self.storage._replace(keep_every=2 * self.storage.keep_every)

    def _allocate(self, episodes: int, every: int) -> EpisodeStorage:
        num_states, num_actions, horizon = self.sizes
        return EpisodeStorage(
            *allocate_episodes(episodes, horizon, num_states, num_actions, self.reward_values.size), every
        )


def _copy_episodes(target: EpisodeStorage, source: EpisodeStorage, number: int) -> None:
    for name in ("states", "actions", "reward_indices"):
        getattr(target, name)[:number] = getattr(source, name)[:number]
