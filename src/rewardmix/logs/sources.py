"""Open the sources of a log: files, patterns, directories and tables become chunks that are read independently.

Text files are converted to Parquet in a temporary folder first, because text cannot be read from the middle.
"""

from __future__ import annotations

import glob
import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rewardmix._core.checks import raise_input_error
from rewardmix.logs import arrow_io
from rewardmix.logs.columns import ColumnNames, encode_episode_ids
from rewardmix.logs.executors import TemporaryFolder

PARQUET_METADATA_KEY = b"rewardmix"
"""Key of the log's description in the metadata of a Parquet file."""

IN_ORDER = "in_order"
"""Key of the description: episodes are in the order in which they happened, though no column has times."""

TEXT_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")


@dataclass(frozen=True)
class LogSource:
    """Chunks of one log.

    Attributes:
        name: name for messages.
        chunks: chunks in order.
        names: column names, without columns that are absent.
        label_columns: columns that hold labels.
        metadata: description stored in the files, if all files have one and they agree.
        extra_columns: further columns that identify an episode, taken from its first row.
        time_span: first and last time, if the log has times.
        in_order: whether times show that episodes are in the order in which they happened.
    """

    name: str
    chunks: tuple[Any, ...]
    names: ColumnNames
    label_columns: frozenset[str]
    metadata: dict[str, Any] = field(default_factory=dict)
    extra_columns: tuple[str, ...] = ()
    time_span: tuple[str, str] | None = None
    in_order: bool = False


def open_source(
    source: Any, names: ColumnNames, rows_per_partition: int, labeled: frozenset[str], folder: TemporaryFolder
) -> LogSource:
    """Open a source and split it into chunks of about the given number of rows.

    ``labeled`` names columns that hold labels even if all their values look like numbers.
    """
    column_names = None if isinstance(source, str | os.PathLike | list | tuple) else arrow_io.column_names(source)
    if column_names is not None:
        return _from_table(source, _drop_absent_columns(column_names, names, "the table"), rows_per_partition)
    paths = resolve_paths(source)
    files = [
        _convert_to_parquet(path, folder.file(".parquet"), names, labeled) if _is_text_file(path) else path
        for path in paths
    ]
    log_source = _from_files(files, names, rows_per_partition, paths)
    name = paths[0] if len(paths) == 1 else f"{len(paths)} files from {paths[0]}"
    return replace(log_source, name=name)


def resolve_paths(source: Any) -> list[str]:
    """Resolve a path, pattern, directory or list to the files it stands for; raise an error for a file named twice."""
    paths = _expand_path(source)
    path_of: dict[str, str] = {}
    for path in paths:
        # Links are resolved: one file under two names would count its episodes twice.
        real_path = os.path.realpath(path)
        if real_path in path_of:
            raise_input_error("source", f"{path!r} twice", "each file once")
        path_of[real_path] = path
    return paths


def _expand_path(source: Any) -> list[str]:
    if isinstance(source, list | tuple):
        return [path for entry in source for path in _expand_path(entry)] or _raise_no_files(source)
    if not isinstance(source, str | os.PathLike):
        expected = "a path, a pattern, a table (pyarrow, pandas, polars), a Minari dataset, or Episodes"
        raise_input_error("source", type(source).__name__, expected)
    path = os.fspath(source)
    if not isinstance(path, str):
        raise_input_error("source", repr(path), "a path as text")
    if os.path.isdir(path):
        files = sorted(str(file) for pattern in ("*.parquet", "*.pq", "*.csv") for file in Path(path).glob(pattern))
        return files or _raise_no_files(path)
    if os.path.exists(path):
        return [path]
    return sorted(glob.glob(path, recursive=True)) or _raise_no_files(path)


def _raise_no_files(source: Any) -> list[str]:
    raise_input_error("source", f"no file at {source!r}", "a Parquet or CSV file, a directory of them, or a pattern")


def _is_text_file(path: str) -> bool:
    return path.lower().endswith(TEXT_SUFFIXES)


def _convert_to_parquet(path: str, target: str, names: ColumnNames, labeled: frozenset[str]) -> str:
    """Convert a text file to Parquet, block by block."""
    pa = arrow_io.import_pyarrow()
    with arrow_io.raise_read_errors(path):
        if os.path.getsize(path) == 0:
            raise_input_error("path", f"an empty file {path!r}", "a CSV file with a header and rows")
        reader = _text_reader(path, labeled)
        times = {f.name for f in reader.schema if f.name in names.all_names and pa.types.is_temporal(f.type)}
        times -= {names.time}
        if times:
            # Arrow parses text such as 2026-11-16 as a date. In a column that is not the time it is a label, so it is
            # read again as text.
            reader = _text_reader(path, labeled | times)
        with pa.parquet.ParquetWriter(target, reader.schema, write_page_checksum=True) as writer:
            for batch in reader:
                writer.write_batch(_blank_to_null(batch))
    return target


