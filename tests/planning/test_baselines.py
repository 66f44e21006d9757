from __future__ import annotations

import itertools

import numpy as np
import pytest

from oracles import best_value, policy_value
from planning.tiny_models import random_model
from rewardmix.evaluation import evaluate
from rewardmix.planning import compare, plan, plan_greedy, plan_markov, plan_qmdp, plan_told, plan_uniform
from rewardmix.planning.baselines import nearest
from rewardmix.policy import BeliefPolicy, markov

SEEDS = range(12)


@pytest.mark.parametrize("seed", range(6))
def test_markov_is_the_best_of_all_markov_policies(seed):
    model = random_model(np.random.default_rng(seed), 2, 2, 3)
    tables = itertools.product(range(2), repeat=6)
    best = max(evaluate(markov(np.array(table).reshape(3, 2), model), model).value for table in tables)
    assert plan_markov(model).value == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("contexts", [2, 3])
def test_order_of_the_values(seed, contexts):
    model = random_model(np.random.default_rng(seed), 3, 2, 3, contexts=contexts)
    optimum = best_value(model)
    told = plan_told(model).value
    assert optimum <= told + 1e-12
    for baseline in (plan_uniform, plan_markov, plan_greedy, plan_qmdp):
        assert baseline(model).value <= optimum + 1e-12
    found = compare(model, gap=1e-4)
    assert found.markov <= found.adaptive_upper
    assert found.adaptive_lower <= found.adaptive_upper
    assert found.adaptive_lower <= found.told + 1e-12
    assert [row.value for row in found.table] == sorted(row.value for row in found.table)
    assert {row.name for row in found.table} >= {"Markov", "QMDP", "greedy Bayes", "uniform", "told the type"}


@pytest.mark.parametrize("baseline", [plan_greedy, plan_qmdp])
@pytest.mark.parametrize("seed", range(6))
def test_belief_baselines_are_worth_what_their_belief_policy_earns(baseline, seed):
    """With all reachable beliefs as nodes nothing is rounded, so the controller plays the belief policy itself."""
    model = random_model(np.random.default_rng(seed), 2, 2, 3, corner=0.0)
    found = baseline(model)
    assert found.value == pytest.approx(policy_value(BeliefPolicy(model, found.decide), model), abs=1e-9)


def test_told_is_the_mean_of_the_optima_of_the_contexts():
    model = random_model(np.random.default_rng(1), 3, 2, 4, corner=0.0)
    sure = [type(model)(model.transition, model.initial, model.weights, model.rewards[[m, m]], 4) for m in range(2)]
    optima = [plan(alone, gap=1e-9).lower for alone in sure]
    assert plan_told(model).value == pytest.approx(model.weights @ optima, abs=1e-9)


def test_nearest_of_two_contexts_is_nearest_in_general():
    rng = np.random.default_rng(0)
    share = np.sort(rng.random(20))
    nodes = np.column_stack([share, 1 - share])
    beliefs = rng.dirichlet([0.5, 0.5], size=(5, 40))
    assert nearest(beliefs, nodes).tolist() == np.argmax(np.sqrt(beliefs) @ np.sqrt(nodes).T, axis=-1).tolist()
