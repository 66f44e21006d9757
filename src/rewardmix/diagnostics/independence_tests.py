"""Test whether groups differ in the mean of a covariate within strata, and whether residuals have a trend.

Both statistics are compared with chi-squared. They are valid for any log: the covariate of a step is known before the
tested outcome, so the terms of each sum are martingale differences, whatever chose the actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.linear_algebra import eigenpairs, product, solve

MIN_GROUP_SIZE = 10
"""Minimum size of a group (next state); strata need the variance of so many fair coins."""

MIN_VARIANCE_SHARE = 1e-4
"""Share of the largest variance below which a direction is not tested."""

Statistic = tuple[float, int]
"""(sum of squares, degrees of freedom)."""


def manova_statistic(strata: NDArray[Any], groups: NDArray[Any], covariate: Floats) -> Statistic:
    """Test whether the mean of a covariate (N, D) differs between groups within strata, both given as codes (N,).

    The statistic is that of a multivariate analysis of variance in each stratum, (n - 1) trace(total^-1 between),
    summed.
    """
    size = int(groups.max(initial=0)) + 1
    cells, cell, sizes = np.unique(strata.astype(np.int64) * size + groups, return_inverse=True, return_counts=True)
    is_large = (sizes >= MIN_GROUP_SIZE)[cell]
    cell, covariate = cells[cell[is_large]], covariate[is_large]
    statistic, freedom = 0.0, 0
    order = np.argsort(cell, kind="stable")
    ends = np.flatnonzero(np.diff(cell[order] // size)) + 1
    for rows in np.split(order, ends):
        square, degrees = _stratum_statistic(cell[rows], covariate[rows])
        statistic, freedom = statistic + square, freedom + degrees
    return statistic, freedom


def _stratum_statistic(cell: NDArray[Any], covariate: Floats) -> Statistic:
    """Compute (n - 1) trace(total^-1 between) and its degrees of freedom; zero without variation."""
    if cell.size < 2 or cell.min() == cell.max():
        return 0.0, 0
    centered = covariate - covariate.mean(axis=0)
    varying = (centered**2).sum(axis=0) > 1e-9 * cell.size
    centered = centered[:, varying]
    if not varying.any():
        return 0.0, 0
    groups, group_of_row, sizes = np.unique(cell, return_inverse=True, return_counts=True)
    sums = np.zeros((groups.size, centered.shape[1]))
    np.add.at(sums, group_of_row.ravel(), centered)
    total = (centered[:, :, None] * centered[:, None, :]).sum(axis=0)
    # A tiny ridge keeps collinear covariates, such as beliefs that sum to 1, invertible.
    total[np.diag_indices_from(total)] *= 1.0 + 1e-9
    between = (sums[:, :, None] * sums[:, None, :] / sizes[:, None, None]).sum(axis=0)
    share = float(np.trace(solve(np.broadcast_to(total, (total.shape[0], *total.shape)), between)))
    return (cell.size - 1) * share, (groups.size - 1) * int(varying.sum())


def trend_statistic(
    strata: NDArray[Any], residuals: Floats, variances: Floats, times: Floats, loads: Floats
) -> Statistic:
    """Test whether residuals with mean zero and known variance, all (N,), have a linear trend in time within strata.

    ``loads`` (N, D) are weights known before the residual. Each has its own slope, which also detects opposite trends
    of different types.
    """
    size = int(strata.max(initial=0)) + 1

    def total(values: Floats) -> Floats:
        """Sum values within strata."""
        return np.bincount(strata, weights=values, minlength=size).astype(np.float64)

    information = total(variances)
    enough = information >= MIN_GROUP_SIZE / 4
    # Centering times by their weighted mean makes the slope independent of the level of the residuals.
    mean_times = np.where(enough, total(times * variances) / np.where(enough, information, 1.0), 0.0)
    centered = times - mean_times[strata]
    columns = range(loads.shape[1])
    slopes = np.stack([total(centered * residuals * loads[:, i]) for i in columns], axis=1)
    matrices = [[total(centered**2 * variances * loads[:, i] * loads[:, j]) for j in columns] for i in columns]
    statistic, freedom = 0.0, 0
    for slope, variance in zip(slopes[enough], np.moveaxis(np.array(matrices), 2, 0)[enough], strict=True):
        square, degrees = _quadratic_form(slope, variance)
        statistic, freedom = statistic + square, freedom + degrees
    return statistic, freedom


def _quadratic_form(vector: Floats, variance: Floats) -> Statistic:
    """Compute v' V^+ v and the rank of V, without directions of negligible variance."""
    values, vectors = eigenpairs(variance)
    is_tested = values > MIN_VARIANCE_SHARE * max(float(values.max()), 1e-300)
    return float((product(vector, vectors)[is_tested] ** 2 / values[is_tested]).sum()), int(is_tested.sum())
