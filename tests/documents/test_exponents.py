"""Check the exponents of the studies: known slopes are recovered, and intervals cover at their level."""

import numpy as np
import pytest
from benchmarks import exponents
from benchmarks.hardness import analysis as hardness
from benchmarks.hardness import settings
from scipy import stats


def test_a_power_law_gives_its_exponent():
    factor = np.array([2.0, 4.0, 8.0])
    assert exponents.slope(factor, 7 * factor**-2.5) == pytest.approx(-2.5, abs=1e-12)
    assert exponents.slope([2, 4, 8, 16], [*(7 * factor**1.5), np.nan]) == pytest.approx(1.5, abs=1e-12)
    assert np.isnan(exponents.slope([2, 4], [np.nan, 3]))


def test_intervals_between_replicates_cover_at_their_level():
    """1,000 studies of five noisy replicates each; exact two-sided band."""
    rng = np.random.default_rng(0)
    factor = np.array([2.0, 4.0, 8.0, 16.0])
    covered = 0
    for _ in range(1000):
        noisy = factor**2 * np.exp(0.3 * rng.standard_normal((5, 4)))
        result = exponents.between([exponents.slope(factor, row) for row in noisy])
        covered += result.low <= 2.0 <= result.high
    assert stats.binomtest(covered, 1000, 0.95).pvalue > 1e-6


def test_bootstrap_intervals_over_replicates_cover_nearly_at_their_level():
    rng = np.random.default_rng(1)
    factor = [1.0, 2.0, 4.0]
    covered = 0
    for _ in range(200):
        table = np.array(factor) * np.exp(0.3 * rng.standard_normal((24, 3)))
        result = exponents.over_replicates(factor, lambda chosen, t=table: t[chosen].mean(axis=-2), 24, draws=200)
        covered += result.low <= 1.0 <= result.high
    assert 0.85 <= covered / 200 <= 0.99  # percentile intervals of 24 replicates are a little short


def test_crossing_interpolates_in_logarithms_and_is_nan_outside_the_grid():
    budgets = np.array([10.0, 100.0, 1000.0, 10_000.0])
    assert exponents.crossing(budgets, 1 / budgets, 1 / 300) == pytest.approx(300)
    assert exponents.crossing(budgets, [1.0, 0.1, 0.3, 0.01], 0.2) > 1000  # the last time, not the first
    assert np.isnan(exponents.crossing(budgets, 1 / budgets, 1e-9))
    assert np.isnan(exponents.crossing(budgets, 1 / budgets, 1.0))


def test_limits_are_not_given_where_too_many_draws_fail():
    low, high = exponents.resampled(lambda chosen: np.nan if 0 in chosen else 1.0, 10, 200)
    assert np.isnan(low)
    assert np.isnan(high)


def test_the_logistic_curve_reaches_its_level():
    budgets = np.array(settings.FACTORS) * 1e4
    prob = 1 / (1 + np.exp(-3 * (np.log(budgets) - np.log(1000))))
    expected = 1000 * np.exp(np.log(settings.WITHIN / (1 - settings.WITHIN)) / 3)
    assert hardness.reaches(budgets, 1e6 * prob, 1e6) == pytest.approx(expected, rel=1e-3)
    assert np.isnan(hardness.reaches(budgets, 1e3 * (1 - prob), 1e3))


def test_the_ideal_test_needs_the_inverse_square_of_the_accuracy():
    assert hardness.ideal(3, 0.04) / hardness.ideal(3, 0.08) == pytest.approx(4.0, rel=1e-6)
    assert hardness.ideal(6, 0.04) / hardness.ideal(3, 0.04) > 4.0  # the union over pairs
