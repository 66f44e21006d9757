"""Three contexts: a triangulated grid over the simplex of beliefs, common to all states.

A belief is (g, (1-g) r, (1-g) (1-r)): g in context 0, and r in context 1 given that it is not 0. Lines of equal g and
rays of equal r cut the simplex into trapezoids with straight sides. r moves by a Bayes update of its own, whatever
g is; and along a ray, g moves monotonically. So the cell of a posterior is found by moving pointers.

    upper += n * the smaller interpolation at b' over the two ways to cut the cell into triangles
    lower += q * next values at the corner that is best at b', one for all next states
"""

from __future__ import annotations

import numpy as np

from rewardmix.model import RewardMixingMDP
from rewardmix.planning.grids import Reach, inverse_widths, log_ratios
from rewardmix.planning.sweeps import Axes, Block


class Triangle:
    """Beliefs between three contexts."""

    first = 12
    largest = 1024
    growth = 2

    def __init__(self, model: RewardMixingMDP) -> None:
        self.horizon = model.horizon
        zero, one, two = (law.ravel() for law in model.laws)
        weights = model.weights
        apart = np.concatenate([log_ratios(zero, one), log_ratios(zero, two)])
        self.apex = Reach(
            np.array([weights[0], weights[1] + weights[2]]), np.unique(apart), model.horizon, follow=False
        )
        self.base = Reach(weights[1:], log_ratios(one, two), model.horizon)

    def axes(self, step: int, resolution: int) -> Axes:
        """Values of g and of r."""
        if step == self.horizon:
            return np.array([0.0, 1.0]), np.array([0.0, 1.0])
        return self.apex.grid(step, resolution), self.base.grid(step, resolution)

    def exact(self, resolution: int) -> bool:
        """Never known."""
        return False

    def points(self, resolution: int) -> int:
        """Points of a full grid."""
        return (resolution + 2) ** 2

    def backup(self, block: Block, now: Axes, later: Axes, slack: float) -> None:
        """One backward step for a block of states."""
        from rewardmix.planning.kernels_three import backup_three

        backup_three(
            block.laws, block.means, block.starts, block.labels, block.ahead,
            now[0], now[1], later[0], later[1], inverse_widths(later[0]), inverse_widths(later[1]), slack,
            block.value, block.best, block.moves, block.keep,
        )  # fmt: skip
