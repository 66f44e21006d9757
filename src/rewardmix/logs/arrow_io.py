"""Read and convert data with pyarrow: Parquet, CSV and tables in memory, as batches of plain columns.

Errors of pyarrow become an ``InputError`` of one sentence that names the file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rewardmix._core.checks import InputError, raise_input_error

BATCH_ROWS = 1 << 20
"""Rows that are decoded at a time."""

MAX_INT_DIGITS = 18
"""Decimal numbers with this many digits fit into 64-bit integers."""

_MISSING_PYARROW = "Reading and writing logs needs pyarrow: pip install 'rewardmix[logs]'"


def import_pyarrow() -> Any:
    """Import ``pyarrow`` with ``compute``, ``csv`` and ``parquet``."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(_MISSING_PYARROW) from error
    return pyarrow


@contextmanager
def raise_read_errors(name: str) -> Iterator[None]:
    """Convert errors on reading a file to an ``InputError`` that names it."""
    pa = import_pyarrow()
    try:
        yield
    except InputError:
        raise
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"path: got no readable file at {name!r} ({error.strerror}), expected a log") from error
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
            f"path: got {name!r}, which is damaged or not a log ({reason}), expected a complete log file"
        ) from error


@dataclass(frozen=True)
class ParquetChunk:
    """Consecutive row groups of a Parquet file.

    Attributes:
        path: path of the file.
        first_row_group: index of the first row group.
        num_row_groups: number of row groups.
        num_rows: rows in them.
        checksums: whether pages carry checksums, which are then verified.
        name: name of the file in messages.
        skip_leading_episode: drop the leading rows of the episode that the row group before ends with.
        complete_last_episode: read on into the following row groups until the last episode is complete.
    """

    path: str
    first_row_group: int
    num_row_groups: int
    num_rows: int
    checksums: bool = False
    name: str = ""
    skip_leading_episode: bool = False
    complete_last_episode: bool = False

    def batches(self, columns: list[str], texts: frozenset[str]) -> Iterator[Any]:
        """Iterate over tables of about ``BATCH_ROWS`` rows with these columns; label columns are dictionaries."""
        with raise_read_errors(self.name):
            file = open_parquet(self.path, sorted(texts & set(columns)), checksums=self.checksums)
            groups = list(range(self.first_row_group, self.first_row_group + self.num_row_groups))
            yield from _batches(file, groups, columns)

    def column_types(self, columns: Sequence[str]) -> Any:
        """Return the schema of these columns; to be called inside ``raise_read_errors``."""
        return import_pyarrow().schema([open_parquet(self.path).schema_arrow.field(name) for name in columns])

    def adjacent_batches(self, columns: list[str], texts: frozenset[str], *, before: bool) -> Iterator[Any]:
        """Iterate over the row groups before this chunk (nearest first) or over the rows after it (in order)."""
        with raise_read_errors(self.name):
            file = open_parquet(self.path, sorted(texts & set(columns)), checksums=self.checksums)
            if before:
                for group in reversed(range(self.first_row_group)):
                    yield file.read_row_group(group, columns=columns, use_threads=False)
            else:
                groups = list(range(self.first_row_group + self.num_row_groups, file.num_row_groups))
                yield from _batches(file, groups, columns)


@dataclass(frozen=True, eq=False)
class TableChunk:
    """Rows of a table in memory, cut between episodes."""

    table: Any
    name: str = "the table"
    skip_leading_episode: bool = False
    complete_last_episode: bool = False

    @property
    def path(self) -> str:
        """Name of the table; all chunks of a table count as one file."""
        return self.name

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    def column_types(self, columns: Sequence[str]) -> Any:
        """Return the schema of these columns."""
        return self.table.select(list(columns)).schema

    def batches(self, columns: list[str], texts: frozenset[str]) -> Iterator[Any]:
        """Iterate over the rows in batches."""
        for begin in range(0, self.table.num_rows, BATCH_ROWS):
            yield self.table.select(columns).slice(begin, BATCH_ROWS)


def _batches(file: Any, groups: list[int], columns: list[str]) -> Iterator[Any]:
    """Read small row groups whole and large ones as a stream of batches."""
    pa = import_pyarrow()
    for group in groups:
        # Reading a whole row group is faster. The stream bounds memory for files that were written as one large group.
        # Arrow's threads stay off: workers already use all cores.
        if file.metadata.row_group(group).num_rows <= 4 * BATCH_ROWS:
            yield file.read_row_group(group, columns=columns, use_threads=False)
        else:
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False):
                yield pa.Table.from_batches([batch])


def open_parquet(path: str, dictionaries: list[str] | None = None, *, checksums: bool = False) -> Any:
    """Open a Parquet file for reading; to be called inside ``raise_read_errors``."""
    status = os.stat(path)
    if status.st_size == 0:
        raise_input_error("path", f"an empty file {path!r}", "a Parquet file with rows")
    cache_key = path, tuple(dictionaries or ()), checksums
    # Modification time and size are part of the cache key, so that a file that was replaced is opened again.
    return _open_cached(*cache_key, status.st_mtime_ns, status.st_size, threading.get_ident())


