"""Define Hypothesis strategies: small models with degenerate parts, and policies for them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from rewardmix.model import RewardMixingMDP
from rewardmix.policy import Controller, MarkovPolicy


def draw_probs(draw, rng: np.random.Generator, shape: tuple[int, ...], size: int) -> np.ndarray:
    """Draw distributions over ``size`` values: smooth, with zeros, or deterministic."""
    kind = draw(st.sampled_from(["smooth", "zeros", "deterministic"]))
    if kind == "deterministic":
        return np.eye(size)[rng.integers(size, size=shape)]
    table = rng.dirichlet(np.ones(size), shape)
    if kind == "zeros":
        table = np.where(rng.random(table.shape) < 0.4, 0.0, table)
        table[..., 0] += table.sum(axis=-1) == 0
        table /= table.sum(axis=-1, keepdims=True)
    return table


@st.composite
def models(draw, *, num_types=(2,), values=(2,), max_states=3, max_actions=3, max_horizon=3) -> RewardMixingMDP:
    """Draw a model, at times with zeros, certain rewards, unreachable states, rare or equal types, horizon 1."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    states, actions = draw(st.integers(1, max_states)), draw(st.integers(1, max_actions))
    horizon = draw(st.integers(1, max_horizon))
    count, num_values = draw(st.sampled_from(num_types)), draw(st.sampled_from(values))
    weights = rng.dirichlet(np.ones(count))
    if draw(st.booleans()):
        rare = np.full(count, 1e-6)
        rare[0] = 1 - rare[1:].sum()
        weights = rare
    rewards = draw_probs(draw, rng, (count, states, actions), num_values)
    if draw(st.integers(0, 4)) == 0:
        rewards[1] = rewards[0]
    reward_values = np.array([0.0, 1.0]) if num_values == 2 else np.sort(rng.normal(size=num_values))
    transition = draw_probs(draw, rng, (states, actions), states)
    initial = draw_probs(draw, rng, (), states)
    if draw(st.booleans()):
        from scipy.sparse import csr_array

        transition = csr_array(transition.reshape(-1, states))
    return RewardMixingMDP(transition, initial, weights, rewards, horizon, reward_values)


@st.composite
def models_and_policies(draw, **options):
    """Draw a model with a Markov policy or a random controller for it."""
    model = draw(models(**options))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        return model, MarkovPolicy(draw_probs(draw, rng, (model.horizon, model.num_states), model.num_actions))
    return model, random_controller(model, rng)


def random_controller(model: RewardMixingMDP, rng: np.random.Generator) -> Controller:
    """Draw a controller with random nodes, actions and next nodes."""
    nodes = rng.integers(1, 4, size=model.horizon + 1)
    shapes = [(model.num_states, int(k)) for k in nodes]
    return Controller(
        tuple(rng.integers(model.num_actions, size=shapes[t]) for t in range(model.horizon)),
        tuple(rng.integers(int(nodes[t + 1]), size=(*shapes[t], model.num_values)) for t in range(model.horizon)),
        rng.integers(int(nodes[0]), size=model.num_states),
        model.reward_values,
    )
