"""The compiled backward step on a product grid for three and more contexts; see ``box``, and ``kernels`` for the rows.

Point (j, i) has index j * len(grid) + i: belief grid[i] in context 0, and ray j, a belief over the others given not 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.jit import kernel


@kernel
def ray_corners(joint: Any, axes: Any, sizes: Any, strides: Any, weights: Any, index: Any) -> None:
    """The corners of the cell in which the direction of ``joint`` lies, and their shares of it.

    Args:
        joint: (M - 1,) ray * q.
        axes: (M - 2, longest) values of each coordinate of a ray, increasing.
        sizes: (M - 2,) how many there are.
        strides: (M - 2,) what a step along an axis adds to the index of a ray.
        weights: out (2^(M-2),) shares, which add up to 1.
        index: out (2^(M-2),) rays.
    """
    weights[0], index[0] = 1.0, 0
    count = 1
    for i in range(sizes.size):
        rest = 0.0
        for m in range(i, joint.size):
            rest += joint[m]
        place = joint[i] / rest if rest > 0.0 else axes[i, 0]
        low, high = 0, sizes[i] - 1
        while high - low > 1:
            middle = (low + high) // 2
            if axes[i, middle] <= place:
                low = middle
            else:
                high = middle
        width = axes[i, high] - axes[i, low]
        share = min(max((place - axes[i, low]) / width, 0.0), 1.0) if width > 0.0 else 0.0
        for c in range(count):
            weights[count + c], index[count + c] = weights[c] * share, index[c] + high * strides[i]
            weights[c], index[c] = weights[c] * (1.0 - share), index[c] + low * strides[i]
        count *= 2


@kernel
def spread_outcome(
    law: Any, ahead: Any, grid: Any, rays: Any, next_grid: Any, inverse_width: Any, axes: Any, sizes: Any, strides: Any,
    z: int, high: Any, earned: Any, jump: Any,
) -> None:  # fmt: skip
    """Add the continuation after outcome z of one state-action to ``high`` (N,) and ``earned`` (M, N)."""
    num_grid, num_next, num_contexts = grid.size, next_grid.size, law.size
    weights = np.empty(1 << sizes.size)
    index = np.empty(1 << sizes.size, np.int64)
    joint = np.empty(num_contexts - 1)
    for j in range(rays.shape[0]):
        other = 0.0  # likelihood when the context is not 0
        for m in range(num_contexts - 1):
            joint[m] = rays[j, m] * law[1 + m]
            other += joint[m]
        ray_corners(joint, axes, sizes, strides, weights, index)
        cell = 0
        for i in range(num_grid):
            k = j * num_grid + i
            first, rest = grid[i] * law[0], 1.0 - grid[i]
            total = first + rest * other
            while cell + 2 < num_next and next_grid[cell + 1] * total < first:
                cell += 1
            above = min(cell + 1, num_next - 1)
            # impossible under this belief: a continuation still counts in the contexts that the belief excludes
            pick = index[0] * num_next + (above if law[0] > 0.0 else cell)
            if total > 0.0:
                along = min(max((first - next_grid[cell] * total) * inverse_width[cell], 0.0), total)
                most, between = -np.inf, 0.0
                for c in range(weights.size):
                    near, up = index[c] * num_next + cell, index[c] * num_next + above
                    between += weights[c] * ((total - along) * ahead[0, near] + along * ahead[0, up])
                    left = right = 0.0
                    for m in range(num_contexts - 1):
                        left += joint[m] * ahead[2 + m, near]
                        right += joint[m] * ahead[2 + m, up]
                    left = first * ahead[1, near] + rest * left
                    right = first * ahead[1, up] + rest * right
                    if left > most:
                        most, pick = left, near
                    if right > most:
                        most, pick = right, up
                high[k] += between
            for m in range(num_contexts):
                earned[m, k] += law[m] * ahead[1 + m, pick]
            jump[k, z] = pick


@kernel
def beaten(high: Any, value: Any, grid: Any, rays: Any, cell: int, offsets: Any, slack: float) -> bool:
    """Whether one node at a corner of the cell earns more than ``high`` at all corners, hence all over the cell."""
    for node in offsets:
        holds = True
        for corner in offsets:
            j, i = divmod(cell + corner, grid.size)
            rest = 0.0
            for m in range(rays.shape[1]):
                rest += rays[j, m] * value[2 + m, cell + node]
            if high[cell + corner] >= grid[i] * value[1, cell + node] + (1.0 - grid[i]) * rest - slack:
                holds = False
                break
        if holds:
            return True
    return False


@kernel
def backup_box(
    laws: Any,  # (R, Z, M)
    means: Any,  # (R, M)
    starts: Any,  # (n + 1,)
    labels: Any,  # (R,)
    ahead: Any,  # (R, 1 + M, L)
    grid: Any,  # beliefs in context 0
    rays: Any,  # (J, M - 1) beliefs in the others, given not 0
    cells: Any,  # lowest corner of every cell of the grid
    offsets: Any,  # from it to all its corners
    next_grid: Any,
    inverse_width: Any,  # 1 / (next_grid[j+1] - next_grid[j]), 0 at the end
    axes: Any,  # (M - 2, longest) coordinates of the next rays
    sizes: Any,
    strides: Any,
    slack: float,
    value: Any,  # out (n, 1 + M, N)
    best: Any,  # out (n, N)
    moves: Any,  # out (n, N, Z)
    keep: Any,  # out (R,)
) -> None:
    """One backward step on the product grid."""
    num_points, num_contexts, num_values = grid.size * rays.shape[0], laws.shape[2], laws.shape[1]
    widest = 0
    for s in range(starts.size - 1):
        widest = max(widest, starts[s + 1] - starts[s])
    upper = np.empty((widest, num_points))
    earned = np.empty((num_contexts, num_points))
    jump = np.empty((num_points, num_values), np.int32)
    lower = np.empty(num_points)
    for s in range(starts.size - 1):
        lower[:] = -np.inf
        value[s, 0, :] = -np.inf
        for r in range(starts[s], starts[s + 1]):
            high = upper[r - starts[s]]
            for m in range(num_contexts):
                earned[m, :] = means[r, m]
            for j in range(rays.shape[0]):
                rest = 0.0
                for m in range(num_contexts - 1):
                    rest += rays[j, m] * means[r, 1 + m]
                for i in range(grid.size):
                    high[j * grid.size + i] = grid[i] * means[r, 0] + (1.0 - grid[i]) * rest
            for z in range(num_values):
                spread_outcome(
                    laws[r, z], ahead[r], grid, rays, next_grid, inverse_width, axes, sizes, strides,
                    z, high, earned, jump,
                )  # fmt: skip
            for j in range(rays.shape[0]):
                for i in range(grid.size):
                    k = j * grid.size + i
                    value[s, 0, k] = max(value[s, 0, k], high[k])
                    rest = 0.0
                    for m in range(num_contexts - 1):
                        rest += rays[j, m] * earned[1 + m, k]
                    low = grid[i] * earned[0, k] + (1.0 - grid[i]) * rest
                    if low > lower[k]:
                        lower[k] = low
                        best[s, k] = labels[r]
                        for m in range(num_contexts):
                            value[s, 1 + m, k] = earned[m, k]
                        for z in range(num_values):
                            moves[s, k, z] = jump[k, z]
        for r in range(starts[s], starts[s + 1]):
            keep[r] = False
            for cell in cells:
                if not beaten(upper[r - starts[s]], value[s], grid, rays, cell, offsets, slack):
                    keep[r] = True
                    break
