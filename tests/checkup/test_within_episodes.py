"""Switching, copying and repetition where laws lie on the boundary, types are too many, or rewards are rare."""

import math

import numpy as np
import pytest
from benchmarks.checkup.worlds import revenue_rows

from rewardmix import check, problems, recover, simulate, uniform
from rewardmix.checkup import assumptions, check_assumptions, score_kernels, surplus, within_episodes
from rewardmix.checkup.p_values import among_resamples
from rewardmix.checkup.projection import Gradient
from rewardmix.checkup.surplus import fewer_types, fitted_episodes
from rewardmix.checkup.walks import CheckedEpisodes, parts_of_model, walk_over
from rewardmix.checkup.within_episodes import ScoreTest, count_paired, draw_outcomes
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP


@pytest.mark.parametrize("seed", [2, 15, 19])
def test_nothing_is_broken_in_revenue_that_was_put_into_bins(seed):
    """The amounts of one type are hardly ever those of the other, so laws lie on the boundary."""
    assert not check(revenue_rows(seed), num_contexts=2, bins=20).broken


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


def world_of(laws, horizon=8, weights=(0.5, 0.5)):
    """Types that pay 1 with these chances, (M, S, A), in a world where every state follows every other alike."""
    states, actions = laws.shape[1:]
    moves = np.full((states, actions, states), 1.0 / states)
    return RewardMixingMDP(moves, np.full(states, 1.0 / states), weights, laws, horizon)


def log_of(model, count, seed):
    return simulate(uniform(model), model, count, seed=seed)


def rare_log(seed, count):
    """Rewards of one visit in a hundred, of two types."""
    return log_of(world_of(0.01 * np.random.default_rng(10_000 + seed).uniform(0.2, 1.8, (2, 3, 3))), count, seed)


@pytest.mark.parametrize(("count", "seed"), [(300, 2), (300, 5), (3000, 2), (3000, 8)])
def test_nothing_is_broken_where_rewards_are_rare(count, seed):
    assert not check(rare_log(seed, count), num_contexts=2, seed=seed - 1).broken


def test_scores_are_not_asked_where_hardly_an_episode_has_two_rare_rewards():
    findings = {one.assumption: one for one in check(rare_log(2, 300)).findings}
    assert not findings["copying"].broken
    assert math.isnan(findings["copying"].p_value)
    assert findings["one type short"].reason == findings["copying"].reason
    assert findings["copying"].sentence.startswith("Not asked whether a reward does not depend on the one before")
    assert "have two rewards other than the most frequent one, and it takes 10." in findings["copying"].sentence


def test_pairs_are_counted_among_the_rewards_that_are_not_the_most_frequent():
    outcomes = np.array([[1, 1, 0], [0, 2, 1], [1, 1, 1], [2, 2, 1], [0, 1, -1]], np.int8)
    lengths = np.array([3, 3, 3, 3, 2])
    actions = np.where(outcomes < 0, -1, 0)
    states = np.where(np.arange(4) <= lengths[:, None], 0, -1)
    episodes = Episodes(states, actions, outcomes, lengths, 1, 1, [0.0, 1.0, 2.0])
    assert count_paired(CheckedEpisodes.of(episodes)) == 2  # 0 2 . and 2 2 .


def test_a_deviation_among_resamples_by_hand():
    p_value, reason = among_resamples(math.sqrt(3.0), np.array([-1.0, 1.0]), above=True)
    assert reason == ""
    assert p_value == pytest.approx(0.25)  # spread sqrt(2) sqrt(3/2); Student's law on one degree is Cauchy's
    assert among_resamples(-math.sqrt(3.0), np.array([-1.0, 1.0]), above=True)[0] == pytest.approx(0.75)
    assert among_resamples(-math.sqrt(3.0), np.array([-1.0, 1.0]), above=False)[0] == pytest.approx(0.5)
    assert among_resamples(1.0, np.array([2.0, 2.0]), above=True)[1] == "no episode can tell"
    assert among_resamples(1.0, np.array([2.0]), above=True)[1] == "no episode can tell"


def test_few_resamples_give_uniform_p_values():
    rng, runs = np.random.default_rng(0), 4000
    normal = 2.0 + 1.5 * rng.normal(size=(runs, 9))
    values = np.sort([among_resamples(row[0], row[1:], above=False)[0] for row in normal])
    assert np.abs(values - (np.arange(runs) + 0.5) / runs).max() < 1.95 / math.sqrt(runs)  # Kolmogorov: one in 1000


def test_resamples_follow_the_laws_of_a_type_that_stays():
    weights, count = np.array([0.3, 0.7]), 40_000
    table = np.array([[[0.5, 0.2], [0.3, 0.2], [0.2, 0.6]], [[0.9, 0.1], [0.05, 0.1], [0.05, 0.8]]])
    episodes = Episodes(
        np.zeros((count, 3), int), np.tile([0, 1], (count, 1)), np.zeros((count, 2), np.int8), np.full(count, 2), 1, 2,
        [0.0, 1.0, 2.0],
    )  # fmt: skip
    data = CheckedEpisodes.of(episodes)
    drawn = draw_outcomes(data, (weights, table), np.random.default_rng(1))
    joint = np.histogram2d(drawn[:, 0], drawn[:, 1], bins=(3, 3), range=((0, 3), (0, 3)))[0] / count
    expected = np.einsum("m,zm,ym->zy", weights, table[0], table[1])
    assert np.abs(joint - expected).max() < 5 * np.sqrt(0.25 / count)
    assert drawn.dtype == data.outcomes.dtype


