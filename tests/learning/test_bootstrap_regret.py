"""The regret by the bootstrap: what a policy is known to lose, apart from what planning left open."""

from __future__ import annotations

import numpy as np
import pytest

from rewardmix import learn, problems, regret
from rewardmix.evaluation import controller_value
from rewardmix.planning import plan, plan_exact
from rewardmix.recovery import bootstrap as resampled_models
from rewardmix.regret import bootstrap_regret, judge

WORLD = problems.make("random", states=4, actions=2, horizon=5, seed=1)
FIXED = plan(problems.make("random", states=4, actions=2, horizon=5, seed=2)).policy


def test_regret_and_gap_are_exact_where_the_optimum_is():
    found = judge(FIXED, WORLD, gap=1e-9, work_limit=1e12)
    assert found.value == controller_value(FIXED, WORLD)
    assert found.regret == pytest.approx(plan_exact(WORLD).value - found.value, abs=1e-8)
    assert 0 <= found.gap <= 1e-9


def test_what_planning_leaves_open_is_not_regret():
    """With the first sweep alone the true regret lies between the regret and the regret plus the gap."""
    coarse = judge(FIXED, WORLD, gap=1e-9, work_limit=1.0)
    rough, true = plan(WORLD, gap=1e-9, work_limit=1.0), plan_exact(WORLD).value - coarse.value
    assert coarse.regret == rough.lower - coarse.value
    assert coarse.gap == pytest.approx(rough.gap, abs=1e-15)
    assert rough.gap > 1e-4
    assert coarse.regret <= true + 1e-12 <= coarse.regret + coarse.gap


def test_a_policy_better_than_the_plan_has_no_regret():
    best = plan(WORLD, gap=1e-9)
    found = judge(best.policy, WORLD, gap=1e-9, work_limit=1.0)
    assert found.regret == 0.0
    assert found.gap == pytest.approx(plan(WORLD, gap=1e-9, work_limit=1.0).upper - found.value, abs=1e-12)


@pytest.fixture(scope="module")
def learned():
    return learn(WORLD, episodes=300, seed=0, resamples=0, refine=0)


def test_the_bootstrap_is_the_mean_over_resampled_models(learned):
    episodes, recovery = learned.exploration.gathered, learned.recovery
    found = bootstrap_regret(episodes, recovery, FIXED, resamples=3, gap=1e-6, seed=5)
    models = resampled_models(episodes, recovery, resamples=3, seed=5)
    losses = [plan_exact(model).value - controller_value(FIXED, model) for model in models]
    np.testing.assert_allclose(found.regrets, losses, atol=2e-6)
    assert found.mean == pytest.approx(np.mean(losses), abs=2e-6)
    assert found.upper == pytest.approx(max(losses), abs=2e-6)
    assert found.gap <= 1e-6


def test_all_resamples_together_take_the_work_of_one_plan(learned, monkeypatch):
    limits = []

    def spied(policy, model, *, gap, work_limit):
        limits.append(work_limit)
        return judge(policy, model, gap=gap, work_limit=1.0)

    monkeypatch.setattr(regret, "judge", spied)
    found = bootstrap_regret(learned.exploration.gathered, learned.recovery, FIXED, resamples=4, gap=1e-9)
    assert limits == [regret.usual_work(learned.model) / 4] * 4
    assert found.gaps.min() > 1e-5
    assert found.gap == pytest.approx(found.gaps.mean())
