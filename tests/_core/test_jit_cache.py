"""Kernels are cached where there is a place for them, and work where there is none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numba
import numpy as np

import rewardmix
from rewardmix._core.jit import KernelCache, fingerprint, kernel, tuple_field_names

CODE = """
import rewardmix
from rewardmix._core import random_streams, xoshiro
print(rewardmix.__file__, float(xoshiro.uniform_draw(random_streams.kernel_stream(1, random_streams.Role.SIMULATION))))
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
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, **away},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    where, number = done.stdout.split()
    assert Path(where).is_relative_to(tmp_path)
    assert abs(float(number) - 0.9631585098364129) < 1e-15
    assert not list(tmp_path.rglob("*.nbi"))


EDITED = """
from rewardmix import problems, simulate, uniform_policy
model = problems.make_model("shop")
log = simulate(uniform_policy(model), model, 200)
print(log.states.sum(), log.reward_indices.sum())
"""


def test_machine_code_follows_edits_of_other_files(tmp_path):
    """The stream's kernel is in another file than those that draw; so is a constant."""
    package = tmp_path / "rewardmix"
    shutil.copytree(Path(rewardmix.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def played():
        done = subprocess.run(
            [sys.executable, "-c", EDITED], capture_output=True, text=True, check=False, env=env, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    before = played()
    files = {path.name for path in (tmp_path / "cache").rglob("*.nb?")}
    xoshiro = package / "_core" / "xoshiro.py"
    original = xoshiro.read_text(encoding="utf-8")
    assert "<< np.uint64(23)" in original
    xoshiro.write_text(original.replace("<< np.uint64(23)", "<< np.uint64(24)"), encoding="utf-8")
    changed = played()
    assert changed != before
    xoshiro.write_text(original.replace("1.0 / (1 << 53)", "0.5 / (1 << 53)"), encoding="utf-8")
    assert played() not in (before, changed)
    xoshiro.write_text(original, encoding="utf-8")
    assert played() == before
    assert {path.name for path in (tmp_path / "cache").rglob("*.nb?")} == files  # written over, not beside


def test_the_mark_of_a_kernel_is_that_of_all_it_is_made_of():
    space = {"kernel": kernel, "SIZE": 3}
    exec("@kernel\ndef inner(x):\n    return x + SIZE\n@kernel\ndef outer(x):\n    return inner(x) * 2", space)
    mark = fingerprint(space["outer"].py_func)
    assert fingerprint(space["outer"].py_func) == mark
    space["SIZE"] = 4
    assert fingerprint(space["outer"].py_func) != mark
    space["SIZE"] = 3
    exec("@kernel\ndef inner(x):\n    return x - SIZE", space)
    assert fingerprint(space["outer"].py_func) != mark


def test_code_for_named_tuples_is_known_by_their_fields():
    """In another order the same arrays would be read as others, and beyond their ends."""
    first, other = (NamedTuple("Pair", [(name, object) for name in names]) for names in (("a", "b"), ("b", "a")))
    arrays = np.zeros(3), np.zeros(3)
    kinds = [(numba.typeof((make(*arrays), 1)),) for make in (first, first, other)]
    assert tuple_field_names(kinds[0]) == ((), ("a", "b"))
    assert tuple_field_names(kinds[2]) == ((), ("b", "a"))
    cache, codegen = KernelCache(lambda pair: pair), SimpleNamespace(magic_tuple=lambda: ())
    same, again, unlike = (cache._index_key(kind, codegen)[1:] for kind in kinds)
    assert same == again != unlike
