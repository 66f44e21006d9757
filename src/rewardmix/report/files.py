"""The files of a run that people open: ``result.json`` and ``report.html``, written in one step each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewardmix._core.checks import InputError
from rewardmix._core.storage import replace
from rewardmix.report.page import page
from rewardmix.report.playable import as_json

RESULT = "result.json"
REPORT = "report.html"


def write_result(folder: Path, summary: Mapping[str, Any]) -> Path:
    """Write ``result.json``: valid JSON with one line for each part of the summary."""
    lines = ",\n".join(f"{json.dumps(key)}: {as_json(value)}" for key, value in summary.items())
    replace(folder / RESULT, f"{{\n{lines}\n}}\n".encode())
    return folder / RESULT


def read_result(folder: Path) -> dict[str, Any]:
    """The summary in ``result.json`` of a folder."""
    if not folder.is_dir():
        what = "a file" if folder.exists() else "no folder"
        raise InputError(f"DIR: found {what} {str(folder)!r}, expected a folder of rewardmix learn")
    path = folder / RESULT
    try:
        summary = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"DIR: found no {RESULT} in {str(folder)!r}, expected a folder of rewardmix learn") from None
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(f"DIR: found {str(path)!r} unreadable ({error}), expected JSON of rewardmix learn") from error
    if not isinstance(summary, dict):
        raise InputError(f"DIR: found a {type(summary).__name__} in {str(path)!r}, expected an object")
    return summary


def write_report(folder: Path, summary: Mapping[str, Any], out: Path | None = None) -> Path:
    """Write the page of a summary: to ``report.html`` of a folder, or to ``out``."""
    target = out or folder / REPORT
    replace(target, page(summary).encode())
    return target
