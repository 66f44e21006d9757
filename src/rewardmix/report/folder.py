"""The folder of a run: what was learned, in files of its own, ``result.json`` with every number, and the page.

The files belong together. All are completed in a folder beside before the first takes its place, so that a full disk
leaves an older run whole; and ``result.json`` has the digest of each, so that files of two runs are not taken for one,
should something end the process while they change places.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rewardmix._core.checks import InputError
from rewardmix._core.storage import replace
from rewardmix.io import save
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.planning import Plan
from rewardmix.report.findings import Findings
from rewardmix.report.page import page
from rewardmix.report.playable import as_json
from rewardmix.report.summary import summarise

FILES = ("model.safetensors", "policy.safetensors", "moments.safetensors", "result.json", "report.html")


def write_folder(folder: str | Path, found: Findings) -> dict[str, Any]:
    """Write what a run found into a folder, made if it is not there; the summary that ``result.json`` then holds."""
    summary = {**summarise(found), "made": made_now()}
    write_parts(Path(folder), found.model, found.plan, found.moments, summary)
    return summary


def write_parts(
    folder: Path, model: RewardMixingMDP, plan: Plan, moments: Moments | None, summary: Mapping[str, Any]
) -> Path:
    """Write the files of a run, all or none of them; those of an earlier run in the folder go."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".", suffix=".part") as place:
            beside = Path(place)
            for name, noun in (("model", model), ("policy", plan), ("moments", moments)):
                if noun is not None:
                    save(beside / f"{name}.safetensors", noun)
            digests = {path.name: digest(path) for path in sorted(beside.iterdir())}
            told = {**summary, "files": digests}
            write_result(beside, told)
            write_report(beside, told)
            for name in FILES:
                if (beside / name).exists():
                    os.replace(beside / name, folder / name)
                else:
                    (folder / name).unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error.filename, str):  # of a file in the folder beside: say what it was to become
            name = Path(error.filename).name
            error.filename = str(folder / name if name in FILES else folder)
        raise
    return folder


def digest(path: Path) -> str:
    """What tells the content of a file from any other."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def check_part(folder: Path, name: str, summary: Mapping[str, Any] | None = None) -> Path:
    """The path of a file of a run, refused where ``result.json`` says that another one belongs to it.

    Runs of earlier versions have no digests, and are taken as they are. ``summary``: what is in ``result.json``.
    """
    path = folder / name
    if summary is None:
        summary = read_result(folder) if (folder / "result.json").exists() else {}
    digests = summary.get("files")
    if digests is None:
        return path
    if not isinstance(digests, dict):
        raise InputError(f"DIR: found files that are no object in {str(folder / 'result.json')!r}, expected digests")
    if path.exists() != (name in digests) or (path.exists() and digest(path) != digests[name]):
        what = "that is not of the run" if path.exists() else "missing"
        raise InputError(
            f"DIR: found {str(path)!r} {what} in its result.json, expected the files of one run together; "
            "copy whole folders, or make the run again"
        )
    return path


def made_now() -> dict[str, Any]:
    """When and with what a run was made: for people, no part of what was found."""
    packages = ("numpy", "scipy", "numba", "highspy", "gymnasium")
    versions = {"Python": platform.python_version(), **{name: metadata.version(name) for name in packages}}
    return {"date": datetime.now(UTC).date().isoformat(), "versions": versions}


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


def write_report(folder: Path, summary: Mapping[str, Any], out: Path | None = None) -> Path:
    """Write the page of a summary: to ``report.html`` of a folder, or to ``out``."""
    target = out or folder / "report.html"
    replace(target, page(summary).encode())
    return target
