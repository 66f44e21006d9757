"""The sessions of a store as a log: what ``rewardmix.logs.read`` takes, with propensity, version and arm beside it.

A row is a step whose reward was told. From the first state on that the policy did not know, a session is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardmix._core.checks import refuse
from rewardmix.logs import arrow
from rewardmix.logs.sources import METADATA, described
from rewardmix.logs.writing import replacing
from rewardmix.service.databases import WHOLE_STORE
from rewardmix.service.records import Records
from rewardmix.service.store import reading_store
from rewardmix.service.versions import world_in


@dataclass(frozen=True)
class Exported:
    """What went into a log.

    Attributes:
        sessions: with at least one row.
        rows: steps with a reward.
        left_out: rows behind a state that the policy did not know.
    """

    sessions: int
    rows: int
    left_out: int


def export_log(store: str | Path, out: str | Path) -> Exported:
    """Write the sessions of a store to a Parquet file.

    Args:
        store: file of ``rewardmix serve``; it may be in use.
        out: file to write.
    """
    with reading_store(store) as records:
        return write_log(records, out)


def write_log(records: Records, out: str | Path, until: int | None = None, horizon: int | None = None) -> Exported:
    """Write sessions to a Parquet file.

    Args:
        records: one moment of a store.
        out: file to write.
        until: only the first so many sessions that finished, as they were then.
        horizon: steps of a session that are written; left out, all.
    """
    world = world_in(records)
    columns, left_out = _columns(records, world, until, horizon)
    if not columns["episode"]:
        refuse("store", "no session with a reward", "at least one, in states that the policy knows")
    about = {
        "num_states": world["states"],
        "num_actions": world["actions"],
        "horizon": max(columns["step"]) + 1,
        "reward_values": world["reward_values"],
        "state_names": world["state_names"],
        "action_names": world["action_names"],
    }
    with replacing("out", out) as temporary:
        _write_columns(temporary, columns, about)
    return Exported(len(set(columns["episode"])), len(columns["episode"]), left_out)


def _columns(
    records: Records, world: dict[str, Any], until: int | None, horizon: int | None
) -> tuple[dict[str, list[Any]], int]:
    names = ("episode", "step", "state", "action", "reward", "propensity", "version", "arm", "next_state")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    lost, left_out = "", 0
    for row in records.paid_rows(until):
        _check_row(dict(zip(names, row, strict=True)), world)
        if horizon is not None and row[1] >= horizon:
            continue
        if row[0] == lost or row[2] is None:
            lost, left_out = row[0], left_out + 1
            continue
        for name, value in zip(names, row, strict=True):
            columns[name].append(value)
    return columns, left_out


def _check_row(row: dict[str, Any], world: dict[str, Any]) -> None:
    """Refuse a row that no service has written; a number below zero would be another state's or action's name."""
    sizes = {"state": world["states"], "next_state": world["states"], "action": world["actions"]}
    for name, value in row.items():
        if name in ("reward", "propensity"):
            good = isinstance(value, int | float) and math.isfinite(value)
        elif name in sizes:
            unknown = value is None and name != "action"
            good = unknown or (isinstance(value, int) and 0 <= value < sizes[name])
        else:
            good = isinstance(value, int if name in ("step", "version") else str)
        if not good:
            refuse("store", f"{name} {value!r} in step {row['step']!r} of session {row['episode']!r}", WHOLE_STORE)


def _write_columns(path: str, columns: dict[str, list[Any]], about: dict[str, Any]) -> None:
    pa = arrow.library()
    names = {"state": "state_names", "next_state": "state_names", "action": "action_names"}
    arrays = {}
    for column, values in columns.items():
        labels = about[names[column]] if column in names else ()
        if labels:
            values = [None if value is None else labels[value] for value in values]
        whole = column in ("step", "version") or (column in names and not labels)
        kind = pa.int32() if whole else pa.float64() if column in ("reward", "propensity") else pa.string()
        arrays[column] = pa.array(values, kind)
    table = pa.table(arrays)
    with pa.parquet.ParquetWriter(path, table.schema, write_page_checksum=True) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({METADATA: described({"rows": table.num_rows, **about})})
