"""Refinement in models of many state-actions, of which a budget leaves few visits to each."""

import dataclasses

import numpy as np
import pytest

from helpers.learn_settings import make_learn_settings as settings
from rewardmix import problems
from rewardmix.exploration import explore
from rewardmix.learning import data_collection, learn
from rewardmix.learning.data_collection import MIN_TRIED_SHARE, NEAR_OPTIMUM_TOLERANCE, covers_actions, has_near_optima
from rewardmix.learning.refinement import OPTIMISM, draw_optimistic_model, refine, refit_mixture, shift_means
from rewardmix.recovery.bootstrap import model_to_mixture, refit_model
from rewardmix.recovery.evidence import RecoverySettings, make_recovery_data
from rewardmix.recovery.likelihood import e_step
from rewardmix.recovery.ml_recovery import estimate_model
from rewardmix.recovery.reward_patterns import patterns_from_episodes

WORLD = problems.make_model("random", states=80, actions=4, horizon=8, next_states=2, seed=6)


@pytest.fixture(scope="module")
def stages():
    explored = explore(WORLD, num_episodes=3000, seed=0)
    evidence = make_recovery_data(explored.episodes, moments=explored.moments)
    return explored, evidence, estimate_model(evidence, RecoverySettings())


@pytest.mark.statistical
def test_a_large_world_is_refined_for_most_of_the_budget_and_learns_more():
    gains = []
    for seed in range(3):
        refined = learn(WORLD, num_episodes=4000, seed=seed, num_resamples=0)
        assert (refined.exploration.num_episodes, len(refined.refinement_episodes)) == (1000, 3000)
        explored = learn(WORLD, num_episodes=4000, seed=seed, num_resamples=0, refinement_fraction=0)
        assert explored.refinement_episodes is None
        gains.append(refined.certificate.true_model.normalized_score - explored.certificate.true_model.normalized_score)
    assert min(gains) > 0.02


def test_a_world_that_is_hardly_entered_is_explored_to_the_end():
    learned = learn(WORLD, num_episodes=300, seed=0, num_resamples=0)
    assert learned.refinement_episodes is None
    assert learned.exploration.num_episodes == 300
    assert not covers_actions(learned.exploration)


def test_entered_counts_actions_of_states_that_were_acted_in(stages):
    explored = stages[0]
    assert covers_actions(explored)
    visits = explored.moments.visits.reshape(80, 4)
    share = (visits[visits.any(axis=1)] >= 3).mean()
    assert share >= MIN_TRIED_SHARE


def test_some_optima_wants_two_of_five_near_the_best(stages):
    estimate = stages[2]
    slack = NEAR_OPTIMUM_TOLERANCE * 80 * 4

    def at(*heights):
        ascents = tuple(dataclasses.replace(estimate.em_runs[0], objective=-1e4 + height) for height in heights)
        return has_near_optima(dataclasses.replace(estimate, em_runs=ascents))

    assert at(0, -0.9 * slack, -100, -100, -100)
    assert not at(0, -1.1 * slack, -100, -100, -100)


def test_lifted_means_are_so_many_deviations_higher():
    """One law at a time; with two values it is p + d sqrt(p (1 - p) / (n + 1)), between 0 and 1."""
    rng = np.random.default_rng(0)
    for values in (np.array([0.0, 1.0]), np.array([-1.0, 0.5, 2.0])):
        probs = rng.dirichlet(np.ones(values.size), (2, 7))
        counts, deviations = rng.uniform(0, 40, (2, 7)), rng.uniform(-6, 6, (2, 7))
        out = shift_means(probs, counts, values, deviations)
        np.testing.assert_allclose(out.sum(axis=2), 1.0)
        for m, x in np.ndindex(2, 7):
            mean = probs[m, x] @ values
            variance = probs[m, x] @ values**2 - mean**2
            expected = mean + deviations[m, x] * np.sqrt(variance / (counts[m, x] + 1.0))
            assert out[m, x] @ values == pytest.approx(np.clip(expected, values[0], values[-1]))
    certain = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    same = shift_means(certain, np.ones((1, 2)), np.array([0.0, 1.0]), np.full((1, 2), 3.0))
    np.testing.assert_array_equal(same, certain)


