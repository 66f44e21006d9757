"""The compiled backward steps against the same in plain Python: impossible outcomes, posteriors off the grid.

The plain ones move beliefs by ``belief.update``, so these tests hold the kernels' own Bayes steps against it.
"""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest

from rewardmix.belief import update
from rewardmix.planning.backups import (
    TILE,
    Beaten,
    Cells,
    backup_lattice,
    backup_two_contexts,
    may_be_best,
    stays_in_play,
)
from rewardmix.planning.grid import inverse_widths
from rewardmix.planning.lattice import NO_CELLS, NO_PLACES, NOWHERE, BeatenCells, Lattice

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


def corners_around(belief, lattice):
    """[(point, share)]: of all simplices of neighbours, found by trying every order, the one that holds the belief."""
    contexts, n = belief.size, lattice.resolution
    place = np.minimum(n * np.cumsum(((belief - lattice.low) / lattice.spread)[:0:-1])[::-1], n)
    points = {tuple(x): k for k, x in enumerate(lattice.places.tolist())}
    floor = np.floor(place)
    for order in permutations(range(contexts - 1)):
        fractions = [1.0, *(place - floor)[list(order)], 0.0]
        if all(one >= two for one, two in pairwise(fractions)):
            corner, found = floor.copy(), []
            for raised, (one, two) in zip([None, *order], pairwise(fractions), strict=True):
                if raised is not None:
                    corner[raised] += 1
                if one > two:
                    found.append((points[tuple(corner.astype(int).tolist())], one - two))
            return found
    raise AssertionError("a belief outside the lattice")


def slow_lattice(laws, means, ahead, beliefs, lattice):
    """(upper, earned, moves) by the formulas of ``planning.lattice``; ahead: (R, L, 1 + M)."""
    size, contexts = beliefs.shape
    upper, earned = np.zeros((5, size)), np.zeros((5, size, contexts))
    moves = np.zeros((5, size, 3), int)
    for r, k in np.ndindex(5, size):
        upper[r, k], earned[r, k] = beliefs[k] @ means[r], means[r]
        for z in range(3):
            total = beliefs[k] @ laws[r, z]
            if laws[r, z].sum() > 0:
                sought = update(beliefs[k], laws[r, z]) if total > 0 else laws[r, z] / laws[r, z].sum()
                corners = corners_around(sought, lattice)
                upper[r, k] += total * sum(share * ahead[r, corner, 0] for corner, share in corners)
                moves[r, k, z] = max(corners, key=lambda found: float(sought @ ahead[r, found[0], 1:]))[0]
            earned[r, k] += laws[r, z] * ahead[r, moves[r, k, z], 1:]
    return upper, earned, moves


def one_step(laws, means, starts, labels, ahead, points, kinds=None, after=NOWHERE, lattice=None):
    """(value, best, moves) of ``backup_lattice``."""
    size, contexts = points.shape
    lattice = Lattice(np.zeros(contexts), 1.0, 0) if lattice is None else lattice
    value, best = np.empty((2, size, 1 + contexts)), np.empty((2, size), np.int32)
    moves, keep = np.empty((2, size, 3), np.int32), np.empty(5, np.bool_)
    kinds = np.zeros((5, 3), np.int32) if kinds is None else kinds
    cells = Cells(tuple(lattice.low.tolist()), lattice.spread, lattice.ranks)
    nothing = Beaten(NO_CELLS, np.zeros((5, 0), np.bool_), np.zeros((5, 0), np.bool_))
    places = kinds, after, cells, NO_PLACES, lattice.ranks, nothing, 0.0
    backup_lattice(laws, means, starts, labels, ahead, points, *places, value, best, moves, keep)
    return value, best, moves


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("contexts", [3, 4, 5])
def test_lattice(seed, contexts):
    rng = np.random.default_rng(seed)
    points, later = rng.dirichlet(np.ones(contexts), 6), Lattice(np.zeros(contexts), 1.0, 2 + seed % 3)
    _, means, starts, labels, _ = rows(rng, contexts, 1)
    laws = np.ascontiguousarray(rng.dirichlet(np.ones(3), size=(5, contexts)).transpose(0, 2, 1))
    ahead = rng.random((5, later.size, 1 + contexts))
    value, best, moves = one_step(laws, means, starts, labels, ahead, points, lattice=later)
    upper, earned, jumps = slow_lattice(laws, means, ahead, points, later)
    for s, k, high, r in best_rows(([0, 1], [2, 3, 4]), upper, earned, points):
        assert value[s, k, 0] == pytest.approx(high, abs=1e-12)
        assert value[s, k, 1:] == pytest.approx(earned[r, k], abs=1e-12)
        assert best[s, k] == labels[r]
        assert moves[s, k].tolist() == jumps[r, k].tolist()


