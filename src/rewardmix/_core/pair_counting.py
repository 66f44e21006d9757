"""Kernels that count pairs of steps: an open-addressing table of outcome tables, keyed by the pair.

A record is one row of int64: key, number of samples, limit, and the Z*Z outcome counts (z at x times Z plus z at y).
``limit`` belongs to whoever watches the counts grow; counting itself never reads it. With ``multiplier`` 1 and
``shift`` 0 the key is its own slot, and the table is a plain dense array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.jit import kernel

KEY, SAMPLES, LIMIT, TABLE = 0, 1, 2, 3
"""Columns of a record; the outcome counts begin at TABLE."""

FREE = -1
"""The key of a record that is not in use."""


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
def add_visits(
    count: Any, seen: Any, once: Any, twice: Any, multiplier: Any, shift: Any, records: Any, singles: Any
) -> Any:
    """Count the first visits of one episode and all their pairs; how many records are newly used."""
    num_x, num_values = singles.shape
    used = 0
    for i in range(count):
        x, z = seen[i], once[i]
        singles[x, z] += 1
        if twice[i] >= 0:
            used += add_pair(records, x * num_x + x, z * num_values + twice[i], multiplier, shift, 0) < 0
        for j in range(i):
            y, other = seen[j], once[j]
            if x < y:
                slot = add_pair(records, x * num_x + y, z * num_values + other, multiplier, shift, 0)
            else:
                slot = add_pair(records, y * num_x + x, other * num_values + z, multiplier, shift, 0)
            used += slot < 0
    return used


@kernel
def count_episodes(
    states: Any,
    actions: Any,
    outcomes: Any,
    lengths: Any,
    begin: Any,
    num_actions: Any,
    multiplier: Any,
    shift: Any,
    room: Any,
    mark: Any,
    records: Any,
    singles: Any,
) -> Any:
    """Count first visits and pairs of the episodes from ``begin`` on; (episodes done, records newly used).

    Stops before an episode that might need more than ``room`` new records in all.
    """
    horizon = actions.shape[1]
    xs, seen = np.empty(horizon, np.int64), np.empty(horizon, np.int64)
    zs, once, twice = np.empty(horizon, np.int64), np.empty(horizon, np.int64), np.empty(horizon, np.int64)
    used = 0
    for k in range(begin, lengths.size):
        steps = lengths[k]
        most = min(steps, singles.shape[0])
        if used + most * (most + 1) // 2 > room:
            return k, used
        for t in range(steps):
            xs[t] = np.int64(states[k, t]) * num_actions + actions[k, t]
            zs[t] = outcomes[k, t]
        count = first_visits(xs, zs, steps, mark, k + 1, seen, once, twice)
        used += add_visits(count, seen, once, twice, multiplier, shift, records, singles)
    return lengths.size, used
