import numpy as np
import pytest
from scipy.optimize import minimize

from oracles.mixtures import draw_episodes, enumerate_patterns, joint_probs, list_patterns, random_mixture
from rewardmix import belief
from rewardmix.recovery.likelihood import MIN_PROB, Mixture, e_step, m_step, run_em
from rewardmix.recovery.reward_patterns import RewardPatterns, merge_patterns, patterns_from_episodes
from rewardmix.recovery.standard_errors import _type_posterior


def brute_force(patterns, mixture):
    """(log-likelihood, expected contexts, expected outcomes) bag by bag."""
    loglik, weights, reward_indices = 0.0, np.zeros(mixture.num_types), np.zeros(mixture.probs.shape)
    for count, pattern in list_patterns(patterns):
        joint = joint_probs(pattern, mixture)
        posterior = joint / joint.sum()
        loglik += count * np.log(joint.sum())
        weights += count * posterior
        for x, z in pattern:
            reward_indices[:, x, z] += count * posterior
    return loglik, weights, reward_indices


@pytest.mark.system
@pytest.mark.parametrize(("num_types", "values"), [(2, 2), (3, 2), (4, 3), (5, 2), (9, 2)])
def test_statistics_are_those_of_the_joint_table(num_types, values):
    rng = np.random.default_rng(num_types)
    mixture = random_mixture(rng, num_types, 4, values)
    patterns = patterns_from_episodes(draw_episodes(rng, mixture, rng.integers(0, 4, (60, 5))))
    loglik, weights, reward_indices = brute_force(patterns, mixture)
    result = e_step(patterns, mixture)
    assert result.loglik == pytest.approx(loglik, rel=1e-12)
    np.testing.assert_allclose(result.weights, weights, rtol=1e-12)
    np.testing.assert_allclose(result.reward_counts, reward_indices, rtol=1e-10, atol=1e-12)


def test_likelihoods_of_many_all_but_impossible_bags_are_multiplied_without_underflow():
    rng = np.random.default_rng(3)
    probs = np.full((2, 2, 2), MIN_PROB)
    probs[:, 0, 0], probs[:, 1] = 1.0 - MIN_PROB, [[0.3, 0.7], [0.6, 0.4]]
    mixture = Mixture(np.array([0.25, 0.75]), probs)
    lengths = rng.integers(1, 24, 200)
    symbols = rng.choice([0, 1, 1, 1, 2, 3], int(lengths.sum())).astype(np.int32)  # 1: a reward of probability FLOOR
    patterns = RewardPatterns(
        symbols, np.concatenate([[0], np.cumsum(lengths)]), rng.choice([1.0, 1.0, 2.0], 200), 2, 2
    )
    exact = 0.0
    for count, pattern in list_patterns(patterns):
        terms = np.log(mixture.weights) + sum(np.log(probs[:, x, z]) for x, z in pattern)
        exact += count * (terms.max() + np.log(np.exp(terms - terms.max()).sum()))
    assert e_step(patterns, mixture).loglik == pytest.approx(exact, rel=1e-13)


def test_merging_equal_bags_changes_nothing():
    rng = np.random.default_rng(1)
    mixture = random_mixture(rng, 3, 3)
    patterns = patterns_from_episodes(draw_episodes(rng, mixture, rng.integers(0, 3, (3000, 4))))
    merged = merge_patterns(patterns)
    assert merged.counts.size <= 126 < patterns.counts.size  # bags of 4 out of 6 symbols
    assert merged.num_episodes == 3000
    np.testing.assert_array_equal(merged.reward_counts, patterns.reward_counts)
    statistics, merged_statistics = e_step(patterns, mixture), e_step(merged, mixture)
    assert statistics.loglik == pytest.approx(merged_statistics.loglik, rel=1e-12)
    np.testing.assert_allclose(statistics.reward_counts, merged_statistics.reward_counts, rtol=1e-10)
    plain = {tuple(sorted(pattern)) for _, pattern in list_patterns(patterns)}
    assert plain == {tuple(pattern) for _, pattern in list_patterns(merged)}


def test_statistics_add_over_chunks():
    rng = np.random.default_rng(2)
    mixture = random_mixture(rng, 2, 5)
    episodes = draw_episodes(rng, mixture, rng.integers(0, 5, (400, 6)))
    expected = e_step(patterns_from_episodes(episodes), mixture)
    summed = e_step(patterns_from_episodes(episodes[:150]), mixture) + e_step(
        patterns_from_episodes(episodes[150:]), mixture
    )
    np.testing.assert_allclose(summed.reward_counts, expected.reward_counts, rtol=1e-12)
    assert (summed.loglik, summed.num_patterns) == (pytest.approx(expected.loglik, rel=1e-13), 400)
    marginals = patterns_from_episodes(episodes).marginal_probs
    np.testing.assert_allclose(m_step(summed, marginals, 1.0).probs, m_step(expected, marginals, 1.0).probs, rtol=1e-12)


def test_thousands_of_steps_do_not_underflow():
    rng = np.random.default_rng(3)
    mixture = random_mixture(rng, 2, 2)
    episodes = draw_episodes(rng, mixture, rng.integers(0, 2, (3, 4000)))
    patterns = patterns_from_episodes(episodes)
    logs = np.log(mixture.weights) + np.array(
        [
            [sum(np.log(probs[x, z]) for x, z in pattern) for probs in mixture.probs]
            for _, pattern in list_patterns(patterns)
        ]
    )
    expected = np.logaddexp.reduce(logs, axis=1).sum()
    assert e_step(patterns, mixture).loglik == pytest.approx(expected, rel=1e-12)


