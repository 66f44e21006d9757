"""Simulate environments that violate one assumption each, and shop logs that violate none."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rewardmix.episodes import Episodes
from rewardmix.model import dense_transition


def simulate_broken(model, count, seed, *, switch=0.0, copy=0.0, repeat=0.0, transitions=0.0, drift=0.0, moved=0.0):
    """Simulate uniform actions in an environment with rewards 0 and 1 that violates assumptions.

    Probabilities at each step: ``switch``, the type is drawn anew; ``copy``, the reward equals the previous one;
    ``repeat``, it equals the last one of the state-action; ``transitions``, the type determines the next state. From
    the middle of the log on, rewards of state 1 differ by ``drift``, and ``moved`` is the probability that a transition
    from state 1 leads to state 0.
    """
    rng = np.random.default_rng(seed)
    transition, size, choices = dense_transition(model).cumsum(axis=-1), model.num_states, model.num_actions
    states, actions, reward_indices = (np.zeros((count, model.horizon + extra), int) for extra in (1, 0, 0))
    types = rng.choice(model.num_types, size=count, p=model.weights)
    next_of_type = rng.integers(0, size, size=model.rewards.shape)
    late = np.arange(count) >= count // 2
    last = np.full((count, size * choices), -1)
    states[:, 0] = rng.choice(size, size=count, p=model.initial)
    every = np.arange(count)
    for t in range(model.horizon):
        state, action = states[:, t], rng.integers(0, choices, size=count)
        prob = model.rewards[types, state, action]
        away = np.where(late & (state == 1), drift, 0.0)
        reward = (rng.random(count) < np.where(prob > 0.5, prob - away, prob + away)).astype(int)
        if t:
            reward = np.where(rng.random(count) < copy, reward_indices[:, t - 1], reward)
        x = state * choices + action
        again = (last[every, x] >= 0) & (rng.random(count) < repeat)
        reward = np.where(again, last[every, x], reward)
        last[every, x] = reward
        after = (rng.random(count)[:, None] > transition[state, action]).sum(axis=1).clip(0, size - 1)
        after = np.where(rng.random(count) < transitions, next_of_type[types, state, action], after)
        after = np.where(late & (state == 1) & (rng.random(count) < moved), 0, after)
        actions[:, t], reward_indices[:, t], states[:, t + 1] = action, reward, after
        new_types = rng.choice(model.num_types, size=count, p=model.weights)
        types = np.where(rng.random(count) < switch, new_types, types)
    lengths = np.full(count, model.horizon)
    return Episodes(states, actions, reward_indices, lengths, size, choices, model.reward_values)


def revenue_rows(seed, count=3000, steps=5):
    """Sessions of two types that buy different things and spend different amounts; most pay nothing."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=(count, 1))
    page, offer = rng.integers(3, size=(count, steps)), rng.integers(3, size=(count, steps))
    buys = rng.random((count, steps)) < np.where(offer == 0, 0.08, np.where((offer == 1) == (kind == 0), 0.25, 0.03))
    revenue = np.where(buys, np.exp(rng.normal(2.5 + 1.2 * kind, 0.5, (count, steps))).round(2), 0.0)
    return _rows(page, offer, revenue)


def count_rows(seed, count=3000, steps=6):
    """Sessions of two types with numbers of things: Poisson, at most 12."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=(count, 1))
    page, offer = rng.integers(3, size=(count, steps)), rng.integers(3, size=(count, steps))
    mean = np.where(offer == 0, 0.6, np.where((offer == 1) == (kind == 0), 1.6, 0.3))
    return _rows(page, offer, np.minimum(rng.poisson(mean), 12).astype(float))


def _rows(states, actions, rewards):
    count, steps = states.shape
    columns = {"state": states, "action": actions, "reward": rewards}
    columns |= {"episode": np.repeat(np.arange(count), steps), "step": np.tile(np.arange(steps), count)}
    return pd.DataFrame({name: column.ravel() for name, column in columns.items()})
