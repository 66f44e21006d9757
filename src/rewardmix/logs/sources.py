"""Where a log comes from: files, patterns, tables in memory. All become pieces that can be read on their own."""

from __future__ import annotations

import glob
import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rewardmix._check import refuse
from rewardmix.logs import arrow
from rewardmix.logs.columns import Names, episode_numbers
from rewardmix.logs.shelf import Shelf

METADATA = b"rewardmix"
"""Key in a Parquet file's metadata under which a log says what it is."""

LOOKS_LIKE_TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")


@dataclass(frozen=True)
class Source:
    """Pieces of one log.

    Attributes:
        name: for people.
        pieces: in order.
        names: of the columns, those that are not there left out.
        texts: columns that hold labels.
        told: what the files say about themselves, if all of them do and agree.
        shelf: keeps temporary files alive.
    """

    name: str
    pieces: tuple[Any, ...]
    names: Names
    texts: frozenset[str]
    told: dict[str, Any] = field(default_factory=dict)
    shelf: Any = None


def source_of(source: Any, names: Names, rows_per_part: int) -> Source:
    """The pieces of whatever was given."""
    table = None if isinstance(source, str | os.PathLike | list | tuple) else arrow.as_table(source)
    if table is not None:
        return _of_table(table, names, rows_per_part)
    paths = paths_of(source)
    shelf = Shelf() if any(map(_is_text_file, paths)) else None
    files = [
        _parquet_of(path, shelf.path / f"{i}.parquet") if shelf and _is_text_file(path) else path
        for i, path in enumerate(paths)
    ]
    found = _of_files(files, names, rows_per_part, paths)
    name = paths[0] if len(paths) == 1 else f"{len(paths)} files from {paths[0]}"
    return replace(found, name=name, shelf=shelf)


def paths_of(source: Any) -> list[str]:
    """The files that a path, a pattern, a directory or a list of them means."""
    if isinstance(source, list | tuple):
        return [path for one in source for path in paths_of(one)] or _nothing(source)
    if not isinstance(source, str | os.PathLike):
        wanted = "a path, a pattern, a table (pyarrow, pandas, polars), a Minari dataset, or Episodes"
        refuse("source", type(source).__name__, wanted)
    path = os.fspath(source)
    if os.path.isdir(path):
        inside = sorted(str(file) for kind in ("*.parquet", "*.pq", "*.csv") for file in Path(path).glob(kind))
        return inside or _nothing(path)
    if os.path.exists(path):
        return [path]
    return sorted(glob.glob(path, recursive=True)) or _nothing(path)


def _nothing(source: Any) -> list[str]:
    refuse("source", f"no file at {source!r}", "a Parquet or CSV file, a directory of them, or a pattern")


def _is_text_file(path: str) -> bool:
    return path.lower().endswith(LOOKS_LIKE_TEXT)


def _parquet_of(path: str, target: Path) -> str:
    """A text file as Parquet, block by block: text cannot be read from the middle."""
    pa = arrow.library()
    if os.path.getsize(path) == 0:
        refuse("path", f"an empty file {path!r}", "a CSV file with a header and rows")
    separator = "\t" if ".tsv" in path.lower() else ","
    with arrow.reading(path):
        reader = pa.csv.open_csv(
            path,
            parse_options=pa.csv.ParseOptions(delimiter=separator),
            read_options=pa.csv.ReadOptions(block_size=1 << 25),
        )
        with pa.parquet.ParquetWriter(target, reader.schema, write_page_checksum=True) as writer:
            for batch in reader:
                writer.write_batch(batch)
    return str(target)


def _of_files(files: list[str], names: Names, rows_per_part: int, shown: list[str]) -> Source:
    pieces: list[Any] = []
    first: tuple[Any, str] | None = None
    told: list[dict[str, Any]] = []
    for path, label in zip(files, shown, strict=True):
        with arrow.reading(label):
            file = arrow.open_parquet(path)
            schema, metadata = file.schema_arrow, file.metadata
            groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        names = _present(schema, names, label)
        kinds = {name: _kind(schema, name, label) for name in names.listed}
        first = first or (kinds, label)
        if kinds != first[0]:
            column = next(name for name in kinds if kinds[name] != first[0].get(name))
            found = f"{kinds[column]} in {label!r} and {first[0].get(column, 'no such column')} in {first[1]!r}"
            refuse(f"column {column!r}", found, "one type in all files")
        about = _told(metadata.metadata, label)
        told.append(about)
        pieces += _pieces(path, groups, rows_per_part, checksums=bool(about) or path != label)
    if first is None or not pieces:
        refuse("log", f"no rows in {shown[0]!r}", "at least one episode")
    texts = frozenset(name for name, kind in first[0].items() if kind == "text")
    return Source("", tuple(pieces), names, texts, _agreed(told))


