"""Count first visits, pairs of first visits, and transitions of episodes (compiled kernels).

Steps come as symbols x*Z + z (state-action x = s*A + a, reward index z), episode after episode.

Pairs are counted in an open-addressing hash table of reward counts, keyed x * X + y. With ``multiplier`` 1 and
``shift`` 0 the key is its own slot, and the table is a dense array. A record is one row of int64 with these columns:

    KEY        the key, -1 if the record is not in use
    SAMPLES    number of samples, the sum of the reward counts
    LIMIT      number of samples at which the pair's plan becomes stale, 2^62 if it has no limit
    TABLE ...  Z*Z reward counts, z at x times Z plus z' at y; further columns pad the record to a cache line

``progress`` is one row of int64:

    EPISODES     episodes counted
    USED         records in use
    STALE        pairs that have reached their limit
    NEW_VISITS   state-actions that have reached their visit limit
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import kernel, lazy_jit

KEY_COLUMN, SAMPLES_COLUMN, LIMIT_COLUMN, TABLE_COLUMN = 0, 1, 2, 3
"""Columns of a record; the reward counts begin at the last of them.

The columns are the key, the number of samples, the limit and the first reward count.
"""

EPISODES_SLOT, USED_SLOT, STALE_SLOT, NEW_VISITS_SLOT = 0, 1, 2, 3
"""Slots of ``progress``."""

EMPTY_KEY = -1
"""Key of a record that is not in use."""

NO_LIMIT_COUNT = 1 << 62
"""Limit of a pair that never becomes stale."""


class PairCounts(NamedTuple):
    """Hold the arrays to which pairs are counted; kernels accept any named tuple with these fields."""

    records: NDArray[np.int64]  # (capacity, at least 3 + Z*Z)
    multiplier: np.uint64
    shift: np.uint64
    reward_counts: NDArray[np.int64]  # (X, Z) of first visits
    last_visit_mark: NDArray[np.int64]  # (X,) episode and position of the last visit, see ``first_visits``
    stale_rows: NDArray[np.bool_]  # (X,) whether a pair of x has reached its limit
    progress: NDArray[np.int64]  # (4,)


@kernel
def find_slot(records: Any, key: Any, multiplier: Any, shift: Any) -> Any:
    """Return the slot of ``key``, or the free slot where it would be inserted."""
    mask = records.shape[0] - 1
    # Fibonacci hashing: the upper bits of the product with 2^64 / golden ratio spread consecutive keys well. Linear
    # probing then stays within few cache lines while at most half of the records are in use.
    slot = np.int64((np.uint64(key) * multiplier) >> shift) & mask
    while records[slot, KEY_COLUMN] != key and records[slot, KEY_COLUMN] != EMPTY_KEY:
        slot = (slot + 1) & mask
    return slot


@kernel
def add_pair(records: Any, key: Any, cell: Any, multiplier: Any, shift: Any, initial_limit: Any) -> Any:
    """Count one sample of a pair; return its slot, or -1 - slot if the pair is new."""
    slot = find_slot(records, key, multiplier, shift)
    new = records[slot, KEY_COLUMN] == EMPTY_KEY
    if new:
        records[slot, KEY_COLUMN] = key
        records[slot, LIMIT_COLUMN] = initial_limit
    records[slot, SAMPLES_COLUMN] += 1
    records[slot, TABLE_COLUMN + cell] += 1
    return -1 - slot if new else slot


@kernel
def add_tables(records: Any, keys: Any, tables: Any, multiplier: Any, shift: Any) -> Any:
    """Add reward counts (P, Z*Z) to the records of ``keys``; return how many keys were new. Space must be reserved."""
    used = 0
    for p in range(keys.size):
        slot = find_slot(records, keys[p], multiplier, shift)
        if records[slot, KEY_COLUMN] == EMPTY_KEY:
            records[slot, KEY_COLUMN] = keys[p]
            used += 1
        for cell in range(tables.shape[1]):
            records[slot, TABLE_COLUMN + cell] += tables[p, cell]
            records[slot, SAMPLES_COLUMN] += tables[p, cell]
    return used


@kernel
def rehash(old: Any, multiplier: Any, shift: Any, out: Any) -> None:
    """Copy every record in use to the larger table ``out``."""
    for i in range(old.shape[0]):
        if old[i, KEY_COLUMN] != EMPTY_KEY:
            out[find_slot(out, old[i, KEY_COLUMN], multiplier, shift)] = old[i]


@kernel
def first_visits(xs: Any, zs: Any, steps: Any, mark: Any, stamp: Any, distinct: Any, once: Any, twice: Any) -> Any:
    """Find the distinct x of one episode in order of appearance, with the reward index of the first and second visit.

    Fills ``distinct``, ``once`` and ``twice`` (H,), ``twice`` with -1 without a second visit. ``mark`` (X,) holds
    stamp * H + position for the x visited in this episode. Return the number of distinct x.
    """
    count = 0
    # Marks of earlier episodes are smaller than this, so ``mark`` need not be cleared between episodes.
    base = stamp * distinct.size
    for t in range(steps):
        x = xs[t]
        if mark[x] < base:
            mark[x] = base + count
            distinct[count], once[count], twice[count] = x, zs[t], -1
            count += 1
        elif twice[mark[x] - base] < 0:
            twice[mark[x] - base] = zs[t]
    return count


@kernel
def advance_limit(records: Any, slot: Any, growth: Any) -> Any:
    """Return whether a pair has reached its limit; if so, set its next limit."""
    samples = records[slot, SAMPLES_COLUMN]
    if samples < records[slot, LIMIT_COLUMN]:
        return False
    records[slot, LIMIT_COLUMN] = max(samples + 1, np.int64(np.ceil(growth * samples)))
    return True


def _set_limits_numpy(
    records: Any, growth: Any, saturation_count: Any, ordered: Any, num_state_actions: Any, touched: Any
) -> None:
    """Set limits as ``set_limits`` does, with NumPy."""
    is_used = records[:, KEY_COLUMN] >= 0
    samples = records[:, SAMPLES_COLUMN]
    limits = np.ceil(growth * np.maximum(samples, saturation_count)).astype(np.int64)
    records[:, LIMIT_COLUMN] = np.where(is_used, np.maximum(samples + 1, limits), records[:, LIMIT_COLUMN])
    known_keys = records[is_used & (samples > saturation_count), KEY_COLUMN]
    touched[known_keys // num_state_actions] = True
    if not ordered:
        touched[known_keys % num_state_actions] = True


@lazy_jit(lambda records, *_: 10 + records.shape[0] // 100, numpy_impl=_set_limits_numpy)
def set_limits(
    records: Any, growth: Any, saturation_count: Any, ordered: Any, num_state_actions: Any, touched: Any
) -> None:
    """Set each pair's next limit after a full replan, and mark the rows with a known pair in ``touched``."""
    for i in range(records.shape[0]):
        if records[i, KEY_COLUMN] >= 0:
            samples = records[i, SAMPLES_COLUMN]
            # Below the saturation count a bonus is constant, so its plan cannot change before that count has grown.
            records[i, LIMIT_COLUMN] = max(samples + 1, np.int64(np.ceil(growth * max(samples, saturation_count))))
            if samples > saturation_count:
                touched[records[i, KEY_COLUMN] // num_state_actions] = True
                if not ordered:
                    touched[records[i, KEY_COLUMN] % num_state_actions] = True


@kernel
def count_pair(counts: Any, x: Any, other: Any, cell: Any, growth: Any, limit: Any, both: Any) -> None:
    """Count one sample of the pair with key x * X + other.

    If the pair reaches its limit, the row of ``x`` becomes stale, with ``both`` also the row of ``other``.
    ``limit`` is the limit of a new pair, ``growth`` the factor between two limits.
    """
    key = x * counts.last_visit_mark.size + other
    slot = add_pair(counts.records, key, cell, counts.multiplier, counts.shift, limit)
    if slot < 0:
        slot = -1 - slot
        counts.progress[USED_SLOT] += 1
    if advance_limit(counts.records, slot, growth):
        counts.progress[STALE_SLOT] += 1
        counts.stale_rows[x] = True
        if both:
            counts.stale_rows[other] = True


@kernel
def count_all_pairs(counts: Any, xs: Any, zs: Any, steps: Any, growth: Any, limit: Any, scratch: Any) -> None:
    """Count first visits and all unordered pairs of them, of one episode; ``scratch`` (3, H) is scratch space."""
    distinct, once, twice = scratch[0], scratch[1], scratch[2]
    num_values = counts.reward_counts.shape[1]
    num_distinct = first_visits(
        xs, zs, steps, counts.last_visit_mark, counts.progress[EPISODES_SLOT] + 1, distinct, once, twice
    )
    for i in range(num_distinct):
        x, z = distinct[i], once[i]
        counts.reward_counts[x, z] += 1
        if twice[i] >= 0:
            count_pair(counts, x, x, z * num_values + twice[i], growth, limit, True)
        for j in range(i):
            y, other_z = distinct[j], once[j]
            # The table of an unordered pair is stored for the smaller index first, with its reward index as the row.
            if x < y:
                count_pair(counts, x, y, z * num_values + other_z, growth, limit, True)
            else:
                count_pair(counts, y, x, other_z * num_values + z, growth, limit, True)


@kernel
def count_symbols(counts: Any, symbols: Any, offsets: Any, longest: Any, capacity: Any) -> None:
    """Count first visits and pairs of the episodes not counted yet; none has more than ``longest`` steps.

    Stops before an episode that might need more than ``capacity`` records in total, so that the caller can grow the
    table.
    """
    num_values = counts.reward_counts.shape[1]
    xs, zs, scratch = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty((3, longest), np.int64)
    for k in range(counts.progress[EPISODES_SLOT], offsets.size - 1):
        steps = offsets[k + 1] - offsets[k]
        max_distinct = min(steps, counts.last_visit_mark.size)
        if counts.progress[USED_SLOT] + max_distinct * (max_distinct + 1) // 2 > capacity:
            return
        for t in range(steps):
            symbol = np.int64(symbols[offsets[k] + t])
            xs[t] = symbol // num_values
            zs[t] = symbol - xs[t] * num_values
        count_all_pairs(counts, xs, zs, steps, 1.0, NO_LIMIT_COUNT, scratch)
        counts.progress[EPISODES_SLOT] += 1


@kernel
def count_dense(
    symbols: Any, lengths: Any, state_actions: Any, last_episode: Any, visits: Any, visit_counts: Any, pair_counts: Any
) -> None:
    """Count first visits (N,) and ordered pairs of symbols at first visits (N*N,), in plain arrays.

    ``state_actions`` maps symbols to x. ``last_episode`` (X,) is the last episode with a visit of x, ``visits`` the
    number of visits in it. Only the first two visits of an x give a pair of x with itself.
    """
    num_symbols = visit_counts.size
    offsets = np.empty(max(1, lengths.max() if lengths.size else 1), np.int64)
    begin = 0
    for k in range(lengths.size):
        count = 0
        for i in range(begin, begin + lengths[k]):
            symbol = np.int64(symbols[i])
            x = state_actions[symbol]
            if last_episode[x] != k:
                last_episode[x] = k
                visits[x] = 1
                visit_counts[symbol] += 1
                for j in range(count):
                    # ``offsets`` are the row offsets of earlier symbols, so the inner loop needs no multiplication.
                    pair_counts[offsets[j] + symbol] += 1
                offsets[count] = symbol * num_symbols
                count += 1
            elif visits[x] == 1:
                visits[x] = 2
                for j in range(count):
                    if state_actions[offsets[j] // num_symbols] == x:
                        pair_counts[offsets[j] + symbol] += 1
                        break
        begin += lengths[k]


def _fill_transitions_numpy(
    symbols: Any,
    lengths: Any,
    last: Any,
    state_actions: Any,
    num_actions: Any,
    horizon: Any,
    width: Any,
    starts: Any,
    counts: Any,
    codes: Any,
) -> Any:
    """Count transitions as ``fill_transitions`` does, with NumPy."""
    ends = np.cumsum(lengths)
    x = state_actions[symbols[: lengths.sum()]]
    next_state = np.empty_like(x)
    next_state[:-1] = x[1:] // num_actions
    next_state[ends - 1] = np.where(lengths == horizon, last, width - 1)
    np.add.at(starts, x[ends - lengths] // num_actions, 1)
    transitions = (x * width + next_state)[next_state >= 0]
    if codes.size:
        codes[: transitions.size] = transitions
        return transitions.size
    np.add.at(counts, transitions, 1)
    return 0


@lazy_jit(lambda symbols, *_: 10 + symbols.size // 100, numpy_impl=_fill_transitions_numpy)
def fill_transitions(
    symbols: Any,
    lengths: Any,
    last: Any,
    state_actions: Any,
    num_actions: Any,
    horizon: Any,
    width: Any,
    starts: Any,
    counts: Any,
    codes: Any,
) -> Any:
    """Count initial states (S,) and transitions x * width + next state.

    Transitions are added to ``counts``, or listed in ``codes`` if that is not empty.
    The last step of an episode that ended before its horizon leads to the end, column width - 1. Return the number of
    codes.
    """
    used = 0
    begin = 0
    listing = codes.size > 0
    for k in range(lengths.size):
        end = begin + lengths[k]
        x = state_actions[symbols[begin]]
        starts[x // num_actions] += 1
        for i in range(begin + 1, end):
            next_x = state_actions[symbols[i]]
            code = x * width + next_x // num_actions
            if listing:
                codes[used] = code
                used += 1
            else:
                counts[code] += 1
            x = next_x
        next_state = last[k] if lengths[k] == horizon else width - 1
        if next_state >= 0:
            if listing:
                codes[used] = x * width + next_state
                used += 1
            else:
                counts[x * width + next_state] += 1
        begin = end
    return used
