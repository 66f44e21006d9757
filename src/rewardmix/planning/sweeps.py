"""One backward pass over the steps on belief grids, whatever the number of contexts.

    value[s, 0, k]        an upper bound of the best value at grid belief k
    value[s, 1 + m, k]    what one policy (node k of the controller) earns in context m
    for t = H .. 1:       ahead = T2 value, one matrix product; then the backup of the geometry

Between sweeps a state-action is dropped at a step if its upper bound is below what another action is known to earn,
at every belief of the range: fine sweeps then touch few actions. No optimal action is lost, so the bracket holds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.algebra import dot, product
from rewardmix._core.checks import Floats, Ints
from rewardmix._core.widths import width_of
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.refinement import Sweep
from rewardmix.planning.rounding import rounding_bound
from rewardmix.planning.tables import compact
from rewardmix.planning.transitions import Expectation

BLOCK_BYTES = 1 << 22
"""Rows are handled in blocks of about this size, to stay in cache between the product and the backup."""
BLOCK_ROWS = 96
"""At least so many rows a block: the product is slow on fewer."""

Axes = tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class Block:
    """Some states with their rows (the state-actions in play), and the tables to fill for them.

    Attributes:
        laws: (R, Z, M) law of the outcome in each context.
        means: (R, M) expected reward in each context.
        starts: (n + 1,) first row of each state.
        labels: (R,) action of each row.
        ahead: (R, 1 + M, L) expected next values at the next grid.
        value: (n, 1 + M, N) to fill.
        best: (n, N) action, to fill.
        moves: (n, N, Z) next node, to fill.
        keep: (R,) whether the row may be optimal somewhere, to fill.
    """

    laws: Floats
    means: Floats
    starts: Ints
    labels: Ints
    ahead: Floats
    value: Floats
    best: Ints
    moves: Ints
    keep: NDArray[np.bool_]


class Geometry(Protocol):
    """Grids over beliefs, and the backup on them."""

    first: int
    """Resolution to begin with."""
    largest: int
    """Finest resolution."""
    growth: int
    """The number of points grows as resolution ** growth."""

    def axes(self, step: int, resolution: int) -> Axes:
        """The grid of a step; at step H any grid."""

    def exact(self, resolution: int) -> bool:
        """Whether the grids hold every belief that can be reached."""

    steps: float
    """Simple steps that one outcome takes at one point of the grid."""

    def points(self, resolution: int) -> int:
        """Most points that a grid has."""

    def backup(self, block: Block, now: Axes, later: Axes, slack: float) -> None:
        """Fill value, best, moves and keep of a block of states."""


class GridSweeper:
    """Sweeps on the grids of a geometry; remembers which state-actions are still in play."""

    def __init__(self, model: RewardMixingMDP, geometry: Geometry) -> None:
        self.model = model
        self.geometry = geometry
        self.first, self.largest, self.growth = geometry.first, geometry.largest, geometry.growth
        self.expect = Expectation(model)
        num_contexts = model.num_contexts
        self.laws = np.ascontiguousarray(np.moveaxis(model.laws, 0, -1)).reshape(-1, model.num_values, num_contexts)
        self.means = np.ascontiguousarray(np.moveaxis(model.means, 0, -1)).reshape(-1, num_contexts)
        self.keep = np.ones((model.horizon, model.num_states, model.num_actions), dtype=np.bool_)
        self.margin = rounding_bound(model, self.expect.width)

    def bytes(self, resolution: int) -> float:
        """Memory of a pass: the tables of the controller, two steps of values, one block of products."""
        return pass_bytes(self.model, self.geometry.points(resolution))

    def work(self, resolution: int) -> float:
        """Simple steps of a pass over the state-actions that are still in play."""
        ahead = self.expect.steps * (1 + self.model.num_contexts)
        backup = self.model.num_values * self.geometry.steps
        return float(np.count_nonzero(self.keep)) * self.geometry.points(resolution) * (ahead + backup)

    def sweep(self, resolution: int, deadline: float) -> Sweep | None:
        """One backward pass."""
        model, num_states, num_contexts = self.model, self.model.num_states, self.model.num_contexts
        grids = [self.geometry.axes(t, resolution) for t in range(model.horizon + 1)]
        sizes = [_size(axes) for axes in grids]
        index = width_of(max(*sizes, model.num_actions), "int16")
        later = np.zeros((num_states, 1 + num_contexts, sizes[-1]))
        actions, successors = [], []
        for t in reversed(range(model.horizon)):
            if time.perf_counter() > deadline:
                return None
            best = np.empty((num_states, sizes[t]), dtype=index)
            moves = np.empty((*best.shape, model.num_values), dtype=index)
            later = self._step(t, later, grids[t], grids[t + 1], best, moves)
            actions.append(best)
            successors.append(moves)
        lower = float(dot(model.initial, product(later[:, 1:, 0], model.weights)))
        upper = max(float(dot(model.initial, later[:, 0, 0])) * float(model.weights.sum()), lower)
        return Sweep(
            lower - self.margin,
            upper + self.margin,
            max(sizes[:-1]),
            self.geometry.exact(resolution),
            2 * self.margin,
            lambda: compact(actions[::-1], successors[::-1], np.zeros(num_states, dtype=np.int64), model),
        )

    def _step(self, t: int, later: Floats, now_axes: Axes, later_axes: Axes, best: Ints, moves: Ints) -> Floats:
        """The values at step t; fills ``best`` and ``moves``, and drops rows that cannot be optimal."""
        index, starts = rows_in_play(self.keep[t])
        value = np.empty((self.model.num_states, 1 + self.model.num_contexts, best.shape[1]))
        flat = later.reshape(self.model.num_states, -1)
        labels = index % self.model.num_actions
        keep = np.empty(index.size, dtype=np.bool_)
        for low, high in blocks(starts, 8 * flat.shape[1]):
            part = slice(starts[low], starts[high])
            block = Block(
                laws=self.laws[index[part]],
                means=self.means[index[part]],
                starts=starts[low : high + 1] - starts[low],
                labels=labels[part],
                ahead=self.expect(index[part], flat).reshape(-1, *later.shape[1:]),
                value=value[low:high],
                best=best[low:high],
                moves=moves[low:high],
                keep=keep[part],
            )
            self.geometry.backup(block, now_axes, later_axes, 2 * self.margin)
        self.keep[t].flat[index] = keep
        return value


def pass_bytes(model: RewardMixingMDP, points: int) -> float:
    """Estimate of the memory of one backward pass with so many belief points a step."""
    cells = float(model.num_states) * points
    width = 2 if points < 1 << 15 else 4
    tables = cells * model.horizon * (1 + model.num_values) * width
    values = 2 * 8 * cells * (1 + model.num_contexts)
    block = max(BLOCK_BYTES, 8.0 * (1 + model.num_contexts) * points * max(BLOCK_ROWS, model.num_actions))
    rows = float(model.num_states) * model.num_actions
    return tables + values + block + model.horizon * rows + 8 * rows * model.num_contexts * (model.num_values + 1)


def rows_in_play(keep: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """The state-actions where ``keep`` (S, A) holds, increasing, and the first row of each state (S + 1,)."""
    starts = np.zeros(keep.shape[0] + 1, dtype=np.int64)
    np.cumsum(keep.sum(axis=1), out=starts[1:])
    return np.flatnonzero(keep), starts


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


def _size(axes: Axes) -> int:
    return int(np.prod([axis.size for axis in axes]))
