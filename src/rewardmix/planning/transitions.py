"""Expected values of the next state, for chosen state-actions: one matrix product, dense or sparse."""

from __future__ import annotations

import numpy as np

from rewardmix._core.algebra import product
from rewardmix._core.checks import Floats, Ints
from rewardmix.model import RewardMixingMDP

SPARSE_BELOW = 0.1
"""A dense transition with a smaller share of non-zero entries is multiplied as a sparse one."""


class Expectation:
    """x -> sum_s' T[x, s'] values[s']; the cost is proportional to the non-zero entries where they are few."""

    def __init__(self, model: RewardMixingMDP) -> None:
        rows = model.transition_rows
        self.width = model.num_states
        """Most terms in one sum."""
        self.steps = float(model.num_states)
        """Terms of a sum, on average."""
        self._dense: Floats | None = None
        if model.is_sparse:
            parts = rows.indptr, rows.indices, rows.data
        elif np.count_nonzero(rows) > SPARSE_BELOW * rows.size:
            self._dense = rows
            return
        else:
            owner, columns = np.nonzero(rows)
            parts = np.searchsorted(owner, np.arange(rows.shape[0] + 1)), columns, rows[owner, columns]
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
        from rewardmix.planning.kernels import sparse_product

        out = np.empty((rows.size, values.shape[1]))
        sparse_product(self._pointers, self._columns, self._entries, rows, values, out)
        return out
