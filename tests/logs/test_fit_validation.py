"""What a fit says of itself: p-values, estimates from episodes of another policy, and the spread of resamples."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from oracles import log_statistics as oracles
from rewardmix import logs, plan, problems, simulate, uniform_policy
from rewardmix.evaluation import controller_value
from rewardmix.logs import fit_validation
from rewardmix.logs.adaptivity_test import count_reward_action_pairs, run_adaptivity_test
from rewardmix.logs.behavior_policy import estimate_behavior_policy
from rewardmix.logs.off_policy import estimate_off_policy
from rewardmix.recovery.bootstrap import refit_model

LOGS, SIZE = 500, 110


@pytest.fixture(scope="module")
def null():
    """p-values of many small logs of uniform play: tables of about three episodes, where n - 1 is not n."""
    model = oracles.make_random_model(states=4, actions=2, horizon=4, seed=5)
    episodes = simulate(uniform_policy(model), model, LOGS * SIZE, seed=1)
    small_logs = [logs.read_log(episodes[k * SIZE : (k + 1) * SIZE]) for k in range(LOGS)]
    return np.array(
        [
            run_adaptivity_test(log.sum_over_partitions(count_reward_action_pairs), log.schema).p_value
            for log in small_logs
        ]
    )


def test_false_alarms_are_as_rare_as_the_p_value_says(null):
    """Exact binomial bands, one in a million each: at no level more alarms than the level."""
    for level in (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
        assert (null <= level).sum() <= stats.binom.isf(1e-6, LOGS, level), level


def test_p_values_have_the_law_of_the_smaller_of_two(null):
    """Twice the smaller of two uniform p-values: P(p <= a) is at least 1 - (1 - a/2)^2 less what they have in common.

    The two tests look at different steps of the same episodes. If they were one and the same, p would be uniform on
    (0, 2), so its law lies between a/2 and 1 - (1 - a/2)^2; the bands are Kolmogorov's, at one in a million.
    """
    levels = np.linspace(0.01, 0.99, 99)
    share = (null[:, None] <= levels).mean(axis=0)
    band = np.sqrt(np.log(1e6) / (2 * LOGS))
    assert (share <= 1 - (1 - levels / 2) ** 2 + band).all()
    assert (share >= levels / 2 - band).all()


def test_each_p_value_is_uniform():
    """The two tests by themselves, from the same counts: Kolmogorov's distance at one in a million."""
    from rewardmix.logs.adaptivity_test import AdaptivityCounts

    model = oracles.make_random_model(states=4, actions=2, horizon=4, seed=6)
    episodes = simulate(uniform_policy(model), model, LOGS * SIZE, seed=2)
    none = np.empty(0, np.int64)
    values = []
    for k in range(LOGS):
        log = logs.read_log(episodes[k * SIZE : (k + 1) * SIZE])
        counts = log.sum_over_partitions(count_reward_action_pairs)
        near = run_adaptivity_test(
            AdaptivityCounts(counts.adjacent_codes, counts.adjacent_counts, none, none), log.schema
        ).p_value
        values.append(near / 2)
    below = np.asarray(values)[np.asarray(values) < 0.5]  # a p-value above one half is cut off at 1 by the correction
    assert abs(below.size - LOGS / 2) < stats.binom.isf(1e-6, LOGS, 0.5) - LOGS / 2
    assert stats.kstest(2 * below, "uniform").pvalue > 1e-6


def test_the_pairs_of_the_test_are_an_earlier_reward_and_a_later_action():
    """Episodes of two steps have one such pair: its state now, state-action and reward then, action now."""
    model = oracles.make_random_model(states=3, actions=2, horizon=2, seed=1)
    episodes = simulate(uniform_policy(model), model, 400, seed=3)
    log = logs.read_log(episodes)
    earlier_codes = (episodes.states[:, 0].astype(int) * 2 + episodes.actions[:, 0]) * 2 + episodes.reward_indices[:, 0]
    codes = (episodes.states[:, 1] * 12 + earlier_codes) * 2 + episodes.actions[:, 1]
    expected = [piece.tolist() for piece in np.unique(codes, return_counts=True)]
    counts = log.sum_over_partitions(count_reward_action_pairs)
    assert [counts.adjacent_codes.tolist(), counts.adjacent_counts.tolist()] == expected
    assert [counts.any_lag_codes.tolist(), counts.any_lag_counts.tolist()] == expected


