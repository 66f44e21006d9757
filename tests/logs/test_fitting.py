"""Fits of logs: the same as recovery on the same episodes, right where moments are not, and judged honestly."""

import importlib
from dataclasses import dataclass

import numpy as np
import pytest
from benchmarks.checkup.worlds import simulate_broken
from scipy.stats import binom

import rewardmix
from oracles import log_statistics as oracles
from rewardmix import InputError, logs, plan, select_num_types, simulate, uniform_policy
from rewardmix.evaluation import controller_value
from rewardmix.logs import fit_validation, fitting
from rewardmix.logs.adaptivity_test import count_reward_action_pairs, run_adaptivity_test
from rewardmix.logs.behavior_policy import estimate_behavior_policy
from rewardmix.logs.off_policy import estimate_off_policy
from rewardmix.recovery import align_types, recover
from rewardmix.recovery.likelihood import Mixture, e_step, log_likelihoods
from rewardmix.recovery.reward_patterns import patterns_from_episodes
from rewardmix.report.report_data import report_data_from_fit


def test_a_uniform_log_is_fitted_as_recovery_does_from_the_same_episodes(tmp_path):
    episodes = oracles.uniform_log(3000)
    logs.write_log(tmp_path / "a.parquet", episodes, rows_per_group=1000)
    fitted = logs.fit(tmp_path / "a.parquet", rows_per_partition=1000)
    straight = recover(episodes)
    assert np.allclose(fitted.model.rewards, straight.model.rewards, rtol=0, atol=1e-9)
    assert np.allclose(fitted.model.transition, straight.model.transition, rtol=0, atol=1e-9)
    assert np.allclose(fitted.model.weights, straight.model.weights, rtol=0, atol=1e-9)
    assert fitted.info.recovery.loglik == pytest.approx(straight.info.loglik, rel=1e-12)
    assert not fitted.info.adaptivity.is_adaptive
    assert fitted.plan.model is fitted.model
    assert fitted.info.bootstrap.lower <= fitted.info.bootstrap.value <= fitted.info.bootstrap.upper


@pytest.fixture(scope="module")
def followed_log():
    model = oracles.make_random_model(states=4, actions=3, horizon=8, seed=1)
    return model, simulate(oracles.WinStay(3), model, 20_000)


@pytest.mark.statistical
def test_a_reward_following_log_biases_pairs_and_not_the_fit(followed_log):
    model, episodes = followed_log
    fitted = logs.fit(episodes, num_resamples=0)
    moments = fitted.info.moments
    first, second = moments.pairs
    average = model.marginal_rewards.ravel()
    both = model.covariance()[first, second] + average[first] * average[second]
    naive = moments.pair_tables[:, 1, 1] / moments.pair_samples
    off = (naive - both) / np.sqrt(both * (1 - both) / moments.pair_samples)
    assert np.abs(off).max() > 10
    errors = (fitted.model.rewards - align_types(model, fitted.model).rewards) / fitted.info.recovery.reward_errors
    assert np.abs(errors).max() < 5
    assert (
        np.abs(fitted.model.weights - align_types(model, fitted.model).weights).max()
        < 5 * fitted.info.recovery.weight_errors.max()
    )
    assert fitted.info.adaptivity.is_adaptive
    assert any("pair moments are biased" in sentence for sentence in fitted.info.report_text)
    assert "% of the time if the reward was the highest" in fitted.info.adaptivity.text


@pytest.mark.system
def test_a_long_log_goes_on_from_a_sample_over_all_parts(monkeypatch):
    episodes = oracles.uniform_log(6000)
    whole = logs.fit(logs.read_log(episodes), num_resamples=0)
    monkeypatch.setattr(fitting, "MAX_EPISODES_IN_MEMORY", 1500)
    updates = []
    sampled = logs.fit(episodes, num_resamples=0, callback=updates.append)
    assert sampled.info.num_em_passes > 3
    assert {progress.stage for progress in updates} == {"count", "initialize", "em", "plan", "diagnose", "validate"}
    assert sampled.info.recovery.loglik == pytest.approx(whole.info.recovery.loglik, abs=0.01)
    assert np.allclose(sampled.model.rewards, whole.model.rewards, atol=2e-3)
    ratio = (
        sampled.info.recovery.reward_errors / whole.info.recovery.reward_errors
    )  # scaled to the whole log, not twice as large
    assert 0.9 < np.median(ratio) < 1.1
    assert 0.6 < ratio.min() < ratio.max() < 1.7


