"""The regret by the bootstrap: what a policy is known to lose, apart from what planning left open."""

from __future__ import annotations

import numpy as np
import pytest

from rewardmix import bootstrap_regret, learn, problems
from rewardmix.bootstrap_regret import estimate_regret, evaluate_regret
from rewardmix.evaluation import controller_value
from rewardmix.planning import plan, plan_exact
from rewardmix.recovery import bootstrap_models as resampled_models

WORLD = problems.make_model("random", states=4, actions=2, horizon=5, seed=1)
FIXED = plan(problems.make_model("random", states=4, actions=2, horizon=5, seed=2)).policy


def test_regret_and_gap_are_exact_where_the_optimum_is():
    result = evaluate_regret(FIXED, WORLD, gap=1e-9, max_operations=1e12)
    assert result.value == controller_value(FIXED, WORLD)
    assert result.regret == pytest.approx(plan_exact(WORLD).value - result.value, abs=1e-8)
    assert 0 <= result.planning_gap <= 1e-9


def test_what_planning_leaves_open_is_not_regret():
    """With the first sweep alone the true regret lies between the regret and the regret plus the gap."""
    coarse = evaluate_regret(FIXED, WORLD, gap=1e-9, max_operations=1.0)
    rough, true = plan(WORLD, gap=1e-9, max_operations=1.0), plan_exact(WORLD).value - coarse.value
    assert coarse.regret == rough.lower - coarse.value
    assert coarse.planning_gap == pytest.approx(rough.gap, abs=1e-15)
    assert rough.gap > 1e-4
    assert coarse.regret <= true + 1e-12 <= coarse.regret + coarse.planning_gap


def test_a_policy_better_than_the_plan_has_no_regret():
    best = plan(WORLD, gap=1e-9)
    result = evaluate_regret(best.policy, WORLD, gap=1e-9, max_operations=1.0)
    assert result.regret == 0.0
    assert result.planning_gap == pytest.approx(
        plan(WORLD, gap=1e-9, max_operations=1.0).upper - result.value, abs=1e-12
    )


@pytest.fixture(scope="module")
def learned():
    return learn(WORLD, num_episodes=300, seed=0, num_resamples=0, refinement_fraction=0)


def test_the_bootstrap_is_the_mean_over_resampled_models(learned):
    episodes, recovery = learned.exploration.episodes, learned.recovery
    result = estimate_regret(episodes, recovery, FIXED, num_resamples=3, gap=1e-6, seed=5)
    models = resampled_models(episodes, recovery, num_resamples=3, seed=5)
    losses = [plan_exact(model).value - controller_value(FIXED, model) for model in models]
    np.testing.assert_allclose(result.regrets, losses, atol=2e-6)
    assert result.mean == pytest.approx(np.mean(losses), abs=2e-6)
    assert result.upper == pytest.approx(max(losses), abs=2e-6)
    assert result.gap <= 1e-6


def test_all_resamples_together_take_the_work_of_one_plan(learned, monkeypatch):
    limits = []

    def spied(policy, model, *, gap, max_operations):
        limits.append(max_operations)
        return evaluate_regret(policy, model, gap=gap, max_operations=1.0)

    monkeypatch.setattr(bootstrap_regret, "evaluate_regret", spied)
    result = estimate_regret(learned.exploration.episodes, learned.recovery, FIXED, num_resamples=4, gap=1e-9)
    assert limits == [bootstrap_regret.default_max_operations(learned.model) / 4] * 4
    assert result.planning_gaps.min() > 1e-5
    assert result.gap == pytest.approx(result.planning_gaps.mean())
