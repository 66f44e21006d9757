"""Count triples of state-actions: the rewards of three visits in one episode (compiled kernels).

A triple is unordered, x <= y <= w, and has the key (x * X + y) * X + w. Its sample in an episode are the first visits
of its state-actions; an x that occurs twice gives its first two visits, three times its first three. So an episode
gives at most one sample of each triple. Records and ``progress`` are those of ``pair_count_kernels``, with Z*Z*Z reward
counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import kernel
from rewardmix._core.pair_count_kernels import (
    EPISODES_SLOT,
    NO_LIMIT_COUNT,
    STALE_SLOT,
    USED_SLOT,
    add_pair,
    advance_limit,
)


class TripleCounts(NamedTuple):
    """Hold the arrays to which triples are counted."""

    records: NDArray[np.int64]  # (capacity, at least 3 + Z*Z*Z)
    multiplier: np.uint64
    shift: np.uint64
    stale_rows: NDArray[np.bool_]  # (X, X), x <= y: whether a triple of both has reached its limit; (0, 0) if unused
    progress: NDArray[np.int64]  # (4,)


def max_triples(visits: int) -> int:
    """Return the largest number of different triples among ``visits`` visits."""
    return visits * (visits + 1) * (visits + 2) // 6


@kernel
def sort_visits(xs: Any, zs: Any, steps: Any, distinct: Any, reward_indices: Any) -> Any:
    """List the distinct x of an episode in increasing order, with the reward indices of their first three visits.

    Fills ``distinct`` (H,) and ``reward_indices`` (H, 3), -1 for a missing visit; return how many x there are.
    """
    count = 0
    for t in range(steps):
        x, position = xs[t], count
        # Insertion sort: episodes are short, and the insertion point also finds repeated visits.
        while position > 0 and distinct[position - 1] >= x:
            position -= 1
        if position < count and distinct[position] == x:
            visit = 1 if reward_indices[position, 1] < 0 else 2
            if reward_indices[position, visit] < 0:
                reward_indices[position, visit] = zs[t]
            continue
        for i in range(count, position, -1):
            distinct[i] = distinct[i - 1]
            for visit in range(3):
                reward_indices[i, visit] = reward_indices[i - 1, visit]
        distinct[position] = x
        reward_indices[position, 0], reward_indices[position, 1], reward_indices[position, 2] = zs[t], -1, -1
        count += 1
    return count


@kernel
def count_triple(
    counts: Any, num_state_actions: Any, x: Any, y: Any, w: Any, cell: Any, growth: Any, limit: Any
) -> None:
    """Count one sample of the triple x <= y <= w; if it reaches its limit, mark its three pairs as stale."""
    slot = add_pair(
        counts.records,
        (x * num_state_actions + y) * num_state_actions + w,
        cell,
        counts.multiplier,
        counts.shift,
        limit,
    )
    if slot < 0:
        slot = -1 - slot
        counts.progress[USED_SLOT] += 1
    if advance_limit(counts.records, slot, growth):
        counts.progress[STALE_SLOT] += 1
        counts.stale_rows[x, y] = counts.stale_rows[x, w] = counts.stale_rows[y, w] = True


@kernel
def count_all_triples(
    counts: Any,
    num_state_actions: Any,
    num_values: Any,
    xs: Any,
    zs: Any,
    steps: Any,
    growth: Any,
    limit: Any,
    distinct: Any,
    reward_indices: Any,
) -> None:
    """Count all triples of one episode; ``distinct`` (H,) and ``reward_indices`` (H, 3) are scratch space."""
    num_distinct = sort_visits(xs, zs, steps, distinct, reward_indices)
    for i in range(num_distinct):
        for j in range(i, num_distinct):
            second = reward_indices[j, 1] if j == i else reward_indices[j, 0]
            if second < 0:
                continue
            prefix = (reward_indices[i, 0] * num_values + second) * num_values
            for k in range(j, num_distinct):
                # The third factor is the next unused visit of its x: the second or third one if x is already in the
                # triple.
                visit = 0 if k > j else 1 if j > i else 2
                third = reward_indices[k, visit]
                if third >= 0:
                    x, y, w = distinct[i], distinct[j], distinct[k]
                    count_triple(counts, num_state_actions, x, y, w, prefix + third, growth, limit)


@kernel
def count_triple_symbols(
    counts: Any, symbols: Any, offsets: Any, num_state_actions: Any, num_values: Any, longest: Any, capacity: Any
) -> None:
    """Count triples of the episodes not counted yet; none has more than ``longest`` steps.

    Stops before an episode that might need more than ``capacity`` records in total, so that the caller can grow the
    table.
    """
    xs, zs, distinct = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest, np.int64)
    reward_indices = np.empty((longest, 3), np.int64)
    for k in range(counts.progress[EPISODES_SLOT], offsets.size - 1):
        steps = offsets[k + 1] - offsets[k]
        if counts.progress[USED_SLOT] + steps * (steps + 1) * (steps + 2) // 6 > capacity:
            return
        for t in range(steps):
            symbol = np.int64(symbols[offsets[k] + t])
            xs[t] = symbol // num_values
            zs[t] = symbol - xs[t] * num_values
        count_all_triples(
            counts, num_state_actions, num_values, xs, zs, steps, 1.0, NO_LIMIT_COUNT, distinct, reward_indices
        )
        counts.progress[EPISODES_SLOT] += 1
