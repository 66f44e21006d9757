"""Lattices over beliefs: their points are numbered as said, and no posterior leaves the next one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.tiny_models import random_model
from rewardmix import belief as bayes
from rewardmix.planning.lattice import Lattice, coordinates, finest, lattice_points, least_beliefs, ranks_of


@pytest.mark.parametrize(("resolution", "contexts"), [(0, 3), (1, 6), (5, 3), (4, 4), (3, 7)])
def test_points_are_all_there_in_the_order_of_their_ranks(resolution, contexts):
    found, ranks = coordinates(resolution, contexts), ranks_of(resolution, contexts)
    every = np.array(list(np.ndindex((resolution + 1,) * (contexts - 1))))
    falling = every[(np.diff(every, axis=1) <= 0).all(axis=1)]
    assert found.tolist() == falling.tolist()
    assert len(found) == lattice_points(resolution, contexts)
    places = sum(ranks[i + 1, found[:, i]] for i in range(contexts - 1))
    assert places.tolist() == list(range(len(found)))


def test_beliefs_fill_the_simplex_above_the_least_ones():
    low = np.array([0.1, 0.0, 0.3])
    beliefs = Lattice(low, 0.6, 4).beliefs
    assert beliefs.sum(axis=1) == pytest.approx(np.ones(15))
    assert beliefs.min(axis=0) == pytest.approx(low)
    assert beliefs.max(axis=0) == pytest.approx(low + 0.6)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3]))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_posteriors_of_lattice_points_stay_inside_the_next_lattice(seed, corner):
    model = random_model(np.random.default_rng(seed), 2, 2, 5, contexts=4, corner=corner)
    laws = np.moveaxis(model.laws, 0, -1).reshape(-1, 1, 4)
    least = least_beliefs(model)
    for now, later in pairwise(least):
        beliefs = Lattice(now, 1.0 - now.sum(), 3).beliefs
        possible = (beliefs * laws).sum(axis=-1) > 0
        after = bayes.update(np.broadcast_to(beliefs, (len(laws), *beliefs.shape)), laws)[possible]
        assert (after >= later).all()


def test_the_finest_lattice_of_so_many_points():
    assert lattice_points(finest(6, 500), 6) <= 500 < lattice_points(finest(6, 500) + 1, 6)
    assert finest(1000, 10) == 1
