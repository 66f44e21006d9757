"""Plan on beliefs between three and more types, common to all states: reachable beliefs, lattices over them, a pass.

Where few beliefs can be reached (with one type there is one), those are the points of a step, and the successor of each
reward is known. Elsewhere the points are a lattice: with coordinates x_i = n (b_i + b_i+1 + ...), i = 1 .. M-1, the
integers n >= x_1 >= x_2 >= ... Any belief lies in a simplex of M neighbors (Freudenthal's triangulation): round all
coordinates down, then raise them one by one, the largest fraction first; differences of consecutive fractions are the
weights of the corners. So

    upper += n * mixture of the next upper bounds at the M corners      the optimal value is convex in the belief
    lower += q * next values at the corner that is best at b', one for all next states

The belief in type m at step t is at least min_belief[m], because its odds fall by a bounded factor at each reward. The
remaining part of the simplex is a simplex again, and the lattice of a step covers only that. Steps with a small one
have a small lattice.

A lattice has C(n + M - 1, M - 1) points, and M corners per simplex. A product grid has 2^(M-1) corners, and sampled
beliefs with a sawtooth bound need far more points: at equal cost both left a wider bracket for four and more types.

Between passes a state-action is dropped at a step if its upper bound is below the certified value of another action at
every belief of the range, and skipped in the lattice cells where it is below. Fine passes then back up fewer actions,
two in five in random models. No optimal action is dropped, so the bracket stays valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, Ints
from rewardmix._core.int_dtypes import smallest_int_dtype
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_induction import (
    BackupInputs,
    BackupOutputs,
    BackwardInduction,
    SweepResult,
    estimate_sweep_bytes,
)
from rewardmix.planning.belief_points import BELIEF_DIGITS, ReachableBeliefs, enumerate_reachable

MAX_REACHABLE_BELIEFS = 512
"""Sets of reachable beliefs are enumerated up to this size."""
ODDS_MARGIN = 1.0 + 1e-9
"""Factor that widens the odds at each step, so that no rounded posterior leaves the next lattice."""
FIRST_POINTS = 500
"""Largest number of points of the first lattice."""
MAX_LATTICE_POINTS = 2_000_000
"""Largest number of points of a lattice."""
MAX_TYPES_FOR_PRUNING = 8
"""With more types a point has so many neighbors that pruning between passes costs more than it saves."""
MAX_PRUNED_CELLS = 512
"""Largest number of lattice cells per action with stored pruning results: those of the first lattice.