def test_resamples_are_the_same_for_the_same_seed_only(monkeypatch):
    monkeypatch.setattr(within_episodes, "_RESAMPLES", 4)
    data = CheckedEpisodes.of(rare_log(1, 3000))
    parts = parts_of_model(recover(data.episodes, seed=1).model, data)
    test = ScoreTest.of(data, parts, walk_over(data, parts, parts))
    assert test.resample(3) == test.resample(3)
    assert test.resample(3) != test.resample(4)


def test_scores_of_rare_rewards_are_judged_by_the_spread_of_resamples():
    """Fresh logs of the fitted model itself: their p-values are small no more often than they say."""
    data = CheckedEpisodes.of(rare_log(3, 2000))
    parts = parts_of_model(recover(data.episodes, seed=1).model, data)
    test = ScoreTest.of(data, parts, walk_over(data, parts, parts))
    assert min(p_value for p_value, _ in test.resample(0).values()) > 0.001


def test_types_that_are_not_needed_are_dropped_and_others_are_not():
    laws = np.array([[[0.1, 0.9]], [[0.8, 0.3]]])
    episodes = log_of(world_of(laws), 1500, seed=1)
    data = CheckedEpisodes.of(episodes)
    two = parts_of_model(recover(episodes, num_contexts=2).model, data)
    four = parts_of_model(recover(episodes, num_contexts=4).model, data)
    assert fewer_types(data, two) is None
    weights, table = fewer_types(data, four)
    np.testing.assert_allclose(weights[table[0, 1].argsort()], two[0][two[1][0, 1].argsort()], atol=0.02)
    np.testing.assert_allclose(np.sort(table[:, 1], axis=1), np.sort(laws.reshape(2, 2).T, axis=1), atol=0.05)


def test_of_two_models_the_one_that_is_less_sure_counts():
    none = {"switching": (math.nan, "why"), "copying": (0.2, ""), "repetition": (0.03, "")}
    some = {"switching": (0.5, ""), "copying": (0.1, ""), "repetition": (0.04, "")}
    expected = {"switching": (math.nan, "why"), "copying": (0.2, ""), "repetition": (0.04, "")}
    for pair in ([none, some], [some, none]):
        assert str(within_episodes._largest(pair)) == str(expected)


def test_with_one_type_nothing_can_change():
    laws = np.full((2, 3, 3), np.random.default_rng(0).uniform(0.1, 0.9, (3, 3)))
    episodes = log_of(world_of(laws), 3000, seed=8)
    data = CheckedEpisodes.of(episodes)
    model = recover(episodes).model
    assert fewer_types(data, parts_of_model(model, data))[0].size == 1
    checkup = check(episodes)
    reasons = {one.assumption: one.reason for one in checkup.findings}
    assert reasons["switching"] == "one type predicts episodes that were held out as well"
    assert reasons["copying"] == ""
    assert not checkup.broken
    switching = next(one for one in checkup.findings if one.assumption == "switching")
    assert "Nothing contradicts" not in switching.sentence


@pytest.mark.parametrize("seed", [8, 11])
def test_nothing_is_broken_by_a_type_too_many(seed):
    laws = np.repeat(np.random.default_rng(seed).uniform(0.1, 0.9, (1, 3, 3)), 2, axis=0)
    assert not check(log_of(world_of(laws), 3000, seed), num_contexts=2, seed=seed - 1).broken


def test_two_types_are_joined_by_their_weights():
    mixture = surplus.Mixture(np.array([0.2, 0.5, 0.3]), np.array([[[0.1, 0.9]], [[0.5, 0.5]], [[0.6, 0.4]]]))
    joined = surplus._join(mixture, 0, 2)
    np.testing.assert_allclose(joined.weights, [0.5, 0.5])
    np.testing.assert_allclose(joined.laws, [[[0.4, 0.6]], [[0.5, 0.5]]])


def test_a_gain_is_sure_beyond_its_error_and_beyond_three_nats():
    assert surplus._is_sure(np.full(100, 0.04))
    assert not surplus._is_sure(np.full(100, 0.02))  # two nats in all: rare rewards gain as much by chance
    noisy = np.tile([5.0, -4.0], 50)  # 50 nats, standard error 45
    assert not surplus._is_sure(noisy)
    assert surplus._is_sure(noisy + 0.5)
    assert not surplus._is_sure(np.array([9.0]))


@pytest.mark.parametrize(("count", "fitted"), [(9, 5), (10_000, 5000), (10_001, 3334), (200_000, 5000)])
def test_a_rival_is_fitted_to_few_episodes_spread_evenly(count, fitted):
    chosen = fitted_episodes(count)
    assert chosen.sum() == fitted
    assert len(set(np.diff(np.flatnonzero(chosen)).tolist())) == 1


def test_one_type_more_is_judged_on_all_episodes_that_it_was_not_fitted_to(monkeypatch):
    episodes = log_of(problems.make("random", states=2, actions=2, horizon=3, seed=1), 600, seed=1)
    sizes = []

    def fit(data, **options):
        sizes.append(len(data))
        return recover(data, **options)

    def judge(data, *others):
        sizes.append(len(data))
        return within_episodes.deviations_of(data, *others)

    monkeypatch.setattr(surplus, "MOST_FITTED", 150)
    monkeypatch.setattr(assumptions, "recover", fit)
    monkeypatch.setattr(assumptions, "deviations_of", judge)
    model = recover(episodes).model
    check_assumptions(episodes, model=model)
    assert sizes == [150, 450]
