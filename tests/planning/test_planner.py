"""``plan``: its bracket holds the optimum for any number of types; it keeps what was asked and says what it did."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from helpers.tiny_models import random_model
from oracles.brute_force import optimal_value, policy_value
from rewardmix import problems
from rewardmix._core.checks import InputError
from rewardmix.evaluation import evaluate
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import belief_lattice, plan, planner
from rewardmix.planning.plan_result import compute_node_beliefs
from rewardmix.planning.planner import make_request, refine_bracket
from rewardmix.simulation import simulate

MODEL = random_model(np.random.default_rng(11), 6, 3, 8, corner=0.0)
SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.sampled_from([2, 2, 3]))


@pytest.mark.system
@settings(max_examples=200, deadline=None, derandomize=True)
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_bracket_contains_the_optimum_of_all_history_policies(shape, seed):
    states, actions, horizon, values = shape
    horizon = min(horizon, 3) if states * actions * values > 12 else horizon
    model = random_model(np.random.default_rng(seed), states, actions, horizon, values=values)
    result = plan(model, gap=1e-5)
    optimum = optimal_value(model)
    assert result.lower <= optimum <= result.upper
    assert result.info.converged
    assert result.upper - result.lower <= 1e-5


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_lower_bound_is_what_both_forms_of_the_policy_earn(shape, seed):
    states, actions, horizon, values = shape
    horizon = min(horizon, 3)
    model = random_model(np.random.default_rng(seed), states, actions, horizon, values=values)
    result = plan(model, gap=1e-2)
    value = policy_value(result.policy, model)
    assert result.lower <= value + 1e-13
    assert value == pytest.approx(result.lower, abs=1e-11)
    assert policy_value(result.belief_policy, model) >= value - 1e-11


def test_nodes_know_their_beliefs():
    """The belief of a node is that of all histories that lead there; where none does, the best vector decides."""
    model = random_model(np.random.default_rng(5), 3, 2, 3, corner=0.0)
    initial = np.array([0.5, 0.5, 0.0])
    model = replace(model, initial=initial)
    result = plan(model)
    policy, decision_rule = result.policy, compute_node_beliefs(result.policy, model, result.alpha_vectors)
    joint = {(s, int(policy.initial_nodes[s])): model.weights * model.initial[s] for s in range(2)}
    for t in range(3):
        for (s, node), weight in joint.items():
            np.testing.assert_allclose(decision_rule.beliefs[t][s, node], weight / weight.sum(), rtol=0, atol=1e-13)
            nearest = decision_rule.beliefs[t][s, decision_rule.find_node(t, s, weight / weight.sum())]
            np.testing.assert_allclose(nearest, weight / weight.sum(), rtol=0, atol=1e-13)
        if t == 2:
            break
        later = {}
        for (s, node), weight in joint.items():
            action = int(policy.actions[t][s, node])
            for z in range(model.num_values):
                for after in range(3):
                    key = after, int(policy.next_nodes[t][s, node, z])
                    prob = weight * model.reward_probs[:, s, action, z] * model.transition[s, action, after]
                    later[key] = later.get(key, 0.0) + prob
        joint = later
    assert np.isnan(decision_rule.beliefs[0][2]).all()
    assert decision_rule(0, 2, model.weights) == result.alpha_vectors(0, 2, model.weights)


def test_a_coarse_gap_still_brackets_a_longer_model():
    model = random_model(np.random.default_rng(3), 2, 2, 5, corner=0.0)
    optimum = optimal_value(model)
    for gap in (1e-1, 1e-2, 1e-3, 1e-5, 1e-8):
        result = plan(model, gap=gap)
        assert result.lower <= optimum <= result.upper
        assert result.info.converged
        assert result.gap <= gap


@pytest.mark.parametrize("separation", [0.2, 0.04, 0.01, 1e-4])
def test_hard_family_is_worth_one_plus_two_separations(separation):
    result = plan(problems.make_model("hard", epsilon=separation), gap=1e-9)
    assert result.lower == pytest.approx(1 + 2 * separation, abs=1e-9)
    assert result.upper == pytest.approx(1 + 2 * separation, abs=1e-9)
    assert result.info.converged


def test_sparse_and_dense_transitions_give_the_same_plan():
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
    result = plan(model)
    assert [actions.shape[1] for actions in result.policy.actions] == [1] * 5
    assert result.gap < 1e-12


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 3),
    st.sampled_from([3, 4, 5]),
    st.sampled_from([2, 3]),
    st.integers(0, 2**32 - 1),
)
def test_bracket_contains_the_optimum_of_more_contexts(states, actions, horizon, num_types, values, seed):
    model = random_model(np.random.default_rng(seed), states, actions, horizon, num_types=num_types, values=values)
    result = plan(model, gap=1e-4)
    optimum = optimal_value(model)
    assert result.lower <= optimum <= result.upper
    assert result.info.converged == (result.gap <= 1e-4)
    assert policy_value(result.policy, model) == pytest.approx(result.lower, abs=1e-11)


@pytest.mark.system
@pytest.mark.parametrize("seed", range(40))
def test_lattices_bracket_and_converge(seed, monkeypatch):
    """With few reachable beliefs known, so that lattices have to do."""
    monkeypatch.setattr(belief_lattice, "MAX_REACHABLE_BELIEFS", 1 + seed % 3 * 10)
    num_types = 3 + (seed % 4 == 1) + (seed % 8 == 1)
    model = random_model(np.random.default_rng(seed), 2, 2, 4, num_types=num_types, values=2 + (seed % 3 == 0))
    policy, lower, upper, info = refine_bracket(
        belief_lattice.LatticePlanner(model), make_request(1e-3, None, None, None)
    )
    assert lower <= optimal_value(model) <= upper
    assert info.converged
    assert upper - lower <= 1e-3
    assert evaluate(policy, model).value == pytest.approx(lower, abs=1e-11)


@pytest.mark.system
@pytest.mark.parametrize("num_types", [6, 8, 10])
def test_brackets_of_many_contexts_shrink(num_types, monkeypatch):
    """For more than eight no action is dropped."""
    monkeypatch.setattr(belief_lattice, "MAX_REACHABLE_BELIEFS", 1)
    model = random_model(np.random.default_rng(num_types), 3, 2, 4, num_types=num_types, corner=0.0)
    result = plan(model, gap=1e-6, max_operations=2e8)
    assert result.lower <= optimal_value(model) <= result.upper
    gaps = [done.gap for done in result.info.rounds]
    assert gaps == sorted(gaps, reverse=True)
    assert len(gaps) > 2
    assert gaps[-1] < gaps[0] / 2
    assert evaluate(result.policy, model).value == pytest.approx(result.lower, abs=1e-11)


def test_contexts_that_are_copies_of_two_are_worth_what_two_are():
    model = random_model(np.random.default_rng(2), 3, 2, 5, corner=0.0)
    copies = np.array([0, 1, 0, 1])
    copied = type(model)(model.transition, model.initial, model.weights[copies] / 2, model.rewards[copies], 5)
    narrow, result = plan(model, gap=1e-6), plan(copied, gap=1e-3)
    assert result.lower <= narrow.upper
    assert narrow.lower <= result.upper


@pytest.mark.parametrize("gap", [0, 0.0, -1e-3, float("nan"), float("inf"), "small", None, True])
def test_gap_is_refused_by_name(gap):
    with pytest.raises(InputError, match=r"^gap: got"):
        plan(MODEL, gap=gap)


@pytest.mark.parametrize("limit", [0, 0.0, -1, float("nan"), float("inf"), "soon"])
def test_time_limit_is_refused_by_name(limit):
    with pytest.raises(InputError, match=r"^max_seconds: got"):
        plan(MODEL, max_seconds=limit)


def test_a_time_limit_returns_the_best_bracket_and_says_so():
    result = plan(MODEL, gap=1e-9, max_seconds=1e-6)
    assert result.lower <= result.upper
    assert not result.info.converged
    assert result.info.stop_reason == "time limit"
    assert len(result.info.rounds) == 1


def test_a_gap_below_rounding_is_not_claimed():
    result = plan(random_model(np.random.default_rng(0), 2, 2, 2), gap=1e-18)
    assert not result.info.converged
    assert result.info.stop_reason == "rounding"
    assert 0 < result.gap < 1e-12


def test_updates_tell_of_a_shrinking_bracket():
    updates = []
    result = plan(MODEL, gap=1e-5, callback=updates.append)
    assert tuple(updates) == result.info.rounds
    assert [done.index for done in updates] == list(range(1, len(updates) + 1))
    assert all(a.lower <= b.lower <= b.upper <= a.upper for a, b in pairwise(updates))
    assert updates[-1].gap == result.gap <= 1e-5


def test_a_model_too_large_for_memory_gets_an_estimate(monkeypatch):
    monkeypatch.setenv("REWARDMIX_MEMORY", "1e-6")
    with pytest.raises(InputError, match=r"model: got a need of about .* GiB of memory, expected at most 1e-06 GiB"):
        plan(MODEL)


def test_memory_that_is_too_small_for_a_finer_grid_ends_planning(monkeypatch):
    monkeypatch.setattr(planner, "MAX_SWEEP_BYTES", 6e6)
    result = plan(MODEL, gap=1e-10)
    assert not result.info.converged
    assert result.info.stop_reason == "memory"
    assert result.lower <= result.upper


def test_a_large_sparse_model_is_planned_without_a_dense_matrix():
    rng = np.random.default_rng(0)
    states, actions = 20_000, 2
    columns = rng.integers(states, size=(states * actions, 2))
    rows = csr_array((np.full(columns.size, 0.5), columns.ravel(), np.arange(0, columns.size + 1, 2)))
    model = RewardMixingMDP(rows, np.full(states, 1 / states), [0.5, 0.5], rng.random((2, states, actions)), 3)
    result = plan(model, gap=1e-2)
    assert result.info.converged
    assert evaluate(result.policy, model).value == pytest.approx(result.lower, abs=1e-9)


@pytest.mark.parametrize("form", ["policy", "belief_policy"])
def test_played_episodes_earn_the_value(form):
    """A band of 5.5 standard errors misses by chance less than once in 10^7."""
    result = plan(MODEL, gap=1e-4)
    returns = simulate(getattr(result, form), MODEL, 20_000 if form == "policy" else 2_000, 1).returns
    error = returns.std(ddof=1) / np.sqrt(returns.size)
    assert result.lower - 5.5 * error <= returns.mean() <= result.upper + 5.5 * error


def test_a_controller_is_exact_in_another_model():
    result = plan(MODEL, gap=1e-3)
    other = random_model(np.random.default_rng(12), 6, 3, 8, corner=0.0)
    assert evaluate(result.policy, other).value <= plan(other, gap=1e-3).upper