def _pieces(path: str, groups: list[int], rows_per_part: int, *, checksums: bool) -> list[arrow.ParquetPiece]:
    """Consecutive row groups of at least ``rows_per_part`` rows, but for the last."""
    pieces, begin, rows = [], 0, 0
    for group, count in enumerate(groups):
        rows += count
        if rows >= rows_per_part or group == len(groups) - 1:
            if rows:
                pieces.append(arrow.ParquetPiece(path, begin, group + 1 - begin, checksums))
            begin, rows = group + 1, 0
    return pieces


def _present(schema: Any, names: Names, label: str) -> Names:
    """The names, without the next state if there is no such column."""
    if names.next_state is not None and names.next_state not in schema.names:
        if names.next_state != Names.next_state:
            refuse("columns['next_state']", f"no column {names.next_state!r} in {label!r}", f"one of {schema.names}")
        names = replace(names, next_state=None)
    for role in ("episode", "step", "state", "action", "reward"):
        name = getattr(names, role)
        if name is not None and schema.names.count(name) != 1:
            many = "no column" if name not in schema.names else "several columns"
            advice = f"one, among {schema.names}; columns={{{role!r}: ...}} says how it is called"
            refuse(f"columns[{role!r}]", f"{many} {name!r} in {label!r}", advice)
    return names


def _kind(schema: Any, name: str, label: str) -> str:
    kind = schema.field(name).type
    if arrow.is_text(kind):
        return "text"
    if arrow.is_number(kind):
        return "numbers"
    refuse(f"column {name!r}", f"type {kind} in {label!r}", "numbers or text")


def _told(metadata: dict[bytes, bytes] | None, label: str) -> dict[str, Any]:
    """What a file written by ``write`` says about itself."""
    text = (metadata or {}).get(METADATA)
    if text is None:
        return {}
    try:
        envelope = json.loads(text)
        body = envelope["log"]
        whole = zlib.crc32(json.dumps(body, sort_keys=True).encode()) == envelope["crc"]
    except (ValueError, KeyError, TypeError):
        whole, body = False, {}
    if not whole:
        refuse("path", f"{label!r} whose description is damaged", "a log as it was written")
    return dict(body)


def described(body: dict[str, Any]) -> bytes:
    """The other way: what a file is to say about itself."""
    return json.dumps({"log": body, "crc": zlib.crc32(json.dumps(body, sort_keys=True).encode())}).encode()


def _agreed(told: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What all files say, rows added up; nothing if one is silent or of another opinion."""
    every = list(told)
    worlds = [{key: value for key, value in one.items() if key != "rows"} for one in every]
    if not all(worlds) or any(world != worlds[0] for world in worlds):
        return {}
    world = {key: tuple(value) if isinstance(value, list) else value for key, value in worlds[0].items()}
    return {**world, "rows": sum(one["rows"] for one in every)}


def _of_table(table: Any, names: Names, rows_per_part: int) -> Source:
    names = _present(table.schema, names, "the table")
    kinds = {name: _kind(table.schema, name, "the table") for name in names.listed}
    if not table.num_rows:
        refuse("log", "no rows in the table", "at least one episode")
    texts = frozenset(name for name, kind in kinds.items() if kind == "text")
    episode = episode_numbers(table.column(names.episode), names.episode)
    starts = np.append(np.flatnonzero(np.append(True, episode[1:] != episode[:-1])), episode.size)
    wanted = np.arange(0, episode.size, rows_per_part)
    cuts = np.unique(np.append(starts[np.searchsorted(starts, wanted)], episode.size))
    rows = table.select(names.listed)
    pieces = [
        arrow.TablePiece(rows.slice(a, b - a)) for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
    ]
    return Source("a table in memory", tuple(pieces), names, texts)
