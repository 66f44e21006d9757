from __future__ import annotations

import itertools

import numpy as np
import pytest

from helpers.tiny_models import random_model
from oracles.brute_force import optimal_value, policy_value
from rewardmix.evaluation import evaluate
from rewardmix.planning import compare_planners, plan, plan_greedy, plan_markov, plan_oracle, plan_qmdp, plan_uniform
from rewardmix.planning.baselines import nearest_node
from rewardmix.policy import BeliefPolicy, markov_policy

SEEDS = range(12)


@pytest.mark.parametrize("seed", range(6))
def test_markov_is_the_best_of_all_markov_policies(seed):
    model = random_model(np.random.default_rng(seed), 2, 2, 3)
    tables = itertools.product(range(2), repeat=6)
    best = max(evaluate(markov_policy(np.array(table).reshape(3, 2), model), model).value for table in tables)
    assert plan_markov(model).value == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("num_types", [2, 3])
def test_order_of_the_values(seed, num_types):
    model = random_model(np.random.default_rng(seed), 3, 2, 3, num_types=num_types)
    optimum = optimal_value(model)
    oracle_value = plan_oracle(model).value
    assert optimum <= oracle_value + 1e-12
    for baseline in (plan_uniform, plan_markov, plan_greedy, plan_qmdp):
        assert baseline(model).value <= optimum + 1e-12
    result = compare_planners(model, gap=1e-4)
    assert result.markov_value <= result.optimal_upper
    assert result.optimal_lower <= result.optimal_upper
    assert result.optimal_lower <= result.oracle + 1e-12
    assert [row.value for row in result.table] == sorted(row.value for row in result.table)
    assert {row.name for row in result.table} >= {"Markov", "QMDP", "greedy Bayes", "uniform", "oracle"}


@pytest.mark.parametrize("baseline", [plan_greedy, plan_qmdp])
@pytest.mark.parametrize("seed", range(6))
def test_belief_baselines_are_worth_what_their_belief_policy_earns(baseline, seed):
    """With all reachable beliefs as nodes nothing is rounded, so the controller plays the belief policy itself."""
    model = random_model(np.random.default_rng(seed), 2, 2, 3, corner=0.0)
    result = baseline(model)
    assert result.value == pytest.approx(policy_value(BeliefPolicy(model, result.decision_rule), model), abs=1e-9)


def test_told_is_the_mean_of_the_optima_of_the_contexts():
    model = random_model(np.random.default_rng(1), 3, 2, 4, corner=0.0)
    sure = [type(model)(model.transition, model.initial, model.weights, model.rewards[[m, m]], 4) for m in range(2)]
    optima = [plan(alone, gap=1e-9).lower for alone in sure]
    assert plan_oracle(model).value == pytest.approx(model.weights @ optima, abs=1e-9)


def test_nearest_of_two_contexts_is_nearest_in_general():
    rng = np.random.default_rng(0)
    share = np.sort(rng.random(20))
    nodes = np.column_stack([share, 1 - share])
    beliefs = rng.dirichlet([0.5, 0.5], size=(5, 40))
    assert nearest_node(beliefs, nodes).tolist() == np.argmax(np.sqrt(beliefs) @ np.sqrt(nodes).T, axis=-1).tolist()
