"""Switching, copying and repetition where laws lie on the boundary, types are too many, or rewards are rare."""

import math

import numpy as np
import pytest
from benchmarks.checkup.worlds import revenue_rows

from rewardmix import diagnose, problems, recover, simulate, uniform_policy
from rewardmix.diagnostics import assumption_tests, run_assumption_tests, score_kernels, surplus, within_episodes
from rewardmix.diagnostics.episode_scores import CheckedEpisodes, compute_scores, model_params
from rewardmix.diagnostics.p_values import NO_INFORMATION, resampled_p_value
from rewardmix.diagnostics.score_projection import LikelihoodJacobian
from rewardmix.diagnostics.surplus import drop_unsupported_types, fitting_mask
from rewardmix.diagnostics.within_episodes import ScoreTest, count_paired, draw_reward_indices
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [2, 15, 19])
def test_nothing_is_broken_in_revenue_that_was_put_into_bins(seed):
    """The amounts of one type are hardly ever those of the other, so laws lie on the boundary."""
    assert not diagnose(revenue_rows(seed), num_types=2, num_reward_bins=20).rejected


def test_an_outcome_that_a_type_never_pays_takes_no_mean_out_of_a_score():
    """The derivative along its logit is the same tiny number at every visit, which is an intercept."""
    rng, count = np.random.default_rng(0), 400
    table = np.array([[[0.5, 0.5], [0.5 - 1e-6, 0.5 - 1e-6], [1e-6, 1e-6]]])
    reward_indices = (rng.random((count, 2)) < 0.5).astype(np.int8)
    data = np.zeros((count, 2), np.int64), reward_indices, np.full(count, 2, np.int32)
    gradient = LikelihoodJacobian(data, (np.array([0.5, 0.5]), table), np.tile([0.5, 0.5], (count, 1)))
    assert gradient.rank == 2 + 1  # of each type one logit is known, and the share of the first
    score = rng.normal(size=count) + 1.0
    assert gradient.residual(score).mean() == pytest.approx(score.mean(), abs=0.1)
    assert not gradient.scale[0][0, 2].any()  # never paid
    assert not gradient.scale[0][0, 0].any()  # the most probable, which the others are relative to


def test_types_that_are_equal_leave_nothing_to_test_but_rounding():
    dist = 0.789572
    model = RewardMixingMDP(np.ones((1, 1, 1)), [1.0], [0.333, 0.667], np.full((2, 1, 1), dist), 4)
    rng = np.random.default_rng(0)
    reward_indices = (rng.random((537, 4)) < dist).astype(np.int8)
    episodes = Episodes(
        np.zeros((537, 5), int), np.zeros((537, 4), int), reward_indices, np.full(537, 4), 1, 1, [0.0, 1.0]
    )
    data = CheckedEpisodes.of(episodes)
    params = model_params(model, data)
    scored = compute_scores(data, params, params)
    assert np.abs(scored.scores[:, score_kernels.SWITCHING_COLUMN]).max() > 0.0  # rounding is there
    answers = ScoreTest.of(data, params, scored).answers
    assert answers["switching"][1] == NO_INFORMATION
    assert answers["reward copying"][0] > 0.01
    assert not run_assumption_tests(episodes, model=model).rejected


def world_of(probs, horizon=8, weights=(0.5, 0.5)):
    """Types that pay 1 with these chances, (M, S, A), in a world where every state follows every other alike."""
    states, actions = probs.shape[1:]
    transitions = np.full((states, actions, states), 1.0 / states)
    return RewardMixingMDP(transitions, np.full(states, 1.0 / states), weights, probs, horizon)


def log_of(model, count, seed):
    return simulate(uniform_policy(model), model, count, seed=seed)


def rare_log(seed, count):
    """Rewards of one visit in a hundred, of two types."""
    return log_of(world_of(0.01 * np.random.default_rng(10_000 + seed).uniform(0.2, 1.8, (2, 3, 3))), count, seed)


@pytest.mark.statistical
@pytest.mark.parametrize(("count", "seed"), [(300, 2), (300, 5), (3000, 2), (3000, 8)])
def test_nothing_is_broken_where_rewards_are_rare(count, seed):
    assert not diagnose(rare_log(seed, count), num_types=2, seed=seed - 1).rejected


