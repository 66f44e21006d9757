"""Check agents that know types and transitions (benchmarks/learning/ceiling.py): beliefs match the data."""

import numpy as np
import pytest
from benchmarks.learning import analysis, ceiling

from rewardmix import plan, problems
from rewardmix.learning.certificate import TrueModelComparison
from rewardmix.planning import plan_markov


@pytest.fixture
def belief():
    """Return a belief about two types and three state-actions; no episode had the second type."""
    result = ceiling.Belief(2, 3)
    result.see(0, np.array([1, 1, 0, 3, 3, 3, 3, 2]))
    return result


def test_a_belief_counts_the_rewards_of_each_type(belief):
    """A symbol is twice the state-action, plus one for a reward."""
    np.testing.assert_array_equal(belief.visits, [[3, 5, 0], [0, 0, 0]])
    np.testing.assert_array_equal(belief.paid, [[2, 4, 0], [0, 0, 0]])
    np.testing.assert_allclose(belief.mean, [[3 / 5, 5 / 7, 1 / 2], [1 / 2, 1 / 2, 1 / 2]])


def test_optimism_is_in_standard_deviations_of_the_posterior(belief):
    draws = belief.draw(40_000, seed=1)
    np.testing.assert_allclose(draws.mean(axis=0), belief.mean, atol=0.01)
    np.testing.assert_allclose(belief.lifted(np.ones((2, 3))) - belief.mean, draws.std(axis=0), atol=0.01)
    assert belief.lifted(np.full((2, 3), 9.0)).max() == 1.0


@pytest.mark.parametrize("name", ceiling.LOOKS)
def test_every_agent_learns_a_small_model_and_is_reproducible(name):
    env = problems.make_model("random", states=4, actions=2, horizon=5, seed=3)
    best = plan(env).lower
    truth = TrueModelComparison(best, best, best, plan_markov(env).value, best)
    scores = [ceiling.score_agent(env, truth, ceiling.LOOKS[name], 4000, seed=0) for _ in range(2)]
    assert scores[0] == scores[1]
    assert scores[0] > 0.97


def test_the_table_has_a_column_for_each_size_and_budget():
    rows = [
        {"states": states, "agent": agent, "episodes": n, "share": [0.5, 0.75]}
        for states in (300, 1000)
        for agent in ("learn", "other")
        for n in (5000, 40_000)
    ]
    table, text = analysis.ceiling(rows)
    assert table.startswith("| agent | S = 300: 5,000 | S = 300: 40,000 | S = 1,000: 5,000 | S = 1,000: 40,000 |")
    assert "| other | .625 | .625 | .625 | .625 |" in table
    assert text == "Normalized score by states and episodes, means over 2 models, median standard error .125."
