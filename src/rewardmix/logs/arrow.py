"""The door to pyarrow: Parquet, CSV and tables in memory, as batches of plain columns.

Whatever pyarrow says about a file that it cannot read becomes one sentence that names the file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rewardmix._core.checks import InputError, refuse

BATCH = 1 << 20
"""Rows that are decoded at a time."""

WHOLE_DIGITS = 18
"""Decimal numbers of so many digits fit into 64 bits."""

_NEEDED = "Reading and writing logs needs pyarrow: pip install 'rewardmix[logs]'"


def library() -> Any:
    """The ``pyarrow`` module, with ``compute``, ``csv`` and ``parquet``."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(_NEEDED) from error
    return pyarrow


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Say in one sentence what is wrong with a file."""
    pa = library()
    try:
        yield
    except InputError:
        raise
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"path: found no readable file at {name!r} ({error.strerror}), expected a log") from error
    except (
        pa.ArrowException,
        OSError,
        MemoryError,
        OverflowError,
        EOFError,
        UnicodeDecodeError,
        KeyError,
        IndexError,
    ) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"path: found {name!r} that is damaged or of another kind ({reason}), expected a whole log file"
        ) from error


@dataclass(frozen=True)
class ParquetPiece:
    """Some row groups of a Parquet file, one after the other.

    Attributes:
        path: of the file.
        first: number of the first row group.
        count: how many.
        rows: in them.
        checksums: whether the pages carry checksums, which are then verified.
        name: of the file, for messages.
        head: drop the leading rows of the episode that the row group before ended with.
        tail: go on into the following row groups until the last episode is complete.
    """

    path: str
    first: int
    count: int
    rows: int
    checksums: bool = False
    name: str = ""
    head: bool = False
    tail: bool = False

    def batches(self, columns: list[str], texts: frozenset[str]) -> Iterator[Any]:
        """Tables of at most ``BATCH`` rows with these columns; text columns come as dictionaries."""
        with reading(self.name):
            file = open_parquet(self.path, sorted(texts & set(columns)), checksums=self.checksums)
            groups = list(range(self.first, self.first + self.count))
            yield from _batches(file, groups, columns)

    def form(self, columns: Sequence[str]) -> Any:
        """The types of these columns; call it inside ``reading``."""
        return library().schema([open_parquet(self.path).schema_arrow.field(name) for name in columns])

    def neighbour(self, columns: list[str], texts: frozenset[str], *, before: bool) -> Iterator[Any]:
        """Tables of the row groups before (nearest first, one each), or of those after, in order."""
        with reading(self.name):
            file = open_parquet(self.path, sorted(texts & set(columns)), checksums=self.checksums)
            if before:
                for group in reversed(range(self.first)):
                    yield file.read_row_group(group, columns=columns, use_threads=False)
            else:
                groups = list(range(self.first + self.count, file.num_row_groups))
                yield from _batches(file, groups, columns)


@dataclass(frozen=True, eq=False)
class TablePiece:
    """Rows of a table in memory, cut between episodes."""

    table: Any
    name: str = "the table"
    head: bool = False
    tail: bool = False

    @property
    def path(self) -> str:
        """All pieces of one table are one file."""
        return self.name

    @property
    def rows(self) -> int:
        """How many."""
        return int(self.table.num_rows)

    def form(self, columns: Sequence[str]) -> Any:
        """The types of these columns."""
        return self.table.select(list(columns)).schema

    def batches(self, columns: list[str], texts: frozenset[str]) -> Iterator[Any]:
        """The rows."""
        for begin in range(0, self.table.num_rows, BATCH):
            yield self.table.select(columns).slice(begin, BATCH)


def _batches(file: Any, groups: list[int], columns: list[str]) -> Iterator[Any]:
    """Whole row groups where they are small, streams of batches through the ones that are not."""
    pa = library()
    for group in groups:
        if file.metadata.row_group(group).num_rows <= 4 * BATCH:
            yield file.read_row_group(group, columns=columns, use_threads=False)
        else:
            for batch in file.iter_batches(BATCH, row_groups=[group], columns=columns, use_threads=False):
                yield pa.Table.from_batches([batch])


def open_parquet(path: str, dictionaries: list[str] | None = None, *, checksums: bool = False) -> Any:
    """A Parquet file ready to be read; call it inside ``reading``."""
    status = os.stat(path)
    if status.st_size == 0:
        refuse("path", f"an empty file {path!r}", "a Parquet file with rows")
    asked = path, tuple(dictionaries or ()), checksums
    return _opened(*asked, status.st_mtime_ns, status.st_size, threading.get_ident())


@lru_cache(maxsize=32)
def _opened(path: str, dictionaries: tuple[str, ...], checksums: bool, changed: int, size: int, thread: int) -> Any:
    """Kept open for a while: reading the footer of a file with many row groups takes its time.

    Every thread has its own: one file that two of them read at a time looks damaged now and then, or the process dies.
    """
    return library().parquet.ParquetFile(
        path, memory_map=True, read_dictionary=list(dictionaries), page_checksum_verification=checksums
    )


def value_type(kind: Any) -> Any:
    """The type of the values of a dictionary; any other type as it is."""
    return kind.value_type if library().types.is_dictionary(kind) else kind


def sortable_type(kind: Any) -> Any:
    """The type of values that Arrow can take out of a column in another order: dictionaries and views written out."""
    pa, kind = library(), value_type(kind)
    return pa.large_string() if pa.types.is_string_view(kind) else kind


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds labels."""
    types, kind = library().types, value_type(kind)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_number(kind: Any) -> bool:
    """Whether an Arrow type holds numbers (or truth values, or nothing at all)."""
    types, kind = library().types, value_type(kind)
    plain = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)
    return bool(plain or types.is_decimal(kind))


