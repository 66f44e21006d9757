"""The compiled backward steps against the same in plain Python: impossible outcomes, posteriors off the grid.

The plain ones move beliefs by ``belief.update``, so these tests hold the kernels' own Bayes steps against it.
"""

from __future__ import annotations

import numpy as np
import pytest

from rewardmix.belief import update
from rewardmix.planning.backups import backup_points, backup_product_grid, backup_two_contexts, may_be_best
from rewardmix.planning.grid import inverse_widths, product_places

SEEDS = range(12)


def rows(rng, contexts, next_points):
    """Two states with two and three actions, three outcomes of which some are impossible in some contexts."""
    laws = rng.dirichlet(np.ones(3), size=(5, contexts)).transpose(0, 2, 1) * (rng.random((5, 3, contexts)) < 0.6)
    laws = np.ascontiguousarray(laws)  # what is missing to one may be an outcome that is not looked at
    starts, labels = np.array([0, 2, 5]), np.array([0, 1, 0, 1, 2])
    return laws, rng.random((5, contexts)), starts, labels, rng.random((5, 1 + contexts, next_points))


def best_rows(states, upper, earned, beliefs):
    """(value, best row) of each state and belief: the highest upper bound, and the vector that earns most."""
    for s, mine in enumerate(states):
        for k, belief in enumerate(beliefs):
            r = max(mine, key=lambda r: float(earned[r, k] @ belief))
            yield s, k, max(upper[r, k] for r in mine), r


def slow_two(laws, means, ahead, grid, next_grid):
    """(upper (R, K), earned (R, K, 2), moves (R, K, Z)) by the formulas of ``planning.grid``."""
    upper, earned = np.zeros((5, grid.size)), np.zeros((5, grid.size, 2))
    moves = np.zeros((5, grid.size, 3), int)
    for r, k in np.ndindex(5, grid.size):
        belief = np.array([grid[k], 1.0 - grid[k]])
        upper[r, k], earned[r, k] = belief @ means[r], means[r]
        for z in range(3):
            joint = belief * laws[r, z]
            total = joint.sum()
            if total > 0:
                posterior = update(belief, laws[r, z])[0]
                upper[r, k] += total * np.interp(posterior, next_grid, ahead[r, 0])
                low = min(max(int(np.searchsorted(next_grid, posterior)) - 1, 0), max(next_grid.size - 2, 0))
                near = [low, min(low + 1, next_grid.size - 1)]
                moves[r, k, z] = max(near, key=lambda j: float(joint @ ahead[r, 1:, j]))
            else:  # the end of the range towards the context that can have paid it
                moves[r, k, z] = next_grid.size - 1 if laws[r, z, 0] > 0 else 0
            earned[r, k] += laws[r, z] * ahead[r, 1:, moves[r, k, z]]
    return upper, earned, moves


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("points", [1, 2, 6])
def test_two_contexts(seed, points):
    """The next grid does not reach as far as posteriors do: they take the value of its end, and nothing beyond it."""
    rng = np.random.default_rng(seed)
    laws, means, starts, labels, ahead = rows(rng, 2, points)
    grid = np.concatenate([[0.0], np.sort(rng.random(5)), [1.0]])
    next_grid = np.sort(rng.uniform(0.2, 0.8, points))
    value, best = np.empty((2, 3, 7)), np.empty((2, 7), np.int32)
    moves, keep = np.empty((2, 7, 3), np.int32), np.empty(5, np.bool_)
    widths = inverse_widths(next_grid)
    backup_two_contexts(laws, means, starts, labels, ahead, grid, next_grid, widths, 0.0, value, best, moves, keep)
    upper, earned, jumps = slow_two(laws, means, ahead, grid, next_grid)
    beliefs = np.stack([grid, 1.0 - grid], axis=1)
    for s, k, high, r in best_rows(([0, 1], [2, 3, 4]), upper, earned, beliefs):
        assert value[s, 0, k] == pytest.approx(high, abs=1e-12)
        assert value[s, 1:, k] == pytest.approx(earned[r, k], abs=1e-12)
        assert best[s, k] == labels[r]
        assert moves[s, k].tolist() == jumps[r, k].tolist()


