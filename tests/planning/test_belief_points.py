"""Belief points: which can be reached, which are the same, and how they spread."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from helpers.tiny_models import random_model
from rewardmix import belief as bayes
from rewardmix.planning.belief_points import (
    MAX_PAIRS_PER_BELIEF,
    enumerate_reachable,
    farthest_point_subset,
    reachable_beliefs_per_step,
    unique_rows,
)


def test_reachable_beliefs_are_those_of_all_histories():
    model = random_model(np.random.default_rng(1), 2, 1, 3, num_types=3, corner=0.0)
    sets = reachable_beliefs_per_step(model, 100)
    after = {tuple(np.round(model.weights, 9))}
    for beliefs in sets:
        assert {tuple(row) for row in np.round(beliefs, 9)} == after
        steps = [model.reward_probs[:, s, 0, z] for s in range(2) for z in range(2)]
        after = {tuple(np.round(bayes.update(belief, likelihoods), 9)) for belief in beliefs for likelihoods in steps}
    assert reachable_beliefs_per_step(model, 3) is None


def test_points_are_one_only_where_rounding_cannot_tell_them_apart():
    beliefs = np.array([[0.3, 0.7], [0.3 + 1e-6, 0.7 - 1e-6], [0.3 + 1e-15, 0.7], [0.9, 0.1]])
    storage, groups = unique_rows(beliefs)
    assert storage.tolist() == [0, 1, 3]
    assert groups.tolist() == [0, 1, 0, 2]


def test_where_an_outcome_leads_is_known():
    model = random_model(np.random.default_rng(1), 2, 2, 3, num_types=3, corner=0.3)
    steps, vector_indices = enumerate_reachable(model, 10_000)
    assert len(steps) == 3
    probs = np.moveaxis(model.reward_probs, 0, -1).reshape(-1, model.num_values, 3)
    for now, later in pairwise(steps):
        for k, r, z in np.ndindex(now.size, *vector_indices.shape):
            if (now.beliefs[k] * probs[r, z]).sum() > 0:
                posterior = later.beliefs[now.successors[k, vector_indices[r, z]]]
                assert np.abs(posterior - bayes.update(now.beliefs[k], probs[r, z])).max() < 1e-11


@pytest.mark.parametrize("cap", [1, 3, 8, 20, 60, 500])
def test_beliefs_are_followed_while_they_are_few(cap):
    model = random_model(np.random.default_rng(7), 3, 2, 5, num_types=3, corner=0.0)
    every, _ = enumerate_reachable(model, 10**6)
    probs = every[0].successors.shape[1]
    few = [
        now.size
        for now, later in pairwise(every)
        if later.size <= cap and now.size * probs <= MAX_PAIRS_PER_BELIEF * cap
    ]
    steps, _ = enumerate_reachable(model, cap)
    assert len(steps) == 1 + len(few)
    for step, other in zip(steps, every, strict=False):
        assert (step.beliefs == other.beliefs).all()
        assert step.successors.size == 0 or (step.successors == other.successors).all()


def test_points_spread_out_from_what_is_there():
    corners = np.concatenate([np.eye(3), [[0.2, 0.3, 0.5]]])
    more = farthest_point_subset(corners, np.array([[0.2, 0.3, 0.5], [0.5, 0.5, 0.0], [0.49, 0.51, 0.0]]), 5)
    assert len(more) == 6
    assert more[4].tolist() == [0.5, 0.5, 0.0]
