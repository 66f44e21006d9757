"""Save results as run folders and pages, and load run folders as results."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rewardmix._core.checks import Floats, InputError, as_path, raise_input_error
from rewardmix._core.csr_checks import CSR_ARRAYS
from rewardmix._core.short_repr import truncate_text, use_short_repr
from rewardmix._core.storage import write_atomic
from rewardmix.io import load
from rewardmix.learning import LearnResult
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.online import OnlineResult
from rewardmix.planning import Plan
from rewardmix.policy import Controller
from rewardmix.report.html_page import render_page
from rewardmix.report.report_data import (
    ReportData,
    report_data_from_fit,
    report_data_from_learn,
    report_data_from_online,
    report_data_from_plan,
)
from rewardmix.report.result_schema import check_summary
from rewardmix.report.run_folder import check_run_file, make_provenance, read_result, write_run_files
from rewardmix.report.summary import build_summary, to_fields
from rewardmix.results import ResultMixin
from rewardmix.type_profiles import describe_types

if TYPE_CHECKING:  # imported only to compare runs
    from rewardmix.logs import RunSummary


@use_short_repr
@dataclass(frozen=True, eq=False)
class SavedRun(ResultMixin):
    """Hold a run as loaded from its folder.

    Attributes:
        model: Recovered model.
        plan: Plan made for it.
        moments: Sufficient counts of the exploration episodes; ``None`` if the folder has none.
        summary_data: Content of ``result.json``.
    """

    model: RewardMixingMDP
    plan: Plan
    moments: Moments | None
    summary_data: Mapping[str, Any]

    @property
    def policy(self) -> Controller:
        """Policy of the plan."""
        return self.plan.policy

    def to_dict(self) -> Mapping[str, Any]:
        """Return the content of ``result.json``, which is everything that the page shows, as plain data."""
        return self.summary_data

    @property
    def summary_for_comparison(self) -> RunSummary:
        """Model, policy and standard errors, as ``compare_runs`` needs them."""
        from rewardmix.logs import RunSummary

        errors = _get_nested(self.summary_data, "metadata", "errors")
        rewards, weights = _to_array(_get_nested(errors, "rewards")), _to_array(_get_nested(errors, "weights"))
        if rewards.shape != self.model.rewards.shape or weights.shape != self.model.weights.shape:
            raise InputError("DIR: got standard errors of another model, expected one for each reward and weight")
        return RunSummary(self.model, self.plan.policy, rewards, weights)

    def with_type_names(self, names: Sequence[str]) -> SavedRun:
        """Return a copy with these type names; an empty sequence removes the names."""
        renamed = super().with_type_names(names)
        labels = list(renamed.model.type_labels)
        policy = self.summary_data["policy"]
        # The names occur in three fields of the summary; all must change, or the page would contradict the model.
        content = {
            **self.summary_data,
            "environment": {**self.summary_data["environment"], "type_names": labels},
            "types": [to_fields(profile) for profile in describe_types(renamed.model)],
            "policy": None if policy is None else {**policy, "type_names": labels},
        }
        return dataclasses.replace(renamed, summary_data=content)

    def __repr__(self) -> str:
        """Return title, model and verdict on one line."""
        verdict = (self.summary_data.get("verdict") or {}).get("text", "")
        return truncate_text(f"SavedRun({self.summary_data['title']!r}, {self.model!r}, {verdict})")


def load_run(folder: str | os.PathLike[str]) -> SavedRun:
    """Load the run folder that ``save`` or a command wrote.

    Args:
        folder: Path of the folder.

    Returns:
        Model, plan, moments and summary of the run.

    Raises:
        InputError: If a file is missing or unreadable, or if the files belong to different runs.
    """
    directory = as_path("path", folder)
    summary = read_result(directory)
    # The summary is checked before any other file is read, because it holds the digests of the others.
    check_summary(summary)
    paths = [check_run_file(directory, f"{name}.safetensors", summary) for name in ("model", "policy", "moments")]
    model, plan = load(paths[0]), load(paths[1])
    if not isinstance(model, RewardMixingMDP) or not isinstance(plan, Plan):
        raise InputError(
            f"DIR: got {str(directory)!r} without a model and a plan, expected a folder of rewardmix learn or fit"
        )
    if not _equal_models(model, plan.model):
        raise InputError(
            f"DIR: got {str(directory)!r} with a plan for another model, expected the files of one run; copy whole "
            "folders, or repeat the run"
        )
    moments = load(paths[2]) if paths[2].exists() else None
    # Digests describe the files of this folder; a copy saved elsewhere gets its own.
    return SavedRun(model, plan, moments, {key: value for key, value in summary.items() if key != "files"})


def _equal_models(model: RewardMixingMDP, other: RewardMixingMDP) -> bool:
    """Return whether two models are equal in everything but names."""
    arrays = ("initial", "weights", "rewards", "reward_values")
    if model.horizon != other.horizon or model.is_sparse != other.is_sparse:
        return False
    if not all(np.array_equal(getattr(model, name), getattr(other, name)) for name in arrays):
        return False
    if model.is_sparse:
        return all(
            np.array_equal(getattr(model.transition, name), getattr(other.transition, name)) for name in CSR_ARRAYS
        )
    return np.array_equal(model.transition, other.transition)


def load_run_summary(folder: str | os.PathLike[str]) -> RunSummary:
    """Load model, policy and standard errors from the folder of a run of ``learn`` or ``fit``."""
    return load_run(folder).summary_for_comparison


def make_summary(result: Any, title: str = "") -> dict[str, Any]:
    """Build the summary of the result of ``learn``, ``fit``, ``learn_online`` or ``plan``."""
    return build_summary(make_report_data(result, title))


def make_report_data(result: Any, title: str) -> ReportData:
    """Convert a result to report data."""
    if isinstance(result, LearnResult):
        return report_data_from_learn(result, title=title or "Learned policy")
    if isinstance(result, OnlineResult):
        return report_data_from_online(result, title=title or "Online learning")
    if isinstance(result, Plan):
        return report_data_from_plan(result, title=title or "Plan")
    # Imported late: the logs package loads data frame libraries, which results of ``learn`` and ``plan`` do not need.
    from rewardmix.logs import FitResult

    if not isinstance(result, FitResult):
        raise_input_error("result", type(result).__name__, "a result of learn, fit, learn_online or plan")
    return report_data_from_fit(result, title=title or "Log")


def _set_title(result: ResultMixin, title: str) -> Mapping[str, Any]:
    """Return the summary of a result with another title; the policy has a copy of the title."""
    summary = result.to_dict()
    if not title:
        return summary
    policy = summary["policy"]
    return {**summary, "title": title, "policy": None if policy is None else {**policy, "title": title}}


def save_run(result: ResultMixin, folder: str | os.PathLike[str], title: str = "") -> Path:
    """Write the run folder of a result and return its path."""
    moments = result.moments if isinstance(result, SavedRun) else make_report_data(result, title).moments
    plan: Any = getattr(result, "plan", result)
    summary = {"made": make_provenance(), **_set_title(result, title)}
    return write_run_files(as_path("folder", folder), result.model, plan, moments, summary)


def write_page(result: ResultMixin, path: str | os.PathLike[str], title: str = "") -> Path:
    """Write the page of a result to a file and return its path."""
    out = as_path("path", path)
    write_atomic(out, render_page(_set_title(result, title)).encode())
    return out


def _get_nested(summary: Any, *keys: str) -> Any:
    """Return a nested entry of a summary; raise ``InputError`` if it is missing."""
    for key in keys:
        if not isinstance(summary, dict) or key not in summary:
            raise InputError(f"DIR: got a result.json without {key!r}, expected a folder of rewardmix learn or fit")
        summary = summary[key]
    return summary


def _to_array(nested: Any) -> Floats:
    """Convert nested lists to an array; ``None`` (unknown) becomes infinity."""
    try:
        array = np.asarray(nested, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"DIR: got standard errors that are not numbers ({error}), expected result.json as rewardmix wrote it"
        ) from error
    # An unknown standard error counts as infinite: such a reward can never differ significantly.
    return np.where(np.isnan(array), np.inf, array)
