"""Where a log comes from: files, patterns, tables in memory. All become pieces that can be read on their own."""

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

from rewardmix._core.checks import refuse
from rewardmix.logs import arrow
from rewardmix.logs.columns import Names, episode_numbers
from rewardmix.logs.workers import TemporaryFolder

METADATA = b"rewardmix"
"""Key in a Parquet file's metadata under which a log says what it is."""

IN_ORDER = "in_order"
"""What such a file says if its episodes come in the order in which they happened, though no column has times."""

LOOKS_LIKE_TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")


@dataclass(frozen=True)
class Source:
    """Pieces of one log.

    Attributes:
        name: for people.
        pieces: in order.
        names: of the columns, those that are not there left out.
        texts: columns that hold labels.
        metadata: what the files say about themselves, if all of them do and agree.
        about: other columns that tell which episode it is, of its first row.
        span: the first and the last time in it, if it has times.
        in_order: whether times tell that episodes come in the order in which they happened.
    """

    name: str
    pieces: tuple[Any, ...]
    names: Names
    texts: frozenset[str]
    metadata: dict[str, Any] = field(default_factory=dict)
    about: tuple[str, ...] = ()
    span: tuple[str, str] | None = None
    in_order: bool = False


def source_of(
    source: Any, names: Names, rows_per_part: int, labelled: frozenset[str], folder: TemporaryFolder
) -> Source:
    """The pieces of whatever was given; ``labelled``: columns that hold labels even where these look like numbers.

    Text files are read from Parquet files in the temporary folder.
    """
    known = None if isinstance(source, str | os.PathLike | list | tuple) else arrow.column_names(source)
    if known is not None:
        return _of_table(source, _present(known, names, "the table"), rows_per_part)
    paths = paths_of(source)
    files = [
        _parquet_of(path, folder.file(".parquet"), names, labelled) if _is_text_file(path) else path for path in paths
    ]
    found = _of_files(files, names, rows_per_part, paths)
    name = paths[0] if len(paths) == 1 else f"{len(paths)} files from {paths[0]}"
    return replace(found, name=name)


def paths_of(source: Any) -> list[str]:
    """The files that a path, a pattern, a directory or a list of them means; none of them twice."""
    paths = _meant(source)
    places: dict[str, str] = {}
    for path in paths:
        place = os.path.realpath(path)
        if place in places:
            refuse("source", f"{path!r} a second time", "every file once")
        places[place] = path
    return paths


def _meant(source: Any) -> list[str]:
    if isinstance(source, list | tuple):
        return [path for one in source for path in _meant(one)] or _nothing(source)
    if not isinstance(source, str | os.PathLike):
        wanted = "a path, a pattern, a table (pyarrow, pandas, polars), a Minari dataset, or Episodes"
        refuse("source", type(source).__name__, wanted)
    path = os.fspath(source)
    if not isinstance(path, str):
        refuse("source", repr(path), "a path as text")
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


def _parquet_of(path: str, target: str, names: Names, labelled: frozenset[str]) -> str:
    """A text file as Parquet, block by block: text cannot be read from the middle."""
    pa = arrow.library()
    with arrow.reading(path):
        if os.path.getsize(path) == 0:
            refuse("path", f"an empty file {path!r}", "a CSV file with a header and rows")
        reader = _text_reader(path, labelled)
        times = {f.name for f in reader.schema if f.name in names.listed and pa.types.is_temporal(f.type)}
        times -= {names.time}
        if times:  # what looks like a date is a label like any other
            reader = _text_reader(path, labelled | times)
        with pa.parquet.ParquetWriter(target, reader.schema, write_page_checksum=True) as writer:
            for batch in reader:
                writer.write_batch(_without_blanks(batch))
    return target


def _text_reader(path: str, labelled: Iterable[str]) -> Any:
    csv, text = arrow.library().csv, arrow.library().string()
    return csv.open_csv(
        path,
        parse_options=csv.ParseOptions(delimiter="\t" if ".tsv" in path.lower() else ","),
        read_options=csv.ReadOptions(block_size=1 << 25),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(sorted(labelled), text)),
    )


