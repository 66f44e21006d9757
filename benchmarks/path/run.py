"""The path of somebody new, as written: README, ``make demo``, the tutorial, a model and a log of one's own.

python -m benchmarks.path.run [--quick]

The last commit is cloned into an empty folder, with an empty home and no caches; nothing of this environment is used
but the package index that pip is set to. Every code block of the pages is run and compared with the output shown.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.record import record, table

ROOT = Path(__file__).parents[2]
LIMIT = 300.0
"""Seconds that a step may take."""

KEPT = re.compile(r"PIP_|SSL_|REQUESTS_|PYENV_|LANG$")
"""Variables that say where packages come from, and nothing about this project."""

BLOCKS = ".venv/bin/python tests/document_blocks.py --check"
STEPS = (
    ("make demo", "make demo"),
    ("README.md", f"{BLOCKS} README.md"),
    ("docs/tutorial.md", f"{BLOCKS} docs/tutorial.md"),
    ("docs/howto/own-model.md", f"{BLOCKS} docs/howto/own-model.md"),
    (
        "docs/howto/own-logs.md",
        f". .venv/bin/activate && pip install -q 'rewardmix[logs]' && {BLOCKS} docs/howto/own-logs.md",
    ),
)


def surroundings(home: Path) -> dict[str, str]:
    """What a new user's shell has: a home with nothing in it but the address of the package index."""
    given = Path(os.environ.get("PIP_CONFIG_FILE", Path.home() / ".config/pip/pip.conf"))
    if given.is_file():
        (home / ".config/pip").mkdir(parents=True)
        shutil.copy(given, home / ".config/pip/pip.conf")
    here = os.environ.get("VIRTUAL_ENV", sys.prefix)
    path = [folder for folder in os.environ["PATH"].split(os.pathsep) if not folder.startswith(here)]
    kept = {name: value for name, value in os.environ.items() if KEPT.match(name)}
    return {**kept, "HOME": str(home), "PATH": os.pathsep.join(path), "TERM": "dumb", "PIP_NO_CACHE_DIR": "1"}


def walk(clone: Path, variables: dict[str, str]) -> list[dict[str, Any]]:
    """Every step in turn, until one fails."""
    rows: list[dict[str, Any]] = []
    for name, command in STEPS:
        began = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", command], cwd=clone, env=variables, capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - began
        rows.append({"step": name, "seconds": round(seconds, 1), "passed": done.returncode == 0})
        print(f"{name}: {'passed' if rows[-1]['passed'] else 'FAILED'} in {seconds:.0f} s", flush=True)
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-2000:])
            break
    return rows


def main() -> None:
    """Clone, walk, and say whether each step was short enough."""
    if "--quick" in sys.argv:
        print("nothing to do quickly: the whole path takes minutes and needs a package index")
        return
    with tempfile.TemporaryDirectory() as top:
        clone, home = Path(top) / "clone", Path(top) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        rows = walk(clone, surroundings(home))
    table(["step", "seconds", "of the limit"], [[r["step"], r["seconds"], f"{r['seconds'] / LIMIT:.2f}"] for r in rows])
    whole = len(rows) == len(STEPS) and all(row["passed"] and row["seconds"] < LIMIT for row in rows)
    record("path", "steps", rows)
    sys.exit(not whole)


if __name__ == "__main__":
    main()
