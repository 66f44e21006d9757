"""A new version of the policy from the sessions of a store, or the reasons against it.

A refit is a function of the store's log: of the first so many sessions that finished, each as it was when it finished,
and of the version that new sessions got then. Whoever does it again gets the same bits.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from rewardmix._core.checks import InputError, as_count
from rewardmix.bounded_mean import ReturnBounds, mean_interval, return_bounds
from rewardmix.logs import Fitted, fit
from rewardmix.logs.offpolicy import OffPolicy
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan
from rewardmix.service.deciding import FIXED
from rewardmix.service.exporting import Exported, write_log
from rewardmix.service.records import PROMOTED, REFUSED, WAITING, Records, StoredPolicy, VersionRow
from rewardmix.service.store import Store, reading_store
from rewardmix.service.versions import plan_from, policy_of_plan

GROWTH = 4
"""A refit waits for one part in so many of what the last one saw: all of them together take time like the log grows."""

LEAST_PLAYED = 30
"""Sessions of a version, or of the holdout, that say what it earns."""


@dataclass(frozen=True)
class RefitSettings:
    """When a service learns.

    Attributes:
        every: finished sessions from one refit to the next, at least; later ones wait for a quarter more.
    """

    every: int = 500

    def __post_init__(self) -> None:
        as_count("every", self.every)


def next_refit(records: Records, settings: RefitSettings) -> int:
    """How many sessions have to have finished for the next refit."""
    last = records.learned_until()
    return last + max(settings.every, last // GROWTH)


@dataclass(frozen=True, eq=False)
class Refitted:
    """What a refit came to.

    Attributes:
        policy: the new one; where there is none, the one before.
        reason: why it must not be promoted, or "".
        evidence: what the fit and the check-up say, as JSON.
    """

    policy: StoredPolicy
    reason: str
    evidence: str


def refit(store: str | Path, until: int) -> int | None:
    """Learn from the first ``until`` sessions that finished, and add the version; None if somebody else has.

    It is promoted in the same transaction, unless something speaks against it or another version is held.
    """
    with reading_store(store) as records:
        parent = records.totals().current
    found = refitted_policy(store, until, parent)

    def job(records: Records) -> int | None:
        if records.learned_until() >= until:
            return None
        held = records.totals().held
        state, reason = (REFUSED, found.reason) if found.reason else (WAITING, HELD) if held else (PROMOTED, "")
        row = VersionRow(0, found.policy.digest, time.time(), parent, until, state, reason, found.evidence)
        version = records.add_version(found.policy, row)
        if state == PROMOTED:
            records.promote(version)
        return version

    kept = Store(store)
    try:
        return kept.submit(job).result()
    finally:
        kept.close()


HELD = "Another version is held by hand."


def refitted_policy(store: str | Path, until: int, parent: int) -> Refitted:
    """The policy fitted to the first ``until`` sessions that finished, begun at the model of a version."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.parquet"
        with reading_store(store) as records:
            before = plan_from(records.plan_of(parent))
            earned = _earned(records, parent, until, before.model)
            try:
                done = write_log(records, path, until, before.model.horizon)
            except InputError as error:
                return _failed(before, error)
        try:
            found = fit(str(path), start=before, horizon=before.model.horizon, resamples=0)
        except InputError as error:
            return _failed(before, error)
    return Refitted(policy_of_plan(found.plan), _against(found, earned), json.dumps(_evidence(found, done, earned)))


@dataclass(frozen=True)
class SoFar:
    """What sessions have earned that a refit sees, each its sum up to the horizon.

    Attributes:
        parent: the version that new sessions got.
        adaptive: sessions that followed it.
        holdout: sessions of the holdout, of all versions.
        bounds: what such a sum cannot leave.
    """

    parent: int
    adaptive: list[float]
    holdout: list[float]
    bounds: ReturnBounds


def _earned(records: Records, parent: int, until: int, model: RewardMixingMDP) -> SoFar:
    """What the first ``until`` sessions that finished have earned."""
    adaptive, holdout = dict[str, float](), dict[str, float]()
    for id, step, _, _, reward, _, version, arm, _ in records.paid_rows(until):
        if step < model.horizon and (arm == FIXED or version == parent):
            returns = holdout if arm == FIXED else adaptive
            returns[id] = returns.get(id, 0.0) + reward
    bounds = return_bounds(model.reward_values, model.horizon)
    return SoFar(parent, list(adaptive.values()), list(holdout.values()), bounds)


