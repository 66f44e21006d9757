"""Kernels that count: first visits, pairs of first visits, and moves of episodes.

Steps come as symbols x*Z + z (state-action x = s*A + a, reward value z), episode after episode.

Pairs are counted in an open-addressing table of outcome tables, keyed x * X + y. With ``multiplier`` 1 and ``shift`` 0
the key is its own slot, and the table is a plain dense array. A record is one row of int64; what callers rely on:

    KEY        the key, FREE if the record is not in use
    SAMPLES    number of samples, the sum of the outcome counts
    LIMIT      number of samples at which the pair has grown, NEVER where nobody watches it
    TABLE ...  Z*Z outcome counts, z at x times Z plus z' at y; the columns behind them pad the record to a cache line

``progress`` is one row of int64:

    EPISODES   episodes counted
    USED       records in use
    DIRTY      pairs that have grown to their limit
    NEWS       state-actions that have grown to theirs
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import deferred, kernel

KEY, SAMPLES, LIMIT, TABLE = 0, 1, 2, 3
"""Columns of a record; the outcome counts begin at TABLE."""

EPISODES, USED, DIRTY, NEWS = 0, 1, 2, 3
"""Places in ``progress``."""

FREE = -1
"""The key of a record that is not in use."""

NEVER = 1 << 62
"""The limit of a pair that nobody watches."""


class PairCounts(NamedTuple):
    """What counting pairs adds to. Kernels take any named tuple that has these fields."""

    records: NDArray[np.int64]  # (capacity, at least 3 + Z*Z)
    multiplier: np.uint64
    shift: np.uint64
    outcomes: NDArray[np.int64]  # (X, Z) of first visits
    mark: NDArray[np.int64]  # (X,) where and when x was last met, see ``first_visits``
    dirty: NDArray[np.bool_]  # (X,) whether a pair of x has grown to its limit
    progress: NDArray[np.int64]  # (4,)


@kernel
def slot_of(records: Any, key: Any, multiplier: Any, shift: Any) -> Any:
    """Where ``key`` is, or where it would go."""
    mask = records.shape[0] - 1
    slot = np.int64((np.uint64(key) * multiplier) >> shift) & mask
    while records[slot, KEY] != key and records[slot, KEY] != FREE:
        slot = (slot + 1) & mask
    return slot


@kernel
def add_pair(records: Any, key: Any, cell: Any, multiplier: Any, shift: Any, fresh_limit: Any) -> Any:
    """Count one sample of a pair; the slot it went to, minus one minus that if the pair is new."""
    slot = slot_of(records, key, multiplier, shift)
    new = records[slot, KEY] == FREE
    if new:
        records[slot, KEY] = key
        records[slot, LIMIT] = fresh_limit
    records[slot, SAMPLES] += 1
    records[slot, TABLE + cell] += 1
    return -1 - slot if new else slot


@kernel
def add_tables(records: Any, keys: Any, tables: Any, multiplier: Any, shift: Any) -> Any:
    """Add whole outcome tables (P, Z*Z); how many of the keys were new. The caller has made room."""
    used = 0
    for p in range(keys.size):
        slot = slot_of(records, keys[p], multiplier, shift)
        if records[slot, KEY] == FREE:
            records[slot, KEY] = keys[p]
            used += 1
        for cell in range(tables.shape[1]):
            records[slot, TABLE + cell] += tables[p, cell]
            records[slot, SAMPLES] += tables[p, cell]
    return used


@kernel
def rehash(old: Any, multiplier: Any, shift: Any, out: Any) -> None:
    """Move every record in use to the larger table ``out``."""
    for i in range(old.shape[0]):
        if old[i, KEY] != FREE:
            out[slot_of(out, old[i, KEY], multiplier, shift)] = old[i]


@kernel
def first_visits(xs: Any, zs: Any, steps: Any, mark: Any, stamp: Any, seen: Any, once: Any, twice: Any) -> Any:
    """The distinct x of one episode in order of appearance, with the outcomes of the first and second visit.

    ``mark`` (X,) holds stamp * H + position for the x met in this episode, H being the room in ``seen``.
    ``twice`` is -1 where there was none.
    """
    count = 0
    base = stamp * seen.size
    for t in range(steps):
        x = xs[t]
        if mark[x] < base:
            mark[x] = base + count
            seen[count], once[count], twice[count] = x, zs[t], -1
            count += 1
        elif twice[mark[x] - base] < 0:
            twice[mark[x] - base] = zs[t]
    return count


@kernel
def watch(records: Any, slot: Any, growth: Any) -> Any:
    """Whether this pair has grown to its limit; moves the limit on if so."""
    samples = records[slot, SAMPLES]
    if samples < records[slot, LIMIT]:
        return False
    records[slot, LIMIT] = max(samples + 1, np.int64(np.ceil(growth * samples)))
    return True


def _set_limits_together(records: Any, growth: Any, known: Any, ordered: Any, num_x: Any, touched: Any) -> None:
    """``set_limits`` by NumPy."""
    taken = records[:, KEY] >= 0
    samples = records[:, SAMPLES]
    later = np.ceil(growth * np.maximum(samples, known)).astype(np.int64)
    records[:, LIMIT] = np.where(taken, np.maximum(samples + 1, later), records[:, LIMIT])
    sure = records[taken & (samples > known), KEY]
    touched[sure // num_x] = True
    if not ordered:
        touched[sure % num_x] = True


@deferred(lambda records, *_: 10 + records.shape[0] // 100, play=_set_limits_together)
def set_limits(records: Any, growth: Any, known: Any, ordered: Any, num_x: Any, touched: Any) -> None:
    """After everything was planned anew: when the next plan is due for each pair, and which rows have a known pair."""
    for i in range(records.shape[0]):
        if records[i, KEY] >= 0:
            samples = records[i, SAMPLES]
            records[i, LIMIT] = max(samples + 1, np.int64(np.ceil(growth * max(samples, known))))
            if samples > known:
                touched[records[i, KEY] // num_x] = True
                if not ordered:
                    touched[records[i, KEY] % num_x] = True


@kernel
def count_pair(counts: Any, one: Any, other: Any, cell: Any, growth: Any, limit: Any, both: Any) -> None:
    """One sample of the pair with key one * X + other; where it has grown, ``one`` is dirty (and ``other``: both).

    ``limit`` is that of a pair that is new, ``growth`` the factor between two limits.
    """
    key = one * counts.mark.size + other
    slot = add_pair(counts.records, key, cell, counts.multiplier, counts.shift, limit)
    if slot < 0:
        slot = -1 - slot
        counts.progress[USED] += 1
    if watch(counts.records, slot, growth):
        counts.progress[DIRTY] += 1
        counts.dirty[one] = True
        if both:
            counts.dirty[other] = True


@kernel
def count_all_pairs(counts: Any, xs: Any, zs: Any, steps: Any, growth: Any, limit: Any, room: Any) -> None:
    """First visits and all unordered pairs of them, of the next episode; ``room`` (3, H) is written over."""
    seen, once, twice = room[0], room[1], room[2]
    num_values = counts.outcomes.shape[1]
    number = first_visits(xs, zs, steps, counts.mark, counts.progress[EPISODES] + 1, seen, once, twice)
    for i in range(number):
        x, z = seen[i], once[i]
        counts.outcomes[x, z] += 1
        if twice[i] >= 0:
            count_pair(counts, x, x, z * num_values + twice[i], growth, limit, True)
        for j in range(i):
            y, other = seen[j], once[j]
            if x < y:
                count_pair(counts, x, y, z * num_values + other, growth, limit, True)
            else:
                count_pair(counts, y, x, other * num_values + z, growth, limit, True)


@kernel
def count_symbols(counts: Any, symbols: Any, offsets: Any, longest: Any, capacity: Any) -> None:
    """First visits and pairs of the episodes not counted yet; none has more steps than ``longest``.

    Stops before an episode that might need more than ``capacity`` records in all.
    """
    num_values = counts.outcomes.shape[1]
    xs, zs, room = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty((3, longest), np.int64)
    for k in range(counts.progress[EPISODES], offsets.size - 1):
        steps = offsets[k + 1] - offsets[k]
        most = min(steps, counts.mark.size)
        if counts.progress[USED] + most * (most + 1) // 2 > capacity:
            return
        for t in range(steps):
            symbol = np.int64(symbols[offsets[k] + t])
            xs[t] = symbol // num_values
            zs[t] = symbol - xs[t] * num_values
        count_all_pairs(counts, xs, zs, steps, 1.0, NEVER, room)
        counts.progress[EPISODES] += 1


@kernel
def count_dense(symbols: Any, lengths: Any, point: Any, met: Any, visits: Any, singles: Any, pairs: Any) -> None:
    """Ordered pairs of symbols at first visits (N*N,), and first visits (N,), by plain arrays. ``point``: symbol -> x.

    ``met`` (X,) is the last episode that x was met in, ``visits`` how often there. The only pairs with the same x are
    its first two visits.
    """
    num_symbols = singles.size
    seen = np.empty(max(1, lengths.max() if lengths.size else 1), np.int64)
    begin = 0
    for k in range(lengths.size):
        count = 0
        for i in range(begin, begin + lengths[k]):
            symbol = np.int64(symbols[i])
            x = point[symbol]
            if met[x] != k:
                met[x] = k
                visits[x] = 1
                singles[symbol] += 1
                for j in range(count):
                    pairs[seen[j] + symbol] += 1
                seen[count] = symbol * num_symbols
                count += 1
            elif visits[x] == 1:
                visits[x] = 2
                for j in range(count):
                    if point[seen[j] // num_symbols] == x:
                        pairs[seen[j] + symbol] += 1
                        break
        begin += lengths[k]


def _fill_moves_together(
    symbols: Any,
    lengths: Any,
    last: Any,
    point: Any,
    num_actions: Any,
    horizon: Any,
    width: Any,
    starts: Any,
    counts: Any,
    codes: Any,
) -> Any:
    """``fill_moves`` by NumPy."""
    ends = np.cumsum(lengths)
    x = point[symbols[: lengths.sum()]]
    following = np.empty_like(x)
    following[:-1] = x[1:] // num_actions
    following[ends - 1] = np.where(lengths == horizon, last, width - 1)
    np.add.at(starts, x[ends - lengths] // num_actions, 1)
    moves = (x * width + following)[following >= 0]
    if codes.size:
        codes[: moves.size] = moves
        return moves.size
    np.add.at(counts, moves, 1)
    return 0


@deferred(lambda symbols, *_: 10 + symbols.size // 100, play=_fill_moves_together)
def fill_moves(
    symbols: Any,
    lengths: Any,
    last: Any,
    point: Any,
    num_actions: Any,
    horizon: Any,
    width: Any,
    starts: Any,
    counts: Any,
    codes: Any,
) -> Any:
    """Starts (S,), and moves x * width + next state: added up in ``counts``, or listed in ``codes`` if that has room.

    The last step of an episode that ended before its horizon leads to the end, column width - 1.
    """
    used = 0
    begin = 0
    listing = codes.size > 0
    for k in range(lengths.size):
        end = begin + lengths[k]
        x = point[symbols[begin]]
        starts[x // num_actions] += 1
        for i in range(begin + 1, end):
            after = point[symbols[i]]
            code = x * width + after // num_actions
            if listing:
                codes[used] = code
                used += 1
            else:
                counts[code] += 1
            x = after
        following = last[k] if lengths[k] == horizon else width - 1
        if following >= 0:
            if listing:
                codes[used] = x * width + following
                used += 1
            else:
                counts[x * width + following] += 1
        begin = end
    return used
