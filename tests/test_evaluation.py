from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from scipy.sparse import csr_array

from helpers.strategies import models, models_and_policies, random_controller
from oracles.brute_force import enumerate_markov_policies, enumerate_trajectories, optimal_value, policy_value
from rewardmix import BeliefPolicy, InputError, evaluate, evaluation, make_env, plan, problems, uniform_policy
from rewardmix.bounded_mean import ReturnBounds
from rewardmix.evaluation import confidence_interval


@given(models_and_policies(num_types=(2, 3), values=(2, 3)))
def test_exact_values_are_sums_over_all_trajectories(pair):
    model, policy = pair
    result = evaluate(policy, model)
    assert result.is_exact
    assert result.lower == result.value == result.upper
    assert result.value == pytest.approx(policy_value(policy, model), abs=1e-10)


@given(models(max_states=2, max_actions=2, max_horizon=2))
def test_no_policy_beats_the_tree_and_trajectories_add_up_to_one(model):
    best = optimal_value(model)
    for policy in enumerate_markov_policies(model):
        assert evaluate(policy, model).value <= best + 1e-12
        assert sum(p for p, *_ in enumerate_trajectories(policy, model)) == pytest.approx(1.0, abs=1e-12)


def test_a_controller_can_be_valued_in_a_model_it_was_not_made_for():
    model, other = problems.make_model("random", seed=1), problems.make_model("random", seed=2)
    policy = random_controller(model, np.random.default_rng(0))
    assert evaluate(policy, other).value != evaluate(policy, model).value


def test_other_policies_and_environments_are_played():
    model = problems.make_model("random", states=3, actions=2, horizon=3)
    policy = BeliefPolicy(model, lambda step, state, belief: int(belief[1] > 0.5))
    in_model = evaluate(policy, model, num_episodes=3000, seed=1, failure_prob=1e-6)
    in_env = evaluate(policy, make_env(model), num_episodes=3000, seed=1, failure_prob=1e-6)
    assert in_model == in_env
    assert not in_model.is_exact
    assert in_model.lower < policy_value(policy, model) < in_model.upper


def test_intervals_cover_at_their_level():
    """2,000 intervals at failure 0.1 of 50 returns each; 200 miss, or fewer: it is on the safe side."""
    model = problems.make_model("hard")
    exact = evaluate(uniform_policy(model), model).value
    rng = np.random.default_rng(3)
    returns = rng.integers(2, size=(2000, 50)) + rng.integers(2, size=(2000, 50))
    bounds = ReturnBounds(0.0, 2.0)
    intervals = [confidence_interval(row.astype(float), 0.1, bounds) for row in returns]
    missed = sum(not result.lower <= exact <= result.upper for result in intervals)
    assert 90 <= missed <= 240


def test_misfits_are_refused():
    model = problems.make_model("shop")
    with pytest.raises(InputError, match="episodes: got 1, expected a whole number of at least 2"):
        evaluate(BeliefPolicy(model, lambda *_: 0), model, num_episodes=1)
    with pytest.raises(InputError, match="failure_prob: got 2, expected a finite number above 0 and below 1"):
        evaluate(BeliefPolicy(model, lambda *_: 0), model, num_episodes=10, failure_prob=2)
    small = problems.make_model("random", states=4, actions=2, horizon=10)
    controller = random_controller(model, np.random.default_rng(0))
    with pytest.raises(InputError, match="policy: got a controller that plays action 3, expected actions below 2"):
        evaluate(controller, small)


@pytest.mark.system
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("num_types", [2, 4])
def test_nodes_that_no_path_enters_do_not_matter(sparse, num_types, monkeypatch):
    """Valued by entered nodes alone, to the last bit; nodes that no history comes to are left out."""
    model = problems.make_model("random", states=9, actions=3, horizon=5, num_types=num_types, next_states=2, seed=4)
    model = replace(model, initial=np.eye(9)[2])
    policy = plan(model, gap=1e-3, max_operations=2e7).policy
    if sparse:
        model = replace(model, transition=csr_array(model.transition_rows))
    exact = evaluate(policy, model).value
    *_, every = evaluation.node_values(policy, model)
    first = evaluation.evaluate_reachable_nodes(policy, model)
    assert (first[:, 2] == every[2, policy.initial_nodes[2]]).all()
    assert not np.delete(first, 2, axis=1).any()
    entered = evaluation.iter_reachable_nodes(policy, model, evaluation._transition_entries(model))
    shares = [nodes.size / plays.size for plays, (nodes, *_) in zip(policy.actions, entered, strict=True)]
    assert 0 < min(shares) < max(shares[1:]) < 1
    monkeypatch.setattr(evaluation, "MIN_NODES_SPARSE", 0)
    monkeypatch.setattr(evaluation, "node_values", None)
    assert evaluate(policy, model).value == exact
