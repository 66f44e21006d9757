"""An interval for the mean of independent returns, from how few of them could have come from another mean.

Student's interval takes the spread that was seen for the true one. Where few episodes are paid, a sample without one of
them has next to no spread, and the interval is far too short. With bounds that no return can leave, a mean is refused
instead where every law within the bounds that has it makes the sample too unlikely (empirical likelihood, with
the KL_inf of Honda and Takemura 2010):

    lower = the smallest mu with max over l in [0, 1/mu] of sum log(1 + l (x - mu)) <= q^2 / 2

with Student's quantile q, and x and mu in units of the range; the upper end is the same of 1 - x. At either end half an
episode at the far bound is added to the sample, because a rare one may not have been seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats, as_number
from rewardmix._core.jit import deferred
from rewardmix._core.portable import log

MADE_UP = 0.5
"""Episodes at the far bound that are added to the sample."""

HALVINGS = 60
"""Of the range in which an end of the interval lies, and of the range of l."""


@dataclass(frozen=True)
class ReturnBounds:
    """What the sum of the rewards of an episode cannot leave.

    Attributes:
        least: the lowest return.
        most: the highest.
    """

    least: float
    most: float

    @property
    def width(self) -> float:
        """How far two returns can be apart."""
        return self.most - self.least


def return_bounds(reward_values: Floats, horizon: int, *, may_end: bool = True) -> ReturnBounds:
    """Horizon times the lowest and the highest reward; 0 is a reward too where episodes ``may_end`` before."""
    least, most = float(reward_values.min()), float(reward_values.max())
    if may_end:
        least, most = min(least, 0.0), max(most, 0.0)
    return ReturnBounds(horizon * least, horizon * most)


def mean_interval(returns: Floats, failure: float = 0.05, bounds: ReturnBounds | None = None) -> tuple[float, float]:
    """The ends of an interval for the mean of at least two independent returns.

    Args:
        returns: one for each episode; those beyond the bounds count as much as these.
        failure: the interval misses the mean with about this probability.
        bounds: that no return can leave. None: they are not known; the interval is Student's, roughly, with two more
            episodes, one of 0 and one of the largest return seen, and the whole line where nothing was paid.
    """
    failure = as_number("failure", failure, above=0.0, below=1.0)
    if bounds is None:
        return _approximated(returns, failure)
    if bounds.width <= 0.0:
        return bounds.least, bounds.most
    values, counts = np.unique(np.clip((returns - bounds.least) / bounds.width, 0.0, 1.0), return_counts=True)
    weights = counts.astype(np.float64)
    most = student_quantile(returns.size, failure) ** 2 / 2.0
    low = least_mean(values, weights, most)
    high = 1.0 - least_mean(1.0 - values[::-1], weights[::-1].copy(), most)
    return bounds.least + low * bounds.width, bounds.least + high * bounds.width


def _approximated(returns: Floats, failure: float) -> tuple[float, float]:
    least, most = min(float(returns.min()), 0.0), max(float(returns.max()), 0.0)
    if least == most:
        return -math.inf, math.inf
    more = np.concatenate([returns, [least, most]])
    radius = student_quantile(more.size, failure) * float(more.std(ddof=1)) / math.sqrt(more.size)
    return float(more.mean()) - radius, float(more.mean()) + radius


def student_quantile(count: int, failure: float) -> float:
    """Half-width of Student's t interval in standard deviations that were estimated from ``count`` numbers."""
    from scipy.special import stdtrit

    return float(f"{stdtrit(count - 1, 1 - failure / 2):.12g}")  # its last bits are not the same everywhere


@deferred(lambda values, weights, most: HALVINGS * HALVINGS * (values.size + 1))
def least_mean(values: Floats, weights: Floats, most: float) -> Any:
    """The lowest mean on [0, 1] that is not refused, from below, for distinct values and how often each was seen.

    What speaks against a mean grows as that falls, so the end is looked for by halving; so is the best l of a mean,
    where the derivative of the sum changes its sign.
    """
    total, count = 0.0, MADE_UP
    for i in range(values.size):
        total += weights[i] * values[i]
        count += weights[i]
    refused, allowed = 0.0, total / count
    for _ in range(HALVINGS):
        mean = 0.5 * (refused + allowed)
        if mean == 0.0:
            break
        low, high = 0.0, 1.0 / mean
        for _ in range(HALVINGS):
            bet = 0.5 * (low + high)
            slope = -MADE_UP * mean / (1.0 - bet * mean)
            for i in range(values.size):
                slope += weights[i] * (values[i] - mean) / (1.0 + bet * (values[i] - mean))
            if slope > 0.0:
                low = bet
            else:
                high = bet
        growth = MADE_UP * log(1.0 - low * mean)
        for i in range(values.size):
            growth += weights[i] * log(1.0 + low * (values[i] - mean))
        if growth > most:
            refused = mean
        else:
            allowed = mean
    return refused