def test_points_are_backed_up_alike_wherever_they_lie_in_a_tile():
    rng = np.random.default_rng(0)
    later = Lattice(np.full(4, 0.01), 0.96, 5)
    laws, means, starts, labels, ahead = rows(rng, 4, later.size)
    points = np.concatenate([np.eye(4), rng.dirichlet(np.ones(4), 2 * TILE)])
    given = laws, means, starts, labels, np.ascontiguousarray(ahead.swapaxes(1, 2))
    whole = one_step(*given, points, lattice=later)
    for begin in range(0, len(points), 100):
        part = slice(begin, begin + 100)
        for one, other in zip(whole, one_step(*given, points[part], lattice=later), strict=True):
            assert (one[:, part] == other).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_sure_beliefs_and_impossible_outcomes_on_a_lattice(seed):
    """Posteriors on a side of a cell may be put a hair beside it: then one more node is tried, and none is lost.

    After an outcome that cannot be, that goes for those who believe what its law says.
    """
    rng = np.random.default_rng(seed)
    points, later = np.concatenate([np.eye(4), [[0.5, 0.0, 0.5, 0.0]]]), Lattice(np.zeros(4), 1.0, 3)
    laws, means, starts, labels, _ = rows(rng, 4, 1)
    ahead = rng.random((5, later.size, 5))
    value, best, moves = one_step(laws, means, starts, labels, ahead, points, lattice=later)
    upper, earned, _ = slow_lattice(laws, means, ahead, points, later)
    for s, k, high, r in best_rows(([0, 1], [2, 3, 4]), upper, earned, points):
        assert value[s, k, 0] == pytest.approx(high, abs=1e-12)
        assert points[k] @ value[s, k, 1:] > points[k] @ earned[r, k] - 1e-12
        mine = starts[s] + best[s, k]
        taken = means[mine] + sum(laws[mine, z] * ahead[mine, moves[s, k, z], 1:] for z in range(3))
        assert value[s, k, 1:] == pytest.approx(taken, abs=1e-12)
        for z in np.flatnonzero((laws[mine] @ points[k] == 0) & (laws[mine].sum(axis=1) > 0)):
            sought = laws[mine, z] / laws[mine, z].sum()
            near = [corner for corner, share in corners_around(sought, later) if share > 1e-9]
            assert sought @ ahead[mine, moves[s, k, z], 1:] > (ahead[mine, near, 1:] @ sought).max() - 1e-12


def test_beliefs_whose_next_points_are_known_take_them():
    rng = np.random.default_rng(0)
    laws, means, starts, labels, _ = rows(rng, 3, 1)
    points, ahead = rng.dirichlet(np.ones(3), 4), rng.random((5, 6, 4))
    kinds, after = rng.integers(7, size=(5, 3)).astype(np.int32), rng.integers(6, size=(4, 7)).astype(np.int32)
    value, _, moves = one_step(laws, means, starts, labels, ahead, points, kinds, after)
    upper, earned = points @ means.T, np.tile(means[:, None], (1, 4, 1))
    for r, k, z in np.ndindex(5, 4, 3):
        there = ahead[r, after[k, kinds[r, z]]]
        upper[k, r] += (points[k] @ laws[r, z]) * there[0]
        earned[r, k] += laws[r, z] * there[1:]
    for s, k, high, r in best_rows(([0, 1], [2, 3, 4]), upper.T, earned, points):
        assert value[s, k, 0] == pytest.approx(high, abs=1e-12)
        assert value[s, k, 1:] == pytest.approx(earned[r, k], abs=1e-12)
        assert moves[s, k].tolist() == after[k, kinds[r]].tolist()


def test_on_a_lattice_only_what_is_beaten_everywhere_is_dropped():
    """Nodes are tangents of a bowl, an action lies a little below it at the points: fine beliefs tell the truth."""
    rng = np.random.default_rng(0)
    lattice = Lattice(np.zeros(3), 1.0, 4)
    points, fine = lattice.beliefs, Lattice(np.zeros(3), 1.0, 40)
    verdicts = []
    for _ in range(300):
        centre, steep = rng.dirichlet(np.ones(3)), rng.uniform(0.0, 2.0)
        slopes = 2 * steep * (points - centre)
        vectors = slopes + (steep * ((points - centre) ** 2).sum(axis=1) - (slopes * points).sum(axis=1))[:, None]
        lower = (vectors * points).sum(axis=1)
        high = lower - rng.uniform(0.0, 0.1) - rng.uniform(0.0, 0.02, lower.size)
        value = np.ascontiguousarray(np.column_stack([lower, vectors]))
        beaten = np.zeros(len(points), np.bool_)
        kept_in = stays_in_play(high, value, lower, points, lattice.places, lattice.ranks, beaten)
        assert kept_in == stays_in_play(high, value, lower, points, lattice.places, lattice.ranks, beaten[:0])
        assert kept_in == (not beaten.all())
        known = (fine.beliefs @ vectors.T).max(axis=1)
        bound = np.array([sum(w * high[k] for k, w in corners_around(belief, lattice)) for belief in fine.beliefs])
        mine = BeatenCells(lattice.resolution, np.array([0]), beaten[None]).cells(fine)
        assert (bound < known)[beaten[mine]].all()
        verdicts.append((kept_in, bool((bound >= known).any())))
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
        high, beaten = np.array([-np.inf if k in out else 0.5 for k in range(len(points))]), np.empty(15, np.bool_)
        stays = stays_in_play(high, value, np.ones(len(points)), points, lattice.places, lattice.ranks, beaten)
        assert stays == (len(out) < len(points))
        assert beaten.all() == (len(out) == len(points))
        fine = BeatenCells(4, np.array([0]), beaten[None]).cells(Lattice(np.zeros(3), 1.0, 40))
        in_part = [bool(corners & out) and not corners <= out for corners in around]
        assert not beaten[fine[in_part]].any()
        assert beaten[fine[[not corners & out for corners in around]]].any() == (len(out) < len(points))


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
