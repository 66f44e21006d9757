"""Plan on grids of beliefs between two types, common to all states: where a belief can be, and a backward pass.

The belief in one of two types has log-odds that move by log(q_0 / q_1) at each reward. After t steps from the weights
they lie in an interval that is known in advance, and at few points where few log-ratios occur. A grid covers only that
interval, or is exactly those points. Spacing is even in arcsin(sqrt(b)).

For each (s, a), grid belief b in type 0 and reward with likelihoods q:
n = sum_m b_m q_m,   b' = b q / n,   g_j <= b' <= g_j+1

    upper += n * interpolation of the next upper bounds at b'      the optimal value is convex in the belief
    lower += q * next pair of values at j*                         j* the better of j, j+1, one for all next states

b' increases with b, so a moving pointer finds j. Models with more types use lattices (``belief_lattice``); a lattice of
two types would be correct too, but it is even in b and its cells are searched one by one.

Between passes a state-action is dropped at a step if its upper bound is below the certified value of another action at
every belief of the range, so fine passes touch few actions. No optimal action is dropped: the bracket stays valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

from rewardmix._core.checks import Floats, Ints
from rewardmix._core.int_dtypes import smallest_int_dtype
from rewardmix._core.portable_math import HALF_PI, atan2_positive, exp, exp_array, log, log_array, sin_array
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_induction import (
    BackupInputs,
    BackupOutputs,
    BackwardInduction,
    SweepResult,
    estimate_sweep_bytes,
)

MAX_REACHABLE_POINTS = 1024
"""Sets of reachable beliefs are enumerated up to this size."""
MAX_EXACT_POINTS = 256
"""Up to this many points per step, sets that are known for all steps are used from the first pass on."""
ODDS_DIGITS = 11
"""Log-odds that agree to this many decimals count as one point."""
LOG_ODDS_MARGIN = 1e-10
"""Widening of an interval of log-odds, so that no rounded belief falls off the grid ..."""
LOG_ODDS_MARGIN_PER_STEP = 2e-11
"""... and further widening per step, for posteriors of the widened end and of points merged as equal."""
OPERATIONS_PER_OUTCOME = 16.0
"""Elementary operations of one reward at one grid point."""


def log_likelihood_ratios(first: Floats, second: Floats) -> Floats:
    """Compute the distinct values of log(first / second) where not both are 0, increasing; infinities are possible."""
    possible = (first > 0) | (second > 0)
    return np.unique(log_array(first[possible]) - log_array(second[possible]))


class ReachableLogOdds:
    """Interval of the log-odds at each step from given weights, and their points where these are few."""

    def __init__(self, weights: Floats, ratios: Floats, horizon: int) -> None:
        start = float(log(weights[0]) - log(weights[1]))
        self.start = float(weights[0] / weights.sum())
        self.intervals = [(start, start)]
        distinct_ratios = _unique_log_odds(ratios)
        points: Floats | None = np.array([start])
        self.points: list[Floats | None] = [points]
        for _ in range(1, horizon):
            low, high = self.intervals[-1]
            self.intervals.append((low + min(ratios[0], 0.0), high + max(ratios[-1], 0.0)))
            points = None if points is None else _reachable_next(points, distinct_ratios)
            self.points.append(points)
        low, high = self.intervals[-1]
        self.span = _arcsine_angle(high) - _arcsine_angle(low)

    @property
    def is_finite(self) -> bool:
        """Whether the reachable points of every step are known."""
        return self.points[-1] is not None

    def uses_exact_points(self, step: int, resolution: int) -> bool:
        """Return whether the grid of this step is the reachable points themselves."""
        points = self.points[step]
        return points is not None and points.size <= max(2 * resolution, MAX_EXACT_POINTS if self.is_finite else 0)

    def grid(self, step: int, resolution: int) -> Floats:
        """Make the beliefs in type 0 at ``step``: the reachable points if few, else points evenly spaced in angle."""
        if step == 0:
            return np.array([self.start])
        points = self.points[step]
        low, high = self.intervals[step]
        margin = LOG_ODDS_MARGIN + step * LOG_ODDS_MARGIN_PER_STEP
        if points is not None and self.uses_exact_points(step, resolution):
            odds = points.copy()
            if odds.size > 1:
                odds[0] -= margin
                odds[-1] += margin
            return np.unique(_sigmoid(odds))
        # Even spacing in arcsin(sqrt(b)) puts more points near 0 and 1, where most beliefs lie after a few rewards.
        first, last = _arcsine_angle(low - margin), _arcsine_angle(high + margin)
        count = max(2, math.ceil(resolution * (last - first) / max(self.span, 1e-300)))
        grid = sin_array(np.linspace(first, last, count + 1)) ** 2
        # sin^2 of the angle loses digits near the ends, and the ends must contain every reachable belief.
        grid[0], grid[-1] = _sigmoid(np.array([low - margin, high + margin]))
        return np.unique(grid)


def inverse_widths(grid: Floats) -> Floats:
    """Compute 1 / (grid[j+1] - grid[j]), and 0 for the last point, which has no interval."""
    return np.append(1.0 / np.diff(grid), 0.0)


def _reachable_next(points: Floats, ratios: Floats) -> Floats | None:
    """Compute the reachable log-odds of the next step, or None if there are too many."""
    if points.size * ratios.size > 16 * MAX_REACHABLE_POINTS:
        return None  # so many ratios rarely lead to common sums
    num_ratios = 2 * MAX_REACHABLE_POINTS // points.size + 1
    if num_ratios < ratios.size and _pairwise_sums(points, ratios[:num_ratios]).size > MAX_REACHABLE_POINTS:
        return None  # a subset of the ratios gives too many already
    next_points = _pairwise_sums(points, ratios)
    return next_points if next_points.size <= MAX_REACHABLE_POINTS else None


def _pairwise_sums(points: Floats, ratios: Floats) -> Floats:
    """Compute the distinct sums of a point and a ratio."""
    with np.errstate(invalid="ignore"):
        sums = (points[:, None] + ratios).ravel()  # inf - inf: a reward that a certain belief excludes
    return _unique_log_odds(sums[~np.isnan(sums)])


def _unique_log_odds(odds: Floats) -> Floats:
    """Select one of each group of log-odds that agree to ``ODDS_DIGITS`` decimals, unrounded, in increasing order."""
    return odds[np.unique(np.round(odds, ODDS_DIGITS), return_index=True)[1]]


def _sigmoid(odds: Floats) -> Floats:
    """Compute beliefs from log-odds."""
    return np.asarray(1.0 / (1.0 + exp_array(-odds)))


def _arcsine_angle(odds: float) -> float:
    """Compute arcsin(sqrt(b)) from log-odds, accurately at both ends."""
    return float(atan2_positive(exp(min(odds, 700.0) / 2), 1.0)) if odds < math.inf else HALF_PI


class GridPlanner(BackwardInduction):
    """Backward passes on grids of beliefs in type 0; keeps the mask of active state-actions between passes."""

    first_resolution, max_resolution, resolution_growth = 24, 1 << 15, 1

    def __init__(self, model: RewardMixingMDP) -> None:
        super().__init__(model)
        first, second = model.reward_probs.reshape(2, -1)
        self.reach = ReachableLogOdds(model.weights, log_likelihood_ratios(first, second), model.horizon)

    def estimate_bytes(self, resolution: int) -> float:
        """Estimate the memory of a pass in bytes."""
        points = resolution + 2
        return estimate_sweep_bytes(self.model, points, smallest_int_dtype(points, "int16").itemsize)

    def estimate_operations(self, resolution: int) -> float:
        """Estimate the elementary operations of a pass over the active state-actions."""
        expectation = self.expect.mean_terms * (1 + self.model.num_types)
        backup = self.model.num_values * OPERATIONS_PER_OUTCOME
        return float(np.count_nonzero(self.active)) * (resolution + 2) * (expectation + backup)

    def sweep(self, resolution: int, deadline: float) -> SweepResult | None:
        """Run one backward pass; return None if the deadline passed."""
        horizon = self.model.horizon
        # Values after the last step are 0 everywhere, so any grid serves there.
        grids = [*(self.reach.grid(t, resolution) for t in range(horizon)), np.array([0.0, 1.0])]
        dtype = smallest_int_dtype(max(*(grid.size for grid in grids), self.model.num_actions), "int16")
        final_value = np.zeros((self.model.num_states, 3, grids[-1].size))

        def step(t: int, next_value: Floats) -> tuple[Floats, Ints, Ints]:
            """Compute values, actions and next nodes of step t."""
            return self._step(t, next_value, grids[t], grids[t + 1], dtype)

        exact = all(self.reach.uses_exact_points(t, resolution) for t in range(horizon))
        return self.run(step, final_value, deadline, exact=exact)

    def _step(
        self, t: int, next_value: Floats, grid: Floats, next_grid: Floats, dtype: DTypeLike
    ) -> tuple[Floats, Ints, Ints]:
        """Compute values, actions and next nodes at step t; drop rows that cannot be optimal."""
        from rewardmix.planning.backup_kernels import backup_two_types

        grids = grid, next_grid, inverse_widths(next_grid)
        compiled: Callable[..., None] = backup_two_types

        def backup(rows: Ints, tables: BackupInputs, out: BackupOutputs) -> None:
            """Fill the results of some rows."""
            # Both bounds that pruning compares may be off by the margin, hence twice the margin as slack.
            compiled(*tables, *grids, 2 * self.margin, *out)

        value = np.empty((self.model.num_states, 3, grid.size))
        return self.backup_step(t, next_value, value, dtype, backup, drop=True)
