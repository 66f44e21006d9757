"""Problems with a name: the paper's hardest family, worlds that are hard in one way each, and two like uses."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import as_count, as_floats, as_number, as_seed, refuse
from rewardmix._core.limits import afford_model
from rewardmix._core.streams import Role, generator
from rewardmix.model import RewardMixingMDP

EVEN = np.array([0.5, 0.5])


def hard(actions: int = 3, accuracy: float = 0.04, seed: int = 0) -> RewardMixingMDP:
    """Two steps, every reward a fair coin on average; one first action tells which of two second actions is better.

    The first action says it with 1/2 +- sqrt(accuracy), the second ones pay 1/2 +- and -+ sqrt(accuracy). The best
    policy earns 1 + 2 accuracy, every policy that misses the pair earns 1, and finding the pair takes of the order
    of (S A / accuracy)^2 episodes.

    Args:
        actions: A >= 3.
        accuracy: e, at most 1/4.
        seed: which actions are the special ones.
    """
    count = as_count("actions", actions, least=3)
    if not 0.0 < (e := as_number("accuracy", accuracy)) <= 0.25:
        refuse("accuracy", e, "a number above 0 and at most 0.25")
    afford_model(2, count)
    rng = generator(as_seed("seed", seed), Role.PROBLEM)
    first, (up, down) = rng.integers(count), rng.choice(count, 2, replace=False)
    rewards = np.full((2, 2, count), 0.5)
    for m, sign in enumerate((1.0, -1.0)):
        rewards[m, 0, first] += sign * math.sqrt(e)
        rewards[m, 1, up] += sign * math.sqrt(e)
        rewards[m, 1, down] -= sign * math.sqrt(e)
    transition = np.zeros((2, count, 2))
    transition[:, :, 1] = 1.0
    return RewardMixingMDP(
        transition, np.array([1.0, 0.0]), np.array([0.5, 0.5]), rewards, 2, state_names=("first", "second")
    )


def parity(
    actions: int = 3, dials: int = 2, strength: float = 0.45, risk: float = 0.2, seed: int = 0
) -> RewardMixingMDP:
    """Two questions and a vault: four types whose rewards are independent in pairs, and not in threes.

    A type is two fair bits. In each of the first two states one action asks for a bit: its reward is 1/2 +-
    ``strength`` by that bit alone, and it ends outside with probability ``risk``; all others lead on, pay 0.52 and
    say nothing. Then one right action in each of ``dials`` states leads on, as in ``lock``. In the vault, visited
    once, two actions pay by whether the bits agree, 1/2 +- and -+ ``strength``; everything else is a fair coin. So no
    two rewards of an episode say anything of each other, and no table of pairs tells one type from four. Asking twice
    is worth 4 strength^3 (1 - risk)^2 in the vault. A plan for pairs has no reason to ask twice and then turn the
    dials.

    Args:
        actions: A >= 3.
        dials: right actions in a row, may be 0.
        strength: at most 1/2.
        risk: probability that asking ends outside.
        seed: which actions are the special ones.
    """
    count, length = as_count("actions", actions, least=3), as_count("dials", dials, least=0)
    if not 0.0 < (tilt := as_number("strength", strength)) <= 0.5:
        refuse("strength", tilt, "a number above 0 and at most 0.5")
    risk = as_number("risk", risk, above=-1e-12, below=1.0)
    afford_model(length + 4, count, 4)
    rng = generator(as_seed("seed", seed), Role.PROBLEM)
    asks, code, (up, down) = rng.integers(count, size=2), rng.integers(count, size=length), rng.permutation(count)[:2]
    vault, outside = length + 2, length + 3
    transition = np.zeros((length + 4, count, length + 4))
    transition[vault:, :, outside] = 1.0
    rewards = np.full((4, length + 4, count), 0.5)
    bits = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    for s in range(2):
        transition[s, :, s + 1] = 1.0
        transition[s, asks[s]] = (1.0 - risk) * np.eye(length + 4)[s + 1] + risk * np.eye(length + 4)[outside]
        rewards[:, s] = 0.52
        rewards[:, s, asks[s]] = 0.5 + tilt * bits[:, s]
    for dial in range(length):
        transition[2 + dial, :, outside] = 1.0
        transition[2 + dial, code[dial]] = np.eye(length + 4)[3 + dial]
    agree = bits.prod(axis=1)
    rewards[:, vault, up], rewards[:, vault, down] = 0.5 + tilt * agree, 0.5 - tilt * agree
    names = ("first question", "second question", *(f"dial {k + 1}" for k in range(length)), "vault", "outside")
    return RewardMixingMDP(transition, np.eye(length + 4)[0], np.full(4, 0.25), rewards, length + 3, state_names=names)


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


def grid(size: int = 3, horizon: int = 10, slip: float = 0.1) -> RewardMixingMDP:
    """Two goals in the upper corners of a square; one of them pays today, and only a visit tells which.

    The walk starts in the middle of the lowest row. At the goal that pays, staying there earns 0.9 a step, at the
    other 0.1. With probability ``slip`` a step goes in a random direction.

    Args:
        size: cells along an edge.
        horizon: H.
        slip: probability of a random step.
    """
    edge = as_count("size", size, least=2)
    slip = as_number("slip", slip, above=-1e-12, below=1.0)
    as_count("horizon", horizon)
    afford_model(edge * edge, 4)
    moves = ((-1, 0), (1, 0), (0, -1), (0, 1))
    transition = np.zeros((edge * edge, 4, edge * edge))
    for s in range(edge * edge):
        ends = [_moved(s, move, edge) for move in moves]
        for a in range(4):
            transition[s, a, ends[a]] += 1.0 - slip
            np.add.at(transition[s, a], ends, slip / 4)
    rewards = np.zeros((2, edge * edge, 4))
    rewards[:, 0], rewards[:, edge - 1] = [[0.9], [0.1]], [[0.1], [0.9]]
    initial = np.eye(edge * edge)[(edge - 1) * edge + edge // 2]
    names = tuple(f"row {s // edge + 1} column {s % edge + 1}" for s in range(edge * edge))
    return RewardMixingMDP(
        transition,
        initial,
        np.array([0.5, 0.5]),
        rewards,
        horizon,
        state_names=names,
        action_names=("up", "down", "left", "right"),
    )


PAGES = ("home", "outdoor", "reading", "kitchen")
SHOWN = ("show outdoor", "show reading", "show kitchen", "show bestsellers")


def shop(horizon: int = 10, weights: ArrayLike = (0.6, 0.4), follow: float = 0.7) -> RewardMixingMDP:
    """Cold-start sessions: an unknown visitor of hidden taste walks through a small site; a click is a reward.

    The visitor goes to the page that was shown with probability ``follow`` and wanders otherwise; how he walks says
    nothing about him. What he clicks does: the outdoor person and the reader like different things, both like
    bestsellers a little, and both like a thing more on its own page.

    Args:
        horizon: things shown in a session.
        weights: shares of outdoor people and readers.
        follow: probability of going where the thing shown belongs.
    """
    follow = as_number("follow", follow, above=0.0, below=1.0)
    pages = len(PAGES)
    transition = np.full((pages, 4, pages), (1.0 - follow) / pages)
    target = [1, 2, 3, 0]
    for a in range(4):
        transition[:, a, target[a]] += follow
    likes = np.array([[0.62, 0.10, 0.26, 0.34], [0.08, 0.66, 0.30, 0.36]])
    rewards = np.repeat(likes[:, None, :], pages, axis=1)
    rewards[:, [1, 2, 3], [0, 1, 2]] *= 1.2
    rewards[:, [1, 2, 3], 3] *= 0.8
    return RewardMixingMDP(
        transition,
        np.eye(pages)[0],
        as_floats("weights", weights, (2,)),
        rewards,
        horizon,
        state_names=PAGES,
        action_names=SHOWN,
    )


def _moved(state: int, move: tuple[int, int], edge: int) -> int:
    row, column = divmod(state, edge)
    return min(max(row + move[0], 0), edge - 1) * edge + min(max(column + move[1], 0), edge - 1)
