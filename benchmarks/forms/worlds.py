"""Environments in which types move differently, or a reward depends on the next state, simulated step by step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rewardmix.episodes import Episodes

UP = np.array([[0.65, 0.15, 0.40], [0.15, 0.65, 0.40]])
DOWN = np.array([[0.10, 0.55, 0.25], [0.55, 0.10, 0.25]])
DOSE_PAYS = np.array([0.0, 0.0, 0.1, 0.3, 0.8, 1.0])
FUNNEL_PAYS = np.array([0.02, 0.02, 0.02, 0.02, 0.02, 0.9])


def dose(count: int, seed: int, horizon: int = 10) -> Episodes:
    """Six states, three actions; which action moves up depends on the type, what a state pays does not."""

    def move(types, states, actions, rng):
        draw, up, down = rng.random(types.size), UP[types, actions], DOWN[types, actions]
        return np.clip(states + (draw < up) - ((draw >= up) & (draw < up + down)), 0, 5)

    def pay(types, states, actions, after, rng):
        return rng.random(types.size) < DOSE_PAYS[states]

    return _simulate(count, seed, horizon, np.full(count, 2), (6, 3), move, pay)


def funnel(count: int, seed: int, horizon: int = 10) -> Episodes:
    """Six rooms in a row, three doors; which door leads on depends on room and type, and the last room pays once."""

    def move(types, states, actions, rng):
        prob = np.where(actions == (states + types) % 3, 0.75, 0.12)
        prob = np.where(actions == (states + 1 + 2 * types) % 3, np.where(prob == 0.75, 0.75, 0.25), prob)
        draw = rng.random(types.size)
        after = np.where(draw < prob, states + 1, np.where(draw < prob + 0.1, 0, states))
        return np.where(states == 5, 0, after)

    def pay(types, states, actions, after, rng):
        return rng.random(types.size) < FUNNEL_PAYS[states]

    return _simulate(count, seed, horizon, np.zeros(count, int), (6, 3), move, pay)


def rooms(count: int, seed: int, horizon: int = 10, slip: float = 0.4) -> Episodes:
    """Two rooms, and an action for each that leads there unless one slips; a type is paid for *arriving* in its own."""

    def move(types, states, actions, rng):
        return np.where(rng.random(types.size) < slip, 1 - actions, actions)

    def pay(types, states, actions, after, rng):
        return rng.random(types.size) < np.where(after == types, 0.9, 0.1)

    return _simulate(count, seed, horizon, np.zeros(count, int), (2, 2), move, pay)


def _simulate(
    count: int,
    seed: int,
    horizon: int,
    first: NDArray[np.int64],
    sizes: tuple[int, int],
    move: Callable[..., NDArray[np.int64]],
    pay: Callable[..., NDArray[np.bool_]],
) -> Episodes:
    """Uniform actions; two types of equal weight."""
    rng = np.random.default_rng(seed)
    types = rng.integers(0, 2, size=count)
    states = np.zeros((count, horizon + 1), int)
    actions, rewards = np.zeros((count, horizon), int), np.zeros((count, horizon))
    states[:, 0] = first
    for t in range(horizon):
        actions[:, t] = rng.integers(0, sizes[1], size=count)
        states[:, t + 1] = move(types, states[:, t], actions[:, t], rng)
        rewards[:, t] = pay(types, states[:, t], actions[:, t], states[:, t + 1], rng)
    return Episodes.from_arrays(
        states, actions, rewards, num_states=sizes[0], num_actions=sizes[1], reward_values=(0.0, 1.0)
    )
