"""Write episodes as a log that ``read_log`` reads back: Parquet or CSV, in row groups that do not split an episode."""

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

from rewardmix._core.checks import InputError, as_count, raise_input_error
from rewardmix.episodes import PADDING, Episodes
from rewardmix.logs import arrow_io
from rewardmix.logs.log_schema import LogSchema, as_names
from rewardmix.logs.sources import PARQUET_METADATA_KEY, encode_description
from rewardmix.policy import Policy
from rewardmix.simulation import compute_propensities

ROWS_PER_GROUP = 1 << 20
"""Approximate number of rows of a row group."""

DICTIONARY_COLUMNS = ["step", "state", "action", "reward", "next_state", "propensity"]
"""Columns with few distinct values, stored as dictionaries; the increasing episode index is stored as differences."""


def write_log(
    path: str | os.PathLike[str],
    episodes: Episodes | Iterable[Episodes],
    *,
    state_names: Sequence[str] = (),
    action_names: Sequence[str] = (),
    rows_per_group: int = ROWS_PER_GROUP,
    policy: Policy | None = None,
) -> None:
    """Write episodes to a Parquet or (by its extension) CSV file, atomically.

    Args:
        path: Path of the file.
        episodes: All episodes, or an iterable of partitions for logs that do not fit into memory.
        state_names: Labels to write instead of state indices.
        action_names: Labels to write instead of action indices.
        rows_per_group: Approximate number of rows of a row group; an episode is not split.
        policy: Behavior policy of the episodes; the probability of each action is written as ``propensity``.

    Raises:
        InputError: If there are no episodes, partitions differ in their sizes, or the file cannot be written.
        ImportError: If pyarrow is not installed.

    Examples:
        >>> import os, tempfile
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> policy = rm.uniform_policy(model)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "log.parquet")
        ...     rm.logs.write_log(path, rm.simulate(policy, model, 100), policy=policy)
        ...     len(rm.read_log(path))
        100
    """
    batches = _iter_batches(episodes)
    first = next(batches, None)
    if first is None:
        raise_input_error("episodes", "no partition", "at least one")
    names = (
        as_names("state_names", state_names, first.num_states),
        as_names("action_names", action_names, first.num_actions),
    )
    schema = LogSchema(first.num_states, first.num_actions, first.horizon, first.reward_values, *names)
    rows = as_count("rows_per_group", rows_per_group)
    with write_to_temporary("path", path) as temporary:
        save = _save_csv if os.fspath(path).lower().endswith(".csv") else _save_parquet
        groups = _iter_tables(chain([first], batches), schema, rows, policy)
        head = next(groups, None)
        if head is None:
            raise_input_error("episodes", "no episodes", "at least one")
        save(temporary, chain([head], groups), head.schema, schema)


def write_table(path: str | os.PathLike[str], table: Any, *, safe_cells: bool = False) -> None:
    """Write a pyarrow table to a Parquet or (by its extension) CSV file, atomically.

    Args:
        path: Path of the file.
        table: Table to write.
        safe_cells: Escape text of a CSV file that a spreadsheet takes for a formula (``without_formulas``). By default
            cells are written unchanged, so that ids match those of the source.
    """
    pa, is_csv = arrow_io.import_pyarrow(), os.fspath(path).lower().endswith(".csv")
    if safe_cells and not is_csv:
        raise_input_error("safe_cells", f"True for {os.fspath(path)!r}", "a CSV file, or False")
    with write_to_temporary("path", path) as temporary:
        save = pa.csv.write_csv if is_csv else pa.parquet.write_table
        save(without_formulas(table) if safe_cells else table, temporary)


FORMULA = "^['=+\\-@\t\r]"
"""Pattern of text that a spreadsheet takes for a formula, or for escaped text with an apostrophe."""


