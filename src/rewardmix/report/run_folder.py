"""Write the run folder: model, policy and moments as files, ``result.json`` with all numbers, and the page.

All files are completed in a temporary folder before the first replaces an old one, so a full disk leaves an older run
intact. ``result.json`` holds the digest of each other file. If the process ends while files are replaced, the digests
show that the folder mixes two runs.
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
from rewardmix._core.storage import write_atomic
from rewardmix.io import save
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.planning import Plan
from rewardmix.report.html_page import render_page
from rewardmix.report.policy_json import to_json
from rewardmix.report.report_data import ReportData
from rewardmix.report.summary import build_summary

FILES = ("model.safetensors", "policy.safetensors", "moments.safetensors", "result.json", "report.html")


def write_run(folder: str | Path, data: ReportData) -> dict[str, Any]:
    """Write report data to a run folder, created if necessary, and return the content of ``result.json``."""
    summary = {**build_summary(data), "made": make_provenance()}
    write_run_files(Path(folder), data.model, data.plan, data.moments, summary)
    return summary


def write_run_files(
    folder: Path, model: RewardMixingMDP, plan: Plan, moments: Moments | None, summary: Mapping[str, Any]
) -> Path:
    """Write the files of a run, all or none; files of an earlier run in the folder are replaced or removed."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        # Inside the target folder, because ``os.replace`` is atomic only within one file system.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".", suffix=".part") as temporary_name:
            temporary_folder = Path(temporary_name)
            for name, content in (("model", model), ("policy", plan), ("moments", moments)):
                if content is not None:
                    save(temporary_folder / f"{name}.safetensors", content)
            # Computed before ``result.json`` and the page exist, so that they cover model, policy and moments only.
            digests = {path.name: digest(path) for path in sorted(temporary_folder.iterdir())}
            full_summary = {**summary, "files": digests}
            write_result(temporary_folder, full_summary)
            write_report(temporary_folder, full_summary)
            for name in FILES:
                if (temporary_folder / name).exists():
                    os.replace(temporary_folder / name, folder / name)
                else:
                    (folder / name).unlink(missing_ok=True)
    except OSError as error:
        # The error names a file of the temporary folder, which no longer exists; name the file that it was to become.
        if isinstance(error.filename, str):
            name = Path(error.filename).name
            error.filename = str(folder / name if name in FILES else folder)
        raise
    return folder


def digest(path: Path) -> str:
    """Compute the SHA-256 digest of a file."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def check_run_file(folder: Path, name: str, summary: Mapping[str, Any] | None = None) -> Path:
    """Return the path of a file of a run; raise ``InputError`` if its digest differs from ``result.json``.

    A ``result.json`` without digests is not checked. ``summary`` is the content of ``result.json`` if it
    was read.
    """
    path = folder / name
    if summary is None:
        summary = read_result(folder) if (folder / "result.json").exists() else {}
    digests = summary.get("files")
    if digests is None:
        return path
    if not isinstance(digests, dict):
        raise InputError(
            f"DIR: got {str(folder / 'result.json')!r} with invalid 'files', expected an object of digests"
        )
    if path.exists() != (name in digests) or (path.exists() and digest(path) != digests[name]):
        problem = "of another run than result.json" if path.exists() else "missing, though result.json lists it"
        raise InputError(
            f"DIR: got {str(path)!r} {problem}, expected the files of one run; copy whole folders, or repeat the run"
        )
    return path


def make_provenance() -> dict[str, Any]:
    """Return date and package versions of a run, for display only."""
    packages = ("numpy", "scipy", "numba", "highspy", "gymnasium")
    versions = {"Python": platform.python_version(), **{name: metadata.version(name) for name in packages}}
    return {"date": datetime.now(UTC).date().isoformat(), "versions": versions}


def write_result(folder: Path, summary: Mapping[str, Any]) -> Path:
    """Write ``result.json`` with one line for each field of the summary."""
    # One field per line keeps text differences between two runs readable.
    lines = ",\n".join(f"{json.dumps(key)}: {to_json(value)}" for key, value in summary.items())
    write_atomic(folder / "result.json", f"{{\n{lines}\n}}\n".encode())
    return folder / "result.json"


def read_result(folder: Path) -> dict[str, Any]:
    """Read the summary in ``result.json`` of a folder.

    Args:
        folder: Run folder.

    Returns:
        The decoded object; ``check_summary`` is not applied.

    Raises:
        InputError: If there is no such folder or file, or if it is not a JSON object.
    """
    if not folder.is_dir():
        problem = "a file" if folder.exists() else "a missing folder"
        raise InputError(f"DIR: got {problem}, {str(folder)!r}, expected a folder of rewardmix learn")
    path = folder / "result.json"
    try:
        summary = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"DIR: got {str(folder)!r} without result.json, expected a folder of rewardmix learn"
        ) from None
    # Deeply nested JSON raises ``RecursionError``, and bad UTF-8 or bad JSON are kinds of ``ValueError``.
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(f"DIR: got unreadable {str(path)!r} ({error}), expected JSON of rewardmix learn") from error
    if not isinstance(summary, dict):
        raise InputError(f"DIR: got a {type(summary).__name__} in {str(path)!r}, expected an object")
    return summary


def write_report(folder: Path, summary: Mapping[str, Any], out: Path | None = None) -> Path:
    """Render the page of a summary.

    Args:
        folder: Run folder.
        summary: Summary of the run.
        out: File to write; ``None`` writes ``report.html`` in the folder.

    Returns:
        Path of the written file.
    """
    target = out or folder / "report.html"
    write_atomic(target, render_page(summary).encode())
    return target