@pytest.mark.system
def test_the_number_of_contexts_is_that_of_choose_contexts():
    model = oracles.make_random_model(states=3, actions=2, horizon=8, seed=3)
    episodes = simulate(uniform_policy(model), model, 4000)
    fitted = logs.fit(episodes, num_types="auto", num_resamples=0, held_out_fraction=0.0)
    choice = select_num_types(episodes)
    assert fitted.model.num_types == fitted.info.type_selection.num_types == choice.num_types
    assert choice.num_types == 2
    assert min(fitted.info.bic, key=fitted.info.bic.get) == 2
    assert repr(fitted.info.type_selection.scores) == repr(choice.scores)  # NaN is not equal to itself
    assert choice.text in fitted.info.report_text
    assert fitted.info.held_out is None
    assert fitted.info.off_policy is None


@pytest.mark.statistical
def test_one_context_is_said_to_be_enough():
    model = oracles.make_random_model(states=3, actions=2, horizon=6)
    same = type(model)(model.transition, model.initial, model.weights, np.repeat(model.rewards[:1], 2, axis=0), 6)
    episodes = simulate(uniform_policy(same), same, 2000)
    for options in ({"num_types": "auto"}, {"num_types": 2}):
        for resamples in (0, 2):
            fitted = logs.fit(episodes, num_resamples=resamples, **options)
            assert fitted.info.report_text[0].startswith("One type explains the episodes as well as more types do")
            assert (
                rewardmix.report.build_summary(report_data_from_fit(fitted, title="log"))["verdict"]["key"]
                == "one type"
            )
        assert fitted.model.num_types == (1 if fitted.info.type_selection else 2)


def test_coverage_names_what_was_never_tried():
    episodes = oracles.uniform_log(500)
    never = ((episodes.states[:, :-1] == 2) & (episodes.actions == 1)).any(axis=1)
    fitted = logs.fit(logs.read_log(episodes[~never], action_names=["l", "m", "r"]), num_resamples=0)
    assert fitted.info.coverage.untried_actions == ((2, 1),)
    assert "action 'm' in state 2" in fitted.info.coverage.text
    assert fitted.model.action_names == ("l", "m", "r")


def test_episodes_that_end_early_and_several_reward_values():
    model = oracles.make_random_model(states=3, actions=2, horizon=5)
    three = np.stack([model.rewards * 0.5, 1 - model.rewards, model.rewards * 0.5], axis=-1)
    model = type(model)(model.transition, model.initial, model.weights, three, 5, (0.0, 1.0, 2.0))
    episodes = oracles.shortened(simulate(uniform_policy(model), model, 3000))
    fitted = logs.fit(logs.read_log(episodes, state_names=["a", "b", "c"]), num_resamples=2)
    assert fitted.model.num_states == 4
    assert fitted.model.state_names == ("a", "b", "c", "end")
    straight = recover(episodes)
    assert np.allclose(fitted.model.rewards, straight.model.rewards, rtol=0, atol=1e-9)


def test_wrong_arguments():
    episodes = oracles.uniform_log(50)
    with pytest.raises(InputError, match="num_types: got 0, expected a whole number of at least 1"):
        logs.fit(episodes, num_types=0)
    with pytest.raises(InputError, match=r"executor: got int, expected a concurrent.futures.Executor, or a dask"):
        logs.fit(episodes, executor=3)
    with pytest.raises(InputError, match="a Log and the read option 'horizon'"):
        logs.fit(logs.read_log(episodes), horizon=3)
    with pytest.raises(InputError, match="held_out_fraction"):
        logs.fit(episodes, held_out_fraction=1.5)


@dataclass
class Stubborn:
    """Repeats its last action whatever it paid: depends on the path, not on rewards."""

    num_actions: int

    def start(self, state):
        return -1

    def act(self, memory, rng):
        return memory if memory >= 0 and rng.random() < 0.7 else int(rng.integers(self.num_actions))

    def observe(self, memory, action, reward, next_state):
        return action


@pytest.mark.parametrize("policy", [None, Stubborn(3)])
def test_the_logging_test_seldom_alarms_on_logs_that_do_not_follow_rewards(policy):
    model = oracles.make_random_model(seed=5)
    runs, size = 40, 200
    episodes = simulate(policy or uniform_policy(model), model, runs * size, seed=1)
    values = []
    for k in range(runs):
        log = logs.read_log(episodes[k * size : (k + 1) * size])
        values.append(run_adaptivity_test(log.sum_over_partitions(count_reward_action_pairs), log.schema).p_value)
    assert sum(p < 0.05 for p in values) <= binom.isf(1e-6, runs, 0.05)
    assert max(values) > 0.3


