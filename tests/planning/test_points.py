"""Belief points: which can be reached, which are the same, and how they spread."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from planning.tiny_models import random_model
from rewardmix import belief as bayes
from rewardmix.planning.points import TRIED_FOR_ONE, one_of_each, reachable_beliefs, reached_beliefs, spread_beliefs


def test_reachable_beliefs_are_those_of_all_histories():
    model = random_model(np.random.default_rng(1), 2, 1, 3, contexts=3, corner=0.0)
    sets = reachable_beliefs(model, 100)
    after = {tuple(np.round(model.weights, 9))}
    for found in sets:
        assert {tuple(row) for row in np.round(found, 9)} == after
        steps = [model.laws[:, s, 0, z] for s in range(2) for z in range(2)]
        after = {tuple(np.round(bayes.update(belief, law), 9)) for belief in found for law in steps}
    assert reachable_beliefs(model, 3) is None


def test_points_are_one_only_where_rounding_cannot_tell_them_apart():
    beliefs = np.array([[0.3, 0.7], [0.3 + 1e-6, 0.7 - 1e-6], [0.3 + 1e-15, 0.7], [0.9, 0.1]])
    kept, groups = one_of_each(beliefs)
    assert kept.tolist() == [0, 1, 3]
    assert groups.tolist() == [0, 1, 0, 2]


def test_where_an_outcome_leads_is_known():
    model = random_model(np.random.default_rng(1), 2, 2, 3, contexts=3, corner=0.3)
    found, kinds = reached_beliefs(model, 10_000)
    assert len(found) == 3
    laws = np.moveaxis(model.laws, 0, -1).reshape(-1, model.num_values, 3)
    for now, later in pairwise(found):
        for k, r, z in np.ndindex(now.size, *kinds.shape):
            if (now.beliefs[k] * laws[r, z]).sum() > 0:
                there = later.beliefs[now.after[k, kinds[r, z]]]
                assert np.abs(there - bayes.update(now.beliefs[k], laws[r, z])).max() < 1e-11


@pytest.mark.parametrize("cap", [1, 3, 8, 20, 60, 500])
def test_beliefs_are_followed_while_they_are_few(cap):
    model = random_model(np.random.default_rng(7), 3, 2, 5, contexts=3, corner=0.0)
    every, _ = reached_beliefs(model, 10**6)
    laws = every[0].after.shape[1]
    few = [now.size for now, later in pairwise(every) if later.size <= cap and now.size * laws <= TRIED_FOR_ONE * cap]
    found, _ = reached_beliefs(model, cap)
    assert len(found) == 1 + len(few)
    for one, other in zip(found, every, strict=False):
        assert (one.beliefs == other.beliefs).all()
        assert one.after.size == 0 or (one.after == other.after).all()


def test_points_spread_out_from_what_is_there():
    corners = np.concatenate([np.eye(3), [[0.2, 0.3, 0.5]]])
    more = spread_beliefs(corners, np.array([[0.2, 0.3, 0.5], [0.5, 0.5, 0.0], [0.49, 0.51, 0.0]]), 5)
    assert len(more) == 6
    assert more[4].tolist() == [0.5, 0.5, 0.0]
