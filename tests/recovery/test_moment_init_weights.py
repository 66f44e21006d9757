from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from oracles.mixtures import draw_episodes, enumerate_patterns, random_mixture
from rewardmix.recovery.moment_init import estimate_orientation, estimate_weights, weight_from_slope
from rewardmix.recovery.reward_patterns import patterns_from_episodes


def marginals_and_loadings(mixture):
    average = np.tensordot(mixture.weights, mixture.probs, axes=1)
    spread = np.sqrt(mixture.weights.prod()) * (mixture.probs[0] - mixture.probs[1])
    return average, spread


@pytest.mark.parametrize("w", [0.05, 0.3, 0.5, 0.83])
@pytest.mark.parametrize("values", [2, 3])
def test_the_slope_of_the_exact_law_is_that_of_the_weights(w, values):
    mixture = random_mixture(np.random.default_rng(7), 2, 3, values, weights=[w, 1 - w])
    average, spread = marginals_and_loadings(mixture)
    patterns = enumerate_patterns(mixture, [(0, 1, 2), (0, 0, 1, 2), (1, 2, 2)])
    result = estimate_orientation(patterns, average, spread, np.zeros(3, np.int64))
    expected = (1 - 2 * w) / np.sqrt(w * (1 - w))
    assert result.slope[0] == pytest.approx(expected, abs=1e-9)
    assert weight_from_slope(expected) == pytest.approx(w)
    turned = estimate_orientation(patterns, average, -spread, np.zeros(3, np.int64))
    assert turned.slope[0] == pytest.approx(-expected, abs=1e-9)


@pytest.mark.parametrize(("w", "storage"), [(0.003, 0.02), (0.03, 0.03), (0.997, 0.98), (0.96, 0.96)])
def test_a_weight_from_triples_stays_two_percent_from_the_ends(w, storage):
    mixture = random_mixture(np.random.default_rng(7), 2, 3, weights=[w, 1 - w])
    patterns = enumerate_patterns(mixture, [(0, 1, 2), (0, 0, 1, 2), (1, 2, 2)])
    weights, _, _ = estimate_weights(replace(patterns, counts=patterns.counts * 1e9), *marginals_and_loadings(mixture))
    np.testing.assert_allclose(weights, [storage, 1 - storage], atol=1e-6)


def test_each_group_has_its_own_slope():
    mixture = random_mixture(np.random.default_rng(1), 2, 4, weights=[0.2, 0.8])
    average, spread = marginals_and_loadings(mixture)
    spread[2:] *= -1
    patterns = enumerate_patterns(mixture, [(0, 1, 0), (2, 3, 2), (0, 2, 1, 3, 0, 2)])
    result = estimate_orientation(patterns, average, spread, np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(result.slope, [1.5, -1.5], atol=1e-9)


def test_two_rewards_an_episode_decide_nothing():
    mixture = random_mixture(np.random.default_rng(1), 2, 3, weights=[0.2, 0.8])
    weights, slope, _ = estimate_weights(
        enumerate_patterns(mixture, [(0, 1), (1, 2)]), *marginals_and_loadings(mixture)
    )
    assert np.isnan(slope)
    np.testing.assert_array_equal(weights, [0.5, 0.5])


@pytest.mark.parametrize("w", [0.5, 0.3])
def test_slopes_that_are_noise_seldom_decide(w):
    """Over many small logs the slope scatters around the truth by its standard error, and two of them decide."""
    rng = np.random.default_rng(8)
    mixture = random_mixture(rng, 2, 3, weights=[w, 1 - w])
    patterns = (patterns_from_episodes(draw_episodes(rng, mixture, rng.integers(0, 3, (400, 5)))) for _ in range(200))
    orientations = [
        estimate_orientation(pattern, *marginals_and_loadings(mixture), np.zeros(3, np.int64)) for pattern in patterns
    ]
    truth = (1 - 2 * w) / np.sqrt(w * (1 - w))
    scores = np.array([(orientation.slope[0] - truth) / orientation.standard_error[0] for orientation in orientations])
    low, high = np.sqrt(stats.chi2.ppf([1e-6, 1 - 1e-6], 200) / 200)
    assert 0.9 * low < np.sqrt(np.mean(scores**2)) < 1.1 * high  # room for scores that are not quite normal
    if w == 0.5:
        assert sum(orientation.is_significant[0] for orientation in orientations) <= stats.binom.isf(
            1e-6, 200, 2 * stats.norm.sf(2.0)
        )
