"""Tiny models with every kind of corner, for the tests of planners."""

from __future__ import annotations

import numpy as np

from rewardmix.model import RewardMixingMDP


def random_model(
    rng: np.random.Generator,
    states: int,
    actions: int,
    horizon: int,
    *,
    contexts: int = 2,
    values: int = 2,
    corner: float = 0.3,
) -> RewardMixingMDP:
    """A tiny model with, now and then, zeros, sure rewards, unreachable states and lopsided weights."""
    transition = rng.dirichlet(np.full(states, 0.7), size=(states, actions))
    sure = rng.random((states, actions)) < corner
    transition[sure] = np.eye(states)[rng.integers(states, size=sure.sum())]
    initial = rng.dirichlet(np.ones(states))
    if rng.random() < corner:
        initial = np.eye(states)[rng.integers(states)]
    weights = rng.dirichlet(np.ones(contexts))
    if rng.random() < corner:
        weights = np.append(np.full(contexts - 1, 1e-7), 1 - 1e-7 * (contexts - 1))
    laws = rng.dirichlet(np.ones(values), size=(contexts, states, actions))
    flat = rng.random(laws.shape[:3]) < corner
    laws[flat] = np.eye(values)[rng.integers(values, size=flat.sum())]
    levels = np.sort(rng.normal(size=values)) if rng.random() < corner else np.arange(values, dtype=float)
    return RewardMixingMDP(transition, initial, weights, laws, horizon, reward_values=levels)
