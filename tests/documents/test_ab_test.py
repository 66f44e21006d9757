"""The study of live comparisons: what it plays at once is what the service says session by session."""

import numpy as np
import pytest
from benchmarks.ab_test import rivals, run, settings


@pytest.mark.parametrize("law", [settings.EQUAL[2], settings.REVENUE, settings.EQUAL[4]], ids=lambda law: law.name)
def test_whole_tests_at_once_are_the_service(law):
    _, now = run.signs(law, 2.0, 0.3, 1, 3000, True)  # refuses what the service does not say
    assert (now == 0).any()
    assert (now == 1).any() == (law is not settings.REVENUE)


def test_the_interval_of_before_says_that_twelve_rewards_against_none_decide():
    adaptive = (np.arange(1000) % 10 > 0).astype(float)
    earned = (np.arange(1000) % 83 == 1) * adaptive
    assert rivals.old_signs(adaptive, earned, np.array([1000])).tolist() == [1.0]
    assert rivals.betting_signs(adaptive, earned, np.array([1000]), 0.1, 1.0).tolist() == [0.0]


def test_the_mean_of_amounts_is_what_they_count():
    law = settings.REVENUE
    drawn = np.minimum(law.draw(np.random.default_rng(0), np.full(2_000_000, law.chance)), law.bound)
    assert drawn.mean() == pytest.approx(law.mean(), abs=5 * drawn.std() / np.sqrt(drawn.size))
