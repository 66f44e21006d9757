"""Rare contexts: where the ascent begins when moments show nothing."""

import importlib
from functools import partial
from itertools import combinations

import numpy as np
import pytest

from recovery.oracles_recovery import random_mixture
from rewardmix import choose_contexts, problems, simulate, uniform
from rewardmix.episodes import Episodes
from rewardmix.online import prequential
from rewardmix.recovery import number_of_contexts, recover
from rewardmix.recovery.bags import bags_of, merge_bags
from rewardmix.recovery.evidence import Question, evidence_of
from rewardmix.recovery.likelihood import Mixture, ascend, e_step
from rewardmix.recovery.rare_start import _distinct, _pull, rare_fits

recovering = importlib.import_module("rewardmix.recovery.recover")


def weights_of(rare, contexts):
    return (rare, *[(1.0 - rare) / (contexts - 1)] * (contexts - 1))


def world(seed, rare, contexts=2, states=10, horizon=20):
    weights = weights_of(rare, contexts)
    model = problems.make(
        "random", states=states, actions=3, horizon=horizon, seed=seed, contexts=contexts, weights=weights
    )
    return model, simulate(uniform(model), model, 2000, seed=seed)


def from_truth(model, evidence, weights=None):
    truth = Mixture(model.weights, model.laws.reshape(model.num_contexts, -1, 2))
    bags = evidence.bags
    return ascend(partial(e_step, bags), truth, average=bags.average, weights=weights).objective


@pytest.mark.parametrize(("seed", "contexts"), [(30, 2), (76, 2), (189, 2), (2, 3)])
def test_no_fit_is_below_the_ascent_from_the_truth(seed, contexts):
    model, episodes = world(seed, 0.01, contexts)
    evidence = evidence_of(episodes)
    found = recovering._candidates(evidence, Question(contexts, seed=seed))
    truth = from_truth(model, evidence)
    others = [fit.objective for fit in found.fits if not fit.start.startswith("rare")]
    assert max(others) < truth - 1.0  # the starts from moments and at random do not find it
    assert found.best.objective > truth - 0.1
    assert found.best.start.startswith("rare")
    assert found.best.mixture.weights.min() < 0.04


def test_weights_that_are_known_stay():
    model, episodes = world(76, 0.01)
    weights = np.array([0.99, 0.01])
    found = recover(episodes, weights=weights, seed=76)
    np.testing.assert_array_equal(found.model.weights, weights)
    best = max(start.objective for start in found.info.starts)
    assert best > from_truth(model, evidence_of(episodes), model.weights) - 0.1


def test_nothing_is_tried_where_two_contexts_are_clear():
    for rare in (0.05, 0.4):
        _, episodes = world(0, rare)
        evidence, question = evidence_of(episodes), Question(2)
        found = recovering._two_contexts(evidence, question)
        assert rare_fits(evidence, question, found.best, None) == []
        assert [fit.start for fit in recovering._candidates(evidence, question).fits] == [f.start for f in found.fits]


def test_a_start_that_finds_nothing_better_changes_nothing():
    _, episodes = world(0, 0.01)
    evidence, question = evidence_of(episodes), Question(2)
    found = recovering._two_contexts(evidence, question)
    assert rare_fits(evidence, question, found.best, None)  # some are tried
    same = recovering._candidates(evidence, question)
    assert [fit.objective for fit in same.fits] == [fit.objective for fit in found.fits]


def test_pairs_alone_have_no_third_order():
    model = problems.make("random", states=5, actions=2, horizon=2, seed=0, weights=(0.05, 0.95))
    evidence = evidence_of(simulate(uniform(model), model, 500, seed=0))
    found = recovering._two_contexts(evidence, Question(2))
    assert rare_fits(evidence, Question(2), found.best, None) == []


