"""The compiled backward steps against the same in plain Python: impossible outcomes, posteriors off the grid.

The plain ones move beliefs by ``belief.update``, so these tests hold the kernels' own Bayes steps against it.
"""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest

from rewardmix.belief import update
from rewardmix.planning.backup_kernels import (
    TILE_SIZE,
    DominatedCells,
    LatticeCells,
    backup_lattice,
    backup_two_types,
    is_undominated,
    may_be_optimal,
)
from rewardmix.planning.belief_grid import inverse_widths
from rewardmix.planning.belief_lattice import NO_CELLS, NO_COORDINATES, NO_SUCCESSORS, DominatedCellTable, Lattice

SEEDS = range(12)


def rows(rng, num_types, next_points):
    """Two states with two and three actions, three outcomes of which some are impossible in some contexts."""
    probs = rng.dirichlet(np.ones(3), size=(5, num_types)).transpose(0, 2, 1) * (rng.random((5, 3, num_types)) < 0.6)
    probs = np.ascontiguousarray(probs)  # what is missing to one may be an outcome that is not looked at
    starts, labels = np.array([0, 2, 5]), np.array([0, 1, 0, 1, 2])
    return probs, rng.random((5, num_types)), starts, labels, rng.random((5, 1 + num_types, next_points))


def best_rows(states, upper, vectors, beliefs):
    """(value, best row) of each state and belief: the highest upper bound, and the vector that earns most."""
    for s, state_rows in enumerate(states):
        for k, belief in enumerate(beliefs):
            r = max(state_rows, key=lambda r: float(vectors[r, k] @ belief))
            yield s, k, max(upper[r, k] for r in state_rows), r


def slow_two(probs, means, ahead, grid, next_grid):
    """(upper (R, K), earned (R, K, 2), moves (R, K, Z)) by the formulas of ``planning.grid``."""
    upper, vectors = np.zeros((5, grid.size)), np.zeros((5, grid.size, 2))
    next_nodes = np.zeros((5, grid.size, 3), int)
    for r, k in np.ndindex(5, grid.size):
        belief = np.array([grid[k], 1.0 - grid[k]])
        upper[r, k], vectors[r, k] = belief @ means[r], means[r]
        for z in range(3):
            joint = belief * probs[r, z]
            total = joint.sum()
            if total > 0:
                posterior = update(belief, probs[r, z])[0]
                upper[r, k] += total * np.interp(posterior, next_grid, ahead[r, 0])
                low = min(max(int(np.searchsorted(next_grid, posterior)) - 1, 0), max(next_grid.size - 2, 0))
                near = [low, min(low + 1, next_grid.size - 1)]
                next_nodes[r, k, z] = max(near, key=lambda j: float(joint @ ahead[r, 1:, j]))
            else:  # the end of the range towards the context that can have paid it
                next_nodes[r, k, z] = next_grid.size - 1 if probs[r, z, 0] > 0 else 0
            vectors[r, k] += probs[r, z] * ahead[r, 1:, next_nodes[r, k, z]]
    return upper, vectors, next_nodes


@pytest.mark.system
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("points", [1, 2, 6])
def test_two_contexts(seed, points):
    """The next grid does not reach as far as posteriors do: they take the value of its end, and nothing beyond it."""
    rng = np.random.default_rng(seed)
    probs, means, starts, labels, ahead = rows(rng, 2, points)
    grid = np.concatenate([[0.0], np.sort(rng.random(5)), [1.0]])
    next_grid = np.sort(rng.uniform(0.2, 0.8, points))
    value, best = np.empty((2, 3, 7)), np.empty((2, 7), np.int32)
    next_nodes, keep = np.empty((2, 7, 3), np.int32), np.empty(5, np.bool_)
    widths = inverse_widths(next_grid)
    backup_two_types(probs, means, starts, labels, ahead, grid, next_grid, widths, 0.0, value, best, next_nodes, keep)
    upper, vectors, expected_nodes = slow_two(probs, means, ahead, grid, next_grid)
    beliefs = np.stack([grid, 1.0 - grid], axis=1)
    for s, k, high, r in best_rows(([0, 1], [2, 3, 4]), upper, vectors, beliefs):
        assert value[s, 0, k] == pytest.approx(high, abs=1e-12)
        assert value[s, 1:, k] == pytest.approx(vectors[r, k], abs=1e-12)
        assert best[s, k] == labels[r]
        assert next_nodes[s, k].tolist() == expected_nodes[r, k].tolist()


