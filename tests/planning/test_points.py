"""Belief points: which can be reached, which are the same, and how they spread."""

from __future__ import annotations

import numpy as np

from planning.tiny_models import random_model
from rewardmix import belief as bayes
from rewardmix.planning.points import distinct_beliefs, reachable_beliefs, spread_beliefs, with_corners


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
    assert distinct_beliefs(beliefs).tolist() == beliefs[[0, 1, 3]].tolist()


def test_points_spread_out_from_what_is_there():
    corners = with_corners(np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]))
    assert corners.tolist()[:3] == np.eye(3).tolist()
    assert len(corners) == 4
    more = spread_beliefs(corners, np.array([[0.2, 0.3, 0.5], [0.5, 0.5, 0.0], [0.49, 0.51, 0.0]]), 5)
    assert len(more) == 6
    assert more[4].tolist() == [0.5, 0.5, 0.0]