def test_the_gradient_is_that_of_all_triples():
    """e3 of the steps' places, and its derivative by the place of each step, by brute force."""
    rng = np.random.default_rng(5)
    points, values, number, contexts = 4, 3, 2, 2
    states = rng.integers(points, size=(7, 5))
    episodes = Episodes.from_arrays(
        states, np.zeros_like(states), rng.integers(values, size=states.shape), num_states=points, num_actions=1,
        reward_values=(0, 1, 2),
    )  # fmt: skip
    bags = bags_of(episodes).reweighted(np.arange(1.0, 8.0))
    owner = rng.integers(contexts, size=7)
    table = rng.normal(size=(contexts, points * values, number))
    places, pulls = np.zeros((7, number)), np.zeros_like(table)
    _pull(bags.symbols, bags.offsets, bags.counts, owner, table, places, pulls)
    slow = np.zeros_like(pulls)
    for bag in range(7):
        symbols = bags.symbols[bags.offsets[bag] : bags.offsets[bag + 1]]
        along = table[owner[bag], symbols]
        np.testing.assert_allclose(places[bag], along.sum(axis=0))
        for i, symbol in enumerate(symbols):
            rest = [j for j in range(len(symbols)) if j != i]
            slow[owner[bag], symbol] += (
                2.0 * bags.counts[bag] * sum(along[j] * along[k] for j, k in combinations(rest, 2))
            )
    np.testing.assert_allclose(pulls, slow, atol=1e-10)


def test_random_mixtures_of_three_values_are_found_too():
    rng = np.random.default_rng(0)
    truth = random_mixture(rng, 2, 12, 3, weights=[0.02, 0.98])
    context = (rng.random(3000) < 0.98).astype(int)
    points = np.argsort(rng.random((3000, 12)), axis=1)[:, :10]
    draws = rng.random(points.shape)[..., None] > np.cumsum(truth.laws[context[:, None], points], axis=-1)
    episodes = Episodes.from_arrays(
        points, np.zeros_like(points), draws.sum(axis=-1), num_states=12, num_actions=1, reward_values=(0, 1, 2)
    )
    evidence = evidence_of(episodes)
    goal = ascend(partial(e_step, evidence.bags), truth, average=evidence.bags.average).objective
    assert recovering._candidates(evidence, Question(2)).best.objective > goal - 0.1


def test_directions_along_which_nothing_lies_are_passed_over_in_silence():
    places = np.zeros((4, 2))
    places[:, 1] = [3.0, -1.0, -1.0, -1.0]
    first, second = _distinct(places, np.ones(4))
    assert np.array_equal(first, places[:, 1])
    assert not second.any()


@pytest.mark.parametrize(("seed", "contexts", "horizon", "size"), [(110, 2, 20, 2000), (107, 3, 12, 6000)])
def test_rare_types_are_counted(seed, contexts, horizon, size, monkeypatch):
    """Without a start for them the choice takes a wrong number, and the right one predicts worse."""
    options = {"states": 10, "actions": 3, "horizon": horizon, "seed": seed, "contexts": contexts}
    model = problems.make("random", **options, weights=weights_of(0.01, contexts)[::-1])
    episodes = simulate(uniform(model), model, size, seed=seed)
    found = choose_contexts(episodes, seed=seed)
    assert found.num_contexts == contexts
    assert found.mixtures[contexts].weights.min() < 0.04
    monkeypatch.setattr(number_of_contexts, "rare_ascents", lambda *args, **settings: [])
    without = choose_contexts(episodes, seed=seed)
    assert without.num_contexts != contexts
    assert without.trials[contexts].held_out < found.trials[contexts].held_out


@pytest.mark.parametrize("seed", [30, 76, 189])
def test_forecasts_look_for_rare_types(seed, monkeypatch):
    _, episodes = world(seed, 0.01)
    bags = merge_bags(bags_of(episodes))
    found = prequential.new_forecasts(bags, 2, (), seed)[0]
    assert found.weights.min() < 0.02
    monkeypatch.setattr(prequential, "rare_ascents", lambda *args, **settings: [])
    without = prequential.new_forecasts(bags, 2, (), seed)[0]
    assert without.weights.min() > 0.3
    assert e_step(bags, without).loglik < e_step(bags, found).loglik - 10.0
