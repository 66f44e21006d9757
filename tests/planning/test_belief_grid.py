"""Grids over beliefs: no posterior leaves them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.tiny_models import random_model
from rewardmix import belief as bayes
from rewardmix.planning import belief_grid
from rewardmix.planning.belief_grid import ReachableLogOdds, log_likelihood_ratios


@given(st.integers(0, 2**32 - 1), st.integers(3, 60), st.sampled_from([0.0, 0.4, 0.9]))
def test_posteriors_of_grid_beliefs_stay_inside_the_next_grid(seed, resolution, corner):
    model = random_model(np.random.default_rng(seed), 3, 2, 7, corner=corner)
    reach = ReachableLogOdds(model.weights, log_likelihood_ratios(*model.reward_probs.reshape(2, -1)), model.horizon)
    for t in range(model.horizon - 1):
        now, later = reach.grid(t, resolution), reach.grid(t + 1, resolution)
        probs = np.moveaxis(model.reward_probs, 0, -1).reshape(-1, 1, 2)
        after = bayes.update(np.stack([now, 1 - now], axis=1), probs)[..., 0]
        possible = (probs * np.stack([now, 1 - now], axis=1)).sum(axis=-1) > 0
        assert after[possible].min() >= later[0] - 1e-15
        assert after[possible].max() <= later[-1] + 1e-15
        assert np.all(np.diff(later) > 0)


def test_few_ratios_give_few_points_and_they_are_all_beliefs():
    ratios = log_likelihood_ratios(np.array([0.2, 0.8]), np.array([0.8, 0.2]))
    reach = ReachableLogOdds(np.array([0.5, 0.5]), ratios, 6)
    assert reach.is_finite
    assert [reach.grid(t, 24).size for t in range(6)] == [1, 2, 3, 4, 5, 6]
    assert reach.grid(2, 24) == pytest.approx(np.array([1 / 17, 0.5, 16 / 17]), abs=1e-9)


def test_small_separation_gives_narrow_grids():
    ratios = log_likelihood_ratios(np.array([0.5, 0.51, 0.497]), np.array([0.5, 0.5, 0.5]))
    grid = ReachableLogOdds(np.array([0.5, 0.5]), ratios, 10).grid(3, 24)
    assert 0.49 < grid[0] < grid[-1] < 0.52


def test_points_are_followed_as_long_as_all_of_them_are_few():
    """Whether they are too many is seen early, from some of the ratios; the answer is that of all of them."""
    rng = np.random.default_rng(0)
    answers = set()
    for size, number, step in product((1, 40, 600, 1024), (3, 10, 16, 30), (0.0, 0.25)):
        points, ratios = (np.unique(rng.normal(size=n)) for n in (size, number))
        if step:
            points, ratios = step * np.arange(size), step * np.arange(number)  # many sums agree
        sums = np.unique(np.round((points[:, None] + ratios).ravel(), belief_grid.ODDS_DIGITS))
        few = (
            points.size * ratios.size <= 16 * belief_grid.MAX_REACHABLE_POINTS
            and sums.size <= belief_grid.MAX_REACHABLE_POINTS
        )
        result = belief_grid._reachable_next(points, ratios)
        assert (result is not None) == few
        assert result is None or result.size == sums.size
        answers.add((few, step))
    assert len(answers) == 4
