"""What the live page is told: a summary of the sessions, made at most once a second whoever asks."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

from rewardmix.profiles import type_profiles
from rewardmix.service.comparison import LEAST_SESSIONS, ArmComparison, ArmEarned
from rewardmix.service.deciding import ADAPTIVE, FIXED
from rewardmix.service.desk import Desk
from rewardmix.service.ledger import FinishedRow, Ledger
from rewardmix.service.records import REFUSED, Records
from rewardmix.service.results import Results

FRESH_SECONDS = 1.0
"""How old an answer may be."""

AT_A_TIME, TIMES = 500, 10
"""Sessions that are read in one job of the store, and jobs of one answer."""

MANY_ABANDONED = 1 / 3
"""Share of sessions without an end that is worth an alarm."""

MOST_VERSIONS = 50
"""Versions that are told, the latest first."""


@dataclass(frozen=True)
class _Seen:
    """What a look finds in the store, of one moment.

    Attributes:
        rows: sessions that finished since the last look, at most ``AT_A_TIME``.
        unknown: (what unknown states in them were called, how often).
        open: sessions that are open.
        versions: what the desk tells of them.
        types: of the policy of now, in words.
    """

    rows: list[FinishedRow]
    unknown: list[tuple[str, int]]
    open: int
    versions: dict[str, Any]
    types: list[dict[str, Any]]


class Live:
    """The summary of a desk, as it is now."""

    def __init__(self, desk: Desk, results: Results) -> None:
        self._desk, self._results = desk, results
        self._ledger = Ledger(desk.served.session_bounds)
        self._lock, self._told, self._when = asyncio.Lock(), dict[str, Any](), -FRESH_SECONDS
        self._types: dict[int, list[dict[str, Any]]] = {}

    async def told(self) -> dict[str, Any]:
        """Everything that the page shows."""
        async with self._lock:
            if time.monotonic() - self._when >= FRESH_SECONDS:
                self._told = await self._look()
                self._when = time.monotonic()
            return self._told

    async def _look(self) -> dict[str, Any]:
        """One job of the store, unless many sessions have finished since the last look."""
        for _ in range(TIMES):
            seen = await self._results.of(lambda: self._desk.store.submit(self._read, only_reads=True))
            self._ledger.take(seen.rows, seen.unknown)
            if len(seen.rows) < AT_A_TIME:
                break
        versions, settings = seen.versions, self._desk.served.settings
        return {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "open_sessions": seen.open,
            "finished_sessions": versions["finished_sessions"],
            "counted_sessions": self._ledger.sessions,
            "abandoned_sessions": self._ledger.abandoned,
            "holdout": settings.holdout,
            "explore": settings.explore,
            "arms": {arm: _summed(self._ledger.arm(arm)) for arm in (ADAPTIVE, FIXED)},
            "comparison": _compared(self._ledger.compared.comparison()),
            "left_out_sessions": self._ledger.compared.left_out,
            "least_sessions": LEAST_SESSIONS,
            "over_time": [{arm: _summed(stretch[arm]) for arm in stretch} for stretch in self._ledger.stretches],
            "types": seen.types,
            "version": versions["current"],
            "held": bool(versions["held"]),
            "versions": [self._version(one) for one in versions["versions"][: -MOST_VERSIONS - 1 : -1]],
            "alarms": self._alarms(versions["versions"]),
        }

    def _read(self, records: Records) -> _Seen:
        found = records.finished_after(self._ledger.last, AT_A_TIME)
        rows = [FinishedRow(row[0], row[1], row[2], bool(row[3]), float(row[4]), row[5]) for row in found]
        unknown = records.unknown_between(self._ledger.last, rows[-1].finished) if rows else []
        return _Seen(rows, unknown, records.totals().open, self._desk.told_versions(records), self._typed(records))

    def _typed(self, records: Records) -> list[dict[str, Any]]:
        """The types of the policy of now, in words."""
        version = records.totals().current
        if version not in self._types:
            profiles = type_profiles(self._desk.served_by(records, version).model)
            told = [{"name": one.name, "share": one.share, "words": one.sentence} for one in profiles]
            self._types = {version: told}
        return self._types[version]

    def _version(self, told: dict[str, Any]) -> dict[str, Any]:
        kept = {name: told[name] for name in ("version", "state", "origin", "sessions", "added", "reason")}
        earned = {arm: self._ledger.by_version.get((told["version"], arm), ArmEarned()) for arm in (ADAPTIVE, FIXED)}
        return {**kept, "earned": {arm: _summed(one) for arm, one in earned.items()}}

    def _alarms(self, versions: list[dict[str, Any]]) -> list[dict[str, str]]:
        ledger, found = self._ledger, []
        if ledger.unknown_total:
            names = ", ".join(str(json.loads(said)) for said in list(ledger.unknown)[:5])
            text = f"{ledger.unknown_total} steps in states that the policy does not know, such as: {names}"
            found.append({"kind": "unknown_states", "message": text})
        if ledger.sessions >= LEAST_SESSIONS and ledger.abandoned > MANY_ABANDONED * ledger.sessions:
            text = f"{ledger.abandoned} of {ledger.sessions} finished sessions were never ended by a state of null"
            found.append({"kind": "abandoned_sessions", "message": text})
        last = versions[-1]
        for warning in last["evidence"].get("warnings", ()):
            found.append(
                {"kind": "left_out", "message": f"Version {last['version']} was learned from a part: {warning}"}
            )
        if last["state"] == REFUSED:
            found.append(
                {"kind": "checkup", "message": f"Version {last['version']} was not promoted: {last['reason']}"}
            )
        return found


def _summed(earned: ArmEarned) -> dict[str, Any]:
    return {"sessions": earned.sessions, "mean": earned.mean, "variance": earned.variance}


def _compared(comparison: ArmComparison | None) -> dict[str, Any] | None:
    return None if comparison is None else dict(vars(comparison))
