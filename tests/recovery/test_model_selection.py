from dataclasses import replace

import numpy as np
import pytest

from oracles.mixtures import draw_episodes, random_mixture
from rewardmix import InputError
from rewardmix.recovery import many_types, model_selection, recover, select_num_types
from rewardmix.recovery.evidence import RecoverySettings, make_recovery_data
from rewardmix.recovery.likelihood import e_step, run_em, single_type_mixture
from rewardmix.recovery.model_selection import TypeCountScore, TypeSelection, select_from_data
from rewardmix.recovery.recovery_result import match_order
from rewardmix.recovery.reward_patterns import merge_patterns, patterns_from_episodes


def three_types(seed, values=2):
    rng = np.random.default_rng(seed)
    truth = random_mixture(rng, 3, 8, values, weights=[0.5, 0.3, 0.2])
    return truth, draw_episodes(rng, truth, rng.integers(0, 8, (8000, 7)))


@pytest.mark.parametrize("values", [2, 3])
def test_three_contexts_are_found(values):
    truth, episodes = three_types(1, values)
    result = recover(episodes, num_types=3)
    patterns = merge_patterns(patterns_from_episodes(episodes))
    fit = run_em(lambda m: e_step(patterns, m), truth, prior_mean=patterns.marginal_probs, pseudocount=1.0)
    assert result.info.loglik >= fit.loglik - 1e-3
    probs = result.model.reward_probs.reshape(3, 8, values)
    order = match_order(probs, truth.probs)
    np.testing.assert_allclose(result.model.weights[order], truth.weights, atol=0.05)
    assert np.sqrt(((probs[order] - truth.probs) ** 2).mean()) < 0.05
    assert result.info.num_reproduced >= 2
    assert result.info.certificate.lp_status == "not run"
    assert result.info.certificate.contains_model


def test_known_weights_stay():
    _, episodes = three_types(2)
    weights = [0.2, 0.3, 0.5]
    np.testing.assert_array_equal(recover(episodes, num_types=3, weights=weights).model.weights, weights)


@pytest.mark.statistical
def test_the_number_of_contexts_is_chosen():
    rng = np.random.default_rng(3)
    for num_types in (1, 2, 3):
        truth = random_mixture(rng, num_types, 6)
        episodes = draw_episodes(rng, truth, rng.integers(0, 6, (4000, 6)))
        choice = select_num_types(episodes, max_types=4)
        assert choice.num_types == num_types
        assert list(choice.scores) == list(range(1, num_types + 2))
        for m, trial in choice.scores.items():
            assert trial.num_parameters == 7 * m - 1
            assert choice.bic[m] == pytest.approx(-2 * trial.loglik + trial.num_parameters * np.log(4000))
            assert e_step(merge_patterns(patterns_from_episodes(episodes)), choice.mixtures[m]).loglik == trial.loglik


def test_held_out_scores_by_hand():
    """The same split, with mixtures that are fitted and scored one episode at a time."""
    rng = np.random.default_rng(7)
    episodes = draw_episodes(rng, random_mixture(rng, 2, 4), rng.integers(0, 4, (300, 5)))
    evidence = make_recovery_data(episodes)
    choice = select_from_data(evidence, 2, seed=3)
    halves = model_selection._split_in_half(evidence.patterns, 3)
    assert sum(half.num_episodes for half in halves) == 300
    assert all(120 < half.num_episodes < 180 for half in halves)
    np.testing.assert_array_equal(sum(half.reward_counts for half in halves), evidence.patterns.reward_counts)
    scores: dict[int, list[float]] = {1: [], 2: []}
    for fitted, other in (halves, halves[::-1]):
        question = RecoverySettings(2, None, 1.0, 3)
        alone = e_step(fitted, single_type_mixture(fitted)).loglik
        two = model_selection._fit_half(
            replace(evidence, patterns=fitted, nonadaptive_patterns=fitted), question, alone
        ).mixture
        for mixture in (single_type_mixture(fitted), two):
            for pattern, count in enumerate(other.counts):
                symbols = other.symbols[other.offsets[pattern] : other.offsets[pattern + 1]]
                probs = np.maximum(mixture.probs, 1e-12).reshape(mixture.num_types, -1)
                likelihood = (mixture.weights * probs[:, symbols].prod(axis=1)).sum()
                scores[mixture.num_types] += [np.log(likelihood)] * int(count)
    gains = np.array(scores[2]) - np.array(scores[1])
    assert choice.scores[2].held_out_loglik == pytest.approx(np.mean(scores[2]))
    assert choice.scores[2].loglik_gain == pytest.approx(gains.mean())
    assert choice.scores[2].gain_error == pytest.approx(gains.std() / np.sqrt(300))
    assert (choice.scores[2].above_one, choice.scores[2].error_above_one) == (
        choice.scores[2].loglik_gain,
        choice.scores[2].gain_error,
    )


