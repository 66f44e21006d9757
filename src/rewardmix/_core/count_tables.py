"""Count first visits, their pairs and triples, and transitions: in a growing hash table, or in dense arrays if small.

``pair_count_kernels`` holds the kernels and the layout of the records, ``triple_count_kernels`` those of triples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.budget import check_budget

Counts = NDArray[np.int64]

MAX_DENSE_KEYS = 1 << 18
"""Largest number of keys with a dense table; a table for more keys is hashed and grows with the keys observed."""

MAX_INITIAL_BYTES = 1 << 28
"""Maximum initial memory of a table: with many reward values records are wide."""

CACHE_LINE_INTS = 8
"""Numbers of 64 bits in a cache line."""

MAX_DENSE_SYMBOLS = 2048
"""Largest number of symbols whose pairs may be counted in a dense array (16 MB of counters)."""

MAX_DENSE_TRANSITIONS = 1 << 22
"""Largest dense table of transitions, in cells; it also needs at most 64 cells per counted step."""


@dataclass
class CountTable:
    """Hold the table in which kernels count pairs or triples; ``pair_count_kernels`` describes its records.

    Attributes:
        slots: (capacity, at least 3 + Z*Z, or Z*Z*Z for triples), capacity a power of two.
        num_values: Z.
        num_used: Records in use.
        is_dense: True if the key is its own slot.
        order: 2 for pairs, 3 for triples.
    """

    slots: Counts
    num_values: int
    num_used: int
    is_dense: bool
    order: int = 2

    @staticmethod
    def for_pairs(num_state_actions: int, num_values: int) -> CountTable:
        """Return an empty table for pairs."""
        return CountTable.for_keys(num_state_actions * num_state_actions, num_values)

    @staticmethod
    def for_triples(num_state_actions: int, num_values: int) -> CountTable:
        """Return an empty table for triples."""
        return CountTable.for_keys(num_state_actions**3, num_values, 3)

    @staticmethod
    def for_keys(num_keys: int, num_values: int = 1, order: int = 2) -> CountTable:
        """Return an empty table for keys below ``num_keys``."""
        width = _record_width(num_values, order)
        max_slots = min(MAX_DENSE_KEYS, 1 << max(4, (MAX_INITIAL_BYTES // (8 * width)).bit_length() - 1))
        dense = num_keys <= max_slots
        capacity = 1 << max(4, (num_keys - 1).bit_length()) if dense else max_slots
        return CountTable(_allocate_records(capacity, width), num_values, 0, dense, order)

    @property
    def hash_params(self) -> tuple[np.uint64, np.uint64]:
        """Multiplier and shift of the hash function; 1 and 0 if dense."""
        if self.is_dense:
            return np.uint64(1), np.uint64(0)
        # 2^64 / golden ratio; the shift keeps as many upper bits of the product as the capacity, a power of two, has.
        return np.uint64(0x9E3779B97F4A7C15), np.uint64(65 - self.slots.shape[0].bit_length())

    @property
    def capacity(self) -> int:
        """Number of records that may be in use before the table must grow, half of the slots; unlimited if dense."""
        return 1 << 62 if self.is_dense else len(self.slots) // 2

    @property
    def free_slots(self) -> int:
        """Number of new records that fit before the table must grow."""
        return self.capacity - self.num_used

    def reserve(self, needed: int) -> None:
        """Double the table until ``needed`` new records fit."""
        if self.free_slots >= needed:
            return
        from rewardmix._core import pair_count_kernels

        # Old and new table exist at once, and at most half of the slots are used: a bound of four records per key.
        max_bytes = 4 * (self.num_used + needed) * 8 * self.slots.shape[1]
        check_budget(
            "triples" if self.order == 3 else "pairs",
            memory=max_bytes,
            remedy="shorter episodes, fewer states, actions or reward values",
        )
        while self.free_slots < needed:
            old = self.slots
            self.slots = _allocate_records(2 * len(old), old.shape[1])
            pair_count_kernels.rehash(old, *self.hash_params, self.slots)

    def add(self, keys: Counts, tables: Counts) -> None:
        """Add the reward counts (P, Z, Z), of triples (P, Z, Z, Z), of distinct keys (P,)."""
        from rewardmix._core import pair_count_kernels

        self.reserve(keys.size)
        flat = np.ascontiguousarray(tables.reshape(keys.size, math.prod(tables.shape[1:])))
        self.num_used += int(pair_count_kernels.add_tables(self.slots, keys, flat, *self.hash_params))

    def export_tables(self) -> tuple[Counts, Counts]:
        """Return keys (P,) in increasing order and reward counts (P, Z, Z), of triples (P, Z, Z, Z)."""
        used = self.slots[self.slots[:, 0] >= 0]
        # Slots depend on the table's history; sorted keys make results independent of it.
        used = used[np.argsort(used[:, 0])]
        shape = (self.num_values,) * self.order
        tables = used[:, 3 : 3 + math.prod(shape)].reshape(-1, *shape)
        return np.ascontiguousarray(used[:, 0]), np.ascontiguousarray(tables)


def count_pairs(
    symbols: NDArray[Any], lengths: NDArray[Any], num_state_actions: int, num_values: int
) -> tuple[Counts, Counts, Counts]:
    """Return first-visit reward counts (X, Z), keys of observed pairs (P,), and their tables (P, Z, Z).

    ``symbols`` (N,) are x*Z + z of the steps, episode after episode, ``lengths`` (K,) the steps of each. Counters in a
    dense array are several times faster (``benchmarks/logs/counting.py``) once there are more pairs than counters.
    """
    size = num_state_actions * num_values
    # Clearing and reading the counters costs size^2, counting costs up to N times the longest episode.
    few_counters = size <= MAX_DENSE_SYMBOLS and 2 * size * size <= symbols.size * int(lengths.max(initial=0))
    return (_count_pairs_dense if few_counters else _count_pairs_hashed)(
        symbols, lengths, num_state_actions, num_values
    )


def _count_pairs_dense(
    symbols: NDArray[Any], lengths: NDArray[Any], num_state_actions: int, num_values: int
) -> tuple[Counts, Counts, Counts]:
    """Count pairs of symbols in a dense array; returns what ``count_pairs`` returns."""
    from rewardmix._core import pair_count_kernels

    size = num_state_actions * num_values
    reward_counts, pairs = np.zeros(size, np.int64), np.zeros(size * size, np.int32)
    state_actions = np.repeat(np.arange(num_state_actions, dtype=np.int32), num_values)
    last_episode, visits = np.full(num_state_actions, -1, np.int64), np.zeros(num_state_actions, np.int32)
    pair_count_kernels.count_dense(symbols, lengths, state_actions, last_episode, visits, reward_counts, pairs)
    # Pairs were counted in the order of their visits. Adding the transpose pools both orders, except on the diagonal,
    # where each pair was counted once.
    ordered = pairs.reshape(num_state_actions, num_values, num_state_actions, num_values).transpose(0, 2, 1, 3)
    both = ordered + ordered.transpose(1, 0, 3, 2)
    same = np.arange(num_state_actions)
    both[same, same] = ordered[same, same]
    x, other = np.nonzero(np.triu(both.any(axis=(2, 3))))
    return (
        reward_counts.reshape(num_state_actions, num_values),
        x * num_state_actions + other,
        both[x, other].astype(np.int64),
    )


def _count_pairs_hashed(
    symbols: NDArray[Any], lengths: NDArray[Any], num_state_actions: int, num_values: int
) -> tuple[Counts, Counts, Counts]:
    """Count pairs in a hash table that grows between batches of episodes; returns what ``count_pairs`` returns."""
    from rewardmix._core.pair_count_kernels import EPISODES_SLOT, USED_SLOT, PairCounts, count_symbols

    longest = int(lengths.max(initial=1))
    max_distinct = min(longest, num_state_actions)
    max_entries = _record_width(num_values) * max_distinct * (max_distinct + 1)
    check_budget(
        "episodes",
        memory=8 * (num_state_actions * (num_values + 1) + max_entries),
        remedy="fewer states, actions or reward values, or a shorter horizon",
    )
    table = CountTable.for_pairs(num_state_actions, num_values)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    reward_counts = np.zeros((num_state_actions, num_values), np.int64)
    last_visit_mark = np.zeros(num_state_actions, np.int64)
    stale_rows, progress = np.zeros(num_state_actions, bool), np.zeros(4, np.int64)
    while progress[EPISODES_SLOT] < lengths.size:
        # The table has space for one more episode at least, so each call of the kernel makes progress.
        table.reserve(max_distinct * (max_distinct + 1) // 2)
        counts = PairCounts(table.slots, *table.hash_params, reward_counts, last_visit_mark, stale_rows, progress)
        count_symbols(counts, symbols, offsets, longest, table.capacity)
        table.num_used = int(progress[USED_SLOT])
    return reward_counts, *table.export_tables()


def count_triples(
    symbols: NDArray[Any], lengths: NDArray[Any], num_state_actions: int, num_values: int
) -> tuple[Counts, Counts]:
    """Return keys of the observed triples (P,) and their tables (P, Z, Z, Z); arguments of ``count_pairs``."""
    from rewardmix._core.triple_count_kernels import TripleCounts, count_triple_symbols, max_triples

    longest = int(lengths.max(initial=1))
    num_reserved = max_triples(longest)
    width = 8 * _record_width(num_values, 3)
    check_budget("episodes", memory=3 * width * num_reserved, remedy="fewer reward values, or a shorter horizon")
    table = CountTable.for_triples(num_state_actions, num_values)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    progress, no_picks = np.zeros(4, np.int64), np.zeros((0, 0), bool)
    while progress[0] < lengths.size:
        table.reserve(num_reserved)
        counts = TripleCounts(table.slots, *table.hash_params, no_picks, progress)
        count_triple_symbols(counts, symbols, offsets, num_state_actions, num_values, longest, table.capacity)
        table.num_used = int(progress[1])
    return table.export_tables()


def count_transitions(
    symbols: NDArray[Any], lengths: NDArray[Any], last: NDArray[Any], sizes: Any
) -> tuple[Counts, Counts, Counts]:
    """Return initial counts (S,), keys x * (S + 1) + s' of observed transitions in increasing order, and their counts.

    s' = S is the end of an episode before its horizon. ``last`` (K,) is the state after the last action, -1 if unknown.
    """
    from rewardmix._core import pair_count_kernels

    num_state_actions, width = sizes.num_states * sizes.num_actions, sizes.num_states + 1
    dense = num_state_actions * width <= min(MAX_DENSE_TRANSITIONS, 64 * symbols.size)
    starts = np.zeros(sizes.num_states, np.int64)
    state_actions = np.repeat(np.arange(num_state_actions), sizes.reward_values.size)
    counts = np.zeros(num_state_actions * width if dense else 0, np.int64)
    codes = np.zeros(0 if dense else symbols.size, np.int64)
    used = pair_count_kernels.fill_transitions(
        symbols, lengths, last, state_actions, sizes.num_actions, sizes.horizon, width, starts, counts, codes
    )
    if dense:
        cells = np.flatnonzero(counts)
        return starts, cells, counts[cells]
    cells, numbers = np.unique(codes[:used], return_counts=True)
    return starts, cells, numbers.astype(np.int64)


def merge_pair_orders(keys: Counts, tables: Counts, num_state_actions: int) -> tuple[Counts, Counts]:
    """Pool tables of ordered pairs (x1, x2) over the order: keys x * X + y with x <= y, tables [value at x, at y]."""
    first, second = np.divmod(keys, num_state_actions)
    swap = first > second
    # Exchanging the state-actions of a pair transposes its table of reward counts.
    swapped_tables = np.where(swap[:, None, None], tables.transpose(0, 2, 1), tables)
    return merge_tables(np.where(swap, second * num_state_actions + first, keys), swapped_tables, keys[:0], tables[:0])


def merge_tables(keys: Counts, tables: Counts, more_keys: Counts, more_tables: Counts) -> tuple[Counts, Counts]:
    """Merge two lists of tables: keys in increasing order, each once, with the sum of its tables."""
    merged_keys, row = np.unique(np.concatenate([keys, more_keys]), return_inverse=True)
    total = np.zeros((merged_keys.size, *tables.shape[1:]), np.int64)
    np.add.at(total, row, np.concatenate([tables, more_tables]))
    return merged_keys, total


def _record_width(num_values: int, order: int = 2) -> int:
    """Return the number of 64-bit numbers in a record, rounded up to whole cache lines."""
    return -(-(3 + int(num_values**order)) // CACHE_LINE_INTS) * CACHE_LINE_INTS


def _allocate_records(capacity: int, width: int) -> Counts:
    """Allocate empty records, each at the beginning of a cache line."""
    memory = np.zeros(capacity * width + CACHE_LINE_INTS, np.int64)
    # NumPy aligns arrays to 16 bytes only. A record that starts on a cache line is read with one memory access.
    skip = -(memory.ctypes.data // 8) % CACHE_LINE_INTS
    records = memory[skip : skip + capacity * width].reshape(capacity, width)
    records[:, 0] = -1
    return records
