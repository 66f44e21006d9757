"""Two contexts: bounds from both sides on one belief grid for all states.

    U, V1, V2 [s, k]      an upper bound at grid belief k, and the values that one policy earns in the two contexts
    for t = H .. 1:       W = T2 @ (U, V1, V2), one matrix product
      for each (s, a), grid belief b and outcome with laws q:   n = sum_m b_m q_m,  b' = b q / n,  g_j <= b' <= g_j+1
        upper += n * interpolation of WU at b'                  V is convex in the belief
        lower += q * (W1, W2)[j*],  j* the better of j, j+1     one successor for all next states: a controller

Between sweeps a state-action is dropped at a step if its upper bound is below what another action is known to earn,
at every belief of the range: fine sweeps then touch few actions. No optimal action is lost, so the bracket holds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from rewardmix._check import Floats, Ints
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.grids import Reach, inverse_widths
from rewardmix.planning.refinement import Sweep
from rewardmix.planning.rounding import rounding_bound
from rewardmix.planning.tables import compact
from rewardmix.planning.transitions import Expectation

BLOCK_BYTES = 1 << 22
"""Rows are handled in blocks of about this size, to stay in cache between the product and the backup."""
BLOCK_ROWS = 96
"""At least so many rows a block: the product is slow on fewer."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The state-actions in play at one step, grouped by state.

    Attributes:
        index: (R,) x = s * A + a, increasing.
        starts: (S + 1,) first row of each state.
    """

    index: Ints
    starts: Ints


def rows_in_play(keep: np.ndarray) -> Rows:
    """The rows where ``keep`` (S, A) holds."""
    starts = np.zeros(keep.shape[0] + 1, dtype=np.int64)
    np.cumsum(keep.sum(axis=1), out=starts[1:])
    return Rows(np.flatnonzero(keep), starts)


class TwoContexts:
    """Sweeps for two contexts."""

    first = 24

    def __init__(self, model: RewardMixingMDP) -> None:
        self.model = model
        self.expect = Expectation(model)
        self.reach = Reach(model)
        self.laws = np.ascontiguousarray(np.moveaxis(model.laws, 0, -1)).reshape(-1, model.num_values, 2)
        self.means = np.ascontiguousarray(np.moveaxis(model.means, 0, -1)).reshape(-1, 2)
        self.keep = np.ones((model.horizon, model.num_states, model.num_actions), dtype=np.bool_)
        self.margin = rounding_bound(model, self.expect.width)

    def bytes(self, resolution: int) -> float:
        """Memory of a pass: the tables of the controller, two steps of values, one block of products."""
        model = self.model
        points = float(model.num_states) * (resolution + 2)
        index = 2 if resolution < 1 << 14 else 4
        tables = points * model.horizon * (1 + model.num_values) * index
        return tables + 6 * 8 * points + 24.0 * max(BLOCK_ROWS, model.num_actions) * resolution + self.keep.nbytes

    def sweep(self, resolution: int, deadline: float) -> Sweep | None:
        """One backward pass on grids of ``resolution`` intervals."""
        model, num_states = self.model, self.model.num_states
        grids = [self.reach.grid(t, resolution) for t in range(model.horizon)] + [np.array([0.0, 1.0])]
        index = np.dtype(np.int16 if max(max(map(len, grids)), model.num_actions) < 1 << 15 else np.int32)
        later = np.zeros((num_states, 3, 2))
        actions, successors = [], []
        for t in reversed(range(model.horizon)):
            if time.perf_counter() > deadline:
                return None
            best = np.empty((num_states, grids[t].size), dtype=index)
            moves = np.empty((*best.shape, model.num_values), dtype=index)
            later = self._step(t, later, grids[t], grids[t + 1], best, moves)
            actions.append(best)
            successors.append(moves)
        pair = later[:, 1:, 0] @ model.weights
        lower, upper = float(model.initial @ pair), float(model.initial @ later[:, 0, 0])
        exact = all(self.reach.few(t, resolution) for t in range(model.horizon))
        return Sweep(lower - self.margin, max(upper, lower) + self.margin, max(map(len, grids)), exact,
                     lambda: compact(actions[::-1], successors[::-1], np.zeros(num_states, dtype=np.int64), model))

    def _step(self, t: int, later: Floats, grid: Floats, next_grid: Floats, best: Ints, moves: Ints) -> Floats:
        """The values at step t; fills ``best`` and ``moves``, and drops rows that cannot be optimal."""
        from rewardmix.planning.kernels import backup_two

        rows = rows_in_play(self.keep[t])
        value = np.empty((self.model.num_states, 3, grid.size))
        widths = inverse_widths(next_grid)
        flat = later.reshape(self.model.num_states, -1)
        labels = rows.index % self.model.num_actions
        keep = np.empty(rows.index.size, dtype=np.bool_)
        for low, high in blocks(rows.starts, 24 * next_grid.size):
            part = slice(rows.starts[low], rows.starts[high])
            ahead = self.expect(rows.index[part], flat).reshape(-1, 3, next_grid.size)
            backup_two(self.laws[rows.index[part]], self.means[rows.index[part]],
                       rows.starts[low : high + 1] - rows.starts[low], labels[part], ahead, grid, next_grid, widths,
                       2 * self.margin, value[low:high], best[low:high], moves[low:high], keep[part])
        self.keep[t].flat[rows.index] = keep
        return value


def blocks(starts: Ints, row_bytes: int) -> list[tuple[int, int]]:
    """Ranges of states whose rows fill a block each."""
    wanted = max(BLOCK_ROWS, BLOCK_BYTES // row_bytes)
    cuts, low, last = [], 0, starts.size - 1
    while low < last:
        high = max(int(np.searchsorted(starts, starts[low] + wanted, "right")) - 1, low + 1)
        cuts.append((low, min(high, last)))
        low = cuts[-1][1]
    return cuts
