"""Four and more contexts: points for the lower bound and, while it can be afforded, a product grid for the upper.

Points lie where good play leads, so few of them earn much; but the sawtooth above them comes down slowly. The product
grid has it the other way round. Each sweep runs both, and takes the better of each bound.
"""

from __future__ import annotations

from rewardmix.model import RewardMixingMDP
from rewardmix.planning.box import Box
from rewardmix.planning.many import PointSweeper
from rewardmix.planning.refinement import Sweep
from rewardmix.planning.sweeps import GridSweeper

GRID_SHARE = 4.0
"""Time for the grid, in units of the time for the points."""
PAIR_COST, POINT_COST, CORNER_COST = 5.5, 50.0, 0.7
"""Nanoseconds, as measured: for a pair of points; for a grid point, and for each number at a corner of its cell."""
COARSEST = 2
"""A coarser grid says nothing that the corners do not."""


class Both:
    """Sweeps of points and of a grid, of comparable cost."""

    first, largest, growth = PointSweeper.first, PointSweeper.largest, PointSweeper.growth

    def __init__(self, model: RewardMixingMDP, points: PointSweeper) -> None:
        self.points = points
        self.grid = GridSweeper(model, Box(model))
        self.num_contexts = model.num_contexts

    def bytes(self, resolution: int) -> float:
        """Memory of the larger pass."""
        return max(self.points.bytes(resolution), self.grid.bytes(self.grid_resolution(resolution)))

    def work(self, resolution: int) -> float:
        """Simple steps of both passes."""
        fine = self.grid_resolution(resolution)
        return self.points.work(resolution) + (self.grid.work(fine) if fine >= COARSEST else 0.0)

    def sweep(self, resolution: int, deadline: float) -> Sweep | None:
        """A pass on ``resolution`` points, and before it one on the grid that it pays for."""
        fine = self.grid_resolution(resolution)
        on_grid = self.grid.sweep(fine, deadline) if fine >= COARSEST else None
        on_points = self.points.sweep(resolution, deadline)
        if on_grid is None or on_points is None:
            return on_grid or on_points
        best = max(on_points, on_grid, key=lambda found: found.lower)
        upper = min(on_points.upper, on_grid.upper)
        return Sweep(best.lower, upper, max(on_points.points, on_grid.points), False, best.floor, best.policy)

    def grid_resolution(self, count: int) -> int:
        """The grid whose pass costs ``GRID_SHARE`` times that of ``count`` points: their pairs against its corners."""
        corners = (self.num_contexts + 1) * 2.0 ** (self.num_contexts - 1)
        points = GRID_SHARE * PAIR_COST * count**2 / (POINT_COST + CORNER_COST * corners)
        return min(int(points ** (1.0 / (self.num_contexts - 1))) - 1, self.grid.largest)
