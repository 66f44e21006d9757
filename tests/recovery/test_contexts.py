import numpy as np
import pytest

from recovery.oracles_recovery import drawn, random_mixture
from rewardmix import InputError
from rewardmix.recovery import choose_contexts, recover
from rewardmix.recovery.bags import bags_of, merge_bags
from rewardmix.recovery.likelihood import ascend, e_step
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
        assert choice.parameters == {m: 7 * m - 1 for m in range(1, 5)}
        for m, loglik in choice.loglik.items():
            expected = -2 * loglik + choice.parameters[m] * np.log(4000)
            assert choice.criterion[m] == pytest.approx(expected)
            assert any(start.converged and start.loglik == loglik for start in choice.starts[m])


def test_one_context_has_the_likelihood_of_the_average():
    _, episodes = three(4)
    bags = bags_of(episodes)
    seen = bags.occurrences
    expected = (seen * np.log(seen / seen.sum(axis=1, keepdims=True))).sum()
    assert choose_contexts(episodes, max_contexts=1).loglik[1] == pytest.approx(expected)


def test_little_data_choose_one_context_and_none_is_refused():
    _, episodes = three(5)
    assert choose_contexts(episodes[:1], max_contexts=3).num_contexts == 1
    assert choose_contexts(episodes[:5], max_contexts=2).num_contexts == 1
    with pytest.raises(InputError, match=r"episodes: found no episodes, expected at least one"):
        choose_contexts(episodes[:0])
