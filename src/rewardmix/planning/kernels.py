"""The compiled inner loops of planning: arrays and scalars in, ``out`` arrays filled.

Rows r are the state-actions still in play, grouped by state: those of state s are starts[s] .. starts[s+1]-1.
All arrays are C-contiguous and of one dtype each, so that one machine-code version serves every model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.jit import kernel


@kernel
def sparse_product(pointers: Any, columns: Any, entries: Any, rows: Any, values: Any, out: Any) -> None:
    """out[i] = sum_s' T[rows[i], s'] values[s'], T in compressed rows."""
    for i in range(rows.size):
        out[i, :] = 0.0
        for entry in range(pointers[rows[i]], pointers[rows[i] + 1]):
            weight = entries[entry]
            source = values[columns[entry]]
            for c in range(out.shape[1]):
                out[i, c] += weight * source[c]


@kernel
def may_be_best(high: Any, lower: Any, value: Any, grid: Any, slack: float) -> bool:
    """Whether upper bounds ``high`` (K,) of an action leave it a belief at which nothing known beats it.

    An upper line below a line that is achieved, at both ends of an interval, is never optimal in it. The lines tried
    are those of the nodes at the two ends.
    """
    if high[0] >= lower[0] - slack:
        return True
    for k in range(grid.size - 1):
        b, c = grid[k], grid[k + 1]
        left = high[k] < lower[k] - slack
        left = left and high[k + 1] < c * value[1, k] + (1.0 - c) * value[2, k] - slack
        right = high[k + 1] < lower[k + 1] - slack
        right = right and high[k] < b * value[1, k + 1] + (1.0 - b) * value[2, k + 1] - slack
        if not (left or right):
            return True
    return False


@kernel
def backup_two(
    laws: Any,  # (R, Z, 2) law of the outcome in each context
    means: Any,  # (R, 2) expected reward in each context
    starts: Any,  # (n + 1,) rows of each state
    labels: Any,  # (R,) action of each row
    ahead: Any,  # (R, 3, L) expected next upper bound and pair of values, at each next grid belief
    grid: Any,  # (K,) beliefs in context 0
    next_grid: Any,  # (L,)
    inverse_width: Any,  # (L,) 1 / (next_grid[j+1] - next_grid[j]), 0 at the end
    slack: float,  # what a row has to be worse by to be dropped
    value: Any,  # out (n, 3, K)
    best: Any,  # out (n, K) action
    moves: Any,  # out (n, K, Z) next node
    keep: Any,  # out (R,) whether the row may be optimal at some belief of the range
) -> None:
    """One backward step on the common belief grid, for two contexts."""
    num_points, num_next, num_values = grid.size, next_grid.size, laws.shape[1]
    widest = 0
    for s in range(starts.size - 1):
        widest = max(widest, starts[s + 1] - starts[s])
    upper = np.empty((widest, num_points))
    one = np.empty(num_points)
    two = np.empty(num_points)
    jump = np.empty((num_points, num_values), np.int32)
    lower = np.empty(num_points)
    for s in range(starts.size - 1):
        lower[:] = -np.inf
        value[s, 0, :] = -np.inf
        for r in range(starts[s], starts[s + 1]):
            high = upper[r - starts[s]]
            for k in range(num_points):
                one[k] = means[r, 0]
                two[k] = means[r, 1]
                high[k] = grid[k] * means[r, 0] + (1.0 - grid[k]) * means[r, 1]
            for z in range(num_values):
                q1, q2 = laws[r, z, 0], laws[r, z, 1]
                j = 0
                for k in range(num_points):
                    x = grid[k] * q1
                    y = (1.0 - grid[k]) * q2
                    total = x + y
                    while j + 2 < num_next and next_grid[j + 1] * total < x:
                        j += 1
                    after = min(j + 1, num_next - 1)
                    if total > 0.0:
                        share = min(max((x - next_grid[j] * total) * inverse_width[j], 0.0), total)
                        high[k] += ahead[r, 0, j] * (total - share) + ahead[r, 0, after] * share
                        left = x * ahead[r, 1, j] + y * ahead[r, 2, j]
                        right = x * ahead[r, 1, after] + y * ahead[r, 2, after]
                        pick = j if left >= right else after
                    else:  # impossible under this belief, yet a continuation in the context that the belief excludes
                        pick = num_next - 1 if q1 > 0.0 else 0
                    one[k] += q1 * ahead[r, 1, pick]
                    two[k] += q2 * ahead[r, 2, pick]
                    jump[k, z] = pick
            for k in range(num_points):
                value[s, 0, k] = max(value[s, 0, k], high[k])
                low = grid[k] * one[k] + (1.0 - grid[k]) * two[k]
                if low > lower[k]:
                    lower[k] = low
                    value[s, 1, k] = one[k]
                    value[s, 2, k] = two[k]
                    best[s, k] = labels[r]
                    for z in range(num_values):
                        moves[s, k, z] = jump[k, z]
        for r in range(starts[s], starts[s + 1]):
            keep[r] = may_be_best(upper[r - starts[s]], lower, value[s], grid, slack)
