"""Check the study of A/B tests: simulated tests agree with the intervals of the service."""

import numpy as np
import pytest
from benchmarks.ab_test import rivals, run, settings


@pytest.mark.parametrize("dist", [settings.EQUAL[2], settings.REVENUE, settings.EQUAL[4]], ids=lambda dist: dist.name)
def test_whole_tests_agree_with_the_service(dist):
    _, now = run.signs(dist, 2.0, 0.3, 1, 3000, True)  # raises if the service differs
    assert (now == 0).any()
    assert (now == 1).any() == (dist is not settings.REVENUE)


def test_the_previous_interval_decides_by_twelve_rewards_against_none():
    adaptive = (np.arange(1000) % 10 > 0).astype(float)
    returns = (np.arange(1000) % 83 == 1) * adaptive
    assert rivals.old_signs(adaptive, returns, np.array([1000])).tolist() == [1.0]
    assert rivals.betting_signs(adaptive, returns, np.array([1000]), 0.1, 1.0).tolist() == [0.0]


def test_the_mean_of_amounts_counts_clipping():
    dist = settings.REVENUE
    returns = np.minimum(dist.draw(np.random.default_rng(0), np.full(2_000_000, dist.prob)), dist.bound)
    assert returns.mean() == pytest.approx(dist.mean(), abs=5 * returns.std() / np.sqrt(returns.size))
