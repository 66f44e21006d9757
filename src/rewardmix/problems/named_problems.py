"""Make the named problems: the paper's hardest family, models with one difficulty each, and two near applications."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.budget import check_budget_model
from rewardmix._core.checks import as_count, as_floats, as_number, as_seed, raise_input_error
from rewardmix._core.random_streams import Role, make_generator
from rewardmix.model import RewardMixingMDP

EQUAL_WEIGHTS = np.array([0.5, 0.5])
"""Weights of two equally likely types."""


def make_hard(actions: int = 3, epsilon: float = 0.04, seed: int = 0) -> RewardMixingMDP:
    """Make the paper's hardest family: two steps, all marginal rewards 1/2, one informative first action.

    The reward of one first action is 1/2 +- sqrt(epsilon) by the type; two of the second actions have 1/2 +- and -+
    sqrt(epsilon). The best policy has value 1 + 2 epsilon, every policy that misses the pair has value 1, and finding
    the pair takes of the order of (S A / epsilon)^2 episodes.

    Args:
        actions: A >= 3.
        epsilon: Squared bias of the special rewards, at most 1/4.
        seed: Seed that selects the special actions.

    Returns:
        The model.
    """
    count = as_count("actions", actions, min_value=3)
    if not 0.0 < (e := as_number("epsilon", epsilon)) <= 0.25:
        raise_input_error("epsilon", e, "a number above 0 and at most 0.25")
    check_budget_model(2, count)
    rng = make_generator(as_seed("seed", seed), Role.PROBLEM)
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


def make_parity(
    actions: int = 3, dials: int = 2, strength: float = 0.45, risk: float = 0.2, seed: int = 0
) -> RewardMixingMDP:
    """Make a problem of four types whose rewards are independent in pairs, but not in triples.

    A type is two fair bits. In each of the first two states one action asks for a bit: its reward is 1/2 +-
    ``strength`` by that bit alone, and with probability ``risk`` it ends outside; all others lead on, have reward 0.52
    and give no information. Then one right action in each of ``dials`` states leads on, as in ``lock``. In the vault,
    visited once, two actions pay by whether the bits agree, 1/2 +- and -+ ``strength``; everything else is a fair coin.
    So any two rewards of an episode are independent, and no table of pairs distinguishes one type from four. Asking
    twice is worth 4 strength^3 (1 - risk)^2 in the vault. Exploration of pairs has no reason to ask twice and then turn
    the dials.

    Args:
        actions: A >= 3.
        dials: Number of right actions in a row, may be 0.
        strength: At most 1/2.
        risk: Probability that asking ends outside.
        seed: Seed that selects the special actions.

    Returns:
        The model.
    """
    count, length = as_count("actions", actions, min_value=3), as_count("dials", dials, min_value=0)
    if not 0.0 < (tilt := as_number("strength", strength)) <= 0.5:
        raise_input_error("strength", tilt, "a number above 0 and at most 0.5")
    # The lower limit is exclusive; a tiny negative one admits 0.
    risk = as_number("risk", risk, above=-1e-12, below=1.0)
    check_budget_model(length + 4, count, 4)
    rng = make_generator(as_seed("seed", seed), Role.PROBLEM)
    asks, code, (up, down) = rng.integers(count, size=2), rng.integers(count, size=length), rng.permutation(count)[:2]
    vault, outside = length + 2, length + 3
    transition = np.zeros((length + 4, count, length + 4))
    transition[vault:, :, outside] = 1.0
    rewards = np.full((4, length + 4, count), 0.5)
    bits = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    for s in range(2):
        transition[s, :, s + 1] = 1.0
        transition[s, asks[s]] = (1.0 - risk) * np.eye(length + 4)[s + 1] + risk * np.eye(length + 4)[outside]
        # Slightly more than the mean reward of asking, so a policy that maximizes immediate reward does not ask.
        rewards[:, s] = 0.52
        rewards[:, s, asks[s]] = 0.5 + tilt * bits[:, s]
    for dial in range(length):
        transition[2 + dial, :, outside] = 1.0
        transition[2 + dial, code[dial]] = np.eye(length + 4)[3 + dial]
    # The product of two independent fair signs is independent of each of them: pairs of rewards carry no information.
    agree = bits.prod(axis=1)
    rewards[:, vault, up], rewards[:, vault, down] = 0.5 + tilt * agree, 0.5 - tilt * agree
    names = ("first question", "second question", *(f"dial {k + 1}" for k in range(length)), "vault", "outside")
    return RewardMixingMDP(transition, np.eye(length + 4)[0], np.full(4, 0.25), rewards, length + 3, state_names=names)


def make_lock(steps: int = 8, actions: int = 3, slip: float = 0.1, seed: int = 0) -> RewardMixingMDP:
    """Make a combination lock: one right action in each of ``steps`` states leads to the vault, any other ends outside.

    Two steps are left in the vault. One of its first two actions has reward 0.9 and the other 0.1, by the type. Outside
    every step gives 0.02, which attracts policies that do not explore. Even the right action fails with probability
    ``slip``. With uniformly random actions, two steps in the vault take about (actions/(1-slip))^steps episodes.

    Args:
        steps: Number of right actions in a row.
        actions: A >= 2.
        slip: Probability that the right action fails.
        seed: Seed of the combination.

    Returns:
        The model.
    """
    length, count = as_count("steps", steps), as_count("actions", actions, min_value=2)
    # The lower limit is exclusive; a tiny negative one admits 0.
    slip = as_number("slip", slip, above=-1e-12, below=1.0)
    check_budget_model(length + 2, count)
    code = make_generator(as_seed("seed", seed), Role.PROBLEM).integers(count, size=length)
    vault, outside = length, length + 1
    transition = np.zeros((length + 2, count, length + 2))
    transition[:, :, outside] = 1.0
    for s in range(length):
        transition[s, code[s], [s + 1, outside]] = 1.0 - slip, slip
    transition[vault] = np.eye(length + 2)[vault]
    rewards = np.zeros((2, length + 2, count))
    rewards[:, outside] = 0.02
    # Other actions of the vault are safe: better than guessing wrong, worse than the average of guessing.
    rewards[:, vault] = 0.3
    rewards[:, vault, :2] = [[0.9, 0.1], [0.1, 0.9]]
    names = (*(f"dial {s + 1}" for s in range(length)), "vault", "outside")
    return RewardMixingMDP(transition, np.eye(length + 2)[0], EQUAL_WEIGHTS, rewards, length + 2, state_names=names)


def make_riverswim(states: int = 8, horizon: int = 20) -> RewardMixingMDP:
    """Make RiverSwim with a hidden type: the left bank has a safe small reward, the right bank possibly a large one.

    The type decides whether the right bank gives 0.9 or 0.05. The left bank gives 0.1 in the first case and 0.6 in the
    second, so a good policy tries the left bank first.

    Args:
        states: S >= 3.
        horizon: H.

    Returns:
        The model.
    """
    count = as_count("states", states, min_value=3)
    as_count("horizon", horizon)
    check_budget_model(count, 2)
    left, right = 0, 1
    transition = np.zeros((count, 2, count))
    for s in range(count):
        transition[s, left, max(s - 1, 0)] = 1.0
        for step, prob in ((1, 0.6), (0, 0.35), (-1, 0.05)):
            # Steps beyond a bank stay there; ``+=`` because several steps may then lead to one state.
            transition[s, right, min(max(s + step, 0), count - 1)] += prob
    rewards = np.zeros((2, count, 2))
    rewards[:, 0, left] = 0.1, 0.6
    rewards[:, -1, right] = 0.9, 0.05
    names = ("left bank", *(f"water {s}" for s in range(1, count - 1)), "right bank")
    return RewardMixingMDP(
        transition, np.eye(count)[0], EQUAL_WEIGHTS, rewards, horizon, state_names=names, action_names=("left", "right")
    )


def make_branches(rooms: int = 2, doors: int = 3) -> RewardMixingMDP:
    """Make a hall with ``doors`` doors; each leads to a separate corridor without a way back.

    State-actions behind different doors do not occur in one episode, so data cannot determine which type of one
    corridor corresponds to which of another. No policy can use that knowledge, so nothing is lost.

    Args:
        rooms: States of each corridor, passed in turn; the last one is occupied until the end.
        doors: Number of corridors, also the number of actions.

    Returns:
        The model.
    """
    length, count = as_count("rooms", rooms), as_count("doors", doors, min_value=2)
    total = 1 + count * length
    check_budget_model(total, count)
    transition = np.zeros((total, count, total))
    rewards = np.full((2, total, count), 0.3)
    for door in range(count):
        transition[0, door, 1 + door * length] = 1.0
        for room in range(length):
            state = 1 + door * length + room
            transition[state, :, state + (room < length - 1)] = 1.0
            # Preferences differ between corridors and rooms, so no action is good everywhere.
            favorite, tilt = (door + room) % count, 0.35 - 0.05 * door
            rewards[:, state, favorite] = 0.5 + tilt, 0.5 - tilt
            rewards[:, state, (favorite + 1) % count] = 0.5 - tilt, 0.5 + tilt
    names = ("hall", *(f"corridor {door + 1} room {room + 1}" for door in range(count) for room in range(length)))
    return RewardMixingMDP(transition, np.eye(total)[0], EQUAL_WEIGHTS, rewards, 1 + 2 * length, state_names=names)


def make_probe(horizon: int = 8) -> RewardMixingMDP:
    """Make the smallest problem that rewards asking: one of two rooms pays, there is no way back, and asking costs.

    In the lobby ``wait`` gives 0.3 for both types; ``ask`` gives 0.4 for one type and 0 for the other, less on average.
    Each door leads to a room that gives 0.9 for its own type and 0.1 for the other.

    Args:
        horizon: H.

    Returns:
        The model.
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
        EQUAL_WEIGHTS,
        rewards,
        horizon,
        state_names=("lobby", "left room", "right room"),
        action_names=("wait", "ask", "left door", "right door"),
    )


