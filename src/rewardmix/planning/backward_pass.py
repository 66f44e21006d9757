"""One backward pass over the steps, whatever the belief points: expected next values, blocks of rows, the bracket.

value[s, 0, k]        an upper bound of the best value at belief point k
value[s, 1 + m, k]    what one policy (node k of the controller) earns in context m
for t = H .. 1:       ahead = T value, one matrix product; then a backup (``backups``) on the points of the step
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rewardmix._core.algebra import dot, product
from rewardmix._core.checks import Floats, Ints, shut
from rewardmix._core.widths import width_of
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.plans import rounding_bound
from rewardmix.policy import Controller

BLOCK_BYTES = 1 << 21
"""Rows are handled in blocks of about this size, to stay in cache between the product and the backup."""
BLOCK_ROWS = 96
"""At least so many rows a block where the transition is dense: that product is slow on fewer."""
SPARSE_BELOW = 0.1
"""A dense transition with a smaller share of non-zero entries is multiplied as a sparse one."""

RowTables = tuple[Floats | Ints, ...]
"""What every backup begins with: laws (R, Z, M), means (R, M), starts (n + 1,), labels (R,) and ahead (R, 1 + M, L)."""
Filled = tuple[Floats, Ints, Ints, NDArray[np.bool_]]
"""What every backup ends with, to be filled: values, actions and next nodes of states, and which rows stay in play."""


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


class BackwardPass:
    """The rows (state-actions) of a model, and the pass over its steps.

    Attributes:
        model: what is planned for.
        expect: expected next values of chosen rows.
        laws: (S * A, Z, M) law of the outcome in each context.
        means: (S * A, M) expected reward in each context.
        margin: bound of the rounding errors of a pass.
        keep: (H, S, A) state-actions that are still in play.
        grouping: how far off an upper bound may be because beliefs that are nearly equal count as one point.
    """

    grouping = 0.0

    def __init__(self, model: RewardMixingMDP) -> None:
        self.model = model
        self.expect = Expectation(model)
        num_contexts = model.num_contexts
        self.laws = np.ascontiguousarray(np.moveaxis(model.laws, 0, -1)).reshape(-1, model.num_values, num_contexts)
        self.means = np.ascontiguousarray(np.moveaxis(model.means, 0, -1)).reshape(-1, num_contexts)
        self.margin = rounding_bound(model, self.expect.width)
        self.keep = np.ones((model.horizon, model.num_states, model.num_actions), dtype=np.bool_)

    def run(
        self, step: Callable[[int, Floats], tuple[Floats, Ints, Ints]], nothing: Floats, deadline: float, *, exact: bool
    ) -> Sweep | None:
        """From the last step to the first; None if the deadline (time.perf_counter) passed on the way.

        Args:
            step: (t, values at step t + 1) -> values (S, 1 + M, N) or (S, N, 1 + M), actions (S, N) and next nodes
                (S, N, Z) of step t. At the first step there is one point, the weights.
            nothing: values after the last step, all 0.
            deadline: asked for before every step.
            exact: whether no step interpolates.
        """
        model = self.model
        value = nothing
        actions, successors = [], []
        for t in reversed(range(model.horizon)):
            if time.perf_counter() > deadline:
                return None
            value, best, moves = step(t, value)
            actions.append(best)
            successors.append(moves)
        root = value.reshape(model.num_states, 1 + model.num_contexts)
        lower = float(dot(model.initial, product(root[:, 1:], model.weights)))
        upper = max(float(dot(model.initial, root[:, 0])) * float(model.weights.sum()), lower)
        points, margin = max(best.shape[1] for best in actions), self.margin
        policy = partial(compact_controller, actions[::-1], successors[::-1], model)
        above = margin + self.grouping
        return Sweep(lower - margin, upper + above, points, exact, margin + above, policy)

    def back_up(
        self,
        t: int,
        later: Floats,
        value: Floats,
        index: DTypeLike,
        backup: Callable[[Ints, RowTables, Filled], None],
        *,
        drop: bool,
    ) -> tuple[Floats, Ints, Ints]:
        """Values, actions and next nodes of step t, block by block.

        Args:
            t: the step.
            later: values at the next step.
            value: out, values of this step, (S, 1 + M, N) or (S, N, 1 + M).
            index: type of actions and nodes.
            backup: fills the results of some rows from their tables.
            drop: whether rows that cannot be optimal are out of play from now on.
        """
        model = self.model
        best = np.empty((model.num_states, value[0].size // (1 + model.num_contexts)), dtype=index)
        moves = np.empty((*best.shape, model.num_values), dtype=index)
        rows = np.flatnonzero(self.keep[t])
        keep = np.empty(rows.size, dtype=np.bool_)
        starts = np.append(0, np.cumsum(self.keep[t].sum(axis=1)))
        for states, part, tables in self.blocks(rows, starts, later):
            backup(rows[part], tables, (value[states], best[states], moves[states], keep[part]))
        if drop:
            self.keep[t].flat[rows] = keep
        return value, best, moves

    def blocks(self, rows: Ints, starts: Ints, later: Floats) -> Iterator[tuple[slice, slice, RowTables]]:
        """(states, their part of ``rows``, what backups ask of it: laws, means, starts, labels and ahead), in blocks.

        Args:
            rows: state-actions, increasing.
            starts: (S + 1,) place in ``rows`` of the first of each state.
            later: (S, 1 + M, L) values at the next step.
        """
        flat = later.reshape(later.shape[0], -1)
        for low, high in _cuts(starts, max(self.expect.least, BLOCK_BYTES // (8 * flat.shape[1]))):
            part = slice(starts[low], starts[high])
            chosen = rows[part]
            ahead = self.expect(chosen, flat).reshape(-1, *later.shape[1:])
            own, labels = starts[low : high + 1] - starts[low], chosen % self.model.num_actions
            yield slice(low, high), part, (self.laws[chosen], self.means[chosen], own, labels, ahead)


class Expectation:
    """x -> sum_s' T[x, s'] values[s']; the cost is proportional to the non-zero entries where they are few."""

    def __init__(self, model: RewardMixingMDP) -> None:
        rows = model.transition_rows
        self.width = model.num_states
        """Most terms in one sum."""
        self.steps = float(model.num_states)
        """Terms of a sum, on average."""
        self.least = BLOCK_ROWS
        """Rows below which a product is slow."""
        self._dense: Floats | None = None
        if model.is_sparse:
            parts = rows.indptr, rows.indices, rows.data
        elif np.count_nonzero(rows) > SPARSE_BELOW * rows.size:
            self._dense = rows
            return
        else:
            owner, columns = np.nonzero(rows)
            parts = np.searchsorted(owner, np.arange(rows.shape[0] + 1)), columns, rows[owner, columns]
        self.least = 1
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


def pass_bytes(model: RewardMixingMDP, points: int, width: int) -> float:
    """Estimate of the memory of one backward pass with so many belief points a step, numbered with ``width`` bytes.

    The tables of the controller, two steps of values, one block of products.
    """
    cells = float(model.num_states) * points
    tables = cells * model.horizon * (1 + model.num_values) * width
    values = 2 * 8 * cells * (1 + model.num_contexts)
    block = max(BLOCK_BYTES, 8.0 * (1 + model.num_contexts) * points * max(BLOCK_ROWS, model.num_actions))
    rows = float(model.num_states) * model.num_actions
    return tables + values + block + model.horizon * rows + 8 * rows * model.num_contexts * (model.num_values + 1)


def _cuts(starts: Ints, wanted: int) -> Iterator[tuple[int, int]]:
    """Ranges of states whose rows fill a block of ``wanted`` rows each."""
    low, last = 0, starts.size - 1
    while low < last:
        high = max(int(np.searchsorted(starts, starts[low] + wanted, "right")) - 1, low + 1)
        yield low, high
        low = high


def compact_controller(actions: Sequence[Ints], successors: Sequence[Ints], model: RewardMixingMDP) -> Controller:
    """The controller of these tables, which starts at node 0 in every state, in little memory.

    Node columns that no path enters are left out; numbers have the smallest type that holds them.
    """
    lean_actions: list[Ints] = []
    lean_successors: list[Ints] = []
    used = np.zeros(1, dtype=np.int64)
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
    first = np.zeros(model.num_states, dtype=np.int64)
    return Controller(tuple(lean_actions), tuple(lean_successors), first, model.reward_values)
