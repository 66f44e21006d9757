"""Rows in order: each episode together, its rows one after the other, whatever order they came in.

A table in memory is sorted as a whole. Files are sorted by distribution: one pass counts the rows of every episode, one
deals the rows out to files of whole episodes that fit into memory, and each of these is sorted by itself. So memory
holds one such file and 40 bytes an episode, and every row is written twice. (Sorting in Arrow's own engine gathers all
rows in memory first.) Rows that compare equal stay in the order in which they came.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix.logs import arrow
from rewardmix.logs.columns import episodes_of, runs_of
from rewardmix.logs.workers import TemporaryFolder

_Integers = NDArray[np.int64]

MOST_FILES = 128
"""Files that rows are dealt out to at a time, at most."""

MOST_PENDING = 4 * arrow.BATCH
"""Rows whose groups wait to be merged, at least."""


GROUP, ORDER = "rewardmix group", "rewardmix order"
"""Columns that say where a row belongs: which episode it is of, and what the rows of an episode are ordered by."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The episodes of some rows.

    Attributes:
        ids: (G,), increasing.
        firsts: (G,) the smallest order of their rows.
        numbers: (G,) of their first rows.
        rows: (G,) how many.
    """

    ids: _Integers
    firsts: NDArray[Any]
    numbers: _Integers
    rows: _Integers

    @staticmethod
    def of(ids: _Integers, firsts: NDArray[Any], numbers: _Integers, rows: _Integers) -> Groups:
        """From pieces of groups, in any order."""
        known, place = np.unique(ids, return_inverse=True)
        first, number = _smallest(firsts, place, known.size), _smallest(numbers, place, known.size)
        total = np.zeros(known.size, np.int64)
        np.add.at(total, place, rows)
        return Groups(known, first, number, total)

    def ranks(self, *, by_order: bool) -> _Integers:
        """(G,) the place of each group: by its smallest order, where that is the same (or not asked for) as it came."""
        keys = (self.numbers, self.firsts) if by_order else (self.numbers,)
        ranks = np.empty(self.ids.size, np.int64)
        ranks[np.lexsort(keys)] = np.arange(self.ids.size)
        return ranks


def _smallest(values: NDArray[Any], place: _Integers, size: int) -> NDArray[Any]:
    """(size,) the smallest value of each place."""
    smallest = np.empty(size, values.dtype)
    falling = np.argsort(values, kind="stable")[::-1]
    smallest[place[falling]] = values[falling]  # of those of one place the last is written last
    return smallest


def groups_of(tables: Iterable[Any]) -> Groups:
    """The episodes of all rows, with no more in memory than there are episodes and a few batches."""
    merged: Groups | None = None
    waiting: list[Groups] = []
    pending, done = 0, 0
    for table in tables:
        group = own_numbers(table, GROUP)
        numbers = np.arange(done, done + group.size)
        waiting.append(Groups.of(group, own_numbers(table, ORDER), numbers, np.ones(group.size, np.int64)))
        done += group.size
        pending += waiting[-1].ids.size
        if pending > max(MOST_PENDING, 0 if merged is None else merged.ids.size):
            merged, waiting, pending = _merged([*([merged] if merged else []), *waiting]), [], 0
    return _merged([*([merged] if merged else []), *waiting])


def own_numbers(table: Any, column: str) -> NDArray[Any]:
    """A column of a table that is ours, and so has no nulls."""
    return np.asarray(table.column(column).to_numpy())


def _merged(groups: Sequence[Groups]) -> Groups:
    columns = (np.concatenate([getattr(one, name) for one in groups]) for name in ("ids", "firsts", "numbers", "rows"))
    return Groups.of(*columns)


@dataclass(frozen=True, eq=False)
class Places:
    """The place of every episode among all, looked up by its id."""

    groups: Groups
    ranks: _Integers

    @staticmethod
    def of(tables: Iterable[Any], *, by_order: bool) -> Places:
        """Of the episodes of all rows: by their smallest order, or as their first rows come."""
        groups = groups_of(tables)
        return Places(groups, groups.ranks(by_order=by_order))

    def __call__(self, table: Any) -> _Integers:
        """(N,) the place of each row's episode."""
        return np.asarray(self.ranks[np.searchsorted(self.groups.ids, own_numbers(table, GROUP))])

    def sorted(self, table: Any) -> Any:
        """The rows of a table in order."""
        return table.take(np.lexsort((own_numbers(table, ORDER), self(table))))

    def late(self, tables: Iterable[Any]) -> int:
        """How many rows come behind one that should come after them."""
        late = 0
        rank, order = np.empty(0, np.int64), np.empty(0)
        for table in tables:
            ranks, orders = np.append(rank, self(table)), np.append(order, own_numbers(table, ORDER))
            _, codes = np.unique(orders, return_inverse=True)
            places = ranks * (codes.max(initial=0) + 1) + codes
            highest = np.maximum.accumulate(places)
            late += int((places[1:] < highest[:-1]).sum())
            last = [int(np.argmax(places))] if places.size else []
            rank, order = ranks[last], orders[last]
        return late


