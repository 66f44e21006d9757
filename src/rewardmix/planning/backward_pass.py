"""What every backward pass over the steps uses: its answer, expected next values, blocks of rows, lean controllers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rewardmix._core.algebra import product
from rewardmix._core.checks import Floats, Ints, shut
from rewardmix._core.widths import width_of
from rewardmix.model import RewardMixingMDP
from rewardmix.policy import Controller

BLOCK_BYTES = 1 << 22
"""Rows are handled in blocks of about this size, to stay in cache between the product and the backup."""
BLOCK_ROWS = 96
"""At least so many rows a block: the product is slow on fewer."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """The answer of one backward pass: a bracket and the controller that earns its lower end.

    Attributes:
        lower: certified.
        upper: certified.
        points: most belief points at one step.
        exact: no interpolation took place, so a finer grid gives nothing.
        floor: the part of the gap that rounding takes; no grid gets below it.
        policy: makes the controller (built only for the sweep that is returned).
    """

    lower: float
    upper: float
    points: int
    exact: bool
    floor: float
    policy: Callable[[], Controller]


SPARSE_BELOW = 0.1
"""A dense transition with a smaller share of non-zero entries is multiplied as a sparse one."""


class Expectation:
    """x -> sum_s' T[x, s'] values[s']; the cost is proportional to the non-zero entries where they are few."""

    def __init__(self, model: RewardMixingMDP) -> None:
        rows = model.transition_rows
        self.width = model.num_states
        """Most terms in one sum."""
        self.steps = float(model.num_states)
        """Terms of a sum, on average."""
        self._dense: Floats | None = None
        if model.is_sparse:
            parts = rows.indptr, rows.indices, rows.data
        elif np.count_nonzero(rows) > SPARSE_BELOW * rows.size:
            self._dense = rows
            return
        else:
            owner, columns = np.nonzero(rows)
            parts = np.searchsorted(owner, np.arange(rows.shape[0] + 1)), columns, rows[owner, columns]
        self._pointers = parts[0].astype(np.int64)
        self._columns = parts[1].astype(np.int64)
        self._entries = np.array(parts[2])
        self.width = int(np.diff(self._pointers).max())
        self.steps = self._entries.size / rows.shape[0]

    def __call__(self, rows: Ints, values: Floats) -> Floats:
        """(R, C): the expectation at state-actions ``rows`` (R,) of next-state ``values`` (S, C)."""
        if self._dense is not None:
            whole = rows.size == rows[-1] - rows[0] + 1
            part = self._dense[rows[0] : rows[-1] + 1] if whole else self._dense[rows]
            return product(part, values)
        from rewardmix.planning.backups import sparse_product

        out = np.empty((rows.size, values.shape[1]))
        sparse_product(self._pointers, self._columns, self._entries, rows, values, out)
        return out


def pass_bytes(model: RewardMixingMDP, points: int) -> float:
    """Estimate of the memory of one backward pass with so many belief points a step."""
    cells = float(model.num_states) * points
    width = 2 if points < 1 << 15 else 4
    tables = cells * model.horizon * (1 + model.num_values) * width
    values = 2 * 8 * cells * (1 + model.num_contexts)
    block = max(BLOCK_BYTES, 8.0 * (1 + model.num_contexts) * points * max(BLOCK_ROWS, model.num_actions))
    rows = float(model.num_states) * model.num_actions
    return tables + values + block + model.horizon * rows + 8 * rows * model.num_contexts * (model.num_values + 1)


def blocks(starts: Ints, row_bytes: int) -> list[tuple[int, int]]:
    """Ranges of states whose rows fill a block each."""
    wanted = max(BLOCK_ROWS, BLOCK_BYTES // row_bytes)
    cuts: list[tuple[int, int]] = []
    low, last = 0, starts.size - 1
    while low < last:
        high = max(int(np.searchsorted(starts, starts[low] + wanted, "right")) - 1, low + 1)
        cuts.append((low, min(high, last)))
        low = cuts[-1][1]
    return cuts


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
