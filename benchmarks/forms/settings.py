"""Environments of the form of the model and others, and sizes of logs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.forms.worlds import dose, funnel, rooms
from rewardmix import Episodes, plan, problems, simulate, uniform_policy

LOGS = 40
SIZES = (300, 500, 2000)
LEVEL = 0.01


def _log(name: str, **sizes: int) -> Callable[[int, int], Episodes]:
    """Uniform actions in a problem; random ones differ from log to log."""

    def log(count: int, seed: int) -> Episodes:
        model = problems.make_model(name, **({**sizes, "seed": seed} if name == "random" else sizes))
        return simulate(uniform_policy(model), model, count, seed=seed)

    return log


def one_type(count: int, seed: int) -> Episodes:
    """No types at all: the rewards of a random model averaged over its types."""
    model = problems.make_model("random", states=6, actions=3, horizon=8, num_types=2, seed=seed)
    mean_rewards = np.repeat(model.rewards.mean(axis=0)[None], 2, axis=0)
    model = type(model)(model.transition, model.initial, model.weights, mean_rewards, model.horizon)
    return simulate(uniform_policy(model), model, count, seed=seed)


def deployed(count: int, seed: int) -> Episodes:
    """A log of the best policy, whose actions follow rewards."""
    model = problems.make_model("random", states=6, actions=3, horizon=8, num_types=2, seed=seed)
    return simulate(plan(model, gap=0.05).policy, model, count, seed=seed)


def ending(count: int, seed: int) -> Episodes:
    """Sessions that are short or long, whatever their type."""
    model = problems.make_model("random", states=6, actions=3, horizon=12, num_types=2, seed=seed)
    episodes = simulate(uniform_policy(model), model, count, seed=seed)
    rng = np.random.default_rng(seed)
    lengths = np.where(rng.random(count) < 0.5, rng.integers(1, 4, count), rng.integers(8, 13, count))
    states, actions = np.asarray(episodes.states), np.asarray(episodes.actions)
    return Episodes.from_arrays(
        states, actions, episodes.rewards, num_states=6, num_actions=3, lengths=lengths, reward_values=(0.0, 1.0)
    )


WORLDS: dict[str, tuple[str, Callable[[int, int], Episodes]]] = {
    "dose": ("transition types", dose),
    "funnel": ("transition types", funnel),
    "two rooms, paid on arrival": ("next state", rooms),
    "random (6,3,8), one type": ("", one_type),
    "random (6,3,8)": ("", _log("random", states=6, actions=3, horizon=8, num_types=2)),
    "random (6,3,8), the best policy": ("", deployed),
    "random (5,3,8), three types": ("", _log("random", states=5, actions=3, horizon=8, num_types=3)),
}
"""Name -> (what is to be found, or nothing; number of episodes and seed -> a log)."""

OTHERS: dict[str, tuple[str, Callable[[int, int], Episodes]]] = {
    "shop": ("", _log("shop")),
    "lock": ("", _log("lock")),
    "riverswim": ("", _log("riverswim")),
    "random (6,3,12), sessions that end": ("", ending),
}
"""More models in which there is nothing to be found: sure moves, rare rewards, ends."""

LARGE: dict[str, tuple[str, Callable[[int, int], Episodes]]] = {
    "random (60,4,10)": ("", _log("random", states=60, actions=4, horizon=10, num_types=2)),
}
"""The same with so many states that most state-actions are hardly ever visited."""
