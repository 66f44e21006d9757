"""Worlds that look like uses: a walk with two goals, and anonymous sessions in a shop."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import as_count, as_floats, as_number
from rewardmix._core.limits import afford_model
from rewardmix.model import RewardMixingMDP


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
