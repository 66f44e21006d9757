"""Fit a new policy version to the sessions of a store, or find the reasons against it.

A refit is a deterministic function of the log of a store: the first ``until`` finished sessions, each as it was when it
finished, and the version that was active then. Repeating it gives identical bits (``replay``).
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
from rewardmix.logs import FitResult, fit
from rewardmix.logs.off_policy import OffPolicyEstimate
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan
from rewardmix.service.log_export import ExportReport, write_session_log
from rewardmix.service.policy_server import HOLDOUT
from rewardmix.service.policy_versions import deserialize_plan, make_policy_blob
from rewardmix.service.records import ACTIVATED, PENDING, REJECTED, PolicyBlob, Records, VersionRow
from rewardmix.service.store import Store, open_snapshot

REFIT_GROWTH = 4
"""A refit waits until the log has grown by one part in four. The total time of all refits is then linear in the log."""

MIN_SESSIONS_FOR_INTERVAL = 30
"""Number of sessions of a version, or of the holdout arm, from which an interval of its returns is computed."""


@dataclass(frozen=True)
class RefitSettings:
    """Schedule of refits.

    Attributes:
        min_new_sessions: Minimum number of finished sessions between refits; later refits wait for a quarter more data.
    """

    min_new_sessions: int = 500

    def __post_init__(self) -> None:
        """Check the number of sessions."""
        as_count("min_new_sessions", self.min_new_sessions)


def next_refit(records: Records, settings: RefitSettings) -> int:
    """Return the number of finished sessions at which the next refit is due."""
    last = records.max_training_sessions()
    return last + max(settings.min_new_sessions, last // REFIT_GROWTH)


@dataclass(frozen=True, eq=False)
class RefitResult:
    """Result of a refit.

    Attributes:
        policy: New policy; the policy of the parent version if the fit failed.
        reason: Why it must not become active, or an empty string.
        evidence: Results of the fit and of the diagnostics, as JSON.
    """

    policy: PolicyBlob
    reason: str
    evidence: str


def run_refit(store: str | Path, until: int) -> int | None:
    """Fit to the first ``until`` finished sessions and add the version; return None if another process has done so.

    The version becomes active in this transaction, unless there is an objection or another version is pinned.
    """
    with open_snapshot(store) as records:
        parent = records.totals().active_version
    # The fit may take long and holds no lock: it reads a snapshot, and only the insertion below is a writing
    # transaction.
    refit_result = fit_new_version(store, until, parent)

    def job(records: Records) -> int | None:
        # Another server with this store may have finished the refit meanwhile.
        if records.max_training_sessions() >= until:
            return None
        pinned = records.totals().pinned
        if refit_result.reason:
            state, reason = REJECTED, refit_result.reason
        else:
            state, reason = (PENDING, PINNED_REASON) if pinned else (ACTIVATED, "")
        policy = refit_result.policy
        row = VersionRow(0, policy.digest, time.time(), parent, until, state, reason, refit_result.evidence)
        version = records.add_version(policy, row)
        if state == ACTIVATED:
            records.activate_version(version)
        return version

    store_writer = Store(store)
    try:
        return store_writer.submit(job).result()
    finally:
        store_writer.close()


PINNED_REASON = "Another version is pinned."


def fit_new_version(store: str | Path, until: int, parent: int) -> RefitResult:
    """Fit a policy to the first ``until`` finished sessions, starting from the model of the parent version."""
    with tempfile.TemporaryDirectory() as folder:
        # The fit reads an exported file and not the database, so a refit runs the code of rm.fit without any
        # special case.
        path = Path(folder) / "sessions.parquet"
        with open_snapshot(store) as records:
            parent_plan = deserialize_plan(records.plan_bytes(parent))
            observed = _collect_returns(records, parent, until, parent_plan.model)
            try:
                export_report = write_session_log(records, path, until, parent_plan.model.horizon)
            except InputError as error:
                return _failed_refit(parent_plan, error)
        try:
            fit_result = fit(str(path), init_model=parent_plan, horizon=parent_plan.model.horizon, num_resamples=0)
        except InputError as error:
            return _failed_refit(parent_plan, error)
    return RefitResult(
        make_policy_blob(fit_result.plan),
        _find_objections(fit_result, observed),
        json.dumps(_make_evidence(fit_result, export_report, observed)),
    )


@dataclass(frozen=True)
class ObservedReturns:
    """Returns that the sessions of a refit have collected, each summed up to the horizon.

    Attributes:
        parent: Version that was active.
        adaptive: Returns of sessions that followed it.
        holdout: Returns of holdout sessions of all versions.
        bounds: Smallest and largest possible return.
    """

    parent: int
    adaptive: list[float]
    holdout: list[float]
    bounds: ReturnBounds


def _collect_returns(records: Records, parent: int, until: int, model: RewardMixingMDP) -> ObservedReturns:
    """Collect the returns of the first ``until`` finished sessions."""
    adaptive, holdout = dict[str, float](), dict[str, float]()
    for id, step, _, _, reward, _, version, arm, _ in records.iter_rewarded_steps(until):
        # Holdout sessions are pooled over all versions, since each version has few of them. Steps beyond the
        # horizon are cut, as in the fit.
        if step < model.horizon and (arm == HOLDOUT or version == parent):
            arm_returns = holdout if arm == HOLDOUT else adaptive
            arm_returns[id] = arm_returns.get(id, 0.0) + reward
    bounds = return_bounds(model.reward_values, model.horizon)
    return ObservedReturns(parent, list(adaptive.values()), list(holdout.values()), bounds)


def _failed_refit(parent_plan: Plan, error: InputError) -> RefitResult:
    """Return the result of a refit whose fit failed: the policy of the parent version, with the error as objection."""
    return RefitResult(make_policy_blob(parent_plan), f"The fit failed: {error}", "{}")


def _find_objections(fit_result: FitResult, observed: ObservedReturns) -> str:
    """List the objections to a new version: rejected assumptions, or returns below those of its rivals.

    With an off-policy estimate, its upper end must not lie below the lower confidence bound of the parent version or of
    the holdout arm. Without one, the planned value must not lie below that of the holdout arm.
    """
    reasons = [test.text for test in fit_result.info.diagnostics.rejected]
    off_policy = fit_result.info.off_policy
    # The most favorable value of the new version is compared with the least favorable of its rivals: only a
    # significant loss is an objection.
    is_estimated = off_policy is not None and off_policy.is_supported
    upper_value = off_policy.upper if off_policy is not None and is_estimated else fit_result.plan.lower
    value_text = (
        f"The off-policy estimate of its return is at most {upper_value:.4f} per session"
        if is_estimated
        else f"Its planned value is {upper_value:.4f} per session"
    )
    rivals = [(f"version {observed.parent}", observed.adaptive)] if is_estimated else []
    for name, returns in [*rivals, ("the holdout arm", observed.holdout)]:
        interval = _interval(returns, observed.bounds)
        if interval is not None and upper_value < interval[0]:
            reasons.append(f"{value_text}, but {name} returned at least {interval[0]:.4f}.")
    return " ".join(reasons)


def _interval(returns: list[float], bounds: ReturnBounds) -> list[float] | None:
    """Return the 95 % confidence interval of a mean return; None with too few sessions."""
    if len(returns) < MIN_SESSIONS_FOR_INTERVAL:
        return None
    return list(mean_interval(np.array(returns), bounds=bounds))


def _make_evidence(fit_result: FitResult, export_report: ExportReport, observed: ObservedReturns) -> dict[str, Any]:
    """Collect what is known about a new version as JSON data."""
    info = fit_result.info
    warnings = (*export_report.warnings, *info.warnings)
    return {
        "num_sessions": export_report.num_sessions,
        "num_rows": export_report.num_rows,
        "num_dropped_rows": export_report.num_dropped_rows,
        # The key is absent without warnings, so that replays of older versions remain bitwise identical.
        **({"warnings": list(warnings)} if warnings else {}),
        "num_types": fit_result.model.num_types,
        "weights": fit_result.model.weights.tolist(),
        "planned_value": fit_result.plan.lower,
        "off_policy_interval": _off_policy_interval(info.off_policy),
        "parent_return_interval": _interval(observed.adaptive, observed.bounds),
        "holdout_return_interval": _interval(observed.holdout, observed.bounds),
        "diagnostics": [
            {"assumption": test.assumption, "p_value": _nan_to_none(test.p_value), "rejected": test.rejected}
            for test in info.diagnostics.tests
        ],
        "report_text": list(info.report_text),
    }


def _off_policy_interval(estimate: OffPolicyEstimate | None) -> list[float] | None:
    """Return the interval of the off-policy estimate; None if the log does not support the policy."""
    return [estimate.lower, estimate.upper] if estimate is not None and estimate.is_supported else None


def _nan_to_none(value: float) -> float | None:
    """Convert NaN to None, since JSON has no NaN."""
    return None if math.isnan(value) else value


@dataclass(frozen=True)
class ReplayResult:
    """Comparison of a version with its repeated refit.

    Attributes:
        version: Number of the version.
        stored_digest: Digest in the store.
        replayed_digest: Digest of the repeated refit.
        is_identical: Whether policy, objections and evidence are bitwise identical.
    """

    version: int
    stored_digest: str
    replayed_digest: str
    is_identical: bool


def replay(store: str | Path) -> list[ReplayResult]:
    """Repeat every refit of a store from its log and compare the results.

    They are bitwise identical, unless sessions that they were fitted to have been deleted since.
    """
    with open_snapshot(store) as records:
        rows = [row for row in records.versions() if row.num_training_sessions is not None]
    replays = []
    for row in rows:
        assert row.num_training_sessions is not None
        assert row.parent is not None
        refit_result = fit_new_version(store, row.num_training_sessions, row.parent)
        # A pinned version is no result of the refit, so this reason is ignored.
        same_reason = refit_result.reason == (row.reason if row.reason != PINNED_REASON else "")
        is_identical = (
            refit_result.policy.digest == row.digest and same_reason and refit_result.evidence == row.evidence
        )
        replays.append(ReplayResult(row.version, row.digest, refit_result.policy.digest, is_identical))
    return replays


def run_refit_subprocess() -> None:
    """Run one refit in this process: settings on standard input, the version on standard output.

    The parent process keeps the input open while it waits; if the input ends earlier, this process exits. Temporary
    files, which contain sessions, are in a folder that the parent or else this process removes.
    """
    job = json.loads(sys.stdin.readline())
    tempfile.tempdir = job["folder"]
    # If the service is killed, its end of the pipe closes and the refit does not survive it.
    threading.Thread(target=_exit_when_closed, args=(sys.stdin, job["folder"]), daemon=True).start()
    # Lower priority, so that requests are answered first. Windows has no nice.
    with suppress(AttributeError, OSError):
        os.nice(10)
    print(json.dumps({"version": run_refit(job["store"], job["until"])}), flush=True)
    # A normal exit would wait for the thread, which still reads the input.
    os._exit(0)


def _exit_when_closed(stream: TextIO, folder: str) -> None:
    """Wait until a stream ends, then remove the folder and exit."""
    stream.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
