"""What the study of scaling runs."""

from __future__ import annotations

from typing import NamedTuple


class Point(NamedTuple):
    """A model's size and what is asked of the algorithm."""

    states: int = 4
    actions: int = 3
    horizon: int = 4
    accuracy: float = 0.1
    separation: float = 0.2
    failure: float = 0.1


BASE = Point()
"""The theorem's part: one factor at a time changes, the others are these."""

GROWTH = 1.5
ENDS: dict[str, tuple[float, ...]] = {
    "states": (2, 4, 8, 16),
    "actions": (2, 3, 4, 6, 8),
    "horizon": (2, 4, 8, 16),
    "accuracy": (0.8, 0.4, 0.2, 0.1, 0.05, 0.025),
    "separation": (0.8, 0.4, 0.2, 0.1, 0.05, 0.025),
    "failure": (1e-1, 1e-2, 1e-4, 1e-8),
}
STOP = 1e-3
"""The threshold at which other models are compared."""

QUICK = ("states", "horizon", "accuracy")
"""Factors of the quick version, which has the first two values of each."""

END_WORLDS = 5
ABLATION_WORLDS = 3

LEVEL = 35.0
"""The level that stands for c log(K S A / eta) where logarithms are left out."""

LEARNED = Point(states=6, actions=3, horizon=5, accuracy=0.05, separation=0.3)
"""The base of the second part."""

FACTORS: dict[str, tuple[float, ...]] = {
    "states": (3, 6, 12, 24),
    "actions": (2, 3, 6, 12),
    "horizon": (3, 5, 8, 12),
    "separation": (0.1, 0.15, 0.2, 0.3, 0.45),
}
ACCURACIES = (0.2, 0.1, 0.05, 0.025, 0.0125)
BUDGETS = (25, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600)
MANY = 100
"""Episodes from which on the regret is compared with the error of the rewards."""

WORLDS = 16
GAP = 3e-4
"""Of planning: what the regret may be overstated by."""

SHARE = 0.5
"""A target as a share of what adapting gains, where the separation changes."""

OTHER_SHARE = 0.15
"""The same where a size changes."""

PAIR_FACTORS: dict[str, tuple[float, ...]] = {"horizon": (3, 5, 8), "states": (3, 6, 12)}
PAIR_WORLDS = 8

DRAWS = 2000

COST_BASE = {"states": 100, "actions": 4, "horizon": 10, "contexts": 2, "episodes": 4000}
"""The part on CPU time and memory: random models with two next states."""

COST_FACTORS: dict[str, tuple[int, ...]] = {
    "states": (100, 200, 400),
    "episodes": (1000, 4000, 16_000),
    "horizon": (5, 10, 20),
    "contexts": (2, 3, 4),
    "actions": (4, 8, 16),
}
COST_WORLDS = 1
COST_LARGE = (1000, 10_000)
COST_EPISODES = 20_000
TURNS_STATES = (300, 1000)
TURNS = 1