def test_scores_are_not_asked_where_hardly_an_episode_has_two_rare_rewards():
    findings = {item.assumption: item for item in diagnose(rare_log(2, 300)).tests}
    assert not findings["reward copying"].rejected
    assert math.isnan(findings["reward copying"].p_value)
    assert findings["more types needed"].skip_reason == findings["reward copying"].skip_reason
    assert findings["reward copying"].text.startswith(
        "Not tested whether a reward does not depend on the previous reward"
    )
    assert "have two rewards other than the most frequent one; 10 are needed." in findings["reward copying"].text


def test_pairs_are_counted_among_the_rewards_that_are_not_the_most_frequent():
    reward_indices = np.array([[1, 1, 0], [0, 2, 1], [1, 1, 1], [2, 2, 1], [0, 1, -1]], np.int8)
    lengths = np.array([3, 3, 3, 3, 2])
    actions = np.where(reward_indices < 0, -1, 0)
    states = np.where(np.arange(4) <= lengths[:, None], 0, -1)
    episodes = Episodes(states, actions, reward_indices, lengths, 1, 1, [0.0, 1.0, 2.0])
    assert count_paired(CheckedEpisodes.of(episodes)) == 2  # 0 2 . and 2 2 .


def test_a_deviation_among_resamples_by_hand():
    p_value, reason = resampled_p_value(math.sqrt(3.0), np.array([-1.0, 1.0]), above=True)
    assert reason == ""
    assert p_value == pytest.approx(0.25)  # spread sqrt(2) sqrt(3/2); Student's law on one degree is Cauchy's
    assert resampled_p_value(-math.sqrt(3.0), np.array([-1.0, 1.0]), above=True)[0] == pytest.approx(0.75)
    assert resampled_p_value(-math.sqrt(3.0), np.array([-1.0, 1.0]), above=False)[0] == pytest.approx(0.5)
    assert resampled_p_value(1.0, np.array([2.0, 2.0]), above=True)[1] == NO_INFORMATION
    assert resampled_p_value(1.0, np.array([2.0]), above=True)[1] == NO_INFORMATION


def test_few_resamples_give_uniform_p_values():
    rng, runs = np.random.default_rng(0), 4000
    normal = 2.0 + 1.5 * rng.normal(size=(runs, 9))
    values = np.sort([resampled_p_value(row[0], row[1:], above=False)[0] for row in normal])
    assert np.abs(values - (np.arange(runs) + 0.5) / runs).max() < 1.95 / math.sqrt(runs)  # Kolmogorov: one in 1000


def test_resamples_follow_the_laws_of_a_type_that_stays():
    weights, count = np.array([0.3, 0.7]), 40_000
    table = np.array([[[0.5, 0.2], [0.3, 0.2], [0.2, 0.6]], [[0.9, 0.1], [0.05, 0.1], [0.05, 0.8]]])
    episodes = Episodes(
        np.zeros((count, 3), int), np.tile([0, 1], (count, 1)), np.zeros((count, 2), np.int8), np.full(count, 2), 1, 2,
        [0.0, 1.0, 2.0],
    )  # fmt: skip
    data = CheckedEpisodes.of(episodes)
    drawn = draw_reward_indices(data, (weights, table), np.random.default_rng(1))
    joint = np.histogram2d(drawn[:, 0], drawn[:, 1], bins=(3, 3), range=((0, 3), (0, 3)))[0] / count
    expected = np.einsum("m,zm,ym->zy", weights, table[0], table[1])
    assert np.abs(joint - expected).max() < 5 * np.sqrt(0.25 / count)
    assert drawn.dtype == data.reward_indices.dtype


@pytest.mark.system
def test_resamples_are_the_same_for_the_same_seed_only(monkeypatch):
    monkeypatch.setattr(within_episodes, "_RESAMPLES", 4)
    data = CheckedEpisodes.of(rare_log(1, 3000))
    params = model_params(recover(data.episodes, seed=1).model, data)
    test = ScoreTest.of(data, params, compute_scores(data, params, params))
    assert test.resample(3) == test.resample(3)
    assert test.resample(3) != test.resample(4)


@pytest.mark.statistical
def test_scores_of_rare_rewards_are_judged_by_the_spread_of_resamples():
    """Fresh logs of the fitted model itself: their p-values are small no more often than they say."""
    data = CheckedEpisodes.of(rare_log(3, 2000))
    params = model_params(recover(data.episodes, seed=1).model, data)
    test = ScoreTest.of(data, params, compute_scores(data, params, params))
    assert min(p_value for p_value, _ in test.resample(0).values()) > 0.001