def slow_many(laws, means, ahead, points, next_points):
    """The same for belief points, by the formulas of ``planning.points``."""
    size = len(points)
    upper, earned = np.zeros((5, size)), np.zeros((5, size, 3))
    moves = np.zeros((5, size, 3), int)
    for r, k in np.ndindex(5, size):
        upper[r, k], earned[r, k] = points[k] @ means[r], means[r]
        corners = ahead[r, 0, :3]
        for z in range(3):
            total, posterior = points[k] @ laws[r, z], update(points[k], laws[r, z])
            teeth = [0.0]
            for point, value in zip(next_points, ahead[r, 0], strict=True):
                inside = point > 0
                teeth.append((value - point @ corners) * (posterior[inside] / point[inside]).min())
            upper[r, k] += total * (posterior @ corners + min(teeth))
            sought = posterior if total > 0 else laws[r, z]
            moves[r, k, z] = int(np.argmax(sought @ ahead[r, 1:]))
            earned[r, k] += laws[r, z] * ahead[r, 1:, moves[r, k, z]]
    return upper, earned, moves


@pytest.mark.parametrize("seed", SEEDS)
def test_belief_points_of_three_contexts(seed):
    rng = np.random.default_rng(seed)
    points = np.concatenate([np.eye(3), [[0.5, 0.5, 0.0]], rng.dirichlet(np.ones(3), 3)])
    next_points = np.concatenate([np.eye(3), [[0.0, 0.3, 0.7]], rng.dirichlet(np.ones(3), 4)])
    laws, means, starts, labels, ahead = rows(rng, 3, 8)
    value, best, hope = np.empty((2, 4, 7)), np.zeros((2, 7), np.int32), np.zeros((2, 7), np.int32)
    moves = np.zeros((2, 7, 3), np.int16)
    with np.errstate(divide="ignore"):
        inverse = np.ascontiguousarray(1.0 / next_points.T)
    backup_points(laws, means, starts, labels, ahead, points, next_points, inverse, value, best, hope, moves)
    upper, earned, jumps = slow_many(laws, means, ahead, points, next_points)
    states = [0, 1], [2, 3, 4]
    for s, k, high, r in best_rows(states, upper, earned, points):
        assert value[s, 0, k] == pytest.approx(high, abs=1e-12)
        assert value[s, 1:, k] == pytest.approx(earned[r, k], abs=1e-12)
        assert best[s, k] == labels[r]
        assert hope[s, k] == labels[max(states[s], key=lambda r: upper[r, k])]
        assert moves[s, k].tolist() == jumps[r, k].tolist()


def coordinates(belief):
    """r_i = b_i / (b_i + b_i+1 + ...); 0 where nothing is left."""
    rest = np.cumsum(belief[::-1])[::-1]
    return np.divide(belief, rest, out=np.zeros_like(belief), where=rest > 0)[:-1]


def corners_of(place, axis):
    """[(index, share)] of the neighbours of a coordinate on its axis."""
    high = min(max(int(np.searchsorted(axis, place, "right")), 1), axis.size - 1)
    share = min(max((place - axis[high - 1]) / (axis[high] - axis[high - 1]), 0.0), 1.0)
    return [(high - 1, 1.0 - share), (high, share)]


