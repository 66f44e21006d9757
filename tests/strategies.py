"""Hypothesis strategies: small models with everything that goes wrong in them on purpose."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from rewardmix.model import RewardMixingMDP
from rewardmix.policy import Controller, MarkovPolicy


def laws(draw, rng: np.random.Generator, shape: tuple[int, ...], size: int) -> np.ndarray:
    """Laws over ``size`` outcomes: smooth, with zeros, or deterministic."""
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
def models(draw, *, contexts=(2,), values=(2,), max_states=3, max_actions=3, max_horizon=3) -> RewardMixingMDP:
    """Zero probabilities, sure rewards, unreachable states, contexts that are rare or alike, horizon 1."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    states, actions = draw(st.integers(1, max_states)), draw(st.integers(1, max_actions))
    horizon = draw(st.integers(1, max_horizon))
    num_contexts, num_values = draw(st.sampled_from(contexts)), draw(st.sampled_from(values))
    weights = rng.dirichlet(np.ones(num_contexts))
    if draw(st.booleans()):
        rare = np.full(num_contexts, 1e-6)
        rare[0] = 1 - rare[1:].sum()
        weights = rare
    rewards = laws(draw, rng, (num_contexts, states, actions), num_values)
    if draw(st.integers(0, 4)) == 0:
        rewards[1] = rewards[0]
    reward_values = np.array([0.0, 1.0]) if num_values == 2 else np.sort(rng.normal(size=num_values))
    transition = laws(draw, rng, (states, actions), states)
    initial = laws(draw, rng, (), states)
    if draw(st.booleans()):
        from scipy.sparse import csr_array

        transition = csr_array(transition.reshape(-1, states))
    return RewardMixingMDP(transition, initial, weights, rewards, horizon, reward_values)


@st.composite
def models_and_policies(draw, **options):
    """A model with a Markov table or a random controller for it."""
    model = draw(models(**options))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        return model, MarkovPolicy(laws(draw, rng, (model.horizon, model.num_states), model.num_actions))
    return model, random_controller(model, rng)


def random_controller(model: RewardMixingMDP, rng: np.random.Generator) -> Controller:
    """Nodes, actions and successors at random."""
    nodes = rng.integers(1, 4, size=model.horizon + 1)
    shapes = [(model.num_states, int(k)) for k in nodes]
    return Controller(
        tuple(rng.integers(model.num_actions, size=shapes[t]) for t in range(model.horizon)),
        tuple(rng.integers(int(nodes[t + 1]), size=(*shapes[t], model.num_values)) for t in range(model.horizon)),
        rng.integers(int(nodes[0]), size=model.num_states),
        model.reward_values,
    )
