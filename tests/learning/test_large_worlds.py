"""Refinement in worlds of many state-actions, of which a budget leaves few visits to each."""

import dataclasses

import numpy as np
import pytest

from rewardmix import problems
from rewardmix.exploration import explore
from rewardmix.learning import learn
from rewardmix.learning.gathering import CLOSE, entered, some_optima
from rewardmix.learning.refinement import HOPE, hopeful, lifted
from rewardmix.recovery.bags import bags_of
from rewardmix.recovery.bootstrap import mixture_of_model, refitted
from rewardmix.recovery.evidence import Question, evidence_of
from rewardmix.recovery.likelihood import e_step
from rewardmix.recovery.recover import estimate_model

WORLD = problems.make("random", states=80, actions=4, horizon=8, successors=2, seed=6)


@pytest.fixture(scope="module")
def found():
    explored = explore(WORLD, episodes=3000, seed=0)
    evidence = evidence_of(explored.gathered, moments=explored.moments)
    return explored, evidence, estimate_model(evidence, Question())


def test_a_large_world_is_refined_for_half_of_the_budget_and_learns_more():
    gains = []
    for seed in range(3):
        refined = learn(WORLD, episodes=4000, seed=seed, resamples=0)
        assert refined.exploration.episodes == len(refined.refinement) == 2000
        explored = learn(WORLD, episodes=4000, seed=seed, resamples=0, refine=0)
        assert explored.refinement is None
        gains.append(refined.certificate.truth.share - explored.certificate.truth.share)
    assert min(gains) > 0.02


def test_a_world_that_is_hardly_entered_is_explored_to_the_end():
    learned = learn(WORLD, episodes=300, seed=0, resamples=0)
    assert learned.refinement is None
    assert learned.exploration.episodes == 300
    assert not entered(learned.exploration)


def test_entered_counts_actions_of_states_that_were_acted_in(found):
    explored = found[0]
    assert entered(explored)
    visits = explored.moments.visits.reshape(80, 4)
    share = (visits[visits.any(axis=1)] >= 3).mean()
    assert share >= 0.99


def test_some_optima_wants_two_of_five_near_the_best(found):
    estimate = found[2]
    slack = CLOSE * 80 * 4

    def at(*heights):
        ascents = tuple(dataclasses.replace(estimate.starts[0], objective=-1e4 + height) for height in heights)
        return some_optima(dataclasses.replace(estimate, starts=ascents))

    assert at(0, -0.9 * slack, -100, -100, -100)
    assert not at(0, -1.1 * slack, -100, -100, -100)


def test_lifted_means_are_hope_deviations_higher():
    """One law at a time; with two values it is p + HOPE sqrt(p (1 - p) / (n + 1)), at most 1."""
    rng = np.random.default_rng(0)
    for values in (np.array([0.0, 1.0]), np.array([-1.0, 0.5, 2.0])):
        laws = rng.dirichlet(np.ones(values.size), (2, 7))
        counts = rng.uniform(0, 40, (2, 7))
        out = lifted(laws, counts, values)
        np.testing.assert_allclose(out.sum(axis=2), 1.0)
        for m, x in np.ndindex(2, 7):
            mean = laws[m, x] @ values
            variance = laws[m, x] @ values**2 - mean**2
            expected = min(mean + HOPE * np.sqrt(variance / (counts[m, x] + 1.0)), values[-1])
            assert out[m, x] @ values == pytest.approx(expected)
    certain = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    np.testing.assert_array_equal(lifted(certain, np.ones((1, 2)), np.array([0.0, 1.0])), certain)


def test_hope_is_largest_where_least_was_seen(found):
    explored, evidence, estimate = found
    episodes = explored.gathered
    prior = evidence.strength(Question())
    start = mixture_of_model(estimate.model, episodes)
    average = (start.weights[:, None, None] * start.laws).sum(axis=0)
    fitted = mixture_of_model(
        refitted(episodes, estimate.model, weights=estimate.fixed_weights, prior=prior, average=average), episodes
    )
    visits = e_step(bags_of(episodes), fitted).outcomes.sum(axis=2)
    fail, pay = fitted.laws[..., 0], fitted.laws[..., 1]
    hoped = hopeful(episodes, estimate, prior).rewards.reshape(2, -1)
    np.testing.assert_allclose(
        hoped, np.minimum(pay + HOPE * np.sqrt(pay * fail / (visits + prior + 1.0)), 1.0), atol=1e-9
    )
