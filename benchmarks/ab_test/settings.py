"""What the study of live comparisons runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """What a session earns: the same amount, or a skewed one, at each step that is paid.

    Attributes:
        name: in tables.
        chance: of a reward, at each step.
        steps: of a session.
        spread: of the logarithm of an amount, whose median is 1; 0: every amount is 1.
        bound: what a session counts at most.
    """

    name: str
    chance: float
    steps: int = 1
    spread: float = 0.0
    bound: float = 1.0

    def draw(self, rng: np.random.Generator, chances: Floats) -> Floats:
        """What sessions earn whose steps are paid by these chances."""
        paid = rng.binomial(self.steps, chances).astype(np.float64)
        return paid * rng.lognormal(0.0, self.spread, chances.size) if self.spread else paid

    def mean(self) -> float:
        """What a session counts on average, if it has one step."""
        if not self.spread:
            return self.chance * min(self.bound, 1.0)
        edge = math.log(self.bound) / self.spread
        below = math.exp(self.spread**2 / 2) * _normal(edge - self.spread)
        return self.chance * (below + self.bound * _normal(-edge))


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


RARE = tuple(Law(f"chance {text}", chance) for text, chance in ((".002", 0.002), (".01", 0.01), (".05", 0.05)))
REVENUE = Law("revenue: chance .05, amounts of spread 1.5", 0.05, spread=1.5, bound=100.0)
EQUAL = (*RARE, Law("chance .3", 0.3), Law("ten steps of chance .01", 0.01, steps=10, bound=10.0), REVENUE)
"""Laws that both arms have in tests of equal arms."""

HOLDOUTS = (0.1, 0.5)
TESTS, SESSIONS, EVERY = 400, 20_000, 100
"""Tests of a row, their sessions, and how often they are looked at."""

POWERS = (
    (Law("chance .3", 0.3), 0.1),
    (Law("chance .3", 0.3), 0.3),
    (Law("chance .05", 0.05), 0.3),
    (Law("chance .05", 0.05), 1.0),
    (Law("chance .01", 0.01), 1.0),
    (Law("chance .3, bound 10", 0.3, bound=10.0), 0.3),
    (Law("chance .05, bound 10", 0.05, bound=10.0), 1.0),
    (REVENUE, 1.0),
)
"""Laws of the holdout, and how much more often an adaptive session is paid."""

POWER_TESTS, POWER_SESSIONS = 200, 100_000

MEANS = (Law("chance .01", 0.01), Law("chance .05", 0.05), Law("chance .3", 0.3), Law("chance .95", 0.95), REVENUE)
EPISODES = (100, 1000)
SAMPLES = 2000
"""Of amounts; laws of 0 and 1 are added up instead."""
