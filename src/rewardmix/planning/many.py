"""Any number of contexts: bounds on belief points, common to all states.

    points   the corners of the simplex, and beliefs that can be reached: all of them, or more in every sweep
    upper    sawtooth: between the corners' mean and the points, the lowest of the pyramids is above a convex function
    lower    the values that node k earns in each context; after an outcome the best next node, one for all next states

With all reachable beliefs as points both bounds are exact. Otherwise the bracket shrinks as points are added where
sampled paths of the hopeful policy lead, and the best one found is returned.
"""

from __future__ import annotations

import time

import numpy as np

from rewardmix._core.algebra import dot, product
from rewardmix._core.checks import Floats, Ints
from rewardmix._core.streams import Role, generator
from rewardmix._core.widths import width_of
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.reachable import reachable_beliefs, sampled_beliefs, spread_out, with_corners
from rewardmix.planning.refinement import Sweep
from rewardmix.planning.rounding import rounding_bound
from rewardmix.planning.sweeps import blocks, pass_bytes
from rewardmix.planning.tables import compact
from rewardmix.planning.transitions import Expectation

REACHABLE_CAP = 512
"""If no step has more reachable beliefs, all of them are used."""
CANDIDATES = 4
"""Beliefs that are sampled for each point that a step may have."""


class PointSweeper:
    """Sweeps on point sets that grow."""

    first = 32
    largest = 4096
    growth = 2

    def __init__(self, model: RewardMixingMDP, reachable: list[Floats] | None) -> None:
        self.model = model
        self.expect = Expectation(model)
        num_contexts = model.num_contexts
        self.laws = np.ascontiguousarray(np.moveaxis(model.laws, 0, -1)).reshape(-1, model.num_values, num_contexts)
        self.means = np.ascontiguousarray(np.moveaxis(model.means, 0, -1)).reshape(-1, num_contexts)
        self.margin = rounding_bound(model, self.expect.width)
        self.rows = np.arange(self.means.shape[0])
        self.starts = np.arange(model.num_states + 1) * model.num_actions
        self.complete = reachable is not None
        start = model.weights[None] / model.weights.sum()
        rest = reachable[1:] if reachable is not None else [start] * (model.horizon - 1)
        self.points = [start, *(with_corners(points) for points in rest)]
        self.hope: list[Ints] | None = None
        if reachable is not None:
            self.first = max(map(len, self.points))

    def bytes(self, resolution: int) -> float:
        """Memory of a pass."""
        grown = resolution + self.model.num_contexts
        hopes = 8.0 * self.model.num_states * self.model.horizon * grown  # what points are added by, beside the tables
        affinities = 0.0 if self.complete else 16.0 * CANDIDATES * resolution * grown
        return pass_bytes(self.model, grown) + hopes + affinities

    def work(self, resolution: int) -> float:
        """Simple steps of a pass: every point with every next point, and before it the search for new points."""
        model, grown = self.model, resolution + self.model.num_contexts
        rows = float(model.num_states) * model.num_actions
        pairs = model.num_values * 2 * model.num_contexts * float(grown) ** 2
        ahead = self.expect.steps * (1 + model.num_contexts) * grown
        search = 0.0 if self.complete else 2.0 * CANDIDATES * resolution * grown * model.num_contexts
        return model.horizon * (rows * (pairs + ahead) + search)

    def sweep(self, resolution: int, deadline: float) -> Sweep | None:
        """Add points up to ``resolution`` a step, then one backward pass."""
        model, num_states = self.model, self.model.num_states
        points = self.points if self.complete else self._grown(resolution)
        later, next_points = (
            np.zeros((num_states, 1 + model.num_contexts, model.num_contexts)),
            np.eye(model.num_contexts),
        )
        actions, hopes, successors = [], [], []
        for t in reversed(range(model.horizon)):
            if time.perf_counter() > deadline:
                return None
            best = np.zeros((num_states, points[t].shape[0]), dtype=width_of(model.num_actions, "int32"))
            hope = np.zeros_like(best)
            moves = np.zeros((*best.shape, model.num_values), dtype=width_of(next_points.shape[0], "int16"))
            later = self._step(later, points[t], next_points, best, hope, moves)
            next_points = points[t]
            actions.append(best)
            hopes.append(hope)
            successors.append(moves)
        self.points, self.hope = points, hopes[::-1]
        lower = float(dot(model.initial, product(later[:, 1:, 0], model.weights)))
        upper = max(float(dot(model.initial, later[:, 0, 0])) * float(model.weights.sum()), lower)
        return Sweep(
            lower - self.margin,
            upper + self.margin,
            max(map(len, points)),
            self.complete,
            2 * self.margin,
            lambda: compact(actions[::-1], successors[::-1], np.zeros(num_states, dtype=np.int64), model),
        )

    def _grown(self, resolution: int) -> list[Floats]:
        """More points at each step, on paths of the hopeful policy of the last sweep."""
        rng = generator(0, Role.PLANNED_BELIEFS, resolution)
        sampled = sampled_beliefs(self.model, self.points, self.hope, CANDIDATES * resolution, rng)
        more = zip(self.points[1:], sampled[1:], strict=True)
        return [self.points[0], *(spread_out(old, new, resolution - old.shape[0]) for old, new in more)]

    def _step(self, later: Floats, points: Floats, next_points: Floats, best: Ints, hope: Ints, moves: Ints) -> Floats:
        """The values of one step; fills the tables."""
        from rewardmix.planning.kernels_many import backup_many

        with np.errstate(divide="ignore"):
            inverse = np.ascontiguousarray(1.0 / next_points.T)
        value = np.empty((best.shape[0], later.shape[1], points.shape[0]))
        flat = later.reshape(later.shape[0], -1)
        for low, high in blocks(self.starts, 8 * flat.shape[1]):
            part = slice(self.starts[low], self.starts[high])
            ahead = self.expect(self.rows[part], flat).reshape(-1, *later.shape[1:])
            backup_many(
                self.laws[part],
                self.means[part],
                self.starts[low : high + 1] - self.starts[low],
                self.rows[part] % self.model.num_actions,
                ahead,
                points,
                next_points,
                inverse,
                value[low:high],
                best[low:high],
                hope[low:high],
                moves[low:high],
            )
        return value


def point_sweeper(model: RewardMixingMDP) -> PointSweeper:
    """Sweeps on all reachable beliefs if they are few, otherwise on growing samples of them."""
    return PointSweeper(model, reachable_beliefs(model, REACHABLE_CAP))
