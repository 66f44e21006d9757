"""Worlds in which every assumption holds, and ways to break one."""

from __future__ import annotations

from collections.abc import Callable

from rewardmix import Episodes, plan, problems, simulate, uniform
from rewardmix.model import RewardMixingMDP

LOGS = 500
"""Logs of each world in which everything holds."""

NULL_EPISODES = 2000
POWER_EPISODES = 30_000
POWER_LOGS = 40
SHORT_EPISODES = {1000: 40, 3000: 40, 10_000: 20}
"""Episodes of worlds with three types that two are fitted to, and logs of each."""
LEVEL = 0.01

BROKEN = {
    "switching": {"switch": 0.25},
    "moves": {"moves": 0.2},
    "copying": {"copy": 0.3},
    "drift": {"drift": 0.1},
}
"""Assumption -> how it is broken, see ``worlds``."""


def random(seed: int, contexts: int = 2, **sizes: int) -> RewardMixingMDP:
    """A random world."""
    chosen = {"states": 6, "actions": 3, "horizon": 8, **sizes}
    return problems.make("random", contexts=contexts, seed=seed, **chosen)


def _uniform(seed: int) -> tuple[Episodes, int]:
    model = random(seed % 20)
    return simulate(uniform(model), model, NULL_EPISODES, seed=seed), 2


def _shop(seed: int) -> tuple[Episodes, int]:
    model = problems.make("shop")
    return simulate(uniform(model), model, NULL_EPISODES, seed=seed), 2


def _deployed(seed: int) -> tuple[Episodes, int]:
    model = random(seed % 20)
    return simulate(plan(model, gap=0.05).policy, model, NULL_EPISODES, seed=seed), 2


def _three(seed: int) -> tuple[Episodes, int]:
    model = random(seed % 20, contexts=3, states=5)
    return simulate(uniform(model), model, NULL_EPISODES, seed=seed), 3


NULLS: dict[str, Callable[[int], tuple[Episodes, int]]] = {
    "random (6,3,8), uniform actions": _uniform,
    "shop, uniform actions": _shop,
    "random (6,3,8), the best policy": _deployed,
    "random (5,3,8) with three types": _three,
}
"""Name -> seed -> (a log in which everything holds, its number of types)."""