def without_formulas(table: Any) -> Any:
    """Escape text that begins like a formula with an apostrophe, column names included.

    Text that begins with an apostrophe is escaped too, so removing one apostrophe restores every text.
    """
    pa = arrow_io.import_pyarrow()
    match, join, choose = pa.compute.match_substring_regex, pa.compute.binary_join_element_wise, pa.compute.if_else

    def safe(texts: Any) -> Any:
        return choose(match(texts, FORMULA), join(pa.scalar("'", texts.type), texts, pa.scalar("", texts.type)), texts)

    columns = [
        safe(column.cast(arrow_io.sortable_type(column.type))) if arrow_io.is_text(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=safe(pa.array(table.column_names, pa.string())).to_pylist())


def _iter_batches(episodes: Any) -> Iterator[Episodes]:
    batches = [episodes] if isinstance(episodes, Episodes) else episodes
    if not isinstance(batches, Iterable):
        raise_input_error("episodes", type(episodes).__name__, "Episodes, or an iterable of them")
    for batch in batches:
        if not isinstance(batch, Episodes):
            raise_input_error("episodes", f"a partition of type {type(batch).__name__}", "Episodes")
        yield batch


def check_target(argument: str, path: Any) -> Path:
    """Check that a path can be the target of a file."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise_input_error(argument, f"{type(path).__name__} {path!r}", "the path of a file")
    if Path(path).is_dir():
        raise_input_error(argument, f"a folder {os.fspath(path)!r}", "a file to write")
    return Path(path)


@contextmanager
def write_to_temporary(argument: str, path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield a temporary file next to ``path`` and move it there atomically if no error occurs."""
    target = check_target(argument, path)
    temporary = ""
    try:
        # A rename is atomic only within one file system, so the temporary file is in the folder of the target.
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        yield temporary
        os.replace(temporary, target)
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: invalid file name
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise_input_error(
            argument, f"{os.fspath(path)!r}, which cannot be written ({reason})", "a file in a folder that is there"
        )
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def _iter_tables(
    batches: Iterable[Episodes], schema: LogSchema, rows_per_group: int, policy: Policy | None
) -> Iterator[Any]:
    """Iterate over tables of whole episodes, one for each row group."""
    num_written = 0
    for batch in batches:
        sizes = batch.num_states, batch.num_actions, batch.horizon, batch.reward_values.tolist()
        if sizes != (schema.num_states, schema.num_actions, schema.horizon, schema.reward_values.tolist()):
            raise_input_error(
                "episodes", repr(batch), "partitions with equal states, actions, horizon and reward values"
            )
        ends = np.cumsum(batch.lengths)
        # Borders are the episodes that contain every multiple of the requested number of rows.
        cuts = np.searchsorted(ends, np.arange(rows_per_group, int(ends[-1]) if len(batch) else 0, rows_per_group))
        borders = np.unique(np.concatenate([[0], cuts, [len(batch)]]))
        for begin, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            # Episode indices go on over partitions, so ids are unique within the file.
            yield _make_table(batch[begin:end], schema, num_written + begin, policy)
        num_written += len(batch)


def _make_table(batch: Episodes, schema: LogSchema, first_episode: int, policy: Policy | None) -> Any:
    pa = arrow_io.import_pyarrow()
    step_mask = batch.step_mask
    episode, step = np.nonzero(step_mask)
    next_states = batch.states[:, 1:][step_mask]
    columns = {
        "episode": pa.array(episode + np.int64(first_episode), pa.int64()),
        "step": pa.array(step.astype(np.int32)),
        "state": _encode_labels(batch.states[:, :-1][step_mask], schema.state_names),
        "action": _encode_labels(batch.actions[step_mask].astype(np.int32), schema.action_names),
        "reward": pa.array(batch.reward_values[batch.reward_indices[step_mask]]),
        "next_state": _encode_labels(next_states, schema.state_names),
    }
    if policy is not None:
        columns["propensity"] = pa.array(compute_propensities(policy, batch)[step_mask])
    return pa.table(columns)


def _encode_labels(values: Any, names: Sequence[str]) -> Any:
    pa = arrow_io.import_pyarrow()
    unknown = values == PADDING
    # A final state that is unknown becomes null; most logs have none and need no mask.
    mask = unknown if unknown.any() else None
    codes = pa.array(values.astype(np.int32), mask=mask)
    if not names:
        return codes
    return pa.DictionaryArray.from_arrays(codes, pa.array(list(names), pa.string()))


def _save_parquet(path: str, tables: Iterable[Any], arrow_schema: Any, schema: LogSchema) -> None:
    options = {
        "use_dictionary": DICTIONARY_COLUMNS,
        "column_encoding": {"episode": "DELTA_BINARY_PACKED"},
        "write_page_checksum": True,
        "write_statistics": ["episode", "step"],
    }
    rows = 0
    with arrow_io.import_pyarrow().parquet.ParquetWriter(path, arrow_schema, **options) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=table.num_rows)
            rows += table.num_rows
        declared = {field.name: getattr(schema, field.name) for field in fields(schema)}
        description = {"rows": rows, **declared, "reward_values": schema.reward_values.tolist()}
        writer.add_key_value_metadata({PARQUET_METADATA_KEY: encode_description(description)})


def _save_csv(path: str, tables: Iterable[Any], arrow_schema: Any, schema: LogSchema) -> None:
    plain = arrow_io.import_pyarrow().schema([(field.name, arrow_io.value_type(field.type)) for field in arrow_schema])
    with arrow_io.import_pyarrow().csv.CSVWriter(path, plain) as writer:
        for table in tables:
            writer.write_table(table.cast(plain))  # CSV has no dictionaries, so they become text
