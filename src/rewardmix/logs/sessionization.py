"""Form episodes from rows in any order: sort by step or time, or split the rows of a user at long pauses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix.logs import arrow_io
from rewardmix.logs.columns import encode_episode_ids, encode_episodes, encode_ints
from rewardmix.logs.executors import TemporaryFolder
from rewardmix.logs.log import Repair
from rewardmix.logs.row_sorting import GROUP, ORDER, EpisodeRanks, column_array, iter_sorted
from rewardmix.logs.sources import LogSource, make_file_chunks, make_table_chunks
from rewardmix.logs.timestamps import SessionGap, TimeSpan, check_no_missing, is_timestamp, read_times

RowKeys = Callable[[Any, str], tuple[NDArray[np.int64], NDArray[Any]]]
"""(table, name of its file) -> episode ids and order keys of its rows."""

RepairedSource = tuple[LogSource, tuple[Repair, ...]]
"""A source and the repairs made to it."""


@dataclass(frozen=True)
class SortBudget:
    """Limits of sorting: rows in memory at a time, and a folder for temporary files."""

    max_rows: int
    folder: TemporaryFolder


def sort_by_step(source: LogSource, budget: SortBudget) -> RepairedSource:
    """Sort the rows of every file by episode and step."""
    names, steps = source.names, str(source.names.step)

    def compute_keys(table: Any, file: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
        with arrow_io.raise_read_errors(file):
            episodes = encode_episode_ids(table.column(names.episode), names.episode)
            return episodes, encode_ints(table.column(steps), steps).astype(np.int64)

    chunks, late, _, _ = _sort_each_file(source, compute_keys, budget, by_order=False)
    text = f"{late} rows were out of order. Rows were sorted by episode and {steps!r}."
    return replace(source, chunks=chunks), (Repair("unsorted rows", late, text),)


def sort_by_time(source: LogSource, budget: SortBudget) -> RepairedSource:
    """Sort the rows of every file by episode and time, episodes by their start."""
    names, time, span = source.names, str(source.names.time), TimeSpan()

    def compute_keys(table: Any, file: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
        with arrow_io.raise_read_errors(file):
            episodes = encode_episode_ids(table.column(names.episode), names.episode)
        return episodes, _read_times(table, time, file, span)

    chunks, late, ties, starts = _sort_each_file(source, compute_keys, budget, by_order=True)
    source = replace(
        source, chunks=chunks, names=replace(names, time=None), extra_columns=(time,), time_span=span.as_iso
    )
    source = replace(source, in_order=_are_in_order(starts))
    text = f"{late} rows were out of order. Rows were sorted by episode and {time!r}."
    return source, _drop_empty_repairs(Repair("unsorted rows", late, text), _tie_repair(ties, time))


def split_sessions(source: LogSource, pause: SessionGap, budget: SortBudget) -> RepairedSource:
    """Split the rows of each user into sessions: a time longer than ``pause`` without rows begins a new one.

    All files count as one table. Sessions are ordered by their start.
    """
    names, time, user = source.names, str(source.names.time), source.names.episode
    span = TimeSpan()

    def compute_keys(table: Any, file: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
        with arrow_io.raise_read_errors(file):
            users, absent = encode_episodes(table.column(user), user)
        check_no_missing(absent, user, file, "a user")
        return users, _read_times(table, time, file, span)

    rows = KeyedRows(source.chunks, tuple(names.all_names), compute_keys)
    # Two sorts are needed. The first brings the rows of each user together to find the pauses; the second orders the
    # sessions of all users by time.
    users = EpisodeRanks.look_up(rows(), by_order=False)
    column = _fresh_column_name("session", names.all_names)
    like_chunk, max_rows = source.chunks[0], budget.max_rows if rows.is_on_disk else math.inf
    numbered = _number_sessions(iter_sorted(rows, users, max_rows, budget.folder), column, pause, time)
    renumbered = replace(
        rows, chunks=_write_chunks(numbered, like_chunk, column, budget), columns=(*rows.columns, column, GROUP, ORDER)
    )
    renumbered = replace(
        renumbered, row_keys=lambda table, file: (column_array(table, GROUP), column_array(table, ORDER))
    )
    sessions = EpisodeRanks.look_up(renumbered(), by_order=True)
    ties = TieCounter()
    chunks = _write_chunks(
        ties.iter_and_count(iter_sorted(renumbered, sessions, max_rows, budget.folder)), like_chunk, column, budget
    )
    names = replace(names, episode=column, time=None)
    label_columns = source.label_columns - {user, time}
    log_source = replace(
        source,
        chunks=chunks,
        names=names,
        label_columns=label_columns,
        # A description stored in the file refers to its own episodes and does not hold for the new sessions.
        metadata={},
        extra_columns=(user, time),
        time_span=span.as_iso,
        in_order=True,
    )
    count, num_users = sessions.groups.ids.size, users.groups.ids.size
    pauses = f"pauses of more than {pause.label} in {time!r}"
    text = f"The rows of {num_users} users were split into {count} sessions at {pauses}."
    return log_source, _drop_empty_repairs(Repair("sessions", count, text), _tie_repair(ties.count, time))


def _read_times(table: Any, time: str, file: str, span: TimeSpan) -> NDArray[Any]:
    """Read the times of a table and add them to the time span."""
    column = table.column(time)
    return span.update(read_times(column, time, file), clock=is_timestamp(column.type))


def _number_sessions(tables: Iterable[Any], column: str, pause: SessionGap, time: str) -> Iterator[Any]:
    """Number the sessions in rows sorted by user and time; the number replaces the group and fills ``column``."""
    done = 0
    for table in tables:
        users, times = column_array(table, GROUP), column_array(table, ORDER)
        max_pause = pause.ticks(clock=is_timestamp(table.schema.field(time).type))
        # Tables hold whole users, so the first row of a table always begins a session.
        is_first = np.append(True, (users[1:] != users[:-1]) | (times[1:] - times[:-1] > max_pause))
        number = done - 1 + np.cumsum(is_first)
        done = int(number[-1]) + 1
        index = table.column_names.index(GROUP)
        yield table.set_column(index, GROUP, [number]).append_column(column, [number])


def _fresh_column_name(name: str, taken: Iterable[str]) -> str:
    """Return a column name that is not in use."""
    while name in taken:
        name += "_"
    return name


def _drop_empty_repairs(*repairs: Repair) -> tuple[Repair, ...]:
    return tuple(repair for repair in repairs if repair.count)


def _tie_repair(count: int, time: str) -> Repair:
    text = f"{count} rows have the same {time!r} as the row before in their episode. Such rows keep their order."
    return Repair("rows with equal times", count, text)


@dataclass
class TieCounter:
    """Count sorted rows with the episode and the order key of the row before."""

    count: int = 0

    def iter_and_count(self, tables: Iterable[Any]) -> Iterator[Any]:
        """Pass on tables, which are cut between episodes, and count their ties."""
        for table in tables:
            group, order = column_array(table, GROUP), column_array(table, ORDER)
            self.count += int(((group[1:] == group[:-1]) & (order[1:] == order[:-1])).sum())
            yield table


@dataclass(frozen=True, eq=False)
class KeyedRows:
    """Rows of some chunks with their sort keys, batch by batch; can be iterated repeatedly."""

    chunks: tuple[Any, ...]
    columns: tuple[str, ...]
    row_keys: RowKeys

    @property
    def is_on_disk(self) -> bool:
        """Whether the rows come from files."""
        return isinstance(self.chunks[0], arrow_io.ParquetChunk)

    def __call__(self) -> Iterator[Any]:
        """Iterate over the non-empty batches."""
        schema = self._column_types()
        for chunk in self.chunks:
            for table in chunk.batches(list(self.columns), frozenset()):
                if table.num_rows:
                    with arrow_io.raise_read_errors(chunk.name):
                        converted = table.select(schema.names).cast(schema)
                    group, order = self.row_keys(converted, chunk.name)
                    others = converted.select([name for name in schema.names if name not in (GROUP, ORDER)])
                    yield others.append_column(GROUP, [group]).append_column(ORDER, [order])

    def _column_types(self) -> Any:
        """Return column types that all files can be read as, with dictionaries decoded."""
        pa = arrow_io.import_pyarrow()
        schemas = []
        for chunk in {chunk.path: chunk for chunk in self.chunks}.values():
            with arrow_io.raise_read_errors(chunk.name):
                schema = chunk.column_types(self.columns)
                # Dictionaries of different files have different codes, so their values are decoded before rows are
                # mixed.
                schemas.append(pa.schema([(field.name, arrow_io.sortable_type(field.type)) for field in schema]))
        with arrow_io.raise_read_errors(self.chunks[0].name):
            return pa.unify_schemas(schemas, promote_options="permissive")


def _are_in_order(starts: Sequence[tuple[float, float]]) -> bool:
    """Return whether files follow each other in time, given the start of the first and of the last episode of each.

    Episodes that all start at one time have relative times, such as seconds since the session began, and give no order.
    """
    return starts[0][0] < starts[-1][1] and all(file[1] <= next_file[0] for file, next_file in pairwise(starts))


def _sort_each_file(
    source: LogSource, row_keys: RowKeys, budget: SortBudget, *, by_order: bool
) -> tuple[tuple[Any, ...], int, int, list[tuple[float, float]]]:
    """Sort every file separately, because episode ids are unique within a file only.

    Returns the chunks, the number of late rows, the number of ties, and the starts of the first and last episode by
    file.
    """
    late, ties = 0, TieCounter()
    starts: list[tuple[float, float]] = []
    chunks: list[Any] = []
    for path in dict.fromkeys(chunk.path for chunk in source.chunks):
        file_chunks = tuple(chunk for chunk in source.chunks if chunk.path == path)
        rows = KeyedRows(file_chunks, tuple(source.names.all_names), row_keys)
        ranks = EpisodeRanks.look_up(rows(), by_order=by_order)
        starts.append((ranks.groups.min_order.min(), ranks.groups.min_order.max()))
        # Late rows are only counted for the report; the sort below handles them in any case.
        late += ranks.count_late_rows(rows())
        tables = iter_sorted(rows, ranks, budget.max_rows if rows.is_on_disk else math.inf, budget.folder)
        chunks += _write_chunks(ties.iter_and_count(tables), file_chunks[0], source.names.episode, budget)
    return tuple(chunks), late, ties.count, starts


def _write_chunks(tables: Iterable[Any], sample_chunk: Any, column: str, budget: SortBudget) -> tuple[Any, ...]:
    """Turn tables of whole episodes into chunks of the kind of ``sample_chunk``: in a file or in memory."""
    pa = arrow_io.import_pyarrow()
    if not isinstance(sample_chunk, arrow_io.ParquetChunk):
        return make_table_chunks(pa.concat_tables(list(tables)), column, budget.max_rows)
    path, writer = budget.folder.file(".parquet"), None
    group_sizes: list[int] = []
    try:
        for table in tables:
            writer = writer or pa.parquet.ParquetWriter(path, table.schema, write_page_checksum=True)
            # One row group per table, so that no row group splits an episode.
            writer.write_table(table, row_group_size=table.num_rows)
            group_sizes.append(table.num_rows)
    finally:
        if writer is not None:
            writer.close()
    return tuple(make_file_chunks(path, sample_chunk.name, group_sizes, budget.max_rows, checksums=True))
