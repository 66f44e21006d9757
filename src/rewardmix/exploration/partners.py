"""The pairs that are known, by their first pick: with which x, and from how many samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import kernel
from rewardmix._core.pair_counting import KEY, SAMPLES, USED, slot_of
from rewardmix._core.pair_table import Counts
from rewardmix.exploration.tally import Tally


def known_partners(tally: Tally, known: int, firsts: NDArray[np.int64]) -> tuple[Counts, Counts, Counts]:
    """(begins, partners, samples) of ``look_up_partners``, in whichever way looks at less of the table."""
    begins, records = np.empty(firsts.size + 1, np.int64), tally.pairs.records
    looks = firsts.size * tally.num_x
    most = min(looks, 2 * int(tally.progress[USED]) + firsts.size)
    size = looks if looks <= len(records) else most
    partners, samples = np.empty(size, np.int64), np.empty(size, np.int64)
    lists = firsts, begins, partners, samples
    if looks <= len(records):
        look_up_partners(records, *tally.pairs.hashing, known, tally.ordered, *lists)
    else:
        sort_partners(records, tally.num_x, known, tally.ordered, *lists)
    return begins, partners[: begins[-1]], samples[: begins[-1]]


@kernel
def look_up_partners(
    records: Any,
    multiplier: Any,
    shift: Any,
    known: Any,
    ordered: Any,
    firsts: Any,
    begins: Any,
    partners: Any,
    samples: Any,
) -> None:
    """Every x of which the pair with one of ``firsts`` has more than ``known`` samples, and that first pick itself.

    Fills ``begins`` (B + 1,), and from there on ``partners`` (B * X,), in their order, and ``samples`` of their pairs.
    Looks for every pair in the table.
    """
    num_x, used = partners.size // firsts.size, 0
    for b in range(firsts.size):
        one = firsts[b]
        begins[b] = used
        for x in range(num_x):
            key = one * num_x + x if ordered or one <= x else x * num_x + one
            slot = slot_of(records, key, multiplier, shift)
            number = records[slot, SAMPLES] if records[slot, KEY] == key else 0
            if number > known or x == one:
                partners[used], samples[used] = x, number
                used += 1
    begins[firsts.size] = used


@kernel
def sort_partners(
    records: Any, num_x: Any, known: Any, ordered: Any, firsts: Any, begins: Any, partners: Any, samples: Any
) -> None:
    """What ``look_up_partners`` fills, by a pass over the table, sorted by the partners and then by the first picks."""
    row, own = np.full(num_x, -1), np.zeros(num_x, np.int64)
    for b in range(firsts.size):
        row[firsts[b]] = b
    keys, counts, used = np.empty(partners.size, np.int64), np.empty(partners.size, np.int64), 0
    for i in range(records.shape[0]):
        number = records[i, SAMPLES]
        if number > known:
            x, y = records[i, KEY] // num_x, records[i, KEY] % num_x
            if x == y:
                own[x] = number
                continue
            if row[x] >= 0:
                keys[used], counts[used] = row[x] * num_x + y, number
                used += 1
            if row[y] >= 0 and not ordered:
                keys[used], counts[used] = row[y] * num_x + x, number
                used += 1
    for b in range(firsts.size):
        keys[used], counts[used] = b * num_x + firsts[b], own[firsts[b]]
        used += 1
    ends, places = np.zeros(num_x + 1, np.int64), np.zeros(firsts.size + 1, np.int64)
    for i in range(used):
        ends[keys[i] % num_x + 1] += 1
        places[keys[i] // num_x + 1] += 1
    for x in range(num_x):
        ends[x + 1] += ends[x]
    for b in range(firsts.size):
        places[b + 1] += places[b]
    begins[:] = places
    order = np.empty(used, np.int64)
    for i in range(used):
        order[ends[keys[i] % num_x]] = i
        ends[keys[i] % num_x] += 1
    for k in range(used):
        key = keys[order[k]]
        at = places[key // num_x]
        partners[at], samples[at] = key % num_x, counts[order[k]]
        places[key // num_x] += 1
