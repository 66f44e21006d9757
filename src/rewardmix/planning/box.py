"""Three and more contexts: a product grid over the simplex of beliefs, common to all states.

A belief has coordinates r_i = b_i / (b_i + b_i+1 + ...), i = 0 .. M-2, each between 0 and 1 and each with a grid of its
own. For three contexts, lines of equal r_0 and rays of equal r_1 cut the triangle into trapezoids. A posterior lies in
a cell with 2^(M-1) corners and is the mixture of them with product weights: with the later coordinates fixed, beliefs
that differ in r_0 alone lie on a segment, and so on for r_1. By convexity

    upper += n * mixture of the next upper bounds at the corners
    lower += q * next values at the corner that is best at b', one for all next states

r_1, r_2, ... move by Bayes updates of their own, whatever r_0 is, and along a ray r_0 moves monotonically: a moving
pointer finds the cell. The number of points is resolution ** (M-1): for few contexts this narrows the bracket far
faster than points with a sawtooth do, for many it is hopeless.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rewardmix._core.checks import Floats, Ints
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.grids import Reach, inverse_widths, log_ratios
from rewardmix.planning.sweeps import Axes, Block

MOST_POINTS = 2_000_000
"""A finer grid than this is not tried."""


class Box:
    """Beliefs between any number of contexts."""

    def __init__(self, model: RewardMixingMDP) -> None:
        self.horizon, self.growth = model.horizon, model.num_contexts - 1
        self.first = 12 if model.num_contexts == 3 else 2
        self.steps = 2.0**self.growth * 2 * (model.num_contexts + 1)
        self.largest = int(MOST_POINTS ** (1.0 / self.growth)) - 2
        laws = model.laws.reshape(model.num_contexts, -1)
        self.reaches = []
        for i in range(self.growth):
            ratios = np.unique(np.concatenate([log_ratios(laws[i], other) for other in laws[i + 1 :]]))
            odds = np.array([model.weights[i], model.weights[i + 1 :].sum()])
            self.reaches.append(Reach(odds, ratios, model.horizon, follow=i == self.growth - 1))

    def axes(self, step: int, resolution: int) -> Axes:
        """Values of each coordinate."""
        if step == self.horizon:
            return (np.array([0.0, 1.0]),) * self.growth
        return tuple(reach.grid(step, resolution) for reach in self.reaches)

    def exact(self, resolution: int) -> bool:
        """Never known."""
        return False

    def points(self, resolution: int) -> int:
        """Points of a full grid."""
        return int((resolution + 2) ** self.growth)

    def backup(self, block: Block, now: Axes, later: Axes, slack: float) -> None:
        """One backward step for a block of states."""
        from rewardmix.planning.kernels_box import backup_box

        sizes = np.array([axis.size for axis in later[1:]])
        table = np.zeros((sizes.size, sizes.max()))
        for row, axis in zip(table, later[1:], strict=True):
            row[: axis.size] = axis
        cells, offsets = cells_of(tuple(axis.size for axis in now))
        backup_box(
            block.laws, block.means, block.starts, block.labels, block.ahead,
            now[0], rays_of(now[1:]), cells, offsets,
            later[0], inverse_widths(later[0]), table, sizes, strides_of(sizes), slack,
            block.value, block.best, block.moves, block.keep,
        )  # fmt: skip


def rays_of(axes: Axes) -> Floats:
    """(J, M - 1): the belief of every combination of coordinates, the last one moving fastest."""
    coordinates = np.meshgrid(*axes, indexing="ij")
    rest = np.ones(coordinates[0].size)
    columns = []
    for coordinate in coordinates:
        columns.append(rest * coordinate.ravel())
        rest = rest * (1.0 - coordinate.ravel())
    return np.ascontiguousarray(np.stack([*columns, rest], axis=1))


def strides_of(sizes: Ints) -> Ints:
    """What a step along each axis adds to the index, the last one moving fastest."""
    return np.append(np.cumprod(sizes[:0:-1])[::-1], 1).astype(np.int64)


@lru_cache(maxsize=8)
def cells_of(sizes: tuple[int, ...]) -> tuple[Ints, Ints]:
    """The lowest corner of every cell, and the offsets of its corners; the first coordinate moves fastest."""
    strides = [*(strides_of(np.array(sizes[1:])) * sizes[0])]
    cells = offsets = np.zeros(1, dtype=np.int64)
    for size, stride in zip((*sizes[1:], sizes[0]), [*strides, 1], strict=True):
        cells = (cells[:, None] + stride * np.arange(max(size - 1, 1))).ravel()
        offsets = (offsets[:, None] + stride * np.arange(min(size, 2))).ravel()
    return cells, offsets
