"""What the study of safe improvement runs."""

from __future__ import annotations

from typing import Any

WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "shop": ("shop", {}),
    "grid": ("grid", {}),
    "lock 5": ("lock", {"steps": 5}),
    "riverswim 6": ("riverswim", {"states": 6, "horizon": 12}),
    "branches": ("branches", {}),
    "probe": ("probe", {}),
    "hard": ("hard", {"epsilon": 0.16}),
    "random (3, 2, 4)": ("random", {"states": 3, "actions": 2, "horizon": 4, "seed": 1}),
    "random (5, 3, 6)": ("random", {"states": 5, "actions": 3, "horizon": 6, "seed": 2}),
    "random (5, 3, 6), another": ("random", {"states": 5, "actions": 3, "horizon": 6, "seed": 3}),
    "random (10, 3, 8)": ("random", {"states": 10, "actions": 3, "horizon": 8, "seed": 4}),
    "random (5, 4, 6), 3 types": ("random", {"states": 5, "actions": 4, "horizon": 6, "seed": 5, "num_types": 3}),
    "random (4, 3, 6), 3 rewards": (
        "random",
        {"states": 4, "actions": 3, "horizon": 6, "seed": 6, "reward_values": (0.0, 0.5, 1.0)},
    ),
}
"""Name -> problem and its options."""

POLICIES = ("uniform", "deployed", "floor", "Markov", "following", "narrow")
"""Who wrote the log; see ``loggers``."""

SIZES = (300, 3000, 30_000)
GIVEN_SIZE = 300
"""Episodes of a deployed policy that ``fit`` is given too."""
SEEDS = 20
FIRST_SEED = 100
"""Others than those that the constants of ``behavior_policy`` and ``pessimism`` were chosen by."""

BEFORE = 3000
"""Uniform episodes from which the deployed policy was planned."""
FLOOR = 0.05
"""Chance of any action, beside the deployed policy."""
NOISE = 0.2
"""Share of a random law beside the best Markov policy."""
STAYS = 0.8
"""Chance to repeat a rewarded action."""

TOLERANCE = 0.01
"""Of the best value: so much less than the log's policy is not worse."""
WITHIN = 0.95
"""Share of seeds in which the fitted policy must not be worse."""

WEEKS = 6
WEEKLY = 3000
CHAINS = 20
CHAIN_WORLD = "shop"
CHAIN_LEAST = 0.98
"""Of the best value, in every week."""

CALIBRATED = ("shop", "random (3, 2, 4)")
CALIBRATION_POLICIES = ("uniform", "deployed", "floor")
CALIBRATION_EPISODES = 1000
CALIBRATION_LOGS = 150
"""Of each model and policy."""
