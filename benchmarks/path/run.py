"""Walk the path of a new user as written: README, ``make demo``, the tutorial, a model and a log.

python -m benchmarks.path.run [--quick]

The last commit is cloned into an empty folder, with an empty home and no caches. Of this environment only the package
index of pip is used. Every code block of the pages is run and compared with the output shown.
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
"""Limit of a step in seconds."""

COPIED_VARIABLES = re.compile(r"PIP_|SSL_|REQUESTS_|PYENV_|LANG$")
"""Environment variables that are copied: where packages come from."""

BLOCKS = ".venv/bin/python tests/documents/document_blocks.py --check"
STEPS = (
    ("make demo", "make demo"),
    ("README.md", f"{BLOCKS} README.md"),
    ("docs/getting-started/tutorial.md", f"{BLOCKS} docs/getting-started/tutorial.md"),
    ("docs/howto/plan-a-model.md", f"{BLOCKS} docs/howto/plan-a-model.md"),
    (
        "docs/howto/learn-from-logs.md",
        f". .venv/bin/activate && pip install -q 'rewardmix[logs]' && {BLOCKS} docs/howto/learn-from-logs.md",
    ),
)


def make_environment(home: Path) -> dict[str, str]:
    """Make the environment variables of a new user, whose home only has the configuration of pip."""
    config = Path(os.environ.get("PIP_CONFIG_FILE", Path.home() / ".config/pip/pip.conf"))
    if config.is_file():
        (home / ".config/pip").mkdir(parents=True)
        shutil.copy(config, home / ".config/pip/pip.conf")
    venv = os.environ.get("VIRTUAL_ENV", sys.prefix)
    path = [folder for folder in os.environ["PATH"].split(os.pathsep) if not folder.startswith(venv)]
    copied = {name: value for name, value in os.environ.items() if COPIED_VARIABLES.match(name)}
    return {**copied, "HOME": str(home), "PATH": os.pathsep.join(path), "TERM": "dumb", "PIP_NO_CACHE_DIR": "1"}


def walk(clone: Path, variables: dict[str, str]) -> list[dict[str, Any]]:
    """Run the steps in order until one fails; return a row for each."""
    rows: list[dict[str, Any]] = []
    for name, command in STEPS:
        start_time = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", command], cwd=clone, env=variables, capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - start_time
        rows.append({"step": name, "seconds": round(seconds, 1), "passed": done.returncode == 0})
        print(f"{name}: {'passed' if rows[-1]['passed'] else 'FAILED'} in {seconds:.0f} s", flush=True)
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-2000:])
            break
    return rows


def main() -> None:
    """Clone, walk, and record whether each step passed within the limit."""
    if "--quick" in sys.argv:
        print("nothing to do quickly: the whole path takes minutes and needs a package index")
        return
    with tempfile.TemporaryDirectory() as top:
        clone, home = Path(top) / "clone", Path(top) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        rows = walk(clone, make_environment(home))
    table(["step", "seconds", "of the limit"], [[r["step"], r["seconds"], f"{r['seconds'] / LIMIT:.2f}"] for r in rows])
    passed = len(rows) == len(STEPS) and all(row["passed"] and row["seconds"] < LIMIT for row in rows)
    record("path", "steps", rows)
    sys.exit(not passed)


if __name__ == "__main__":
    main()
