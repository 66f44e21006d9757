"""Beliefs between three and more contexts, common to all states: which there can be, lattices over them, a pass.

Where few beliefs can be reached (of one context there is one), those are the points of a step, and where each outcome
leads is known. Elsewhere the points are a lattice: with coordinates x_i = n (b_i + b_i+1 + ...), i = 1 .. M-1, the
integers n >= x_1 >= x_2 >= ... Any belief lies in a simplex of M neighbours
(Freudenthal's triangulation): round all coordinates down, then raise them one by one, the largest fraction first; what
fractions differ by are the shares of the corners. So

    upper += n * mixture of the next upper bounds at the M corners      the best value is convex in the belief
    lower += q * next values at the corner that is best at b', one for all next states

The belief in context m at step t is at least low[m]: its odds fall by a bounded factor at each outcome. What is left of
the simplex above these is a simplex again, and the lattice of a step covers no more than that. Steps with a small one
have a small lattice.

A lattice has C(n + M - 1, M - 1) points with M corners each. A product grid has 2^(M-1) corners, and sampled beliefs
under a sawtooth need far more points: at equal work both left a wider bracket for four and more contexts.

Between passes a state-action is dropped at a step if its upper bound is below what another action is known to earn, at
every belief of the range, and passed over in the cells of the lattice in which it is below: fine passes then back up
fewer actions, two in five of them in random worlds. No optimal action is lost, so the bracket holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, Ints
from rewardmix._core.widths import width_of
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_pass import BackwardPass, Filled, RowTables, Sweep, pass_bytes
from rewardmix.planning.points import BELIEF_DIGITS, Reached, reached_beliefs

MOST_REACHED = 512
"""Sets of reachable beliefs are followed up to this size."""
WIDENED = 1.0 + 1e-9
"""What odds are widened by at each step, so that no rounded posterior leaves the next lattice."""
FIRST_POINTS = 500
"""Points of the first lattice, at most."""
MOST_POINTS = 2_000_000
"""A finer lattice is not tried."""
MOST_COMPARED = 8
"""For more contexts a point has so many neighbours that no action is dropped between passes."""
MOST_CELLS = 512
"""Cells of a lattice that are remembered for each action: those of the first. To look at more of them takes longer than
what they leave out beyond."""
INDEX = width_of(MOST_POINTS)
"""Of points and actions in a pass."""
NOWHERE = np.zeros((0, 0), dtype=np.int32)
NO_PLACES = np.zeros((0, 0), dtype=np.int64)
NO_CELLS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Lattice:
    """The lattice of one step.

    Attributes:
        low: (M,) least belief in each context.
        spread: what the beliefs above these add up to.
        resolution: steps along an edge; 0 for a single point, of which only the value matters.
    """

    low: Floats
    spread: float
    resolution: int

    @property
    def size(self) -> int:
        """How many points there are."""
        return lattice_points(self.resolution, self.low.size)

    @property
    def places(self) -> Ints:
        """(N, M - 1) coordinates of each point."""
        return coordinates(self.resolution, self.low.size)

    @property
    def ranks(self) -> Ints:
        """What gives the point of coordinates."""
        return ranks_of(self.resolution, self.low.size)

    @property
    def beliefs(self) -> Floats:
        """(N, M)."""
        falls = np.diff(self.places, axis=1, prepend=self.resolution, append=0)
        return np.ascontiguousarray(self.low - self.spread * falls / max(self.resolution, 1))


@lru_cache(maxsize=1)  # a pass asks for the same at most of its steps, and large ones are not to stay
def coordinates(resolution: int, num_contexts: int) -> Ints:
    """(N, M - 1): every x with resolution >= x_1 >= x_2 >= ... >= 0, in lexicographic order."""
    found = np.arange(resolution + 1)[:, None]
    for _ in range(num_contexts - 2):
        counts = found[:, -1] + 1
        begin = np.repeat(np.cumsum(counts) - counts, counts)
        found = np.column_stack([np.repeat(found, counts, axis=0), np.arange(begin.size) - begin])
    return found


@lru_cache(maxsize=64)
def ranks_of(resolution: int, num_contexts: int) -> Ints:
    """(M, resolution + 2): the place of x among ``coordinates`` is the sum of ranks[i, x_i], i = 1 .. M - 1."""
    ranks = np.zeros((num_contexts, resolution + 2), dtype=np.int64)
    for i in range(1, num_contexts):
        for x in range(resolution + 2):
            ranks[i, x] = math.comb(x + num_contexts - 1 - i, num_contexts - i)
    return ranks


def lattice_points(resolution: int, num_contexts: int) -> int:
    """How many points a lattice has."""
    return math.comb(resolution + num_contexts - 1, num_contexts - 1)


def finest(num_contexts: int, points: int) -> int:
    """The finest lattice of at most so many points; at least the corners. Of one context there is a single belief."""
    resolution = 1
    while num_contexts > 1 and lattice_points(resolution + 1, num_contexts) <= points:
        resolution += 1
    return resolution


def least_beliefs(model: RewardMixingMDP) -> list[Floats]:
    """H arrays (M,): the belief in each context is at least this at each step, and so is its posterior at the next."""
    laws = model.laws.reshape(model.num_contexts, -1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = np.array([np.max(np.nan_to_num(laws / own, nan=0.0, posinf=np.inf)) for own in laws])
        against = model.weights.sum() / model.weights - 1.0
        found = []
        for _ in range(model.horizon):
            found.append(1.0 / (1.0 + against * WIDENED))
            against = against * WIDENED * ratios
    return found


class BeliefSteps:
    """The beliefs of each step of a model, as finely as is asked for.

    Attributes:
        reached: of the first steps, every belief that can occur.
        kinds: (S * A, Z) which of the distinct laws an outcome has.
        exact: whether they are known at every step.
    """

    def __init__(self, model: RewardMixingMDP) -> None:
        self.reached, self.kinds = reached_beliefs(model, MOST_REACHED)
        self.exact = len(self.reached) == model.horizon
        self._low = least_beliefs(model)
        self._spreads = [1.0 - float(low.sum()) for low in self._low]

    def at(self, resolution: int) -> list[Reached | Lattice]:
        """Those that can be reached, where they are fewer than the points of a lattice with the widest resolution."""
        if self.exact:
            return list(self.reached)
        widest = max(self._spreads)
        chosen: list[Reached | Lattice] = [self.reached[0]]
        for t in range(1, len(self._low)):
            finest_here = max(1, math.ceil(resolution * self._spreads[t] / widest))
            lattice = Lattice(self._low[t], self._spreads[t], finest_here)
            followed = isinstance(chosen[-1], Reached) and t < len(self.reached)
            few = followed and (self.exact or self.reached[t].size <= lattice.size)
            chosen.append(self.reached[t] if few else lattice)
        return chosen


@dataclass(frozen=True, eq=False)
class BeatenCells:
    """Where on the lattice of a step an action cannot be optimal, as an earlier pass found it.

    Attributes:
        resolution: of that lattice; 0 if there was none.
        rows: (R,) state-actions.
        beaten: (R, C) whether each is beaten all over each cell.
    """

    resolution: int
    rows: Ints
    beaten: NDArray[np.bool_]

    def of(self, rows: Ints) -> NDArray[np.bool_]:
        """(R', C) for some of the state-actions."""
        return np.ascontiguousarray(self.beaten[np.searchsorted(self.rows, rows)])

    def left(self, rows: Ints) -> float:
        """How many actions there are to back up at a belief, on average."""
        return float(rows.size if self.resolution == 0 else np.count_nonzero(~self.of(rows)) / self.beaten.shape[1])

    def cells(self, lattice: Lattice) -> Ints:
        """(N,): the cell in which each point of a finer lattice lies."""
        if self.resolution == 0:
            return NO_CELLS
        places = lattice.places * self.resolution // max(lattice.resolution, 1)
        ranks = ranks_of(self.resolution, lattice.low.size)
        return np.asarray(sum(ranks[i + 1, places[:, i]] for i in range(places.shape[1])))


NOTHING_BEATEN = BeatenCells(0, np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.bool_))


