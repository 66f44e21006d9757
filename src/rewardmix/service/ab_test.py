"""Run the A/B test of the adaptive arm against the holdout arm by a confidence sequence, valid at all times.

Stopping a test when it looks significant inflates the error of an ordinary interval. And with rare rewards the sample
variance is uninformative: an arm without any reward has variance 0. The interval is therefore a confidence sequence by
betting (Waudby-Smith and Ramdas, 2024): with 95 % probability it holds at all times simultaneously, for any
distribution of returns within known bounds, also if versions of the policy and users change. Session t is adaptive with
a known probability p and has the return R >= lo; m is the average of R - lo over the sessions before it, and

    u = min(p, 1 - p) / B,    y = u (R - lo - m) / p if adaptive, -u (R - lo - m) / (1 - p) if not;    -1 <= y <= 1,

where B is the width of the bounds. Since the arm is random, E[y] = u d, where d is the effect of adapting in this
session. The wealth of a bettor who stakes a fraction f on each y therefore grows at most by exp(f u d) per session on
average; with stakes on -y, by exp(-f u d). A difference is excluded once the average wealth of several bettors is
40 = 2 / 0.05 times larger than the difference allows (Ville's inequality).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rewardmix._core.portable_math import LN2_HIGH, LN2_LOW, exp, log
from rewardmix.bounded_mean import ReturnBounds

ERROR_LEVEL = 0.05
"""Probability that the interval is ever wrong."""

LOG_WEALTH_LIMIT = float(log(2.0 / ERROR_LEVEL))
"""Logarithm of the wealth at which a difference is excluded, at each end."""

STAKES = tuple(0.9 / 2**k for k in range(8))
"""Fractions of the wealth that are staked: large ones detect large differences early, small ones small differences."""

LOG_NUM_BETTORS = float(log(float(len(STAKES))))

MIN_SESSIONS = 20
"""Minimum number of sessions of each arm for an answer. The interval is valid from the first session, but wide."""

_ROUNDING = 1e-9
"""Tolerance for returns outside of the bounds, relative to their width, for rounding errors of sums."""

_MAX_SESSIONS = 10_000_000
"""Number of sessions beyond which no forecast of significance is given."""


@dataclass(frozen=True)
class ArmStats:
    """Sums over the sessions of an arm.

    Attributes:
        num_sessions: Number of sessions.
        total: Sum of returns.
        sum_of_squares: Sum of squared returns.
    """

    num_sessions: int = 0
    total: float = 0.0
    sum_of_squares: float = 0.0

    def merge(self, other: ArmStats) -> ArmStats:
        """Add the sums of two groups of sessions."""
        return ArmStats(
            self.num_sessions + other.num_sessions, self.total + other.total, self.sum_of_squares + other.sum_of_squares
        )

    @property
    def mean(self) -> float:
        """Return the mean return of a session; 0 without sessions."""
        return self.total / self.num_sessions if self.num_sessions else 0.0

    @property
    def variance(self) -> float:
        """Return the sample variance of the return of a session."""
        if self.num_sessions < 2:
            return 0.0
        return max(self.sum_of_squares - self.num_sessions * self.mean**2, 0.0) / (self.num_sessions - 1)


@dataclass(frozen=True)
class ArmComparison:
    """Average effect of adapting: return of an adaptive session minus that of a holdout session.

    Attributes:
        difference: Estimate, which weights the sessions of each arm by the inverse probability of their arm.
        lower: Lower end of the interval.
        upper: Upper end of the interval.
        sessions_until_significant: Sessions until the interval excludes 0 if the trend continues; 0: now; None: not
            soon.
        sessions: Number of compared sessions.
        min_return: Lower bound of a return.
        max_return: Upper bound of a return.
        clipped: Number of sessions whose return was clipped to the bounds.
    """

    difference: float
    lower: float
    upper: float
    sessions_until_significant: int | None
    sessions: int
    min_return: float
    max_return: float
    clipped: int


class Wealth:
    """Wealth of one bettor per stake, each with initial wealth 1: products of 1 + f y, with exponents apart."""

    def __init__(self) -> None:
        self._factors, self._exponents = [1.0] * len(STAKES), [0] * len(STAKES)

    def bet(self, y: float) -> None:
        """Multiply by the outcome of one bet ``y``, at least -1."""
        for k, stake in enumerate(STAKES):
            # Products over millions of sessions leave the range of float64, so the exponent is kept as an
            # integer. frexp is exact: no rounding besides that of the product.
            self._factors[k], exponent = math.frexp(self._factors[k] * (1.0 + stake * y))
            self._exponents[k] += exponent

    def logarithms(self) -> list[float]:
        """Return the logarithms of the wealth of all bettors."""
        pairs = zip(self._factors, self._exponents, strict=True)
        # log(2) is split in two parts: power * LN2_HIGH is exact, which keeps the digits of the small part and
        # the bits identical on all platforms.
        return [exponent * LN2_HIGH + (exponent * LN2_LOW + log(factor)) for factor, exponent in pairs]


class BettingSequence:
    """Confidence sequence of the difference between the arms, updated by one finished session at a time.

    Attributes:
        bounds: Lower and upper bound of a return.
        num_excluded: Number of sessions without information: no randomized arm, or an unknown probability.
    """

    def __init__(self, bounds: ReturnBounds) -> None:
        self.bounds = bounds
        self._sessions = [0, 0]
        self.num_excluded = self._clipped = 0
        self._excess = self._weight = self._score = 0.0
        self._up, self._down = Wealth(), Wealth()

    def add(self, adaptive: bool, holdout: float | None, total_reward: float) -> None:
        """Add a session; ``holdout`` is the probability of the holdout arm when it was drawn, None if unknown."""
        if holdout is None or not 0.0 < holdout < 1.0:
            self.num_excluded += 1
            return
        bounds, num_before = self.bounds, sum(self._sessions)
        # The guarantee needs bounded returns. A clipped return makes the estimate refer to clipped returns, so
        # they are counted and reported.
        clipped_return = min(max(total_reward, bounds.min_return), bounds.max_return)
        self._clipped += abs(clipped_return - total_reward) > _ROUNDING * bounds.width
        excess = clipped_return - bounds.min_return
        # The scale makes |y| <= 1 for every stake, so wealth stays positive.
        weight = min(holdout, 1.0 - holdout) / bounds.width
        # Centering by the mean of the previous sessions reduces the variance. It is fixed before the session
        # and so does not change the expectation.
        centered = weight * (excess - self._excess / (num_before + 1))
        y = centered / (1.0 - holdout) if adaptive else -centered / holdout
        self._up.bet(y)
        self._down.bet(-y)
        self._sessions[adaptive] += 1
        self._excess += excess
        self._weight += weight
        self._score += y

    def comparison(self) -> ArmComparison | None:
        """Return the current interval; None if an arm has too few sessions."""
        # Not needed for validity; an interval as wide as the bounds only confuses readers.
        if min(self._sessions) < MIN_SESSIONS:
            return None
        up, down = self._up.logarithms(), self._down.logarithms()
        width, difference = self.bounds.width, self._score / self._weight
        ends = min_total_effect(up) / self._weight, -min_total_effect(down) / self._weight
        # If one end is wrong, the order of the ends may be wrong too; sorting keeps a valid interval that
        # excludes nothing by itself.
        lower, upper = (min(max(end, -width), width) for end in sorted(ends))
        num_sessions = sum(self._sessions)
        is_significant = lower > 0.0 or upper < 0.0
        num_more = 0 if is_significant else _sessions_until_significant(up if difference > 0.0 else down, num_sessions)
        return ArmComparison(
            difference,
            lower,
            upper,
            num_more,
            num_sessions,
            self.bounds.min_return,
            self.bounds.max_return,
            self._clipped,
        )


def min_total_effect(logarithms: list[float]) -> float:
    """Return the largest z with log(mean of exp(V_k - f_k z)) >= ``LOG_WEALTH_LIMIT``; V_k are the log wealths.

    At the initial z, the wealth of a single bettor suffices. Newton's method on a convex function then increases z
    monotonically and does not pass the solution.
    """
    total: float = max(
        (value - LOG_NUM_BETTORS - LOG_WEALTH_LIMIT) / stake for value, stake in zip(logarithms, STAKES, strict=True)
    )
    while True:
        log_wealths = [value - stake * total for value, stake in zip(logarithms, STAKES, strict=True)]
        log_mean, mean_stake = log_mean_wealth(log_wealths)
        next_total = total + (log_mean - LOG_WEALTH_LIMIT) / mean_stake
        # Newton's steps end where rounding stops the increase.
        if not next_total > total:
            return total
        total = next_total


def log_mean_wealth(logarithms: list[float]) -> tuple[float, float]:
    """Return (logarithm of the mean wealth, mean stake weighted by wealth)."""
    # The largest logarithm is subtracted before exp, so that no term overflows.
    highest = max(logarithms)
    total = staked = 0.0
    for value, stake in zip(logarithms, STAKES, strict=True):
        wealth = float(exp(value - highest))
        total += wealth
        staked += wealth * stake
    return highest + float(log(total)) - LOG_NUM_BETTORS, staked / total


def _sessions_until_significant(logarithms: list[float], num_sessions: int) -> int | None:
    """Forecast the sessions until the wealth excludes 0 if it keeps growing at its current rate."""
    fastest = max(logarithms)
    if fastest <= 0.0:
        return None
    # At the upper end of the bisection the fastest bettor alone suffices.
    low, high = num_sessions, math.ceil(num_sessions * (LOG_WEALTH_LIMIT + LOG_NUM_BETTORS) / fastest) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if log_mean_wealth([value * (middle / num_sessions) for value in logarithms])[0] > LOG_WEALTH_LIMIT:
            high = middle
        else:
            low = middle
    return high - num_sessions if high <= _MAX_SESSIONS else None
