"""What the study of coverage runs."""

from __future__ import annotations

RUNS = 1000
CHECKPOINTS = (10, 100, 1000)
"""Episodes at which all radii are looked at; a run counts as held if they all hold at each of them."""

SIZES = ((2, 2, 3), (3, 2, 4), (4, 3, 5))
"""(states, actions, horizon), in turn; the model of a run has its number as seed."""

FAILURES = (0.05, 0.2, 0.5)

WORLDS = 50
BUDGETS = (100, 300, 1000, 3000, 10_000)
REWARDS = {"any laws": None, "separation .2": 0.2}
"""Kinds of models of the intervals of rewards: states 4, actions 2, horizon 6."""

REWARD_SIZE = (4, 2, 6)

LEVEL = 0.95
"""Of the intervals of rewards and of validation."""

PLAYED = (20, 100, 1000)
VALIDATIONS = 2000
VALIDATION_WORLDS = 20
"""Policies are learned from 1,000 episodes in so many models; the validations are shared out among them."""

REGRET_WORLDS = 40
REGRET_BUDGETS = (200, 1000, 5000)
RESAMPLES = 8
REGRET_DRAWS = 500

PROGRAM_SETS = 2000
PROGRAM_WEIGHTS = (0.05, 0.95)
PROGRAM_BINS = 5
PROGRAM_POINTS = (2, 12)
"""Sets that hold a random model, by construction or from episodes of it (every other one), with known weights."""

PAIR_WEIGHTS = (0.5, 0.2, 0.1, 0.05)
PAIR_GAPS = (0.1, 0.3, 0.6, 0.9)
PAIR_LOWEST = 0.02
"""Success in the worse type: this, or such that the two types lie evenly about one half."""

PAIR_SAMPLES = (30, 300, 1000, 5000)
PAIR_VISITS = 4
"""Visits of a state-action for each sample of the pair; the averages come from all of them."""

PAIR_RUNS = 20_000
PAIR_DEVIATIONS = 3.0
PAIR_RATIO = 0.05
"""How far from 1 the claimed over the true standard error may be, from ``PAIR_ENOUGH`` samples on."""

PAIR_ENOUGH = 300
PAIR_MISSES = 0.005
"""How often three standard errors may miss."""