class LatticeSweeper(BackwardPass):
    """Passes on the beliefs of each step; remembers which state-actions are still in play."""

    def __init__(self, model: RewardMixingMDP) -> None:
        super().__init__(model)
        self.growth = model.num_contexts - 1
        self.first = finest(model.num_contexts, FIRST_POINTS)
        self.largest = finest(model.num_contexts, MOST_POINTS)
        self.beliefs = BeliefSteps(model)
        self.end = Lattice(np.zeros(model.num_contexts), 1.0, 0)
        """After the last step there is nothing to tell apart."""
        apart = model.num_contexts * 10.0**-BELIEF_DIGITS  # of two beliefs that count as one
        self.grouping = apart * model.horizon**2 * float(np.abs(model.reward_values).max())
        self.beaten = [NOTHING_BEATEN] * model.horizon

    def bytes(self, resolution: int) -> float:
        """Memory of a pass."""
        points = max(step.size for step in self.beliefs.at(resolution))
        return pass_bytes(self.model, points, INDEX.itemsize) + float(self.keep.size) * min(points, MOST_CELLS)

    def work(self, resolution: int) -> float:
        """Simple steps of a pass over the state-actions that are still in play."""
        model = self.model
        ahead = self.expect.steps * (1 + model.num_contexts)
        backup = model.num_values * model.num_contexts * (model.num_contexts + 8.0)
        total = 0.0
        for t, step in enumerate(self.beliefs.at(resolution)):
            rows = np.flatnonzero(self.keep[t])
            total += step.size * (rows.size * ahead + self.beaten[t].left(rows) * backup)
        return total

    def sweep(self, resolution: int, deadline: float) -> Sweep | None:
        """One backward pass."""
        model, steps = self.model, [*self.beliefs.at(resolution), self.end]
        nothing = np.zeros((model.num_states, 1, 1 + model.num_contexts))

        def step(t: int, later: Floats) -> tuple[Floats, Ints, Ints]:
            return self._step(t, later, steps[t], steps[t + 1])

        return self.run(step, nothing, deadline, exact=self.beliefs.exact)

    def _step(
        self, t: int, later: Floats, now: Reached | Lattice, following: Reached | Lattice
    ) -> tuple[Floats, Ints, Ints]:
        """Values, actions and next nodes at step t; drops rows that cannot be optimal."""
        from rewardmix.planning.backups import Beaten, Cells, backup_lattice

        model, points = self.model, now.beliefs
        own = now if isinstance(now, Lattice) else self.end
        around = following if isinstance(following, Lattice) else self.end
        after = now.after if isinstance(now, Reached) and isinstance(following, Reached) else NOWHERE
        compared = isinstance(now, Lattice) and model.num_contexts <= MOST_COMPARED
        places = own.places if compared else NO_PLACES
        cells = Cells(tuple(around.low.tolist()), around.spread, around.ranks)
        slack = 2 * self.margin + self.grouping
        compiled: Callable[..., None] = backup_lattice
        before = self.beaten[t] if compared else NOTHING_BEATEN
        cell = before.cells(own)
        left = np.flatnonzero(self.keep[t])
        found = np.zeros((left.size, len(points) if compared and len(points) <= MOST_CELLS else 0), dtype=np.bool_)

        def backup(rows: Ints, tables: RowTables, out: Filled) -> None:
            kinds = self.beliefs.kinds[rows]
            place = int(np.searchsorted(left, rows[0]))
            beaten = Beaten(cell, before.of(rows) if cell.size else before.beaten, found[place : place + rows.size])
            compiled(*tables, points, kinds, after, cells, places, own.ranks, beaten, slack, *out)

        value = np.empty((model.num_states, len(points), 1 + model.num_contexts))
        done = self.back_up(t, later, value, INDEX, backup, drop=compared or isinstance(now, Reached))
        if found.size:
            self.beaten[t] = BeatenCells(own.resolution, left, found)
        return done
