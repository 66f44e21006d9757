"""The formulas against closed forms, their own fixed points, and the events they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from rewardmix import theory


def test_threshold_and_tolerance():
    assert theory.covariance_tolerance(0.1, 4) == pytest.approx(0.1 / 16, rel=1e-15)
    assert theory.uncertainty_threshold(0.1, 0.2, 4) == pytest.approx(0.1 / 64 * 0.2, rel=1e-15)
    assert theory.uncertainty_threshold(0.1, 0.0, 4) == pytest.approx(0.1 / 64 * 0.1 / 16, rel=1e-15)


def test_the_two_forms_of_the_bound_agree_up_to_logarithms():
    pe = theory.uncertainty_threshold(0.1, 0.2, 6)
    ratio = theory.upper_bound(5, 3, 6, 0.1, 0.2, 0.1) / theory.episode_bound(5, 3, 6, pe, 0.1)
    logs = math.log(6 * 15 / 0.01) * math.log(60) ** 2 / math.log(6 * 15 / (pe * 0.1))
    assert ratio == pytest.approx(logs, rel=1e-12)


def test_lower_bound_is_quadratic():
    assert theory.lower_bound(2, 3, 0.1) == pytest.approx(3600)
    assert theory.lower_bound(4, 6, 0.05) == pytest.approx(3600 * 16 * 4)


def test_fluid_estimate_is_its_own_fixed_point():
    k = theory.estimate_paper_episodes(5, 3, 6, 1e-4, 0.1)
    factor = (math.sqrt(5) + 5 * math.sqrt(18) + 15) ** 2
    assert k == pytest.approx(math.log(k * 15 / 0.1) / 1e-8 * factor, rel=1e-12)
    sums = math.sqrt(5) + 6 * math.sqrt(5 * 15 / 6) + 15  # start + H moves + one pair, at equal counts
    assert math.sqrt(math.log(k * 15 / 0.1) / k) * sums == pytest.approx(1e-4, rel=1e-12)


def test_paper_levels():
    assert theory.paper_level(100, 5, 3, 0.1) == pytest.approx(math.log(100 * 15 / 0.1))
    assert theory.paper_level(100, 5, 3, 0.1, 2.0) == pytest.approx(2 * math.log(100 * 15 / 0.1))
    assert np.isfinite(theory.paper_level(0, 5, 3, 0.1))


def test_bonus():
    result = theory.bonus_width(2.0, np.array([0, 1, 2, 8]))
    assert result.tolist() == [1.0, 1.0, 1.0, 0.5]


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_radii_solve_their_inequality(n):
    r = float(theory.hoeffding_radius(n, 0.05))
    assert 2 * math.exp(-2 * n * r * r) == pytest.approx(0.05 / (n * (n + 1)), rel=1e-9)
    r = math.sqrt(2 * math.log((2**6 - 2) * n * (n + 1) / 0.05) / n)
    assert float(theory.weissman_radius(n, 6, 0.05)) == pytest.approx(min(r, 2.0), rel=1e-12)


def test_nothing_seen_is_no_information():
    assert theory.hoeffding_radius(0, 0.1) == np.inf
    assert theory.weissman_radius(0, 5, 0.1) == 2.0
    assert theory.weissman_radius([0, 7], 1, 0.1).tolist() == [2.0, 0.0]


def test_radii_split_the_failure():
    assert theory.marginal_radius(50, 6, 0.1) == theory.hoeffding_radius(50, 0.1 / 4 / 6)
    assert theory.marginal_radius(50, 6, 0.1, 3) == theory.hoeffding_radius(50, 0.1 / 4 / 18)
    assert theory.pair_radius(50, 6, 0.1) == theory.hoeffding_radius(50, 0.1 / 4 / 21)
    assert theory.pair_radius(50, 6, 0.1, 3) == theory.hoeffding_radius(50, 0.1 / 4 / (21 * 9))
    assert theory.transition_radius(50, 5, 6, 0.1) == theory.weissman_radius(50, 5, 0.1 / 4 / 6)
    assert theory.initial_radius(50, 5, 0.1) == theory.weissman_radius(50, 5, 0.1 / 4)
    assert theory.value_error_bound(0.3) == 0.15


def test_centred_products_fit_into_an_interval_of_length_one():
    grid = np.linspace(0, 1, 41)
    x, y = np.meshgrid(grid, grid)
    corners = np.stack([(i - x) * (j - y) for i in (0, 1) for j in (0, 1)])
    assert np.ptp(corners, axis=0).max() <= 1 + 1e-15


def test_anytime_radii_hold_along_whole_runs():
    """Share of runs that ever leave the radius: at most failure (exact one-sided test)."""
    rng = np.random.default_rng(1)
    runs, length = 2000, 200
    n = np.arange(1, length + 1)
    means = np.cumsum(rng.random((runs, length)) < 0.3, axis=1) / n
    ever = (np.abs(means - 0.3) > theory.hoeffding_radius(n, 0.2)).any(axis=1).sum()
    assert stats.binomtest(int(ever), runs, 0.2, alternative="greater").pvalue > 1e-6
    probs = np.array([0.5, 0.3, 0.2])
    draws = rng.choice(3, p=probs, size=(runs, length))
    counts = np.cumsum(np.eye(3)[draws], axis=1)
    distance = np.abs(counts / n[:, None] - probs).sum(axis=2)
    ever = (distance > theory.weissman_radius(n, 3, 0.2)).any(axis=1).sum()
    assert stats.binomtest(int(ever), runs, 0.2, alternative="greater").pvalue > 1e-6


def test_practical_estimate_counts_samples():
    assert theory.estimate_practical_episodes(2, 1, 2, 0.5, 2.0) == pytest.approx(8 * 3 / 1)
    assert theory.estimate_practical_episodes(2, 1, 1) > 0