Checking more of them takes longer than the backups that they save.
"""
INDEX_DTYPE = smallest_int_dtype(MAX_LATTICE_POINTS)
"""Dtype of points and actions in a pass."""
NO_SUCCESSORS = np.zeros((0, 0), dtype=np.int32)
NO_COORDINATES = np.zeros((0, 0), dtype=np.int64)
NO_CELLS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Lattice:
    """Lattice of belief points of one step.

    Attributes:
        min_belief: (M,) smallest belief in each type.
        extent: Sum of the beliefs above these.
        resolution: Number of steps along an edge; 0 for a single point, of which only the value matters.
    """

    min_belief: Floats
    extent: float
    resolution: int

    @property
    def size(self) -> int:
        """Number of points."""
        return lattice_points(self.resolution, self.min_belief.size)

    @property
    def coordinates(self) -> Ints:
        """(N, M - 1) coordinates of each point."""
        return coordinates(self.resolution, self.min_belief.size)

    @property
    def ranks(self) -> Ints:
        """(M, resolution + 2) table that maps coordinates to the index of a point."""
        return coordinate_ranks(self.resolution, self.min_belief.size)

    @property
    def beliefs(self) -> Floats:
        """(N, M) belief of each point."""
        differences = np.diff(self.coordinates, axis=1, prepend=self.resolution, append=0)
        return np.ascontiguousarray(self.min_belief - self.extent * differences / max(self.resolution, 1))


@lru_cache(maxsize=1)  # most steps of a pass use one resolution; larger caches would keep big arrays alive
def coordinates(resolution: int, num_types: int) -> Ints:
    """List (N, M - 1) every x with resolution >= x_1 >= x_2 >= ... >= 0, in lexicographic order."""
    indices = np.arange(resolution + 1)[:, None]
    for _ in range(num_types - 2):
        counts = indices[:, -1] + 1
        offsets = np.repeat(np.cumsum(counts) - counts, counts)
        indices = np.column_stack([np.repeat(indices, counts, axis=0), np.arange(offsets.size) - offsets])
    return indices


@lru_cache(maxsize=64)
def coordinate_ranks(resolution: int, num_types: int) -> Ints:
    """Compute the (M, resolution + 2) table of ranks.

    The index of x among ``coordinates`` is the sum of ranks[i, x_i], i = 1 .. M - 1.
    """
    ranks = np.zeros((num_types, resolution + 2), dtype=np.int64)
    for i in range(1, num_types):
        for x in range(resolution + 2):
            # Number of tails (x_i, x_i+1, ...) that start below x: the combinatorial number system.
            ranks[i, x] = math.comb(x + num_types - 1 - i, num_types - i)
    return ranks


def lattice_points(resolution: int, num_types: int) -> int:
    """Return the number of points of a lattice, C(resolution + M - 1, M - 1)."""
    return math.comb(resolution + num_types - 1, num_types - 1)


def max_resolution(num_types: int, points: int) -> int:
    """Compute the largest resolution of a lattice with at most ``points`` points; at least 1."""
    resolution = 1
    while num_types > 1 and lattice_points(resolution + 1, num_types) <= points:
        resolution += 1
    return resolution


def min_beliefs(model: RewardMixingMDP) -> list[Floats]:
    """Compute lower bounds (M,) of the belief in each type for each step.

    The posteriors of beliefs within the bounds of a step are within those of the next.
    """
    probs = model.reward_probs.reshape(model.num_types, -1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # The largest likelihood ratio against a type; 0 / 0 is a reward that neither type gives, and is ignored.
        ratios = np.array([np.max(np.nan_to_num(probs / type_probs, nan=0.0, posinf=np.inf)) for type_probs in probs])
        odds_against = model.weights.sum() / model.weights - 1.0
        bounds = []
        for _ in range(model.horizon):
            bounds.append(1.0 / (1.0 + odds_against * ODDS_MARGIN))
            odds_against = odds_against * ODDS_MARGIN * ratios
    return bounds


class StepBeliefs:
    """Belief points of each step of a model, at any resolution.

    Attributes:
        reached: Every reachable belief of the first steps.
        vector_indices: (S * A, Z) index of the distinct likelihood vector of each reward.
        exact: Whether the reachable beliefs are known at every step.
    """

    def __init__(self, model: RewardMixingMDP) -> None:
        self.reached, self.vector_indices = enumerate_reachable(model, MAX_REACHABLE_BELIEFS)
        self.exact = len(self.reached) == model.horizon
        self._low = min_beliefs(model)
        self._spreads = [1.0 - float(low.sum()) for low in self._low]

    def at(self, resolution: int) -> list[ReachableBeliefs | Lattice]:
        """Return the points of each step: reachable beliefs where these are fewer than lattice points, else a lattice.

        The step with the widest lattice has resolution ``resolution``, narrower ones a proportional one.
        """
        if self.exact:
            return list(self.reached)
        widest = max(self._spreads)
        steps: list[ReachableBeliefs | Lattice] = [self.reached[0]]
        for t in range(1, len(self._low)):
            # Equal spacing of beliefs at all steps: steps that cover a smaller simplex need fewer points for it.
            step_resolution = max(1, math.ceil(resolution * self._spreads[t] / widest))
            lattice = Lattice(self._low[t], self._spreads[t], step_resolution)
            has_successors = isinstance(steps[-1], ReachableBeliefs) and t < len(self.reached)
            is_smaller = has_successors and (self.exact or self.reached[t].size <= lattice.size)
            steps.append(self.reached[t] if is_smaller else lattice)
        return steps


@dataclass(frozen=True, eq=False)
class DominatedCellTable:
    """Lattice cells of a step in which actions are dominated, found by an earlier pass.

    Attributes:
        resolution: Resolution of that lattice; 0 if there was none.
        rows: (R,) state-actions.
        dominated: (R, C) whether each is dominated in all of each cell.
    """

    resolution: int
    rows: Ints
    dominated: NDArray[np.bool_]

    def select_rows(self, rows: Ints) -> NDArray[np.bool_]:
        """Return the (R', C) masks of some of the state-actions."""
        return np.ascontiguousarray(self.dominated[np.searchsorted(self.rows, rows)])

    def mean_active_actions(self, rows: Ints) -> float:
        """Compute the mean number of actions to back up at a belief."""
        return float(
            rows.size if self.resolution == 0 else np.count_nonzero(~self.select_rows(rows)) / self.dominated.shape[1]
        )

    def cells(self, lattice: Lattice) -> Ints:
        """Compute the (N,) cell of this lattice in which each point of a finer lattice lies."""
        if self.resolution == 0:
            return NO_CELLS
        # Integer division rounds coordinates down exactly; a float quotient could put a point into the neighboring
        # cell.
        cell_coordinates = lattice.coordinates * self.resolution // max(lattice.resolution, 1)
        ranks = coordinate_ranks(self.resolution, lattice.min_belief.size)
        return np.asarray(sum(ranks[i + 1, cell_coordinates[:, i]] for i in range(cell_coordinates.shape[1])))


NO_DOMINATED_CELLS = DominatedCellTable(0, np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.bool_))


