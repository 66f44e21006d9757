"""Limits on the work of planning: kept, the same wherever it runs, and named."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import rewardmix
from helpers.tiny_models import random_model
from rewardmix._core.checks import InputError
from rewardmix.io import save
from rewardmix.planning import default_max_operations, plan, planner
from rewardmix.planning.planner import SweepResult, _make_sweeper, make_request, next_resolution, refine_bracket

MODEL = random_model(np.random.default_rng(11), 6, 3, 8, corner=0.0)
MANY = random_model(np.random.default_rng(3), 4, 2, 6, num_types=5, corner=0.0)


class Counted:
    """A sweeper whose passes take resolution ** 2 steps, and whose gap is 1 / resolution."""

    first_resolution, max_resolution, resolution_growth = 10, 100_000, 2

    def __init__(self, room=1.0):
        self.made, self.room = [], room

    def estimate_bytes(self, resolution):
        return self.room * resolution

    def estimate_operations(self, resolution):
        return float(resolution**2)

    def sweep(self, resolution, deadline):
        self.made.append(resolution)
        return SweepResult(-1.0 / resolution, 0.0, resolution, False, 0.0, lambda: None)


@pytest.mark.parametrize("limit", [1.0, *np.geomspace(150.0, 7.7e6, 40)])
def test_passes_stay_within_the_limit_and_use_most_of_it(limit):
    """Only the first pass may be beyond it; and what is left is less than a pass that is a quarter finer."""
    sweeper = Counted()
    *_, info = refine_bracket(sweeper, make_request(1e-9, limit, None, None))
    spent = sum(sweeper.estimate_operations(made) for made in sweeper.made)
    assert spent <= limit or sweeper.made == [10]
    assert spent + sweeper.estimate_operations(int(np.ceil(1.25 * sweeper.made[-1]))) > limit
    assert info.stop_reason == "operation limit"
    assert not info.converged


def test_without_a_limit_the_finest_grid_is_the_end():
    sweeper = Counted()
    *_, info = refine_bracket(sweeper, make_request(1e-9, None, None, None))
    assert sweeper.made[-1] == sweeper.max_resolution
    assert info.stop_reason == "finest grid"


def test_memory_has_a_limit_that_is_no_matter_of_the_machine(monkeypatch):
    """The finest pass is the one that the constant allows, whatever the machine has."""
    monkeypatch.setattr(os, "sysconf", lambda name: pytest.fail(f"asked the machine for {name}"))
    sweeper = Counted(room=planner.MAX_SWEEP_BYTES / 5000)
    *_, info = refine_bracket(sweeper, make_request(1e-9, None, None, None))
    assert info.stop_reason == "memory"
    assert 4000 < sweeper.made[-1] <= 5000


@pytest.mark.parametrize(("model", "limit"), [(MODEL, 2e6), (MANY, 2e8)], ids=["two contexts", "five contexts"])
def test_the_same_limit_gives_the_same_file_however_slow_the_clock(model, limit, tmp_path, monkeypatch):
    save(tmp_path / "one", plan(model, gap=1e-9, max_operations=limit))
    ticks = iter(range(10**9))
    monkeypatch.setattr(planner.time, "perf_counter", lambda: 3600.0 * next(ticks))
    result = plan(model, gap=1e-9, max_operations=limit)
    save(tmp_path / "two", result)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert result.info.stop_reason == "operation limit"
    assert len(result.info.rounds) > 1


@pytest.mark.system
@pytest.mark.parametrize("num_types", [2, 3, 4, 6])
def test_more_work_narrows_the_bracket(num_types):
    model = random_model(np.random.default_rng(num_types), 4, 2, 6, num_types=num_types, corner=0.0)
    little, much = (plan(model, gap=1e-12, max_operations=limit) for limit in (1e5, 2e8))
    assert much.gap < little.gap
    assert little.lower <= much.upper
    assert much.lower <= little.upper


@pytest.mark.parametrize("num_types", [2, 3, 4, 5])
def test_the_work_of_a_pass_grows_with_its_size(num_types):
    """As resolution ** growth, and with the horizon, the actions and the entries of T."""
    small = random_model(np.random.default_rng(1), 4, 2, 6, num_types=num_types, corner=0.0)
    long = random_model(np.random.default_rng(1), 4, 2, 12, num_types=num_types, corner=0.0)
    sweeper, longer = _make_sweeper(small), _make_sweeper(long)
    max_ratio = 2 if num_types == 2 else 4  # the lattices of early steps are small, those of late ones large
    assert 2 <= longer.estimate_operations(200) / sweeper.estimate_operations(200) <= max_ratio
    grown = sweeper.estimate_operations(400) / sweeper.estimate_operations(200)
    assert 0.7 * 2**sweeper.resolution_growth < grown < 1.4 * 2**sweeper.resolution_growth


def test_actions_that_were_dropped_cost_nothing():
    sweeper = _make_sweeper(MODEL)
    before = sweeper.estimate_operations(64)
    sweeper.sweep(64, float("inf"))
    assert sweeper.estimate_operations(64) == pytest.approx(before * sweeper.active.mean())
    assert sweeper.estimate_operations(64) < before


def test_the_usual_work_grows_with_large_models_only(monkeypatch):
    assert default_max_operations(MODEL) == planner.DEFAULT_OPERATIONS
    monkeypatch.setattr(planner, "DEFAULT_OPERATIONS", 1.0)
    cells = MODEL.horizon * (6 * 3 * MODEL.num_values + 6 * 3 * 6)
    assert default_max_operations(MODEL) == planner.OPERATIONS_PER_CELL * cells


def test_nothing_inside_plans_by_the_clock():
    """Seconds are for those who ask ``plan`` itself for them."""
    source = Path(rewardmix.__file__).parent
    asking = [path.relative_to(source) for path in source.rglob("*.py") if "max_seconds" in path.read_text("utf-8")]
    assert {path.as_posix() for path in asking if path.parts[0] != "planning"} == {"cli/model_commands.py"}


@pytest.mark.parametrize("limit", [0, 0.0, -1, float("nan"), float("inf"), "little", True])
def test_a_work_limit_is_refused_by_name(limit):
    with pytest.raises(InputError, match=r"^max_operations: got"):
        plan(MODEL, max_operations=limit)


def test_the_next_resolution_follows_the_law_that_was_seen():
    square = [(24, 1e-2), (96, 1e-2 / 16)]
    assert next_resolution(square, 1e-2 / 64, 1) == pytest.approx(96 * 2 * 1.06, abs=1)
    assert next_resolution(square, 1e-12, 1) == 96 * 12
    assert next_resolution(square[:1], 1e-12, 1) == 96