def corners_around(belief, lattice):
    """[(point, share)]: of all simplices of neighbours, found by trying every order, the one that holds the belief."""
    num_types, n = belief.size, lattice.resolution
    coordinates = np.minimum(n * np.cumsum(((belief - lattice.min_belief) / lattice.extent)[:0:-1])[::-1], n)
    points = {tuple(x): k for k, x in enumerate(lattice.coordinates.tolist())}
    floor = np.floor(coordinates)
    for order in permutations(range(num_types - 1)):
        fractions = [1.0, *(coordinates - floor)[list(order)], 0.0]
        if all(larger >= smaller for larger, smaller in pairwise(fractions)):
            corner, corners = floor.copy(), []
            for raised, (larger, smaller) in zip([None, *order], pairwise(fractions), strict=True):
                if raised is not None:
                    corner[raised] += 1
                if larger > smaller:
                    corners.append((points[tuple(corner.astype(int).tolist())], larger - smaller))
            return corners
    raise AssertionError("a belief outside the lattice")


def slow_lattice(probs, means, ahead, beliefs, lattice):
    """(upper, earned, moves) by the formulas of ``planning.lattice``; ahead: (R, L, 1 + M)."""
    size, num_types = beliefs.shape
    upper, vectors = np.zeros((5, size)), np.zeros((5, size, num_types))
    next_nodes = np.zeros((5, size, 3), int)
    for r, k in np.ndindex(5, size):
        upper[r, k], vectors[r, k] = beliefs[k] @ means[r], means[r]
        for z in range(3):
            total = beliefs[k] @ probs[r, z]
            if probs[r, z].sum() > 0:
                posterior = update(beliefs[k], probs[r, z]) if total > 0 else probs[r, z] / probs[r, z].sum()
                corners = corners_around(posterior, lattice)
                upper[r, k] += total * sum(share * ahead[r, point, 0] for point, share in corners)
                next_nodes[r, k, z] = max(corners, key=lambda corner: float(posterior @ ahead[r, corner[0], 1:]))[0]
            vectors[r, k] += probs[r, z] * ahead[r, next_nodes[r, k, z], 1:]
    return upper, vectors, next_nodes


def one_step(probs, means, starts, labels, ahead, points, vector_indices=None, successors=NO_SUCCESSORS, lattice=None):
    """(value, best, moves) of ``backup_lattice``."""
    size, num_types = points.shape
    lattice = Lattice(np.zeros(num_types), 1.0, 0) if lattice is None else lattice
    value, best = np.empty((2, size, 1 + num_types)), np.empty((2, size), np.int32)
    next_nodes, keep = np.empty((2, size, 3), np.int32), np.empty(5, np.bool_)
    vector_indices = np.zeros((5, 3), np.int32) if vector_indices is None else vector_indices
    cells = LatticeCells(tuple(lattice.min_belief.tolist()), lattice.extent, lattice.ranks)
    empty = DominatedCells(NO_CELLS, np.zeros((5, 0), np.bool_), np.zeros((5, 0), np.bool_))
    inputs = vector_indices, successors, cells, NO_COORDINATES, lattice.ranks, empty, 0.0
    backup_lattice(probs, means, starts, labels, ahead, points, *inputs, value, best, next_nodes, keep)
    return value, best, next_nodes


@pytest.mark.system
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("num_types", [3, 4, 5])
def test_lattice(seed, num_types):
    rng = np.random.default_rng(seed)
    points, lattice = rng.dirichlet(np.ones(num_types), 6), Lattice(np.zeros(num_types), 1.0, 2 + seed % 3)
    _, means, starts, labels, _ = rows(rng, num_types, 1)
    probs = np.ascontiguousarray(rng.dirichlet(np.ones(3), size=(5, num_types)).transpose(0, 2, 1))
    ahead = rng.random((5, lattice.size, 1 + num_types))
    value, best, next_nodes = one_step(probs, means, starts, labels, ahead, points, lattice=lattice)
    upper, vectors, expected_nodes = slow_lattice(probs, means, ahead, points, lattice)
    for s, k, high, r in best_rows(([0, 1], [2, 3, 4]), upper, vectors, points):
        assert value[s, k, 0] == pytest.approx(high, abs=1e-12)
        assert value[s, k, 1:] == pytest.approx(vectors[r, k], abs=1e-12)
        assert best[s, k] == labels[r]
        assert next_nodes[s, k].tolist() == expected_nodes[r, k].tolist()


