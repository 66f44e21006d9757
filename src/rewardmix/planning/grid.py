"""Belief grids, common to all states: where a belief can be, the grids over it, and a backward pass on them.

Where a belief can be. The belief in one of two contexts has log-odds that move by log(q_0 / q_1) at each outcome, so
after t steps from the weights they lie in an interval that is known in advance; and where few log-ratios occur, at few
points. A grid covers only that interval, or is exactly those points. Spacing is even in arcsin(sqrt(b)).

Two contexts: beliefs in context 0. For each (s, a), grid belief b and outcome with laws q:
n = sum_m b_m q_m,   b' = b q / n,   g_j <= b' <= g_j+1

    upper += n * interpolation of the next upper bounds at b'      the best value is convex in the belief
    lower += q * next pair of values at j*                         j* the better of j, j+1, one for all next states

Three and more: a product grid over the simplex. A belief has coordinates r_i = b_i / (b_i + b_i+1 + ...),
i = 0 .. M-2, each between 0 and 1 and each with a grid of its own. For three contexts, lines of equal r_0 and rays of
equal r_1 cut the triangle into trapezoids. A posterior lies in a cell with 2^(M-1) corners and is the mixture of them
with product weights: with the later coordinates fixed, beliefs that differ in r_0 alone lie on a segment, and so on for
r_1. By convexity

    upper += n * mixture of the next upper bounds at the corners
    lower += q * next values at the corner that is best at b', one for all next states

r_1, r_2, ... move by Bayes updates of their own, whatever r_0 is, and along a ray r_0 moves monotonically: a moving
pointer finds the cell. The number of points is resolution ** (M-1): for few contexts this narrows the bracket far
faster than points with a sawtooth do, for many it is hopeless. The product grid of two contexts is the first one, and
would do; but its backup takes 1.4 to 1.6 times the time there, so two contexts keep a backup of their own.

Between passes a state-action is dropped at a step if its upper bound is below what another action is known to earn,
at every belief of the range: fine passes then touch few actions. No optimal action is lost, so the bracket holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike

from rewardmix._core.checks import Floats, Ints
from rewardmix._core.portable import HALF_PI, angle, exp, exps, log, logs, sins
from rewardmix._core.widths import width_of
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_pass import BackwardPass, Sweep, pass_bytes

MOST_FOLLOWED = 1024
"""Sets of reachable beliefs are followed up to this size."""
ALWAYS_FEW = 256
"""Up to so many points a step, sets that are known for all steps are used from the first sweep on."""
ODDS_DIGITS = 11
"""Log-odds that agree to so many decimals are one point."""
MARGIN = 1e-10
"""What an interval of log-odds is widened by, so that no rounded belief falls off the grid ..."""
MARGIN_PER_STEP = 2e-11
"""... and more at every step: posteriors of the widened end, and of points left out as equal, stay inside."""
MOST_GRID_POINTS = 2_000_000
"""A finer product grid than this is not tried."""

Axes = tuple[Floats, ...]


def log_ratios(first: Floats, second: Floats) -> Floats:
    """The distinct values of log(first / second) where not both are 0, increasing; may hold infinities."""
    possible = (first > 0) | (second > 0)
    return np.unique(logs(first[possible]) - logs(second[possible]))


class Reach:
    """The interval, and where they are few the points, that the log-odds take at each step from two weights.

    Without ``follow`` the ratios are only bounds, and points are not kept.
    """

    def __init__(self, weights: Floats, ratios: Floats, horizon: int, *, follow: bool = True) -> None:
        start = float(log(weights[0]) - log(weights[1]))
        self.start = float(weights[0] / weights.sum())
        self.intervals = [(start, start)]
        moves = _distinct(ratios)
        points: Floats | None = np.array([start]) if follow else None
        self.points: list[Floats | None] = [points]
        for _ in range(1, horizon):
            low, high = self.intervals[-1]
            self.intervals.append((low + min(ratios[0], 0.0), high + max(ratios[-1], 0.0)))
            points = None if points is None else _moved(points, moves)
            self.points.append(points)
        low, high = self.intervals[-1]
        self.span = _angle(high) - _angle(low)

    @property
    def finite(self) -> bool:
        """Whether the reachable points of every step are known."""
        return self.points[-1] is not None

    def few(self, step: int, resolution: int) -> bool:
        """Whether the grid of this step is the reachable points themselves."""
        points = self.points[step]
        return points is not None and points.size <= max(2 * resolution, ALWAYS_FEW if self.finite else 0)

    def grid(self, step: int, resolution: int) -> Floats:
        """Beliefs in context 0 at ``step``: the reachable points if few, else evenly spaced in angle."""
        if step == 0:
            return np.array([self.start])
        points = self.points[step]
        low, high = self.intervals[step]
        margin = MARGIN + step * MARGIN_PER_STEP
        if points is not None and self.few(step, resolution):
            odds = points.copy()
            if odds.size > 1:
                odds[0] -= margin
                odds[-1] += margin
            return np.unique(_belief(odds))
        first, last = _angle(low - margin), _angle(high + margin)
        count = max(2, math.ceil(resolution * (last - first) / max(self.span, 1e-300)))
        grid = sins(np.linspace(first, last, count + 1)) ** 2
        grid[0], grid[-1] = _belief(np.array([low - margin, high + margin]))
        return np.unique(grid)


def inverse_widths(grid: Floats) -> Floats:
    """1 / (grid[j+1] - grid[j]), and 0 for the last point, which has no interval."""
    return np.append(1.0 / np.diff(grid), 0.0)


def _moved(points: Floats, ratios: Floats) -> Floats | None:
    if points.size * ratios.size > 16 * MOST_FOLLOWED:
        return None  # so many ratios do not come together again
    with np.errstate(invalid="ignore"):
        moved = (points[:, None] + ratios).ravel()  # inf - inf: an outcome that a sure belief excludes
    moved = _distinct(moved[~np.isnan(moved)])
    return moved if moved.size <= MOST_FOLLOWED else None


def _distinct(odds: Floats) -> Floats:
    """Increasing, one of each group that agrees to ``ODDS_DIGITS`` decimals, itself not rounded."""
    return odds[np.unique(np.round(odds, ODDS_DIGITS), return_index=True)[1]]


def _belief(odds: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + exps(-odds)))


def _angle(odds: float) -> float:
    """arcsin(sqrt(b)) of log-odds, accurate at both ends."""
    return float(angle(exp(min(odds, 700.0) / 2), 1.0)) if odds < math.inf else HALF_PI


class BeliefGrid:
    """Product grids over the beliefs between any number of contexts; resolutions are values of each coordinate."""

    def __init__(self, model: RewardMixingMDP) -> None:
        self.horizon, self.growth = model.horizon, model.num_contexts - 1
        self.first = {1: 24, 2: 12}.get(self.growth, 2)
        self.largest = 1 << 15 if self.growth == 1 else int(MOST_GRID_POINTS ** (1.0 / self.growth)) - 2
        self.steps = 16.0 if self.growth == 1 else 2.0**self.growth * 2 * (model.num_contexts + 1)
        """Simple steps that one outcome takes at one point of the grid."""
        laws = model.laws.reshape(model.num_contexts, -1)
        self.reaches = []
        for i in range(self.growth):
            ratios = np.unique(np.concatenate([log_ratios(laws[i], other) for other in laws[i + 1 :]]))
            odds = np.array([model.weights[i], model.weights[i + 1 :].sum()])
            self.reaches.append(Reach(odds, ratios, model.horizon, follow=i == self.growth - 1))

    def axes(self, step: int, resolution: int) -> Axes:
        """Values of each coordinate; after the last step any."""
        if step == self.horizon:
            return (np.array([0.0, 1.0]),) * self.growth
        return tuple(reach.grid(step, resolution) for reach in self.reaches)

    def exact(self, resolution: int) -> bool:
        """Whether the grids hold every belief that can be reached; never known for more than two contexts."""
        return self.growth == 1 and all(self.reaches[0].few(t, resolution) for t in range(self.horizon))

    def points(self, resolution: int) -> int:
        """Points of a full grid."""
        return int((resolution + 2) ** self.growth)


class GridSweeper(BackwardPass):
    """Passes on belief grids; remembers which state-actions are still in play."""

    def __init__(self, model: RewardMixingMDP) -> None:
        super().__init__(model)
        self.grid = BeliefGrid(model)
        self.first, self.largest, self.growth = self.grid.first, self.grid.largest, self.grid.growth
        self.keep = np.ones((model.horizon, model.num_states, model.num_actions), dtype=np.bool_)

    def bytes(self, resolution: int) -> float:
        """Memory of a pass."""
        return pass_bytes(self.model, self.grid.points(resolution))

    def work(self, resolution: int) -> float:
        """Simple steps of a pass over the state-actions that are still in play."""
        ahead = self.expect.steps * (1 + self.model.num_contexts)
        backup = self.model.num_values * self.grid.steps
        return float(np.count_nonzero(self.keep)) * self.grid.points(resolution) * (ahead + backup)

    def sweep(self, resolution: int, deadline: float) -> Sweep | None:
        """One backward pass."""
        axes = [self.grid.axes(t, resolution) for t in range(self.model.horizon + 1)]
        sizes = [math.prod(axis.size for axis in now) for now in axes]
        index = width_of(max(*sizes, self.model.num_actions), "int16")

        def step(t: int, later: Floats) -> tuple[Floats, Ints, Ints]:
            return self._step(t, later, axes[t], axes[t + 1], index)

        return self.run(step, sizes[-1], deadline, exact=self.grid.exact(resolution))

    def _step(
        self, t: int, later: Floats, now_axes: Axes, later_axes: Axes, index: DTypeLike
    ) -> tuple[Floats, Ints, Ints]:
        """Values, actions and next nodes at step t; drops rows that cannot be optimal."""
        from rewardmix.planning.backups import backup_product_grid, backup_two_contexts

        backup: Callable[..., None] = backup_product_grid
        if self.growth > 1:
            places = product_places(now_axes, later_axes)
        else:
            backup, places = backup_two_contexts, (now_axes[0], later_axes[0], inverse_widths(later_axes[0]))
        num_states, points = self.model.num_states, math.prod(axis.size for axis in now_axes)
        value = np.empty((num_states, 1 + self.model.num_contexts, points))
        best = np.empty((num_states, points), dtype=index)
        moves = np.empty((num_states, points, self.model.num_values), dtype=index)
        rows = np.flatnonzero(self.keep[t])
        keep = np.empty(rows.size, dtype=np.bool_)
        starts = np.append(0, np.cumsum(self.keep[t].sum(axis=1)))
        for states, part, tables in self.blocks(rows, starts, later):
            backup(*tables, *places, 2 * self.margin, value[states], best[states], moves[states], keep[part])
        self.keep[t].flat[rows] = keep
        return value, best, moves


def product_places(now: Axes, later: Axes) -> tuple[Floats | Ints, ...]:
    """The two grids as ``backup_product_grid`` takes them."""
    sizes = np.array([axis.size for axis in later[1:]])
    table = np.zeros((sizes.size, sizes.max()))
    for row, axis in zip(table, later[1:], strict=True):
        row[: axis.size] = axis
    cells, offsets = cells_of(tuple(axis.size for axis in now))
    return now[0], rays_of(now[1:]), cells, offsets, later[0], inverse_widths(later[0]), table, sizes, strides_of(sizes)


def rays_of(axes: Axes) -> Floats:
    """(J, M - 1): the belief of every combination of coordinates, the last one moving fastest."""
    coordinates = np.meshgrid(*axes, indexing="ij")
    rest = np.ones(coordinates[0].size)
    columns = []
    for coordinate in coordinates:
        columns.append(rest * coordinate.ravel())
        rest = rest * (1.0 - coordinate.ravel())
    return np.ascontiguousarray(np.stack([*columns, rest], axis=1))


def strides_of(sizes: Ints) -> Ints:
    """What a step along each axis adds to the index, the last one moving fastest."""
    return np.append(np.cumprod(sizes[:0:-1])[::-1], 1).astype(np.int64)


@lru_cache(maxsize=8)
def cells_of(sizes: tuple[int, ...]) -> tuple[Ints, Ints]:
    """The lowest corner of every cell, and the offsets of its corners; the first coordinate moves fastest."""
    strides = [*(strides_of(np.array(sizes[1:])) * sizes[0])]
    cells = offsets = np.zeros(1, dtype=np.int64)
    for size, stride in zip((*sizes[1:], sizes[0]), [*strides, 1], strict=True):
        cells = (cells[:, None] + stride * np.arange(max(size - 1, 1))).ravel()
        offsets = (offsets[:, None] + stride * np.arange(min(size, 2))).ravel()
    return cells, offsets
