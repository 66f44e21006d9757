"""Exponents: slopes of logarithms with their intervals, and the budget at which a falling curve meets a level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Exponent(NamedTuple):
    """An exponent with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def slope(factor: ArrayLike, episodes: ArrayLike) -> float:
    """Least-squares slope of log episodes on log factor; points that are not finite are left out."""
    x, y = np.log(np.asarray(factor, np.float64)), np.log(np.asarray(episodes, np.float64))
    used = np.isfinite(x) & np.isfinite(y)
    if used.sum() < 2:
        return float("nan")
    x, y = x[used] - x[used].mean(), y[used]
    return float(x @ y / (x @ x))


def between(slopes: ArrayLike, failure: float = 0.05) -> Exponent:
    """Mean of the slopes of independent replicates, with Student's t interval."""
    from scipy.special import stdtrit

    each = np.asarray(slopes, np.float64)
    if each.size < 2:
        return Exponent(float(each.mean()), float("nan"), float("nan"))
    radius = float(stdtrit(each.size - 1, 1 - failure / 2)) * each.std(ddof=1) / np.sqrt(each.size)
    return Exponent(float(each.mean()), float(each.mean() - radius), float(each.mean() + radius))


def crossing(budgets: ArrayLike, values: ArrayLike, level: float) -> float:
    """Budget after which a falling curve stays at or below ``level``, interpolated in logarithms.

    NaN where the grid does not show it: the curve is below from the first budget on, or above at the last.
    """
    x, y = np.log(np.asarray(budgets, np.float64)), np.log(np.maximum(values, 1e-12))
    above = np.flatnonzero(y > np.log(level))
    if above.size == 0 or above[-1] == y.size - 1:
        return float("nan")
    i = int(above[-1])
    return float(np.exp(x[i] + (y[i] - np.log(level)) / (y[i] - y[i + 1]) * (x[i + 1] - x[i])))


def resampled(
    statistic: Callable[[NDArray[np.int64]], Any], replicates: int, draws: int = 2000, seed: int = 0
) -> tuple[Any, Any]:
    """Percentile 95 % limits of a statistic of replicate numbers, which are drawn with replacement.

    Draws in which the statistic is not finite are left out; where more than a tenth are, the limits are NaN.
    """
    rng = np.random.default_rng(seed)
    found = np.array([statistic(rng.integers(replicates, size=replicates)) for _ in range(draws)], np.float64)
    low, high = np.nanpercentile(found, [2.5, 97.5], axis=0) if np.isfinite(found).any() else (np.nan, np.nan)
    lost = np.mean(~np.isfinite(found), axis=0) > 0.1
    return np.where(lost, np.nan, low), np.where(lost, np.nan, high)


def over_replicates(
    factor: Sequence[float], needed: Callable[[NDArray[np.int64]], Floats], replicates: int, draws: int = 2000
) -> Exponent:
    """Slope of ``needed(replicates)`` (one number for each value of the factor) and its bootstrap interval."""
    low, high = resampled(lambda chosen: slope(factor, needed(chosen)), replicates, draws)
    return Exponent(slope(factor, needed(np.arange(replicates))), float(low), float(high))
