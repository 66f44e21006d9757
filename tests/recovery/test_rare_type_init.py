"""Rare types: where the ascent begins when moments show nothing."""

import importlib
from functools import partial
from itertools import combinations

import numpy as np
import pytest

from oracles.mixtures import random_mixture
from rewardmix import problems, select_num_types, simulate, uniform_policy
from rewardmix.episodes import Episodes
from rewardmix.online import prequential
from rewardmix.recovery import model_selection, recover
from rewardmix.recovery.evidence import RecoverySettings, make_recovery_data
from rewardmix.recovery.likelihood import Mixture, e_step, run_em
from rewardmix.recovery.rare_type_init import _select_distinct_columns, _tensor_power_step, fit_rare_types
from rewardmix.recovery.reward_patterns import merge_patterns, patterns_from_episodes

ml_recovery = importlib.import_module("rewardmix.recovery.ml_recovery")


def weights_of(rare, num_types):
    return (rare, *[(1.0 - rare) / (num_types - 1)] * (num_types - 1))


def rare_type_log(seed, rare, num_types=2, states=10, horizon=20):
    weights = weights_of(rare, num_types)
    model = problems.make_model(
        "random", states=states, actions=3, horizon=horizon, seed=seed, num_types=num_types, weights=weights
    )
    return model, simulate(uniform_policy(model), model, 2000, seed=seed)


def from_truth(model, evidence, weights=None):
    truth = Mixture(model.weights, model.reward_probs.reshape(model.num_types, -1, 2))
    patterns = evidence.patterns
    return run_em(partial(e_step, patterns), truth, prior_mean=patterns.marginal_probs, weights=weights).objective


@pytest.mark.statistical
@pytest.mark.parametrize(("seed", "num_types"), [(30, 2), (76, 2), (189, 2), (2, 3)])
def test_no_fit_is_below_the_ascent_from_the_truth(seed, num_types):
    model, episodes = rare_type_log(seed, 0.01, num_types)
    evidence = make_recovery_data(episodes)
    result = ml_recovery._fit_candidates(evidence, RecoverySettings(num_types, seed=seed))
    truth = from_truth(model, evidence)
    others = [fit.objective for fit in result.fits if not fit.init_name.startswith("rare")]
    assert max(others) < truth - 1.0  # the starts from moments and at random do not find it
    assert result.best.objective > truth - 0.1
    assert result.best.init_name.startswith("rare")
    assert result.best.mixture.weights.min() < 0.04


def test_weights_that_are_known_stay():
    model, episodes = rare_type_log(76, 0.01)
    weights = np.array([0.99, 0.01])
    result = recover(episodes, weights=weights, seed=76)
    np.testing.assert_array_equal(result.model.weights, weights)
    best = max(start.objective for start in result.info.em_runs)
    assert best > from_truth(model, make_recovery_data(episodes), model.weights) - 0.1


def test_nothing_is_tried_where_two_contexts_are_clear():
    for rare in (0.05, 0.4):
        _, episodes = rare_type_log(0, rare)
        evidence, question = make_recovery_data(episodes), RecoverySettings(2)
        result = ml_recovery._fit_two_types(evidence, question)
        assert fit_rare_types(evidence, question, result.best, None) == []
        assert [fit.init_name for fit in ml_recovery._fit_candidates(evidence, question).fits] == [
            f.init_name for f in result.fits
        ]


def test_a_start_that_finds_nothing_better_changes_nothing():
    _, episodes = rare_type_log(0, 0.01)
    evidence, question = make_recovery_data(episodes), RecoverySettings(2)
    result = ml_recovery._fit_two_types(evidence, question)
    assert fit_rare_types(evidence, question, result.best, None)  # some are tried
    same = ml_recovery._fit_candidates(evidence, question)
    assert [fit.objective for fit in same.fits] == [fit.objective for fit in result.fits]


def test_pairs_alone_have_no_third_order():
    model = problems.make_model("random", states=5, actions=2, horizon=2, seed=0, weights=(0.05, 0.95))
    evidence = make_recovery_data(simulate(uniform_policy(model), model, 500, seed=0))
    result = ml_recovery._fit_two_types(evidence, RecoverySettings(2))
    assert fit_rare_types(evidence, RecoverySettings(2), result.best, None) == []