def test_points_are_backed_up_alike_wherever_they_lie_in_a_tile():
    rng = np.random.default_rng(0)
    lattice = Lattice(np.full(4, 0.01), 0.96, 5)
    probs, means, starts, labels, ahead = rows(rng, 4, lattice.size)
    points = np.concatenate([np.eye(4), rng.dirichlet(np.ones(4), 2 * TILE_SIZE)])
    inputs = probs, means, starts, labels, np.ascontiguousarray(ahead.swapaxes(1, 2))
    together = one_step(*inputs, points, lattice=lattice)
    for begin in range(0, len(points), 100):
        part = slice(begin, begin + 100)
        for expected, actual in zip(together, one_step(*inputs, points[part], lattice=lattice), strict=True):
            assert (expected[:, part] == actual).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_sure_beliefs_and_impossible_outcomes_on_a_lattice(seed):
    """Posteriors on a side of a cell may be put a hair beside it: then one more node is tried, and none is lost.

    After an outcome that cannot be, that goes for those who believe what its law says.
    """
    rng = np.random.default_rng(seed)
    points, lattice = np.concatenate([np.eye(4), [[0.5, 0.0, 0.5, 0.0]]]), Lattice(np.zeros(4), 1.0, 3)
    probs, means, starts, labels, _ = rows(rng, 4, 1)
    ahead = rng.random((5, lattice.size, 5))
    value, best, next_nodes = one_step(probs, means, starts, labels, ahead, points, lattice=lattice)
    upper, vectors, _ = slow_lattice(probs, means, ahead, points, lattice)
    for s, k, high, r in best_rows(([0, 1], [2, 3, 4]), upper, vectors, points):
        assert value[s, k, 0] == pytest.approx(high, abs=1e-12)
        assert points[k] @ value[s, k, 1:] > points[k] @ vectors[r, k] - 1e-12
        row = starts[s] + best[s, k]
        expected = means[row] + sum(probs[row, z] * ahead[row, next_nodes[s, k, z], 1:] for z in range(3))
        assert value[s, k, 1:] == pytest.approx(expected, abs=1e-12)
        for z in np.flatnonzero((probs[row] @ points[k] == 0) & (probs[row].sum(axis=1) > 0)):
            posterior = probs[row, z] / probs[row, z].sum()
            near = [corner for corner, share in corners_around(posterior, lattice) if share > 1e-9]
            assert posterior @ ahead[row, next_nodes[s, k, z], 1:] > (ahead[row, near, 1:] @ posterior).max() - 1e-12


def test_beliefs_whose_next_points_are_known_take_them():
    rng = np.random.default_rng(0)
    probs, means, starts, labels, _ = rows(rng, 3, 1)
    points, ahead = rng.dirichlet(np.ones(3), 4), rng.random((5, 6, 4))
    vector_indices, successors = (
        rng.integers(7, size=(5, 3)).astype(np.int32),
        rng.integers(6, size=(4, 7)).astype(np.int32),
    )
    value, _, next_nodes = one_step(probs, means, starts, labels, ahead, points, vector_indices, successors)
    upper, vectors = points @ means.T, np.tile(means[:, None], (1, 4, 1))
    for r, k, z in np.ndindex(5, 4, 3):
        next_values = ahead[r, successors[k, vector_indices[r, z]]]
        upper[k, r] += (points[k] @ probs[r, z]) * next_values[0]
        vectors[r, k] += probs[r, z] * next_values[1:]
    for s, k, high, r in best_rows(([0, 1], [2, 3, 4]), upper.T, vectors, points):
        assert value[s, k, 0] == pytest.approx(high, abs=1e-12)
        assert value[s, k, 1:] == pytest.approx(vectors[r, k], abs=1e-12)
        assert next_nodes[s, k].tolist() == successors[k, vector_indices[r]].tolist()


@pytest.mark.system
def test_on_a_lattice_only_what_is_beaten_everywhere_is_dropped():
    """Nodes are tangents of a bowl, an action lies a little below it at the points: fine beliefs tell the truth."""
    rng = np.random.default_rng(0)
    lattice = Lattice(np.zeros(3), 1.0, 4)
    points, fine = lattice.beliefs, Lattice(np.zeros(3), 1.0, 40)
    verdicts = []
    for _ in range(300):
        center, steep = rng.dirichlet(np.ones(3)), rng.uniform(0.0, 2.0)
        slopes = 2 * steep * (points - center)
        vectors = slopes + (steep * ((points - center) ** 2).sum(axis=1) - (slopes * points).sum(axis=1))[:, None]
        lower = (vectors * points).sum(axis=1)
        high = lower - rng.uniform(0.0, 0.1) - rng.uniform(0.0, 0.02, lower.size)
        value = np.ascontiguousarray(np.column_stack([lower, vectors]))
        dominated = np.zeros(len(points), np.bool_)
        kept_in = is_undominated(high, value, lower, points, lattice.coordinates, lattice.ranks, dominated)
        assert kept_in == is_undominated(high, value, lower, points, lattice.coordinates, lattice.ranks, dominated[:0])
        assert kept_in == (not dominated.all())
        best_value = (fine.beliefs @ vectors.T).max(axis=1)
        bound = np.array([sum(w * high[k] for k, w in corners_around(belief, lattice)) for belief in fine.beliefs])
        cell = DominatedCellTable(lattice.resolution, np.array([0]), dominated[None]).cells(fine)
        assert (bound < best_value)[dominated[cell]].all()
        verdicts.append((kept_in, bool((bound >= best_value).any())))
    assert (False, True) not in verdicts
    assert verdicts.count((False, False)) > 30
    assert verdicts.count((True, True)) > 30


