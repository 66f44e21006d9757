from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import rewardmix
from planning.tiny_models import random_model
from rewardmix._core.checks import InputError
from rewardmix.evaluation import evaluate
from rewardmix.planning import plan
from rewardmix.policy import BeliefPolicy


@pytest.fixture(scope="module")
def found():
    return plan(random_model(np.random.default_rng(4), 3, 2, 6, values=3, corner=0.0), gap=1e-4)


def test_a_plan_comes_back_whole(tmp_path, found):
    rewardmix.save(tmp_path / "plan", found)
    back = rewardmix.load(tmp_path / "plan")
    assert (back.lower, back.upper) == (found.lower, found.upper)
    rounds = tuple(dataclasses.replace(done, seconds=0.0) for done in found.info.rounds)  # the same plan, the same file
    assert back.info == dataclasses.replace(found.info, rounds=rounds)
    assert evaluate(back.policy, found.model).value == evaluate(found.policy, found.model).value
    assert all(np.array_equal(a, b) for a, b in zip(back.policy.actions, found.policy.actions, strict=True))
    assert back.nbytes == found.nbytes


@pytest.mark.parametrize("form", ["policy", "belief_policy", "alpha_vectors"])
def test_policies_come_back_and_decide_the_same(tmp_path, found, form):
    rewardmix.save(tmp_path / "policy", getattr(found, form))
    back = rewardmix.load(tmp_path / "policy")
    assert type(back) is type(getattr(found, form))
    decide = {"belief_policy": lambda p: p.decide, "alpha_vectors": lambda p: p}.get(form)
    if decide is not None:
        rng = np.random.default_rng(0)
        for belief in rng.dirichlet([1, 1], size=50):
            t, s = rng.integers(6), rng.integers(3)
            assert decide(back)(t, s, belief) == found.alpha_vectors(t, s, belief)


def test_a_belief_policy_without_arrays_is_refused_by_name(tmp_path, found):
    with pytest.raises(InputError, match="decides by function, expected one that has AlphaVectors"):
        rewardmix.save(tmp_path / "policy", BeliefPolicy(found.model, lambda t, s, b: 0))
