"""What is asked of ``plan``: bad requests refused by name, limits kept, and what it says about itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

from planning.tiny_models import random_model
from rewardmix._core.checks import InputError
from rewardmix.evaluation import evaluate
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import plan, planner
from rewardmix.simulation import simulate

MODEL = random_model(np.random.default_rng(11), 6, 3, 8, corner=0.0)


@pytest.mark.parametrize("gap", [0, 0.0, -1e-3, float("nan"), float("inf"), "small", None, True])
def test_gap_is_refused_by_name(gap):
    with pytest.raises(InputError, match=r"^gap: found"):
        plan(MODEL, gap=gap)


@pytest.mark.parametrize("limit", [0, 0.0, -1, float("nan"), float("inf"), "soon"])
def test_time_limit_is_refused_by_name(limit):
    with pytest.raises(InputError, match=r"^time_limit: found"):
        plan(MODEL, time_limit=limit)


def test_a_time_limit_returns_the_best_bracket_and_says_so():
    found = plan(MODEL, gap=1e-9, time_limit=1e-6)
    assert found.lower <= found.upper
    assert not found.info.converged
    assert found.info.reason == "time limit"
    assert len(found.info.rounds) == 1


def test_a_gap_below_rounding_is_not_claimed():
    found = plan(random_model(np.random.default_rng(0), 2, 2, 2), gap=1e-18)
    assert not found.info.converged
    assert found.info.reason == "rounding"
    assert 0 < found.gap < 1e-12


def test_updates_tell_of_a_shrinking_bracket():
    told = []
    found = plan(MODEL, gap=1e-5, on_update=told.append)
    assert tuple(told) == found.info.rounds
    assert [done.number for done in told] == list(range(1, len(told) + 1))
    assert all(a.lower <= b.lower <= b.upper <= a.upper for a, b in pairwise(told))
    assert told[-1].gap == found.gap <= 1e-5


def test_a_model_too_large_for_memory_gets_an_estimate(monkeypatch):
    monkeypatch.setenv("REWARDMIX_MEMORY", "1e-6")
    with pytest.raises(InputError, match=r"model: found a need of about .* GiB of memory, expected at most 1e-06 GiB"):
        plan(MODEL)


def test_memory_that_is_too_small_for_a_finer_grid_ends_planning(monkeypatch):
    monkeypatch.setattr(planner, "MEMORY", 6e6)
    found = plan(MODEL, gap=1e-10)
    assert not found.info.converged
    assert found.info.reason == "memory"
    assert found.lower <= found.upper


def test_a_large_sparse_model_is_planned_without_a_dense_matrix():
    rng = np.random.default_rng(0)
    states, actions = 20_000, 2
    columns = rng.integers(states, size=(states * actions, 2))
    rows = csr_array((np.full(columns.size, 0.5), columns.ravel(), np.arange(0, columns.size + 1, 2)))
    model = RewardMixingMDP(rows, np.full(states, 1 / states), [0.5, 0.5], rng.random((2, states, actions)), 3)
    found = plan(model, gap=1e-2)
    assert found.info.converged
    assert evaluate(found.policy, model).value == pytest.approx(found.lower, abs=1e-9)


@pytest.mark.parametrize("form", ["policy", "belief_policy"])
def test_played_episodes_earn_the_value(form):
    """A band of 5.5 standard errors misses by chance less than once in 10^7."""
    found = plan(MODEL, gap=1e-4)
    returns = simulate(getattr(found, form), MODEL, 20_000 if form == "policy" else 2_000, 1).returns
    error = returns.std(ddof=1) / np.sqrt(returns.size)
    assert found.lower - 5.5 * error <= returns.mean() <= found.upper + 5.5 * error


def test_a_controller_is_exact_in_another_model():
    found = plan(MODEL, gap=1e-3)
    other = random_model(np.random.default_rng(12), 6, 3, 8, corner=0.0)
    assert evaluate(found.policy, other).value <= plan(other, gap=1e-3).upper
