import numpy as np
import pytest
from scipy.optimize import minimize

from recovery.oracles_recovery import drawn, every_outcome, joint_table, listed, random_mixture
from rewardmix import belief
from rewardmix.recovery.bags import Bags, bags_of, merge_bags
from rewardmix.recovery.likelihood import FLOOR, Mixture, ascend, e_step, m_step
from rewardmix.recovery.standard_errors import _posterior


def brute(bags, mixture):
    """(log-likelihood, expected contexts, expected outcomes) bag by bag."""
    loglik, weights, outcomes = 0.0, np.zeros(mixture.num_contexts), np.zeros(mixture.laws.shape)
    for count, bag in listed(bags):
        joint = joint_table(bag, mixture)
        posterior = joint / joint.sum()
        loglik += count * np.log(joint.sum())
        weights += count * posterior
        for x, z in bag:
            outcomes[:, x, z] += count * posterior
    return loglik, weights, outcomes


@pytest.mark.parametrize(("contexts", "values"), [(2, 2), (3, 2), (4, 3), (5, 2), (9, 2)])
def test_statistics_are_those_of_the_joint_table(contexts, values):
    rng = np.random.default_rng(contexts)
    mixture = random_mixture(rng, contexts, 4, values)
    bags = bags_of(drawn(rng, mixture, rng.integers(0, 4, (60, 5))))
    loglik, weights, outcomes = brute(bags, mixture)
    found = e_step(bags, mixture)
    assert found.loglik == pytest.approx(loglik, rel=1e-12)
    np.testing.assert_allclose(found.weights, weights, rtol=1e-12)
    np.testing.assert_allclose(found.outcomes, outcomes, rtol=1e-10, atol=1e-12)


def test_likelihoods_of_many_all_but_impossible_bags_are_multiplied_without_underflow():
    rng = np.random.default_rng(3)
    laws = np.full((2, 2, 2), FLOOR)
    laws[:, 0, 0], laws[:, 1] = 1.0 - FLOOR, [[0.3, 0.7], [0.6, 0.4]]
    mixture = Mixture(np.array([0.25, 0.75]), laws)
    lengths = rng.integers(1, 24, 200)
    symbols = rng.choice([0, 1, 1, 1, 2, 3], int(lengths.sum())).astype(np.int32)  # 1: a reward of probability FLOOR
    bags = Bags(symbols, np.concatenate([[0], np.cumsum(lengths)]), rng.choice([1.0, 1.0, 2.0], 200), 2, 2)
    exact = 0.0
    for count, bag in listed(bags):
        terms = np.log(mixture.weights) + sum(np.log(laws[:, x, z]) for x, z in bag)
        exact += count * (terms.max() + np.log(np.exp(terms - terms.max()).sum()))
    assert e_step(bags, mixture).loglik == pytest.approx(exact, rel=1e-13)


def test_merging_equal_bags_changes_nothing():
    rng = np.random.default_rng(1)
    mixture = random_mixture(rng, 3, 3)
    bags = bags_of(drawn(rng, mixture, rng.integers(0, 3, (3000, 4))))
    fewer = merge_bags(bags)
    assert fewer.counts.size <= 126 < bags.counts.size  # bags of 4 out of 6 symbols
    assert fewer.total == 3000
    np.testing.assert_array_equal(fewer.occurrences, bags.occurrences)
    one, two = e_step(bags, mixture), e_step(fewer, mixture)
    assert one.loglik == pytest.approx(two.loglik, rel=1e-12)
    np.testing.assert_allclose(one.outcomes, two.outcomes, rtol=1e-10)
    plain = {tuple(sorted(bag)) for _, bag in listed(bags)}
    assert plain == {tuple(bag) for _, bag in listed(fewer)}


def test_statistics_add_over_chunks():
    rng = np.random.default_rng(2)
    mixture = random_mixture(rng, 2, 5)
    episodes = drawn(rng, mixture, rng.integers(0, 5, (400, 6)))
    whole = e_step(bags_of(episodes), mixture)
    parts = e_step(bags_of(episodes[:150]), mixture) + e_step(bags_of(episodes[150:]), mixture)
    np.testing.assert_allclose(parts.outcomes, whole.outcomes, rtol=1e-12)
    assert (parts.loglik, parts.bags) == (pytest.approx(whole.loglik, rel=1e-13), 400)
    average = bags_of(episodes).average
    np.testing.assert_allclose(m_step(parts, average, 1.0).laws, m_step(whole, average, 1.0).laws, rtol=1e-12)


def test_thousands_of_steps_do_not_underflow():
    rng = np.random.default_rng(3)
    mixture = random_mixture(rng, 2, 2)
    episodes = drawn(rng, mixture, rng.integers(0, 2, (3, 4000)))
    bags = bags_of(episodes)
    logs = np.log(mixture.weights) + np.array(
        [[sum(np.log(laws[x, z]) for x, z in bag) for laws in mixture.laws] for _, bag in listed(bags)]
    )
    expected = np.logaddexp.reduce(logs, axis=1).sum()
    assert e_step(bags, mixture).loglik == pytest.approx(expected, rel=1e-12)


