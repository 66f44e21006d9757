"""Episodes out of rows in any order: sorted by step or by time, or cut where a visitor paused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix.logs import arrow
from rewardmix.logs.columns import episode_numbers, episodes_of, whole_numbers
from rewardmix.logs.log import Repair
from rewardmix.logs.ordering import GROUP, ORDER, Places, in_order, own_numbers
from rewardmix.logs.sources import Source, file_pieces, table_pieces
from rewardmix.logs.times import Pause, Span, check_there, is_clock, times
from rewardmix.logs.workers import TemporaryFolder

Numbering = Callable[[Any, str], tuple[NDArray[np.int64], NDArray[Any]]]
"""(table, name of its file) -> the groups of its rows, and what they are ordered by."""

Repaired = tuple[Source, tuple[Repair, ...]]
"""A source, and what was done to it."""


@dataclass(frozen=True)
class Room:
    """What sorting may use: rows in memory at a time, and a folder for the others."""

    rows: int
    folder: TemporaryFolder


def sorted_by_step(source: Source, room: Room) -> Repaired:
    """The rows of every file by episode and step."""
    names, steps = source.names, str(source.names.step)

    def numbering(table: Any, where: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
        with arrow.reading(where):
            episodes = episode_numbers(table.column(names.episode), names.episode)
            return episodes, whole_numbers(table.column(steps), steps).astype(np.int64)

    pieces, late, _, _ = _each_file(source, numbering, room, by_order=False)
    behind = f"{late} rows stood behind rows that they come before"
    text = f"{behind}: rows were sorted by episode, and within one by {steps!r}."
    return replace(source, pieces=pieces), (Repair("unsorted rows", late, text),)


def sorted_by_time(source: Source, room: Room) -> Repaired:
    """The rows of every file by episode and time, episodes as they began."""
    names, when, span = source.names, str(source.names.time), Span()

    def numbering(table: Any, where: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
        with arrow.reading(where):
            episodes = episode_numbers(table.column(names.episode), names.episode)
        return episodes, _moments(table, when, where, span)

    pieces, late, ties, starts = _each_file(source, numbering, room, by_order=True)
    source = replace(source, pieces=pieces, names=replace(names, time=None), about=(when,), span=span.texts)
    source = replace(source, in_order=_are_in_order(starts))
    text = f"{late} rows stood behind rows that they come before: rows were sorted by episode and {when!r}."
    return source, _needed(Repair("unsorted rows", late, text), _same_time(ties, when))


def cut_at_pauses(source: Source, pause: Pause, room: Room) -> Repaired:
    """Sessions of the visitors who are in the place of episodes: a longer pause begins a new one.

    All files are one table, and sessions come as they began.
    """
    names, when, visitor = source.names, str(source.names.time), source.names.episode
    span = Span()

    def numbering(table: Any, where: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
        with arrow.reading(where):
            visitors, absent = episodes_of(table.column(visitor), visitor)
        check_there(absent, visitor, where, "a visitor")
        return visitors, _moments(table, when, where, span)

    rows = NumberedRows(source.pieces, tuple(names.listed), numbering)
    visitors = Places.of(rows(), by_order=False)
    column = _unused("session", names.listed)
    like, most = source.pieces[0], room.rows if rows.stored else math.inf
    cut = _sessions(in_order(rows, visitors, most, room.folder), column, pause, when)
    halfway = replace(rows, pieces=_pieces_of(cut, like, column, room), columns=(*rows.columns, column, GROUP, ORDER))
    halfway = replace(halfway, numbering=lambda table, where: (own_numbers(table, GROUP), own_numbers(table, ORDER)))
    sessions = Places.of(halfway(), by_order=True)
    ties = Ties()
    pieces = _pieces_of(ties.counted(in_order(halfway, sessions, most, room.folder)), like, column, room)
    names = replace(names, episode=column, time=None)
    texts = source.texts - {visitor, when}
    found = replace(
        source,
        pieces=pieces,
        names=names,
        texts=texts,
        metadata={},
        about=(visitor, when),
        span=span.texts,
        in_order=True,
    )
    count, people = sessions.groups.ids.size, visitors.groups.ids.size
    text = f"{count} sessions were cut out of the rows of {people} visitors, where {when!r} paused for more than "
    return found, _needed(Repair("sessions", count, f"{text}{pause.text}."), _same_time(ties.count, when))


def _moments(table: Any, when: str, where: str, span: Span) -> NDArray[Any]:
    """The times of a table, remembered in ``span``."""
    column = table.column(when)
    return span.seen(times(column, when, where), clock=is_clock(column.type))


def _sessions(tables: Iterable[Any], column: str, pause: Pause, when: str) -> Iterator[Any]:
    """NumberedRows by visitor and time, with the number of their session in ``column`` and as their group."""
    done = 0
    for table in tables:
        visitors, moments = own_numbers(table, GROUP), own_numbers(table, ORDER)
        most = pause.ticks(clock=is_clock(table.schema.field(when).type))
        fresh = np.append(True, (visitors[1:] != visitors[:-1]) | (moments[1:] - moments[:-1] > most))
        number = done - 1 + np.cumsum(fresh)
        done = int(number[-1]) + 1
        place = table.column_names.index(GROUP)
        yield table.set_column(place, GROUP, [number]).append_column(column, [number])


def _unused(name: str, taken: Iterable[str]) -> str:
    """A name for a column that none of these has."""
    while name in taken:
        name += "_"
    return name


def _needed(*repairs: Repair) -> tuple[Repair, ...]:
    return tuple(repair for repair in repairs if repair.count)


def _same_time(count: int, when: str) -> Repair:
    text = f"{count} rows have the {when!r} of the row before in their episode; such rows stay in the order they came."
    return Repair("rows of the same time", count, text)


@dataclass
class Ties:
    """How many rows in order have the episode and the order of the row before."""

    count: int = 0

    def counted(self, tables: Iterable[Any]) -> Iterator[Any]:
        """The tables, which are cut between episodes, as they are."""
        for table in tables:
            group, order = own_numbers(table, GROUP), own_numbers(table, ORDER)
            self.count += int(((group[1:] == group[:-1]) & (order[1:] == order[:-1])).sum())
            yield table


@dataclass(frozen=True, eq=False)
class NumberedRows:
    """The rows of some pieces with their group and order, batch by batch, as often as they are asked for."""

    pieces: tuple[Any, ...]
    columns: tuple[str, ...]
    numbering: Numbering

    @property
    def stored(self) -> bool:
        """Whether they come from files."""
        return isinstance(self.pieces[0], arrow.ParquetPiece)

    def __call__(self) -> Iterator[Any]:
        """The batches that have rows."""
        form = self._form()
        for piece in self.pieces:
            for table in piece.batches(list(self.columns), frozenset()):
                if table.num_rows:
                    with arrow.reading(piece.name):
                        plain = table.select(form.names).cast(form)
                    group, order = self.numbering(plain, piece.name)
                    others = plain.select([name for name in form.names if name not in (GROUP, ORDER)])
                    yield others.append_column(GROUP, [group]).append_column(ORDER, [order])

    def _form(self) -> Any:
        """The types of the columns: what all files can be read as, dictionaries written out."""
        pa = arrow.library()
        forms = []
        for piece in {piece.path: piece for piece in self.pieces}.values():
            with arrow.reading(piece.name):
                schema = piece.form(self.columns)
                forms.append(pa.schema([(one.name, arrow.sortable_type(one.type)) for one in schema]))
        with arrow.reading(self.pieces[0].name):
            return pa.unify_schemas(forms, promote_options="permissive")


def _are_in_order(starts: Sequence[tuple[float, float]]) -> bool:
    """Whether files follow each other, given when the first and the last episode of each begins.

    Episodes that all begin at the same time have times of their own, such as seconds since the session began.
    """
    return starts[0][0] < starts[-1][1] and all(one[1] <= two[0] for one, two in pairwise(starts))


def _each_file(
    source: Source, numbering: Numbering, room: Room, *, by_order: bool
) -> tuple[tuple[Any, ...], int, int, list[tuple[float, float]]]:
    """Every file sorted by itself, for ids are those of a file.

    Also how many rows came too late, how many ties there are, and the order of each file's first and last episode.
    """
    late, ties = 0, Ties()
    starts: list[tuple[float, float]] = []
    pieces: list[Any] = []
    for path in dict.fromkeys(piece.path for piece in source.pieces):
        own = tuple(piece for piece in source.pieces if piece.path == path)
        rows = NumberedRows(own, tuple(source.names.listed), numbering)
        places = Places.of(rows(), by_order=by_order)
        starts.append((places.groups.firsts.min(), places.groups.firsts.max()))
        late += places.late(rows())
        tables = in_order(rows, places, room.rows if rows.stored else math.inf, room.folder)
        pieces += _pieces_of(ties.counted(tables), own[0], source.names.episode, room)
    return tuple(pieces), late, ties.count, starts


def _pieces_of(tables: Iterable[Any], like: Any, column: str, room: Room) -> tuple[Any, ...]:
    """Tables of whole episodes as pieces of the kind of ``like``: in a file, or in memory."""
    pa = arrow.library()
    if not isinstance(like, arrow.ParquetPiece):
        return table_pieces(pa.concat_tables(list(tables)), column, room.rows)
    path, writer = room.folder.file(".parquet"), None
    groups: list[int] = []
    try:
        for table in tables:
            writer = writer or pa.parquet.ParquetWriter(path, table.schema, write_page_checksum=True)
            writer.write_table(table, row_group_size=table.num_rows)
            groups.append(table.num_rows)
    finally:
        if writer is not None:
            writer.close()
    return tuple(file_pieces(path, like.name, groups, room.rows, checksums=True))