def test_the_gain_over_one_type_is_that_of_all_steps():
    _, episodes = three_types(6)
    trials = select_num_types(episodes[:2000], max_types=3).scores
    assert trials[3].above_one == pytest.approx(trials[3].held_out_loglik - trials[1].held_out_loglik)
    assert trials[3].above_one == pytest.approx(trials[2].loglik_gain + trials[3].loglik_gain)
    assert trials[3].error_above_one <= trials[2].gain_error + trials[3].gain_error


def trials_of(*gains, episodes=1000):
    """Trials with so many nats in all, and standard errors, over one less and over one."""
    empty = TypeCountScore(0.0, *4 * [float("nan")], 0.0, 1, 0.0)
    value = [TypeCountScore(0.0, *(nats / episodes for nats in gain), 0.0, 1, 0.0) for gain in gains]
    return dict(enumerate([empty, *value], 1))


@pytest.mark.parametrize(
    ("gains", "number"),
    [
        ([], 1),
        ([(2.9, 0.1, 2.9, 0.1)], 1),  # three nats in all, or nothing is claimed
        ([(3.1, 0.1, 3.1, 0.1)], 2),
        ([(30.0, 13.0, 30.0, 13.0)], 1),  # and 2.33 standard errors
        ([(30.0, 12.0, 30.0, 12.0)], 2),
        ([(50.0, 5.0, 50.0, 5.0), (1.1, 3.0, 51.1, 6.0)], 3),  # one more as long as it gains a nat ...
        ([(50.0, 5.0, 50.0, 5.0), (0.9, 0.1, 50.9, 5.0)], 2),  # ... whatever its standard error
        ([(50.0, 5.0, 50.0, 5.0), (0.5, 0.1, 50.5, 5.0), (40.0, 1.0, 90.5, 5.0)], 2),
        ([(2.0, 0.5, 2.0, 0.5), (2.0, 0.5, 4.0, 0.6)], 3),  # two small steps may be clear together
        ([(4.0, 1.0, 4.0, 1.0), (1.5, 2.0, 5.5, 3.0)], 2),  # what a noisy step makes unclear is not claimed
        ([(2.0, 0.1, 2.0, 0.1), (1.5, 2.0, 3.5, 3.0)], 1),
    ],
)
def test_doubt_is_against_one_type(gains, number):
    assert model_selection.count_types(trials_of(*gains), 1000) == number


def test_the_choice_is_said():
    scores = trials_of((500.0, 100.0, 500.0, 100.0), (20.0, 10.0, 520.0, 110.0))
    assert TypeSelection(1, scores, {}).text.startswith("One type explains the episodes as well as more types do")
    assert TypeSelection(2, scores, {}).text == (
        "2 types predict held-out episodes best: 0.5000 nats per episode above one type (standard error 0.1000)."
    )
    assert "0.5200 nats per episode above one type (standard error 0.1100), 0.0200 above one type less" in (
        TypeSelection(3, scores, {}).text
    )


def test_one_context_has_the_likelihood_of_the_average():
    _, episodes = three_types(4)
    patterns = patterns_from_episodes(episodes)
    counts = patterns.reward_counts
    expected = (counts * np.log(counts / counts.sum(axis=1, keepdims=True))).sum()
    assert select_num_types(episodes, max_types=1).scores[1].loglik == pytest.approx(expected)


def test_little_data_choose_one_context_and_none_is_refused():
    _, episodes = three_types(5)
    assert select_num_types(episodes[:1], max_types=3).num_types == 1
    assert select_num_types(episodes[:5], max_types=2).num_types == 1
    with pytest.raises(InputError, match=r"episodes: got no episodes, expected at least one"):
        select_num_types(episodes[:0])


def test_large_tables_are_filled_in_fewer_rounds(monkeypatch):
    """They only say where an ascent starts; their products take most of the time where there are thousands of them."""
    _, episodes = three_types(1)
    intervals = make_recovery_data(episodes[:10]).confidence_set
    rounds, calls = [], []
    eigenpairs = many_types.top_eigenpairs
    monkeypatch.setattr(many_types, "top_eigenpairs", lambda *value: calls.append(1) or eigenpairs(*value))
    for filled in (4e6, 5.5 * 64, 0.0):
        calls.clear()
        monkeypatch.setattr(many_types, "_MAX_FILLED_ENTRIES", filled)
        assert np.isfinite(many_types.fit_factors(intervals, 2)).all()
        rounds.append(len(calls))
    assert rounds == [10, 5, 2]