def slow_product(laws, means, ahead, beliefs, axes):
    """(upper, earned, moves) on the product grid of three contexts, by the formulas of ``planning.grid``."""
    size = len(beliefs)
    upper, earned, moves = np.zeros((5, size)), np.zeros((5, size, 3)), np.zeros((5, size, 3), int)
    for r, k in np.ndindex(5, size):
        upper[r, k], earned[r, k] = beliefs[k] @ means[r], means[r]
        for z in range(3):
            posterior = update(beliefs[k], laws[r, z])
            first, ray = (corners_of(*pair) for pair in zip(coordinates(posterior), axes, strict=True))
            corners = {j * axes[0].size + i: a * b for j, b in ray for i, a in first}
            mixture = sum(share * ahead[r, 0, corner] for corner, share in corners.items())
            upper[r, k] += (beliefs[k] @ laws[r, z]) * mixture
            moves[r, k, z] = max(corners, key=lambda corner: float(posterior @ ahead[r, 1:, corner]))
            earned[r, k] += laws[r, z] * ahead[r, 1:, moves[r, k, z]]
    return upper, earned, moves


@pytest.mark.parametrize("seed", SEEDS)
def test_product_grid_of_three_contexts(seed):
    """The next grid does not reach as far as posteriors do."""
    rng = np.random.default_rng(seed)
    now = np.array([0.1, 0.3, 0.8]), np.array([0.2, 0.9])
    later = np.sort(rng.uniform(0.05, 0.95, 4)), np.sort(rng.uniform(0.05, 0.95, 3))
    _, means, starts, labels, ahead = rows(rng, 3, 12)
    laws = np.ascontiguousarray(rng.dirichlet(np.ones(3), size=(5, 3)).transpose(0, 2, 1))
    laws[rng.random(5) < 0.5, 0, 1] = 0.0
    value, best = np.empty((2, 4, 6)), np.empty((2, 6), np.int32)
    moves, keep = np.empty((2, 6, 3), np.int32), np.empty(5, np.bool_)
    places = product_places(now, later)
    backup_product_grid(laws, means, starts, labels, ahead, *places, 0.0, value, best, moves, keep)
    beliefs = np.array([[a, (1 - a) * b, (1 - a) * (1 - b)] for b in now[1] for a in now[0]])
    upper, earned, jumps = slow_product(laws, means, ahead, beliefs, later)
    for s, k, high, r in best_rows(([0, 1], [2, 3, 4]), upper, earned, beliefs):
        assert value[s, 0, k] == pytest.approx(high, abs=1e-12)
        assert value[s, 1:, k] == pytest.approx(earned[r, k], abs=1e-12)
        assert best[s, k] == labels[r]
        assert moves[s, k].tolist() == jumps[r, k].tolist()


def kept(high, lines, grid, slack=0.0):
    """``may_be_best`` for nodes that earn ``lines`` (K, 2) in the two contexts."""
    lower = grid * lines[:, 0] + (1 - grid) * lines[:, 1]
    value = np.ascontiguousarray(np.stack([lower, *lines.T]))
    return may_be_best(np.asarray(high, float), lower, value, grid, slack)


def test_an_action_that_is_best_between_two_nodes_is_kept():
    """Below what each end earns at that end, and above both in the middle: no one policy beats it everywhere."""
    ends = np.array([0.0, 1.0])
    lines = np.array([[0.0, 1.0], [1.0, 0.0]])  # context 0, context 1
    assert kept([0.9, 0.9], lines, ends)
    assert not kept([0.4, 0.4], np.array([[0.5, 1.0], [1.0, 0.5]]), ends)


def test_rounding_drops_no_action():
    one = np.array([0.5])
    flat = np.array([[1.0, 1.0]])
    assert kept([0.95], flat, one, slack=0.1)
    assert not kept([0.85], flat, one, slack=0.1)
    for left, right in ((0.95, 0.85), (0.85, 0.95), (0.95, 0.95)):
        assert kept([left, right], flat.repeat(2, axis=0), np.array([0.0, 1.0]), slack=0.1)
    assert not kept([0.85, 0.85], flat.repeat(2, axis=0), np.array([0.0, 1.0]), slack=0.1)


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
        earned = (fine[:, None] * lines[:, 0] + (1 - fine[:, None]) * lines[:, 1]).max(axis=1)
        verdicts.append(kept(high, lines, grid))
        if not verdicts[-1]:
            assert (np.interp(fine, grid, high) < earned).all()
    assert 30 < sum(verdicts) < 270
