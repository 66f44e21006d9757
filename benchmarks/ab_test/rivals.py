"""Compute earlier intervals, and the betting sequence for a whole test at once."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from benchmarks.ab_test.settings import Floats
from rewardmix.service.ab_test import ERROR_LEVEL, LOG_WEALTH_LIMIT, MIN_SESSIONS, STAKES

NARROWEST_AT = 1000
"""Number of sessions at which the old interval is narrowest, relative to one for a single look."""


def old_radius(sessions: Floats) -> Floats:
    """Return half the width of the old interval (normal mixture), for a standard deviation of 1 per session."""
    looks = -2.0 * math.log(ERROR_LEVEL)
    rate = (looks + math.log(looks + 1.0)) / NARROWEST_AT
    grown = sessions * rate + 1.0
    radius: Floats = np.sqrt(2.0 * grown / (sessions**2 * rate) * np.log(np.sqrt(grown) / ERROR_LEVEL))
    return radius


def old_signs(adaptive: Floats, returns: Floats, looks: Floats) -> Floats:
    """Return the decision of the old interval at each look: 1 adaptive arm better, -1 worse, 0 undecided.

    It used the sample variance of each arm as if it were known.
    """
    counts, means, variances = [], [], []
    for arm in (adaptive, 1.0 - adaptive):
        count, total, squares = ((arm * power).cumsum()[looks - 1] for power in (1.0, returns, returns**2))
        mean = total / np.maximum(count, 1)
        counts.append(count)
        means.append(mean)
        variances.append(np.maximum(squares - count * mean**2, 0.0) / np.maximum(count - 1, 1))
    sessions = counts[0] + counts[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt((variances[0] / counts[0] + variances[1] / counts[1]) * sessions)
    difference = means[0] - means[1]
    sure = (np.minimum(*counts) >= MIN_SESSIONS) & (np.abs(difference) > spread * old_radius(sessions))
    return np.sign(difference) * sure


def betting_signs(adaptive: Floats, returns: Floats, looks: Floats, holdout: float, bound: float) -> Floats:
    """Return the decision of the betting sequence of the service at each look; ``run`` compares it with the service."""
    counted = np.minimum(returns, bound)
    before = (counted.cumsum() - counted) / np.arange(1, counted.size + 1)
    centered = min(holdout, 1.0 - holdout) / bound * (counted - before)
    y = np.where(adaptive > 0, centered / (1.0 - holdout), -centered / holdout)
    few = np.minimum(adaptive.cumsum(), (1.0 - adaptive).cumsum())[looks - 1] < MIN_SESSIONS
    up, down = (
        np.logaddexp.reduce([np.log1p(sign * f * y).cumsum()[looks - 1] for f in STAKES]) - math.log(len(STAKES))
        for sign in (1.0, -1.0)
    )
    return np.where(few, 0.0, (up > LOG_WEALTH_LIMIT) * 1.0 - (down > LOG_WEALTH_LIMIT) * 1.0)


def student(returns: Floats) -> tuple[float, float]:
    """Return Student's interval of a mean."""
    radius = stats.t.ppf(0.975, returns.size - 1) * returns.std(ddof=1) / math.sqrt(returns.size)
    return float(returns.mean() - radius), float(returns.mean() + radius)
