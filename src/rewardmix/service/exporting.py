"""The sessions of a store as a log: what ``rewardmix.logs.read`` takes, with propensity, version and arm beside it.

A row is a step whose reward was told. From the first state on that the policy did not know, a session is left out; how
much that is, is said, and refused where it is much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rewardmix._core.checks import refuse
from rewardmix.logs import arrow
from rewardmix.logs.left_out import MOST_LEFT_OUT, LeftOut, as_skipped_share
from rewardmix.logs.sources import IN_ORDER, METADATA, described
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
        unknown: the sessions that these are missing in, and what they hold.
        beyond: the same of rows beyond the horizon, if one was asked for.
    """

    sessions: int
    rows: int
    left_out: int
    unknown: LeftOut = field(default_factory=LeftOut)
    beyond: LeftOut = field(default_factory=LeftOut)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What has to be said before anything that is made of it."""
        behind = f"Left out behind states that the policy does not know: rows of {self.unknown.amount}."
        cut = f"Left out beyond the horizon: rows of {self.beyond.amount}."
        said = (behind, self.unknown), (cut, self.beyond)
        return tuple(sentence for sentence, lost in said if lost.headline)


def export_log(store: str | Path, out: str | Path, *, skip_bad: bool | float = True) -> Exported:
    """Write the sessions of a store to a Parquet file.

    Args:
        store: file of ``rewardmix serve``; it may be in use.
        out: file to write.
        skip_bad: sessions may be cut short, or left out, at a state that the policy did not know: True up to a tenth of
            them, a number up to that share, False none.
    """
    with reading_store(store) as records:
        return write_log(records, out, most_left_out=as_skipped_share(skip_bad) or 0.0)


def write_log(
    records: Records,
    out: str | Path,
    until: int | None = None,
    horizon: int | None = None,
    most_left_out: float = MOST_LEFT_OUT,
) -> Exported:
    """Write sessions to a Parquet file.

    Args:
        records: one moment of a store.
        out: file to write.
        until: only the first so many sessions that finished, as they were then.
        horizon: steps of a session that are written; left out, all.
        most_left_out: share of the sessions in which rows may be missing because of an unknown state.
    """
    world = world_in(records)
    columns, unknown, left_out, beyond = _columns(records, world, until, horizon)
    if not columns["episode"]:
        refuse("store", "no session with a reward", "at least one, in states that the policy knows")
    if unknown.share > most_left_out:
        found = f"states that the policy does not know in {unknown.sessions:,} of {unknown.all_sessions:,} sessions"
        refuse("store", found, f"them in at most {100 * most_left_out:g} % ({unknown.advice})")
    about = {
        "num_states": world["states"],
        "num_actions": world["actions"],
        "horizon": max(columns["step"]) + 1,
        "reward_values": world["reward_values"],
        **({"reward_cuts": world["reward_cuts"]} if "reward_cuts" in world else {}),
        "state_names": world["state_names"],
        "action_names": world["action_names"],
        IN_ORDER: True,  # sessions are numbered as they begin, and rows are asked for by that number
    }
    with replacing("out", out) as temporary:
        _write_columns(temporary, columns, about)
    return Exported(len(set(columns["episode"])), len(columns["episode"]), left_out, unknown, beyond)


@dataclass
class _Tally:
    """Rows that have something in common, which come session by session."""

    rows: int = 0
    sessions: int = 0
    reward: float = 0.0
    last: str = ""

    def count(self, row: Sequence[Any]) -> None:
        """One more."""
        self.rows, self.reward = self.rows + 1, self.reward + abs(row[4])
        self.sessions, self.last = self.sessions + (row[0] != self.last), row[0]

    def of(self, every: _Tally) -> LeftOut:
        """How much of all rows that is."""
        share = self.reward / every.reward if 0.0 < every.reward < math.inf else math.nan
        return LeftOut(self.sessions, every.sessions, rows=every.rows, reward=share)


def _columns(
    records: Records, world: dict[str, Any], until: int | None, horizon: int | None
) -> tuple[dict[str, list[Any]], LeftOut, int, LeftOut]:
    names = ("episode", "step", "state", "action", "reward", "propensity", "version", "arm", "next_state")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    every, unknown, beyond = _Tally(), _Tally(), _Tally()
    for row in records.paid_rows(until):
        _check_row(dict(zip(names, row, strict=True)), world)
        every.count(row)
        if horizon is not None and row[1] >= horizon:
            beyond.count(row)
        elif row[0] == unknown.last or row[2] is None:
            unknown.count(row)
        else:
            for name, value in zip(names, row, strict=True):
                columns[name].append(value)
    return columns, unknown.of(every), unknown.rows, beyond.of(every)


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
