"""Refinement in worlds of many state-actions, of which a budget leaves few visits to each."""

import dataclasses

import numpy as np
import pytest

from asked import settings
from rewardmix import problems
from rewardmix.exploration import explore
from rewardmix.learning import gathering, learn
from rewardmix.learning.gathering import CLOSE, ENTERED, entered, some_optima
from rewardmix.learning.refinement import HOPES, fitted_again, hopeful, lifted, refine
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


def test_a_large_world_is_refined_for_most_of_the_budget_and_learns_more():
    gains = []
    for seed in range(3):
        refined = learn(WORLD, episodes=4000, seed=seed, resamples=0)
        assert (refined.exploration.episodes, len(refined.refinement)) == (1000, 3000)
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
    assert share >= ENTERED


def test_some_optima_wants_two_of_five_near_the_best(found):
    estimate = found[2]
    slack = CLOSE * 80 * 4

    def at(*heights):
        ascents = tuple(dataclasses.replace(estimate.starts[0], objective=-1e4 + height) for height in heights)
        return some_optima(dataclasses.replace(estimate, starts=ascents))

    assert at(0, -0.9 * slack, -100, -100, -100)
    assert not at(0, -1.1 * slack, -100, -100, -100)


def test_lifted_means_are_so_many_deviations_higher():
    """One law at a time; with two values it is p + d sqrt(p (1 - p) / (n + 1)), between 0 and 1."""
    rng = np.random.default_rng(0)
    for values in (np.array([0.0, 1.0]), np.array([-1.0, 0.5, 2.0])):
        laws = rng.dirichlet(np.ones(values.size), (2, 7))
        counts, deviations = rng.uniform(0, 40, (2, 7)), rng.uniform(-6, 6, (2, 7))
        out = lifted(laws, counts, values, deviations)
        np.testing.assert_allclose(out.sum(axis=2), 1.0)
        for m, x in np.ndindex(2, 7):
            mean = laws[m, x] @ values
            variance = laws[m, x] @ values**2 - mean**2
            expected = mean + deviations[m, x] * np.sqrt(variance / (counts[m, x] + 1.0))
            assert out[m, x] @ values == pytest.approx(np.clip(expected, values[0], values[-1]))
    certain = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    same = lifted(certain, np.ones((1, 2)), np.array([0.0, 1.0]), np.full((1, 2), 3.0))
    np.testing.assert_array_equal(same, certain)


def test_hope_is_so_many_deviations_on_average_and_falls(found):
    """Of the mean of a reward, as if its law were drawn from its pseudo-counts; and as much again by chance."""
    explored, evidence, estimate = found
    episodes = explored.gathered
    prior = evidence.strength(Question())
    fitted, visits = fitted_again(episodes, mixture_of_model(estimate.model, episodes), None, prior)
    for spent, hope in ((0.0, HOPES[0]), (0.5, np.mean(HOPES)), (1.0, HOPES[1])):
        hoped = hopeful(episodes, fitted, visits + prior, spent, seed=5).rewards.reshape(2, -1)
        mean = fitted.laws[..., 1]
        inside = (visits > 20) & (np.abs(mean - 0.5) < 0.2)  # where no draw is cut off at 0 or 1
        deviations = ((hoped - mean) / np.sqrt(mean * (1 - mean) / (visits + prior + 1.0)))[inside]
        error = hope / np.sqrt(deviations.size)
        assert deviations.mean() == pytest.approx(hope, abs=4 * error)
        assert deviations.std() == pytest.approx(hope, abs=4 * error)
    other = hopeful(episodes, fitted, visits + prior, 1.0, seed=6).rewards.reshape(2, -1)
    assert (other != hoped).mean() > 0.9


def test_a_refit_goes_on_to_where_a_fit_from_the_beginning_ends(found):
    """The same hill, by the same average: EM from an earlier fit is a shorter way."""
    explored, evidence, estimate = found
    episodes, prior = explored.gathered, evidence.strength(Question())
    start = mixture_of_model(estimate.model, episodes[:2000])
    average = (start.weights[:, None, None] * start.laws).sum(axis=0)
    model = refitted(episodes, estimate.model, weights=estimate.fixed_weights, prior=prior, average=average)
    again, visits = fitted_again(episodes, start, estimate.fixed_weights, prior)
    np.testing.assert_allclose(again.laws, mixture_of_model(model, episodes).laws, atol=2e-3)
    np.testing.assert_allclose(visits, e_step(bags_of(episodes), again).outcomes.sum(axis=2))


class Asked(Exception):
    """Raised where refinement is asked for."""


def test_refits_are_pulled_to_where_recovery_pulls(monkeypatch):
    """What was never visited has the law of the centre, that of recovery at the end of exploration."""

    def ask(world, *given, **options):
        raise Asked(*given, options["centre"])

    monkeypatch.setattr(gathering, "refine", ask)
    with pytest.raises(Asked) as asked:
        learn(WORLD, episodes=4000, seed=0, resamples=0)
    gathered, found, centre = asked.value.args
    evidence = evidence_of(gathered)
    np.testing.assert_array_equal(centre, evidence.centre(evidence.bags, Question()))
    few = gathered[:50]
    fitted, visits = fitted_again(few, mixture_of_model(found.model, few), None, 2.0, centre)
    never = visits.sum(axis=0) == 0
    assert 20 < never.sum() < 200
    for laws in fitted.laws:
        np.testing.assert_allclose(laws[never], centre[never])


@pytest.mark.parametrize(
    ("states", "length", "budget", "refined"),
    [(100, 10, 4000, 3000), (100, 10, 800, 400), (100, 10, 1200, 720), (60, 10, 1200, 600)],
)
def test_a_large_world_is_refined_as_soon_as_everything_could_be_tried(states, length, budget, refined):
    """At least a quarter of the budget explores, and at most half; a small world is refined for half of it."""
    world = problems.make("random", states=states, actions=4, horizon=length, successors=2)
    assert settings(world=world, refine=None).refined_of(budget) == refined
    assert settings(world=world, refine=0.2).refined_of(budget) == 0.2 * budget


def test_what_is_hoped_for_is_the_same_after_a_stop(found, tmp_path):
    """Refits go on from each other, also over batches that were played before."""
    episodes, estimate = found[0].gathered, found[2]
    ask = {"episodes": 60, "batches": 6, "seed": 3}
    straight = refine(WORLD, episodes, estimate, **ask).episodes

    def stop(played):
        if played == 30:
            raise KeyboardInterrupt

    assert refine(WORLD, episodes, estimate, checkpoint=tmp_path, on_update=stop, **ask).interrupted
    assert len(list(tmp_path.iterdir())) == 3
    again = refine(WORLD, episodes, estimate, checkpoint=tmp_path, **ask).episodes
    np.testing.assert_array_equal(again.states, straight.states)
    np.testing.assert_array_equal(again.rewards, straight.rewards)
