"""What the check of the promise runs."""

from __future__ import annotations

MODELS = 300
SIZES = ((2, 2, 3), (2, 3, 4), (3, 2, 4), (3, 3, 4), (4, 2, 5))
"""(states, actions, horizon), in turn; the seed of the model is its number."""

LARGER = ((5, 3, 6), (8, 3, 8), (10, 4, 8))
"""Models in which the rule has something to decide."""

EPISODES = 1000
REGRET = 0.05
WITHIN = 0.95

ACCURACY = 0.3
FAILURE = 0.1
FIRST_OF_RULE = 1000
"""Number of the first model of the rule: others than those of the budget."""

STRICT_MODELS = 100
STRICT = 0.05
"""Accuracy asked for in the larger models."""
