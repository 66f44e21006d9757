from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tiny_models import random_model
from oracles.brute_force import optimal_value
from rewardmix._core.checks import InputError
from rewardmix.planning import plan, plan_exact


@pytest.mark.system
@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.sampled_from([2, 3]), st.integers(0, 2**32 - 1))
def test_exact_value_is_the_optimum_over_histories(states, actions, horizon, values, seed):
    model = random_model(np.random.default_rng(seed), states, actions, horizon, values=values)
    assert plan_exact(model).value == pytest.approx(optimal_value(model), abs=1e-11)


@pytest.mark.parametrize("seed", range(12))
def test_grid_bracket_contains_the_exact_value_of_longer_models(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, 4, 2, 6, values=2 + seed % 2, corner=0.2)
    exact = plan_exact(model)
    for gap in (1e-2, 1e-4, 1e-6):
        result = plan(model, gap=gap)
        assert result.lower <= exact.value + 1e-12
        assert exact.value - 1e-12 <= result.upper
        assert result.gap <= gap


def test_chains_are_value_functions_of_later_steps_too():
    model = random_model(np.random.default_rng(5), 3, 2, 4, corner=0.0)
    exact = plan_exact(model)
    later = type(model)(model.transition, np.eye(3)[1], [0.3, 0.7], model.rewards, 2)
    assert exact.value_at(2, 1, np.array([0.3, 0.7])) == pytest.approx(optimal_value(later), abs=1e-12)


def test_exact_is_for_two_contexts():
    with pytest.raises(InputError, match=r"model: got 3 types, expected 2 types"):
        plan_exact(random_model(np.random.default_rng(0), 2, 2, 2, num_types=3))
