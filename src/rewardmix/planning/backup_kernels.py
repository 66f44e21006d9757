"""Compute Bellman backups of belief-space value iteration in machine code: arrays in, ``out`` arrays filled.

Rows r are the active state-actions, grouped by state: those of state s are starts[s] .. starts[s+1]-1. All arrays are
C-contiguous and of one dtype each, so that one machine-code version serves every model.

    backup_two_types   one backward step on the grid of two types
    backup_lattice     one backward step on the belief points of three and more types

Each updates beliefs by Bayes' rule, unnormalized: joint = b * q, whose sum is the probability of the reward. A test
compares them with ``belief.update``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rewardmix._core.jit import kernel

MIN_OUTCOME_PROB = 1e-290
"""Rewards less likely than this count as impossible: they add nothing, and dividing by them would overflow."""


@kernel
def sparse_product(pointers: Any, columns: Any, entries: Any, rows: Any, values: Any, out: Any) -> None:
    """Compute out[i] = sum_s' T[rows[i], s'] values[s'] for T in CSR form."""
    for i in range(rows.size):
        out[i, :] = 0.0
        for entry in range(pointers[rows[i]], pointers[rows[i] + 1]):
            weight = entries[entry]
            source = values[columns[entry]]
            for c in range(out.shape[1]):
                out[i, c] += weight * source[c]


@kernel
def max_rows_per_state(starts: Any) -> int:
    """Return the largest number of rows of a state."""
    largest = 0
    for s in range(starts.size - 1):
        largest = max(largest, starts[s + 1] - starts[s])
    return largest


@kernel
def may_be_optimal(high: Any, lower: Any, value: Any, grid: Any, slack: float) -> bool:
    """Return whether an action with these upper bounds (K,) may be optimal at some belief of the grid.

    On an interval of the grid its bound is a line. If at both ends of the interval this line is below the value line of
    one node, the action is not optimal in it. The nodes of the two ends are tried.
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
def backup_two_types(
    probs: Any,  # (R, Z, 2) reward probabilities by type
    means: Any,  # (R, 2) mean rewards by type
    starts: Any,  # (n + 1,) rows of each state
    labels: Any,  # (R,) action of each row
    ahead: Any,  # (R, 3, L) expected next upper bound and pair of values, at each next grid belief
    grid: Any,  # (K,) beliefs in type 0
    next_grid: Any,  # (L,)
    inverse_width: Any,  # (L,) 1 / (next_grid[j+1] - next_grid[j]), 0 at the end
    slack: float,  # difference beyond which a row is dropped
    value: Any,  # out (n, 3, K)
    best: Any,  # out (n, K) action
    next_nodes: Any,  # out (n, K, Z) next node
    keep: Any,  # out (R,) whether the row may be optimal at some belief of the range
) -> None:
    """Compute one backward step on the common belief grid of two types: bounds, best actions and next nodes."""
    num_points, num_next, num_values = grid.size, next_grid.size, probs.shape[1]
    upper = np.empty((max_rows_per_state(starts), num_points))
    value0 = np.empty(num_points)
    value1 = np.empty(num_points)
    next_point = np.empty((num_points, num_values), np.int32)
    lower = np.empty(num_points)
    for s in range(starts.size - 1):
        lower[:] = -np.inf
        # The bracket of a state is the maximum over its actions of upper and of lower bounds, each by itself.
        value[s, 0, :] = -np.inf
        for r in range(starts[s], starts[s + 1]):
            high = upper[r - starts[s]]
            for k in range(num_points):
                value0[k] = means[r, 0]
                value1[k] = means[r, 1]
                high[k] = grid[k] * means[r, 0] + (1.0 - grid[k]) * means[r, 1]
            for z in range(num_values):
                q0, q1 = probs[r, z, 0], probs[r, z, 1]
                # The posterior increases with the belief, so a pointer that only moves forward finds all intervals in
                # linear time.
                j = 0
                for k in range(num_points):
                    x = grid[k] * q0
                    y = (1.0 - grid[k]) * q1
                    total = x + y
                    # Products instead of the quotient x / total: no division by a small probability.
                    while j + 2 < num_next and next_grid[j + 1] * total < x:
                        j += 1
                    after = min(j + 1, num_next - 1)
                    if total > 0.0:
                        share = min(max((x - next_grid[j] * total) * inverse_width[j], 0.0), total)
                        high[k] += ahead[r, 0, j] * (total - share) + ahead[r, 0, after] * share
                        left = x * ahead[r, 1, j] + y * ahead[r, 2, j]
                        right = x * ahead[r, 1, after] + y * ahead[r, 2, after]
                        # The lower bound follows one node, not a mixture: it must be the value of a policy. Ties go to
                        # the left.
                        pick = j if left >= right else after
                    else:  # impossible under this belief, but not for the excluded type: it too needs a next node
                        pick = num_next - 1 if q0 > 0.0 else 0
                    value0[k] += q0 * ahead[r, 1, pick]
                    value1[k] += q1 * ahead[r, 2, pick]
                    next_point[k, z] = pick
            for k in range(num_points):
                value[s, 0, k] = max(value[s, 0, k], high[k])
                low = grid[k] * value0[k] + (1.0 - grid[k]) * value1[k]
                if low > lower[k]:
                    lower[k] = low
                    value[s, 1, k] = value0[k]
                    value[s, 2, k] = value1[k]
                    best[s, k] = labels[r]
                    for z in range(num_values):
                        next_nodes[s, k, z] = next_point[k, z]
        # Pruning needs the best lower bound of the state over all actions, hence a second pass over its rows.
        for r in range(starts[s], starts[s + 1]):
            # Compared are whole lines between grid points, so a dropped action is not optimal between them either.
            keep[r] = may_be_optimal(upper[r - starts[s]], lower, value[s], grid, slack)


class LatticeCells(NamedTuple):
    """Lattice of the next step and the index of its points.

    Attributes:
        min_belief: M numbers, the smallest belief in each type; a tuple, so that machine code is specialized for their
            number and loops over types are unrolled.
        extent: Sum of the beliefs above these.
        ranks: (M, n + 2), result of ``coordinate_ranks``.
    """

    min_belief: tuple[float, ...]
    extent: float
    ranks: Any


TILE_SIZE = 256
"""Number of beliefs processed together: vector instructions take several in each loop.

Differences between them are selected, not branched to, because a processor mispredicts such branches half of the time.
"""
TILE_STRIDE = TILE_SIZE + 8
"""Row length of a tile: rows a power of two apart would compete for one cache set."""


class Tile(NamedTuple):
    """Work arrays for some beliefs, (..., TILE_STRIDE), and what an action yields there.

    Attributes:
        belief: (M, .) beliefs.
        joint: (M, .) belief times likelihood of a reward.
        total: (.,) their sum, the probability of the reward.
        upper: (.,) upper bound of the action.
        lower_by_type: (., M) value of the followed policy by type.
        next_node: (Z, .) next node.
        weight: (.,) ``total``, or the sum of the likelihoods where the reward is impossible.
        scale: (.,) factor from ``joint`` to lattice coordinates.
        partial_sum: (.,) running sum of a loop.
        fraction: (M, .) fractional parts of coordinates 1 .. M-1, largest first.
        rank_step: (M, .) by how much that coordinate, raised by one, raises the index of a point.
        corner_weight: (M, .) weight of each corner in the belief.
        corner_index: (M, .) index of each corner; at the end the first is the best of them.
        corner_lower: (M, .) lower bound at each corner; at the end the first is the largest.
    """

    belief: Any
    joint: Any
    total: Any
    upper: Any
    lower_by_type: Any
    next_node: Any
    weight: Any
    scale: Any
    partial_sum: Any
    fraction: Any
    rank_step: Any
    corner_weight: Any
    corner_index: Any
    corner_lower: Any


@kernel
def make_tile(num_types: int, values: int) -> Any:
    """Make an empty tile."""
    each = num_types, TILE_STRIDE
    return Tile(
        np.empty(each), np.empty(each), np.empty(TILE_STRIDE), np.empty(TILE_STRIDE),
        np.empty((TILE_STRIDE, num_types)), np.empty((values, TILE_STRIDE), np.uint32),
        np.empty(TILE_STRIDE), np.empty(TILE_STRIDE), np.empty(TILE_STRIDE),
        np.empty(each), np.empty(each, np.uint32), np.empty(each), np.empty(each, np.uint32), np.empty(each),
    )  # fmt: skip


@kernel
def find_corners(count: int, cells: Any, tile: Any) -> None:
    """Find the corners of the lattice simplices that contain the posteriors, and their weights.

    Coordinates are sorted by a fixed network of exchanges, equal for all beliefs. A corner of weight 0 may lie outside
    the lattice; the first corner, whose weight is positive, then replaces it.
    """
    num_types, finest = len(cells.min_belief), cells.ranks.shape[1] - 2
    first = tile.corner_index[0]
    for j in range(count):
        tile.scale[j] = finest / (tile.weight[j] * cells.extent)
        tile.partial_sum[j] = 0.0
        first[j] = 0
    for i in range(num_types - 1, 0, -1):
        low = cells.min_belief[i]
        for j in range(count):
            tile.partial_sum[j] += max(tile.joint[i, j] - low * tile.weight[j], 0.0)
            # Rounding can push a coordinate past the edge of the lattice; the clip keeps the index valid.
            coordinate = min(tile.partial_sum[j] * tile.scale[j], float(finest))
            below = np.uint32(coordinate)
            tile.fraction[i, j] = coordinate - below
            tile.rank_step[i, j] = below
        rank = cells.ranks[i]
        for j in range(count):
            below = tile.rank_step[i, j]
            first[j] += np.uint32(rank[below])
            tile.rank_step[i, j] = np.uint32(rank[below + 1] - rank[below])
    for i in range(2, num_types):
        for c in range(i, 1, -1):
            for j in range(count):
                # Branch-free compare-and-exchange of the fraction together with its rank step.
                a, b, x, y = (
                    tile.fraction[c - 1, j],
                    tile.fraction[c, j],
                    tile.rank_step[c - 1, j],
                    tile.rank_step[c, j],
                )
                tile.fraction[c - 1, j] = b if a < b else a
                tile.fraction[c, j] = a if a < b else b
                tile.rank_step[c - 1, j] = y if a < b else x
                tile.rank_step[c, j] = x if a < b else y
    for j in range(count):
        tile.corner_weight[0, j] = 1.0 - tile.fraction[1, j]
    for c in range(1, num_types):
        for j in range(count):
            after = tile.fraction[c + 1, j] if c + 1 < num_types else 0.0
            tile.corner_weight[c, j] = tile.fraction[c, j] - after
            tile.corner_index[c, j] = tile.corner_index[c - 1, j] + tile.rank_step[c, j]
    for c in range(1, num_types):
        for j in range(count):
            tile.corner_index[c, j] = tile.corner_index[c, j] if tile.corner_weight[c, j] > 0.0 else first[j]


class DominatedCells(NamedTuple):
    """Lattice cells of a step in which an action is dominated.

    Attributes:
        cell_of_point: (N,) cell of the lattice of an earlier pass in which each point lies; empty if there was none.
        dominated_before: (R, C) whether a row is dominated in all of each of those cells.
        dominated: out (R, N) whether a row is dominated in the cells of this lattice, or (R, 0) if not requested.
    """

    cell_of_point: Any
    dominated_before: Any
    dominated: Any


@kernel
def is_dominated_around(high: Any, value: Any, points: Any, coordinates: Any, ranks: Any, k: int) -> bool:
    """Return whether an action with these upper bounds (N,) is dominated in all cells that start at lattice point k.

    It is if the node of the point has a larger value at every corner: the point with any of its coordinates raised by
    one. It is also if every corner was dominated before (-inf): then no wider cell of the earlier lattice reaches in.
    """
    num_types = points.shape[1]
    finest = ranks.shape[1] - 2
    before = high[k] == -np.inf
    for raised in range(1 << (num_types - 1)):
        corner, max_coordinate, inside = 0, finest, True
        for i in range(1, num_types):
            x = coordinates[k, i - 1] + ((raised >> (i - 1)) & 1)
            if x > max_coordinate:
                inside = False
                break
            corner += ranks[i, x]
            max_coordinate = x
        if inside:
            # Mixed corners lie on the border of an earlier region; nothing is known about the cell as a whole.
            if before != (high[corner] == -np.inf):
                return False
            corner_value = 0.0
            for m in range(num_types):
                corner_value += points[corner, m] * value[k, 1 + m]
            if high[corner] >= corner_value:
                return False
    return True


@kernel
def is_undominated(
    high: Any, value: Any, lower: Any, points: Any, coordinates: Any, ranks: Any, dominated: Any
) -> bool:
    """Return whether its upper bounds (N,) leave an action a belief at which no known policy dominates it.

    Points without lattice coordinates are all beliefs that can occur, so the points decide; on a lattice the cells
    between them count too. ``dominated`` (N,), unless empty, receives the mask of dominated cells.
    """
    stays = False
    for k in range(high.size):
        if high[k] >= lower[k]:
            stays = True
            break
    for k in range(coordinates.shape[0]):
        if stays and dominated.size == 0:
            break
        is_dominated = is_dominated_around(high, value, points, coordinates, ranks, k)
        stays = stays or not is_dominated
        if dominated.size > 0:
            dominated[k] = is_dominated
    return stays


@kernel
def list_active_points(dominated_cells: Any, r: int, out: Any) -> int:
    """List in ``out`` (N,) the points at which row r is not known to be dominated, and return their number."""
    if dominated_cells.cell_of_point.size == 0:
        for k in range(out.size):
            out[k] = k
        return int(out.size)
    count, before = 0, dominated_cells.dominated_before[r]
    for k in range(out.size):
        # Written unconditionally and overwritten unless the count advances: no branch that would be mispredicted.
        out[count] = k
        count += not before[dominated_cells.cell_of_point[k]]
    return count


@kernel
def init_tile(indices: Any, points: Any, means: Any, cells: Any, tile: Any) -> None:
    """Initialize a tile with some beliefs and the immediate mean rewards (M,) of an action."""
    tile.upper[: indices.size] = 0.0
    for m in range(len(cells.min_belief)):
        mean = means[m]
        for j in range(indices.size):
            tile.belief[m, j] = points[indices[j], m]
            tile.upper[j] += tile.belief[m, j] * mean
            tile.lower_by_type[j, m] = mean


@kernel
def weight_by_likelihood(count: int, likelihoods: Any, cells: Any, tile: Any) -> float:
    """Compute belief times likelihood (M,) of a reward and its probability; return the sum of the likelihoods.

    Where the reward is impossible under the belief, the likelihoods replace the posterior: the controller needs a next
    node for the types that the belief excludes.
    """
    num_types, impossible, likelihood_sum = len(cells.min_belief), 0, 0.0
    tile.total[:count] = 0.0
    for m in range(num_types):
        likelihood = likelihoods[m]
        likelihood_sum += likelihood
        for j in range(count):
            tile.joint[m, j] = tile.belief[m, j] * likelihood
            tile.total[j] += tile.joint[m, j]
    for j in range(count):
        tile.weight[j] = tile.total[j]
        impossible += not tile.total[j] * cells.extent > MIN_OUTCOME_PROB
    if impossible > 0:
        for j in range(count):
            if not tile.total[j] * cells.extent > MIN_OUTCOME_PROB:
                tile.weight[j] = likelihood_sum
                for m in range(num_types):
                    tile.joint[m, j] = likelihoods[m]
    return likelihood_sum


@kernel
def add_upper_bounds(count: int, ahead: Any, cells: Any, tile: Any, next_point: Any) -> None:
    """Add the interpolated upper bounds ``ahead`` (L, 1 + M), and choose the corner with the best lower bound."""
    num_types = len(cells.min_belief)
    for j in range(count):
        interpolated = 0.0
        for c in range(num_types):
            corner = tile.corner_index[c, j]
            interpolated += tile.corner_weight[c, j] * ahead[corner, 0]
            low = 0.0
            for m in range(num_types):
                low += tile.joint[m, j] * ahead[corner, 1 + m]
            tile.corner_lower[c, j] = low
        tile.upper[j] += tile.total[j] * interpolated
    for c in range(1, num_types):
        for j in range(count):
            # A strict comparison: of equal corners the first stays, so equal inputs give one controller.
            better = tile.corner_lower[c, j] > tile.corner_lower[0, j]
            tile.corner_lower[0, j] = tile.corner_lower[c, j] if better else tile.corner_lower[0, j]
            tile.corner_index[0, j] = tile.corner_index[c, j] if better else tile.corner_index[0, j]
    next_point[:count] = tile.corner_index[0, :count]


@kernel
def add_lower_bounds(count: int, likelihoods: Any, ahead: Any, cells: Any, tile: Any, next_point: Any) -> None:
    """Add the lower bounds of the next nodes after a reward of likelihood (M,)."""
    for j in range(count):
        for m in range(len(cells.min_belief)):
            tile.lower_by_type[j, m] += likelihoods[m] * ahead[next_point[j], 1 + m]


@kernel
def store_best_actions(
    indices: Any, label: int, cells: Any, tile: Any, high: Any, lower: Any, value: Any, best: Any, next_nodes: Any
) -> None:
    """Store an action at those points of a state where its lower bound exceeds those of earlier actions."""
    num_types = len(cells.min_belief)
    for j in range(indices.size):
        k = indices[j]
        high[k] = tile.upper[j]
        value[k, 0] = max(value[k, 0], tile.upper[j])
        low = 0.0
        for m in range(num_types):
            low += tile.belief[m, j] * tile.lower_by_type[j, m]
        if low > lower[k]:
            lower[k] = low
            best[k] = label
            for m in range(num_types):
                value[k, 1 + m] = tile.lower_by_type[j, m]
            for z in range(next_nodes.shape[1]):
                next_nodes[k, z] = tile.next_node[z, j]


@kernel
def backup_lattice(
    probs: Any,  # (R, Z, M)
    means: Any,  # (R, M)
    starts: Any,  # (n + 1,)
    labels: Any,  # (R,)
    ahead: Any,  # (R, L, 1 + M)
    points: Any,  # (N, M)
    vector_indices: Any,  # (R, Z) index of the distinct likelihood vector
    successors: Any,  # (N, K) next point after each vector, or none if the next points are a lattice
    cells: Any,  # LatticeCells of the next step
    coordinates: Any,  # (N, M - 1) coordinates on the lattice of this step, or none
    ranks: Any,  # (M, n + 2) ranks of the lattice of this step
    pruned: Any,  # DominatedCells
    slack: float,
    value: Any,  # out (n, N, 1 + M)
    best: Any,  # out (n, N)
    next_nodes: Any,  # out (n, N, Z)
    keep: Any,  # out (R,)
) -> None:
    """Compute one backward step from belief points to known next points or to a lattice."""
    num_points, num_values, has_successors = points.shape[0], probs.shape[1], successors.size > 0
    upper = np.empty((max_rows_per_state(starts), num_points))
    lower = np.empty(num_points)
    active_points = np.empty(num_points, np.int64)
    tile = make_tile(len(cells.min_belief), num_values)
    for s in range(starts.size - 1):
        lower[:] = -np.inf
        value[s, :, 0] = -np.inf
        upper[:] = -np.inf
        for r in range(starts[s], starts[s + 1]):
            high, size = upper[r - starts[s]], list_active_points(pruned, r, active_points)
            for begin in range(0, size, TILE_SIZE):
                indices = active_points[begin : min(begin + TILE_SIZE, size)]
                count = indices.size
                init_tile(indices, points, means[r], cells, tile)
                for z in range(num_values):
                    likelihoods, next_point = probs[r, z], tile.next_node[z]
                    likelihood_sum = weight_by_likelihood(count, likelihoods, cells, tile)
                    if has_successors or ahead.shape[1] == 1:
                        for j in range(count):
                            next_point[j] = successors[indices[j], vector_indices[r, z]] if has_successors else 0
                            tile.upper[j] += tile.total[j] * ahead[r, next_point[j], 0]
                    elif likelihood_sum > 0.0:
                        find_corners(count, cells, tile)
                        add_upper_bounds(count, ahead[r], cells, tile, next_point)
                    else:
                        next_point[:count] = 0
                    add_lower_bounds(count, likelihoods, ahead[r], cells, tile, next_point)
                store_best_actions(indices, labels[r], cells, tile, high, lower, value[s], best[s], next_nodes[s])
        for r in range(starts[s], starts[s + 1]):
            for k in range(num_points):
                # The slack covers rounding: an action is dropped only if it is worse by more than all errors of the
                # pass.
                upper[r - starts[s], k] += slack
            high = upper[r - starts[s]]
            keep[r] = is_undominated(high, value[s], lower, points, coordinates, ranks, pruned.dominated[r])


@kernel
def upper_right_hull(points: Any, tolerance: float, out: Any) -> int:
    """Compute the vertices of the upper right hull of ``points`` (n, 2).

    ``points`` are sorted by decreasing first, then decreasing second coordinate. Fills ``out`` (n, 2) and returns the
    number of vertices: first coordinates decrease, second ones increase, and edges turn one way. Points within
    ``tolerance`` of a line, or of another point, are not vertices.
    """
    size = 0
    for i in range(points.shape[0]):
        x, y = points[i, 0], points[i, 1]
        if size > 0 and y <= out[size - 1, 1] + tolerance:
            continue
        # Andrew's monotone chain: a vertex that is not a left turn by more than the tolerance is removed.
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
