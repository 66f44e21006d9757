"""``write``: episodes as a log, in the form that ``read`` takes, in row groups that never cut an episode."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rewardmix._core.checks import InputError, as_count, refuse
from rewardmix.episodes import ABSENT, Episodes
from rewardmix.logs import arrow
from rewardmix.logs.log_schema import LogSchema, as_names
from rewardmix.logs.sources import METADATA, described
from rewardmix.policy import Policy
from rewardmix.simulation import propensities

ROWS_PER_GROUP = 1 << 20
"""About how many rows a row group has."""

DICTIONARIES = ["step", "state", "action", "reward", "next_state", "propensity"]
"""Columns of few values; the episode, which grows slowly, is stored as differences."""


def write(
    path: str | os.PathLike[str],
    episodes: Episodes | Iterable[Episodes],
    *,
    state_names: Sequence[str] = (),
    action_names: Sequence[str] = (),
    rows_per_group: int = ROWS_PER_GROUP,
    policy: Policy | None = None,
) -> None:
    """Write episodes to a Parquet or (by its ending) CSV file, atomically.

    Args:
        path: of the file.
        episodes: all of them, or one part after the other, for logs that do not fit into memory.
        state_names: labels to write instead of numbers.
        action_names: labels to write instead of numbers.
        rows_per_group: about how many rows a row group has; an episode is never cut.
        policy: that played the episodes; the chance of each of its actions is written as ``propensity``.
    """
    parts = _parts(episodes)
    first = next(parts, None)
    if first is None:
        refuse("episodes", "nothing", "at least one part")
    names = (
        as_names("state_names", state_names, first.num_states),
        as_names("action_names", action_names, first.num_actions),
    )
    schema = LogSchema(first.num_states, first.num_actions, first.horizon, first.reward_values, *names)
    rows = as_count("rows_per_group", rows_per_group)
    with replacing("path", path) as temporary:
        save = _save_csv if os.fspath(path).lower().endswith(".csv") else _save_parquet
        groups = _tables(chain([first], parts), schema, rows, policy)
        head = next(groups, None)
        if head is None:
            refuse("episodes", "no episodes", "at least one")
        save(temporary, chain([head], groups), head.schema, schema)


def write_table(path: str | os.PathLike[str], table: Any, *, safe_cells: bool = False) -> None:
    """Write a pyarrow table to a Parquet or (by its ending) CSV file, atomically.

    Args:
        path: of the file.
        table: to be written.
        safe_cells: write text of a CSV file that a spreadsheet takes for a formula behind an apostrophe; see
            ``without_formulas``. Left out, cells are as they are: ids are found again where they came from.
    """
    pa, plain = arrow.library(), os.fspath(path).lower().endswith(".csv")
    if safe_cells and not plain:
        refuse("safe_cells", f"it for {os.fspath(path)!r}", "a CSV file; cells of other files are no formulas")
    with replacing("path", path) as temporary:
        save = pa.csv.write_csv if plain else pa.parquet.write_table
        save(without_formulas(table) if safe_cells else table, temporary)


FORMULA = "^['=+\\-@\t\r]"
"""How text begins that a spreadsheet takes for a formula, or for text behind an apostrophe that is not part of it."""


def without_formulas(table: Any) -> Any:
    """The table with an apostrophe before each text that begins like a formula, names of columns too.

    Also before one that begins with an apostrophe: so taking one away gives every text back.
    """
    pa = arrow.library()
    match, join, choose = pa.compute.match_substring_regex, pa.compute.binary_join_element_wise, pa.compute.if_else

    def safe(texts: Any) -> Any:
        return choose(match(texts, FORMULA), join(pa.scalar("'", texts.type), texts, pa.scalar("", texts.type)), texts)

    columns = [
        safe(column.cast(arrow.sortable_type(column.type))) if arrow.is_text(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=safe(pa.array(table.column_names, pa.string())).to_pylist())


def _parts(episodes: Any) -> Iterator[Episodes]:
    parts = [episodes] if isinstance(episodes, Episodes) else episodes
    if not isinstance(parts, Iterable):
        refuse("episodes", type(episodes).__name__, "Episodes, or parts of them one after the other")
    for part in parts:
        if not isinstance(part, Episodes):
            refuse("episodes", f"a part that is {type(part).__name__}", "Episodes")
        yield part


def as_target(argument: str, path: Any) -> Path:
    """Where a file is to be written."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        refuse(argument, f"{type(path).__name__} {path!r}", "the path of a file")
    if Path(path).is_dir():
        refuse(argument, f"a folder {os.fspath(path)!r}", "a file to write")
    return Path(path)


