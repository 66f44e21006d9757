"""Run backward induction over the steps for any set of belief points: expected next values, blocks of rows, the
bracket.

value[s, 0, k]        an upper bound of the optimal value at belief point k
value[s, 1 + m, k]    the value of one policy (node k of the controller) for type m
for t = H .. 1:       ahead = T value, one matrix product; then a backup (``backup_kernels``) at the points of the step
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rewardmix._core.checks import Floats, Ints, mark_readonly
from rewardmix._core.int_dtypes import smallest_int_dtype
from rewardmix._core.linear_algebra import dot, product
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.plan_result import max_rounding_error
from rewardmix.policy import Controller

BLOCK_BYTES = 1 << 21
"""Approximate size of a block of rows, small enough to stay in cache between the product and the backup."""
MIN_BLOCK_ROWS = 96
"""Smallest number of rows in a block where the transition is dense: the matrix product is slow on fewer."""
MAX_SPARSE_DENSITY = 0.1
"""A dense transition with a smaller share of nonzero entries is multiplied as a sparse one."""

BackupInputs = tuple[Floats | Ints, ...]
"""Inputs of every backup: reward probabilities (R, Z, M), means (R, M), starts (n + 1,), labels (R,), ahead
(R, 1 + M, L).
"""
BackupOutputs = tuple[Floats, Ints, Ints, NDArray[np.bool_]]
"""Outputs of every backup: values, actions and next nodes of states, and the mask of rows that stay active."""


@dataclass(frozen=True, eq=False)
class SweepResult:
    """Result of one backward pass: a bracket of the optimal value and the controller that attains its lower end.

    Attributes:
        lower: Certified lower bound.
        upper: Certified upper bound.
        points: Largest number of belief points at one step.
        exact: Whether no interpolation took place, so that a finer grid changes nothing.
        rounding_gap: The part of the gap that is due to rounding; no grid gets below it.
        policy: Makes the controller (called only for the pass that is returned).
    """

    lower: float
    upper: float
    points: int
    exact: bool
    rounding_gap: float
    policy: Callable[[], Controller]


class BackwardInduction:
    """The rows (state-actions) of a model, and backward induction over its steps.

    Attributes:
        model: Model to plan in.
        expect: Expected next values of chosen rows.
        reward_probs: (S * A, Z, M) reward probabilities by type.
        means: (S * A, M) mean rewards by type.
        margin: Bound of the rounding errors of a pass.
        active: (H, S, A) mask of the state-actions that may be optimal somewhere.
        merge_error: Largest error of an upper bound from merging nearly equal beliefs into one point.
    """

    merge_error = 0.0

    def __init__(self, model: RewardMixingMDP) -> None:
        self.model = model
        self.expect = NextStateExpectation(model)
        num_types = model.num_types
        self.reward_probs = np.ascontiguousarray(np.moveaxis(model.reward_probs, 0, -1)).reshape(
            -1, model.num_values, num_types
        )
        self.means = np.ascontiguousarray(np.moveaxis(model.mean_rewards_by_type, 0, -1)).reshape(-1, num_types)
        self.margin = max_rounding_error(model, self.expect.width)
        self.active = np.ones((model.horizon, model.num_states, model.num_actions), dtype=np.bool_)

    def run(
        self,
        step: Callable[[int, Floats], tuple[Floats, Ints, Ints]],
        final_value: Floats,
        deadline: float,
        *,
        exact: bool,
    ) -> SweepResult | None:
        """Run from the last step to the first; return None if the deadline (time.perf_counter) passed on the way.

        Args:
            step: (t, values at step t + 1) -> values (S, 1 + M, N) or (S, N, 1 + M), actions (S, N) and next nodes
                (S, N, Z) of step t. At the first step there is one point, the weights.
            final_value: Values after the last step, all 0.
            deadline: Checked before every step.
            exact: Whether no step interpolates.

        Returns:
            Bracket and controller.
        """
        model = self.model
        value = final_value
        actions, node_tables = [], []
        for t in reversed(range(model.horizon)):
            if time.perf_counter() > deadline:
                return None
            value, best, next_nodes = step(t, value)
            actions.append(best)
            node_tables.append(next_nodes)
        root = value.reshape(model.num_states, 1 + model.num_types)
        # ``dot`` and ``product`` sum in a fixed order, so the bracket has equal bits on all machines.
        lower = float(dot(model.initial, product(root[:, 1:], model.weights)))
        # Weights may sum to 1 only up to rounding. The lower bound uses them as they are, so the upper bound is scaled
        # to match.
        upper = max(float(dot(model.initial, root[:, 0])) * float(model.weights.sum()), lower)
        points, margin = max(best.shape[1] for best in actions), self.margin
        policy = partial(make_compact_controller, actions[::-1], node_tables[::-1], model)
        upper_margin = margin + self.merge_error
        # Both ends are widened by the rounding error of a pass: the bracket then holds in exact arithmetic.
        return SweepResult(lower - margin, upper + upper_margin, points, exact, margin + upper_margin, policy)

    def backup_step(
        self,
        t: int,
        next_value: Floats,
        value: Floats,
        dtype: DTypeLike,
        backup: Callable[[Ints, BackupInputs, BackupOutputs], None],
        *,
        drop: bool,
    ) -> tuple[Floats, Ints, Ints]:
        """Compute values, actions and next nodes of step t, block by block.

        Args:
            t: Step.
            next_value: Values at the next step.
            value: out, values of this step, (S, 1 + M, N) or (S, N, 1 + M).
            dtype: Dtype of actions and nodes.
            backup: Function that fills the results of some rows from their tables.
            drop: Whether rows that cannot be optimal are inactive from now on.

        Returns:
            Values (``value``), actions and next nodes.
        """
        model = self.model
        best = np.empty((model.num_states, value[0].size // (1 + model.num_types)), dtype=dtype)
        next_nodes = np.empty((*best.shape, model.num_values), dtype=dtype)
        rows = np.flatnonzero(self.active[t])
        keep = np.empty(rows.size, dtype=np.bool_)
        starts = np.append(0, np.cumsum(self.active[t].sum(axis=1)))
        for states, block, tables in self.blocks(rows, starts, next_value):
            backup(rows[block], tables, (value[states], best[states], next_nodes[states], keep[block]))
        if drop:
            self.active[t].flat[rows] = keep
        return value, best, next_nodes

    def blocks(self, rows: Ints, starts: Ints, next_value: Floats) -> Iterator[tuple[slice, slice, BackupInputs]]:
        """Yield blocks of states: (states, their slice of ``rows``, inputs of the backup).

        Args:
            rows: Active state-actions, increasing.
            starts: (S + 1,) position in ``rows`` of the first row of each state.
            next_value: (S, 1 + M, L) values at the next step.

        Yields:
            (slice of states, slice of rows, (probs, means, starts, labels, ahead)).
        """
        flat = next_value.reshape(next_value.shape[0], -1)
        for low, high in _iter_state_blocks(starts, max(self.expect.min_rows, BLOCK_BYTES // (8 * flat.shape[1]))):
            block = slice(starts[low], starts[high])
            block_rows = rows[block]
            ahead = self.expect(block_rows, flat).reshape(-1, *next_value.shape[1:])
            block_starts, labels = starts[low : high + 1] - starts[low], block_rows % self.model.num_actions
            tables = self.reward_probs[block_rows], self.means[block_rows], block_starts, labels, ahead
            yield slice(low, high), block, tables


class NextStateExpectation:
    """Expectation over next states: x -> sum_s' T[x, s'] values[s'], at a cost proportional to the nonzero entries."""

    def __init__(self, model: RewardMixingMDP) -> None:
        rows = model.transition_rows
        self.width = model.num_states
        """Largest number of terms in one sum."""
        self.mean_terms = float(model.num_states)
        """Mean number of terms in one sum."""
        self.min_rows = MIN_BLOCK_ROWS
        """Number of rows below which a product is slow."""
        self._dense: Floats | None = None
        if model.is_sparse:
            csr_arrays = rows.indptr, rows.indices, rows.data
        elif np.count_nonzero(rows) > MAX_SPARSE_DENSITY * rows.size:
            self._dense = rows
            return
        else:
            owner, columns = np.nonzero(rows)
            csr_arrays = np.searchsorted(owner, np.arange(rows.shape[0] + 1)), columns, rows[owner, columns]
        self.min_rows = 1
        self._pointers = csr_arrays[0].astype(np.int64)
        self._columns = csr_arrays[1].astype(np.int64)
        self._entries = np.array(csr_arrays[2])
        self.width = int(np.diff(self._pointers).max())
        self.mean_terms = self._entries.size / rows.shape[0]

    def __call__(self, rows: Ints, values: Floats) -> Floats:
        """Compute (R, C) expectations of next-state ``values`` (S, C) at the state-actions ``rows`` (R,)."""
        if self._dense is not None:
            # A contiguous slice avoids copying the rows; fancy indexing would copy them at every step.
            is_contiguous = rows.size == rows[-1] - rows[0] + 1
            rows_block = self._dense[rows[0] : rows[-1] + 1] if is_contiguous else self._dense[rows]
            return product(rows_block, values)
        from rewardmix.planning.backup_kernels import sparse_product

        out = np.empty((rows.size, values.shape[1]))
        sparse_product(self._pointers, self._columns, self._entries, rows, values, out)
        return out


def estimate_sweep_bytes(model: RewardMixingMDP, points: int, item_bytes: int) -> float:
    """Estimate the memory of one backward pass with ``points`` belief points per step and indices of ``item_bytes``.

    Counted are the tables of the controller, two steps of values, and one block of products.
    """
    cells = float(model.num_states) * points
    tables = cells * model.horizon * (1 + model.num_values) * item_bytes
    values = 2 * 8 * cells * (1 + model.num_types)
    block = max(BLOCK_BYTES, 8.0 * (1 + model.num_types) * points * max(MIN_BLOCK_ROWS, model.num_actions))
    rows = float(model.num_states) * model.num_actions
    return tables + values + block + model.horizon * rows + 8 * rows * model.num_types * (model.num_values + 1)


def _iter_state_blocks(starts: Ints, num_rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of states whose rows fill a block; a state is not divided."""
    low, last = 0, starts.size - 1
    while low < last:
        high = max(int(np.searchsorted(starts, starts[low] + num_rows, "right")) - 1, low + 1)
        yield low, high
        low = high


def make_compact_controller(actions: Sequence[Ints], node_tables: Sequence[Ints], model: RewardMixingMDP) -> Controller:
    """Make a controller from tables, starting at node 0 in every state, in little memory.

    Node columns that no path enters are left out; indices have the smallest dtype that holds them.
    """
    compact_actions: list[Ints] = []
    compact_nodes: list[Ints] = []
    used = np.zeros(1, dtype=np.int64)
    for t, (step_actions, next_nodes) in enumerate(zip(actions, node_tables, strict=True)):
        if used.size != step_actions.shape[1]:
            step_actions, next_nodes = step_actions[:, used], next_nodes[:, used]
        if t + 1 == len(actions):
            new_index = np.zeros(1, dtype=np.int64)
            next_nodes = np.zeros_like(next_nodes)
        else:
            entered = np.zeros(actions[t + 1].shape[1], dtype=np.bool_)
            entered[next_nodes] = True
            used = np.flatnonzero(entered)
            # Indices among the entered columns, in their old order.
            new_index = np.cumsum(entered) - 1
        compact_actions.append(mark_readonly(step_actions.astype(smallest_int_dtype(model.num_actions))))
        compact_nodes.append(mark_readonly(new_index.astype(smallest_int_dtype(used.size))[next_nodes]))
    first = np.zeros(model.num_states, dtype=np.int64)
    return Controller(tuple(compact_actions), tuple(compact_nodes), first, model.reward_values)
