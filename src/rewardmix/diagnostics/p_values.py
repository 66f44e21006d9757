"""Convert test statistics to p-values, or give the reason why there is none."""

from __future__ import annotations

import math

from rewardmix._core.checks import Floats
from rewardmix.diagnostics.independence_tests import Statistic

Answer = tuple[float, str]
"""(p-value, reason why there is none)."""

Deviation = tuple[float, str]
"""(standardized deviation, reason why there is none)."""

NO_INFORMATION = "no episode contains information about it"

TOO_FEW_VISITS = "no state-action has enough visits"


def chi_squared_p_value(statistic: Statistic) -> Answer:
    """Compute the upper tail probability of a chi-squared statistic."""
    from scipy.special import chdtrc

    square, freedom = statistic
    return (round_nine_digits(float(chdtrc(freedom, square))), "") if freedom else (math.nan, TOO_FEW_VISITS)


def upper_p_value(deviation: Deviation) -> Answer:
    """Compute the upper tail probability of a standardized deviation."""
    return round_nine_digits(0.5 * math.erfc(deviation[0] / math.sqrt(2.0))), deviation[1]


def two_sided_p_value(deviation: Deviation) -> Answer:
    """Compute the two-sided tail probability of a standardized deviation."""
    return round_nine_digits(math.erfc(abs(deviation[0]) / math.sqrt(2.0))), deviation[1]


def resampled_p_value(deviation: float, resampled: Floats, *, above: bool) -> Answer:
    """Compute the tail probability of a deviation relative to resamples (B,), one-sided if ``above``.

    The deviations are taken as normal with the mean and standard deviation of the resamples. Since these are few, the
    prediction for the next one is Student's t: (deviation - mean) / (std sqrt(1 + 1/B)) with B - 1 degrees of freedom.
    """
    from scipy.special import stdtr

    count = resampled.size
    prediction_std = float(resampled.std(ddof=1)) * math.sqrt(1.0 + 1.0 / count) if count > 1 else 0.0
    # The negated comparison also catches NaN.
    if not prediction_std > 0.0:
        return math.nan, NO_INFORMATION
    z_score = (deviation - float(resampled.mean())) / prediction_std
    p_value = float(stdtr(count - 1, -z_score)) if above else 2.0 * float(stdtr(count - 1, -abs(z_score)))
    return round_nine_digits(p_value), ""


def round_nine_digits(p_value: float) -> float:
    """Round a p-value to nine significant digits, since the last ones differ between C libraries."""
    return float(f"{p_value:.9g}")