class LatticePlanner(BackwardInduction):
    """Backward passes on the belief points of each step; keeps the mask of active state-actions between passes."""

    def __init__(self, model: RewardMixingMDP) -> None:
        super().__init__(model)
        self.resolution_growth = model.num_types - 1
        self.first_resolution = max_resolution(model.num_types, FIRST_POINTS)
        self.max_resolution = max_resolution(model.num_types, MAX_LATTICE_POINTS)
        self.beliefs = StepBeliefs(model)
        self.end = Lattice(np.zeros(model.num_types), 1.0, 0)
        """Single point after the last step, where all values are 0."""
        # Merged beliefs differ by at most this in L1 norm; the value changes by at most H * max|reward| per unit,
        # at each of H steps.
        distance = model.num_types * 10.0**-BELIEF_DIGITS
        self.merge_error = distance * model.horizon**2 * float(np.abs(model.reward_values).max())
        self.dominated = [NO_DOMINATED_CELLS] * model.horizon

    def estimate_bytes(self, resolution: int) -> float:
        """Estimate the memory of a pass in bytes."""
        points = max(step.size for step in self.beliefs.at(resolution))
        return estimate_sweep_bytes(self.model, points, INDEX_DTYPE.itemsize) + float(self.active.size) * min(
            points, MAX_PRUNED_CELLS
        )

    def estimate_operations(self, resolution: int) -> float:
        """Estimate the elementary operations of a pass over the active state-actions."""
        model = self.model
        expectation = self.expect.mean_terms * (1 + model.num_types)
        backup = model.num_values * model.num_types * (model.num_types + 8.0)
        total = 0.0
        for t, step in enumerate(self.beliefs.at(resolution)):
            rows = np.flatnonzero(self.active[t])
            total += step.size * (rows.size * expectation + self.dominated[t].mean_active_actions(rows) * backup)
        return total

    def sweep(self, resolution: int, deadline: float) -> SweepResult | None:
        """Run one backward pass; return None if the deadline passed."""
        model, steps = self.model, [*self.beliefs.at(resolution), self.end]
        final_value = np.zeros((model.num_states, 1, 1 + model.num_types))

        def step(t: int, next_value: Floats) -> tuple[Floats, Ints, Ints]:
            """Compute values, actions and next nodes of step t."""
            return self._step(t, next_value, steps[t], steps[t + 1])

        return self.run(step, final_value, deadline, exact=self.beliefs.exact)

    def _step(
        self, t: int, next_value: Floats, now: ReachableBeliefs | Lattice, next_beliefs: ReachableBeliefs | Lattice
    ) -> tuple[Floats, Ints, Ints]:
        """Compute values, actions and next nodes at step t; drop rows that cannot be optimal."""
        from rewardmix.planning.backup_kernels import DominatedCells, LatticeCells, backup_lattice

        model, points = self.model, now.beliefs
        lattice = now if isinstance(now, Lattice) else self.end
        next_lattice = next_beliefs if isinstance(next_beliefs, Lattice) else self.end
        # Successors are known only between two sets of reachable beliefs; from or to a lattice they are interpolated.
        successors = (
            now.successors
            if isinstance(now, ReachableBeliefs) and isinstance(next_beliefs, ReachableBeliefs)
            else NO_SUCCESSORS
        )
        prunes = isinstance(now, Lattice) and model.num_types <= MAX_TYPES_FOR_PRUNING
        coords = lattice.coordinates if prunes else NO_COORDINATES
        cells = LatticeCells(tuple(next_lattice.min_belief.tolist()), next_lattice.extent, next_lattice.ranks)
        slack = 2 * self.margin + self.merge_error
        compiled: Callable[..., None] = backup_lattice
        previous = self.dominated[t] if prunes else NO_DOMINATED_CELLS
        cell = previous.cells(lattice)
        active_rows = np.flatnonzero(self.active[t])
        dominated = np.zeros(
            (active_rows.size, len(points) if prunes and len(points) <= MAX_PRUNED_CELLS else 0), dtype=np.bool_
        )

        def backup(rows: Ints, tables: BackupInputs, out: BackupOutputs) -> None:
            """Fill the results of some rows."""
            indices = self.beliefs.vector_indices[rows]
            k = int(np.searchsorted(active_rows, rows[0]))
            pruned = DominatedCells(
                cell, previous.select_rows(rows) if cell.size else previous.dominated, dominated[k : k + rows.size]
            )
            compiled(*tables, points, indices, successors, cells, coords, lattice.ranks, pruned, slack, *out)

        value = np.empty((model.num_states, len(points), 1 + model.num_types))
        result = self.backup_step(
            t, next_value, value, INDEX_DTYPE, backup, drop=prunes or isinstance(now, ReachableBeliefs)
        )
        if dominated.size:
            self.dominated[t] = DominatedCellTable(lattice.resolution, active_rows, dominated)
        return result
