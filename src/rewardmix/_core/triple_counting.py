"""Kernels that count triples of state-actions: what the rewards of three visits of one episode were.

A triple is unordered, x <= y <= w, and has the key (x * X + y) * X + w. Its sample in an episode are the first visits
of its state-actions; where one is in it twice its first two visits, three times its first three. So an episode gives
at most one sample of each triple. Records and ``progress`` are those of ``pair_counting``, with Z*Z*Z outcome counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import kernel
from rewardmix._core.pair_counting import DIRTY, EPISODES, NEVER, USED, add_pair, watch


class TripleCounts(NamedTuple):
    """What counting triples adds to."""

    records: NDArray[np.int64]  # (capacity, at least 3 + Z*Z*Z)
    multiplier: np.uint64
    shift: np.uint64
    dirty: NDArray[np.bool_]  # (X, X), x <= y: whether a triple of both has grown to its limit; (0, 0): nobody asks
    progress: NDArray[np.int64]  # (4,)


def triples_of(visits: int) -> int:
    """The most different triples that so many visits can have."""
    return visits * (visits + 1) * (visits + 2) // 6


@kernel
def sorted_visits(xs: Any, zs: Any, steps: Any, seen: Any, outcomes: Any) -> Any:
    """The distinct x of an episode in increasing order, and the outcomes of their first three visits, -1 for none.

    Fills ``seen`` (H,) and ``outcomes`` (H, 3); returns how many x there are.
    """
    count = 0
    for t in range(steps):
        x, place = xs[t], count
        while place > 0 and seen[place - 1] >= x:
            place -= 1
        if place < count and seen[place] == x:
            visit = 1 if outcomes[place, 1] < 0 else 2
            if outcomes[place, visit] < 0:
                outcomes[place, visit] = zs[t]
            continue
        for i in range(count, place, -1):
            seen[i] = seen[i - 1]
            for visit in range(3):
                outcomes[i, visit] = outcomes[i - 1, visit]
        seen[place], outcomes[place, 0], outcomes[place, 1], outcomes[place, 2] = x, zs[t], -1, -1
        count += 1
    return count


@kernel
def count_triple(counts: Any, num_x: Any, x: Any, y: Any, w: Any, cell: Any, growth: Any, limit: Any) -> None:
    """One sample of the triple x <= y <= w; where it has grown, its three pairs are dirty."""
    slot = add_pair(counts.records, (x * num_x + y) * num_x + w, cell, counts.multiplier, counts.shift, limit)
    if slot < 0:
        slot = -1 - slot
        counts.progress[USED] += 1
    if watch(counts.records, slot, growth):
        counts.progress[DIRTY] += 1
        counts.dirty[x, y] = counts.dirty[x, w] = counts.dirty[y, w] = True


@kernel
def count_all_triples(
    counts: Any,
    num_x: Any,
    num_values: Any,
    xs: Any,
    zs: Any,
    steps: Any,
    growth: Any,
    limit: Any,
    seen: Any,
    outcomes: Any,
) -> None:
    """All triples of one episode; ``seen`` (H,) and ``outcomes`` (H, 3) are written over."""
    number = sorted_visits(xs, zs, steps, seen, outcomes)
    for i in range(number):
        for j in range(i, number):
            second = outcomes[j, 1] if j == i else outcomes[j, 0]
            if second < 0:
                continue
            front = (outcomes[i, 0] * num_values + second) * num_values
            for k in range(j, number):
                visit = 0 if k > j else 1 if j > i else 2
                third = outcomes[k, visit]
                if third >= 0:
                    count_triple(counts, num_x, seen[i], seen[j], seen[k], front + third, growth, limit)


@kernel
def count_triple_symbols(
    counts: Any, symbols: Any, offsets: Any, num_x: Any, num_values: Any, longest: Any, capacity: Any
) -> None:
    """Triples of the episodes not counted yet; none has more steps than ``longest``.

    Stops before an episode that might need more than ``capacity`` records in all.
    """
    xs, zs, seen = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest, np.int64)
    outcomes = np.empty((longest, 3), np.int64)
    for k in range(counts.progress[EPISODES], offsets.size - 1):
        steps = offsets[k + 1] - offsets[k]
        if counts.progress[USED] + steps * (steps + 1) * (steps + 2) // 6 > capacity:
            return
        for t in range(steps):
            symbol = np.int64(symbols[offsets[k] + t])
            xs[t] = symbol // num_values
            zs[t] = symbol - xs[t] * num_values
        count_all_triples(counts, num_x, num_values, xs, zs, steps, 1.0, NEVER, seen, outcomes)
        counts.progress[EPISODES] += 1
