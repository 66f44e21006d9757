"""Slow, obvious truths that everything fast is checked against."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rewardmix.model import RewardMixingMDP, dense_transition
from rewardmix.policy import MarkovPolicy, Policy


def best_value(model: RewardMixingMDP) -> float:
    """Optimal value over all history-dependent policies: the whole tree of histories, no beliefs, no merging.

    ``joint[m]`` is the probability of the context and of all rewards seen so far, so nothing is ever divided.
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
                for after in [joint * model.laws[:, s, a, z]]
            )
            for a in range(model.num_actions)
        )

    return sum(model.initial[s] * value(0, s, model.weights) for s in np.flatnonzero(model.initial))


def trajectories(
    policy: Policy, model: RewardMixingMDP
) -> Iterator[tuple[float, int, list[tuple[int, int, int, int]]]]:
    """Every (probability, context, [(state, action, outcome, next state), ...]) that can happen."""
    transition = dense_transition(model)

    def walk(memory, m, s, probability, steps):
        if len(steps) == model.horizon:
            yield probability, m, steps
            return
        for a, chance in action_law(policy, memory, model):
            for z in np.flatnonzero(model.laws[m, s, a]):
                for n in np.flatnonzero(transition[s, a]):
                    after = policy.observe(memory, a, float(model.reward_values[z]), int(n))
                    weight = probability * chance * model.laws[m, s, a, z] * transition[s, a, n]
                    yield from walk(after, m, int(n), weight, [*steps, (s, a, int(z), int(n))])

    for m in range(model.num_contexts):
        for s in np.flatnonzero(model.initial):
            yield from walk(policy.start(int(s)), m, int(s), model.weights[m] * model.initial[s], [])


def action_law(policy: Policy, memory, model: RewardMixingMDP) -> list[tuple[int, float]]:
    """(action, probability) for each possible action."""
    if isinstance(policy, MarkovPolicy):
        step, state = memory
        return [(a, p) for a, p in enumerate(policy.table[step, state].tolist()) if p > 0]
    return [(policy.act(memory, np.random.default_rng(0)), 1.0)]


def policy_value(policy: Policy, model: RewardMixingMDP) -> float:
    """Value of a policy by adding up all its trajectories."""
    return sum(
        probability * sum(float(model.reward_values[z]) for _, _, z, _ in steps)
        for probability, _, steps in trajectories(policy, model)
    )


def all_markov_policies(model: RewardMixingMDP) -> Iterator[MarkovPolicy]:
    """Every deterministic Markov policy."""
    shape = model.horizon, model.num_states
    for actions in np.ndindex(*([model.num_actions] * (shape[0] * shape[1]))):
        yield MarkovPolicy(np.eye(model.num_actions)[np.array(actions).reshape(shape)])
