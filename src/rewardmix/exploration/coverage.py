"""Which pairs of state-actions an episode can visit at all, and which of those were seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments

BLOCK = 512
"""State-actions looked at at once."""


@dataclass(frozen=True)
class Coverage:
    """Unordered pairs (x, y), x = y among them.

    Attributes:
        seen: pairs with a sample.
        never_seen: pairs that an episode can visit, without a sample.
        impossible: pairs that no episode can visit.
        least: samples of the possible pair that has fewest.
        known_world: True if what is possible was read off the model, False if off the moves that were seen.
    """

    seen: int
    never_seen: int
    impossible: int
    least: int
    known_world: bool


def coverage(moments: Moments, model: RewardMixingMDP | None = None) -> Coverage:
    """How well the pairs that an episode can visit were covered; without a model, by the moves that were seen."""
    if model is not None:
        rows, starts = csr_array(model.transition_rows), model.initial > 0
    else:
        rows, starts = csr_array(moments.moves[:, : moments.num_states]), moments.starts > 0
    num_x, num_actions = moments.num_state_actions, moments.num_actions
    when = second_steps(rows, starts, num_actions, moments.horizon)
    first, second = moments.pairs
    possible, possible_seen, least = 0, 0, moments.episodes
    for begin in range(0, num_x, BLOCK):
        block = np.arange(begin, min(begin + BLOCK, num_x))
        can = possible_pairs(when, block, num_actions, moments.horizon)
        mine = (first >= begin) & (first < begin + block.size)
        counts = np.zeros(can.shape, np.int64)
        counts[first[mine] - begin, second[mine]] = moments.pair_samples[mine]
        possible += int(can.sum())
        possible_seen += int((can & (counts > 0)).sum())
        least = min(least, int(counts[can].min(initial=least)))
    total = num_x * (num_x + 1) // 2
    least = least if possible else 0
    return Coverage(moments.pair_keys.size, possible - possible_seen, total - possible, least, model is not None)


def possible_pairs(
    when: NDArray[np.int64], block: NDArray[np.int64], num_actions: int, horizon: int
) -> NDArray[np.bool_]:
    """(B, X): whether one episode can visit both x of ``block`` and y >= x, in either order."""
    num_x = when.shape[0]
    after = np.repeat(when[block], num_actions, axis=1) < horizon
    before = (when < horizon)[:, block // num_actions].T
    return np.asarray((after | before) & (np.arange(num_x) >= block[:, None]))


def second_steps(rows: csr_array, starts: NDArray[np.bool_], num_actions: int, horizon: int) -> NDArray[np.int64]:
    """(X, S): the first step (from 0) at which an episode can be in s after it played x; ``horizon`` or more: never."""
    coo = rows.tocoo()
    some = coo.data > 0
    row, column = coo.coords[0][some], coo.coords[1][some]
    entries = np.ones(row.size, np.float32)
    graph = csr_array(coo_array((entries, (row // num_actions, column)), shape=(starts.size, starts.size)))
    reached = np.zeros(rows.shape, bool)
    reached[row, column] = True
    early = _steps(starts[None], graph, horizon)[0]
    return np.repeat(early, num_actions)[:, None] + 1 + _steps(reached, graph, horizon)


def _steps(reached: NDArray[np.bool_], graph: csr_array, horizon: int) -> NDArray[np.int64]:
    """(B, S): fewest moves from any state of a row of ``reached`` to each state; ``horizon`` if that many or more."""
    steps = np.where(reached, 0, horizon)
    front = reached
    for step in range(1, horizon):
        front = (front.astype(np.float32) @ graph > 0) & (steps == horizon)
        if not front.any():
            break
        steps[front] = step
    return steps