def _failed(before: Plan, error: InputError) -> Refitted:
    return Refitted(policy_of_plan(before), f"The fit was refused: {error}", "{}")


def _against(found: Fitted, earned: SoFar) -> str:
    """What speaks against a new version: the check-up, or what the sessions say that it earns.

    With an estimate from the log, its upper end must not lie below what the version before, or the holdout, has earned
    at least. Without one, what the plan is worth in the fitted model must not lie below the holdout.
    """
    reasons = [finding.sentence for finding in found.info.checkup.broken]
    value = found.info.off_policy
    estimated = value is not None and value.supported
    most = value.upper if value is not None and estimated else found.plan.lower
    told = f"By the log it earns {most:.4f} a session at most" if estimated else f"It expects {most:.4f} a session"
    rivals = [(f"version {earned.parent}", earned.adaptive)] if estimated else []
    for name, returns in [*rivals, ("the holdout", earned.holdout)]:
        interval = _interval(returns, earned.bounds)
        if interval is not None and most < interval[0]:
            reasons.append(f"{told}, and {name} earned {interval[0]:.4f} at least.")
    return " ".join(reasons)


def _interval(returns: list[float], bounds: ReturnBounds) -> list[float] | None:
    """The 95 % interval of a mean; None where there are too few to say."""
    if len(returns) < LEAST_PLAYED:
        return None
    return list(mean_interval(np.array(returns), bounds=bounds))


def _evidence(found: Fitted, done: Exported, earned: SoFar) -> dict[str, Any]:
    """What is known of a new version, as plain data."""
    info = found.info
    warnings = (*done.warnings, *info.warnings)
    return {
        "sessions": done.sessions,
        "rows": done.rows,
        "left_out": done.left_out,
        **({"warnings": list(warnings)} if warnings else {}),  # versions of before are the same when learned again
        "types": found.model.num_contexts,
        "weights": found.model.weights.tolist(),
        "planned": found.plan.lower,
        "estimated": _estimated(info.off_policy),
        "parent_earned": _interval(earned.adaptive, earned.bounds),
        "holdout_earned": _interval(earned.holdout, earned.bounds),
        "check": [
            {"assumption": one.assumption, "p_value": _number(one.p_value), "broken": one.broken}
            for one in info.checkup.findings
        ],
        "sentences": list(info.sentences),
    }


def _estimated(value: OffPolicy | None) -> list[float] | None:
    return [value.lower, value.upper] if value is not None and value.supported else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


@dataclass(frozen=True)
class Replayed:
    """A version that was learned again.

    Attributes:
        version: its number.
        stored: digest in the store.
        digest: of what was learned now.
        same: whether policy, verdict and evidence are the same, bit for bit.
    """

    version: int
    stored: str
    digest: str
    same: bool


def replay(store: str | Path) -> list[Replayed]:
    """Learn every learned version of a store again from its log.

    They are the same bit for bit, unless sessions that they were learned from have been deleted since.
    """
    with reading_store(store) as records:
        rows = [row for row in records.versions() if row.learned_from is not None]
    out = []
    for row in rows:
        assert row.learned_from is not None
        assert row.parent is not None
        found = refitted_policy(store, row.learned_from, row.parent)
        verdict = found.reason == (row.reason if row.reason != HELD else "")
        same = found.policy.digest == row.digest and verdict and found.evidence == row.evidence
        out.append(Replayed(row.version, row.digest, found.policy.digest, same))
    return out


def refit_as_asked() -> None:
    """One refit in a process of its own: what to do on standard input, the version on standard output.

    The input stays open as long as whoever asked is there: where it ends before the refit does, nobody waits for it.
    Temporary files, which have sessions in them, are in a folder that whoever asked removes, or else this process.
    """
    asked = json.loads(sys.stdin.readline())
    tempfile.tempdir = asked["folder"]
    threading.Thread(target=_leave_with, args=(sys.stdin, asked["folder"]), daemon=True).start()
    with suppress(AttributeError, OSError):
        os.nice(10)
    print(json.dumps({"version": refit(asked["store"], asked["until"])}), flush=True)
    os._exit(0)  # the thread still reads


def _leave_with(stream: TextIO, folder: str) -> None:
    stream.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
