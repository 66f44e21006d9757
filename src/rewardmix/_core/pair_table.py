"""The growing table in which kernels count pairs; see ``pair_counting`` for its records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass
class PairTable:
    """The growing table in which kernels count pairs; see ``pair_counting`` for its records.

    Attributes:
        records: (capacity, at least 3 + Z*Z), capacity a power of two.
        num_values: Z.
        used: records in use.
        dense: whether the key is its own slot.
    """

    records: Counts
    num_values: int
    used: int
    dense: bool

    @staticmethod
    def fresh(num_x: int, num_values: int) -> PairTable:
        """An empty table for pairs."""
        return PairTable.keyed(num_x * num_x, num_values)

    @staticmethod
    def keyed(num_keys: int, num_values: int = 1) -> PairTable:
        """An empty table for keys below ``num_keys``."""
        most = min(SMALL_TABLE, 1 << max(4, (SMALL_BYTES // (8 * _record_width(num_values))).bit_length() - 1))
        dense = num_keys <= most
        capacity = 1 << max(4, (num_keys - 1).bit_length()) if dense else most
        return PairTable(_blank(capacity, num_values), num_values, 0, dense)

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
        from rewardmix._core import pair_counting

        if self.room < needed:
            size = 4 * (self.used + needed) * 8 * self.records.shape[1]
            afford("pairs", memory=size, change="shorter episodes, fewer states, actions or reward values")
        while self.room < needed:
            old = self.records
            self.records = _blank(2 * len(old), self.num_values)
            pair_counting.rehash(old, *self.hashing, self.records)

    def add(self, keys: Counts, tables: Counts) -> None:
        """Add the outcome tables (P, Z, Z) of distinct keys (P,)."""
        from rewardmix._core import pair_counting

        self.make_room(keys.size)
        flat = np.ascontiguousarray(tables.reshape(keys.size, tables.shape[1] * tables.shape[2]))
        self.used += int(pair_counting.add_tables(self.records, keys, flat, *self.hashing))

    def sorted_tables(self) -> tuple[Counts, Counts]:
        """Keys (P,) in increasing order and outcome tables (P, Z, Z) of the pairs seen."""
        seen = self.records[self.records[:, 0] >= 0]
        seen = seen[np.argsort(seen[:, 0])]
        size = self.num_values
        tables = seen[:, 3 : 3 + size * size].reshape(-1, size, size)
        return np.ascontiguousarray(seen[:, 0]), np.ascontiguousarray(tables)


def in_table(
    shape: tuple[int, int], episodes: int, longest: int, count: Callable[..., tuple[int, int]]
) -> tuple[Counts, Counts, Counts]:
    """The same in a growing table, by a kernel that goes on from an episode; none has more steps than ``longest``."""
    most = min(longest, shape[0])
    afford(
        "episodes",
        memory=8 * (shape[0] * (shape[1] + 1) + _record_width(shape[1]) * most * (most + 1)),
        change="fewer states, actions or reward values, or a shorter horizon",
    )
    table = PairTable.fresh(*shape)
    singles, mark = np.zeros(shape, np.int64), np.zeros(shape[0], np.int64)
    done = 0
    while done < episodes:
        table.make_room(most * (most + 1) // 2)
        done, used = count(done, *table.hashing, table.room, mark, table.records, singles)
        table.used += int(used)
    return singles, *table.sorted_tables()


def unordered(keys: Counts, tables: Counts, num_x: int) -> tuple[Counts, Counts]:
    """Pool tables of ordered pairs (x1, x2) over the order: keys x * X + y with x <= y, tables [value at x, at y]."""
    first, second = np.divmod(keys, num_x)
    swap = first > second
    turned = np.where(swap[:, None, None], tables.transpose(0, 2, 1), tables)
    return merged(np.where(swap, second * num_x + first, keys), turned, keys[:0], tables[:0])


def merged(keys: Counts, tables: Counts, more_keys: Counts, more_tables: Counts) -> tuple[Counts, Counts]:
    """Keys in increasing order, each once, with the sum of its tables."""
    together, where = np.unique(np.concatenate([keys, more_keys]), return_inverse=True)
    total = np.zeros((together.size, *tables.shape[1:]), np.int64)
    np.add.at(total, where, np.concatenate([tables, more_tables]))
    return together, total


def _record_width(num_values: int) -> int:
    """Numbers in a record: whole cache lines."""
    return -(-(3 + num_values**2) // LINE) * LINE


def _blank(capacity: int, num_values: int) -> Counts:
    """Free records, each at the beginning of a cache line."""
    width = _record_width(num_values)
    memory = np.zeros(capacity * width + LINE, np.int64)
    skip = -(memory.ctypes.data // 8) % LINE
    records = memory[skip : skip + capacity * width].reshape(capacity, width)
    records[:, 0] = -1
    return records
