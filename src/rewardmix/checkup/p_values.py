"""P-values of what the tests of the check-up come to, or the reason why there is none."""

from __future__ import annotations

import math

from rewardmix._core.checks import Floats
from rewardmix.checkup.association import Statistic

Answer = tuple[float, str]
"""(p-value, why there is none)."""

Deviation = tuple[float, str]
"""(standard deviations from what is expected, why they could not be had)."""

NO_EPISODE_CAN_TELL = "no episode can tell"


def chi_squared(statistic: Statistic) -> Answer:
    """The chance of so large a sum of squares."""
    from scipy.special import chdtrc

    square, freedom = statistic
    return (
        (without_last_digits(float(chdtrc(freedom, square))), "")
        if freedom
        else (math.nan, "nothing was seen often enough")
    )


def upper(deviation: Deviation) -> Answer:
    """The chance of so large a deviation."""
    return without_last_digits(0.5 * math.erfc(deviation[0] / math.sqrt(2.0))), deviation[1]


def two_sided(deviation: Deviation) -> Answer:
    """The chance of a deviation so far from zero."""
    return without_last_digits(math.erfc(abs(deviation[0]) / math.sqrt(2.0))), deviation[1]


def among_resamples(deviation: float, resampled: Floats, *, above: bool) -> Answer:
    """The chance of a deviation so far from those of resamples, (B,), or so far above them.

    Deviations are taken for normal with the mean and the spread of the resamples, which are few: so the law of the next
    one is Student's, (deviation - mean) / (spread sqrt(1 + 1/B)) on B - 1 degrees of freedom.
    """
    from scipy.special import stdtr

    count = resampled.size
    spread = float(resampled.std(ddof=1)) * math.sqrt(1.0 + 1.0 / count) if count > 1 else 0.0
    if not spread > 0.0:
        return math.nan, NO_EPISODE_CAN_TELL
    away = (deviation - float(resampled.mean())) / spread
    chance = float(stdtr(count - 1, -away)) if above else 2.0 * float(stdtr(count - 1, -abs(away)))
    return without_last_digits(chance), ""


def without_last_digits(p_value: float) -> float:
    """Without the last digits, which differ between C libraries."""
    return float(f"{p_value:.9g}")
