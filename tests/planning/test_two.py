from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import best_value, policy_value
from planning.tiny_models import random_model
from rewardmix import problems
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import plan

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.sampled_from([2, 2, 3]))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_bracket_contains_the_optimum_of_all_history_policies(shape, seed):
    states, actions, horizon, values = shape
    horizon = min(horizon, 3) if states * actions * values > 12 else horizon
    model = random_model(np.random.default_rng(seed), states, actions, horizon, values=values)
    found = plan(model, gap=1e-5)
    optimum = best_value(model)
    assert found.lower <= optimum <= found.upper
    assert found.info.converged
    assert found.upper - found.lower <= 1e-5


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_lower_bound_is_what_both_forms_of_the_policy_earn(shape, seed):
    states, actions, horizon, values = shape
    horizon = min(horizon, 3)
    model = random_model(np.random.default_rng(seed), states, actions, horizon, values=values)
    found = plan(model, gap=1e-2)
    earned = policy_value(found.policy, model)
    assert found.lower <= earned + 1e-13
    assert earned == pytest.approx(found.lower, abs=1e-11)
    assert policy_value(found.belief_policy, model) >= earned - 1e-11


def test_a_coarse_gap_still_brackets_a_longer_model():
    model = random_model(np.random.default_rng(3), 2, 2, 5, corner=0.0)
    optimum = best_value(model)
    for gap in (1e-1, 1e-2, 1e-3, 1e-5, 1e-8):
        found = plan(model, gap=gap)
        assert found.lower <= optimum <= found.upper
        assert found.info.converged
        assert found.gap <= gap


@pytest.mark.parametrize("separation", [0.2, 0.04, 0.01, 1e-4])
def test_hard_family_is_worth_one_plus_two_separations(separation):
    found = plan(problems.make("hard", accuracy=separation), gap=1e-9)
    assert found.lower == pytest.approx(1 + 2 * separation, abs=1e-9)
    assert found.upper == pytest.approx(1 + 2 * separation, abs=1e-9)
    assert found.info.converged


def test_sparse_and_dense_transitions_give_the_same_plan():
    from scipy.sparse import csr_array

    model = random_model(np.random.default_rng(8), 12, 2, 4)
    sparse = RewardMixingMDP(
        csr_array(model.transition_rows),
        model.initial,
        model.weights,
        model.rewards,
        4,
        reward_values=model.reward_values,
    )
    a, b = plan(model, gap=1e-4), plan(sparse, gap=1e-4)
    assert a.lower == pytest.approx(b.lower, abs=1e-12)
    assert a.upper == pytest.approx(b.upper, abs=1e-12)


def test_a_model_without_information_needs_one_point_a_step():
    p = np.broadcast_to(np.random.default_rng(0).random((2, 2)), (2, 2, 2))
    model = RewardMixingMDP(np.full((2, 2, 2), 0.5), [0.5, 0.5], [0.4, 0.6], p, 5)
    found = plan(model)
    assert [actions.shape[1] for actions in found.policy.actions] == [1] * 5
    assert found.gap < 1e-12
