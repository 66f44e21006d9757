"""What the study of the number of types runs."""

from __future__ import annotations

TRUE_TYPES = (1, 2, 3, 4)
SIZES = (2000, 20_000)
SEEDS = 3
"""Of each model, number of types and number of episodes."""

RANDOM = {"states": 5, "actions": 3, "horizon": 6}
SHARES = {1: (0.5, 0.5), 2: (0.6, 0.4), 3: (0.4, 0.35, 0.25), 4: (0.3, 0.3, 0.2, 0.2)}
"""Of the types of a shop; one type is two that are the same."""
LIKED = (0.62, 0.66, 0.64, 0.60)
"""What each type of a shop thinks of its own thing ..."""
OTHERS = (0.10, 0.08, 0.28, 0.34)
"""... and everybody else of it."""

TORN = 100
"""Logs of each kind whose rows were dealt out at random among sessions, which leaves no types."""
TORN_SESSIONS = 2000
TORN_WORLD = {"states": 3, "actions": 3, "horizon": 8}
RARE = {"0/1, .01": 0.01, "0/1, .003": 0.003}
"""Kind -> the average reward."""
KINDS = ("0/1", *RARE, "three levels", "revenue in bins")
BUYS = 0.12
"""Of the steps, on average, where rewards are revenue ..."""
MONEY = 0.6
"""... with so much spread of its logarithm in a type, in 4 bins with as many sales each."""
RULES = ("-1 error", "1/n", "3/n and 2.33 errors")
"""What a gain of the second type had to exceed: in doubt one more, next to nothing, and the rule that is taken."""

GAP = 0.01
MOST_TYPES = 6
"""That auto tries."""
MOST_LOST = 0.02
"""Share of the gain that may be lost, on average."""

PRODUCTS = ("cracker", "catsup")
FIXED = (2, 3, 4)
SPLITS = 10
HORIZON = 10
EPISODES = 2000
