"""What the study of the hard family runs."""

from __future__ import annotations

ACTIONS = (3, 4, 6)
ACCURACY = 0.04
"""The accuracy at which the number of actions changes."""

ACCURACIES = (0.08, 0.04, 0.02, 0.01)
FIXED_ACTIONS = 3
"""The number of actions at which the accuracy changes."""

FACTORS = (0.06, 0.11, 0.2, 0.35)
"""Episodes: so many times (S A)^2 / e^2, S = 2."""

SEEDS = 160
WITHIN = 0.9
OPTIMAL = 0.99
"""A run is optimal if it has this share of the gain, which is 2 e."""

DRAWS = 1000
IDEAL = 20_000
"""Draws of the test that knows the form of the model."""
IDEAL_ACTIONS = (*ACTIONS, 12, 24)
"""Numbers of actions at which that test is run."""
