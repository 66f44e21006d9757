"""What the check of the promise runs."""

from __future__ import annotations

MODELS = 300
SIZES = ((2, 2, 3), (2, 3, 4), (3, 2, 4), (3, 3, 4), (4, 2, 5))
"""(states, actions, horizon), in turn; the seed of the world is its number."""

EPISODES = 1000
REGRET = 0.05
WITHIN = 0.95

RULE_MODELS = 300
ACCURACY = 0.3
FAILURE = 0.1
