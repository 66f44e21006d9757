"""Sort rows by episode and step or time, in memory or on disk.

A table in memory is sorted as a whole. Files are sorted by distribution: one pass counts the rows of every episode, a
second one partitions the rows into files of whole episodes that fit into memory, and each of these is sorted
separately. Memory holds one such file and 40 bytes per episode, and every row is written twice. (Arrow's own sort
gathers all rows in memory.) Rows with equal keys stay in their original order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix.logs import arrow_io
from rewardmix.logs.columns import encode_episodes, mark_episode_starts
from rewardmix.logs.executors import TemporaryFolder

_Integers = NDArray[np.int64]

MAX_FILES = 128
"""Largest number of files that rows are partitioned into at a time."""

MAX_PENDING_ROWS = 4 * arrow_io.BATCH_ROWS
"""Smallest number of pending rows before their groups are merged."""


GROUP, ORDER = "rewardmix group", "rewardmix order"
"""Columns with the sort keys of a row: its episode, and its order within the episode."""


@dataclass(frozen=True, eq=False)
class EpisodeGroups:
    """Episodes of some rows.

    Attributes:
        ids: (G,) ids, increasing.
        min_order: (G,) smallest order key of their rows.
        first_rows: (G,) index of their first rows.
        num_rows: (G,) number of rows.
    """

    ids: _Integers
    min_order: NDArray[Any]
    first_rows: _Integers
    num_rows: _Integers

    @staticmethod
    def from_rows(ids: _Integers, firsts: NDArray[Any], numbers: _Integers, rows: _Integers) -> EpisodeGroups:
        """Merge groups of several tables, in any order."""
        unique_ids, group = np.unique(ids, return_inverse=True)
        first, number = _min_by_group(firsts, group, unique_ids.size), _min_by_group(numbers, group, unique_ids.size)
        total = np.zeros(unique_ids.size, np.int64)
        np.add.at(total, group, rows)
        return EpisodeGroups(unique_ids, first, number, total)

    def ranks(self, *, by_order: bool) -> _Integers:
        """Compute the rank (G,) of each episode: by its smallest order key if ``by_order``, ties by its first row."""
        keys = (self.first_rows, self.min_order) if by_order else (self.first_rows,)
        ranks = np.empty(self.ids.size, np.int64)
        # np.lexsort sorts by the last key first, so ``keys`` ends with the primary key.
        ranks[np.lexsort(keys)] = np.arange(self.ids.size)
        return ranks


def _min_by_group(values: NDArray[Any], group: _Integers, size: int) -> NDArray[Any]:
    """Return the smallest value (size,) of each group."""
    smallest = np.empty(size, values.dtype)
    descending = np.argsort(values, kind="stable")[::-1]
    # Values are assigned in decreasing order. NumPy keeps the last assignment to an index, which is the smallest value.
    smallest[group[descending]] = values[descending]
    return smallest


def group_rows(tables: Iterable[Any]) -> EpisodeGroups:
    """Group the rows of all tables by episode, with memory for all episodes and a few batches."""
    merged: EpisodeGroups | None = None
    waiting: list[EpisodeGroups] = []
    pending, done = 0, 0
    for table in tables:
        group = column_array(table, GROUP)
        numbers = np.arange(done, done + group.size)
        waiting.append(
            EpisodeGroups.from_rows(group, column_array(table, ORDER), numbers, np.ones(group.size, np.int64))
        )
        done += group.size
        pending += waiting[-1].ids.size
        # Merging sorts all groups. It waits until as many rows are pending as there are groups, so the total cost stays
        # n log n.
        if pending > max(MAX_PENDING_ROWS, 0 if merged is None else merged.ids.size):
            merged, waiting, pending = _merge_groups([*([merged] if merged else []), *waiting]), [], 0
    return _merge_groups([*([merged] if merged else []), *waiting])


def column_array(table: Any, column: str) -> NDArray[Any]:
    """Return a key column of a table as an array; such columns have no nulls."""
    return np.asarray(table.column(column).to_numpy())


def _merge_groups(groups: Sequence[EpisodeGroups]) -> EpisodeGroups:
    columns = (
        np.concatenate([getattr(group, name) for group in groups])
        for name in ("ids", "min_order", "first_rows", "num_rows")
    )
    return EpisodeGroups.from_rows(*columns)


@dataclass(frozen=True, eq=False)
class EpisodeRanks:
    """Rank of every episode, looked up by id."""

    groups: EpisodeGroups
    ranks: _Integers

    @staticmethod
    def look_up(tables: Iterable[Any], *, by_order: bool) -> EpisodeRanks:
        """Rank the episodes of all rows, by their smallest order key or by their first row."""
        groups = group_rows(tables)
        return EpisodeRanks(groups, groups.ranks(by_order=by_order))

    def __call__(self, table: Any) -> _Integers:
        """Return the rank (N,) of the episode of each row."""
        return np.asarray(self.ranks[np.searchsorted(self.groups.ids, column_array(table, GROUP))])

    def sort_rows(self, table: Any) -> Any:
        """Sort the rows of a table by episode rank and order key."""
        return table.take(np.lexsort((column_array(table, ORDER), self(table))))

    def count_late_rows(self, tables: Iterable[Any]) -> int:
        """Count the rows that stand behind a row that should follow them."""
        late = 0
        rank, order = np.empty(0, np.int64), np.empty(0)
        for table in tables:
            ranks, orders = np.append(rank, self(table)), np.append(order, column_array(table, ORDER))
            _, codes = np.unique(orders, return_inverse=True)
            # Rank and order are combined into one integer key, so that a running maximum finds every late row in one
            # pass.
            keys = ranks * (codes.max(initial=0) + 1) + codes
            highest = np.maximum.accumulate(keys)
            late += int((keys[1:] < highest[:-1]).sum())
            # The row with the largest key so far is carried into the next table, so late rows across batches are
            # counted too.
            last = [int(np.argmax(keys))] if keys.size else []
            rank, order = ranks[last], orders[last]
        return late


def first_split(tables: Callable[[], Iterable[Any]], column: str) -> tuple[Any, int, int] | None:
    """Find an episode with rows of other episodes between its own.

    Returns (episode, first row of its first run, first row of its second run), rows from 1, for the episode that begins
    again first; None if there is none.
    """
    ids, rows, done = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    last: tuple[Any, Any] | None = None
    for table in tables():
        numbers, absent = encode_episodes(table.column(column), column)
        row_offsets = mark_episode_starts(numbers, absent)[: numbers.size]
        row_offsets[:1] = [(numbers[0], absent[0]) != last] if numbers.size else []
        ids.append(numbers[row_offsets & ~absent])
        rows.append(done + np.flatnonzero(row_offsets & ~absent))
        last = (numbers[-1], absent[-1]) if numbers.size else last
        done += numbers.size
    episodes, row_numbers = np.concatenate(ids), np.concatenate(rows)
    order = np.argsort(episodes, kind="stable")
    repeats = np.flatnonzero(episodes[order[1:]] == episodes[order[:-1]])
    if not repeats.size:
        return None
    first = repeats[np.argmin(row_numbers[order[repeats + 1]])]
    first_row, second_row = (int(row_numbers[order[first + k]]) for k in (0, 1))
    return _cell(tables(), column, second_row), first_row + 1, second_row + 1


def _cell(tables: Iterable[Any], column: str, row: int) -> Any:
    """Return the cell of a row, counted from 0 through all tables."""
    for table in tables:
        if row < table.num_rows:
            return table.column(column)[row].as_py()
        row -= table.num_rows
    return None


def iter_sorted(
    tables: Callable[[], Iterable[Any]], ranks: EpisodeRanks, max_rows: float, folder: TemporaryFolder
) -> Iterator[Any]:
    """Iterate over all rows in order, as tables of whole episodes.

    Args:
        tables: Function that returns the rows, batch by batch.
        ranks: Ranks of the episodes.
        max_rows: Rows in memory at a time; a table has about as many, or 1 / ``MAX_FILES`` of all rows if that is more.
        folder: Folder for the files that rows are partitioned into.
    """
    groups = ranks.groups
    ends = np.cumsum(groups.num_rows[np.argsort(ranks.ranks)])
    total = int(ends[-1])
    size = max(max_rows, total / MAX_FILES)
    if total <= size:
        yield ranks.sort_rows(arrow_io.import_pyarrow().concat_tables(list(tables())))
        return
    # Cuts are episode ranks at equal numbers of rows, so that every file has about ``size`` rows whatever the lengths
    # of the episodes.
    shares = np.arange(1, math.ceil(total / size)) * size
    cuts = np.unique(np.append(np.searchsorted(ends, shares) + 1, ends.size))
    for path in _partition_to_files(tables(), ranks, cuts, folder):
        with arrow_io.raise_read_errors(path):
            table = arrow_io.import_pyarrow().parquet.read_table(path, use_threads=False)
        if table.num_rows:
            yield ranks.sort_rows(table)
        folder.remove(path)


def _partition_to_files(
    tables: Iterable[Any], ranks: EpisodeRanks, cuts: _Integers, folder: TemporaryFolder
) -> list[str]:
    """Partition rows into files of whole episodes: ranks below the first cut, below the second, ..."""
    writer_of, writers = arrow_io.import_pyarrow().parquet.ParquetWriter, {}
    paths = [folder.file(".parquet") for _ in cuts]
    try:
        for table in tables:
            file = np.searchsorted(cuts, ranks(table), side="right")
            # A stable sort keeps the original order of rows with equal keys across the two passes.
            order = np.argsort(file, kind="stable")
            borders = np.searchsorted(file[order], np.arange(cuts.size + 1))
            for number, (begin, end) in enumerate(pairwise(borders.tolist())):
                if number not in writers:
                    writers[number] = writer_of(paths[number], table.schema)
                if end > begin:
                    writers[number].write_table(table.take(order[begin:end]))
    finally:
        for writer in writers.values():
            writer.close()
    return paths
