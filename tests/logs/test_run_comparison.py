"""Two runs beside each other: what moved, against plain arithmetic and with its level; what each policy earns."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import binom

import rewardmix
from oracles import log_statistics as oracles
from rewardmix import InputError, fit, logs, recover, simulate, uniform_policy
from rewardmix.report import load_run_summary

WORLD = oracles.make_random_model(states=3, actions=2, horizon=5, seed=3)


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def fitted(model, count, seed, **options):
    return fit(simulate(uniform_policy(model), model, count, seed), num_resamples=0, held_out_fraction=0, **options)


def changed(amount):
    """The model with one reward of the first type moved."""
    rewards = WORLD.rewards.copy()
    rewards[0, 1, 1] += amount if rewards[0, 1, 1] < 0.5 else -amount
    return replace(WORLD, rewards=rewards)


def moved_plainly(old, new, level):
    """(type, state, action) of rewards, and types whose shares moved, by hand; types have the same order."""
    old_summary, new_summary = (
        logs.run_comparison.to_run_summary("old", old),
        logs.run_comparison.to_run_summary("new", new),
    )
    tests = {}
    for m in range(2):
        spread = math.sqrt(old_summary.weight_errors[m] ** 2 + new_summary.weight_errors[m] ** 2)
        tests[m,] = (new_summary.model.weights[m] - old_summary.model.weights[m]) / spread
        for s in range(3):
            for a in range(2):
                spread = math.sqrt(old_summary.reward_errors[m, s, a] ** 2 + new_summary.reward_errors[m, s, a] ** 2)
                tests[m, s, a] = (new_summary.model.rewards[m, s, a] - old_summary.model.rewards[m, s, a]) / spread
    limit = NormalDist().inv_cdf(1 - level / 2 / len(tests))
    return {place for place, deviation in tests.items() if abs(deviation) > limit}


@pytest.mark.system
@pytest.mark.parametrize("amount", [0.0, 0.15, 0.4])
def test_what_moved_is_what_plain_arithmetic_says(amount):
    old = fitted(WORLD, 6000, 1)
    new = fitted(changed(amount), 6000, 2, init_model=old)
    result = logs.compare_runs(old, new)
    expected = moved_plainly(old, new, 0.05)
    rewards = {(shift.type, shift.state, shift.action) for shift in result.changed_rewards}
    assert rewards | {(shift.type,) for shift in result.changed_weights} == expected
    assert result.num_compared == 14
    assert result.type_pairs == ((0, 0), (1, 1))
    if amount == 0.4:
        assert len(rewards) == 1
        assert "changed significantly" in result.verdict


def test_values_are_those_of_each_policy_in_each_model():
    old, new = fitted(WORLD, 500, 1), fitted(changed(0.4), 500, 2)
    result = logs.compare_runs(old, new)
    for policy, run_of_policy in (("old", old), ("new", new)):
        for env, run_of_world in (("old", old), ("new", new)):
            value = rewardmix.evaluate(run_of_policy.plan.policy, run_of_world.model).value
            assert getattr(result, f"{policy}_in_{env}") == value


def test_types_are_matched_whatever_their_order():
    old = fitted(WORLD, 3000, 1)
    turned = replace(old.model, weights=old.model.weights[::-1], rewards=old.model.rewards[::-1])
    mine = logs.run_comparison.to_run_summary("old", old)
    other = logs.RunSummary(turned, old.plan.policy, mine.reward_errors[::-1], mine.weight_errors[::-1])
    result = logs.compare_runs(mine, other)
    assert sorted(result.type_pairs) == [(0, 1), (1, 0)]
    assert not result.changed_rewards
    assert not result.changed_weights
    assert [shift.old for shift in result.weights] == [shift.new for shift in result.weights]


def test_a_type_more_is_said():
    env = oracles.make_random_model(states=3, actions=2, horizon=5, num_types=3, seed=3)
    old, new = fitted(env, 2000, 1), fitted(env, 2000, 2, num_types=3)
    result = logs.compare_runs(old, new)
    assert len(result.type_pairs) == 2
    assert result.verdict.startswith("The number of types changed")


def recovered(seed):
    result = recover(simulate(uniform_policy(WORLD), WORLD, 3000, seed))
    return logs.RunSummary(result.model, uniform_policy(WORLD), result.info.reward_errors, result.info.weight_errors)


@pytest.mark.statistical
def test_nothing_is_called_moved_more_often_than_the_level():
    """Forty pairs of logs of the same model, at level .2: more alarms than this have a chance of 1e-5."""
    result = [logs.compare_runs(recovered(2 * k), recovered(2 * k + 1), significance_level=0.2) for k in range(40)]
    alarms = sum(bool(comparison.changed_rewards or comparison.changed_weights) for comparison in result)
    assert alarms <= binom.isf(1e-5, 40, 0.2)


def test_what_cannot_be_compared_is_refused_by_name(tmp_path):
    old = fitted(WORLD, 300, 1)
    with pytest.raises(InputError, match=r"new: got num_states 4, expected 3"):
        logs.compare_runs(old, fitted(oracles.make_random_model(), 300, 1))
    with pytest.raises(InputError, match=r"old: got str, expected a result of fit or learn"):
        logs.compare_runs("runs/old", old)
    with pytest.raises(InputError, match=r"level"):
        logs.compare_runs(old, old, significance_level=2)
    with pytest.raises(InputError, match=r"DIR: got (no|a missing) folder"):
        load_run_summary(tmp_path / "nothing")


@pytest.mark.system
def test_the_command(tmp_path):
    for name, env in (("old", WORLD), ("new", changed(0.4))):
        logs.write_log(tmp_path / f"{name}.parquet", simulate(uniform_policy(env), env, 4000, 1))
    assert run("fit", "old.parquet", "--num-resamples", "0", "--out", "a", cwd=tmp_path).returncode == 0
    options = ["--init-model", "a", "--num-resamples", "0", "--out", "b"]
    assert run("fit", "new.parquet", *options, cwd=tmp_path).returncode == 0
    done = run("compare-runs", "a", "b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    labels = logs.compare_runs(load_run_summary(tmp_path / "a"), load_run_summary(tmp_path / "b"))
    assert done.stdout.splitlines()[-1] == labels.verdict
    assert "Rewards that changed significantly" in done.stdout
    assert len(labels.changed_rewards) >= 1
    result = json.loads((tmp_path / "b" / "result.json").read_text())
    del result["metadata"]["errors"]
    (tmp_path / "b" / "result.json").write_text(json.dumps(result))
    done = run("compare-runs", "a", "b", cwd=tmp_path)
    assert done.returncode == 2
    assert "a result.json without 'errors'" in done.stderr
    assert np.isfinite(labels.new_in_new)
