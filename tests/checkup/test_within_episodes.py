"""Switching, copying and repetition where laws lie on the boundary, types are too many, or rewards are rare."""

import numpy as np
import pandas as pd
import pytest

from rewardmix import check
from rewardmix.checkup import check_assumptions, score_kernels
from rewardmix.checkup.projection import Gradient
from rewardmix.checkup.walks import CheckedEpisodes, parts_of_model, walk_over
from rewardmix.checkup.within_episodes import ScoreTest
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP


def revenue_log(seed, count=3000, steps=5):
    """Sessions of two types that buy different things and spend different amounts; most pay nothing."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=(count, 1))
    page, offer = rng.integers(3, size=(count, steps)), rng.integers(3, size=(count, steps))
    buys = rng.random((count, steps)) < np.where(offer == 0, 0.08, np.where((offer == 1) == (kind == 0), 0.25, 0.03))
    revenue = np.where(buys, np.exp(rng.normal(2.5 + 1.2 * kind, 0.5, (count, steps))).round(2), 0.0)
    columns = {"state": page, "action": offer, "reward": revenue}
    columns |= {"episode": np.repeat(np.arange(count), steps), "step": np.tile(np.arange(steps), count)}
    return pd.DataFrame({name: column.ravel() for name, column in columns.items()})


@pytest.mark.parametrize("seed", [2, 15, 19])
def test_nothing_is_broken_in_revenue_that_was_put_into_bins(seed):
    """The amounts of one type are hardly ever those of the other, so laws lie on the boundary."""
    assert not check(revenue_log(seed), num_contexts=2, bins=20).broken


def test_an_outcome_that_a_type_never_pays_takes_no_mean_out_of_a_score():
    """The derivative along its logit is the same tiny number at every visit, which is an intercept."""
    rng, count = np.random.default_rng(0), 400
    table = np.array([[[0.5, 0.5], [0.5 - 1e-6, 0.5 - 1e-6], [1e-6, 1e-6]]])
    outcomes = (rng.random((count, 2)) < 0.5).astype(np.int8)
    data = np.zeros((count, 2), np.int64), outcomes, np.full(count, 2, np.int32)
    gradient = Gradient(data, (np.array([0.5, 0.5]), table), np.tile([0.5, 0.5], (count, 1)))
    assert gradient.rank == 2 + 1  # of each type one logit is known, and the share of the first
    score = rng.normal(size=count) + 1.0
    assert gradient.residual(score).mean() == pytest.approx(score.mean(), abs=0.1)
    assert not gradient.scale[0][0, 2].any()  # never paid
    assert not gradient.scale[0][0, 0].any()  # the most probable, which the others are relative to


def test_types_that_are_equal_leave_nothing_to_test_but_rounding():
    law = 0.789572
    model = RewardMixingMDP(np.ones((1, 1, 1)), [1.0], [0.333, 0.667], np.full((2, 1, 1), law), 4)
    rng = np.random.default_rng(0)
    outcomes = (rng.random((537, 4)) < law).astype(np.int8)
    episodes = Episodes(np.zeros((537, 5), int), np.zeros((537, 4), int), outcomes, np.full(537, 4), 1, 1, [0.0, 1.0])
    data = CheckedEpisodes.of(episodes)
    parts = parts_of_model(model, data)
    walked = walk_over(data, parts, parts)
    assert np.abs(walked.scores[:, score_kernels.SWITCHED]).max() > 0.0  # rounding is there
    answers = ScoreTest.of(data, parts, walked).answers
    assert answers["switching"][1] == "no episode can tell"
    assert answers["copying"][0] > 0.01
    assert not check_assumptions(episodes, model=model).broken