def test_an_impossible_reward_is_only_very_unlikely():
    patterns = RewardPatterns(np.array([1, 3], np.int32), np.array([0, 2]), np.ones(1), 2, 2)
    mixture = Mixture(np.array([0.5, 0.5]), np.array([[[1.0, 0.0], [1.0, 0.0]]] * 2))
    assert e_step(patterns, mixture).loglik == pytest.approx(2 * np.log(MIN_PROB))


def test_update_shrinks_to_the_average_and_keeps_known_weights():
    patterns = enumerate_patterns(Mixture(np.array([0.4, 0.6]), np.array([[[0.2, 0.8]], [[0.9, 0.1]]])), [(0, 0)])
    mixture = Mixture(np.array([0.3, 0.7]), np.array([[[0.3, 0.7]], [[0.8, 0.2]]]))
    statistics = e_step(patterns, mixture)
    strong = m_step(statistics, patterns.marginal_probs, 1e9, np.array([0.3, 0.7]))
    np.testing.assert_allclose(strong.probs, np.stack([patterns.marginal_probs] * 2), rtol=1e-6)
    np.testing.assert_array_equal(strong.weights, [0.3, 0.7])
    free = m_step(statistics, patterns.marginal_probs, 0.0)
    np.testing.assert_allclose(free.weights, statistics.weights / statistics.weights.sum())
    np.testing.assert_allclose(free.probs[0, 0], statistics.reward_counts[0, 0] / statistics.reward_counts[0, 0].sum())


def test_the_truth_is_a_fixed_point_of_its_own_law():
    rng = np.random.default_rng(4)
    mixture = random_mixture(rng, 3, 3)
    patterns = enumerate_patterns(mixture, [(0, 1, 2, 0, 1)])
    again = m_step(e_step(patterns, mixture), patterns.marginal_probs, 0.0)
    np.testing.assert_allclose(again.probs, mixture.probs, rtol=1e-10)
    np.testing.assert_allclose(again.weights, mixture.weights, rtol=1e-10)


@pytest.mark.system
@pytest.mark.parametrize("prior", [0.0, 1.0, 20.0])
def test_climb_ends_where_a_general_optimiser_does(prior):
    rng = np.random.default_rng(5)
    truth = random_mixture(rng, 2, 3, weights=[0.4, 0.6])
    patterns = merge_patterns(patterns_from_episodes(draw_episodes(rng, truth, rng.integers(0, 3, (500, 4)))))
    fit = run_em(
        lambda m: e_step(patterns, m), truth, prior_mean=patterns.marginal_probs, pseudocount=prior, tolerance=1e-14
    )

    def loss(theta):
        p = 1.0 / (1.0 + np.exp(-theta[1:].reshape(2, 3)))
        w = 1.0 / (1.0 + np.exp(-theta[0]))
        probs = np.stack([1.0 - p, p], axis=-1)
        penalty = prior * (patterns.marginal_probs * np.log(probs)).sum()
        return -brute_force(patterns, Mixture(np.array([w, 1.0 - w]), probs))[0] - penalty

    logit = np.log(fit.mixture.probs[..., 1] / fit.mixture.probs[..., 0]).ravel()
    start = np.concatenate([[np.log(fit.mixture.weights[0] / fit.mixture.weights[1])], logit])
    assert loss(start) == pytest.approx(-fit.objective, rel=1e-12)
    other = minimize(loss, start + 0.1 * rng.normal(size=7), method="BFGS")
    assert other.fun == pytest.approx(-fit.objective, abs=1e-5)
    assert fit.converged


def test_climbing_never_goes_down_and_acceleration_keeps_the_optimum():
    rng = np.random.default_rng(6)
    truth = random_mixture(rng, 2, 4)
    patterns = merge_patterns(patterns_from_episodes(draw_episodes(rng, truth, rng.integers(0, 4, (400, 4)))))
    start = random_mixture(rng, 2, 4)
    plain, last = start, -np.inf
    for _ in range(3000):
        statistics = e_step(patterns, plain)
        assert statistics.loglik >= last - 1e-9
        last, plain = statistics.loglik, m_step(statistics, patterns.marginal_probs, 0.0)
    fit = run_em(lambda m: e_step(patterns, m), start, prior_mean=patterns.marginal_probs, pseudocount=0.0)
    assert fit.loglik >= last - 1e-4
    short = run_em(
        lambda m: e_step(patterns, m), start, prior_mean=patterns.marginal_probs, pseudocount=0.0, max_iterations=4
    )
    assert not short.converged
    assert short.loglik <= fit.loglik


@pytest.mark.parametrize("num_types", [2, 3, 5])
def test_posteriors_of_kernels_are_those_of_the_bayes_update(num_types):
    """The belief after each bag: from the E-step of that bag alone, and from the standard errors' kernel."""
    rng = np.random.default_rng(num_types)
    mixture = random_mixture(rng, num_types, 4, 3)
    episodes = draw_episodes(rng, mixture, rng.integers(0, 4, (30, 6)))
    patterns, table = patterns_from_episodes(episodes), np.ascontiguousarray(mixture.probs.reshape(num_types, -1).T)
    for k in range(len(episodes)):
        low, high = patterns.offsets[k], patterns.offsets[k + 1]
        expected = belief.filter_beliefs(mixture.weights, table[patterns.symbols[low:high]])[-1]
        np.testing.assert_allclose(
            e_step(patterns_from_episodes(episodes[k : k + 1]), mixture).weights, expected, rtol=1e-12
        )
        joint = np.empty(num_types)
        _type_posterior(patterns.symbols, low, high, table, mixture.weights, joint)
        np.testing.assert_allclose(joint, expected, rtol=1e-12)
