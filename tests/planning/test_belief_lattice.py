"""Lattices over beliefs: their points are numbered as said, and no posterior leaves the next one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tiny_models import random_model
from rewardmix import belief as bayes
from rewardmix.planning import belief_lattice
from rewardmix.planning.belief_lattice import (
    DominatedCellTable,
    Lattice,
    LatticePlanner,
    coordinate_ranks,
    coordinates,
    lattice_points,
    max_resolution,
    min_beliefs,
)


@pytest.mark.parametrize(("resolution", "num_types"), [(0, 3), (1, 6), (5, 3), (4, 4), (3, 7)])
def test_points_are_all_there_in_the_order_of_their_ranks(resolution, num_types):
    result, ranks = coordinates(resolution, num_types), coordinate_ranks(resolution, num_types)
    every = np.array(list(np.ndindex((resolution + 1,) * (num_types - 1))))
    falling = every[(np.diff(every, axis=1) <= 0).all(axis=1)]
    assert result.tolist() == falling.tolist()
    assert len(result) == lattice_points(resolution, num_types)
    places = sum(ranks[i + 1, result[:, i]] for i in range(num_types - 1))
    assert places.tolist() == list(range(len(result)))


def test_beliefs_fill_the_simplex_above_the_least_ones():
    low = np.array([0.1, 0.0, 0.3])
    beliefs = Lattice(low, 0.6, 4).beliefs
    assert beliefs.sum(axis=1) == pytest.approx(np.ones(15))
    assert beliefs.min(axis=0) == pytest.approx(low)
    assert beliefs.max(axis=0) == pytest.approx(low + 0.6)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3]))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_posteriors_of_lattice_points_stay_inside_the_next_lattice(seed, corner):
    model = random_model(np.random.default_rng(seed), 2, 2, 5, num_types=4, corner=corner)
    probs = np.moveaxis(model.reward_probs, 0, -1).reshape(-1, 1, 4)
    least = min_beliefs(model)
    for now, later in pairwise(least):
        beliefs = Lattice(now, 1.0 - now.sum(), 3).beliefs
        possible = (beliefs * probs).sum(axis=-1) > 0
        after = bayes.update(np.broadcast_to(beliefs, (len(probs), *beliefs.shape)), probs)[possible]
        assert (after >= later).all()


def test_the_finest_lattice_of_so_many_points():
    assert lattice_points(max_resolution(6, 500), 6) <= 500 < lattice_points(max_resolution(6, 500) + 1, 6)
    assert max_resolution(1000, 10) == 1


@pytest.mark.parametrize(("coarse", "fine", "num_types"), [(3, 3, 3), (3, 7, 4), (4, 9, 5), (2, 31, 3)])
def test_points_lie_in_their_cells(coarse, fine, num_types):
    own, wide = Lattice(np.zeros(num_types), 1.0, fine), coordinates(coarse, num_types)
    before = DominatedCellTable(coarse, np.array([0]), np.zeros((1, len(wide)), np.bool_))
    assert wide[before.cells(own)].tolist() == np.floor(own.coordinates * (coarse / fine) + 1e-9).tolist()


@pytest.mark.parametrize("num_types", [3, 4, 5])
@pytest.mark.parametrize("seed", range(4))
def test_passing_over_beaten_cells_changes_nothing(seed, num_types, monkeypatch):
    """Lattices that are not nested: the bracket of each pass is that of a planner that remembers no cells."""
    model = random_model(np.random.default_rng(seed), 3, 3, 5, num_types=num_types, corner=0.0)
    monkeypatch.setattr(belief_lattice, "MAX_REACHABLE_BELIEFS", 1)
    careful = LatticePlanner(model)
    monkeypatch.setattr(belief_lattice, "MAX_PRUNED_CELLS", 0)
    plain = LatticePlanner(model)
    for resolution in (3, 5, 11):
        monkeypatch.setattr(belief_lattice, "MAX_PRUNED_CELLS", 0)
        expected = plain.sweep(resolution, np.inf)
        monkeypatch.setattr(belief_lattice, "MAX_PRUNED_CELLS", 4096)
        result = careful.sweep(resolution, np.inf)
        assert (result.lower, result.upper) == (expected.lower, expected.upper)
    assert careful.estimate_operations(12) < 0.9 * plain.estimate_operations(12)
