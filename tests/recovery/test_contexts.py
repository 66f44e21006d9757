from dataclasses import replace

import numpy as np
import pytest

from recovery.oracles_recovery import drawn, random_mixture
from rewardmix import InputError
from rewardmix.recovery import choose_contexts, many_contexts, number_of_contexts, recover
from rewardmix.recovery.bags import bags_of, merge_bags
from rewardmix.recovery.evidence import Question, evidence_of
from rewardmix.recovery.likelihood import ascend, e_step, one_context
from rewardmix.recovery.number_of_contexts import Choice, Trial, choose
from rewardmix.recovery.recovery_result import alignment


def three(seed, values=2):
    rng = np.random.default_rng(seed)
    truth = random_mixture(rng, 3, 8, values, weights=[0.5, 0.3, 0.2])
    return truth, drawn(rng, truth, rng.integers(0, 8, (8000, 7)))


@pytest.mark.parametrize("values", [2, 3])
def test_three_contexts_are_found(values):
    truth, episodes = three(1, values)
    found = recover(episodes, num_contexts=3)
    bags = merge_bags(bags_of(episodes))
    fit = ascend(lambda m: e_step(bags, m), truth, average=bags.average, prior=1.0)
    assert found.info.loglik >= fit.loglik - 1e-3
    laws = found.model.laws.reshape(3, 8, values)
    order = alignment(laws, truth.laws)
    np.testing.assert_allclose(found.model.weights[order], truth.weights, atol=0.05)
    assert np.sqrt(((laws[order] - truth.laws) ** 2).mean()) < 0.05
    assert found.info.reproduced >= 2
    assert found.info.certificate.program == "not asked"
    assert found.info.certificate.contained


def test_known_weights_stay():
    _, episodes = three(2)
    weights = [0.2, 0.3, 0.5]
    np.testing.assert_array_equal(recover(episodes, num_contexts=3, weights=weights).model.weights, weights)


def test_the_number_of_contexts_is_chosen():
    rng = np.random.default_rng(3)
    for contexts in (1, 2, 3):
        truth = random_mixture(rng, contexts, 6)
        episodes = drawn(rng, truth, rng.integers(0, 6, (4000, 6)))
        choice = choose_contexts(episodes, max_contexts=4)
        assert choice.num_contexts == contexts
        assert list(choice.trials) == list(range(1, contexts + 2))
        for m, trial in choice.trials.items():
            assert trial.parameters == 7 * m - 1
            assert choice.criterion[m] == pytest.approx(-2 * trial.loglik + trial.parameters * np.log(4000))
            assert e_step(merge_bags(bags_of(episodes)), choice.mixtures[m]).loglik == trial.loglik


def test_held_out_scores_by_hand():
    """The same split, with mixtures that are fitted and scored one episode at a time."""
    rng = np.random.default_rng(7)
    episodes = drawn(rng, random_mixture(rng, 2, 4), rng.integers(0, 4, (300, 5)))
    evidence = evidence_of(episodes)
    choice = choose(evidence, 2, seed=3)
    halves = number_of_contexts._halves(evidence.bags, 3)
    assert sum(half.total for half in halves) == 300
    assert all(120 < half.total < 180 for half in halves)
    np.testing.assert_array_equal(sum(half.occurrences for half in halves), evidence.bags.occurrences)
    scores: dict[int, list[float]] = {1: [], 2: []}
    for fitted, other in (halves, halves[::-1]):
        question = Question(2, None, 1.0, 3)
        alone = e_step(fitted, one_context(fitted)).loglik
        two = number_of_contexts._fitted(replace(evidence, bags=fitted, blind=fitted), question, alone).mixture
        for mixture in (one_context(fitted), two):
            for bag, count in enumerate(other.counts):
                symbols = other.symbols[other.offsets[bag] : other.offsets[bag + 1]]
                laws = np.maximum(mixture.laws, 1e-12).reshape(mixture.num_contexts, -1)
                likelihood = (mixture.weights * laws[:, symbols].prod(axis=1)).sum()
                scores[mixture.num_contexts] += [np.log(likelihood)] * int(count)
    gains = np.array(scores[2]) - np.array(scores[1])
    assert choice.trials[2].held_out == pytest.approx(np.mean(scores[2]))
    assert choice.trials[2].gain == pytest.approx(gains.mean())
    assert choice.trials[2].error == pytest.approx(gains.std() / np.sqrt(300))
    assert (choice.trials[2].above_one, choice.trials[2].error_above_one) == (
        choice.trials[2].gain,
        choice.trials[2].error,
    )


def test_the_gain_over_one_type_is_that_of_all_steps():
    _, episodes = three(6)
    trials = choose_contexts(episodes[:2000], max_contexts=3).trials
    assert trials[3].above_one == pytest.approx(trials[3].held_out - trials[1].held_out)
    assert trials[3].above_one == pytest.approx(trials[2].gain + trials[3].gain)
    assert trials[3].error_above_one <= trials[2].error + trials[3].error


def trials_of(*gains, episodes=1000):
    """Trials with so many nats in all, and standard errors, over one less and over one."""
    nothing = Trial(0.0, *4 * [float("nan")], 0.0, 1, 0.0)
    given = [Trial(0.0, *(nats / episodes for nats in gain), 0.0, 1, 0.0) for gain in gains]
    return dict(enumerate([nothing, *given], 1))


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
    assert number_of_contexts.count_contexts(trials_of(*gains), 1000) == number


def test_the_choice_is_said():
    held = trials_of((500.0, 100.0, 500.0, 100.0), (20.0, 10.0, 520.0, 110.0))
    assert Choice(1, held, {}).sentence.startswith("One type explains the episodes as well as more do")
    assert Choice(2, held, {}).sentence == (
        "2 types predict episodes that were held out best: 0.5000 nats an episode above one type (standard error "
        "0.1000)."
    )
    assert "0.5200 nats an episode above one type (standard error 0.1100), 0.0200 above one type less" in (
        Choice(3, held, {}).sentence
    )


def test_one_context_has_the_likelihood_of_the_average():
    _, episodes = three(4)
    bags = bags_of(episodes)
    seen = bags.occurrences
    expected = (seen * np.log(seen / seen.sum(axis=1, keepdims=True))).sum()
    assert choose_contexts(episodes, max_contexts=1).trials[1].loglik == pytest.approx(expected)


def test_little_data_choose_one_context_and_none_is_refused():
    _, episodes = three(5)
    assert choose_contexts(episodes[:1], max_contexts=3).num_contexts == 1
    assert choose_contexts(episodes[:5], max_contexts=2).num_contexts == 1
    with pytest.raises(InputError, match=r"episodes: found no episodes, expected at least one"):
        choose_contexts(episodes[:0])


def test_large_tables_are_filled_in_fewer_rounds(monkeypatch):
    """They only say where an ascent starts; their products take most of the time where there are thousands of them."""
    _, episodes = three(1)
    confidence = evidence_of(episodes[:10]).confidence
    rounds, calls = [], []
    eigenpairs = many_contexts.leading_eigenpairs
    monkeypatch.setattr(many_contexts, "leading_eigenpairs", lambda *given: calls.append(1) or eigenpairs(*given))
    for filled in (4e6, 5.5 * 64, 0.0):
        calls.clear()
        monkeypatch.setattr(many_contexts, "_FILLED", filled)
        assert np.isfinite(many_contexts.factors(confidence, 2)).all()
        rounds.append(len(calls))
    assert rounds == [10, 5, 2]