def is_time(kind: Any) -> bool:
    """Whether an Arrow type holds points in time."""
    types, kind = library().types, value_type(kind)
    return bool(types.is_timestamp(kind) or types.is_date(kind))


def is_whole_decimal(kind: Any) -> bool:
    """Whether an Arrow type holds decimal numbers without a fraction that fit into 64 bits."""
    return bool(library().types.is_decimal(kind) and kind.scale == 0 and kind.precision <= WHOLE_DIGITS)


def is_fraction(kind: Any) -> bool:
    """Whether an Arrow type holds decimal numbers that are none of these, so that no float tells them all apart."""
    kind = value_type(kind)
    return bool(library().types.is_decimal(kind) and not is_whole_decimal(kind))


def is_nothing(kind: Any) -> bool:
    """Whether an Arrow type holds nothing but nulls."""
    return bool(library().types.is_null(value_type(kind)))


def column_names(frame: Any) -> list[str] | None:
    """How the columns of a pyarrow, polars or pandas frame are called; None if it is none of them."""
    root = type(frame).__module__.split(".")[0]
    if root not in ("pyarrow", "polars", "pandas") or not hasattr(type(frame), "columns"):
        return None
    if type(frame).__name__ == "LazyFrame":
        with _converting():
            return list(frame.collect_schema().names())
    return [str(name) for name in (frame.schema.names if root == "pyarrow" else frame.columns)]


def arrow_table(frame: Any, names: Sequence[str]) -> Any:
    """The named columns of a pyarrow, polars or pandas frame as a pyarrow table, what is run-end encoded written out.

    Other columns are left alone: whatever they hold, nobody asked for it.
    """
    pa = library()
    wanted = list(names)
    with _converting():
        if type(frame).__module__.split(".")[0] == "pandas":
            chosen = frame.loc[:, [str(name) in wanted for name in frame.columns]]
            table = pa.Table.from_pandas(chosen, preserve_index=False)
        elif hasattr(frame, "to_arrow") or hasattr(frame, "collect"):
            chosen = frame.select(wanted)
            table = (chosen.collect() if type(frame).__name__ == "LazyFrame" else chosen).to_arrow()
        else:
            table = pa.Table.from_batches([frame]) if isinstance(frame, pa.RecordBatch) else frame
        columns = [_written_out(table.column(name)) for name in wanted]
    return pa.Table.from_arrays(columns, names=wanted)


@contextmanager
def _converting() -> Iterator[None]:
    """Say in one sentence why a frame in memory does not become a table."""
    pa = library()
    try:
        yield
    except Exception as error:
        known = (pa.ArrowException, TypeError, ValueError, OverflowError, MemoryError)
        if not isinstance(error, known) and type(error).__module__.split(".")[0] != "polars":
            raise
        reason = " ".join(str(part) for part in error.args)
        raise InputError(
            f"log: found a column that Arrow cannot hold, such as a column of mixed types ({reason}), "
            "expected one type a column"
        ) from error


def _written_out(column: Any) -> Any:
    pa = library()
    return pa.compute.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column
