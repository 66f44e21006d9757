"""Make tiny models with degenerate parts, for tests of planners."""

from __future__ import annotations

import numpy as np

from rewardmix.model import RewardMixingMDP


def random_model(
    rng: np.random.Generator,
    states: int,
    actions: int,
    horizon: int,
    *,
    num_types: int = 2,
    values: int = 2,
    corner: float = 0.3,
) -> RewardMixingMDP:
    """Draw a tiny model, at times with zeros, certain rewards, unreachable states and unequal weights."""
    transition = rng.dirichlet(np.full(states, 0.7), size=(states, actions))
    is_certain = rng.random((states, actions)) < corner
    transition[is_certain] = np.eye(states)[rng.integers(states, size=is_certain.sum())]
    initial = rng.dirichlet(np.ones(states))
    if rng.random() < corner:
        initial = np.eye(states)[rng.integers(states)]
    weights = rng.dirichlet(np.ones(num_types))
    if rng.random() < corner:
        weights = np.append(np.full(num_types - 1, 1e-7), 1 - 1e-7 * (num_types - 1))
    probs = rng.dirichlet(np.ones(values), size=(num_types, states, actions))
    flat = rng.random(probs.shape[:3]) < corner
    probs[flat] = np.eye(values)[rng.integers(values, size=flat.sum())]
    levels = np.sort(rng.normal(size=values)) if rng.random() < corner else np.arange(values, dtype=float)
    return RewardMixingMDP(transition, initial, weights, probs, horizon, reward_values=levels)
