"""What the study of households runs."""

from __future__ import annotations

PRODUCTS = {"cracker": (5.57, 7.17), "catsup": (5.80, 6.24)}
"""Product -> hits per household of a fixed brand and of two types, in a study that saw every purchase in full."""

HORIZON = 10
SPLITS = 20
EPISODES = 2000
GOAL = 0.9
"""Share of that study's lift to be reached through the environment alone."""
