"""``plan``: its bracket holds the optimum for any number of contexts; it keeps what was asked and says what it did."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from oracles import best_value, policy_value
from planning.tiny_models import random_model
from rewardmix import problems
from rewardmix._core.checks import InputError
from rewardmix.evaluation import evaluate
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import lattice, plan, planner
from rewardmix.planning.planner import narrow, request
from rewardmix.planning.plans import node_beliefs
from rewardmix.simulation import simulate

MODEL = random_model(np.random.default_rng(11), 6, 3, 8, corner=0.0)
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


def test_nodes_know_their_beliefs():
    """The belief of a node is that of all histories that lead there; where none does, the best vector decides."""
    model = random_model(np.random.default_rng(5), 3, 2, 3, corner=0.0)
    initial = np.array([0.5, 0.5, 0.0])
    model = replace(model, initial=initial)
    found = plan(model)
    policy, decide = found.policy, node_beliefs(found.policy, model, found.alpha_vectors)
    joint = {(s, int(policy.first[s])): model.weights * model.initial[s] for s in range(2)}
    for t in range(3):
        for (s, node), weight in joint.items():
            np.testing.assert_allclose(decide.beliefs[t][s, node], weight / weight.sum(), rtol=0, atol=1e-13)
            nearest = decide.beliefs[t][s, decide.node(t, s, weight / weight.sum())]
            np.testing.assert_allclose(nearest, weight / weight.sum(), rtol=0, atol=1e-13)
        if t == 2:
            break
        later = {}
        for (s, node), weight in joint.items():
            action = int(policy.actions[t][s, node])
            for z in range(model.num_values):
                for after in range(3):
                    key = after, int(policy.successors[t][s, node, z])
                    chance = weight * model.laws[:, s, action, z] * model.transition[s, action, after]
                    later[key] = later.get(key, 0.0) + chance
        joint = later
    assert np.isnan(decide.beliefs[0][2]).all()
    assert decide(0, 2, model.weights) == found.alpha_vectors(0, 2, model.weights)


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


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 3),
    st.sampled_from([3, 4, 5]),
    st.sampled_from([2, 3]),
    st.integers(0, 2**32 - 1),
)
def test_bracket_contains_the_optimum_of_more_contexts(states, actions, horizon, contexts, values, seed):
    model = random_model(np.random.default_rng(seed), states, actions, horizon, contexts=contexts, values=values)
    found = plan(model, gap=1e-4)
    optimum = best_value(model)
    assert found.lower <= optimum <= found.upper
    assert found.info.converged == (found.gap <= 1e-4)
    assert policy_value(found.policy, model) == pytest.approx(found.lower, abs=1e-11)


@pytest.mark.parametrize("seed", range(40))
def test_lattices_bracket_and_converge(seed, monkeypatch):
    """With few reachable beliefs known, so that lattices have to do."""
    monkeypatch.setattr(lattice, "MOST_REACHED", 1 + seed % 3 * 10)
    contexts = 3 + (seed % 4 == 1) + (seed % 8 == 1)
    model = random_model(np.random.default_rng(seed), 2, 2, 4, contexts=contexts, values=2 + (seed % 3 == 0))
    policy, lower, upper, info = narrow(lattice.LatticeSweeper(model), request(1e-3, None, None, None))
    assert lower <= best_value(model) <= upper
    assert info.converged
    assert upper - lower <= 1e-3
    assert evaluate(policy, model).value == pytest.approx(lower, abs=1e-11)


@pytest.mark.parametrize("contexts", [6, 8, 10])
def test_brackets_of_many_contexts_shrink(contexts, monkeypatch):
    """For more than eight no action is dropped."""
    monkeypatch.setattr(lattice, "MOST_REACHED", 1)
    model = random_model(np.random.default_rng(contexts), 3, 2, 4, contexts=contexts, corner=0.0)
    found = plan(model, gap=1e-6, work_limit=2e8)
    assert found.lower <= best_value(model) <= found.upper
    gaps = [done.gap for done in found.info.rounds]
    assert gaps == sorted(gaps, reverse=True)
    assert len(gaps) > 2
    assert gaps[-1] < gaps[0] / 2
    assert evaluate(found.policy, model).value == pytest.approx(found.lower, abs=1e-11)


def test_contexts_that_are_copies_of_two_are_worth_what_two_are():
    two = random_model(np.random.default_rng(2), 3, 2, 5, corner=0.0)
    copies = np.array([0, 1, 0, 1])
    four = type(two)(two.transition, two.initial, two.weights[copies] / 2, two.rewards[copies], 5)
    narrow, found = plan(two, gap=1e-6), plan(four, gap=1e-3)
    assert found.lower <= narrow.upper
    assert narrow.lower <= found.upper


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
    monkeypatch.setattr(planner, "PASS_MEMORY", 6e6)
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
