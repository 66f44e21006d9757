"""Count closed episodes, in memory that grows with the number of distinct reward patterns only.

    counts    initial states, transitions, visits and pairs: ``RunningCounts``, so that Algorithm 2 can plan with them
    patterns  (state-action, reward value) of an episode, equal ones counted together: the data of the reward posterior

Only observed steps count, in whatever order episodes are closed. An abandoned episode is shorter, nothing else. An
episode that the environment ended has moved to the end state, which is state S.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.int_dtypes import symbol_dtype
from rewardmix._core.pair_count_kernels import (
    EMPTY_KEY,
    KEY_COLUMN,
    LIMIT_COLUMN,
    NEW_VISITS_SLOT,
    STALE_SLOT,
    set_limits,
)
from rewardmix.episodes import Episodes
from rewardmix.exploration.running_counts import RunningCounts
from rewardmix.model import state_action_index
from rewardmix.online.mcmc import RewardData
from rewardmix.recovery.reward_patterns import RewardPatterns, merge_patterns

if TYPE_CHECKING:
    from rewardmix.online.agent_settings import AgentSettings

REPLAN_COUNT_GROWTH = 1.35
"""Factor by which a count grows until the agent replans."""

REPLAN_EPISODE_GROWTH = 0.18
"""Fraction by which the number of episodes grows until the agent replans."""

FIRST_WINDOW_EPISODES = 32
"""Number of episodes of the first window of recent episodes; later ones end when the number has doubled."""

REPLAN_MIN_COUNT = 2
"""Smaller counts of state-actions and pairs are taken for this, so that first observations do not replan each time."""


@dataclass
class Experience:
    """Hold the counts so far and their values at the last replanning.

    Attributes:
        counts: Running counts; their limits say when replanning is due.
        patterns: Merged reward patterns of all episodes except those in ``unmerged_patterns``.
        window_patterns: Merged patterns of the current window, with that exception, too.
        transitions_before_window: (X, S + 1) transitions before the window.
        unmerged_patterns: Patterns that arrived since the last merge.
        last_replan_episode: Number of episodes at the last replanning.
        window_start_episode: Number of episodes at the start of the window.
    """

    counts: RunningCounts
    patterns: RewardPatterns
    window_patterns: RewardPatterns
    transitions_before_window: NDArray[np.int64]
    unmerged_patterns: list[RewardPatterns] = field(default_factory=list)
    last_replan_episode: int = 0
    window_start_episode: int = 0

    @staticmethod
    def empty(settings: AgentSettings) -> Experience:
        """Make an empty experience."""
        sizes = settings.num_states, settings.num_actions, settings.horizon
        counts = RunningCounts.empty(sizes, settings.reward_values, ordered=False)
        no_patterns = empty_patterns(counts.num_state_actions, settings.reward_values.size)
        return Experience(
            counts, no_patterns, no_patterns, np.zeros((counts.num_state_actions, counts.num_states + 1), np.int64)
        )

    @property
    def episodes(self) -> int:
        """Number of episodes counted."""
        return self.counts.episodes

    @property
    def needs_replan(self) -> bool:
        """Whether some count or the number of episodes has grown enough to replan."""
        grown = self.counts.progress[STALE_SLOT] + self.counts.progress[NEW_VISITS_SLOT] > 0
        return bool(grown) or self.episodes >= self.last_replan_episode + max(
            1, int(REPLAN_EPISODE_GROWTH * self.last_replan_episode)
        )

    def window_is_full(self, window: int | None) -> bool:
        """Return whether the recent episodes are full: their number has doubled, or half of ``window`` is new."""
        min_new_episodes = self.window_start_episode if window is None else min(self.window_start_episode, window // 2)
        return self.episodes - self.window_start_episode >= max(FIRST_WINDOW_EPISODES, min_new_episodes)

    def start_window(self) -> None:
        """Start a new window of recent episodes."""
        self.merge_patterns()
        self.window_patterns = empty_patterns(self.counts.num_state_actions, self.patterns.num_reward_values)
        self.window_start_episode = self.episodes
        self.transitions_before_window = self.transition_counts()

    def transition_counts(self) -> NDArray[np.int64]:
        """Return the transition counts (X, S + 1); column S is the end."""
        return np.asarray(self.counts.count_matrix().toarray(), np.int64)

    def add(self, states: NDArray[Any], actions: NDArray[Any], reward_indices: NDArray[Any]) -> None:
        """Count episodes of one length L: states (n, L + 1), with S for the end, actions and reward indices (n, L)."""
        number, length = actions.shape
        if number == 0 or length == 0:
            return
        counts = self.counts
        steps, no_picks = np.full(number, length, np.int32), np.full((number, 2), -1, np.int64)
        arrays = states, actions, reward_indices
        state_table, action_table, reward_table = (np.ascontiguousarray(array, np.int32) for array in arrays)
        # Marks encode the episode and the step at which x was last visited; those of another length would be misread.
        counts.last_visit_mark[:] = 0
        counts.count((state_table, action_table, reward_table, steps), no_picks, REPLAN_COUNT_GROWTH, REPLAN_MIN_COUNT)
        x = state_action_index(state_table[:, :-1].astype(np.int64), action_table, counts.num_actions)
        symbols = (x * self.patterns.num_reward_values + reward_table).astype(self.patterns.symbols.dtype).ravel()
        offsets = np.arange(number + 1, dtype=np.int64) * length
        self.unmerged_patterns.append(
            RewardPatterns(symbols, offsets, np.ones(number), counts.num_state_actions, self.patterns.num_reward_values)
        )

    def add_episodes(self, episodes: Episodes) -> None:
        """Count whole episodes; those shorter than the horizon ended in the end state."""
        for length in np.unique(episodes.lengths):
            has_length = episodes.lengths == length
            states = episodes.states[has_length, : length + 1].copy()
            if length < self.counts.horizon:
                states[:, -1] = episodes.num_states
            self.add(states, episodes.actions[has_length, :length], episodes.reward_indices[has_length, :length])

    def reward_data(self) -> RewardData:
        """Return the data of the reward posterior: merged patterns and co-occurrence counts."""
        self.merge_patterns()
        co_counts = np.zeros((self.counts.num_state_actions, self.counts.num_state_actions), np.int64)
        keys, tables = self.counts.pairs.export_tables()
        x, y = np.divmod(keys, self.counts.num_state_actions)
        co_counts[x, y] = co_counts[y, x] = tables.sum(axis=(1, 2))
        return RewardData(self.patterns, co_counts)

    def merge_patterns(self) -> None:
        """Merge new patterns with equal ones."""
        # Merging sorts all patterns, so it is put off until someone needs them.
        if self.unmerged_patterns:
            self.window_patterns = merge_patterns(concat_patterns([self.window_patterns, *self.unmerged_patterns]))
            self.patterns = merge_patterns(concat_patterns([self.patterns, *self.unmerged_patterns]))
            self.unmerged_patterns = []

    def mark_replanned(self) -> None:
        """Record the counts of now; replanning is due when one of them has grown by the required factor."""
        counts = self.counts
        self.last_replan_episode = counts.episodes
        counts.visit_limits[:] = np.ceil(REPLAN_COUNT_GROWTH * np.maximum(counts.visits, REPLAN_MIN_COUNT)).astype(
            np.int64
        )
        known_rows = np.zeros(counts.num_state_actions, bool)
        set_limits(
            counts.pairs.slots,
            REPLAN_COUNT_GROWTH,
            REPLAN_MIN_COUNT,
            counts.ordered,
            counts.num_state_actions,
            known_rows,
        )
        counts.stale_rows[:] = False
        counts.progress[STALE_SLOT] = counts.progress[NEW_VISITS_SLOT] = 0

    def pair_limits(self) -> NDArray[np.int64]:
        """Return the limits of the pairs (P,), in the order of their keys."""
        # The order of keys does not depend on the history of the hash table, so a restored agent writes equal bytes.
        records = self.counts.pairs.slots
        return np.ascontiguousarray(records[self._sorted_slots(), LIMIT_COLUMN])

    def set_pair_limits(self, limits: NDArray[np.int64]) -> None:
        """Restore the limits that ``pair_limits`` returned."""
        self.counts.pairs.slots[self._sorted_slots(), LIMIT_COLUMN] = limits

    def _sorted_slots(self) -> NDArray[np.int64]:
        """Return the slots of the pairs, in the order of their keys."""
        keys = self.counts.pairs.slots[:, KEY_COLUMN]
        used = np.flatnonzero(keys != EMPTY_KEY)
        return np.asarray(used[np.argsort(keys[used])])


def empty_patterns(num_state_actions: int, num_values: int) -> RewardPatterns:
    """Make an empty set of reward patterns."""
    symbols = np.empty(0, symbol_dtype(num_state_actions * num_values))
    return RewardPatterns(symbols, np.zeros(1, np.int64), np.empty(0), num_state_actions, num_values)


def concat_patterns(batches: list[RewardPatterns]) -> RewardPatterns:
    """Concatenate reward patterns."""
    lengths = np.concatenate([np.diff(patterns.offsets) for patterns in batches])
    return RewardPatterns(
        np.concatenate([patterns.symbols for patterns in batches]),
        np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        np.concatenate([patterns.counts for patterns in batches]),
        batches[0].num_state_actions,
        batches[0].num_reward_values,
    )
