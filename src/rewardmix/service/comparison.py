"""Does adapting pay? Two arms, compared by an interval that may be looked at whenever one likes.

Somebody who watches a test and stops when it looks good errs far more often than an interval for one look says. And
where rewards are rare, the spread that was seen says little: an arm that was not paid yet has none. So the interval is
a confidence sequence by betting (Waudby-Smith and Ramdas 2024): with 95 % it holds at all looks at once, for any law of
what a session earns within bounds that are known before, while versions of the policy and visitors change. Session t
adapts with a known chance p and earns R >= lo; m is what the sessions before it earned above lo, on average, and

    u = min(p, 1 - p) / B,    y = u (R - lo - m) / p if it adapts, -u (R - lo - m) / (1 - p) if not;    -1 <= y <= 1.

As the arm is drawn, y is u d on average, d being what adapting is worth in this session. So the wealth of somebody who
bets a share f of it on every y grows by exp(f u d) a session at most, on average; who bets on -y, by exp(-f u d). A
difference is left out where several such bettors together have become 2 / .05 times richer than it lets them (Ville).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rewardmix._core.portable import LN2_HIGH, LN2_LOW, exp, log
from rewardmix.bounded_mean import ReturnBounds

ERROR = 0.05
"""Chance that the interval is ever wrong."""

LIMIT = float(log(2.0 / ERROR))
"""Logarithm of the wealth at which a difference is left out, at either end."""

BETS = tuple(0.9 / 2**k for k in range(8))
"""Shares of the wealth that are bet: large ones decide a large difference soon, small ones a small one."""

LOG_BETTORS = float(log(float(len(BETS))))

LEAST_SESSIONS = 20
"""Sessions of each arm before anything is said; the interval is one from the first session on, but a wide one."""

_ROUNDING = 1e-9
"""Of the range of a session: sums of rewards go so far beyond it without having earned more."""

_FAR = 10_000_000
"""Sessions beyond which a test is not said to decide."""


@dataclass(frozen=True)
class ArmEarned:
    """Sessions of an arm, added up.

    Attributes:
        sessions: how many.
        total: sum of what they earned.
        squares: sum of its squares.
    """

    sessions: int = 0
    total: float = 0.0
    squares: float = 0.0

    def plus(self, other: ArmEarned) -> ArmEarned:
        """Both together."""
        return ArmEarned(self.sessions + other.sessions, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> float:
        """Reward a session; 0 where there is none."""
        return self.total / self.sessions if self.sessions else 0.0

    @property
    def variance(self) -> float:
        """Of the reward of a session."""
        if self.sessions < 2:
            return 0.0
        return max(self.squares - self.sessions * self.mean**2, 0.0) / (self.sessions - 1)


@dataclass(frozen=True)
class ArmComparison:
    """How much more a session earns that adapts than one of the holdout, on average over the sessions so far.

    Attributes:
        difference: estimate; sessions of either arm are weighted by the chance of their arm.
        lower: end of the interval.
        upper: end of the interval.
        more_sessions: until the interval leaves 0 out if sessions go on as they did; 0: it does; None: not soon.
        sessions: that are in it.
        least_return: what a session counts at least.
        most_return: what it counts at most.
        clipped: sessions that earned less or more, and count as much as that.
    """

    difference: float
    lower: float
    upper: float
    more_sessions: int | None
    sessions: int
    least_return: float
    most_return: float
    clipped: int


class Wealth:
    """What bettors own who began with 1, one for each share: products of 1 + f y, with their powers of two apart."""

    def __init__(self) -> None:
        self._factors, self._exponents = [1.0] * len(BETS), [0] * len(BETS)

    def bet(self, y: float) -> None:
        """One more y, at least -1."""
        for k, share in enumerate(BETS):
            self._factors[k], more = math.frexp(self._factors[k] * (1.0 + share * y))
            self._exponents[k] += more

    def logarithms(self) -> list[float]:
        """Of what they own."""
        pairs = zip(self._factors, self._exponents, strict=True)
        return [power * LN2_HIGH + (power * LN2_LOW + log(factor)) for factor, power in pairs]


class BettingSequence:
    """The comparison of the arms, one finished session after another.

    Attributes:
        bounds: between which a session counts.
        left_out: sessions that say nothing: no arm was drawn, or by a chance that nobody knows.
    """

    def __init__(self, bounds: ReturnBounds) -> None:
        self.bounds = bounds
        self._sessions = [0, 0]
        self.left_out = self._clipped = 0
        self._earned = self._weight = self._score = 0.0
        self._up, self._down = Wealth(), Wealth()

    def add(self, adaptive: bool, holdout: float | None, earned: float) -> None:
        """A session, and the share of the holdout by which its arm was drawn; None: it is not known."""
        if holdout is None or not 0.0 < holdout < 1.0:
            self.left_out += 1
            return
        bounds, before = self.bounds, sum(self._sessions)
        counted = min(max(earned, bounds.least), bounds.most)
        self._clipped += abs(counted - earned) > _ROUNDING * bounds.width
        above = counted - bounds.least
        weight = min(holdout, 1.0 - holdout) / bounds.width
        centred = weight * (above - self._earned / (before + 1))
        y = centred / (1.0 - holdout) if adaptive else -centred / holdout
        self._up.bet(y)
        self._down.bet(-y)
        self._sessions[adaptive] += 1
        self._earned += above
        self._weight += weight
        self._score += y

    def comparison(self) -> ArmComparison | None:
        """Where it stands; None where an arm has too few sessions."""
        if min(self._sessions) < LEAST_SESSIONS:
            return None
        up, down = self._up.logarithms(), self._down.logarithms()
        width, difference = self.bounds.width, self._score / self._weight
        ends = least_total(up) / self._weight, -least_total(down) / self._weight
        lower, upper = (min(max(end, -width), width) for end in sorted(ends))  # if one errs, neither decides alone
        sessions = sum(self._sessions)
        more = 0 if lower > 0.0 or upper < 0.0 else _more(up if difference > 0.0 else down, sessions)
        return ArmComparison(
            difference, lower, upper, more, sessions, self.bounds.least, self.bounds.most, self._clipped
        )


def least_total(logarithms: list[float]) -> float:
    """The largest z with log(mean of exp(V_k - f_k z)) >= LIMIT, from below; V_k: logarithms of wealth.

    At the z to begin with one bettor alone is rich enough. From there Newton's steps on a convex function only rise,
    and never pass the z that is looked for.
    """
    total: float = max((value - LOG_BETTORS - LIMIT) / share for value, share in zip(logarithms, BETS, strict=True))
    while True:
        left = [value - share * total for value, share in zip(logarithms, BETS, strict=True)]
        mixed, slope = log_of_mean(left)
        higher = total + (mixed - LIMIT) / slope
        if not higher > total:
            return total
        total = higher


def log_of_mean(logarithms: list[float]) -> tuple[float, float]:
    """(logarithm of the mean wealth of the bettors, mean of the shares that they bet, weighted by wealth)."""
    highest = max(logarithms)
    mass = bet = 0.0
    for value, share in zip(logarithms, BETS, strict=True):
        part = float(exp(value - highest))
        mass += part
        bet += part * share
    return highest + float(log(mass)) - LOG_BETTORS, bet / mass


def _more(logarithms: list[float], sessions: int) -> int | None:
    """Sessions until bettors whose wealth goes on growing as it did leave no difference out."""
    fastest = max(logarithms)
    if fastest <= 0.0:
        return None
    low, high = sessions, math.ceil(sessions * (LIMIT + LOG_BETTORS) / fastest) + 1  # then the fastest alone does it
    while high - low > 1:
        middle = (low + high) // 2
        if log_of_mean([value * (middle / sessions) for value in logarithms])[0] > LIMIT:
            high = middle
        else:
            low = middle
    return high - sessions if high <= _FAR else None