def test_an_impossible_reward_is_only_very_unlikely():
    bags = Bags(np.array([1, 3], np.int32), np.array([0, 2]), np.ones(1), 2, 2)
    mixture = Mixture(np.array([0.5, 0.5]), np.array([[[1.0, 0.0], [1.0, 0.0]]] * 2))
    assert e_step(bags, mixture).loglik == pytest.approx(2 * np.log(FLOOR))


def test_update_shrinks_to_the_average_and_keeps_known_weights():
    bags = every_outcome(Mixture(np.array([0.4, 0.6]), np.array([[[0.2, 0.8]], [[0.9, 0.1]]])), [(0, 0)])
    mixture = Mixture(np.array([0.3, 0.7]), np.array([[[0.3, 0.7]], [[0.8, 0.2]]]))
    seen = e_step(bags, mixture)
    strong = m_step(seen, bags.average, 1e9, np.array([0.3, 0.7]))
    np.testing.assert_allclose(strong.laws, np.stack([bags.average] * 2), rtol=1e-6)
    np.testing.assert_array_equal(strong.weights, [0.3, 0.7])
    free = m_step(seen, bags.average, 0.0)
    np.testing.assert_allclose(free.weights, seen.weights / seen.weights.sum())
    np.testing.assert_allclose(free.laws[0, 0], seen.outcomes[0, 0] / seen.outcomes[0, 0].sum())


def test_the_truth_is_a_fixed_point_of_its_own_law():
    rng = np.random.default_rng(4)
    mixture = random_mixture(rng, 3, 3)
    bags = every_outcome(mixture, [(0, 1, 2, 0, 1)])
    again = m_step(e_step(bags, mixture), bags.average, 0.0)
    np.testing.assert_allclose(again.laws, mixture.laws, rtol=1e-10)
    np.testing.assert_allclose(again.weights, mixture.weights, rtol=1e-10)


@pytest.mark.parametrize("prior", [0.0, 1.0, 20.0])
def test_climb_ends_where_a_general_optimiser_does(prior):
    rng = np.random.default_rng(5)
    truth = random_mixture(rng, 2, 3, weights=[0.4, 0.6])
    bags = merge_bags(bags_of(drawn(rng, truth, rng.integers(0, 3, (500, 4)))))
    fit = ascend(lambda m: e_step(bags, m), truth, average=bags.average, prior=prior, tolerance=1e-14)

    def loss(theta):
        p = 1.0 / (1.0 + np.exp(-theta[1:].reshape(2, 3)))
        w = 1.0 / (1.0 + np.exp(-theta[0]))
        laws = np.stack([1.0 - p, p], axis=-1)
        penalty = prior * (bags.average * np.log(laws)).sum()
        return -brute(bags, Mixture(np.array([w, 1.0 - w]), laws))[0] - penalty

    logit = np.log(fit.mixture.laws[..., 1] / fit.mixture.laws[..., 0]).ravel()
    start = np.concatenate([[np.log(fit.mixture.weights[0] / fit.mixture.weights[1])], logit])
    assert loss(start) == pytest.approx(-fit.objective, rel=1e-12)
    other = minimize(loss, start + 0.1 * rng.normal(size=7), method="BFGS")
    assert other.fun == pytest.approx(-fit.objective, abs=1e-5)
    assert fit.converged


def test_climbing_never_goes_down_and_acceleration_keeps_the_optimum():
    rng = np.random.default_rng(6)
    truth = random_mixture(rng, 2, 4)
    bags = merge_bags(bags_of(drawn(rng, truth, rng.integers(0, 4, (400, 4)))))
    start = random_mixture(rng, 2, 4)
    plain, last = start, -np.inf
    for _ in range(3000):
        seen = e_step(bags, plain)
        assert seen.loglik >= last - 1e-9
        last, plain = seen.loglik, m_step(seen, bags.average, 0.0)
    fit = ascend(lambda m: e_step(bags, m), start, average=bags.average, prior=0.0)
    assert fit.loglik >= last - 1e-4
    short = ascend(lambda m: e_step(bags, m), start, average=bags.average, prior=0.0, max_iterations=4)
    assert not short.converged
    assert short.loglik <= fit.loglik


@pytest.mark.parametrize("contexts", [2, 3, 5])
def test_posteriors_of_kernels_are_those_of_the_bayes_update(contexts):
    """The belief after each bag: from the E-step of that bag alone, and from the standard errors' kernel."""
    rng = np.random.default_rng(contexts)
    mixture = random_mixture(rng, contexts, 4, 3)
    episodes = drawn(rng, mixture, rng.integers(0, 4, (30, 6)))
    bags, table = bags_of(episodes), np.ascontiguousarray(mixture.laws.reshape(contexts, -1).T)
    for k in range(len(episodes)):
        low, high = bags.offsets[k], bags.offsets[k + 1]
        expected = belief.posterior(mixture.weights, table[bags.symbols[low:high]])[-1]
        np.testing.assert_allclose(e_step(bags_of(episodes[k : k + 1]), mixture).weights, expected, rtol=1e-12)
        joint = np.empty(contexts)
        _posterior(bags.symbols, low, high, table, mixture.weights, joint)
        np.testing.assert_allclose(joint, expected, rtol=1e-12)
