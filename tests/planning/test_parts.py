"""The parts of a sweep: grids, products, tables, and the prediction of the next resolution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from planning.tiny_models import random_model
from rewardmix import belief as bayes
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_pass import Expectation, compact
from rewardmix.planning.grid import Box, Reach, Segment, cells_of, log_ratios, rays_of
from rewardmix.planning.points import distinct, reachable_beliefs, spread_out, with_corners


@given(st.integers(0, 2**32 - 1), st.integers(3, 60), st.sampled_from([0.0, 0.4, 0.9]))
def test_posteriors_of_grid_beliefs_stay_inside_the_next_grid(seed, resolution, corner):
    model = random_model(np.random.default_rng(seed), 3, 2, 7, corner=corner)
    segment = Segment(model)
    for t in range(model.horizon - 1):
        now, later = segment.axes(t, resolution)[0], segment.axes(t + 1, resolution)[0]
        laws = np.moveaxis(model.laws, 0, -1).reshape(-1, 1, 2)
        after = bayes.update(np.stack([now, 1 - now], axis=1), laws)[..., 0]
        possible = (laws * np.stack([now, 1 - now], axis=1)).sum(axis=-1) > 0
        assert after[possible].min() >= later[0] - 1e-15
        assert after[possible].max() <= later[-1] + 1e-15
        assert np.all(np.diff(later) > 0)


@given(st.integers(0, 2**32 - 1))
def test_posteriors_of_product_grids_stay_inside_too(seed):
    model = random_model(np.random.default_rng(seed), 2, 2, 5, contexts=4)
    box = Box(model)
    laws = np.moveaxis(model.laws, 0, -1).reshape(-1, 1, 4)
    for t in range(model.horizon - 1):
        grid, *rest = box.axes(t, 4)
        rays = rays_of(tuple(rest))
        beliefs = np.concatenate([np.column_stack([np.full(len(rays), g), (1 - g) * rays]) for g in grid])
        assert beliefs.sum(axis=1) == pytest.approx(np.ones(len(beliefs)))
        joint = beliefs * laws
        for i, axis in enumerate(box.axes(t + 1, 4)):
            total = joint[..., i:].sum(axis=-1)
            place = joint[..., i][total > 1e-12] / total[total > 1e-12]
            assert place.min() >= axis[0] - 1e-12
            assert place.max() <= axis[-1] + 1e-12


def test_few_ratios_give_few_points_and_they_are_all_beliefs():
    ratios = log_ratios(np.array([0.2, 0.8]), np.array([0.8, 0.2]))
    reach = Reach(np.array([0.5, 0.5]), ratios, 6)
    assert reach.finite
    assert [reach.grid(t, 24).size for t in range(6)] == [1, 2, 3, 4, 5, 6]
    assert reach.grid(2, 24) == pytest.approx(np.array([1 / 17, 0.5, 16 / 17]), abs=1e-9)


def test_small_separation_gives_narrow_grids():
    ratios = log_ratios(np.array([0.5, 0.51, 0.497]), np.array([0.5, 0.5, 0.5]))
    grid = Reach(np.array([0.5, 0.5]), ratios, 10).grid(3, 24)
    assert 0.49 < grid[0] < grid[-1] < 0.52


def test_cells_have_all_corners():
    cells, offsets = cells_of((3, 2, 4))
    assert cells.size == 2 * 1 * 3
    assert offsets.size == 8
    assert (cells[:, None] + offsets).max() == 3 * 2 * 4 - 1
    assert cells_of((1, 1))[1].tolist() == [0]


@pytest.mark.parametrize("density", [0.02, 0.5])
def test_products_agree_whatever_the_form_of_the_matrix(density):
    rng = np.random.default_rng(0)
    rows = rng.random((60, 30)) * (rng.random((60, 30)) < density)
    rows[np.arange(60), rng.integers(30, size=60)] += 0.1
    rows /= rows.sum(axis=1, keepdims=True)
    rewards = rng.random((2, 30, 2))
    dense = RewardMixingMDP(rows.reshape(30, 2, 30), np.full(30, 1 / 30), [0.5, 0.5], rewards, 2)
    sparse = RewardMixingMDP(csr_array(rows), np.full(30, 1 / 30), [0.5, 0.5], rewards, 2)
    values = rng.random((30, 7))
    for chosen in (np.arange(60), np.array([3, 4, 5]), np.array([0, 7, 59])):
        for model in (dense, sparse):
            assert Expectation(model)(chosen, values) == pytest.approx(rows[chosen] @ values, abs=1e-14)


def test_compact_leaves_out_nodes_that_are_never_entered():
    model = random_model(np.random.default_rng(0), 2, 2, 3)
    actions = [np.array([[0], [1]]), np.arange(10).reshape(2, 5) % 2, np.ones((2, 300), dtype=np.int64)]
    moves = [np.full((2, 1, 2), 3), np.full((2, 5, 2), 299), np.full((2, 300, 2), 7)]
    moves[0][1, 0, 1] = 1
    lean = compact(actions, moves, np.zeros(2, dtype=np.int64), model)
    assert [part.shape for part in lean.actions] == [(2, 1), (2, 2), (2, 1)]
    assert lean.successors[0][:, 0].tolist() == [[1, 1], [1, 0]]
    assert lean.actions[1].tolist() == actions[1][:, [1, 3]].tolist()
    assert all(part.dtype == np.int8 for part in (*lean.actions, *lean.successors))


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
    assert distinct(beliefs).tolist() == beliefs[[0, 1, 3]].tolist()


def test_points_spread_out_from_what_is_there():
    corners = with_corners(np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]))
    assert corners.tolist()[:3] == np.eye(3).tolist()
    assert len(corners) == 4
    more = spread_out(corners, np.array([[0.2, 0.3, 0.5], [0.5, 0.5, 0.0], [0.49, 0.51, 0.0]]), 5)
    assert len(more) == 6
    assert more[4].tolist() == [0.5, 0.5, 0.0]
