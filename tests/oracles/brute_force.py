"""Compute values of small models by brute force, for tests of faster code."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rewardmix.model import RewardMixingMDP, dense_transition
from rewardmix.policy import MarkovPolicy, Policy


def optimal_value(model: RewardMixingMDP) -> float:
    """Compute the optimal value over all history-dependent policies from the tree of histories, without beliefs.

    ``joint[m]`` is the probability of type m and of all rewards observed so far, so nothing is ever divided.
    """
    transition = dense_transition(model)

    def value(t: int, s: int, joint: np.ndarray) -> float:
        if t == model.horizon or not joint.any():
            return 0.0
        return max(
            sum(
                model.reward_values[z] * float(after.sum())
                + sum(transition[s, a, n] * value(t + 1, n, after) for n in np.flatnonzero(transition[s, a]))
                for z in range(model.num_values)
                for after in [joint * model.reward_probs[:, s, a, z]]
            )
            for a in range(model.num_actions)
        )

    return sum(model.initial[s] * value(0, s, model.weights) for s in np.flatnonzero(model.initial))


def enumerate_trajectories(
    policy: Policy, model: RewardMixingMDP
) -> Iterator[tuple[float, int, list[tuple[int, int, int, int]]]]:
    """Yield every possible (probability, type, [(state, action, reward index, next state), ...])."""
    transition = dense_transition(model)

    def walk(memory, m, s, probability, steps):
        if len(steps) == model.horizon:
            yield probability, m, steps
            return
        for a, prob in action_probs(policy, memory, model):
            for z in np.flatnonzero(model.reward_probs[m, s, a]):
                for n in np.flatnonzero(transition[s, a]):
                    after = policy.observe(memory, a, float(model.reward_values[z]), int(n))
                    weight = probability * prob * model.reward_probs[m, s, a, z] * transition[s, a, n]
                    yield from walk(after, m, int(n), weight, [*steps, (s, a, int(z), int(n))])

    for m in range(model.num_types):
        for s in np.flatnonzero(model.initial):
            yield from walk(policy.start(int(s)), m, int(s), model.weights[m] * model.initial[s], [])


def action_probs(policy: Policy, memory, model: RewardMixingMDP) -> list[tuple[int, float]]:
    """Return (action, probability) of each possible action."""
    if isinstance(policy, MarkovPolicy):
        step, state = memory
        return [(a, p) for a, p in enumerate(policy.table[step, state].tolist()) if p > 0]
    return [(policy.act(memory, np.random.default_rng(0)), 1.0)]


def policy_value(policy: Policy, model: RewardMixingMDP) -> float:
    """Compute the value of a policy as the sum over all its trajectories."""
    return sum(
        probability * sum(float(model.reward_values[z]) for _, _, z, _ in steps)
        for probability, _, steps in enumerate_trajectories(policy, model)
    )


def enumerate_markov_policies(model: RewardMixingMDP) -> Iterator[MarkovPolicy]:
    """Yield every deterministic Markov policy."""
    shape = model.horizon, model.num_states
    for actions in np.ndindex(*([model.num_actions] * (shape[0] * shape[1]))):
        yield MarkovPolicy(np.eye(model.num_actions)[np.array(actions).reshape(shape)])
