"""Does adapting pay? Two arms, compared by an interval that may be looked at whenever one likes.

Somebody who watches a test and stops when it looks good errs far more often than an interval for one look says. The
interval here is a confidence sequence (a mixture of normal ones, by the central limit theorem): with 95 % it holds at
all looks at once. Sessions are given to an arm by chance and by the same shares all the time, so that the difference of
the means is fair also while versions of the policy change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rewardmix._core.portable import log

ERROR = 0.05
"""Chance that the interval is ever wrong."""

NARROWEST_AT = 1000
"""Sessions at which the interval is narrowest beside one for a single look."""

LEAST_SESSIONS = 20
"""Sessions of each arm before anything is said."""

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
    """How much more a session earns in the first arm than in the second.

    Attributes:
        difference: of the means.
        lower: end of the interval.
        upper: end of the interval.
        more_sessions: until the interval leaves 0 out if the difference stays as it is; 0: it does; None: not soon.
    """

    difference: float
    lower: float
    upper: float
    more_sessions: int | None


def compare_arms(first: ArmEarned, second: ArmEarned) -> ArmComparison | None:
    """The comparison; None where an arm has too few sessions."""
    if min(first.sessions, second.sessions) < LEAST_SESSIONS:
        return None
    sessions = first.sessions + second.sessions
    variance = first.variance / first.sessions + second.variance / second.sessions
    spread = math.sqrt(variance * sessions)
    difference, width = first.mean - second.mean, spread * radius(sessions)
    return ArmComparison(difference, difference - width, difference + width, _more(abs(difference), spread, sessions))


def radius(sessions: int) -> float:
    """Half the length of the interval, for a standard deviation of 1 a session."""
    looks = -2.0 * log(ERROR)
    rate = (looks + log(looks + 1.0)) / NARROWEST_AT
    grown = sessions * rate + 1.0
    return math.sqrt(2.0 * grown / (sessions**2 * rate) * log(math.sqrt(grown) / ERROR))


def _more(difference: float, spread: float, sessions: int) -> int | None:
    if spread * radius(sessions) < difference:
        return 0
    low, high = sessions, _FAR
    if spread * radius(high) >= difference:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if spread * radius(middle) < difference:
            high = middle
        else:
            low = middle
    return high - sessions
