"""The compiled inner loops of planning: arrays and scalars in, ``out`` arrays filled.

Rows r are the state-actions still in play, grouped by state: those of state s are starts[s] .. starts[s+1]-1.
All arrays are C-contiguous and of one dtype each, so that one machine-code version serves every model.

    backup_two_contexts   one step on the grid of two contexts
    backup_product_grid   one step on the product grid of three and more contexts: point (j, i) has index
                          j * len(grid) + i, belief grid[i] in context 0, and ray j, a belief in the others given not 0
    backup_points         one step on belief points

Each moves beliefs by Bayes as it goes, unnormalised: joint = b * q, whose sum is the probability of the outcome. A test
holds them against ``belief.update``.
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
def most_rows(starts: Any) -> int:
    """Rows of the state that has most of them."""
    most = 0
    for s in range(starts.size - 1):
        most = max(most, starts[s + 1] - starts[s])
    return most


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
def backup_two_contexts(
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
    upper = np.empty((most_rows(starts), num_points))
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
def backup_product_grid(
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
    upper = np.empty((most_rows(starts), num_points))
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


@kernel
def sawtooth(joint: Any, corner_value: Any, drop: Any, inverse: Any, ratio: Any) -> float:
    """Upper bound at an unnormalised belief: the corners' mean, less the deepest tooth.

    Args:
        joint: (M,) b * q.
        corner_value: (M,) upper bound at each corner.
        drop: (L,) upper bound at a point, less the corners' mean there.
        inverse: (M, L) 1 / point, infinite where the point is 0.
        ratio: (L,) room to work in.
    """
    total = 0.0
    for m in range(joint.size):
        total += joint[m] * corner_value[m]
    for j in range(drop.size):
        ratio[j] = np.inf
    for m in range(joint.size):
        weight = joint[m]
        row = inverse[m]
        for j in range(drop.size):
            share = weight * row[j]  # 0 * inf is not a number, and not less
            ratio[j] = share if share < ratio[j] else ratio[j]
    deepest = 0.0
    for j in range(drop.size):
        tooth = drop[j] * ratio[j]
        deepest = tooth if tooth < deepest else deepest
    return total + deepest


@kernel
def best_node(joint: Any, ahead: Any, room: Any) -> int:
    """The next node that earns most at an unnormalised belief. ahead: (1 + M, L), values in contexts from row 1."""
    room[:] = 0.0
    for m in range(joint.size):
        weight = joint[m]
        row = ahead[1 + m]
        for j in range(room.size):
            room[j] += weight * row[j]
    pick = 0
    for j in range(room.size):
        if room[j] > room[pick]:
            pick = j
    return pick


@kernel
def backup_points(
    laws: Any,  # (R, Z, M)
    means: Any,  # (R, M)
    starts: Any,  # (n + 1,)
    labels: Any,  # (R,)
    ahead: Any,  # (R, 1 + M, L), the first M points are the corners
    points: Any,  # (N, M)
    next_points: Any,  # (L, M)
    inverse: Any,  # (M, L) 1 / next point
    value: Any,  # out (n, 1 + M, N)
    best: Any,  # out (n, N) action of the node
    hope: Any,  # out (n, N) action with the highest upper bound
    moves: Any,  # out (n, N, Z)
) -> None:
    """One backward step on belief points."""
    num_points, num_contexts, num_values = points.shape[0], points.shape[1], laws.shape[1]
    num_next = next_points.shape[0]
    room = np.empty(num_next)
    drop = np.empty(num_next)
    joint = np.empty(num_contexts)
    earned = np.empty(num_contexts)
    jump = np.empty(num_values, np.int32)
    for s in range(starts.size - 1):
        value[s, 0, :] = -np.inf
        lower = np.full(num_points, -np.inf)
        for r in range(starts[s], starts[s + 1]):
            corner_value = ahead[r, 0, :num_contexts]
            for j in range(num_next):
                drop[j] = ahead[r, 0, j]
                for m in range(num_contexts):
                    drop[j] -= next_points[j, m] * corner_value[m]
            for k in range(num_points):
                high = 0.0
                for m in range(num_contexts):
                    earned[m] = means[r, m]
                    high += points[k, m] * means[r, m]
                for z in range(num_values):
                    for m in range(num_contexts):
                        joint[m] = points[k, m] * laws[r, z, m]
                    high += sawtooth(joint, corner_value, drop, inverse, room)
                    possible = joint.sum() > 0.0
                    # an outcome that this belief excludes still needs a continuation in the contexts it excludes
                    jump[z] = best_node(joint if possible else laws[r, z], ahead[r], room)
                    for m in range(num_contexts):
                        earned[m] += laws[r, z, m] * ahead[r, 1 + m, jump[z]]
                low = 0.0
                for m in range(num_contexts):
                    low += points[k, m] * earned[m]
                if high > value[s, 0, k]:
                    value[s, 0, k] = high
                    hope[s, k] = labels[r]
                if low > lower[k]:
                    lower[k] = low
                    best[s, k] = labels[r]
                    for m in range(num_contexts):
                        value[s, 1 + m, k] = earned[m]
                    for z in range(num_values):
                        moves[s, k, z] = jump[z]


@kernel
def outer_chain(points: Any, tolerance: float, out: Any) -> int:
    """Vertices of the upper right hull of ``points`` (n, 2), sorted by falling first then falling second coordinate.

    Fills ``out`` (n, 2) and returns how many: first coordinates fall, second ones rise, and edges turn one way.
    Points within ``tolerance`` of a line, or of another point, are not vertices.
    """
    size = 0
    for i in range(points.shape[0]):
        x, y = points[i, 0], points[i, 1]
        if size > 0 and y <= out[size - 1, 1] + tolerance:
            continue
        while size > 1:
            ax, ay = out[size - 1, 0] - out[size - 2, 0], out[size - 1, 1] - out[size - 2, 1]
            bx, by = x - out[size - 1, 0], y - out[size - 1, 1]
            if ax * by - ay * bx > tolerance * tolerance:
                break
            size -= 1
        if size == 1 and x >= out[0, 0] - tolerance:
            size = 0
        out[size, 0], out[size, 1] = x, y
        size += 1
    return size