def first_split(tables: Callable[[], Iterable[Any]], column: str) -> tuple[Any, int, int] | None:
    """(an episode with rows of others between its own, the row where it begins, and begins again), rows from 1.

    Of all such episodes the one that begins again first; None if there is none.
    """
    ids, rows, done = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    last: tuple[Any, Any] | None = None
    for table in tables():
        numbers, absent = episodes_of(table.column(column), column)
        begins = runs_of(numbers, absent)[: numbers.size]
        begins[:1] = [(numbers[0], absent[0]) != last] if numbers.size else []
        ids.append(numbers[begins & ~absent])
        rows.append(done + np.flatnonzero(begins & ~absent))
        last = (numbers[-1], absent[-1]) if numbers.size else last
        done += numbers.size
    episodes, places = np.concatenate(ids), np.concatenate(rows)
    order = np.argsort(episodes, kind="stable")
    again = np.flatnonzero(episodes[order[1:]] == episodes[order[:-1]])
    if not again.size:
        return None
    first = again[np.argmin(places[order[again + 1]])]
    one, two = (int(places[order[first + k]]) for k in (0, 1))
    return _cell(tables(), column, two), one + 1, two + 1


def _cell(tables: Iterable[Any], column: str, row: int) -> Any:
    """What stands in a row, counted from 0 through all tables."""
    for table in tables:
        if row < table.num_rows:
            return table.column(column)[row].as_py()
        row -= table.num_rows
    return None


def in_order(
    tables: Callable[[], Iterable[Any]], places: Places, most: float, folder: TemporaryFolder
) -> Iterator[Any]:
    """All rows in order, as tables of whole episodes of about ``most`` rows (in ``MOST_FILES`` tables at most).

    Args:
        tables: gives the rows, batch by batch.
        places: of the episodes.
        most: rows that are in memory at a time.
        folder: for the files that rows are dealt out to.
    """
    groups = places.groups
    ends = np.cumsum(groups.rows[np.argsort(places.ranks)])
    total = int(ends[-1])
    size = max(most, total / MOST_FILES)
    if total <= size:
        yield places.sorted(arrow.library().concat_tables(list(tables())))
        return
    shares = np.arange(1, math.ceil(total / size)) * size
    cuts = np.unique(np.append(np.searchsorted(ends, shares) + 1, ends.size))
    for path in _dealt(tables(), places, cuts, folder):
        with arrow.reading(path):
            table = arrow.library().parquet.read_table(path, use_threads=False)
        if table.num_rows:
            yield places.sorted(table)
        folder.remove(path)


def _dealt(tables: Iterable[Any], places: Places, cuts: _Integers, folder: TemporaryFolder) -> list[str]:
    """Files of whole episodes: those of places below the first cut, below the second, ..."""
    writer_of, writers = arrow.library().parquet.ParquetWriter, {}
    paths = [folder.file(".parquet") for _ in cuts]
    try:
        for table in tables:
            file = np.searchsorted(cuts, places(table), side="right")
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
