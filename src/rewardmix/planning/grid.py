"""Grids of beliefs between two contexts, common to all states: where a belief can be, and a backward pass.

The belief in one of two contexts has log-odds that move by log(q_0 / q_1) at each outcome, so after t steps from the
weights they lie in an interval that is known in advance; and where few log-ratios occur, at few points. A grid covers
only that interval, or is exactly those points. Spacing is even in arcsin(sqrt(b)).

For each (s, a), grid belief b in context 0 and outcome with laws q:
n = sum_m b_m q_m,   b' = b q / n,   g_j <= b' <= g_j+1

    upper += n * interpolation of the next upper bounds at b'      the best value is convex in the belief
    lower += q * next pair of values at j*                         j* the better of j, j+1, one for all next states

b' grows with b, so a moving pointer finds j. More contexts have lattices (``lattice``); a lattice of two would do, but
it is even in b, and its cells are found one by one.

Between passes a state-action is dropped at a step if its upper bound is below what another action is known to earn,
at every belief of the range: fine passes then touch few actions. No optimal action is lost, so the bracket holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

from rewardmix._core.checks import Floats, Ints
from rewardmix._core.portable import HALF_PI, angle, exp, exps, log, logs, sins
from rewardmix._core.widths import width_of
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_pass import BackwardPass, Filled, RowTables, Sweep, pass_bytes

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
STEPS_PER_OUTCOME = 16.0
"""Simple steps that one outcome takes at one point of the grid."""


def log_ratios(first: Floats, second: Floats) -> Floats:
    """The distinct values of log(first / second) where not both are 0, increasing; may hold infinities."""
    possible = (first > 0) | (second > 0)
    return np.unique(logs(first[possible]) - logs(second[possible]))


class Reach:
    """The interval, and where they are few the points, that the log-odds take at each step from two weights."""

    def __init__(self, weights: Floats, ratios: Floats, horizon: int) -> None:
        start = float(log(weights[0]) - log(weights[1]))
        self.start = float(weights[0] / weights.sum())
        self.intervals = [(start, start)]
        moves = _distinct(ratios)
        points: Floats | None = np.array([start])
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
    part = 2 * MOST_FOLLOWED // points.size + 1
    if part < ratios.size and _sums(points, ratios[:part]).size > MOST_FOLLOWED:
        return None  # some of them are too many already
    moved = _sums(points, ratios)
    return moved if moved.size <= MOST_FOLLOWED else None


def _sums(points: Floats, ratios: Floats) -> Floats:
    """The distinct sums of a point and a ratio."""
    with np.errstate(invalid="ignore"):
        sums = (points[:, None] + ratios).ravel()  # inf - inf: an outcome that a sure belief excludes
    return _distinct(sums[~np.isnan(sums)])


def _distinct(odds: Floats) -> Floats:
    """Increasing, one of each group that agrees to ``ODDS_DIGITS`` decimals, itself not rounded."""
    return odds[np.unique(np.round(odds, ODDS_DIGITS), return_index=True)[1]]


def _belief(odds: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + exps(-odds)))


def _angle(odds: float) -> float:
    """arcsin(sqrt(b)) of log-odds, accurate at both ends."""
    return float(angle(exp(min(odds, 700.0) / 2), 1.0)) if odds < math.inf else HALF_PI


class GridSweeper(BackwardPass):
    """Passes on grids of beliefs in context 0; remembers which state-actions are still in play."""

    first, largest, growth = 24, 1 << 15, 1

    def __init__(self, model: RewardMixingMDP) -> None:
        super().__init__(model)
        one, two = model.laws.reshape(2, -1)
        self.reach = Reach(model.weights, log_ratios(one, two), model.horizon)

    def bytes(self, resolution: int) -> float:
        """Memory of a pass."""
        points = resolution + 2
        return pass_bytes(self.model, points, width_of(points, "int16").itemsize)

    def work(self, resolution: int) -> float:
        """Simple steps of a pass over the state-actions that are still in play."""
        ahead = self.expect.steps * (1 + self.model.num_contexts)
        backup = self.model.num_values * STEPS_PER_OUTCOME
        return float(np.count_nonzero(self.keep)) * (resolution + 2) * (ahead + backup)

    def sweep(self, resolution: int, deadline: float) -> Sweep | None:
        """One backward pass."""
        horizon = self.model.horizon
        grids = [*(self.reach.grid(t, resolution) for t in range(horizon)), np.array([0.0, 1.0])]  # at the end any
        index = width_of(max(*(grid.size for grid in grids), self.model.num_actions), "int16")
        nothing = np.zeros((self.model.num_states, 3, grids[-1].size))

        def step(t: int, later: Floats) -> tuple[Floats, Ints, Ints]:
            return self._step(t, later, grids[t], grids[t + 1], index)

        exact = all(self.reach.few(t, resolution) for t in range(horizon))
        return self.run(step, nothing, deadline, exact=exact)

    def _step(
        self, t: int, later: Floats, grid: Floats, next_grid: Floats, index: DTypeLike
    ) -> tuple[Floats, Ints, Ints]:
        """Values, actions and next nodes at step t; drops rows that cannot be optimal."""
        from rewardmix.planning.backups import backup_two_contexts

        places = grid, next_grid, inverse_widths(next_grid)
        compiled: Callable[..., None] = backup_two_contexts

        def backup(rows: Ints, tables: RowTables, out: Filled) -> None:
            compiled(*tables, *places, 2 * self.margin, *out)

        return self.back_up(t, later, np.empty((self.model.num_states, 3, grid.size)), index, backup, drop=True)
