"""Fits of logs: the same as recovery on the same episodes, right where moments are not, and judged honestly."""

import importlib
from dataclasses import dataclass

import numpy as np
import pytest
from benchmarks.checkup.worlds import simulate_broken
from scipy.stats import binom

import rewardmix
from logs import oracles_logs as oracles
from rewardmix import InputError, choose_contexts, logs, plan, simulate, uniform
from rewardmix.evaluation import controller_value
from rewardmix.logs import fitting, validation
from rewardmix.logs.behaviour import count_followed, logging_test
from rewardmix.logs.habits import habits_of
from rewardmix.logs.offpolicy import off_policy
from rewardmix.recovery import aligned, recover
from rewardmix.recovery.bags import bags_of
from rewardmix.recovery.likelihood import Mixture, e_step, logliks
from rewardmix.report.findings import fitted_findings


def test_a_uniform_log_is_fitted_as_recovery_does_from_the_same_episodes(tmp_path):
    episodes = oracles.uniform_log(3000)
    logs.write(tmp_path / "a.parquet", episodes, rows_per_group=1000)
    fitted = logs.fit(tmp_path / "a.parquet", rows_per_part=1000)
    straight = recover(episodes)
    assert np.allclose(fitted.model.rewards, straight.model.rewards, rtol=0, atol=1e-9)
    assert np.allclose(fitted.model.transition, straight.model.transition, rtol=0, atol=1e-9)
    assert np.allclose(fitted.model.weights, straight.model.weights, rtol=0, atol=1e-9)
    assert fitted.info.recovery.loglik == pytest.approx(straight.info.loglik, rel=1e-12)
    assert not fitted.info.logging.follows
    assert fitted.plan.model is fitted.model
    assert fitted.info.bootstrap.lower <= fitted.info.bootstrap.value <= fitted.info.bootstrap.upper


@pytest.fixture(scope="module")
def followed_log():
    model = oracles.world(states=4, actions=3, horizon=8, seed=1)
    return model, simulate(oracles.WinStay(3), model, 20_000)


def test_a_reward_following_log_biases_pairs_and_not_the_fit(followed_log):
    model, episodes = followed_log
    fitted = logs.fit(episodes, resamples=0)
    moments = fitted.info.moments
    first, second = moments.pairs
    average = model.average.ravel()
    both = model.covariance()[first, second] + average[first] * average[second]
    naive = moments.pair_tables[:, 1, 1] / moments.pair_samples
    off = (naive - both) / np.sqrt(both * (1 - both) / moments.pair_samples)
    assert np.abs(off).max() > 10
    errors = (fitted.model.rewards - aligned(model, fitted.model).rewards) / fitted.info.recovery.errors
    assert np.abs(errors).max() < 5
    assert (
        np.abs(fitted.model.weights - aligned(model, fitted.model).weights).max()
        < 5 * fitted.info.recovery.weight_errors.max()
    )
    assert fitted.info.logging.follows
    assert any("pair moments are biased" in sentence for sentence in fitted.info.sentences)
    assert "% of the time if the reward had been the highest" in fitted.info.logging.sentence


def test_a_long_log_goes_on_from_a_sample_over_all_parts(monkeypatch):
    episodes = oracles.uniform_log(6000)
    whole = logs.fit(logs.read(episodes), resamples=0)
    monkeypatch.setattr(fitting, "SAMPLE", 1500)
    seen = []
    sampled = logs.fit(episodes, resamples=0, on_update=seen.append)
    assert sampled.info.passes > 3
    assert {progress.stage for progress in seen} == {"count", "start", "ascend", "plan", "check", "validate"}
    assert sampled.info.recovery.loglik == pytest.approx(whole.info.recovery.loglik, abs=0.01)
    assert np.allclose(sampled.model.rewards, whole.model.rewards, atol=2e-3)
    ratio = sampled.info.recovery.errors / whole.info.recovery.errors  # scaled to the whole log, not twice as large
    assert 0.9 < np.median(ratio) < 1.1
    assert 0.6 < ratio.min() < ratio.max() < 1.7


