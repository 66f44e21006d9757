"""The folder of a run: what was learned, in files of its own, ``result.json`` with every number, and the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rewardmix._core.checks import Floats, InputError
from rewardmix._core.storage import replace
from rewardmix.io import load, save
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan
from rewardmix.report.findings import Findings
from rewardmix.report.page import page
from rewardmix.report.playable import as_json
from rewardmix.report.summary import summarise

if TYPE_CHECKING:  # only where runs are compared
    from rewardmix.logs import Run

FILES = ("model.safetensors", "policy.safetensors", "moments.safetensors", "result.json", "report.html")


def write_folder(folder: str | Path, found: Findings) -> dict[str, Any]:
    """Write what a run found into a folder, made if it is not there; the summary that ``result.json`` then holds."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for name, noun in (("model", found.model), ("policy", found.plan), ("moments", found.moments)):
        if noun is not None:
            save(target / f"{name}.safetensors", noun)
    summary = summarise(found)
    write_result(target, summary)
    write_report(target, summary)
    return summary


def write_result(folder: Path, summary: Mapping[str, Any]) -> Path:
    """Write ``result.json``: valid JSON with one line for each part of the summary."""
    lines = ",\n".join(f"{json.dumps(key)}: {as_json(value)}" for key, value in summary.items())
    replace(folder / "result.json", f"{{\n{lines}\n}}\n".encode())
    return folder / "result.json"


def read_result(folder: Path) -> dict[str, Any]:
    """The summary in ``result.json`` of a folder."""
    if not folder.is_dir():
        what = "a file" if folder.exists() else "no folder"
        raise InputError(f"DIR: found {what} {str(folder)!r}, expected a folder of rewardmix learn")
    path = folder / "result.json"
    try:
        summary = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"DIR: found no result.json in {str(folder)!r}, expected a folder of rewardmix learn"
        ) from None
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(f"DIR: found {str(path)!r} unreadable ({error}), expected JSON of rewardmix learn") from error
    if not isinstance(summary, dict):
        raise InputError(f"DIR: found a {type(summary).__name__} in {str(path)!r}, expected an object")
    return summary


def read_run(folder: str | Path) -> Run:
    """What ``compare_runs`` needs of the folder of a run of ``learn`` or ``fit``."""
    from rewardmix.logs import Run

    place = Path(folder)
    errors = _told(read_result(place), "record", "errors")
    model, plan = load(place / "model.safetensors"), load(place / "policy.safetensors")
    if not isinstance(model, RewardMixingMDP) or not isinstance(plan, Plan):
        raise InputError(f"DIR: found no model and plan in {str(place)!r}, expected a folder of rewardmix learn or fit")
    rewards, weights = _numbers(_told(errors, "rewards")), _numbers(_told(errors, "weights"))
    if rewards.shape != model.rewards.shape or weights.shape != model.weights.shape:
        raise InputError(
            f"DIR: found errors of another model in {str(place)!r}, expected one for each reward and share"
        )
    return Run(model, plan.policy, rewards, weights)


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


def write_report(folder: Path, summary: Mapping[str, Any], out: Path | None = None) -> Path:
    """Write the page of a summary: to ``report.html`` of a folder, or to ``out``."""
    target = out or folder / "report.html"
    replace(target, page(summary).encode())
    return target