def test_a_log_is_said_to_follow_rewards_below_one_in_a_thousand():
    model = oracles.make_random_model(states=2, actions=2, horizon=4, seed=1)
    episodes = simulate(oracles.WinStay(2), model, 300, seed=5)
    tests = [
        run_adaptivity_test(log.sum_over_partitions(count_reward_action_pairs), log.schema)
        for log in (logs.read_log(episodes[:size]) for size in range(10, 300, 10))
    ]
    assert [test.is_adaptive for test in tests] == [test.p_value < 1e-3 for test in tests]
    assert 1e-12 < min(test.p_value for test in tests if test.is_adaptive) < 1e-6
    assert not tests[0].is_adaptive


def estimates_by_hand(result, episodes, prob):
    """V_0 + sum_t w_t (reward_t + V_{t+1} - V_t) of each episode, step by step."""
    model, policy, values = result.model, result.policy, result.alpha_vectors.values
    out = []
    for k in range(len(episodes)):
        state = int(episodes.states[k, 0])
        node, belief, weight = int(policy.initial_nodes[state]), model.weights, 1.0
        now = values[0][state, node] @ belief
        total = now
        for t in range(episodes.horizon):
            action, z = int(episodes.actions[k, t]), int(episodes.reward_indices[k, t])
            weight *= (policy.actions[t][state, node] == action) / prob[k, t]
            if weight == 0:
                break
            joint = belief * model.reward_probs[:, state, action, z]
            belief = joint / joint.sum()
            node = int(policy.next_nodes[t][state, node, z])
            state = int(episodes.states[k, t + 1])
            later = values[t + 1][state, node] @ belief if t + 1 < episodes.horizon else 0.0
            total += weight * (model.reward_values[z] + later - now)
            now = later
        out.append(total)
    return np.array(out)


def test_the_off_policy_estimate_is_that_of_its_formula():
    model = oracles.make_random_model(states=3, actions=2, horizon=4, seed=2)
    episodes = simulate(uniform_policy(model), model, 3000, seed=4)
    result = plan(model)
    held_out, others = episodes[:1500], episodes[1500:]
    prob = estimate_behavior_policy(others, model).propensities(held_out, model)
    expected = estimates_by_hand(result, held_out, prob)
    estimate = estimate_off_policy(result, held_out, prob)
    assert estimate.is_supported
    assert estimate.value == pytest.approx(expected.mean(), rel=1e-12)
    squares = (expected - expected.mean()) ** 2  # with two made-up episodes as far off as the furthest
    radius = stats.norm.ppf(0.975) * np.sqrt((squares.sum() + 2 * squares.max()) / 1499 / 1500)
    assert (estimate.lower, estimate.upper) == pytest.approx((expected.mean() - radius, expected.mean() + radius))
    assert estimate.num_matched == (expected_weights(result, held_out) > 0).sum()
    with_estimated_propensities = estimate_off_policy(
        result, held_out, prob, num_propensity_episodes=500
    )  # what 500 episodes say of the chances is less sure
    assert (with_estimated_propensities.upper - with_estimated_propensities.lower) / (
        estimate.upper - estimate.lower
    ) == pytest.approx(2.0)


def rare_log(mean, sessions, seed):
    """A log with few rewards, and the plan of a model that takes them for more."""
    env = problems.make_model("random", states=2, actions=2, horizon=3, seed=5)
    truth = replace(env, rewards=env.rewards * mean / env.rewards.mean())
    result = plan(replace(truth, rewards=1.3 * truth.rewards))
    episodes = simulate(uniform_policy(truth), truth, sessions, seed=seed)
    return truth, result, episodes, np.full(episodes.actions.shape, 0.5)


@pytest.mark.system
def test_an_estimate_needs_rewards_not_only_episodes_that_agree():
    for mean, sessions in ((0.0, 1000), (0.003, 1000), (0.01, 3000)):
        for seed in range(5):
            _, result, episodes, prob = rare_log(mean, sessions, seed)
            estimate = estimate_off_policy(result, episodes, prob)
            rewarded = 0
            for k in range(sessions):
                memory, agrees, is_rewarded = result.policy.start(int(episodes.states[k, 0])), True, False
                for t in range(episodes.horizon):
                    action = int(episodes.actions[k, t])
                    agrees &= result.policy.act(memory, None) == action
                    is_rewarded |= agrees and episodes.rewards[k, t] > 0
                    memory = result.policy.observe(memory, action, episodes.rewards[k, t], episodes.states[k, t + 1])
                rewarded += is_rewarded
            assert estimate.is_supported == (rewarded >= 10)
            if not estimate.is_supported:
                assert np.isnan([estimate.value, estimate.lower, estimate.upper]).all()
                assert f"in {rewarded} of {sessions} held-out episodes actions that agree" in estimate.text
                assert "10 are needed" in estimate.text