@contextmanager
def replacing(argument: str, path: str | os.PathLike[str]) -> Iterator[str]:
    """A file to write to beside ``path``, which takes its place in one step when all is well."""
    target = as_target(argument, path)
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        yield temporary
        os.replace(temporary, target)
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        refuse(argument, f"{os.fspath(path)!r}, which cannot be written ({reason})", "a file in a folder that is there")
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def _tables(parts: Iterable[Episodes], schema: LogSchema, rows_per_group: int, policy: Policy | None) -> Iterator[Any]:
    """Tables of whole episodes, each to become a row group."""
    done = 0
    for part in parts:
        sizes = part.num_states, part.num_actions, part.horizon, part.reward_values.tolist()
        if sizes != (schema.num_states, schema.num_actions, schema.horizon, schema.reward_values.tolist()):
            refuse("episodes", repr(part), "parts of one log, with the same states, actions, horizon and reward values")
        ends = np.cumsum(part.lengths)
        cuts = np.searchsorted(ends, np.arange(rows_per_group, int(ends[-1]) if len(part) else 0, rows_per_group))
        borders = np.unique(np.concatenate([[0], cuts, [len(part)]]))
        for begin, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            yield _table(part[begin:end], schema, done + begin, policy)
        done += len(part)


def _table(part: Episodes, schema: LogSchema, before: int, policy: Policy | None) -> Any:
    pa = arrow.library()
    present = part.present
    episode, step = np.nonzero(present)
    following = part.states[:, 1:][present]
    columns = {
        "episode": pa.array(episode + np.int64(before), pa.int64()),
        "step": pa.array(step.astype(np.int32)),
        "state": _labelled(part.states[:, :-1][present], schema.state_names),
        "action": _labelled(part.actions[present].astype(np.int32), schema.action_names),
        "reward": pa.array(part.reward_values[part.outcomes[present]]),
        "next_state": _labelled(following, schema.state_names),
    }
    if policy is not None:
        columns["propensity"] = pa.array(propensities(policy, part)[present])
    return pa.table(columns)


def _labelled(values: Any, names: Sequence[str]) -> Any:
    pa = arrow.library()
    unknown = values == ABSENT
    mask = unknown if unknown.any() else None
    codes = pa.array(values.astype(np.int32), mask=mask)
    if not names:
        return codes
    return pa.DictionaryArray.from_arrays(codes, pa.array(list(names), pa.string()))


def _save_parquet(path: str, tables: Iterable[Any], form: Any, schema: LogSchema) -> None:
    options = {
        "use_dictionary": DICTIONARIES,
        "column_encoding": {"episode": "DELTA_BINARY_PACKED"},
        "write_page_checksum": True,
        "write_statistics": ["episode", "step"],
    }
    rows = 0
    with arrow.library().parquet.ParquetWriter(path, form, **options) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=table.num_rows)
            rows += table.num_rows
        known = {one.name: getattr(schema, one.name) for one in fields(schema)}
        about = {"rows": rows, **known, "reward_values": schema.reward_values.tolist()}
        writer.add_key_value_metadata({METADATA: described(about)})


def _save_csv(path: str, tables: Iterable[Any], form: Any, schema: LogSchema) -> None:
    plain = arrow.library().schema([(field.name, arrow.value_type(field.type)) for field in form])
    with arrow.library().csv.CSVWriter(path, plain) as writer:
        for table in tables:
            writer.write_table(table.cast(plain))  # dictionaries as text, which is all that CSV has