def test_the_gradient_is_that_of_all_triples():
    """e3 of the steps' places, and its derivative by the place of each step, by brute force."""
    rng = np.random.default_rng(5)
    points, values, number, num_types = 4, 3, 2, 2
    states = rng.integers(points, size=(7, 5))
    episodes = Episodes.from_arrays(
        states, np.zeros_like(states), rng.integers(values, size=states.shape), num_states=points, num_actions=1,
        reward_values=(0, 1, 2),
    )  # fmt: skip
    patterns = patterns_from_episodes(episodes).with_counts(np.arange(1.0, 8.0))
    types = rng.integers(num_types, size=7)
    table = rng.normal(size=(num_types, points * values, number))
    scores, gradients = np.zeros((7, number)), np.zeros_like(table)
    _tensor_power_step(patterns.symbols, patterns.offsets, patterns.counts, types, table, scores, gradients)
    slow = np.zeros_like(gradients)
    for pattern in range(7):
        symbols = patterns.symbols[patterns.offsets[pattern] : patterns.offsets[pattern + 1]]
        along = table[types[pattern], symbols]
        np.testing.assert_allclose(scores[pattern], along.sum(axis=0))
        for i, symbol in enumerate(symbols):
            rest = [j for j in range(len(symbols)) if j != i]
            slow[types[pattern], symbol] += (
                2.0 * patterns.counts[pattern] * sum(along[j] * along[k] for j, k in combinations(rest, 2))
            )
    np.testing.assert_allclose(gradients, slow, atol=1e-10)


def test_random_mixtures_of_three_values_are_found_too():
    rng = np.random.default_rng(0)
    truth = random_mixture(rng, 2, 12, 3, weights=[0.02, 0.98])
    types = (rng.random(3000) < 0.98).astype(int)
    points = np.argsort(rng.random((3000, 12)), axis=1)[:, :10]
    draws = rng.random(points.shape)[..., None] > np.cumsum(truth.probs[types[:, None], points], axis=-1)
    episodes = Episodes.from_arrays(
        points, np.zeros_like(points), draws.sum(axis=-1), num_states=12, num_actions=1, reward_values=(0, 1, 2)
    )
    evidence = make_recovery_data(episodes)
    goal = run_em(partial(e_step, evidence.patterns), truth, prior_mean=evidence.patterns.marginal_probs).objective
    assert ml_recovery._fit_candidates(evidence, RecoverySettings(2)).best.objective > goal - 0.1


def test_directions_along_which_nothing_lies_are_passed_over_in_silence():
    scores = np.zeros((4, 2))
    scores[:, 1] = [3.0, -1.0, -1.0, -1.0]
    first, second = _select_distinct_columns(scores, np.ones(4))
    assert np.array_equal(first, scores[:, 1])
    assert not second.any()


@pytest.mark.statistical
@pytest.mark.parametrize(("seed", "num_types", "horizon", "size"), [(110, 2, 20, 2000), (107, 3, 12, 6000)])
def test_rare_types_are_counted(seed, num_types, horizon, size, monkeypatch):
    """Without a start for them the choice takes a wrong number, and the right one predicts worse."""
    options = {"states": 10, "actions": 3, "horizon": horizon, "seed": seed, "num_types": num_types}
    model = problems.make_model("random", **options, weights=weights_of(0.01, num_types)[::-1])
    episodes = simulate(uniform_policy(model), model, size, seed=seed)
    selection = select_num_types(episodes, seed=seed)
    assert selection.num_types == num_types
    assert selection.mixtures[num_types].weights.min() < 0.04
    monkeypatch.setattr(model_selection, "run_em_rare", lambda *args, **em_options: [])
    without = select_num_types(episodes, seed=seed)
    assert without.num_types != num_types
    assert without.scores[num_types].held_out_loglik < selection.scores[num_types].held_out_loglik


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [30, 76, 189])
def test_forecasts_look_for_rare_types(seed, monkeypatch):
    _, episodes = rare_type_log(seed, 0.01)
    patterns = merge_patterns(patterns_from_episodes(episodes))
    fitted = prequential.fit_forecasts(patterns, 2, (), seed)[0]
    assert fitted.weights.min() < 0.02
    monkeypatch.setattr(prequential, "run_em_rare", lambda *args, **em_options: [])
    without = prequential.fit_forecasts(patterns, 2, (), seed)[0]
    assert without.weights.min() > 0.3
    assert e_step(patterns, without).loglik < e_step(patterns, fitted).loglik - 10.0