@pytest.mark.parametrize(("mean", "sessions"), [(0.01, 1500), (0.03, 600)])
def test_intervals_of_rare_rewards_cover_and_stay_within_what_can_be_earned(mean, sessions):
    """200 logs each, of which at least 95 % are right: by the binomial law, with a chance of .001 to be mistaken."""
    truth, result, _, _ = rare_log(mean, 10, 0)
    value = controller_value(result.policy, truth)
    right = supported = 0
    for seed in range(200):
        _, _, episodes, prob = rare_log(mean, sessions, 1000 + seed)
        estimate = estimate_off_policy(result, episodes, prob)
        if estimate.is_supported:
            supported += 1
            right += estimate.lower <= value <= estimate.upper
            assert 0.0 <= estimate.lower < estimate.upper <= truth.horizon
    assert supported > 100
    assert right >= stats.binom.ppf(0.001, supported, 0.95)


def expected_weights(result, episodes):
    """1 where all actions are the policy's."""
    out = np.ones(len(episodes))
    for k in range(len(episodes)):
        memory = result.policy.start(int(episodes.states[k, 0]))
        for t in range(episodes.horizon):
            out[k] *= result.policy.act(memory, np.random.default_rng(0)) == episodes.actions[k, t]
            memory = result.policy.observe(
                memory, int(episodes.actions[k, t]), episodes.rewards[k, t], episodes.states[k, t + 1]
            )
    return out


def test_resamples_of_a_part_are_scaled_to_the_whole_log(monkeypatch):
    """The spread of the policy's value over logs of this length, against that of resamples a sixteenth as long."""
    model = oracles.make_random_model(states=2, actions=2, horizon=6, seed=3)
    size, resamples = 4800, 40
    episodes = simulate(uniform_policy(model), model, size * (resamples + 1), seed=8)
    monkeypatch.setattr(fit_validation, "MAX_RESAMPLE_EPISODES", size // 16)
    fitted = logs.fit(episodes[:size], num_resamples=resamples, held_out_fraction=0.0)
    again = [
        controller_value(fitted.plan.policy, refit_model(episodes[k * size : (k + 1) * size], fitted.model))
        for k in range(1, resamples + 1)
    ]
    claimed = (fitted.info.bootstrap.upper - fitted.info.bootstrap.lower) / 2 / stats.t.ppf(0.975, resamples - 1)
    assert 0.55 < claimed / np.std(again, ddof=1) < 1.8  # without the scaling 4, with its square 1/4


def test_few_resamples_make_wider_intervals(monkeypatch):
    """Student's t: three numbers hardly tell how far they spread."""
    log = oracles.uniform_log(300)
    evaluations = [SimpleNamespace(value=v, weights=np.array([w, 1 - w]), regret=0.0, planning_gap=0.0) for v, w in
              ((1.0, 0.4), (1.1, 0.5), (1.3, 0.45))]  # fmt: skip
    monkeypatch.setattr(fit_validation, "evaluate_regrets", lambda *_, **__: evaluations)
    boot = logs.fit(log, num_resamples=3, held_out_fraction=0.0).info.bootstrap
    assert (boot.upper - boot.lower) / 2 == pytest.approx(stats.t.ppf(0.975, 2) * np.std([1.0, 1.1, 1.3], ddof=1))


def test_one_resample_gives_no_interval():
    log = oracles.uniform_log(300)
    sentences = {count: logs.fit(log, num_resamples=count).info.bootstrap.text for count in (1, 2)}
    assert sentences[1].startswith("One resample gives no interval of the policy's value; use at least two.")
    assert "inf" not in sentences[1]
    assert sentences[2].startswith("Value of the policy in 2 resamples: ")


def test_a_fit_without_a_resample_says_why():
    """There is none where the log has episodes that ended early, and those that are drawn from have not."""
    empty = fit_validation.BootstrapValue(0, 1.0, -math.inf, math.inf, math.nan, math.nan, None, None)
    assert empty.text.startswith("No bootstrap resample: none of the episodes")
    assert "inf" not in empty.text
    assert "nan" not in empty.text
