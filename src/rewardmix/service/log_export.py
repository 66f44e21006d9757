"""Export the sessions of a store as a log that ``rewardmix.logs.read_log`` reads, with propensity, version and arm.

A row is a step with a reward. A session is cut at the first state that the policy does not know. The result reports how
much is missing; if it is too much, the export fails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rewardmix._core.checks import raise_input_error
from rewardmix.logs import arrow_io
from rewardmix.logs.left_out import MAX_LEFT_OUT, LeftOut, as_skipped_share
from rewardmix.logs.log_writer import write_to_temporary
from rewardmix.logs.sources import IN_ORDER, PARQUET_METADATA_KEY, encode_description
from rewardmix.service.databases import EXPECTED_STORE
from rewardmix.service.policy_versions import read_spec
from rewardmix.service.records import Records
from rewardmix.service.store import open_snapshot


@dataclass(frozen=True)
class ExportReport:
    """Amounts that an export wrote and omitted.

    Attributes:
        num_sessions: Sessions with at least one row.
        num_rows: Steps with a reward.
        num_dropped_rows: Rows omitted after a state that the policy does not know.
        unknown: Sessions, rows and rewards omitted for this reason.
        beyond: Sessions, rows and rewards omitted beyond the horizon, if one was given.
    """

    num_sessions: int
    num_rows: int
    num_dropped_rows: int
    unknown: LeftOut = field(default_factory=LeftOut)
    beyond: LeftOut = field(default_factory=LeftOut)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return sentences about omitted rows that any use of the log has to show."""
        unknown = f"Dropped after states that the policy does not know: rows of {self.unknown.amount}."
        beyond = f"Dropped beyond the horizon: rows of {self.beyond.amount}."
        pairs = (unknown, self.unknown), (beyond, self.beyond)
        return tuple(sentence for sentence, dropped in pairs if dropped.headline)


def export_log(store: str | Path, out: str | Path, *, drop_invalid: bool | float = True) -> ExportReport:
    """Write the sessions of a store to a Parquet file.

    Args:
        store: Store of ``rewardmix serve``; it may be in use.
        out: File to write.
        drop_invalid: Share of the sessions that may be cut at a state that the policy does not know: True allows a
            tenth, a number that share, False none.

    Returns:
        Numbers of sessions and rows that were written and omitted.

    Raises:
        InputError: If the store has no session with a reward, or more sessions than allowed are cut.
    """
    with open_snapshot(store) as records:
        return write_session_log(records, out, max_left_out=as_skipped_share(drop_invalid) or 0.0)


def write_session_log(
    records: Records,
    out: str | Path,
    until: int | None = None,
    horizon: int | None = None,
    max_left_out: float = MAX_LEFT_OUT,
) -> ExportReport:
    """Write sessions from a snapshot to a Parquet file.

    Args:
        records: Snapshot of a store.
        out: File to write.
        until: Number of finished sessions to include, each as it was when it finished; None includes all.
        horizon: Maximum number of steps of a session; None writes all.
        max_left_out: Share of the sessions that may have omitted rows because of an unknown state.
    """
    spec = read_spec(records)
    columns, unknown, num_dropped_rows, beyond = _collect_columns(records, spec, until, horizon)
    if not columns["episode"]:
        raise_input_error(
            "store", "no session with a reward", "at least one session with a reward in a state that the policy knows"
        )
    if unknown.share > max_left_out:
        actual = f"states that the policy does not know in {unknown.sessions:,} of {unknown.all_sessions:,} sessions"
        raise_input_error("store", actual, f"at most {100 * max_left_out:g} % of sessions ({unknown.advice})")
    description = {
        "num_states": spec["num_states"],
        "num_actions": spec["num_actions"],
        "horizon": max(columns["step"]) + 1,
        "reward_values": spec["reward_values"],
        **({"reward_cuts": spec["reward_cuts"]} if "reward_cuts" in spec else {}),
        "state_names": spec["state_names"],
        "action_names": spec["action_names"],
        # Sessions are numbered as they start and rows are sorted by that number.
        IN_ORDER: True,
    }
    with write_to_temporary("out", out) as temporary:
        _write_columns(temporary, columns, description)
    return ExportReport(len(set(columns["episode"])), len(columns["episode"]), num_dropped_rows, unknown, beyond)


