"""Reduce the number of distinct values on request: rewards in bins, rare states merged.

Bins contain about equal numbers of rewards, and a reward counts as the mean of its bin, which preserves the mean reward
of the log. Equal rewards stay together: a reward that would fill several bins gets its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, raise_input_error
from rewardmix.logs import arrow_io
from rewardmix.logs.columns import ColumnNames, StateMerge, count_labels, to_floats
from rewardmix.logs.executors import ExecutorPool
from rewardmix.logs.log import Repair
from rewardmix.logs.sources import LogSource
from rewardmix.reward_scale import RewardScale, round_nine_decimals

MAX_DISTINCT_REWARDS = 1 << 20
"""Largest number of distinct rewards that are counted individually.

If there are more, rewards that agree in four digits are pooled.
"""

FLOAT_KEY_MASK = np.uint64((1 << 64) - (1 << 38))
"""Mask of the sign, exponent and fourteen fraction bits of a float64."""

OTHER_STATE_NAME = "other"
"""Name of the merged state."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of rewards; histograms add.

    Attributes:
        values: (V,) rewards, increasing; of pooled rewards the smallest.
        counts: (V,) number of rewards.
        sums: (V,) sum of the rewards.
        is_rounded: whether rewards that agree in four digits are pooled.
    """

    values: Floats
    counts: NDArray[np.int64]
    sums: Floats
    is_rounded: bool = False

    @staticmethod
    def from_rewards(values: Floats, counts: NDArray[np.int64], sums: Floats, pool: bool = False) -> Histogram:
        """Make a histogram from rewards with their counts, in any order."""
        order = np.argsort(values, kind="stable")
        # Adding 0.0 turns -0.0 into 0.0, which has another bit pattern but is an equal reward.
        values = values[order] + 0.0
        is_first = np.append(True, values[1:] != values[:-1])[: values.size]
        pool = pool or bool(is_first.sum() > MAX_DISTINCT_REWARDS)
        if pool:
            # Clearing low bits pools neighbors. Pooling depends on the value alone and not on how the log is
            # split.
            keys = values.view(np.uint64) & FLOAT_KEY_MASK
            is_first = np.append(True, keys[1:] != keys[:-1])[: values.size]
        group, size = np.cumsum(is_first) - 1, int(is_first.sum())
        total = np.bincount(group, weights=counts[order], minlength=size).astype(np.int64)
        group_sums = np.bincount(group, weights=sums[order], minlength=size).astype(np.float64)
        return Histogram(values[is_first], total, group_sums, pool)

    def __add__(self, other: Histogram) -> Histogram:
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("values", "counts", "sums"))
        values, counts, sums = (np.concatenate(pair) for pair in pairs)
        return Histogram.from_rewards(values, counts, sums, self.is_rounded or other.is_rounded)

    def to_bins(self, max_bins: int) -> RewardScale:
        """Make at most ``max_bins`` bins of about equal counts.

        A reward is in bin floor(max_bins * rank / total), where rank is the middle rank of its ties.
        """
        # Twice the middle rank, so that the computation stays in exact integers.
        middle = 2 * np.cumsum(self.counts) - self.counts
        number = middle * max_bins // (2 * int(self.counts.sum()))
        begin = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
        ends = np.append(begin[1:], self.counts.size)
        means = [float(self.sums[a:b].sum() / self.counts[a:b].sum()) for a, b in zip(begin, ends, strict=True)]
        return RewardScale(np.array(means), self.values[begin[1:]])


def count_rewards(chunk: Any, names: ColumnNames) -> Histogram:
    """Count the finite rewards of a chunk."""
    empty = np.empty(0)
    histogram = Histogram(empty, np.empty(0, np.int64), empty)
    for table in chunk.batches([names.reward], frozenset()):
        with arrow_io.raise_read_errors(chunk.name):
            rewards = to_floats(table.column(names.reward), names.reward)
        rewards = round_nine_decimals(rewards[np.isfinite(rewards)])
        histogram = histogram + Histogram.from_rewards(rewards, np.ones(rewards.size, np.int64), rewards)
    return histogram


def make_reward_bins(
    source: LogSource, max_bins: int | None, pool: ExecutorPool
) -> tuple[RewardScale | None, tuple[Repair, ...]]:
    """Make bins for the rewards of a log if there are more distinct ones than requested, and describe the repair."""
    if max_bins is None:
        return None, ()
    first, *others = pool.map(count_rewards, source.chunks, common=(source.names,))
    histogram = sum(others, start=first)
    if histogram.values.size <= max_bins:
        return None, ()
    bins = histogram.to_bins(max_bins)
    num_distinct = f"more than {MAX_DISTINCT_REWARDS}" if histogram.is_rounded else str(histogram.values.size)
    text = (
        f"{histogram.counts.sum()} rewards with {num_distinct} distinct values were put into {len(bins.values)} bins "
        f"of about equal counts. Each reward counts as the mean of its bin: {_format_list(bins.values)}."
    )
    return bins, (Repair("rewards", int(histogram.counts.sum()), text),)


def _format_list(values: Sequence[float], max_items: int = 10) -> str:
    texts = [f"{value:.6g}" for value in values]
    return ", ".join(texts if len(texts) <= max_items else [*texts[: max_items - 1], "...", texts[-1]])


def count_states(chunk: Any, names: ColumnNames, label_columns: frozenset[str]) -> dict[str, Counter[Any]]:
    """Count how often each state of a chunk occurs as a state and as a next state."""
    roles = {role: name for role, name in names.roles.items() if role in ("state", "next_state")}
    counts: dict[str, Counter[Any]] = {role: Counter() for role in roles}
    for table in chunk.batches(list(roles.values()), label_columns):
        with arrow_io.raise_read_errors(chunk.name):
            for role, name in roles.items():
                counts[role].update(count_labels(table.column(name), name, label_columns))
    return counts


def make_state_merge(
    source: LogSource, min_count: int | None, pool: ExecutorPool
) -> tuple[StateMerge | None, tuple[Repair, ...]]:
    """Merge the states with fewer visits than requested, if there are any, and describe the repair."""
    if min_count is None:
        return None, ()
    counts: dict[str, Counter[Any]] = {}
    for chunk_counts in pool.map(count_states, source.chunks, common=(source.names, source.label_columns)):
        for role, counter in chunk_counts.items():
            counts.setdefault(role, Counter()).update(counter)
    # Most visits occur in both columns. The larger of the two counts avoids counting them twice.
    visits = {
        state: max(counter[state] for counter in counts.values()) for counter in counts.values() for state in counter
    }
    frequent_states = sorted(state for state, count in visits.items() if count >= min_count)
    if len(frequent_states) == len(visits):
        return None, ()
    if not frequent_states:
        raise_input_error(
            "min_state_count", min_count, f"at most {max(visits.values())}, the visits of the most frequent state"
        )
    rare = [state for state in visits if visits[state] < min_count and state != OTHER_STATE_NAME]
    rows = sum(counts["state"][state] for state in rare)
    text = (
        f"{len(rare)} states with fewer than {min_count} visits, in {rows} rows, were merged into {OTHER_STATE_NAME!r}."
    )
    # A state that is called "other" already is the merged state.
    labels = tuple(label for label in frequent_states if label != OTHER_STATE_NAME)
    return StateMerge(labels, (*map(str, labels), OTHER_STATE_NAME)), (Repair("states", len(rare), text),)
