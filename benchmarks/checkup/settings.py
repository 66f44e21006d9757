"""Models in which every assumption holds, and ways to break one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.checkup.worlds import count_rows, revenue_rows
from rewardmix import Episodes, logs, plan, problems, simulate, uniform_policy
from rewardmix.model import RewardMixingMDP

NULL_EPISODES = 2000
POWER_SIZES = {3000: 12, 30_000: 6}
"""Episodes of a broken model, and logs of each."""

SHORT_EPISODES = {1000: 20, 3000: 20, 10_000: 6}
"""Episodes of models with three types that two are fitted to, and logs of each."""
LEVEL = 0.01

FIRST_SEED = 1000
"""Of the correct logs: those below were looked at while the tests were made."""

BROKEN = {
    "switching": {"switch": 0.25},
    "transitions": {"transitions": 0.2},
    "reward copying": {"copy": 0.3},
    "drift": {"drift": 0.1},
}
"""Assumption -> how it is broken, see ``worlds``."""


def random(seed: int, num_types: int = 2, **sizes: int) -> RewardMixingMDP:
    """A random model."""
    chosen = {"states": 6, "actions": 3, "horizon": 8, **sizes}
    return problems.make_model("random", num_types=num_types, seed=seed, **chosen)


def _uniform(seed: int) -> tuple[Episodes, int]:
    model = random(seed % 20)
    return simulate(uniform_policy(model), model, NULL_EPISODES, seed=seed), 2


def _shop(seed: int) -> tuple[Episodes, int]:
    model = problems.make_model("shop")
    return simulate(uniform_policy(model), model, NULL_EPISODES, seed=seed), 2


def _deployed(seed: int) -> tuple[Episodes, int]:
    model = random(seed % 20)
    return simulate(plan(model, gap=0.05).policy, model, NULL_EPISODES, seed=seed), 2


def _three(seed: int) -> tuple[Episodes, int]:
    model = random(seed % 20, num_types=3, states=5)
    return simulate(uniform_policy(model), model, NULL_EPISODES, seed=seed), 3


def _dense(seed: int, values: tuple[float, ...], episodes: int, fitted: int = 2) -> tuple[Episodes, int]:
    model = random(seed % 20, states=3, reward_values=values)
    return simulate(uniform_policy(model), model, episodes, seed=seed), fitted


def world_of(probs: np.ndarray, horizon: int = 8) -> RewardMixingMDP:
    """Two types that pay 1 with these chances, (2, S, A), in a model where any state follows any other."""
    states, actions = probs.shape[1:]
    transitions = np.full((states, actions, states), 1.0 / states)
    return RewardMixingMDP(transitions, np.full(states, 1.0 / states), [0.5, 0.5], probs, horizon)


def _of_laws(probs: np.ndarray, episodes: int, seed: int, fitted: int = 2, horizon: int = 8) -> tuple[Episodes, int]:
    model = world_of(probs, horizon)
    return simulate(uniform_policy(model), model, episodes, seed=seed), fitted


def _rare(seed: int, episodes: int) -> tuple[Episodes, int]:
    return _of_laws(0.01 * np.random.default_rng(seed).uniform(0.2, 1.8, (2, 3, 3)), episodes, seed)


def _one_type(seed: int) -> tuple[Episodes, int]:
    return _of_laws(np.repeat(np.random.default_rng(seed).uniform(0.1, 0.9, (1, 3, 3)), 2, axis=0), 3000, seed)


def _one_choice(seed: int) -> tuple[Episodes, int]:
    return _of_laws(np.array([0.85, 0.7]).reshape(2, 1, 1), 537, seed, fitted=4, horizon=4)


def _in_bins(rows: pd.DataFrame) -> tuple[Episodes, int]:
    return logs.read_log(rows, num_reward_bins=20).episodes(), 2


@dataclass(frozen=True)
class Correct:
    """Logs in which everything holds: how many, and seed -> (log, number of types that are fitted)."""

    logs: int
    make: Callable[[int], tuple[Episodes, int]]


BINARY, GRADES = (0.0, 1.0), (0.0, 0.5, 1.0)

NULLS = {
    "null": {
        "random (6,3,8), uniform actions": Correct(100, _uniform),
        "revenue in bins, 3,000": Correct(200, lambda seed: _in_bins(revenue_rows(seed))),
        "counts in bins, 3,000": Correct(100, lambda seed: _in_bins(count_rows(seed))),
        "random (3,3,8), 300 episodes": Correct(100, lambda seed: _dense(seed, BINARY, 300)),
    },
    "worlds": {
        "shop, uniform actions": Correct(100, _shop),
        "random (6,3,8), the best policy": Correct(100, _deployed),
        "random (5,3,8) with three types": Correct(100, _three),
        "random (3,3,8), three grades, 3,000": Correct(100, lambda seed: _dense(seed, GRADES, 3000)),
    },
    "rare": {
        "rewards of .01, 300": Correct(100, lambda seed: _rare(seed, 300)),
        "rewards of .01, 3,000": Correct(100, lambda seed: _rare(seed, 3000)),
    },
    "surplus": {
        "two types, four fitted, 300": Correct(100, lambda seed: _dense(seed, BINARY, 300, fitted=4)),
        "two types, four fitted, 3,000": Correct(40, lambda seed: _dense(seed, BINARY, 3000, fitted=4)),
        "one type, two fitted, 3,000": Correct(40, _one_type),
        "one choice (537 x 4), four fitted": Correct(100, _one_choice),
    },
}
"""Part -> name -> logs in which everything holds; the dear ones are fewer."""

ROWS = 1_000_000
"""Of the log whose fit is timed: 12 states, 3 actions, 12 steps, two types."""

RIVAL_EPISODES = 20_000
RIVAL_LOGS = 4
RARE_TYPES = {"no third type": 0.0, "a third type of 2 %": 0.02, "a third type of a third": 1 / 3}
"""Share of a third type that the rival has to find, from its 5,000 episodes."""