def test_hope_is_so_many_deviations_on_average_and_falls(stages):
    """Of the mean of a reward, as if its law were drawn from its pseudocounts; and as much again by chance."""
    explored, evidence, estimate = stages
    episodes = explored.episodes
    prior = evidence.pseudocount(RecoverySettings())
    fitted, visits = refit_mixture(episodes, model_to_mixture(estimate.model, episodes), None, prior)
    for spent, hope in ((0.0, OPTIMISM[0]), (0.5, np.mean(OPTIMISM)), (1.0, OPTIMISM[1])):
        hoped = draw_optimistic_model(episodes, fitted, visits + prior, spent, seed=5).rewards.reshape(2, -1)
        mean = fitted.probs[..., 1]
        inside = (visits > 20) & (np.abs(mean - 0.5) < 0.2)  # where no draw is cut off at 0 or 1
        deviations = ((hoped - mean) / np.sqrt(mean * (1 - mean) / (visits + prior + 1.0)))[inside]
        error = hope / np.sqrt(deviations.size)
        assert deviations.mean() == pytest.approx(hope, abs=4 * error)
        assert deviations.std() == pytest.approx(hope, abs=4 * error)
    other = draw_optimistic_model(episodes, fitted, visits + prior, 1.0, seed=6).rewards.reshape(2, -1)
    assert (other != hoped).mean() > 0.9


def test_a_refit_goes_on_to_where_a_fit_from_the_beginning_ends(stages):
    """The same hill, by the same average: EM from an earlier fit is a shorter way."""
    explored, evidence, estimate = stages
    episodes, prior = explored.episodes, evidence.pseudocount(RecoverySettings())
    start = model_to_mixture(estimate.model, episodes[:2000])
    average = (start.weights[:, None, None] * start.probs).sum(axis=0)
    model = refit_model(episodes, estimate.model, weights=estimate.fixed_weights, pseudocount=prior, prior_mean=average)
    again, visits = refit_mixture(episodes, start, estimate.fixed_weights, prior)
    np.testing.assert_allclose(again.probs, model_to_mixture(model, episodes).probs, atol=2e-3)
    np.testing.assert_allclose(visits, e_step(patterns_from_episodes(episodes), again).reward_counts.sum(axis=2))


class Asked(Exception):
    """Raised where refinement is asked for."""


def test_refits_are_pulled_to_where_recovery_pulls(monkeypatch):
    """What was never visited has the law of the centre, that of recovery at the end of exploration."""

    def ask(env, *value, **options):
        raise Asked(*value, options["prior_mean"])

    monkeypatch.setattr(data_collection, "refine", ask)
    with pytest.raises(Asked) as refine_call:
        learn(WORLD, num_episodes=4000, seed=0, num_resamples=0)
    episodes, recovery, center = refine_call.value.args
    evidence = make_recovery_data(episodes)
    np.testing.assert_array_equal(center, evidence.prior_mean(evidence.patterns, RecoverySettings()))
    few = episodes[:50]
    fitted, visits = refit_mixture(few, model_to_mixture(recovery.model, few), None, 2.0, center)
    is_unvisited = visits.sum(axis=0) == 0
    assert 20 < is_unvisited.sum() < 200
    for probs in fitted.probs:
        np.testing.assert_allclose(probs[is_unvisited], center[is_unvisited])


@pytest.mark.parametrize(
    ("states", "length", "budget", "refined"),
    [(100, 10, 4000, 3000), (100, 10, 800, 400), (100, 10, 1200, 720), (60, 10, 1200, 600)],
)
def test_a_large_world_is_refined_as_soon_as_everything_could_be_tried(states, length, budget, refined):
    """At least a quarter of the budget explores, and at most half; a small model is refined for half of it."""
    env = problems.make_model("random", states=states, actions=4, horizon=length, next_states=2)
    assert settings(env=env, refinement_fraction=None).max_refinement_episodes(budget) == refined
    assert settings(env=env, refinement_fraction=0.2).max_refinement_episodes(budget) == 0.2 * budget


def test_what_is_hoped_for_is_the_same_after_a_stop(stages, tmp_path):
    """Refits go on from each other, also over batches that were played before."""
    episodes, estimate = stages[0].episodes, stages[2]
    ask = {"num_episodes": 60, "batches": 6, "seed": 3}
    straight = refine(WORLD, episodes, estimate, **ask).episodes

    def stop(played):
        if played == 30:
            raise KeyboardInterrupt

    assert refine(WORLD, episodes, estimate, checkpoint_dir=tmp_path, callback=stop, **ask).interrupted
    assert len(list(tmp_path.iterdir())) == 3
    again = refine(WORLD, episodes, estimate, checkpoint_dir=tmp_path, **ask).episodes
    np.testing.assert_array_equal(again.states, straight.states)
    np.testing.assert_array_equal(again.rewards, straight.rewards)
