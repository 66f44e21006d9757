"""Do groups differ in the mean of a covariate, within strata? And do sums of residuals have a trend?

Both tests compare with chi-squared, and hold for any log: the covariate at a step is known before the outcome that is
tested, so the terms of each sum are martingale differences, whatever chose the actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.algebra import eigenpairs, product, solve
from rewardmix._core.checks import Floats

FEWEST = 10
"""Groups (next states) that were seen less often are left out; so are strata with less variance than so many coins."""

THIN = 1e-4
"""A direction with less than this share of the largest variance is not asked about."""

Statistic = tuple[float, int]
"""(sum of squares, degrees of freedom)."""


def association(strata: NDArray[Any], groups: NDArray[Any], covariate: Floats) -> Statistic:
    """Whether the mean of a (N, D) covariate differs between groups, within strata (both (N,) codes).

    The multivariate analysis of variance of each stratum by itself: (n - 1) trace(total^-1 between), summed.
    """
    size = int(groups.max(initial=0)) + 1
    cells, cell, sizes = np.unique(strata.astype(np.int64) * size + groups, return_inverse=True, return_counts=True)
    kept = (sizes >= FEWEST)[cell]
    cell, covariate = cells[cell[kept]], covariate[kept]
    statistic, freedom = 0.0, 0
    order = np.argsort(cell, kind="stable")
    ends = np.flatnonzero(np.diff(cell[order] // size)) + 1
    for rows in np.split(order, ends):
        square, degrees = _one_stratum(cell[rows], covariate[rows])
        statistic, freedom = statistic + square, freedom + degrees
    return statistic, freedom


def _one_stratum(cell: NDArray[Any], covariate: Floats) -> Statistic:
    """(n - 1) trace(total^-1 between) and its degrees of freedom; nothing where nothing varies."""
    if cell.size < 2 or cell.min() == cell.max():
        return 0.0, 0
    centred = covariate - covariate.mean(axis=0)
    varying = (centred**2).sum(axis=0) > 1e-9 * cell.size
    centred = centred[:, varying]
    if not varying.any():
        return 0.0, 0
    groups, place, sizes = np.unique(cell, return_inverse=True, return_counts=True)
    sums = np.zeros((groups.size, centred.shape[1]))
    np.add.at(sums, place.ravel(), centred)
    total = (centred[:, :, None] * centred[:, None, :]).sum(axis=0)
    total[np.diag_indices_from(total)] *= 1.0 + 1e-9
    between = (sums[:, :, None] * sums[:, None, :] / sizes[:, None, None]).sum(axis=0)
    share = float(np.trace(solve(np.broadcast_to(total, (total.shape[0], *total.shape)), between)))
    return (cell.size - 1) * share, (groups.size - 1) * int(varying.sum())


def trend(strata: NDArray[Any], residuals: Floats, variances: Floats, times: Floats, loads: Floats) -> Statistic:
    """Whether residuals of mean zero and known variance, all (N,), rise or fall with time within strata.

    ``loads`` (N, D) are weights known before the residual; each has a slope, so that what rises for some people and
    falls for others is seen too.
    """
    size = int(strata.max(initial=0)) + 1

    def total(values: Floats) -> Floats:
        return np.bincount(strata, weights=values, minlength=size).astype(np.float64)

    spread = total(variances)
    enough = spread >= FEWEST / 4
    middle = np.where(enough, total(times * variances) / np.where(enough, spread, 1.0), 0.0)
    away = times - middle[strata]
    columns = range(loads.shape[1])
    slopes = np.stack([total(away * residuals * loads[:, i]) for i in columns], axis=1)
    between = [[total(away**2 * variances * loads[:, i] * loads[:, j]) for j in columns] for i in columns]
    statistic, freedom = 0.0, 0
    for slope, variance in zip(slopes[enough], np.moveaxis(np.array(between), 2, 0)[enough], strict=True):
        square, degrees = _quadratic_form(slope, variance)
        statistic, freedom = statistic + square, freedom + degrees
    return statistic, freedom


def _quadratic_form(vector: Floats, variance: Floats) -> Statistic:
    """v' V^+ v and the rank of V; directions of next to no variance are left out."""
    values, vectors = eigenpairs(variance)
    real = values > THIN * max(float(values.max()), 1e-300)
    return float((product(vector, vectors)[real] ** 2 / values[real]).sum()), int(real.sum())
