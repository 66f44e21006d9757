"""Controllers in little memory: nodes that are never entered left out, numbers in the smallest type that holds them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rewardmix._core.checks import Ints, shut
from rewardmix._core.widths import width_of
from rewardmix.model import RewardMixingMDP
from rewardmix.policy import Controller


def compact(actions: Sequence[Ints], successors: Sequence[Ints], first: Ints, model: RewardMixingMDP) -> Controller:
    """The controller of these tables without the node columns that no path from ``first`` enters."""
    lean_actions: list[Ints] = []
    lean_successors: list[Ints] = []
    used = np.unique(first)
    new_first = np.searchsorted(used, first)
    for t, (plays, moves) in enumerate(zip(actions, successors, strict=True)):
        plays, moves = (plays, moves) if used.size == plays.shape[1] else (plays[:, used], moves[:, used])
        if t + 1 == len(actions):
            renamed = np.zeros(1, dtype=np.int64)
            moves = np.zeros_like(moves)
        else:
            entered = np.zeros(actions[t + 1].shape[1], dtype=np.bool_)
            entered[moves] = True
            used = np.flatnonzero(entered)
            renamed = np.cumsum(entered) - 1
        lean_actions.append(shut(plays.astype(width_of(model.num_actions))))
        lean_successors.append(shut(renamed.astype(width_of(used.size))[moves]))
    return Controller(tuple(lean_actions), tuple(lean_successors), new_first, model.reward_values)