def _without_blanks(batch: Any) -> Any:
    """An empty cell of a column of labels says nothing, like an empty cell of a column of numbers."""
    pa = arrow.library()
    columns = [
        pa.compute.if_else(pa.compute.equal(column, ""), pa.scalar(None, column.type), column)
        if pa.types.is_string(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _of_files(files: list[str], names: Names, rows_per_part: int, shown: list[str]) -> Source:
    pieces: list[Any] = []
    every: list[tuple[str, Names, dict[str, str]]] = []
    descriptions: list[dict[str, Any]] = []
    for path, label in zip(files, shown, strict=True):
        with arrow.reading(label):
            file = arrow.open_parquet(path)
            schema, metadata = file.schema_arrow, file.metadata
            groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        there = _present(schema.names, names, label)
        every.append((label, there, _kinds(schema, there, label)))
        about = _description(metadata.metadata, label)
        descriptions.append(about)
        pieces += file_pieces(path, label, groups, rows_per_part, checksums=bool(about) or path != label)
    there, texts = _one_form(every)
    if not pieces:
        refuse("log", f"no rows in {shown[0]!r}", "at least one episode")
    return Source("", tuple(pieces), there, texts, _agreed(descriptions))


def _one_form(every: list[tuple[str, Names, dict[str, str]]]) -> tuple[Names, frozenset[str]]:
    """The columns that all files have, and those that hold labels; files of different forms are refused."""
    first, names, _ = every[0]
    kinds: dict[str, tuple[str, str]] = {}
    for label, there, found in every:
        if there != names:
            role = min(there.roles.keys() ^ names.roles.keys())
            found_in, not_in = (label, first) if role in there.roles else (first, label)
            refuse(
                f"column {role!r}",
                f"it in {found_in!r} and not in {not_in!r}",
                f"it in all files or in none; columns={{{role!r}: None}} leaves it out",
            )
        for column, kind in found.items():
            before, where = kinds.setdefault(column, (kind, label))
            if NOTHING not in (kind, before) and kind != before:
                refuse(f"column {column!r}", f"{kind} in {label!r} and {before} in {where!r}", "one type in all files")
            if before == NOTHING:
                kinds[column] = kind, label
    return names, _texts(names, {column: kind for column, (kind, _) in kinds.items()})


def _texts(names: Names, kinds: dict[str, str]) -> frozenset[str]:
    """The columns of labels; states and next states have to be of one kind."""
    after = NOTHING if names.next_state is None else kinds[names.next_state]
    if NOTHING not in (after, kinds[names.state]) and after != kinds[names.state]:
        refuse(f"column {names.next_state!r}", after, f"{kinds[names.state]}, like the column {names.state!r}")
    return frozenset(column for column, kind in kinds.items() if kind == TEXT)


def file_pieces(
    path: str, label: str, groups: list[int], rows_per_part: int, *, checksums: bool
) -> list[arrow.ParquetPiece]:
    """Consecutive row groups of at least ``rows_per_part`` rows, but for the last."""
    pieces, begin, rows = [], 0, 0
    for group, count in enumerate(groups):
        rows += count
        if rows >= rows_per_part or group == len(groups) - 1:
            if rows:
                pieces.append(arrow.ParquetPiece(path, begin, group + 1 - begin, rows, checksums, label))
            begin, rows = group + 1, 0
    return pieces


def _present(known: list[str], names: Names, label: str) -> Names:
    """The names, without those of optional columns that nobody named and that are not there."""
    if names.next_state == Names.next_state and names.next_state not in known:
        names = replace(names, next_state=None)
    if names.propensity == Names.propensity and names.propensity not in known:
        names = replace(names, propensity=None)
    if names.step == Names.step and names.step not in known:
        names = replace(names, step=None)
    wrong = {role: name for role, name in names.roles.items() if known.count(name) != 1}
    if wrong:
        role, name = next(iter(wrong.items()))
        many = "no column" if name not in known else "several columns"
        told, typed = ", ".join(f"{one!r}: ..." for one in wrong), ",".join(f"{one}=..." for one in wrong)
        advice = f"one, among {known}; tell the names: columns={{{told}}}, or --columns {typed} when typed"
        refuse(f"columns[{role!r}]", f"{many} {name!r} in {label!r}", advice)
    return names


TEXT, NUMBERS, TIMES, NOTHING = "text", "numbers", "times", "nothing"
"""Kinds of columns."""


def _kinds(schema: Any, names: Names, label: str) -> dict[str, str]:
    """What each column holds; what cannot play its role is refused."""
    return {name: _kind(schema.field(name).type, role, name, label) for role, name in names.roles.items()}


def _kind(kind: Any, role: str, name: str, label: str) -> str:
    if arrow.is_nothing(kind):
        return NOTHING
    if role == "time" and arrow.is_time(kind):
        return TIMES
    if arrow.is_text(kind) and role not in ("step", "reward", "propensity"):
        return TEXT
    whole = role not in ("reward", "time", "propensity")
    if arrow.is_number(kind) and not (whole and arrow.is_fraction(kind)):
        return NUMBERS
    wanted = {
        "reward": "numbers",
        "propensity": "numbers",
        "step": "whole numbers",
        "time": "timestamps, dates, numbers, or text",
    }
    refuse(f"column {name!r}", f"type {kind} in {label!r}", wanted.get(role, "whole numbers, or text"))


def _description(metadata: dict[bytes, bytes] | None, label: str) -> dict[str, Any]:
    """What a file written by ``write`` says about itself."""
    text = (metadata or {}).get(METADATA)
    if text is None:
        return {}
    try:
        envelope = json.loads(text)
        body = dict(envelope["log"])
        whole = zlib.crc32(json.dumps(body, sort_keys=True).encode()) == envelope["crc"]
        whole = whole and isinstance(body["rows"], int)
    except (ValueError, KeyError, TypeError, RecursionError):
        whole, body = False, {}
    if not whole:
        refuse("path", f"{label!r} whose description is damaged", "a log as it was written")
    return body


def described(body: dict[str, Any]) -> bytes:
    """The other way: what a file is to say about itself."""
    return json.dumps({"log": body, "crc": zlib.crc32(json.dumps(body, sort_keys=True).encode())}).encode()


def _agreed(descriptions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What all files say, rows added up; nothing if one is silent or of another opinion."""
    every = list(descriptions)
    schemas = [{key: value for key, value in one.items() if key != "rows"} for one in every]
    if not all(schemas) or any(schema != schemas[0] for schema in schemas):
        return {}
    schema = {key: tuple(value) if isinstance(value, list) else value for key, value in schemas[0].items()}
    return {**schema, "rows": sum(one["rows"] for one in every)}


def _of_table(frame: Any, names: Names, rows_per_part: int) -> Source:
    rows = arrow.arrow_table(frame, names.listed)
    texts = _texts(names, _kinds(rows.schema, names, "the table"))
    if not rows.num_rows:
        refuse("log", "no rows in the table", "at least one episode")
    return Source("a table in memory", table_pieces(rows, names.episode, rows_per_part), names, texts)


def table_pieces(rows: Any, column: str, rows_per_part: int) -> tuple[arrow.TablePiece, ...]:
    """Pieces of about ``rows_per_part`` rows of a table, cut where the episode in ``column`` changes."""
    with arrow.reading("the table"):
        episode = episode_numbers(rows.column(column), column)
    starts = np.append(np.flatnonzero(np.append(True, episode[1:] != episode[:-1])), episode.size)
    wanted = np.arange(0, episode.size, min(rows_per_part, episode.size))
    cuts = np.unique(np.append(starts[np.searchsorted(starts, wanted)], episode.size))
    return tuple(arrow.TablePiece(rows.slice(a, b - a)) for a, b in pairwise(cuts.tolist()))
