"""Kernels work with a numba that lacks any of the private parts that are listed."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

from rewardmix._core import jit, numba_parts

HIDDEN = """
import sys
from rewardmix._core import numba_parts
numba_parts.NUMBA_PARTS = tuple(piece + "_gone" if piece == sys.argv[1] else piece for piece in numba_parts.NUMBA_PARTS)
from rewardmix._core import jit
assert jit.MISSING_PARTS == (sys.argv[1] + "_gone",), jit.MISSING_PARTS
import rewardmix as rm
model = rm.problems.make_model("shop")
episodes = rm.simulate(rm.uniform_policy(model), model, 50)
print(int(episodes.states.sum()), int(episodes.reward_indices.sum()), rm.plan(model).lower.hex())
"""


def test_the_installed_numba_has_all_parts():
    assert numba_parts.find_missing_parts() == ()
    assert jit.MISSING_PARTS == ()


@pytest.mark.parametrize("part", numba_parts.NUMBA_PARTS)
def test_a_part_that_is_gone_is_noticed(part, monkeypatch):
    module, _, path = part.partition(":")
    *owners, name = path.split(".")
    owner = importlib.import_module(module)
    for inner in owners:
        owner = getattr(owner, inner)
    if name in vars(owner):
        monkeypatch.delattr(owner, name)
    else:  # inherited, or of an instance: hidden by asking for another name
        monkeypatch.setattr(
            numba_parts, "NUMBA_PARTS", tuple(other + "_gone" * (other == part) for other in numba_parts.NUMBA_PARTS)
        )
    assert [missing.removesuffix("_gone") for missing in numba_parts.find_missing_parts()] == [part]


@pytest.mark.parametrize("part", numba_parts.NUMBA_PARTS[:1])
def test_a_plan_has_the_same_bits_without_private_parts(part, tmp_path, monkeypatch):
    """In a process of its own, as numba is imported once; each part leads to the same plain kernels."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", HIDDEN, part], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    import rewardmix as rm

    model = rm.problems.make_model("shop")
    episodes = rm.simulate(rm.uniform_policy(model), model, 50)
    expected = f"{int(episodes.states.sum())} {int(episodes.reward_indices.sum())} {rm.plan(model).lower.hex()}"
    assert done.stdout.strip() == expected


@pytest.mark.parametrize("part", numba_parts.NUMBA_PARTS)
def test_kernels_are_plain_where_a_part_is_missing(part, monkeypatch):
    monkeypatch.setattr(jit, "MISSING_PARTS", (part,))

    def add_one(values, out):
        for index in range(values.size):
            out[index] = values[index] + 1.0

    for compiled in (jit.kernel(add_one), jit.lazy_jit(lambda values, out: values.size)(add_one)):
        out = np.zeros(3)
        compiled(np.arange(3.0), out)
        assert out.tolist() == [1.0, 2.0, 3.0]
        assert not isinstance(getattr(compiled, "_cache", None), jit.KernelCache)


def test_a_cache_of_another_form_is_not_marked(monkeypatch):
    monkeypatch.setattr(numba_parts, "CACHE_ATTRIBUTES", ("_cache_file_gone",))
    compiled = jit.kernel(lambda x: x + 1)
    assert not isinstance(compiled._cache, jit.KernelCache)
    assert compiled(1) == 2
