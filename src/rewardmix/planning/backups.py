"""The compiled inner loops of planning: arrays and scalars in, ``out`` arrays filled.

Rows r are the state-actions still in play, grouped by state: those of state s are starts[s] .. starts[s+1]-1.
All arrays are C-contiguous and of one dtype each, so that one machine-code version serves every model.

    backup_two_contexts   one step on the grid of two contexts
    backup_lattice        one step on the beliefs of three and more contexts

Each moves beliefs by Bayes as it goes, unnormalised: joint = b * q, whose sum is the probability of the outcome. A test
holds them against ``belief.update``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rewardmix._core.jit import kernel

UNLIKELIEST = 1e-290
"""An outcome that is less likely than this adds nothing."""


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


class Cells(NamedTuple):
    """The lattice of the next step: where it lies, and the place of its points.

    Attributes:
        low: (M,) least belief in each context.
        spread: what the beliefs above these add up to.
        ranks: (M, n + 2), see ``lattice.ranks_of``.
    """

    low: Any
    spread: float
    ranks: Any


class Corners(NamedTuple):
    """Room for the corners around a belief.

    Attributes:
        fraction: (M,) what a coordinate is above its floor.
        floor: (M,) coordinates rounded down.
        order: (M,) coordinates 1 .. M-1 from place 1 on, the largest fraction first.
        share: (M,) of each corner in the belief.
        index: (M,) its point.
    """

    fraction: Any
    floor: Any
    order: Any
    share: Any
    index: Any


@kernel
def find_corners(joint: Any, total: float, cells: Any, out: Any) -> None:
    """The corners of the simplex of the lattice in which the direction of ``joint`` (M,) lies, and their shares.

    Args:
        joint: belief times likelihood.
        total: its sum, above 0.
        cells: the lattice.
        out: ``Corners``.
    """
    num_contexts, finest = joint.size, cells.ranks.shape[1] - 2
    scale = finest / (total * cells.spread)
    rest, first = 0.0, 0
    for i in range(num_contexts - 1, 0, -1):
        rest += max(joint[i] - cells.low[i] * total, 0.0)
        place = min(rest * scale, float(finest))
        below = np.int64(place)
        out.floor[i] = below
        out.fraction[i] = place - below
        first += cells.ranks[i, below]
    for i in range(1, num_contexts):
        j = i
        while j > 1 and out.fraction[out.order[j - 1]] < out.fraction[i]:
            out.order[j] = out.order[j - 1]
            j -= 1
        out.order[j] = i
    before = 1.0
    for i in range(num_contexts):
        if i > 0:
            raised = out.order[i]
            first += cells.ranks[raised, out.floor[raised] + 1] - cells.ranks[raised, out.floor[raised]]
        after = out.fraction[out.order[i + 1]] if i + 1 < num_contexts else 0.0
        out.share[i] = before - after
        out.index[i] = first
        before = after


class Beaten(NamedTuple):
    """Where on the lattice of a step an action cannot be optimal.

    Attributes:
        cell: (N,) the cell of the lattice of an earlier pass in which each point lies; empty if there was none.
        before: (R, C) whether a row is beaten all over each of those cells.
        now: out (R, N) the same for the cells of this lattice, or (R, 0) if that is not asked for.
    """

    cell: Any
    before: Any
    now: Any


@kernel
def beaten_around(high: Any, value: Any, points: Any, places: Any, ranks: Any, k: int) -> bool:
    """Whether an action of upper bounds ``high`` (N,) is beaten all over the cells that begin at lattice point k.

    It is if the node of the point earns more at every corner: the point with any of its coordinates raised by one. And
    it is if every corner lies where it was beaten before (-inf): no wider cell of then reaches in from elsewhere.
    """
    num_contexts = points.shape[1]
    finest = ranks.shape[1] - 2
    before = high[k] == -np.inf
    for raised in range(1 << (num_contexts - 1)):
        corner, most, inside = 0, finest, True
        for i in range(1, num_contexts):
            x = places[k, i - 1] + ((raised >> (i - 1)) & 1)
            if x > most:
                inside = False
                break
            corner += ranks[i, x]
            most = x
        if inside:
            if before != (high[corner] == -np.inf):
                return False
            earned = 0.0
            for m in range(num_contexts):
                earned += points[corner, m] * value[k, 1 + m]
            if high[corner] >= earned:
                return False
    return True


@kernel
def stays_in_play(high: Any, value: Any, lower: Any, points: Any, places: Any, ranks: Any, beaten: Any) -> bool:
    """Whether upper bounds ``high`` (N,) leave an action a belief at which nothing known beats it.

    At points that are all there is (no ``places``) the points decide; on a lattice the cells between them do too.
    ``beaten`` (N,) is filled with the cells that do not, or is empty.
    """
    stays = False
    for k in range(high.size):
        if high[k] >= lower[k]:
            stays = True
            break
    for k in range(places.shape[0]):
        if stays and beaten.size == 0:
            break
        lost = beaten_around(high, value, points, places, ranks, k)
        stays = stays or not lost
        if beaten.size > 0:
            beaten[k] = lost
    return stays


@kernel
def backup_lattice(
    laws: Any,  # (R, Z, M)
    means: Any,  # (R, M)
    starts: Any,  # (n + 1,)
    labels: Any,  # (R,)
    ahead: Any,  # (R, L, 1 + M)
    points: Any,  # (N, M)
    kinds: Any,  # (R, Z) which of the distinct laws
    after: Any,  # (N, K) next point after each distinct law, or none if the next points are a lattice
    cells: Any,  # Cells of the next lattice
    places: Any,  # (N, M - 1) own coordinates on the lattice, or none
    ranks: Any,  # (M, n + 2) of the own lattice
    beaten: Any,  # Beaten
    slack: float,
    value: Any,  # out (n, N, 1 + M)
    best: Any,  # out (n, N)
    moves: Any,  # out (n, N, Z)
    keep: Any,  # out (R,)
) -> None:
    """One backward step from belief points, to points that are known or to a lattice."""
    num_points, num_contexts, num_values = points.shape[0], points.shape[1], laws.shape[1]
    upper = np.empty((most_rows(starts), num_points))
    lower = np.empty(num_points)
    joint, earned = np.empty(num_contexts), np.empty(num_contexts)
    jump = np.empty(num_values, np.int64)
    around = Corners(
        np.zeros(num_contexts), np.zeros(num_contexts, np.int64), np.zeros(num_contexts, np.int64),
        np.zeros(num_contexts), np.zeros(num_contexts, np.int64),
    )  # fmt: skip
    for s in range(starts.size - 1):
        lower[:] = -np.inf
        for k in range(num_points):
            value[s, k, 0] = -np.inf
        for r in range(starts[s], starts[s + 1]):
            high = upper[r - starts[s]]
            for k in range(num_points):
                if beaten.cell.size > 0 and beaten.before[r, beaten.cell[k]]:
                    high[k] = -np.inf
                    continue
                hope = 0.0
                for m in range(num_contexts):
                    earned[m] = means[r, m]
                    hope += points[k, m] * means[r, m]
                for z in range(num_values):
                    total = 0.0
                    for m in range(num_contexts):
                        joint[m] = points[k, m] * laws[r, z, m]
                        total += joint[m]
                    possible = total * cells.spread > UNLIKELIEST
                    pick = np.int64(0)
                    if after.size > 0:
                        pick = np.int64(after[k, kinds[r, z]])
                        hope += total * ahead[r, pick, 0]
                    else:
                        weight = total
                        if not possible:  # under this belief, yet a continuation in the contexts that it excludes
                            weight = 0.0
                            for m in range(num_contexts):
                                joint[m] = laws[r, z, m]
                                weight += joint[m]
                        if weight > 0.0:
                            find_corners(joint, weight, cells, around)
                            most, between = -np.inf, 0.0
                            for c in range(num_contexts):
                                if around.share[c] > 0.0:
                                    corner = around.index[c]
                                    between += around.share[c] * ahead[r, corner, 0]
                                    low = 0.0
                                    for m in range(num_contexts):
                                        low += joint[m] * ahead[r, corner, 1 + m]
                                    if low > most:
                                        most, pick = low, corner
                            hope += total * between
                    for m in range(num_contexts):
                        earned[m] += laws[r, z, m] * ahead[r, pick, 1 + m]
                    jump[z] = pick
                high[k] = hope
                value[s, k, 0] = max(value[s, k, 0], hope)
                low = 0.0
                for m in range(num_contexts):
                    low += points[k, m] * earned[m]
                if low > lower[k]:
                    lower[k] = low
                    best[s, k] = labels[r]
                    for m in range(num_contexts):
                        value[s, k, 1 + m] = earned[m]
                    for z in range(num_values):
                        moves[s, k, z] = jump[z]
        for r in range(starts[s], starts[s + 1]):
            for k in range(num_points):
                upper[r - starts[s], k] += slack
            keep[r] = stays_in_play(upper[r - starts[s]], value[s], lower, points, places, ranks, beaten.now[r])


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
