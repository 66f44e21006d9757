"""Three and more contexts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import best_value, policy_value
from planning.tiny_models import random_model
from rewardmix.evaluation import evaluate
from rewardmix.planning import Plan, plan
from rewardmix.planning.grid import Box, GridSweeper
from rewardmix.planning.planner import refine, request
from rewardmix.planning.points import PointSweeper


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 3),
    st.sampled_from([3, 4, 5]),
    st.sampled_from([2, 3]),
    st.integers(0, 2**32 - 1),
)
def test_bracket_contains_the_optimum(states, actions, horizon, contexts, values, seed):
    model = random_model(np.random.default_rng(seed), states, actions, horizon, contexts=contexts, values=values)
    found = plan(model, gap=1e-4)
    optimum = best_value(model)
    assert found.lower <= optimum <= found.upper
    assert found.info.converged == (found.gap <= 1e-4)
    assert policy_value(found.policy, model) == pytest.approx(found.lower, abs=1e-11)


@pytest.mark.parametrize("seed", range(40))
def test_product_grid_brackets_and_converges(seed):
    contexts = 3 + (seed % 4 == 1) + (seed % 8 == 1)
    model = random_model(np.random.default_rng(seed), 2, 2, 4, contexts=contexts, values=2 + (seed % 3 == 0))
    gap = {3: 1e-3, 4: 3e-3, 5: 3e-2}[contexts]
    policy, lower, upper, info = refine(GridSweeper(model, Box(model)), request(gap, None, None, None))
    assert lower <= best_value(model) <= upper
    assert info.converged
    assert upper - lower <= gap
    assert evaluate(policy, model).value == pytest.approx(lower, abs=1e-11)


@pytest.mark.parametrize("contexts", [3, 4, 6])
def test_sampled_points_bracket_and_shrink(contexts):
    model = random_model(np.random.default_rng(contexts), 3, 2, 4, contexts=contexts, corner=0.0)
    sweeper = PointSweeper(model, None)
    sweeper.largest = 300
    found = Plan(*refine(sweeper, request(1e-6, None, None, None)), model)
    assert found.lower <= best_value(model) <= found.upper
    gaps = [done.gap for done in found.info.rounds]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < gaps[0] / 3
    assert found.info.converged == (found.gap <= 1e-6)
    assert evaluate(found.policy, model).value == pytest.approx(found.lower, abs=1e-11)


def test_contexts_that_are_copies_of_two_are_worth_what_two_are():
    two = random_model(np.random.default_rng(2), 3, 2, 5, corner=0.0)
    copies = np.array([0, 1, 0, 1])
    four = type(two)(two.transition, two.initial, two.weights[copies] / 2, two.rewards[copies], 5)
    narrow, found = plan(two, gap=1e-6), plan(four, gap=1e-3)
    assert found.lower <= narrow.upper
    assert narrow.lower <= found.upper
