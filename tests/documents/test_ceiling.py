"""Agents that are told types and moves (benchmarks/learning/ceiling.py): what they believe is what they saw."""

import numpy as np
import pytest
from benchmarks.learning import analysis, ceiling

from rewardmix import plan, problems
from rewardmix.learning.certificate import Truth
from rewardmix.planning import plan_markov


@pytest.fixture
def belief():
    """Of two types and three state-actions: the second type was never met."""
    found = ceiling.Belief(2, 3)
    found.see(0, np.array([1, 1, 0, 3, 3, 3, 3, 2]))
    return found


def test_a_belief_counts_the_rewards_of_each_type(belief):
    """A symbol is twice the state-action, and one more if it paid."""
    np.testing.assert_array_equal(belief.visits, [[3, 5, 0], [0, 0, 0]])
    np.testing.assert_array_equal(belief.paid, [[2, 4, 0], [0, 0, 0]])
    np.testing.assert_allclose(belief.mean, [[3 / 5, 5 / 7, 1 / 2], [1 / 2, 1 / 2, 1 / 2]])


def test_hope_is_in_deviations_of_the_law_that_is_drawn_from(belief):
    draws = belief.draw(40_000, seed=1)
    np.testing.assert_allclose(draws.mean(axis=0), belief.mean, atol=0.01)
    np.testing.assert_allclose(belief.lifted(np.ones((2, 3))) - belief.mean, draws.std(axis=0), atol=0.01)
    assert belief.lifted(np.full((2, 3), 9.0)).max() == 1.0


@pytest.mark.parametrize("name", ceiling.LOOKS)
def test_every_agent_learns_a_small_world_and_repeats_itself(name):
    world = problems.make("random", states=4, actions=2, horizon=5, seed=3)
    best = plan(world).lower
    truth = Truth(best, best, best, plan_markov(world).value, best)
    found = [ceiling.told(world, truth, ceiling.LOOKS[name], 4000, seed=0) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0] > 0.97


def test_the_table_has_a_column_for_each_size_and_budget():
    rows = [
        {"states": states, "agent": agent, "episodes": n, "share": [0.5, 0.75]}
        for states in (300, 1000)
        for agent in ("learn", "other")
        for n in (5000, 40_000)
    ]
    table, said = analysis.ceiling(rows)
    assert table.startswith("| agent | S = 300: 5,000 | S = 300: 40,000 | S = 1,000: 5,000 | S = 1,000: 40,000 |")
    assert "| other | .625 | .625 | .625 | .625 |" in table
    assert said == "Share of the gain by states and episodes, means over 2 worlds, median standard error .125."