@dataclass
class _RowTotals:
    """Running sums over rows that arrive session by session."""

    rows: int = 0
    sessions: int = 0
    reward: float = 0.0
    last: str = ""

    def count(self, row: Sequence[Any]) -> None:
        """Add a row."""
        self.rows, self.reward = self.rows + 1, self.reward + abs(row[4])
        # Rows arrive session by session, so comparing with the last id counts sessions without a set of ids.
        self.sessions, self.last = self.sessions + (row[0] != self.last), row[0]

    def as_left_out(self, all_rows: _RowTotals) -> LeftOut:
        """Return the amount as a share of all rows."""
        share = self.reward / all_rows.reward if 0.0 < all_rows.reward < math.inf else math.nan
        return LeftOut(self.sessions, all_rows.sessions, rows=all_rows.rows, reward=share)


def _collect_columns(
    records: Records, spec: dict[str, Any], until: int | None, horizon: int | None
) -> tuple[dict[str, list[Any]], LeftOut, int, LeftOut]:
    """Collect the columns of the log and the amounts that are omitted."""
    names = ("episode", "step", "state", "action", "reward", "propensity", "version", "arm", "next_state")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    all_rows, unknown, beyond = _RowTotals(), _RowTotals(), _RowTotals()
    for row in records.iter_rewarded_steps(until):
        _check_row(dict(zip(names, row, strict=True)), spec)
        all_rows.count(row)
        if horizon is not None and row[1] >= horizon:
            beyond.count(row)
        # The rows of an episode are consecutive steps, so the rest of a session after an unknown state is omitted too.
        elif row[0] == unknown.last or row[2] is None:
            unknown.count(row)
        else:
            for name, value in zip(names, row, strict=True):
                columns[name].append(value)
    return columns, unknown.as_left_out(all_rows), unknown.rows, beyond.as_left_out(all_rows)


def _check_row(row: dict[str, Any], spec: dict[str, Any]) -> None:
    """Raise an ``InputError`` for a row that the service cannot have written.

    A negative number would silently address another state or action name.
    """
    sizes = {"state": spec["num_states"], "next_state": spec["num_states"], "action": spec["num_actions"]}
    for name, value in row.items():
        if name in ("reward", "propensity"):
            valid = isinstance(value, int | float) and math.isfinite(value)
        elif name in sizes:
            unknown = value is None and name != "action"
            valid = unknown or (isinstance(value, int) and 0 <= value < sizes[name])
        else:
            valid = isinstance(value, int if name in ("step", "version") else str)
        if not valid:
            raise_input_error(
                "store", f"{name} {value!r} in step {row['step']!r} of session {row['episode']!r}", EXPECTED_STORE
            )


def _write_columns(path: str, columns: dict[str, list[Any]], description: dict[str, Any]) -> None:
    """Write the columns to Parquet with names for states and actions."""
    pa = arrow_io.import_pyarrow()
    names = {"state": "state_names", "next_state": "state_names", "action": "action_names"}
    arrays = {}
    for column, values in columns.items():
        labels = description[names[column]] if column in names else ()
        if labels:
            values = [None if value is None else labels[value] for value in values]
        is_integer = column in ("step", "version") or (column in names and not labels)
        kind = pa.int32() if is_integer else pa.float64() if column in ("reward", "propensity") else pa.string()
        arrays[column] = pa.array(values, kind)
    table = pa.table(arrays)
    with pa.parquet.ParquetWriter(path, table.schema, write_page_checksum=True) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(
            {PARQUET_METADATA_KEY: encode_description({"rows": table.num_rows, **description})}
        )
