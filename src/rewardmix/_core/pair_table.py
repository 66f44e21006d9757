"""First visits, pairs and triples of them, and moves, counted: in a growing table, or in plain arrays while small.

``pair_counting`` has the kernels and the layout of the records, ``triple_counting`` those of triples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.limits import afford

Counts = NDArray[np.int64]

SMALL_TABLE = 1 << 18
"""Up to this many pairs the counting table is dense; above, it grows with the pairs that are seen."""

SMALL_BYTES = 1 << 28
"""No table begins with more memory than this: with many reward values records are wide."""

LINE = 8
"""Numbers in a cache line."""

DENSE_SYMBOLS = 2048
"""Up to this many symbols pairs of symbols may be counted in a plain array (16 MB of counters)."""

DENSE_MOVES = 1 << 22
"""Up to this many cells (and 64 for each step) the table of moves is a plain array."""


@dataclass
class PairTable:
    """The growing table in which kernels count pairs, or triples; see ``pair_counting`` for its records.

    Attributes:
        records: (capacity, at least 3 + Z*Z, or Z*Z*Z for triples), capacity a power of two.
        num_values: Z.
        used: records in use.
        dense: whether the key is its own slot.
        order: 2 for pairs, 3 for triples.
    """

    records: Counts
    num_values: int
    used: int
    dense: bool
    order: int = 2

    @staticmethod
    def fresh(num_x: int, num_values: int) -> PairTable:
        """An empty table for pairs."""
        return PairTable.keyed(num_x * num_x, num_values)

    @staticmethod
    def of_triples(num_x: int, num_values: int) -> PairTable:
        """An empty table for triples."""
        return PairTable.keyed(num_x**3, num_values, 3)

    @staticmethod
    def keyed(num_keys: int, num_values: int = 1, order: int = 2) -> PairTable:
        """An empty table for keys below ``num_keys``."""
        width = _record_width(num_values, order)
        most = min(SMALL_TABLE, 1 << max(4, (SMALL_BYTES // (8 * width)).bit_length() - 1))
        dense = num_keys <= most
        capacity = 1 << max(4, (num_keys - 1).bit_length()) if dense else most
        return PairTable(_blank(capacity, width), num_values, 0, dense, order)

    @property
    def hashing(self) -> tuple[np.uint64, np.uint64]:
        """Multiplier and shift of the kernels."""
        if self.dense:
            return np.uint64(1), np.uint64(0)
        return np.uint64(0x9E3779B97F4A7C15), np.uint64(65 - self.records.shape[0].bit_length())

    @property
    def capacity(self) -> int:
        """Records that may be in use before the table gets slow."""
        return 1 << 62 if self.dense else len(self.records) // 2

    @property
    def room(self) -> int:
        """New records that still fit in."""
        return self.capacity - self.used

    def make_room(self, needed: int) -> None:
        """Double the table until ``needed`` new records fit in."""
        if self.room >= needed:
            return
        from rewardmix._core import pair_counting

        size = 4 * (self.used + needed) * 8 * self.records.shape[1]
        afford(
            "triples" if self.order == 3 else "pairs",
            memory=size,
            change="shorter episodes, fewer states, actions or reward values",
        )
        while self.room < needed:
            old = self.records
            self.records = _blank(2 * len(old), old.shape[1])
            pair_counting.rehash(old, *self.hashing, self.records)

    def add(self, keys: Counts, tables: Counts) -> None:
        """Add the outcome tables (P, Z, Z), of triples (P, Z, Z, Z), of distinct keys (P,)."""
        from rewardmix._core import pair_counting

        self.make_room(keys.size)
        flat = np.ascontiguousarray(tables.reshape(keys.size, math.prod(tables.shape[1:])))
        self.used += int(pair_counting.add_tables(self.records, keys, flat, *self.hashing))

    def sorted_tables(self) -> tuple[Counts, Counts]:
        """Keys (P,) in increasing order and outcome tables (P, Z, Z) of the pairs seen, of triples (P, Z, Z, Z)."""
        seen = self.records[self.records[:, 0] >= 0]
        seen = seen[np.argsort(seen[:, 0])]
        shape = (self.num_values,) * self.order
        tables = seen[:, 3 : 3 + math.prod(shape)].reshape(-1, *shape)
        return np.ascontiguousarray(seen[:, 0]), np.ascontiguousarray(tables)


def count_pairs(
    symbols: NDArray[Any], lengths: NDArray[Any], num_x: int, num_values: int
) -> tuple[Counts, Counts, Counts]:
    """First-visit outcomes (X, Z), the keys of the pairs seen (P,), and their tables (P, Z, Z).

    ``symbols`` (N,) are x*Z + z of the steps, episode after episode, ``lengths`` (K,) the steps of each. Counters in a
    plain array are several times as fast (``benchmarks/logs/counting.py``) once there are more pairs than counters.
    """
    size = num_x * num_values
    few_counters = size <= DENSE_SYMBOLS and 2 * size * size <= symbols.size * int(lengths.max(initial=0))
    return (_in_plain_array if few_counters else _in_table)(symbols, lengths, num_x, num_values)


def _in_plain_array(
    symbols: NDArray[Any], lengths: NDArray[Any], num_x: int, num_values: int
) -> tuple[Counts, Counts, Counts]:
    from rewardmix._core import pair_counting

    size = num_x * num_values
    outcomes, pairs = np.zeros(size, np.int64), np.zeros(size * size, np.int32)
    point = np.repeat(np.arange(num_x, dtype=np.int32), num_values)
    met, visits = np.full(num_x, -1, np.int64), np.zeros(num_x, np.int32)
    pair_counting.count_dense(symbols, lengths, point, met, visits, outcomes, pairs)
    ordered = pairs.reshape(num_x, num_values, num_x, num_values).transpose(0, 2, 1, 3)
    both = ordered + ordered.transpose(1, 0, 3, 2)
    same = np.arange(num_x)
    both[same, same] = ordered[same, same]
    one, other = np.nonzero(np.triu(both.any(axis=(2, 3))))
    return outcomes.reshape(num_x, num_values), one * num_x + other, both[one, other].astype(np.int64)


def _in_table(
    symbols: NDArray[Any], lengths: NDArray[Any], num_x: int, num_values: int
) -> tuple[Counts, Counts, Counts]:
    from rewardmix._core.pair_counting import EPISODES, USED, PairCounts, count_symbols

    longest = int(lengths.max(initial=1))
    most = min(longest, num_x)
    afford(
        "episodes",
        memory=8 * (num_x * (num_values + 1) + _record_width(num_values) * most * (most + 1)),
        change="fewer states, actions or reward values, or a shorter horizon",
    )
    table, offsets = PairTable.fresh(num_x, num_values), np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    outcomes, mark = np.zeros((num_x, num_values), np.int64), np.zeros(num_x, np.int64)
    dirty, progress = np.zeros(num_x, bool), np.zeros(4, np.int64)
    while progress[EPISODES] < lengths.size:
        table.make_room(most * (most + 1) // 2)
        counts = PairCounts(table.records, *table.hashing, outcomes, mark, dirty, progress)
        count_symbols(counts, symbols, offsets, longest, table.capacity)
        table.used = int(progress[USED])
    return outcomes, *table.sorted_tables()


def count_triples(symbols: NDArray[Any], lengths: NDArray[Any], num_x: int, num_values: int) -> tuple[Counts, Counts]:
    """Keys of the triples seen (P,) and their tables (P, Z, Z, Z); arguments as of ``count_pairs``."""
    from rewardmix._core.triple_counting import TripleCounts, count_triple_symbols, triples_of

    longest = int(lengths.max(initial=1))
    most = triples_of(longest)
    width = 8 * _record_width(num_values, 3)
    afford("episodes", memory=3 * width * most, change="fewer reward values, or a shorter horizon")
    table, offsets = PairTable.of_triples(num_x, num_values), np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    progress, nobody = np.zeros(4, np.int64), np.zeros((0, 0), bool)
    while progress[0] < lengths.size:
        table.make_room(most)
        counts = TripleCounts(table.records, *table.hashing, nobody, progress)
        count_triple_symbols(counts, symbols, offsets, num_x, num_values, longest, table.capacity)
        table.used = int(progress[1])
    return table.sorted_tables()


def count_moves(
    symbols: NDArray[Any], lengths: NDArray[Any], last: NDArray[Any], sizes: Any
) -> tuple[Counts, Counts, Counts]:
    """Starts (S,), kinds of moves x * (S + 1) + s' in increasing order, and how many there were of each.

    s' = S is the end of an episode before its horizon. ``last`` (K,) is where the last action led, -1 if unknown.
    """
    from rewardmix._core import pair_counting

    num_x, width = sizes.num_states * sizes.num_actions, sizes.num_states + 1
    dense = num_x * width <= min(DENSE_MOVES, 64 * symbols.size)
    starts, point = np.zeros(sizes.num_states, np.int64), np.repeat(np.arange(num_x), sizes.reward_values.size)
    counts, codes = np.zeros(num_x * width if dense else 0, np.int64), np.zeros(0 if dense else symbols.size, np.int64)
    used = pair_counting.fill_moves(
        symbols, lengths, last, point, sizes.num_actions, sizes.horizon, width, starts, counts, codes
    )
    if dense:
        cells = np.flatnonzero(counts)
        return starts, cells, counts[cells]
    cells, numbers = np.unique(codes[:used], return_counts=True)
    return starts, cells, numbers.astype(np.int64)


def unordered(keys: Counts, tables: Counts, num_x: int) -> tuple[Counts, Counts]:
    """Pool tables of ordered pairs (x1, x2) over the order: keys x * X + y with x <= y, tables [value at x, at y]."""
    first, second = np.divmod(keys, num_x)
    swap = first > second
    turned = np.where(swap[:, None, None], tables.transpose(0, 2, 1), tables)
    return merged_tables(np.where(swap, second * num_x + first, keys), turned, keys[:0], tables[:0])


def merged_tables(keys: Counts, tables: Counts, more_keys: Counts, more_tables: Counts) -> tuple[Counts, Counts]:
    """Keys in increasing order, each once, with the sum of its tables."""
    together, where = np.unique(np.concatenate([keys, more_keys]), return_inverse=True)
    total = np.zeros((together.size, *tables.shape[1:]), np.int64)
    np.add.at(total, where, np.concatenate([tables, more_tables]))
    return together, total


def _record_width(num_values: int, order: int = 2) -> int:
    """Numbers in a record: whole cache lines."""
    return -(-(3 + int(num_values**order)) // LINE) * LINE


def _blank(capacity: int, width: int) -> Counts:
    """Free records, each at the beginning of a cache line."""
    memory = np.zeros(capacity * width + LINE, np.int64)
    skip = -(memory.ctypes.data // 8) % LINE
    records = memory[skip : skip + capacity * width].reshape(capacity, width)
    records[:, 0] = -1
    return records