def test_a_cell_that_an_earlier_pass_left_out_in_part_is_not_taken_as_beaten():
    """Its other part may be where the action is best; left out at every corner, it lies in cells that were beaten."""
    lattice = Lattice(np.zeros(3), 1.0, 4)
    points = lattice.beliefs
    value = np.column_stack([np.ones(len(points)), np.ones((len(points), 3))])
    around = [{k for k, _ in corners_around(belief, lattice)} for belief in Lattice(np.zeros(3), 1.0, 40).beliefs]
    for out in [{0}, {5, 6, 9}, set(range(len(points)))]:
        high, dominated = np.array([-np.inf if k in out else 0.5 for k in range(len(points))]), np.empty(15, np.bool_)
        stays = is_undominated(high, value, np.ones(len(points)), points, lattice.coordinates, lattice.ranks, dominated)
        assert stays == (len(out) < len(points))
        assert dominated.all() == (len(out) == len(points))
        fine = DominatedCellTable(4, np.array([0]), dominated[None]).cells(Lattice(np.zeros(3), 1.0, 40))
        in_part = [bool(corners & out) and not corners <= out for corners in around]
        assert not dominated[fine[in_part]].any()
        assert dominated[fine[[not corners & out for corners in around]]].any() == (len(out) < len(points))


def is_kept(high, lines, grid, slack=0.0):
    """``may_be_best`` for nodes that earn ``lines`` (K, 2) in the two contexts."""
    lower = grid * lines[:, 0] + (1 - grid) * lines[:, 1]
    value = np.ascontiguousarray(np.stack([lower, *lines.T]))
    return may_be_optimal(np.asarray(high, float), lower, value, grid, slack)


def test_an_action_that_is_best_between_two_nodes_is_kept():
    """Below what each end earns at that end, and above both in the middle: no one policy beats it everywhere."""
    ends = np.array([0.0, 1.0])
    lines = np.array([[0.0, 1.0], [1.0, 0.0]])  # context 0, context 1
    assert is_kept([0.9, 0.9], lines, ends)
    assert not is_kept([0.4, 0.4], np.array([[0.5, 1.0], [1.0, 0.5]]), ends)


def test_rounding_drops_no_action():
    grid = np.array([0.5])
    flat = np.array([[1.0, 1.0]])
    assert is_kept([0.95], flat, grid, slack=0.1)
    assert not is_kept([0.85], flat, grid, slack=0.1)
    for left, right in ((0.95, 0.85), (0.85, 0.95), (0.95, 0.95)):
        assert is_kept([left, right], flat.repeat(2, axis=0), np.array([0.0, 1.0]), slack=0.1)
    assert not is_kept([0.85, 0.85], flat.repeat(2, axis=0), np.array([0.0, 1.0]), slack=0.1)


def test_only_what_is_beaten_everywhere_is_dropped():
    """Nodes are tangents of a curve, the action lies a little below it at the nodes: fine beliefs tell the truth."""
    rng = np.random.default_rng(0)
    verdicts = []
    for _ in range(300):
        grid = np.concatenate([[0.0], np.sort(rng.random(rng.integers(0, 4))), [1.0]])
        bend, middle = rng.uniform(0, 4), rng.random()
        height, slope = bend * (grid - middle) ** 2, 2 * bend * (grid - middle)
        lines = np.stack([height + slope * (1 - grid), height - slope * grid], axis=1)
        high = height - rng.uniform(0, 0.5, grid.size)
        fine = np.linspace(0, 1, 501)
        best_value = (fine[:, None] * lines[:, 0] + (1 - fine[:, None]) * lines[:, 1]).max(axis=1)
        verdicts.append(is_kept(high, lines, grid))
        if not verdicts[-1]:
            assert (np.interp(fine, grid, high) < best_value).all()
    assert 30 < sum(verdicts) < 270
