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
from logs import oracles_logs as oracles
from rewardmix import InputError, fit, logs, recover, simulate, uniform
from rewardmix.report import read_run

WORLD = oracles.world(states=3, actions=2, horizon=5, seed=3)


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def fitted(model, count, seed, **options):
    return fit(simulate(uniform(model), model, count, seed), resamples=0, share_held_out=0, **options)


def changed(amount):
    """The world with one reward of the first type moved."""
    rewards = WORLD.rewards.copy()
    rewards[0, 1, 1] += amount if rewards[0, 1, 1] < 0.5 else -amount
    return replace(WORLD, rewards=rewards)


def moved_plainly(old, new, level):
    """(type, state, action) of rewards, and types whose shares moved, by hand; types have the same order."""
    one, two = logs.weeks.as_run("old", old), logs.weeks.as_run("new", new)
    tests = {}
    for m in range(2):
        spread = math.sqrt(one.weight_errors[m] ** 2 + two.weight_errors[m] ** 2)
        tests[m,] = (two.model.weights[m] - one.model.weights[m]) / spread
        for s in range(3):
            for a in range(2):
                spread = math.sqrt(one.errors[m, s, a] ** 2 + two.errors[m, s, a] ** 2)
                tests[m, s, a] = (two.model.rewards[m, s, a] - one.model.rewards[m, s, a]) / spread
    limit = NormalDist().inv_cdf(1 - level / 2 / len(tests))
    return {place for place, deviation in tests.items() if abs(deviation) > limit}


@pytest.mark.parametrize("amount", [0.0, 0.15, 0.4])
def test_what_moved_is_what_plain_arithmetic_says(amount):
    old = fitted(WORLD, 6000, 1)
    new = fitted(changed(amount), 6000, 2, start=old)
    found = logs.compare_runs(old, new)
    wanted = moved_plainly(old, new, 0.05)
    rewards = {(shift.type, shift.state, shift.action) for shift in found.moved_rewards}
    assert rewards | {(shift.type,) for shift in found.moved_shares} == wanted
    assert found.compared == 14
    assert found.types == ((0, 0), (1, 1))
    if amount == 0.4:
        assert len(rewards) == 1
        assert "moved beyond their errors" in found.verdict


def test_values_are_those_of_each_policy_in_each_model():
    old, new = fitted(WORLD, 500, 1), fitted(changed(0.4), 500, 2)
    found = logs.compare_runs(old, new)
    for policy, run_of_policy in (("old", old), ("new", new)):
        for world, run_of_world in (("old", old), ("new", new)):
            value = rewardmix.evaluate(run_of_policy.plan.policy, run_of_world.model).value
            assert getattr(found, f"{policy}_in_{world}") == value


def test_types_are_matched_whatever_their_order():
    old = fitted(WORLD, 3000, 1)
    turned = replace(old.model, weights=old.model.weights[::-1], rewards=old.model.rewards[::-1])
    mine = logs.weeks.as_run("old", old)
    other = logs.Run(turned, old.plan.policy, mine.errors[::-1], mine.weight_errors[::-1])
    found = logs.compare_runs(mine, other)
    assert sorted(found.types) == [(0, 1), (1, 0)]
    assert not found.moved_rewards
    assert not found.moved_shares
    assert [shift.before for shift in found.shares] == [shift.after for shift in found.shares]


def test_a_type_more_is_said():
    world = oracles.world(states=3, actions=2, horizon=5, contexts=3, seed=3)
    old, new = fitted(world, 2000, 1), fitted(world, 2000, 2, num_contexts=3)
    found = logs.compare_runs(old, new)
    assert len(found.types) == 2
    assert found.verdict.startswith("The number of types changed")


def recovered(seed):
    found = recover(simulate(uniform(WORLD), WORLD, 3000, seed))
    return logs.Run(found.model, uniform(WORLD), found.info.errors, found.info.weight_errors)


def test_nothing_is_called_moved_more_often_than_the_level():
    """Forty pairs of logs of the same world, at level .2: more alarms than this have a chance of 1e-5."""
    found = [logs.compare_runs(recovered(2 * k), recovered(2 * k + 1), level=0.2) for k in range(40)]
    alarms = sum(bool(one.moved_rewards or one.moved_shares) for one in found)
    assert alarms <= binom.isf(1e-5, 40, 0.2)


def test_what_cannot_be_compared_is_refused_by_name(tmp_path):
    old = fitted(WORLD, 300, 1)
    with pytest.raises(InputError, match=r"new: found another world, with num_states 4, expected 3"):
        logs.compare_runs(old, fitted(oracles.world(), 300, 1))
    with pytest.raises(InputError, match=r"old: found str, expected what fit or learn returned"):
        logs.compare_runs("runs/old", old)
    with pytest.raises(InputError, match=r"level"):
        logs.compare_runs(old, old, level=2)
    with pytest.raises(InputError, match=r"DIR: found no folder"):
        read_run(tmp_path / "nothing")


def test_the_command(tmp_path):
    for name, world in (("old", WORLD), ("new", changed(0.4))):
        logs.write(tmp_path / f"{name}.parquet", simulate(uniform(world), world, 4000, 1))
    assert run("fit", "old.parquet", "--resamples", "0", "--out", "a", cwd=tmp_path).returncode == 0
    options = ["--start", "a", "--resamples", "0", "--out", "b"]
    assert run("fit", "new.parquet", *options, cwd=tmp_path).returncode == 0
    done = run("compare", "a", "b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = logs.compare_runs(read_run(tmp_path / "a"), read_run(tmp_path / "b"))
    assert done.stdout.splitlines()[-1] == found.verdict
    assert "Rewards that moved beyond their errors" in done.stdout
    assert len(found.moved_rewards) >= 1
    result = json.loads((tmp_path / "b" / "result.json").read_text())
    del result["record"]["errors"]
    (tmp_path / "b" / "result.json").write_text(json.dumps(result))
    done = run("compare", "a", "b", cwd=tmp_path)
    assert done.returncode == 2
    assert "no 'errors' in result.json" in done.stderr
    assert np.isfinite(found.new_in_new)
