"""A backward pass over (step, state, belief point) with what each action is worth: for plans that have to obey a log.

Coarser than the planner, which keeps vectors where they are best: here every action has a worth at every point, so that
some of them can be ruled out.
"""

from __future__ import annotations

import numpy as np

from rewardmix import belief as bayes
from rewardmix._core.checks import Floats, Ints
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_pass import Expectation
from rewardmix.planning.baselines import nearest


def worths(
    model: RewardMixingMDP, low: RewardMixingMDP, nodes: list[Floats], t: int, later: Floats | None, expect: Expectation
) -> tuple[Floats, Ints]:
    """(S, K, A, M) what each action is worth in each context, and (S, K, A, Z) the node of the next step.

    Args:
        model: by which beliefs move.
        low: that pays.
        nodes: (K_t, M) beliefs of each step.
        t: the step.
        later: (S, K, 1 + A * Z, M) values at the next step, by the action and reward before; None at the last.
        expect: of ``low``.
    """
    states, count = np.arange(model.num_states), nodes[t].shape[0]
    means = np.moveaxis(low.means, 0, -1)[:, None]
    worth = np.repeat(means, count, axis=1)
    onward = np.zeros((*worth.shape[:3], model.num_values), np.int64)
    if later is None:
        return worth, onward
    for a in range(model.num_actions):
        for z in range(model.num_values):
            likelihood = np.moveaxis(model.laws[:, :, a, z], 0, -1)[:, None]
            onward[:, :, a, z] = nearest(bayes.update(nodes[t][None], likelihood), nodes[t + 1])
            ahead = later[:, :, 1 + a * model.num_values + z]
            there = expect(states * model.num_actions + a, np.ascontiguousarray(ahead).reshape(model.num_states, -1))
            there = there.reshape(model.num_states, -1, model.num_contexts)[states[:, None], onward[:, :, a, z]]
            worth[:, :, a] += np.moveaxis(low.laws[:, :, a, z], 0, -1)[:, None] * there
    return worth, onward
