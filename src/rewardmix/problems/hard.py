"""The family of the lower bound (theorem:lower_bound of the paper)."""

from __future__ import annotations

import math

import numpy as np

from rewardmix._core.checks import as_count, as_number, as_seed, refuse
from rewardmix._core.limits import afford_model
from rewardmix._core.streams import Role, generator
from rewardmix.model import RewardMixingMDP


def hard(actions: int = 3, accuracy: float = 0.04, seed: int = 0) -> RewardMixingMDP:
    """Two steps, every reward a fair coin on average; one first action tells which of two second actions is better.

    The first action says it with 1/2 +- sqrt(accuracy), the second ones pay 1/2 +- and -+ sqrt(accuracy). The best
    policy earns 1 + 2 accuracy, every policy that misses the pair earns 1, and finding the pair takes of the order
    of (S A / accuracy)^2 episodes.

    Args:
        actions: A >= 3.
        accuracy: e, at most 1/4.
        seed: which actions are the special ones.
    """
    count = as_count("actions", actions, least=3)
    if not 0.0 < (e := as_number("accuracy", accuracy)) <= 0.25:
        refuse("accuracy", e, "a number above 0 and at most 0.25")
    afford_model(2, count)
    rng = generator(as_seed("seed", seed), Role.PROBLEM)
    first, (up, down) = rng.integers(count), rng.choice(count, 2, replace=False)
    rewards = np.full((2, 2, count), 0.5)
    for m, sign in enumerate((1.0, -1.0)):
        rewards[m, 0, first] += sign * math.sqrt(e)
        rewards[m, 1, up] += sign * math.sqrt(e)
        rewards[m, 1, down] -= sign * math.sqrt(e)
    transition = np.zeros((2, count, 2))
    transition[:, :, 1] = 1.0
    return RewardMixingMDP(
        transition, np.array([1.0, 0.0]), np.array([0.5, 0.5]), rewards, 2, state_names=("first", "second")
    )