def make_grid(size: int = 3, horizon: int = 10, slip: float = 0.1) -> RewardMixingMDP:
    """Make a square grid with two goals in the upper corners; the type decides which one has high rewards.

    Episodes start in the middle of the lowest row. Staying at this goal gives 0.9 per step, at the other 0.1.
    With probability ``slip`` a step goes in a random direction.

    Args:
        size: Cells along an edge.
        horizon: H.
        slip: Probability of a random step.

    Returns:
        The model.
    """
    edge = as_count("size", size, min_value=2)
    # The lower limit is exclusive; a tiny negative one admits 0.
    slip = as_number("slip", slip, above=-1e-12, below=1.0)
    as_count("horizon", horizon)
    check_budget_model(edge * edge, 4)
    directions = ((-1, 0), (1, 0), (0, -1), (0, 1))
    transition = np.zeros((edge * edge, 4, edge * edge))
    for s in range(edge * edge):
        ends = [_move_on_grid(s, move, edge) for move in directions]
        for a in range(4):
            transition[s, a, ends[a]] += 1.0 - slip
            # At an edge several directions end in one state; ``add.at`` adds each of them, plain indexing would add
            # one.
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


SHOP_PAGES = ("home", "outdoor", "reading", "kitchen")
"""Names of the pages of the shop."""
SHOP_ACTIONS = ("show outdoor", "show reading", "show kitchen", "show bestsellers")
"""Names of the shop's actions."""


