"""Two contexts: a grid of beliefs in context 0, common to all states.

For each (s, a), grid belief b and outcome with laws q:   n = sum_m b_m q_m,   b' = b q / n,   g_j <= b' <= g_j+1

    upper += n * interpolation of the next upper bounds at b'      the best value is convex in the belief
    lower += q * next pair of values at j*                         j* the better of j, j+1, one for all next states
"""

from __future__ import annotations

import numpy as np

from rewardmix.model import RewardMixingMDP
from rewardmix.planning.grids import Reach, inverse_widths, log_ratios
from rewardmix.planning.sweeps import Axes, Block


class Segment:
    """Beliefs between two contexts."""

    first = 24
    largest = 1 << 15
    growth = 1
    steps = 16.0

    def __init__(self, model: RewardMixingMDP) -> None:
        self.horizon = model.horizon
        ratios = log_ratios(model.laws[0].ravel(), model.laws[1].ravel())
        self.reach = Reach(model.weights, ratios, model.horizon)

    def axes(self, step: int, resolution: int) -> Axes:
        """Beliefs in context 0."""
        return (np.array([0.0, 1.0]) if step == self.horizon else self.reach.grid(step, resolution),)

    def exact(self, resolution: int) -> bool:
        """Whether every step has its reachable points as grid."""
        return all(self.reach.few(t, resolution) for t in range(self.horizon))

    def points(self, resolution: int) -> int:
        """Points of a full grid."""
        return resolution + 2

    def backup(self, block: Block, now: Axes, later: Axes, slack: float) -> None:
        """One backward step for a block of states."""
        from rewardmix.planning.kernels import backup_two

        backup_two(
            block.laws, block.means, block.starts, block.labels, block.ahead,
            now[0], later[0], inverse_widths(later[0]), slack,
            block.value, block.best, block.moves, block.keep,
        )  # fmt: skip
