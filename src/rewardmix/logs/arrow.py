"""The door to pyarrow: Parquet, CSV and tables in memory, as batches of plain columns.

Whatever pyarrow says about a file that it cannot read becomes one sentence that names the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rewardmix._check import InputError, refuse

BATCH = 1 << 20
"""Rows that are decoded at a time."""

NEEDED = "Reading and writing logs needs pyarrow: pip install 'rewardmix[logs]'"


def library() -> Any:
    """The ``pyarrow`` module, with ``compute``, ``csv`` and ``parquet``."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(NEEDED) from error
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
        checksums: whether the pages carry checksums, which are then verified.
        head: drop the leading rows of the episode that the row group before ended with.
        tail: go on into the following row groups until the last episode is complete.
    """

    path: str
    first: int
    count: int
    checksums: bool = False
    head: bool = False
    tail: bool = False

    @property
    def name(self) -> str:
        """For messages."""
        return self.path

    def batches(self, columns: list[str], texts: frozenset[str]) -> Iterator[Any]:
        """Tables of at most ``BATCH`` rows with these columns; text columns come as dictionaries."""
        with reading(self.path):
            file = open_parquet(self.path, sorted(texts & set(columns)), checksums=self.checksums)
            groups = list(range(self.first, self.first + self.count))
            yield from _batches(file, groups, columns)

    def neighbour(self, columns: list[str], texts: frozenset[str], *, before: bool) -> Iterator[Any]:
        """Tables of the row groups before (nearest first, one each), or of those after, in order."""
        with reading(self.path):
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
    return _opened(path, tuple(dictionaries or ()), checksums, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _opened(path: str, dictionaries: tuple[str, ...], checksums: bool, changed: int, size: int) -> Any:
    """Kept open for a while: reading the footer of a file with many row groups takes its time."""
    return library().parquet.ParquetFile(
        path, memory_map=True, read_dictionary=list(dictionaries), page_checksum_verification=checksums
    )


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds labels."""
    types = library().types
    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_number(kind: Any) -> bool:
    """Whether an Arrow type holds numbers (or truth values)."""
    types = library().types
    if types.is_dictionary(kind):
        return is_number(kind.value_type)
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind))


def as_table(frame: Any) -> Any:
    """A pyarrow table from a pyarrow, polars or pandas frame; None if it is none of them."""
    pa = library()
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    root = type(frame).__module__.split(".")[0]
    if root not in ("polars", "pandas") or not hasattr(frame, "columns"):
        return None
    try:
        return frame.to_arrow() if root == "polars" else pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(part) for part in error.args)
        raise InputError(f"log: found a column of mixed types ({reason}), expected one type a column") from error