def test_the_number_of_contexts_is_that_of_choose_contexts():
    model = oracles.world(states=3, actions=2, horizon=8, seed=3)
    episodes = simulate(uniform(model), model, 4000)
    fitted = logs.fit(episodes, num_contexts="auto", resamples=0, share_held_out=0.0)
    choice = choose_contexts(episodes)
    assert fitted.model.num_contexts == fitted.info.choice.num_contexts == choice.num_contexts
    assert choice.num_contexts == 2
    assert min(fitted.info.criterion, key=fitted.info.criterion.get) == 2
    assert repr(fitted.info.choice.trials) == repr(choice.trials)  # NaN is not equal to itself
    assert choice.sentence in fitted.info.sentences
    assert fitted.info.held_out is None
    assert fitted.info.off_policy is None


def test_one_context_is_said_to_be_enough():
    model = oracles.world(states=3, actions=2, horizon=6)
    same = type(model)(model.transition, model.initial, model.weights, np.repeat(model.rewards[:1], 2, axis=0), 6)
    episodes = simulate(uniform(same), same, 2000)
    for options in ({"num_contexts": "auto"}, {"num_contexts": 2}):
        for resamples in (0, 2):
            fitted = logs.fit(episodes, resamples=resamples, **options)
            assert fitted.info.sentences[0].startswith("One type explains the episodes as well as more do")
            assert rewardmix.report.summarise(fitted_findings(fitted, title="log"))["verdict"]["what"] == "one type"
        assert fitted.model.num_contexts == (1 if fitted.info.choice else 2)


def test_coverage_names_what_was_never_tried():
    episodes = oracles.uniform_log(500)
    never = ((episodes.states[:, :-1] == 2) & (episodes.actions == 1)).any(axis=1)
    fitted = logs.fit(logs.read(episodes[~never], action_names=["l", "m", "r"]), resamples=0)
    assert fitted.info.coverage.never_tried == ((2, 1),)
    assert "action 'm' in state 2" in fitted.info.coverage.sentence
    assert fitted.model.action_names == ("l", "m", "r")


def test_episodes_that_end_early_and_several_reward_values():
    model = oracles.world(states=3, actions=2, horizon=5)
    three = np.stack([model.rewards * 0.5, 1 - model.rewards, model.rewards * 0.5], axis=-1)
    model = type(model)(model.transition, model.initial, model.weights, three, 5, (0.0, 1.0, 2.0))
    episodes = oracles.shortened(simulate(uniform(model), model, 3000))
    fitted = logs.fit(logs.read(episodes, state_names=["a", "b", "c"]), resamples=2)
    assert fitted.model.num_states == 4
    assert fitted.model.state_names == ("a", "b", "c", "end")
    straight = recover(episodes)
    assert np.allclose(fitted.model.rewards, straight.model.rewards, rtol=0, atol=1e-9)


def test_wrong_arguments():
    episodes = oracles.uniform_log(50)
    with pytest.raises(InputError, match="num_contexts: found 0, expected a whole number of at least 1"):
        logs.fit(episodes, num_contexts=0)
    with pytest.raises(InputError, match=r"executor: found int, expected a concurrent.futures.Executor, or a dask"):
        logs.fit(episodes, executor=3)
    with pytest.raises(InputError, match="'horizon' for a log that was read already"):
        logs.fit(logs.read(episodes), horizon=3)
    with pytest.raises(InputError, match="share_held_out"):
        logs.fit(episodes, share_held_out=1.5)


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
    model = oracles.world(seed=5)
    runs, size = 40, 200
    episodes = simulate(policy or uniform(model), model, runs * size, seed=1)
    values = []
    for k in range(runs):
        log = logs.read(episodes[k * size : (k + 1) * size])
        values.append(logging_test(log.total(count_followed), log.schema).p_value)
    assert sum(p < 0.05 for p in values) <= binom.isf(1e-6, runs, 0.05)
    assert max(values) > 0.3