def test_the_logging_test_is_silent_without_two_steps():
    model = oracles.make_random_model(horizon=1)
    log = logs.read_log(simulate(uniform_policy(model), model, 50))
    assert "was not tested" in run_adaptivity_test(log.sum_over_partitions(count_reward_action_pairs), log.schema).text


@pytest.mark.parametrize("follows", [False, True])
def test_the_off_policy_estimate_covers_the_true_value(follows):
    model = oracles.make_random_model(states=3, actions=2, horizon=4, seed=2)
    policy = oracles.WinStay(2) if follows else uniform_policy(model)
    episodes = simulate(policy, model, 12_000, seed=4)
    wrong = type(model)(model.transition, model.initial, model.weights, 0.8 * model.rewards + 0.1, 4)
    result = plan(wrong)  # the estimate must not rest on the model being right
    prob = estimate_behavior_policy(episodes[6000:], wrong).propensities(episodes[:6000], wrong)
    estimate = estimate_off_policy(result, episodes[:6000], prob)
    assert estimate.is_supported
    error = (estimate.upper - estimate.lower) / 3.92
    assert abs(estimate.value - controller_value(result.policy, model)) < 5 * error
    assert error < 0.2


def test_a_log_that_never_played_the_policy_supports_no_estimate():
    model = oracles.make_random_model(states=3, actions=3, horizon=8, seed=2)
    episodes = simulate(uniform_policy(model), model, 400)
    estimate = estimate_off_policy(
        plan(model), episodes[:200], estimate_behavior_policy(episodes[200:], model).propensities(episodes[:200], model)
    )
    assert not estimate.is_supported
    assert np.isnan(estimate.value)
    assert "No off-policy estimate" in estimate.text


def test_logliks_add_up_to_the_log_likelihood():
    episodes = oracles.shortened(oracles.uniform_log(200))
    patterns = patterns_from_episodes(episodes)
    probs = np.random.default_rng(0).dirichlet(np.ones(2), size=(3, patterns.num_state_actions))
    mixture = Mixture(np.array([0.2, 0.3, 0.5]), probs)
    assert log_likelihoods(patterns, mixture).sum() == pytest.approx(e_step(patterns, mixture).loglik, rel=1e-12)


@pytest.mark.system
def test_weights_that_nobody_can_know_get_no_interval():
    """Two rewards an episode do not determine the weights; neither do weights that were told need an interval."""
    model = oracles.make_random_model(states=3, actions=2, horizon=2, seed=4)
    short = logs.fit(simulate(uniform_policy(model), model, 2000), num_resamples=4)
    assert short.info.recovery.weights_source == "assumed equal"
    assert short.info.bootstrap.weights_lower is None
    assert short.info.bootstrap.weights_upper is None
    with_known_weights = logs.fit(oracles.uniform_log(1000), weights="uniform", num_resamples=4)
    assert with_known_weights.info.bootstrap.weights_lower is None
    free = logs.fit(oracles.uniform_log(1000), num_resamples=4).info.bootstrap
    assert all(low < high for low, high in zip(free.weights_lower, free.weights_upper, strict=True))


def test_resamples_and_held_out_fits_do_not_move_weights_that_were_assumed(monkeypatch):
    all_weights = []

    def record_weights(episodes, model, *, weights, **options):
        all_weights.append(weights)
        return refit_model(episodes, model, weights=weights, **options)

    refit_model = fit_validation.refit_model
    for module in (fit_validation, importlib.import_module("rewardmix.recovery.bootstrap")):
        monkeypatch.setattr(module, "refit_model", record_weights)
    model = oracles.make_random_model(states=3, actions=2, horizon=2, seed=4)
    logs.fit(simulate(uniform_policy(model), model, 500), num_resamples=2)
    assert len(all_weights) == 3
    assert all(weights.tolist() == [0.5, 0.5] for weights in all_weights)


def test_a_log_that_breaks_an_assumption_is_told_of():
    model = oracles.make_random_model(states=4, actions=2, horizon=8)
    honest = logs.fit(simulate_broken(model, 4000, 1), num_resamples=0, held_out_fraction=0.0)
    assert honest.info.diagnostics.rejected == ()
    moving = logs.fit(simulate_broken(model, 4000, 1, transitions=0.3), num_resamples=0, held_out_fraction=0.0)
    assert [finding.assumption for finding in moving.info.diagnostics.rejected] == ["transition types", "transitions"]
    assert moving.info.diagnostics.rejected[0].text in moving.info.report_text