@lru_cache(maxsize=32)
def _open_cached(
    path: str, dictionaries: tuple[str, ...], checksums: bool, changed: int, size: int, thread: int
) -> Any:
    """Open a Parquet file and cache the handle, because reading the footer of a file with many row groups is slow.

    Each thread has its own handle: pyarrow's readers are not safe for concurrent use, and sharing one gave false
    reports of damage and crashes.
    """
    return import_pyarrow().parquet.ParquetFile(
        path, memory_map=True, read_dictionary=list(dictionaries), page_checksum_verification=checksums
    )


def value_type(kind: Any) -> Any:
    """Return the value type of a dictionary type; any other type unchanged."""
    return kind.value_type if import_pyarrow().types.is_dictionary(kind) else kind


def sortable_type(kind: Any) -> Any:
    """Return the type of values that Arrow's ``take`` supports: dictionaries and string views decoded."""
    pa, kind = import_pyarrow(), value_type(kind)
    return pa.large_string() if pa.types.is_string_view(kind) else kind


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type holds labels."""
    types, kind = import_pyarrow().types, value_type(kind)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type holds numbers, booleans or only nulls."""
    types, kind = import_pyarrow().types, value_type(kind)
    plain = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)
    return bool(plain or types.is_decimal(kind))


def is_time(kind: Any) -> bool:
    """Return whether an Arrow type holds timestamps or dates."""
    types, kind = import_pyarrow().types, value_type(kind)
    return bool(types.is_timestamp(kind) or types.is_date(kind))


def is_whole_decimal(kind: Any) -> bool:
    """Return whether an Arrow type holds decimals without fraction digits that fit into 64 bits."""
    return bool(import_pyarrow().types.is_decimal(kind) and kind.scale == 0 and kind.precision <= MAX_INT_DIGITS)


def is_fraction(kind: Any) -> bool:
    """Return whether an Arrow type holds other decimals, which floats cannot represent distinctly."""
    kind = value_type(kind)
    return bool(import_pyarrow().types.is_decimal(kind) and not is_whole_decimal(kind))


def is_null(kind: Any) -> bool:
    """Return whether an Arrow type holds only nulls."""
    return bool(import_pyarrow().types.is_null(value_type(kind)))


def column_names(frame: Any) -> list[str] | None:
    """List the column names of a pyarrow, polars or pandas frame; None for any other object."""
    root = type(frame).__module__.split(".")[0]
    if root not in ("pyarrow", "polars", "pandas") or not hasattr(type(frame), "columns"):
        return None
    if type(frame).__name__ == "LazyFrame":
        with _raise_conversion_errors():
            return list(frame.collect_schema().names())
    return [str(name) for name in (frame.schema.names if root == "pyarrow" else frame.columns)]


def arrow_table(frame: Any, names: Sequence[str]) -> Any:
    """Convert the named columns of a pyarrow, polars or pandas frame to a pyarrow table without run-end encoding.

    Other columns are not touched, because they may hold values that Arrow cannot convert.
    """
    pa = import_pyarrow()
    selected_names = list(names)
    with _raise_conversion_errors():
        if type(frame).__module__.split(".")[0] == "pandas":
            # Selecting by mask also works for column names that are not text.
            selected = frame.loc[:, [str(name) in selected_names for name in frame.columns]]
            table = pa.Table.from_pandas(selected, preserve_index=False)
        elif hasattr(frame, "to_arrow") or hasattr(frame, "collect"):
            selected = frame.select(selected_names)
            # Columns are selected before a lazy frame is collected, so the others are not computed.
            table = (selected.collect() if type(frame).__name__ == "LazyFrame" else selected).to_arrow()
        else:
            table = pa.Table.from_batches([frame]) if isinstance(frame, pa.RecordBatch) else frame
        columns = [_decode_run_ends(table.column(name)) for name in selected_names]
    return pa.Table.from_arrays(columns, names=selected_names)


@contextmanager
def _raise_conversion_errors() -> Iterator[None]:
    """Convert errors on converting a frame to an ``InputError``."""
    pa = import_pyarrow()
    try:
        yield
    except Exception as error:
        expected_errors = (pa.ArrowException, TypeError, ValueError, OverflowError, MemoryError)
        if not isinstance(error, expected_errors) and type(error).__module__.split(".")[0] != "polars":
            raise
        reason = " ".join(str(arg) for arg in error.args)
        raise InputError(
            f"log: got a column that Arrow cannot represent, for example one of mixed types ({reason}), "
            "expected one type per column"
        ) from error


def _decode_run_ends(column: Any) -> Any:
    pa = import_pyarrow()
    return pa.compute.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column
