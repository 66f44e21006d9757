"""Kernels are cached where there is a place for them, and work where there is none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import rewardmix

CODE = """
import rewardmix
from rewardmix import draws, streams
print(rewardmix.__file__, float(draws.uniform(streams.stream(1, streams.Role.SIMULATION))))
"""


def test_a_read_only_install_without_a_home_falls_back(tmp_path):
    """Files stand where cache folders would have to be: numba finds no place, and compiles in every process."""
    shutil.copytree(
        Path(rewardmix.__file__).parent, tmp_path / "rewardmix", ignore=shutil.ignore_patterns("__pycache__")
    )
    for folder in [tmp_path / "rewardmix", *(p for p in (tmp_path / "rewardmix").rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("no folder")
    away = {
        "PYTHONPATH": str(tmp_path),
        "HOME": "/dev/null",
        "XDG_CACHE_HOME": "/dev/null",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, env={**kept, **away}, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    where, drawn = done.stdout.split()
    assert Path(where).is_relative_to(tmp_path)
    assert abs(float(drawn) - 0.9631585098364129) < 1e-15
    assert not list(tmp_path.rglob("*.nbi"))
