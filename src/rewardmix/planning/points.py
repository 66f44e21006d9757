"""Belief points, common to all states, for any number of contexts: which beliefs can be reached, and a pass over them.

    points   the corners of the simplex, and beliefs that can be reached: all of them, or more in every sweep
    upper    sawtooth: between the corners' mean and the points, the lowest of the pyramids is above a convex function
    lower    the values that node k earns in each context; after an outcome the best next node, one for all next states

With all reachable beliefs as points both bounds are exact. Otherwise the bracket shrinks as points are added where
sampled paths of the hopeful policy lead, and the best one found is returned.

Points lie where good play leads, so few of them earn much; but the sawtooth above them comes down slowly. The product
grid has it the other way round. For four and more contexts each sweep runs both while the grid can be afforded, and
takes the better of each bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rewardmix import belief as bayes
from rewardmix._core.algebra import product
from rewardmix._core.checks import Floats, Ints
from rewardmix._core.streams import Role, generator
from rewardmix._core.widths import width_of
from rewardmix.model import RewardMixingMDP, mixed, state_action
from rewardmix.planning.backward_pass import BackwardPass, Sweep, pass_bytes
from rewardmix.planning.grid import GridSweeper

BELIEF_DIGITS = 12
"""Beliefs that agree to so many decimals are one point."""
UNFOLDED_ENTRIES = 1 << 22
"""Largest number of entries of transition rows that are unfolded at once."""
MOST_REACHABLE = 512
"""If no step has more reachable beliefs, all of them are used."""
CANDIDATES = 4
"""Beliefs that are sampled for each point that a step may have."""
GRID_SHARE = 4.0
"""Time for the grid, in units of the time for the points."""
PAIR_COST, POINT_COST, CORNER_COST = 5.5, 50.0, 0.7
"""Nanoseconds, as measured: for a pair of points; for a grid point, and for each number at a corner of its cell."""
COARSEST = 2
"""A coarser grid says nothing that the corners do not."""


def reachable_beliefs(model: RewardMixingMDP, cap: int) -> list[Floats] | None:
    """H arrays (N_t, M) of all beliefs that can occur at each step, or None if a step has more than ``cap``."""
    laws = np.moveaxis(model.laws, 0, -1).reshape(-1, model.num_contexts)
    laws = laws[laws.sum(axis=1) > 0]
    laws = distinct_beliefs(laws / laws.sum(axis=1, keepdims=True))
    sets = [model.weights[None] / model.weights.sum()]
    for _ in range(1, model.horizon):
        if sets[-1].shape[0] * laws.shape[0] > 64 * cap:
            return None
        before = sets[-1][:, None]
        possible = (before * laws).sum(axis=-1) > 0
        sets.append(distinct_beliefs(bayes.update(before, laws)[possible]))
        if sets[-1].shape[0] > cap:
            return None
    return sets


def distinct_beliefs(beliefs: Floats) -> Floats:
    """One of each group of beliefs that agree to ``BELIEF_DIGITS`` decimals."""
    _, kept = np.unique(np.round(beliefs, BELIEF_DIGITS), axis=0, return_index=True)
    return beliefs[np.sort(kept)]


def with_corners(points: Floats) -> Floats:
    """The corners of the simplex first, then the points that are not corners."""
    inside = points[points.max(axis=1) < 1.0]
    return np.concatenate([np.eye(points.shape[1]), inside])


def sampled_beliefs(
    model: RewardMixingMDP, points: Sequence[Floats], hope: Sequence[Ints] | None, count: int, rng: np.random.Generator
) -> list[Floats]:
    """H arrays (count, M): beliefs on sampled paths that play ``hope`` of the nearest point, or anything."""
    states: Ints = rng.choice(model.num_states, size=count, p=model.initial / model.initial.sum())
    beliefs = np.tile(model.weights / model.weights.sum(), (count, 1))
    found = []
    for t in range(model.horizon):
        found.append(beliefs)
        actions = rng.integers(model.num_actions, size=count)
        if hope is not None:
            greedy = rng.random(count) < 0.7
            actions[greedy] = hope[t][states[greedy], nearest_point(beliefs[greedy], points[t])]
        laws = model.laws[:, states, actions].transpose(1, 2, 0)  # (count, Z, M)
        outcomes = _draw(mixed(beliefs.T[:, :, None], np.moveaxis(laws, -1, 0)), rng)
        beliefs = bayes.update(beliefs, laws[np.arange(count), outcomes])
        states = _next_states(model, state_action(states, actions, model.num_actions), rng)
    return found


def nearest_point(beliefs: Floats, points: Floats) -> Ints:
    """Index of the point (K, M) at the least Hellinger distance from each belief (..., M)."""
    return np.asarray(np.argmax(product(np.sqrt(beliefs), np.sqrt(points).T), axis=-1))


def spread_beliefs(points: Floats, candidates: Floats, count: int) -> Floats:
    """``points`` and up to ``count`` candidates, each the farthest (Hellinger) from all before it."""
    roots, chosen = np.sqrt(candidates), []
    affinity = np.max(product(roots, np.sqrt(points).T), axis=1)
    for _ in range(count):
        farthest = int(np.argmin(affinity))
        if affinity[farthest] > 1.0 - 1e-13:
            break
        chosen.append(farthest)
        affinity = np.maximum(affinity, product(roots, roots[farthest]))
    return np.concatenate([points, candidates[chosen]])


def _next_states(model: RewardMixingMDP, rows: Ints, rng: np.random.Generator) -> Ints:
    """One next state for each state-action."""
    step = max(1, UNFOLDED_ENTRIES // model.num_states)
    parts = []
    for low in range(0, rows.size, step):
        laws = model.transition_rows[rows[low : low + step]]
        parts.append(_draw(laws.toarray() if model.is_sparse else laws, rng))
    return np.concatenate(parts)


def _draw(laws: Floats, rng: np.random.Generator) -> Ints:
    """One index from each row."""
    levels = np.cumsum(laws, axis=1)
    drawn = (levels < rng.random((laws.shape[0], 1)) * levels[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(drawn, laws.shape[1] - 1))


class PointSweeper(BackwardPass):
    """Passes on point sets that grow, or on all reachable beliefs where they are known."""

    first = 32
    largest = 4096
    growth = 2

    def __init__(self, model: RewardMixingMDP, reachable: list[Floats] | None) -> None:
        super().__init__(model)
        self.rows = np.arange(self.means.shape[0])
        self.starts = np.arange(model.num_states + 1) * model.num_actions
        self.complete = reachable is not None
        start = model.weights[None] / model.weights.sum()
        rest = reachable[1:] if reachable is not None else [start] * (model.horizon - 1)
        self.points = [start, *(with_corners(points) for points in rest)]
        self.hope: list[Ints] | None = None
        if reachable is not None:
            self.first = max(map(len, self.points))

    def bytes(self, resolution: int) -> float:
        """Memory of a pass."""
        grown = resolution + self.model.num_contexts
        hopes = 8.0 * self.model.num_states * self.model.horizon * grown  # what points are added by, beside the tables
        affinities = 0.0 if self.complete else 16.0 * CANDIDATES * resolution * grown
        return pass_bytes(self.model, grown) + hopes + affinities

    def work(self, resolution: int) -> float:
        """Simple steps of a pass: every point with every next point, and before it the search for new points."""
        model, grown = self.model, resolution + self.model.num_contexts
        rows = float(model.num_states) * model.num_actions
        pairs = model.num_values * 2 * model.num_contexts * float(grown) ** 2
        ahead = self.expect.steps * (1 + model.num_contexts) * grown
        search = 0.0 if self.complete else 2.0 * CANDIDATES * resolution * grown * model.num_contexts
        return model.horizon * (rows * (pairs + ahead) + search)

    def sweep(self, resolution: int, deadline: float) -> Sweep | None:
        """Add points up to ``resolution`` a step, then one backward pass."""
        model = self.model
        points = [*(self.points if self.complete else self._grown(resolution)), np.eye(model.num_contexts)]
        hopes: list[Ints] = []

        def step(t: int, later: Floats) -> tuple[Floats, Ints, Ints]:
            value, best, hope, moves = self._step(later, points[t], points[t + 1])
            hopes.append(hope)
            return value, best, moves

        found = self.run(step, model.num_contexts, deadline, exact=self.complete)
        if found is not None:
            self.points, self.hope = points[:-1], hopes[::-1]
        return found

    def _grown(self, resolution: int) -> list[Floats]:
        """More points at each step, on paths of the hopeful policy of the last sweep."""
        rng = generator(0, Role.PLANNED_BELIEFS, resolution)
        sampled = sampled_beliefs(self.model, self.points, self.hope, CANDIDATES * resolution, rng)
        more = zip(self.points[1:], sampled[1:], strict=True)
        return [self.points[0], *(spread_beliefs(old, new, resolution - old.shape[0]) for old, new in more)]

    def _step(self, later: Floats, points: Floats, next_points: Floats) -> tuple[Floats, Ints, Ints, Ints]:
        """Values, actions, actions of the highest upper bound, and next nodes of one step."""
        from rewardmix.planning.backups import backup_points

        model, count = self.model, len(points)
        with np.errstate(divide="ignore"):
            inverse = np.ascontiguousarray(1.0 / next_points.T)
        value = np.empty((model.num_states, 1 + model.num_contexts, count))
        best = np.zeros((model.num_states, count), dtype=width_of(model.num_actions, "int32"))
        hope = np.zeros_like(best)
        moves = np.zeros((*best.shape, model.num_values), dtype=width_of(len(next_points), "int16"))
        for states, _, tables in self.blocks(self.rows, self.starts, later):
            out = value[states], best[states], hope[states], moves[states]
            backup_points(*(*tables, points, next_points, inverse, *out))
        return value, best, hope, moves


class GridAndPoints:
    """Passes on points for the lower bound and on a grid for the upper one, of comparable cost."""

    first, largest, growth = PointSweeper.first, PointSweeper.largest, PointSweeper.growth

    def __init__(self, model: RewardMixingMDP, points: PointSweeper) -> None:
        self.points = points
        self.grid = GridSweeper(model)
        self.num_contexts = model.num_contexts

    def bytes(self, resolution: int) -> float:
        """Memory of the larger pass."""
        return max(self.points.bytes(resolution), self.grid.bytes(self.grid_resolution(resolution)))

    def work(self, resolution: int) -> float:
        """Simple steps of both passes."""
        fine = self.grid_resolution(resolution)
        return self.points.work(resolution) + (self.grid.work(fine) if fine >= COARSEST else 0.0)

    def sweep(self, resolution: int, deadline: float) -> Sweep | None:
        """A pass on ``resolution`` points, and before it one on the grid that it pays for."""
        fine = self.grid_resolution(resolution)
        on_grid = self.grid.sweep(fine, deadline) if fine >= COARSEST else None
        on_points = self.points.sweep(resolution, deadline)
        if on_grid is None or on_points is None:
            return on_grid or on_points
        best = max(on_points, on_grid, key=lambda found: found.lower)
        upper = min(on_points.upper, on_grid.upper)
        return Sweep(best.lower, upper, max(on_points.points, on_grid.points), False, best.floor, best.policy)

    def grid_resolution(self, count: int) -> int:
        """The grid whose pass costs ``GRID_SHARE`` times that of ``count`` points: their pairs against its corners."""
        corners = (self.num_contexts + 1) * 2.0 ** (self.num_contexts - 1)
        points = GRID_SHARE * PAIR_COST * count**2 / (POINT_COST + CORNER_COST * corners)
        return min(int(points ** (1.0 / (self.num_contexts - 1))) - 1, self.grid.largest)