def make_shop(horizon: int = 10, weights: ArrayLike = (0.6, 0.4), follow: float = 0.7) -> RewardMixingMDP:
    """Make cold-start sessions of a web shop: a user of unknown type visits a small site; a click is a reward of 1.

    The user moves to the page that was shown with probability ``follow``, otherwise to a random page; transitions do
    not depend on the type. Clicks do: outdoor people and readers like different items, both like bestsellers a little,
    and both like an item more on its own page.

    Args:
        horizon: Items shown in a session.
        weights: Probabilities of outdoor people and readers.
        follow: Probability of moving to the page of the item shown.

    Returns:
        The model.
    """
    follow = as_number("follow", follow, above=0.0, below=1.0)
    pages = len(SHOP_PAGES)
    transition = np.full((pages, 4, pages), (1.0 - follow) / pages)
    target = [1, 2, 3, 0]
    for a in range(4):
        transition[:, a, target[a]] += follow
    likes = np.array([[0.62, 0.10, 0.26, 0.34], [0.08, 0.66, 0.30, 0.36]])
    rewards = np.repeat(likes[:, None, :], pages, axis=1)
    # On its own page an item gets 20 % more clicks, and bestsellers get 20 % less, so that where to go matters.
    rewards[:, [1, 2, 3], [0, 1, 2]] *= 1.2
    rewards[:, [1, 2, 3], 3] *= 0.8
    return RewardMixingMDP(
        transition,
        np.eye(pages)[0],
        as_floats("weights", weights, (2,)),
        rewards,
        horizon,
        state_names=SHOP_PAGES,
        action_names=SHOP_ACTIONS,
    )


def _move_on_grid(state: int, move: tuple[int, int], edge: int) -> int:
    """Return the state after a move on the grid; moves off the edge stay."""
    row, column = divmod(state, edge)
    return min(max(row + move[0], 0), edge - 1) * edge + min(max(column + move[1], 0), edge - 1)
