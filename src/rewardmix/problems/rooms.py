"""Small worlds of rooms: each is made to be hard in one way."""

from __future__ import annotations

import numpy as np

from rewardmix._core.checks import as_count, as_number, as_seed
from rewardmix._core.limits import afford_model
from rewardmix._core.streams import Role, generator
from rewardmix.model import RewardMixingMDP

EVEN = np.array([0.5, 0.5])


def lock(steps: int = 8, actions: int = 3, slip: float = 0.1, seed: int = 0) -> RewardMixingMDP:
    """A combination lock: one right action in each of ``steps`` states leads to the vault, any other ends outside.

    In the vault two visits are left. The first two actions pay there, one of them today: 0.9 and 0.1, or the other
    way round. Outside every step pays 0.02, which lures those who do not explore. Even the right action fails with
    probability ``slip``. Playing at random, two visits of the vault take about (actions/(1-slip))^steps episodes.

    Args:
        steps: right actions in a row.
        actions: A >= 2.
        slip: probability that the right action fails.
        seed: the combination.
    """
    length, count = as_count("steps", steps), as_count("actions", actions, least=2)
    slip = as_number("slip", slip, above=-1e-12, below=1.0)
    afford_model(length + 2, count)
    code = generator(as_seed("seed", seed), Role.PROBLEM).integers(count, size=length)
    vault, outside = length, length + 1
    transition = np.zeros((length + 2, count, length + 2))
    transition[:, :, outside] = 1.0
    for s in range(length):
        transition[s, code[s], [s + 1, outside]] = 1.0 - slip, slip
    transition[vault] = np.eye(length + 2)[vault]
    rewards = np.zeros((2, length + 2, count))
    rewards[:, outside] = 0.02
    rewards[:, vault] = 0.3
    rewards[:, vault, :2] = [[0.9, 0.1], [0.1, 0.9]]
    names = (*(f"dial {s + 1}" for s in range(length)), "vault", "outside")
    return RewardMixingMDP(transition, np.eye(length + 2)[0], EVEN, rewards, length + 2, state_names=names)


def riverswim(states: int = 8, horizon: int = 20) -> RewardMixingMDP:
    """A river to swim against the current: left is safe and pays a little, the far right bank may pay a lot.

    Today's context decides whether the right bank pays (0.9) or not (0.05); the left bank pays 0.1 on a day when
    swimming is worth it and 0.6 otherwise, so a patient swimmer asks the left bank first.

    Args:
        states: S >= 3.
        horizon: H.
    """
    count = as_count("states", states, least=3)
    as_count("horizon", horizon)
    afford_model(count, 2)
    left, right = 0, 1
    transition = np.zeros((count, 2, count))
    for s in range(count):
        transition[s, left, max(s - 1, 0)] = 1.0
        for step, chance in ((1, 0.6), (0, 0.35), (-1, 0.05)):
            transition[s, right, min(max(s + step, 0), count - 1)] += chance
    rewards = np.zeros((2, count, 2))
    rewards[:, 0, left] = 0.1, 0.6
    rewards[:, -1, right] = 0.9, 0.05
    names = ("left bank", *(f"water {s}" for s in range(1, count - 1)), "right bank")
    return RewardMixingMDP(
        transition, np.eye(count)[0], EVEN, rewards, horizon, state_names=names, action_names=("left", "right")
    )


def branches(rooms: int = 2, doors: int = 3) -> RewardMixingMDP:
    """A hall with ``doors`` doors; behind each a corridor of its own with no way back.

    State-actions behind different doors never meet in one episode, so the data cannot tell which context of one
    corridor is which of another. Nothing is lost: no policy can profit from knowing.

    Args:
        rooms: rooms of each corridor, each visited once.
        doors: number of corridors, also the number of actions.
    """
    length, count = as_count("rooms", rooms), as_count("doors", doors, least=2)
    total = 1 + count * length
    afford_model(total, count)
    transition = np.zeros((total, count, total))
    rewards = np.full((2, total, count), 0.3)
    for door in range(count):
        transition[0, door, 1 + door * length] = 1.0
        for room in range(length):
            state = 1 + door * length + room
            transition[state, :, state + (room < length - 1)] = 1.0
            favourite, tilt = (door + room) % count, 0.35 - 0.05 * door
            rewards[:, state, favourite] = 0.5 + tilt, 0.5 - tilt
            rewards[:, state, (favourite + 1) % count] = 0.5 - tilt, 0.5 + tilt
    names = ("hall", *(f"corridor {door + 1} room {room + 1}" for door in range(count) for room in range(length)))
    return RewardMixingMDP(transition, np.eye(total)[0], EVEN, rewards, 1 + 2 * length, state_names=names)


def probe(horizon: int = 8) -> RewardMixingMDP:
    """Ask before you go: one of two rooms pays today, there is no way back, and asking costs.

    In the lobby ``wait`` pays 0.3 and tells nothing; ``ask`` pays 0.4 in one context and never in the other, less on
    average. Each door leads to a room that pays 0.9 in its own context and 0.1 in the other.

    Args:
        horizon: H.
    """
    transition = np.zeros((3, 4, 3))
    transition[0, :2, 0] = transition[0, 2, 1] = transition[0, 3, 2] = 1.0
    transition[1, :, 1] = transition[2, :, 2] = 1.0
    rewards = np.empty((2, 3, 4))
    rewards[:, 0] = [[0.3, 0.4, 0.3, 0.3], [0.3, 0.0, 0.3, 0.3]]
    rewards[:, 1], rewards[:, 2] = [[0.9], [0.1]], [[0.1], [0.9]]
    return RewardMixingMDP(
        transition,
        np.eye(3)[0],
        EVEN,
        rewards,
        horizon,
        state_names=("lobby", "left room", "right room"),
        action_names=("wait", "ask", "left door", "right door"),
    )
