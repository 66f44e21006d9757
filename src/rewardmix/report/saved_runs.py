"""Whole runs, kept and read again: results as folders and pages, and folders as results."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rewardmix._core.brevity import cut, short
from rewardmix._core.checks import Floats, InputError, as_path, refuse
from rewardmix._core.sparse_rows import ROW_PARTS
from rewardmix._core.storage import replace
from rewardmix.io import load
from rewardmix.learning import Learned
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.online import Earned
from rewardmix.planning import Plan
from rewardmix.policy import Controller
from rewardmix.profiles import type_profiles
from rewardmix.report.findings import Findings, earned_findings, fitted_findings, learned_findings, planned_findings
from rewardmix.report.folder import check_part, made_now, read_result, write_parts
from rewardmix.report.page import page
from rewardmix.report.result_schema import check_summary
from rewardmix.report.summary import summarise, told
from rewardmix.telling import Telling

if TYPE_CHECKING:  # only where runs are compared
    from rewardmix.logs import Run


@short
@dataclass(frozen=True, eq=False)
class SavedRun(Telling):
    """A run as its folder holds it.

    Attributes:
        model: as recovered.
        plan: made for it.
        moments: what exploration counted, if it was kept.
        content: of ``result.json``.
    """

    model: RewardMixingMDP
    plan: Plan
    moments: Moments | None
    content: Mapping[str, Any]

    @property
    def policy(self) -> Controller:
        """What to play."""
        return self.plan.policy

    @property
    def result(self) -> Mapping[str, Any]:
        """All that the page shows, as plain data."""
        return self.content

    @property
    def run(self) -> Run:
        """What ``compare_runs`` needs of it."""
        from rewardmix.logs import Run

        errors = _told(self.content, "record", "errors")
        rewards, weights = _numbers(_told(errors, "rewards")), _numbers(_told(errors, "weights"))
        if rewards.shape != self.model.rewards.shape or weights.shape != self.model.weights.shape:
            raise InputError("DIR: found errors of another model, expected one for each reward and share")
        return Run(self.model, self.plan.policy, rewards, weights)

    def named(self, names: Sequence[str]) -> SavedRun:
        """The same with names for its types; none takes them away."""
        other = super().named(names)
        labels = list(other.model.type_labels)
        session = self.content["session"]
        content = {
            **self.content,
            "world": {**self.content["world"], "context_names": labels},
            "types": [told(profile) for profile in type_profiles(other.model)],
            "session": None if session is None else {**session, "context_names": labels},
        }
        return dataclasses.replace(other, content=content)

    def __repr__(self) -> str:
        said = (self.content.get("verdict") or {}).get("sentence", "")
        return cut(f"SavedRun({self.content['title']!r}, {self.model!r}, {said})")


def load_run(folder: str | os.PathLike[str]) -> SavedRun:
    """What ``save``, or the command line, wrote into a folder."""
    place = as_path("path", folder)
    content = read_result(place)
    check_summary(content)
    paths = [check_part(place, f"{name}.safetensors", content) for name in ("model", "policy", "moments")]
    model, plan = load(paths[0]), load(paths[1])
    if not isinstance(model, RewardMixingMDP) or not isinstance(plan, Plan):
        raise InputError(f"DIR: found no model and plan in {str(place)!r}, expected a folder of rewardmix learn or fit")
    if not _same_world(model, plan.model):
        raise InputError(
            f"DIR: found a plan for another model than the one beside it in {str(place)!r}, expected the files of one "
            "run together; copy whole folders, or make the run again"
        )
    moments = load(paths[2]) if paths[2].exists() else None
    return SavedRun(model, plan, moments, {key: value for key, value in content.items() if key != "files"})


def _same_world(one: RewardMixingMDP, other: RewardMixingMDP) -> bool:
    """Whether two models are the same but for names."""
    parts = ("initial", "weights", "rewards", "reward_values")
    if one.horizon != other.horizon or one.is_sparse != other.is_sparse:
        return False
    if not all(np.array_equal(getattr(one, name), getattr(other, name)) for name in parts):
        return False
    if one.is_sparse:
        return all(np.array_equal(getattr(one.transition, name), getattr(other.transition, name)) for name in ROW_PARTS)
    return np.array_equal(one.transition, other.transition)


def read_run(folder: str | os.PathLike[str]) -> Run:
    """What ``compare_runs`` needs of the folder of a run of ``learn`` or ``fit``."""
    return load_run(folder).run


def result_of(noun: Any, title: str = "") -> dict[str, Any]:
    """The summary of what ``learn``, ``fit``, ``earn`` or ``plan`` returned."""
    return summarise(findings_of(noun, title))


def findings_of(noun: Any, title: str) -> Findings:
    """What a result found, for its report."""
    if isinstance(noun, Learned):
        return learned_findings(noun, title=title or "Learned")
    if isinstance(noun, Earned):
        return earned_findings(noun, title=title or "Earned")
    if isinstance(noun, Plan):
        return planned_findings(noun, title=title or "Planned")
    from rewardmix.logs import Fitted

    if not isinstance(noun, Fitted):
        refuse("result", type(noun).__name__, "what learn, fit, earn or plan returned")
    return fitted_findings(noun, title=title or "Log")


def _titled(noun: Telling, title: str) -> Mapping[str, Any]:
    """What a result tells, under another title."""
    if not title:
        return noun.result
    session = noun.result["session"]
    return {**noun.result, "title": title, "session": None if session is None else {**session, "title": title}}


def save_run(noun: Telling, folder: str | os.PathLike[str], title: str = "") -> Path:
    """Write the folder of a result."""
    moments = noun.moments if isinstance(noun, SavedRun) else findings_of(noun, title).moments
    plan: Any = getattr(noun, "plan", noun)
    summary = {"made": made_now(), **_titled(noun, title)}
    return write_parts(as_path("folder", folder), noun.model, plan, moments, summary)


def write_page(noun: Telling, path: str | os.PathLike[str], title: str = "") -> Path:
    """Write the page of a result."""
    target = as_path("path", path)
    replace(target, page(_titled(noun, title)).encode())
    return target


def _told(summary: Any, *keys: str) -> Any:
    """A part of what a run tells."""
    for key in keys:
        if not isinstance(summary, dict) or key not in summary:
            found = f"no {key!r} in result.json, which an earlier version wrote or which is of another kind of run"
            raise InputError(f"DIR: found {found}, expected a folder of rewardmix learn or fit")
        summary = summary[key]
    return summary


def _numbers(nested: Any) -> Floats:
    """Nested lists as an array, infinite where nothing is known."""
    try:
        found = np.asarray(nested, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"DIR: found errors that are no numbers ({error}), expected a result.json as written"
        ) from error
    return np.where(np.isnan(found), np.inf, found)
