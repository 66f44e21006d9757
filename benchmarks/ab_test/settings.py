"""Define the settings of the study of A/B tests."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ReturnDistribution:
    """Distribution of the return of a session: at each rewarded step an amount of 1, or a lognormal one.

    Attributes:
        name: Name in tables.
        prob: Probability of a reward at each step.
        steps: Number of steps of a session.
        spread: Standard deviation of the logarithm of an amount, whose median is 1; 0: every amount is 1.
        bound: Upper bound at which a return is clipped.
    """

    name: str
    prob: float
    steps: int = 1
    spread: float = 0.0
    bound: float = 1.0

    def draw(self, rng: np.random.Generator, probs: Floats) -> Floats:
        """Draw returns of sessions with these reward probabilities."""
        num_rewards = rng.binomial(self.steps, probs).astype(np.float64)
        return num_rewards * rng.lognormal(0.0, self.spread, probs.size) if self.spread else num_rewards

    def mean(self) -> float:
        """Return the mean of a clipped return, if a session has one step."""
        if not self.spread:
            return self.prob * min(self.bound, 1.0)
        edge = math.log(self.bound) / self.spread
        below = math.exp(self.spread**2 / 2) * _normal(edge - self.spread)
        return self.prob * (below + self.bound * _normal(-edge))


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


RARE = tuple(
    ReturnDistribution(f"chance {text}", prob) for text, prob in ((".002", 0.002), (".01", 0.01), (".05", 0.05))
)
REVENUE = ReturnDistribution("revenue: chance .05, amounts of spread 1.5", 0.05, spread=1.5, bound=100.0)
EQUAL = (
    *RARE,
    ReturnDistribution("chance .3", 0.3),
    ReturnDistribution("ten steps of chance .01", 0.01, steps=10, bound=10.0),
    REVENUE,
)
"""Return distributions of both arms in tests of equal arms."""

HOLDOUTS = (0.1, 0.5)
TESTS, SESSIONS, LOOK_INTERVAL = 400, 20_000, 100
"""Tests of a row, sessions of a test, and sessions between looks at its interval."""

POWERS = (
    (ReturnDistribution("chance .3", 0.3), 0.1),
    (ReturnDistribution("chance .3", 0.3), 0.3),
    (ReturnDistribution("chance .05", 0.05), 0.3),
    (ReturnDistribution("chance .05", 0.05), 1.0),
    (ReturnDistribution("chance .01", 0.01), 1.0),
    (ReturnDistribution("chance .3, return clipped at 10", 0.3, bound=10.0), 0.3),
    (ReturnDistribution("chance .05, return clipped at 10", 0.05, bound=10.0), 1.0),
    (REVENUE, 1.0),
)
"""Return distributions of the holdout arm, and the relative increase of the reward probability in the adaptive arm."""

POWER_TESTS, POWER_SESSIONS = 200, 100_000

MEANS = (
    ReturnDistribution("chance .01", 0.01),
    ReturnDistribution("chance .05", 0.05),
    ReturnDistribution("chance .3", 0.3),
    ReturnDistribution("chance .95", 0.95),
    REVENUE,
)
EPISODES = (100, 1000)
SAMPLES = 2000
"""Number of samples of amounts; returns of 0 and 1 are enumerated instead."""
