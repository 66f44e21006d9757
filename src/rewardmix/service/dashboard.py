"""Summarize the sessions of a service for the dashboard, at most once per second for all readers together."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

from rewardmix.service.ab_test import MIN_SESSIONS, ArmComparison, ArmStats
from rewardmix.service.arm_totals import ArmTotals, FinishedSession
from rewardmix.service.async_bridge import AsyncBridge
from rewardmix.service.policy_server import ADAPTIVE, HOLDOUT
from rewardmix.service.records import REJECTED, Records
from rewardmix.service.session_service import SessionService
from rewardmix.type_profiles import describe_types

MAX_AGE_SECONDS = 1.0
"""Maximum age in seconds of an answer."""

ROWS_PER_JOB, MAX_JOBS = 500, 10
"""Sessions that one job reads, and jobs of one answer."""

ABANDONED_ALARM_SHARE = 1 / 3
"""Share of sessions without an explicit end that raises an alarm."""

MAX_VERSIONS = 50
"""Number of versions in the answer, the latest first."""


@dataclass(frozen=True)
class _Snapshot:
    """Hold one consistent snapshot of the session store.

    Attributes:
        finished_sessions: Sessions that finished since the last snapshot, at most ``ROWS_PER_JOB``.
        unknown_states: (raw state as JSON, count) of unknown states in these sessions.
        num_open: Number of open sessions.
        versions: Description of all versions.
        types: Description of the types of the active version.
    """

    finished_sessions: list[FinishedSession]
    unknown_states: list[tuple[str, int]]
    num_open: int
    versions: dict[str, Any]
    types: list[dict[str, Any]]


class Dashboard:
    """Summary of a session service, computed on demand."""

    def __init__(self, service: SessionService, bridge: AsyncBridge) -> None:
        self._service, self._bridge = service, bridge
        self._arm_totals = ArmTotals(service.served.session_bounds)
        self._lock, self._summary, self._refreshed_at = asyncio.Lock(), dict[str, Any](), -MAX_AGE_SECONDS
        self._types: dict[int, list[dict[str, Any]]] = {}

    async def get(self) -> dict[str, Any]:
        """Return the summary, at most ``MAX_AGE_SECONDS`` old."""
        # With the lock, simultaneous readers share one computation instead of starting one each.
        async with self._lock:
            if time.monotonic() - self._refreshed_at >= MAX_AGE_SECONDS:
                self._summary = await self._refresh()
                self._refreshed_at = time.monotonic()
            return self._summary

    async def _refresh(self) -> dict[str, Any]:
        """Read new sessions in a few jobs and build the summary."""
        # After a restart there may be many sessions to read. Small jobs let requests of sessions run in
        # between, and the number of jobs bounds the time of one answer.
        for _ in range(MAX_JOBS):
            snapshot = await self._bridge.submit(lambda: self._service.store.submit(self._read, only_reads=True))
            self._arm_totals.add(snapshot.finished_sessions, snapshot.unknown_states)
            if len(snapshot.finished_sessions) < ROWS_PER_JOB:
                break
        versions, settings = snapshot.versions, self._service.served.settings
        return {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "open_sessions": snapshot.num_open,
            "finished_sessions": versions["finished_sessions"],
            "counted_sessions": self._arm_totals.sessions,
            "abandoned_sessions": self._arm_totals.abandoned,
            "holdout_share": settings.holdout_share,
            "explore_prob": settings.explore_prob,
            "arms": {arm: _arm_fields(self._arm_totals.arm(arm)) for arm in (ADAPTIVE, HOLDOUT)},
            "comparison": _comparison_fields(self._arm_totals.comparison.comparison()),
            "excluded_sessions": self._arm_totals.comparison.num_excluded,
            "min_sessions": MIN_SESSIONS,
            "history": [
                {arm: _arm_fields(interval[arm]) for arm in interval} for interval in self._arm_totals.intervals
            ],
            "types": snapshot.types,
            "active_version": versions["active_version"],
            "pinned": bool(versions["pinned"]),
            "versions": [self._describe_version(version) for version in versions["versions"][: -MAX_VERSIONS - 1 : -1]],
            "alarms": self._alarms(versions["versions"]),
        }

    def _read(self, records: Records) -> _Snapshot:
        """Read one snapshot within a job."""
        finished_rows = records.list_finished_after(self._arm_totals.last, ROWS_PER_JOB)
        rows = [FinishedSession(row[0], row[1], row[2], bool(row[3]), float(row[4]), row[5]) for row in finished_rows]
        unknown = records.list_unknown_states(self._arm_totals.last, rows[-1].finished) if rows else []
        return _Snapshot(
            rows,
            unknown,
            records.totals().num_open,
            self._service.describe_versions(records),
            self._describe_types(records),
        )

    def _describe_types(self, records: Records) -> list[dict[str, Any]]:
        """Describe the types of the active version; the result is kept until the version changes."""
        version = records.totals().active_version
        if version not in self._types:
            profiles = describe_types(self._service.get_served_plan(records, version).model)
            descriptions = [
                {"name": profile.name, "weight": profile.weight, "text": profile.text} for profile in profiles
            ]
            # The dictionary is replaced and not extended: one entry suffices and old versions do not accumulate.
            self._types = {version: descriptions}
        return self._types[version]

    def _describe_version(self, version: dict[str, Any]) -> dict[str, Any]:
        """Describe a version with the returns of its arms."""
        fields = {
            name: version[name]
            for name in ("version", "state", "origin", "num_training_sessions", "created_at", "reason")
        }
        returns = {
            arm: self._arm_totals.by_version.get((version["version"], arm), ArmStats()) for arm in (ADAPTIVE, HOLDOUT)
        }
        return {**fields, "returns": {arm: _arm_fields(stats) for arm, stats in returns.items()}}

    def _alarms(self, versions: list[dict[str, Any]]) -> list[dict[str, str]]:
        """List the conditions that need attention."""
        arm_totals, alarms = self._arm_totals, []
        if arm_totals.unknown_total:
            names = ", ".join(str(json.loads(raw_state)) for raw_state in list(arm_totals.unknown)[:5])
            text = f"Steps in states that the policy does not know: {arm_totals.unknown_total}, for example in {names}"
            alarms.append({"kind": "unknown_states", "message": text})
        if arm_totals.sessions >= MIN_SESSIONS and arm_totals.abandoned > ABANDONED_ALARM_SHARE * arm_totals.sessions:
            share = f"{arm_totals.abandoned} of {arm_totals.sessions}"
            text = f'{share} finished sessions timed out; end each session with "state": null'
            alarms.append({"kind": "abandoned_sessions", "message": text})
        latest = versions[-1]
        for warning in latest["evidence"].get("warnings", ()):
            alarms.append(
                {
                    "kind": "dropped_rows",
                    "message": f"Version {latest['version']} was fitted to part of the log: {warning}",
                }
            )
        if latest["state"] == REJECTED:
            alarms.append(
                {"kind": "diagnostics", "message": f"Version {latest['version']} was rejected: {latest['reason']}"}
            )
        return alarms


def _arm_fields(stats: ArmStats) -> dict[str, Any]:
    """Convert the sums of an arm to JSON fields."""
    return {"sessions": stats.num_sessions, "mean": stats.mean, "variance": stats.variance}


def _comparison_fields(comparison: ArmComparison | None) -> dict[str, Any] | None:
    """Convert a comparison to JSON fields."""
    return None if comparison is None else dict(vars(comparison))
