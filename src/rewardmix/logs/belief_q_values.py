"""Backward pass over (step, state, belief point) that computes Q-values of all actions, for plans with constraints.

The planner keeps only the best alpha vectors. Here every action has a Q-value at every belief point, so that some
actions can be excluded, or Q-values compared. It is coarser: next beliefs are rounded to the nearest point.
"""

from __future__ import annotations

import numpy as np

from rewardmix import belief as bayes
from rewardmix._core.checks import Floats, Ints
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_induction import NextStateExpectation
from rewardmix.planning.baselines import nearest_node


def compute_q_values(
    model: RewardMixingMDP,
    reward_model: RewardMixingMDP,
    nodes: list[Floats],
    t: int,
    next_values: Floats | None,
    expect: NextStateExpectation,
) -> tuple[Floats, Ints]:
    """Compute the Q-values (S, K, A, M) by type at one step, and the next nodes (S, K, A, Z).

        Q_m(s, a) = r_m(s, a) + sum_z p_m(z | s, a) sum_s' T(s' | s, a) V_m(s', next node)

    Args:
        model: Model that updates the beliefs.
        reward_model: Model of the rewards, for example a pessimistic one.
        nodes: For each step, (K_t, M) belief points.
        t: Step.
        next_values: (S, K, 1 + A * Z, M) values at the next step, by last action and reward; None at the last step.
        expect: Expectation over next states of ``reward_model``.
    """
    states, count = np.arange(model.num_states), nodes[t].shape[0]
    means = np.moveaxis(reward_model.mean_rewards_by_type, 0, -1)[:, None]
    q_values = np.repeat(means, count, axis=1)
    next_nodes = np.zeros((*q_values.shape[:3], model.num_values), np.int64)
    if next_values is None:
        return q_values, next_nodes
    for a in range(model.num_actions):
        for z in range(model.num_values):
            # The belief after (a, z) is in general no node; the nearest one stands for it, which makes the pass
            # approximate.
            likelihood = np.moveaxis(model.reward_probs[:, :, a, z], 0, -1)[:, None]
            next_nodes[:, :, a, z] = nearest_node(bayes.update(nodes[t][None], likelihood), nodes[t + 1])
            after = next_values[:, :, 1 + a * model.num_values + z]
            expected = expect(states * model.num_actions + a, np.ascontiguousarray(after).reshape(model.num_states, -1))
            expected = expected.reshape(model.num_states, -1, model.num_types)[states[:, None], next_nodes[:, :, a, z]]
            q_values[:, :, a] += np.moveaxis(reward_model.reward_probs[:, :, a, z], 0, -1)[:, None] * expected
    return q_values, next_nodes
