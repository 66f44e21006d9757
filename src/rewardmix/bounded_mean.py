"""Confidence interval of the mean of independent, bounded returns, by empirical likelihood.

Student's interval treats the sample's standard deviation as exact. If few episodes have rewards, a sample without such
episodes has almost no spread, and the interval is far too short. With known bounds of a return, this interval excludes
a mean mu only if every distribution within the bounds with that mean makes the sample too unlikely (empirical
likelihood, with the KL_inf of Honda and Takemura, 2010):

    lower = the smallest mu with max over l in [0, 1/mu] of sum log(1 + l (x - mu)) <= q^2 / 2

with Student's quantile q, and x and mu in units of the range. The upper end is 1 minus the lower end for 1 - x. At
either end half a pseudo-episode at the opposite bound is added to the sample, because a rare return may not have been
observed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats, as_number
from rewardmix._core.jit import lazy_jit
from rewardmix._core.portable_math import log

PSEUDO_EPISODES = 0.5
"""Number of pseudo-episodes at the opposite bound."""

HALVINGS = 60
"""Number of bisection steps for an end of the interval, and for the best l."""


@dataclass(frozen=True)
class ReturnBounds:
    """Bounds of the return of an episode.

    Attributes:
        min_return: Lowest possible return.
        max_return: Highest possible return.
    """

    min_return: float
    max_return: float

    @property
    def width(self) -> float:
        """Return the difference of the bounds."""
        return self.max_return - self.min_return


def return_bounds(reward_values: Floats, horizon: int, *, may_end: bool = True) -> ReturnBounds:
    """Bound the return by the horizon times the lowest and the highest reward.

    ``may_end``: episodes may end before the horizon, so 0 counts as a reward too.
    """
    min_reward, max_reward = float(reward_values.min()), float(reward_values.max())
    if may_end:
        min_reward, max_reward = min(min_reward, 0.0), max(max_reward, 0.0)
    return ReturnBounds(horizon * min_reward, horizon * max_reward)


def mean_interval(
    returns: Floats, failure_prob: float = 0.05, bounds: ReturnBounds | None = None
) -> tuple[float, float]:
    """Compute a confidence interval of the mean of at least two independent returns.

    Args:
        returns: One return for each episode; values beyond the bounds are clipped.
        failure_prob: Approximate probability that the interval misses the mean.
        bounds: Bounds of a return. ``None``: unknown; the interval is then an approximate Student interval with two
            pseudo-episodes, one of return 0 and one of the largest observed return, and the whole line if all returns
            are 0.

    Returns:
        Lower and upper end.

    Raises:
        InputError: If ``failure_prob`` is not between 0 and 1.
    """
    failure_prob = as_number("failure_prob", failure_prob, above=0.0, below=1.0)
    if bounds is None:
        return _student_interval(returns, failure_prob)
    if bounds.width <= 0.0:
        return bounds.min_return, bounds.max_return
    # Returns have few distinct values, so the sums run over those, and the result does not depend on the order of the
    # episodes.
    values, counts = np.unique(np.clip((returns - bounds.min_return) / bounds.width, 0.0, 1.0), return_counts=True)
    weights = counts.astype(np.float64)
    threshold = student_quantile(returns.size, failure_prob) ** 2 / 2.0
    low = min_mean(values, weights, threshold)
    high = 1.0 - min_mean(1.0 - values[::-1], weights[::-1].copy(), threshold)
    return bounds.min_return + low * bounds.width, bounds.min_return + high * bounds.width


def _student_interval(returns: Floats, failure_prob: float) -> tuple[float, float]:
    min_return, max_return = min(float(returns.min()), 0.0), max(float(returns.max()), 0.0)
    if min_return == max_return:
        return -math.inf, math.inf
    extended = np.concatenate([returns, [min_return, max_return]])
    radius = student_quantile(extended.size, failure_prob) * float(extended.std(ddof=1)) / math.sqrt(extended.size)
    return float(extended.mean()) - radius, float(extended.mean()) + radius


def student_quantile(count: int, failure_prob: float) -> float:
    """Return the half-width of Student's t interval, in standard errors estimated from ``count`` numbers."""
    from scipy.special import stdtrit

    # Rounded to twelve digits: the last bits of SciPy's special functions differ between builds.
    return float(f"{stdtrit(count - 1, 1 - failure_prob / 2):.12g}")


@lazy_jit(lambda values, weights, threshold: HALVINGS * HALVINGS * (values.size + 1))
def min_mean(values: Floats, weights: Floats, threshold: float) -> Any:
    """Compute the lower end of the interval on [0, 1] from distinct values and their counts.

    The test statistic decreases in the mean, so the end is found by bisection. The best l of a mean is found by
    bisection of the derivative, which decreases in l.
    """
    total, count = 0.0, PSEUDO_EPISODES
    for i in range(values.size):
        total += weights[i] * values[i]
        count += weights[i]
    excluded, included = 0.0, total / count
    for _ in range(HALVINGS):
        # A fixed number of bisection steps needs no tolerance. ``excluded`` stays below the end, so rounding makes the
        # interval wider and not shorter.
        mean = 0.5 * (excluded + included)
        if mean == 0.0:
            break
        low, high = 0.0, 1.0 / mean
        for _ in range(HALVINGS):
            multiplier = 0.5 * (low + high)
            # The pseudo-episode has return 0, hence its term log(1 - l * mean).
            slope = -PSEUDO_EPISODES * mean / (1.0 - multiplier * mean)
            for i in range(values.size):
                slope += weights[i] * (values[i] - mean) / (1.0 + multiplier * (values[i] - mean))
            if slope > 0.0:
                low = multiplier
            else:
                high = multiplier
        statistic = PSEUDO_EPISODES * log(1.0 - low * mean)
        for i in range(values.size):
            statistic += weights[i] * log(1.0 + low * (values[i] - mean))
        if statistic > threshold:
            excluded = mean
        else:
            included = mean
    return excluded
