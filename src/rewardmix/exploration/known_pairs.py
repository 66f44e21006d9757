"""Find the known pairs by their first pick: with which x, and from how many samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.count_tables import Counts
from rewardmix._core.jit import kernel
from rewardmix._core.pair_count_kernels import KEY_COLUMN, SAMPLES_COLUMN, USED_SLOT, find_slot
from rewardmix.exploration.running_counts import RunningCounts


def find_known_pairs(
    counts: RunningCounts, saturation_count: int, firsts: NDArray[np.int64]
) -> tuple[Counts, Counts, Counts]:
    """Return (offsets, partners, samples) of ``find_by_lookup``, by the method that reads less of the table."""
    row_offsets, records = np.empty(firsts.size + 1, np.int64), counts.pairs.slots
    num_lookups = firsts.size * counts.num_state_actions
    max_partners = min(num_lookups, 2 * int(counts.progress[USED_SLOT]) + firsts.size)
    size = num_lookups if num_lookups <= len(records) else max_partners
    partners, samples = np.empty(size, np.int64), np.empty(size, np.int64)
    lists = firsts, row_offsets, partners, samples
    # Looking up B X keys costs that many probes; a pass over the table costs its length.
    if num_lookups <= len(records):
        find_by_lookup(records, *counts.pairs.hash_params, saturation_count, counts.ordered, *lists)
    else:
        find_by_scan(records, counts.num_state_actions, saturation_count, counts.ordered, *lists)
    return row_offsets, partners[: row_offsets[-1]], samples[: row_offsets[-1]]


@kernel
def find_by_lookup(
    records: Any,
    multiplier: Any,
    shift: Any,
    saturation_count: Any,
    ordered: Any,
    firsts: Any,
    row_offsets: Any,
    partners: Any,
    samples: Any,
) -> None:
    """List every x whose pair with one of ``firsts`` has more than ``saturation_count`` samples.

    Each first pick itself is always listed. Fills ``row_offsets`` (B + 1,), the rows of ``partners`` (B * X,), in
    increasing order, and the ``samples`` of their pairs. Looks up every pair in the table.
    """
    num_state_actions, used = partners.size // firsts.size, 0
    for b in range(firsts.size):
        first = firsts[b]
        row_offsets[b] = used
        for x in range(num_state_actions):
            key = first * num_state_actions + x if ordered or first <= x else x * num_state_actions + first
            slot = find_slot(records, key, multiplier, shift)
            number = records[slot, SAMPLES_COLUMN] if records[slot, KEY_COLUMN] == key else 0
            if number > saturation_count or x == first:
                partners[used], samples[used] = x, number
                used += 1
    row_offsets[firsts.size] = used


@kernel
def find_by_scan(
    records: Any,
    num_state_actions: Any,
    saturation_count: Any,
    ordered: Any,
    firsts: Any,
    row_offsets: Any,
    partners: Any,
    samples: Any,
) -> None:
    """List the known partners of ``firsts`` by one pass over the table; fills the arrays of ``find_by_lookup``."""
    row, self_samples = np.full(num_state_actions, -1), np.zeros(num_state_actions, np.int64)
    for b in range(firsts.size):
        row[firsts[b]] = b
    keys, counts, used = np.empty(partners.size, np.int64), np.empty(partners.size, np.int64), 0
    for i in range(records.shape[0]):
        number = records[i, SAMPLES_COLUMN]
        if number > saturation_count:
            x, y = records[i, KEY_COLUMN] // num_state_actions, records[i, KEY_COLUMN] % num_state_actions
            if x == y:
                self_samples[x] = number
                continue
            if row[x] >= 0:
                keys[used], counts[used] = row[x] * num_state_actions + y, number
                used += 1
            if row[y] >= 0 and not ordered:
                keys[used], counts[used] = row[y] * num_state_actions + x, number
                used += 1
    for b in range(firsts.size):
        keys[used], counts[used] = b * num_state_actions + firsts[b], self_samples[firsts[b]]
        used += 1
    # Two stable counting sorts, by partner and then by first pick, replace a comparison sort: the keys are small
    # integers.
    ends, offsets = np.zeros(num_state_actions + 1, np.int64), np.zeros(firsts.size + 1, np.int64)
    for i in range(used):
        ends[keys[i] % num_state_actions + 1] += 1
        offsets[keys[i] // num_state_actions + 1] += 1
    for x in range(num_state_actions):
        ends[x + 1] += ends[x]
    for b in range(firsts.size):
        offsets[b + 1] += offsets[b]
    row_offsets[:] = offsets
    order = np.empty(used, np.int64)
    for i in range(used):
        order[ends[keys[i] % num_state_actions]] = i
        ends[keys[i] % num_state_actions] += 1
    for k in range(used):
        key = keys[order[k]]
        entry = offsets[key // num_state_actions]
        partners[entry], samples[entry] = key % num_state_actions, counts[order[k]]
        offsets[key // num_state_actions] += 1