def test_the_logging_test_is_silent_without_two_steps():
    model = oracles.world(horizon=1)
    log = logs.read(simulate(uniform(model), model, 50))
    assert "cannot show" in logging_test(log.total(count_followed), log.schema).sentence


@pytest.mark.parametrize("follows", [False, True])
def test_the_off_policy_estimate_covers_the_true_value(follows):
    model = oracles.world(states=3, actions=2, horizon=4, seed=2)
    policy = oracles.WinStay(2) if follows else uniform(model)
    episodes = simulate(policy, model, 12_000, seed=4)
    wrong = type(model)(model.transition, model.initial, model.weights, 0.8 * model.rewards + 0.1, 4)
    found = plan(wrong)  # the estimate must not rest on the model being right
    chance = habits_of(episodes[6000:], wrong).chances(episodes[:6000], wrong)
    estimate = off_policy(found, episodes[:6000], chance)
    assert estimate.supported
    error = (estimate.upper - estimate.lower) / 3.92
    assert abs(estimate.value - controller_value(found.policy, model)) < 5 * error
    assert error < 0.2


def test_a_log_that_never_played_the_policy_supports_no_estimate():
    model = oracles.world(states=3, actions=3, horizon=8, seed=2)
    episodes = simulate(uniform(model), model, 400)
    estimate = off_policy(plan(model), episodes[:200], habits_of(episodes[200:], model).chances(episodes[:200], model))
    assert not estimate.supported
    assert np.isnan(estimate.value)
    assert "cannot support an estimate" in estimate.sentence


def test_logliks_add_up_to_the_log_likelihood():
    episodes = oracles.shortened(oracles.uniform_log(200))
    bags = bags_of(episodes)
    laws = np.random.default_rng(0).dirichlet(np.ones(2), size=(3, bags.num_points))
    mixture = Mixture(np.array([0.2, 0.3, 0.5]), laws)
    assert logliks(bags, mixture).sum() == pytest.approx(e_step(bags, mixture).loglik, rel=1e-12)


def test_weights_that_nobody_can_know_get_no_interval():
    """Two rewards an episode say nothing about the weights; neither do weights that were told need an interval."""
    model = oracles.world(states=3, actions=2, horizon=2, seed=4)
    short = logs.fit(simulate(uniform(model), model, 2000), resamples=4)
    assert short.info.recovery.weights == "assumed equal"
    assert short.info.bootstrap.weights_lower is None
    assert short.info.bootstrap.weights_upper is None
    told = logs.fit(oracles.uniform_log(1000), weights="uniform", resamples=4)
    assert told.info.bootstrap.weights_lower is None
    free = logs.fit(oracles.uniform_log(1000), resamples=4).info.bootstrap
    assert all(low < high for low, high in zip(free.weights_lower, free.weights_upper, strict=True))


def test_resamples_and_held_out_fits_do_not_move_weights_that_were_assumed(monkeypatch):
    asked = []

    def spied(episodes, model, *, weights, **options):
        asked.append(weights)
        return refitted(episodes, model, weights=weights, **options)

    refitted = validation.refitted
    for module in (validation, importlib.import_module("rewardmix.recovery.bootstrap")):
        monkeypatch.setattr(module, "refitted", spied)
    model = oracles.world(states=3, actions=2, horizon=2, seed=4)
    logs.fit(simulate(uniform(model), model, 500), resamples=2)
    assert len(asked) == 3
    assert all(weights.tolist() == [0.5, 0.5] for weights in asked)


def test_a_log_that_breaks_an_assumption_is_told_of():
    model = oracles.world(states=4, actions=2, horizon=8)
    honest = logs.fit(simulate_broken(model, 4000, 1), resamples=0, share_held_out=0.0)
    assert honest.info.checkup.broken == ()
    moving = logs.fit(simulate_broken(model, 4000, 1, moves=0.3), resamples=0, share_held_out=0.0)
    assert [finding.assumption for finding in moving.info.checkup.broken] == ["transition types", "moves"]
    assert moving.info.checkup.broken[0].sentence in moving.info.sentences
