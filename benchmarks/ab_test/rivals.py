"""The intervals that were there before, and the betting sequence for a whole test at once."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from benchmarks.ab_test.settings import Floats
from rewardmix.service.comparison import BETS, ERROR, LEAST_SESSIONS, LIMIT

NARROWEST_AT = 1000
"""Sessions at which the old interval is narrowest beside one for a single look."""


def old_radius(sessions: Floats) -> Floats:
    """Half the length of the old interval, for a standard deviation of 1 a session: a mixture of normal ones."""
    looks = -2.0 * math.log(ERROR)
    rate = (looks + math.log(looks + 1.0)) / NARROWEST_AT
    grown = sessions * rate + 1.0
    radius: Floats = np.sqrt(2.0 * grown / (sessions**2 * rate) * np.log(np.sqrt(grown) / ERROR))
    return radius


def old_signs(adaptive: Floats, earned: Floats, looks: Floats) -> Floats:
    """At each look, 1 where the old interval says that adapting pays, -1 that it loses, 0 neither.

    Each arm's own variance was taken for known.
    """
    counts, means, variances = [], [], []
    for arm in (adaptive, 1.0 - adaptive):
        count, total, squares = ((arm * power).cumsum()[looks - 1] for power in (1.0, earned, earned**2))
        mean = total / np.maximum(count, 1)
        counts.append(count)
        means.append(mean)
        variances.append(np.maximum(squares - count * mean**2, 0.0) / np.maximum(count - 1, 1))
    sessions = counts[0] + counts[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt((variances[0] / counts[0] + variances[1] / counts[1]) * sessions)
    difference = means[0] - means[1]
    sure = (np.minimum(*counts) >= LEAST_SESSIONS) & (np.abs(difference) > spread * old_radius(sessions))
    return np.sign(difference) * sure


def betting_signs(adaptive: Floats, earned: Floats, looks: Floats, holdout: float, bound: float) -> Floats:
    """The same of the betting sequence of the service; ``run`` holds it against that."""
    counted = np.minimum(earned, bound)
    before = (counted.cumsum() - counted) / np.arange(1, counted.size + 1)
    centred = min(holdout, 1.0 - holdout) / bound * (counted - before)
    y = np.where(adaptive > 0, centred / (1.0 - holdout), -centred / holdout)
    few = np.minimum(adaptive.cumsum(), (1.0 - adaptive).cumsum())[looks - 1] < LEAST_SESSIONS
    up, down = (
        np.logaddexp.reduce([np.log1p(sign * share * y).cumsum()[looks - 1] for share in BETS]) - math.log(len(BETS))
        for sign in (1.0, -1.0)
    )
    return np.where(few, 0.0, (up > LIMIT) * 1.0 - (down > LIMIT) * 1.0)


def student(returns: Floats) -> tuple[float, float]:
    """Student's interval of a mean, by the spread that was seen."""
    radius = stats.t.ppf(0.975, returns.size - 1) * returns.std(ddof=1) / math.sqrt(returns.size)
    return float(returns.mean() - radius), float(returns.mean() + radius)
