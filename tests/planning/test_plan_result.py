from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import rewardmix
from helpers.tiny_models import random_model
from rewardmix._core.checks import InputError
from rewardmix.evaluation import evaluate
from rewardmix.planning import plan
from rewardmix.policy import BeliefPolicy


@pytest.fixture(scope="module")
def result():
    return plan(random_model(np.random.default_rng(4), 3, 2, 6, values=3, corner=0.0), gap=1e-4)


def test_a_plan_comes_back_whole(tmp_path, result):
    rewardmix.save(tmp_path / "plan", result)
    back = rewardmix.load(tmp_path / "plan")
    assert (back.lower, back.upper) == (result.lower, result.upper)
    rounds = tuple(
        dataclasses.replace(done, seconds=0.0) for done in result.info.rounds
    )  # the same plan, the same file
    assert back.info == dataclasses.replace(result.info, rounds=rounds)
    assert evaluate(back.policy, result.model).value == evaluate(result.policy, result.model).value
    assert all(np.array_equal(a, b) for a, b in zip(back.policy.actions, result.policy.actions, strict=True))
    assert back.nbytes == result.nbytes


@pytest.mark.parametrize("form", ["policy", "belief_policy", "alpha_vectors"])
def test_policies_come_back_and_decide_the_same(tmp_path, result, form):
    rewardmix.save(tmp_path / "policy", getattr(result, form))
    back = rewardmix.load(tmp_path / "policy")
    assert type(back) is type(getattr(result, form))
    decision_rule = {"belief_policy": lambda p: p.decision_rule, "alpha_vectors": lambda p: p}.get(form)
    if decision_rule is not None:
        rng = np.random.default_rng(0)
        for belief in rng.dirichlet([1, 1], size=50):
            t, s = rng.integers(6), rng.integers(3)
            assert decision_rule(back)(t, s, belief) == result.alpha_vectors(t, s, belief)


def test_a_belief_policy_without_arrays_is_refused_by_name(tmp_path, result):
    with pytest.raises(
        InputError, match="got a BeliefPolicy with a function, expected a BeliefPolicy with AlphaVectors"
    ):
        rewardmix.save(tmp_path / "policy", BeliefPolicy(result.model, lambda t, s, b: 0))
