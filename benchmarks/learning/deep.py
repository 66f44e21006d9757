"""The lock that falls back: the same dials as ``lock``, but a wrong action leads back to the first of them."""

from __future__ import annotations

import numpy as np

from rewardmix.model import RewardMixingMDP


def falling_lock(steps: int, actions: int = 3, slip: float = 0.1, seed: int = 0) -> RewardMixingMDP:
    """One right action in each of ``steps`` states leads on, any other back to the start; H is three times ``steps``.

    The right action fails with probability ``slip``. The vault is never left and pays as that of ``lock``; the start
    pays 0.02.
    """
    code = np.random.default_rng(seed).integers(actions, size=steps)
    transition = np.zeros((steps + 1, actions, steps + 1))
    transition[:steps, :, 0] = 1.0
    for s in range(steps):
        transition[s, code[s], 0] = slip
        transition[s, code[s], s + 1] = 1.0 - slip
    transition[steps, :, steps] = 1.0
    rewards = np.zeros((2, steps + 1, actions))
    rewards[:, 0] = 0.02
    rewards[:, steps] = 0.3
    rewards[:, steps, :2] = [[0.9, 0.1], [0.1, 0.9]]
    return RewardMixingMDP(transition, np.eye(steps + 1)[0], (0.5, 0.5), rewards, 3 * steps)
