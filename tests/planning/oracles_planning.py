"""Brute force that shares nothing with the planner: expectimax over histories, and values by walking every path."""

from __future__ import annotations

import numpy as np

from rewardmix.model import RewardMixingMDP, dense_transition


def best_value(model: RewardMixingMDP) -> float:
    """The optimum over all history-dependent policies, by recursion over histories with unnormalised weights."""
    transition, laws, values = dense_transition(model), model.laws, model.reward_values

    def best(t: int, state: int, joint: np.ndarray) -> float:
        if t == model.horizon or joint.sum() == 0:
            return 0.0
        totals = []
        for a in range(model.num_actions):
            total = 0.0
            for z in range(values.size):
                after = joint * laws[:, state, a, z]
                total += after.sum() * values[z]
                for following in np.flatnonzero(transition[state, a]):
                    total += transition[state, a, following] * best(t + 1, following, after)
            totals.append(total)
        return max(totals)

    return sum(model.initial[s] * best(0, s, model.weights) for s in np.flatnonzero(model.initial))


def value_by_paths(policy, model: RewardMixingMDP) -> float:
    """Value of a deterministic policy, walking every path through its start / act / observe protocol."""
    transition, laws, values = dense_transition(model), model.laws, model.reward_values
    rng = np.random.default_rng(0)

    def walk(t: int, state: int, memory, joint: np.ndarray) -> float:
        if t == model.horizon or joint.sum() == 0:
            return 0.0
        a = policy.act(memory, rng)
        total = 0.0
        for z in range(values.size):
            after = joint * laws[:, state, a, z]
            total += after.sum() * values[z]
            if after.sum() == 0:
                continue
            for following in np.flatnonzero(transition[state, a]):
                onward = policy.observe(memory, a, float(values[z]), int(following))
                total += transition[state, a, following] * walk(t + 1, int(following), onward, after)
        return total

    return sum(
        model.initial[s] * walk(0, int(s), policy.start(int(s)), model.weights) for s in np.flatnonzero(model.initial)
    )


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