def _text_reader(path: str, labeled: Iterable[str]) -> Any:
    csv, text = arrow_io.import_pyarrow().csv, arrow_io.import_pyarrow().string()
    return csv.open_csv(
        path,
        parse_options=csv.ParseOptions(delimiter="\t" if ".tsv" in path.lower() else ","),
        # Blocks of 32 MB bound memory; Arrow infers column types from the first block.
        read_options=csv.ReadOptions(block_size=1 << 25),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(sorted(labeled), text)),
    )


def _blank_to_null(batch: Any) -> Any:
    """Replace empty cells of text columns by null, which is what empty cells of number columns become."""
    pa = arrow_io.import_pyarrow()
    columns = [
        pa.compute.if_else(pa.compute.equal(column, ""), pa.scalar(None, column.type), column)
        if pa.types.is_string(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _from_files(files: list[str], names: ColumnNames, rows_per_partition: int, labels: list[str]) -> LogSource:
    chunks: list[Any] = []
    by_file: list[tuple[str, ColumnNames, dict[str, str]]] = []
    descriptions: list[dict[str, Any]] = []
    for path, label in zip(files, labels, strict=True):
        with arrow_io.raise_read_errors(label):
            file = arrow_io.open_parquet(path)
            schema, metadata = file.schema_arrow, file.metadata
            groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        file_names = _drop_absent_columns(schema.names, names, label)
        by_file.append((label, file_names, _column_kinds(schema, file_names, label)))
        about = _read_description(metadata.metadata, label)
        descriptions.append(about)
        # Files that this package wrote carry page checksums. Other Parquet files often do not, so those are not
        # verified.
        chunks += make_file_chunks(path, label, groups, rows_per_partition, checksums=bool(about) or path != label)
    file_names, label_columns = _check_same_columns(by_file)
    if not chunks:
        raise_input_error("log", f"no rows in {labels[0]!r}", "at least one episode")
    return LogSource("", tuple(chunks), file_names, label_columns, _merge_descriptions(descriptions))


def _check_same_columns(by_file: list[tuple[str, ColumnNames, dict[str, str]]]) -> tuple[ColumnNames, frozenset[str]]:
    """Check that all files have the schema columns with one type, and return the names and the label columns."""
    first, names, _ = by_file[0]
    kinds: dict[str, tuple[str, str]] = {}
    for label, file_names, column_kinds in by_file:
        if file_names != names:
            role = min(file_names.roles.keys() ^ names.roles.keys())
            present_in, not_in = (label, first) if role in file_names.roles else (first, label)
            raise_input_error(
                f"column {role!r}",
                f"it in {present_in!r} but not in {not_in!r}",
                f"it in all files or in none; columns={{{role!r}: None}} ignores it",
            )
        for column, kind in column_kinds.items():
            before, first_file = kinds.setdefault(column, (kind, label))
            if NULLS not in (kind, before) and kind != before:
                raise_input_error(
                    f"column {column!r}", f"{kind} in {label!r} and {before} in {first_file!r}", "one type in all files"
                )
            # A column of nulls fits any type, so the first file with values decides.
            if before == NULLS:
                kinds[column] = kind, label
    return names, _find_label_columns(names, {column: kind for column, (kind, _) in kinds.items()})


def _find_label_columns(names: ColumnNames, kinds: dict[str, str]) -> frozenset[str]:
    """List the label columns; states and next states must have one type."""
    next_kind = NULLS if names.next_state is None else kinds[names.next_state]
    if NULLS not in (next_kind, kinds[names.state]) and next_kind != kinds[names.state]:
        raise_input_error(
            f"column {names.next_state!r}", next_kind, f"{kinds[names.state]}, like the column {names.state!r}"
        )
    return frozenset(column for column, kind in kinds.items() if kind == TEXT)


def make_file_chunks(
    path: str, label: str, groups: list[int], rows_per_partition: int, *, checksums: bool
) -> list[arrow_io.ParquetChunk]:
    """Group consecutive row groups into chunks of at least the given number of rows, except the last."""
    chunks, begin, rows = [], 0, 0
    for group, count in enumerate(groups):
        rows += count
        if rows >= rows_per_partition or group == len(groups) - 1:
            if rows:
                chunks.append(arrow_io.ParquetChunk(path, begin, group + 1 - begin, rows, checksums, label))
            begin, rows = group + 1, 0
    return chunks


def _drop_absent_columns(column_names: list[str], names: ColumnNames, label: str) -> ColumnNames:
    """Drop optional columns with default names that the source does not have, and check that all others exist once."""
    if names.next_state == ColumnNames.next_state and names.next_state not in column_names:
        names = replace(names, next_state=None)
    if names.propensity == ColumnNames.propensity and names.propensity not in column_names:
        names = replace(names, propensity=None)
    if names.step == ColumnNames.step and names.step not in column_names:
        names = replace(names, step=None)
    wrong = {role: name for role, name in names.roles.items() if column_names.count(name) != 1}
    if wrong:
        role, name = next(iter(wrong.items()))
        problem = "no column" if name not in column_names else "several columns"
        example, flag_value = (
            ", ".join(f"{column!r}: ..." for column in wrong),
            ",".join(f"{column}=..." for column in wrong),
        )
        advice = f"one, among {column_names}; name them: columns={{{example}}} "
        advice += f"(command line: --columns {flag_value})"
        raise_input_error(f"columns[{role!r}]", f"{problem} {name!r} in {label!r}", advice)
    return names


TEXT, NUMBERS, TIMES, NULLS = "text", "numbers", "times", "nulls"
"""Kinds of column types."""


def _column_kinds(schema: Any, names: ColumnNames, label: str) -> dict[str, str]:
    """Return the kind of each column; raise an error for a type that does not fit the role."""
    return {name: _column_kind(schema.field(name).type, role, name, label) for role, name in names.roles.items()}


def _column_kind(kind: Any, role: str, name: str, label: str) -> str:
    if arrow_io.is_null(kind):
        return NULLS
    if role == "time" and arrow_io.is_time(kind):
        return TIMES
    if arrow_io.is_text(kind) and role not in ("step", "reward", "propensity"):
        return TEXT
    needs_integers = role not in ("reward", "time", "propensity")
    if arrow_io.is_number(kind) and not (needs_integers and arrow_io.is_fraction(kind)):
        return NUMBERS
    expected = {
        "reward": "numbers",
        "propensity": "numbers",
        "step": "whole numbers",
        "time": "timestamps, dates, numbers, or text",
    }
    raise_input_error(f"column {name!r}", f"type {kind} in {label!r}", expected.get(role, "whole numbers, or text"))


def _read_description(metadata: dict[bytes, bytes] | None, label: str) -> dict[str, Any]:
    """Read the description from the metadata of a file written by ``write_log``.

    The description carries a CRC-32 checksum, so that a damaged one is an error and not another schema.
    """
    text = (metadata or {}).get(PARQUET_METADATA_KEY)
    if text is None:
        return {}
    try:
        envelope = json.loads(text)
        body = dict(envelope["log"])
        # Keys are sorted, so that the checksum does not depend on the order in which a writer stores them.
        is_intact = zlib.crc32(json.dumps(body, sort_keys=True).encode()) == envelope["crc"]
        is_intact = is_intact and isinstance(body["rows"], int)
    except (ValueError, KeyError, TypeError, RecursionError):
        is_intact, body = False, {}
    if not is_intact:
        raise_input_error("path", f"a damaged description in {label!r}", "the file as it was written")
    return body


def encode_description(body: dict[str, Any]) -> bytes:
    """Encode the description of a log as metadata of a file."""
    return json.dumps({"log": body, "crc": zlib.crc32(json.dumps(body, sort_keys=True).encode())}).encode()


def _merge_descriptions(descriptions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Merge the descriptions of all files, adding up rows; return nothing if one is missing or they differ."""
    all_descriptions = list(descriptions)
    schemas = [{key: value for key, value in description.items() if key != "rows"} for description in all_descriptions]
    if not all(schemas) or any(schema != schemas[0] for schema in schemas):
        return {}
    schema = {key: tuple(value) if isinstance(value, list) else value for key, value in schemas[0].items()}
    return {**schema, "rows": sum(description["rows"] for description in all_descriptions)}


def _from_table(frame: Any, names: ColumnNames, rows_per_partition: int) -> LogSource:
    rows = arrow_io.arrow_table(frame, names.all_names)
    labeled = _find_label_columns(names, _column_kinds(rows.schema, names, "the table"))
    if not rows.num_rows:
        raise_input_error("log", "no rows in the table", "at least one episode")
    return LogSource("a table in memory", make_table_chunks(rows, names.episode, rows_per_partition), names, labeled)


def make_table_chunks(rows: Any, column: str, rows_per_partition: int) -> tuple[arrow_io.TableChunk, ...]:
    """Split a table into chunks of about the given number of rows, between episodes."""
    with arrow_io.raise_read_errors("the table"):
        episode = encode_episode_ids(rows.column(column), column)
    starts = np.append(np.flatnonzero(np.append(True, episode[1:] != episode[:-1])), episode.size)
    target_rows = np.arange(0, episode.size, min(rows_per_partition, episode.size))
    # Each wanted cut moves to the next start of an episode. Several cuts may move to one start, hence unique.
    cuts = np.unique(np.append(starts[np.searchsorted(starts, target_rows)], episode.size))
    return tuple(arrow_io.TableChunk(rows.slice(a, b - a)) for a, b in pairwise(cuts.tolist()))
