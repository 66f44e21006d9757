"""Where a belief can be, and grids over it.

The belief in one of two contexts has log-odds that move by log(q_0 / q_1) at each outcome, so after t steps from the
weights they lie in an interval that is known in advance; and where few log-ratios occur, at few points. A grid covers
only that interval, or is exactly those points. Spacing is even in arcsin(sqrt(b)).
"""

from __future__ import annotations

import math

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.portable import HALF_PI, angle, exp, exps, log, logs, sins

REACHABLE_CAP = 1024
"""Sets of reachable beliefs are followed up to this size."""
FEW = 256
"""Up to so many points a step, sets that are known for all steps are used from the first sweep on."""
DIGITS = 11
"""Log-odds that agree to so many decimals are one point."""
MARGIN = 1e-10
"""What an interval of log-odds is widened by, so that no rounded belief falls off the grid ..."""
MARGIN_PER_STEP = 2e-11
"""... and more at every step: posteriors of the widened end, and of points left out as equal, stay inside."""


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
        return points is not None and points.size <= max(2 * resolution, FEW if self.finite else 0)

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
    if points.size * ratios.size > 16 * REACHABLE_CAP:
        return None  # so many ratios do not come together again
    with np.errstate(invalid="ignore"):
        moved = (points[:, None] + ratios).ravel()  # inf - inf: an outcome that a sure belief excludes
    moved = _distinct(moved[~np.isnan(moved)])
    return moved if moved.size <= REACHABLE_CAP else None


def _distinct(odds: Floats) -> Floats:
    """Increasing, one of each group that agrees to ``DIGITS`` decimals, itself not rounded."""
    return odds[np.unique(np.round(odds, DIGITS), return_index=True)[1]]


def _belief(odds: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + exps(-odds)))


def _angle(odds: float) -> float:
    """arcsin(sqrt(b)) of log-odds, accurate at both ends."""
    return float(angle(exp(min(odds, 700.0) / 2), 1.0)) if odds < math.inf else HALF_PI
