"""Exponents: slopes of logarithms with their intervals, and the budget at which a falling curve meets a level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Chosen = NDArray[np.int64]


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"

    @property
    def inverse(self) -> Estimate:
        """The exponent of one over the factor, where this is one of the factor."""
        return Estimate(-self.value, -self.high, -self.low)


def slope(factor: ArrayLike, episodes: ArrayLike) -> Any:
    """Least-squares slope of log episodes (..., factor) on log factor; points that are not finite are left out."""
    with np.errstate(divide="ignore"):
        y = np.log(np.asarray(episodes, np.float64))
    x = np.broadcast_to(np.log(np.asarray(factor, np.float64)), y.shape)
    used = np.isfinite(x) & np.isfinite(y)
    points = used.sum(axis=-1)
    middle = np.where(used, x, 0.0).sum(axis=-1) / np.maximum(points, 1)
    x, y = np.where(used, x - middle[..., None], 0.0), np.where(used, y, 0.0)
    result = (x * y).sum(axis=-1) / np.where(points > 1, (x * x).sum(axis=-1), np.nan)
    return result if result.ndim else float(result)


def between(slopes: ArrayLike, failure_prob: float = 0.05) -> Estimate:
    """Mean of the slopes of independent replicates, with Student's t interval."""
    from scipy.special import stdtrit

    each = np.asarray(slopes, np.float64)
    if each.size < 2:
        return Estimate(float(each.mean()), float("nan"), float("nan"))
    radius = float(stdtrit(each.size - 1, 1 - failure_prob / 2)) * each.std(ddof=1) / np.sqrt(each.size)
    return Estimate(float(each.mean()), float(each.mean() - radius), float(each.mean() + radius))


def crossing(budgets: ArrayLike, values: ArrayLike, level: float) -> Any:
    """Budget after which a falling curve stays at or below ``level``, interpolated in logarithms.

    Values are (budgets, ...). NaN where the grid does not show it: the curve is below from the first budget on, or
    above at the last.
    """
    x, y = np.log(np.asarray(budgets, np.float64)), np.log(np.maximum(values, 1e-12)) - np.log(level)
    above = y > 0
    crosses = above.any(axis=0) & ~above[-1]
    i = np.where(crosses, len(x) - 1 - above[::-1].argmax(axis=0), 0)
    before, after = (np.take_along_axis(y, j[None], axis=0)[0] for j in (i, i + 1))
    share = before / np.where(crosses, before - after, np.nan)
    budget = np.exp(x[i] + share * (x[i + 1] - x[i]))
    return budget if budget.ndim else float(budget)


def exact_limits(successes: int, trials: int, failure_prob: float = 0.05) -> tuple[float, float]:
    """Exact binomial limits (Clopper and Pearson)."""
    from scipy.special import betaincinv

    low = betaincinv(successes, trials - successes + 1, failure_prob / 2) if successes else 0.0
    high = betaincinv(successes + 1, trials - successes, 1 - failure_prob / 2) if successes < trials else 1.0
    return float(low), float(high)


def draw_replicates(replicates: int, draws: int = 2000, seed: int = 0) -> Chosen:
    """Replicate numbers (draws, replicates), drawn with replacement."""
    return np.random.default_rng(seed).integers(replicates, size=(draws, replicates))


def limits(draws: ArrayLike) -> tuple[Any, Any]:
    """Percentile 95 % limits of a statistic (draws, ...).

    Draws in which it is not finite are left out; where more than a tenth are, the limits are NaN.
    """
    values = np.asarray(draws, np.float64)
    low, high = np.nanpercentile(values, [2.5, 97.5], axis=0) if np.isfinite(values).any() else (np.nan, np.nan)
    lost = np.mean(~np.isfinite(values), axis=0) > 0.1
    return np.where(lost, np.nan, low), np.where(lost, np.nan, high)


def resampled(statistic: Callable[[Chosen], Any], replicates: int, draws: int = 2000) -> tuple[Any, Any]:
    """Percentile 95 % limits of a statistic of replicate numbers, which are drawn with replacement."""
    return limits([statistic(chosen) for chosen in draw_replicates(replicates, draws)])


def over_replicates(
    factor: Sequence[float], needed: Callable[[Chosen], Floats], replicates: int, draws: int = 2000
) -> Estimate:
    """Slope of ``needed`` and its bootstrap interval.

    ``needed`` takes replicate numbers (..., replicates) and gives a number for each value of the factor, (..., factor).
    """
    low, high = limits(slope(factor, needed(draw_replicates(replicates, draws))))
    return Estimate(slope(factor, needed(np.arange(replicates))), float(low), float(high))