def test_types_that_are_not_needed_are_dropped_and_others_are_not():
    probs = np.array([[[0.1, 0.9]], [[0.8, 0.3]]])
    episodes = log_of(world_of(probs), 1500, seed=1)
    data = CheckedEpisodes.of(episodes)
    two = model_params(recover(episodes, num_types=2).model, data)
    four = model_params(recover(episodes, num_types=4).model, data)
    assert drop_unsupported_types(data, two) is None
    weights, table = drop_unsupported_types(data, four)
    np.testing.assert_allclose(weights[table[0, 1].argsort()], two[0][two[1][0, 1].argsort()], atol=0.02)
    np.testing.assert_allclose(np.sort(table[:, 1], axis=1), np.sort(probs.reshape(2, 2).T, axis=1), atol=0.05)


def test_of_two_models_the_one_that_is_less_sure_counts():
    none = {"switching": (math.nan, "why"), "reward copying": (0.2, ""), "repetition": (0.03, "")}
    any_value = {"switching": (0.5, ""), "reward copying": (0.1, ""), "repetition": (0.04, "")}
    expected = {"switching": (math.nan, "why"), "reward copying": (0.2, ""), "repetition": (0.04, "")}
    for pair in ([none, any_value], [any_value, none]):
        assert str(within_episodes._largest(pair)) == str(expected)


@pytest.mark.statistical
def test_with_one_type_nothing_can_change():
    probs = np.full((2, 3, 3), np.random.default_rng(0).uniform(0.1, 0.9, (3, 3)))
    episodes = log_of(world_of(probs), 3000, seed=8)
    data = CheckedEpisodes.of(episodes)
    model = recover(episodes).model
    assert drop_unsupported_types(data, model_params(model, data))[0].size == 1
    diagnostics = diagnose(episodes)
    reasons = {item.assumption: item.skip_reason for item in diagnostics.tests}
    assert reasons["switching"] == within_episodes.ONE_TYPE
    assert reasons["reward copying"] == ""
    assert not diagnostics.rejected
    switching = next(item for item in diagnostics.tests if item.assumption == "switching")
    assert "No evidence against" not in switching.text


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [8, 11])
def test_nothing_is_broken_by_a_type_too_many(seed):
    probs = np.repeat(np.random.default_rng(seed).uniform(0.1, 0.9, (1, 3, 3)), 2, axis=0)
    assert not diagnose(log_of(world_of(probs), 3000, seed), num_types=2, seed=seed - 1).rejected


def test_two_types_are_joined_by_their_weights():
    mixture = surplus.Mixture(np.array([0.2, 0.5, 0.3]), np.array([[[0.1, 0.9]], [[0.5, 0.5]], [[0.6, 0.4]]]))
    joined = surplus._merge_types(mixture, 0, 2)
    np.testing.assert_allclose(joined.weights, [0.5, 0.5])
    np.testing.assert_allclose(joined.probs, [[[0.4, 0.6]], [[0.5, 0.5]]])


def test_a_gain_is_sure_beyond_its_error_and_beyond_three_nats():
    assert surplus._is_significant(np.full(100, 0.04))
    assert not surplus._is_significant(np.full(100, 0.02))  # two nats in all: rare rewards gain as much by chance
    noisy = np.tile([5.0, -4.0], 50)  # 50 nats, standard error 45
    assert not surplus._is_significant(noisy)
    assert surplus._is_significant(noisy + 0.5)
    assert not surplus._is_significant(np.array([9.0]))


@pytest.mark.parametrize(("count", "fitted"), [(9, 5), (10_000, 5000), (10_001, 3334), (200_000, 5000)])
def test_a_rival_is_fitted_to_few_episodes_spread_evenly(count, fitted):
    chosen = fitting_mask(count)
    assert chosen.sum() == fitted
    assert len(set(np.diff(np.flatnonzero(chosen)).tolist())) == 1


def test_one_type_more_is_judged_on_all_episodes_that_it_was_not_fitted_to(monkeypatch):
    episodes = log_of(problems.make_model("random", states=2, actions=2, horizon=3, seed=1), 600, seed=1)
    sizes = []

    def fit(data, **options):
        sizes.append(len(data))
        return recover(data, **options)

    def judge(data, *others):
        sizes.append(len(data))
        return within_episodes.standardize_scores(data, *others)

    monkeypatch.setattr(surplus, "MAX_FITTED_EPISODES", 150)
    monkeypatch.setattr(assumption_tests, "recover", fit)
    monkeypatch.setattr(assumption_tests, "standardize_scores", judge)
    model = recover(episodes).model
    run_assumption_tests(episodes, model=model)
    assert sizes == [150, 450]
