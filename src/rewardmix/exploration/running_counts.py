"""Choose which steps are counted together, and hold running counts: arrays that engines update, to become Moments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from rewardmix._core.checks import Floats, raise_input_error
from rewardmix._core.count_tables import Counts, CountTable, merge_pair_orders
from rewardmix._core.int_dtypes import state_dtype
from rewardmix._core.pair_count_kernels import EPISODES_SLOT, NO_LIMIT_COUNT, STALE_SLOT, USED_SLOT
from rewardmix._core.triple_count_kernels import TripleCounts, max_triples
from rewardmix.exploration.exploration_kernels import CountArrays, count_env_episodes
from rewardmix.exploration.triple_kernels import count_env_triples
from rewardmix.moments import Moments


@dataclass(frozen=True)
class CountingRule:
    """Choose the samples that an episode gives.

    Attributes:
        name: Name used in results.
        ordered: True for one ordered pair of picked steps per episode, False for all unordered pairs of first visits.
        order: 2 for pairs; 3 if all unordered triples are counted in addition.
    """

    name: str
    ordered: bool
    order: int = 2


all_pairs = CountingRule("all pairs", ordered=False)
"""Count every pair of first visits of an episode (departure 8 of docs/concepts/paper-and-code.md).

The path of an episode does not depend on its rewards, so each pair is an unbiased sample.
"""

selected_pairs = CountingRule("selected", ordered=True)
"""Count the two steps that the plan picked, as the paper does."""

all_triples = CountingRule("all triples", ordered=False, order=3)
"""Count every triple of an episode in addition to every pair: ``explore(moment_order=3)``."""


@dataclass
class RunningCounts:
    """Hold the counts of an exploration while it runs.

    With ``ordered`` pairs are those of the paper, x1 before x2; otherwise they are unordered pairs of first visits.
    Transitions are lists of next states (column S is the end). For a model the lists are known and only the counts
    grow. For an environment transitions are counted in a hash table, ``transition_table``, from which the lists are
    made. If triples are counted, only triples decide which rows of the plan are stale (``stale_triples``).
    """

    num_states: int
    num_actions: int
    horizon: int
    reward_values: Floats
    ordered: bool
    row_offsets: NDArray[np.int64]
    next_states: NDArray[np.int32]
    transition_counts: Counts
    transition_table: CountTable | None
    visits: Counts
    visit_limits: Counts
    initial_counts: Counts
    reward_counts: Counts
    pairs: CountTable
    stale_rows: NDArray[np.bool_]
    last_visit_mark: Counts
    progress: Counts = field(default_factory=lambda: np.zeros(4, np.int64))
    cached_arrays: CountArrays | None = None
    triples: CountTable | None = None
    stale_triples: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), bool))
    triples_progress: Counts = field(default_factory=lambda: np.zeros(4, np.int64))

    @staticmethod
    def empty(
        sizes: tuple[int, int, int],
        reward_values: Floats,
        ordered: bool,
        successor_lists: tuple[Any, Any] | None = None,
    ) -> RunningCounts:
        """Return counts of zero episodes. ``successor_lists``: (row_offsets, next_states) if they are known."""
        num_states, num_actions, horizon = sizes
        num_state_actions = num_states * num_actions
        no_transitions = np.zeros(num_state_actions + 1, np.int64), np.empty(0, state_dtype(num_states + 1))
        row_offsets, next_states = successor_lists or no_transitions
        return RunningCounts(
            num_states,
            num_actions,
            horizon,
            reward_values,
            ordered,
            row_offsets,
            next_states,
            np.zeros(next_states.size, np.int64),
            CountTable.for_keys(num_state_actions * (num_states + 1)) if successor_lists is None else None,
            np.zeros(num_state_actions, np.int64),
            np.ones(num_state_actions, np.int64),
            np.zeros(num_states, np.int64),
            np.zeros((num_state_actions, reward_values.size), np.int64),
            CountTable.for_pairs(num_state_actions, reward_values.size),
            np.zeros(num_state_actions, bool),
            np.zeros(num_state_actions, np.int64),
        )

    def enable_triples(self) -> None:
        """Count triples too, from now on."""
        self.triples = CountTable.for_triples(self.num_state_actions, self.reward_values.size)
        self.stale_triples = np.zeros((self.num_state_actions, self.num_state_actions), bool)

    @property
    def num_stale(self) -> int:
        """Number of pairs (of triples, if these are counted) that have reached their limit since the last plan."""
        return int((self.progress if self.triples is None else self.triples_progress)[STALE_SLOT])

    @property
    def triple_arrays(self) -> TripleCounts:
        """Arrays to which kernels add triples."""
        assert self.triples is not None
        return TripleCounts(self.triples.slots, *self.triples.hash_params, self.stale_triples, self.triples_progress)

    @property
    def num_state_actions(self) -> int:
        """Number of state-actions, X = S A."""
        return self.num_states * self.num_actions

    @property
    def episodes(self) -> int:
        """Number of episodes counted."""
        return int(self.progress[EPISODES_SLOT])

    @property
    def ended_early(self) -> bool:
        """True if any episode ended before its horizon, according to the transition lists."""
        return bool((self.transition_counts[self.next_states == self.num_states] > 0).any())

    @property
    def arrays(self) -> CountArrays:
        """Arrays to which kernels add counts."""
        # The tuple is rebuilt only if the pair table was reallocated: building it at each call is slow for short
        # plays.
        if self.cached_arrays is None or self.cached_arrays.records is not self.pairs.slots:
            counts = self.initial_counts, self.transition_counts, self.visits, self.visit_limits, self.reward_counts
            pair_arrays = self.pairs.slots, self.stale_rows, self.last_visit_mark, self.progress
            self.cached_arrays = CountArrays._make((*counts, *pair_arrays, *self.pairs.hash_params))
        return self.cached_arrays

    @property
    def max_pairs_per_episode(self) -> int:
        """Largest number of different pairs that one episode can have."""
        return self.horizon * (self.horizon + 1) // 2

    def reserve(self, episodes: int) -> None:
        """Reserve space in the tables for the pairs and triples of this many new episodes."""
        # Kernels count used records in ``progress``; the table must know the number before it decides whether to grow.
        self.pairs.num_used = int(self.progress[USED_SLOT])
        self.pairs.reserve(episodes * self.max_pairs_per_episode)
        if self.triples is not None:
            self.triples.num_used = int(self.triples_progress[USED_SLOT])
            self.triples.reserve(episodes * max_triples(self.horizon))

    def count(self, episodes: tuple[Any, Any, Any, Any], picks: Counts, growth: float, limit: int) -> None:
        """Count episodes of an environment, given as (states, actions, reward indices, lengths)."""
        transitions = self.transition_table
        assert transitions is not None  # next states of an environment are not known beforehand
        number, length = episodes[1].shape
        self.reserve(number)
        transitions.reserve(number * length)
        # If triples are counted, pairs must not trigger replans: growth 1.0 with this limit is never reached.
        pair_limits = (growth, limit) if self.triples is None else (1.0, NO_LIMIT_COUNT)
        transitions.num_used += count_env_episodes(
            self.arrays, *episodes, picks, self.ordered, *pair_limits, transitions.slots, *transitions.hash_params
        )
        if self.triples is not None:
            count_env_triples(self.triple_arrays, self.num_states, self.reward_counts, *episodes, growth, limit)

    def refresh_transition_lists(self) -> None:
        """Rebuild the lists of next states from the observed transitions."""
        if self.transition_table is None:
            return
        keys, counts = self.transition_table.export_tables()
        row, next_states = np.divmod(keys, self.num_states + 1)
        self.row_offsets = np.searchsorted(row, np.arange(self.num_state_actions + 1)).astype(np.int64)
        self.next_states, self.transition_counts = next_states.astype(state_dtype(self.num_states + 1)), counts.ravel()

    def count_matrix(self) -> csr_array:
        """Return the transition counts as a sparse (X, S + 1) matrix."""
        self.refresh_transition_lists()
        rows = np.repeat(np.arange(self.num_state_actions), np.diff(self.row_offsets))
        is_observed = self.transition_counts > 0
        entries = (self.transition_counts[is_observed], (rows[is_observed], self.next_states[is_observed]))
        return csr_array(coo_array(entries, shape=(self.num_state_actions, self.num_states + 1)))

    def moments(self) -> Moments:
        """Return the counts as Moments."""
        keys, tables = self.pairs.export_tables()
        ordered_pairs = {"first_visit_keys": keys, "first_visit_tables": tables} if self.ordered else {}
        # Moments hold unordered pairs. The ordered counts of the paper are stored in addition.
        if self.ordered:
            keys, tables = merge_pair_orders(keys, tables, self.num_state_actions)
        triples = {}
        if self.triples is not None:
            triples["triple_keys"], triples["triple_tables"] = self.triples.export_tables()
        return Moments.from_valid_counts(
            num_states=self.num_states,
            num_actions=self.num_actions,
            horizon=self.horizon,
            reward_values=self.reward_values,
            num_episodes=self.episodes,
            initial_counts=self.initial_counts.copy(),
            transition_counts=self.count_matrix(),
            reward_counts=self.reward_counts.copy(),
            pair_keys=keys,
            pair_tables=tables,
            **ordered_pairs,
            **triples,
        )

    def add(self, moments: Moments) -> None:
        """Add the counts of an earlier exploration; raise InputError if its sizes or counting rule differ."""
        spec = self.num_states, self.num_actions, self.horizon, tuple(self.reward_values.tolist())
        if spec != moments.spec:
            raise_input_error(
                "resume_from",
                f"(states, actions, horizon, reward values) = {moments.spec}",
                f"{spec}, as in this environment",
            )
        if self.ordered and moments.num_episodes and not moments.first_visit_keys.size and moments.pair_keys.size:
            raise_input_error("resume_from", "moments without selected pairs", "an exploration with equal counting")
        possible = moments.pair_keys.size and self.horizon >= 3
        if self.triples is not None and possible and not moments.triple_keys.size:
            raise_input_error("resume_from", "moments without triples", "an exploration with equal moment_order")
        self.initial_counts += moments.initial_counts
        self.reward_counts += moments.reward_counts
        self.visits += moments.visits
        self._add_transitions(moments.transition_counts)
        keys, tables = (
            (moments.first_visit_keys, moments.first_visit_tables)
            if self.ordered
            else (moments.pair_keys, moments.pair_tables)
        )
        self.pairs.add(keys, tables)
        self.progress[EPISODES_SLOT] += moments.num_episodes
        self.progress[USED_SLOT] = self.pairs.num_used
        if self.triples is not None:
            self.triples.add(moments.triple_keys, moments.triple_tables)
            self.triples_progress[USED_SLOT] = self.triples.num_used

    def _add_transitions(self, more: csr_array) -> None:
        coo = more.tocoo()
        keys = coo.coords[0].astype(np.int64) * (self.num_states + 1) + coo.coords[1]
        if self.transition_table is not None:
            self.transition_table.add(keys, coo.data.reshape(-1, 1, 1))
            return
        keys_stored = (
            np.repeat(np.arange(self.num_state_actions), np.diff(self.row_offsets)) * (self.num_states + 1)
            + self.next_states
        )
        # ``searchsorted`` returns the length for keys beyond the last one; the comparison below then finds the
        # mismatch.
        position = np.minimum(np.searchsorted(keys_stored, keys), keys_stored.size - 1)
        if (keys_stored[position] != keys).any():
            x, s = divmod(int(keys[(keys_stored[position] != keys).argmax()]), self.num_states + 1)
            raise_input_error(
                "resume_from", f"a transition from x = {x} to {s}", "only transitions that are possible in this model"
            )
        np.add.at(self.transition_counts, position, coo.data)
