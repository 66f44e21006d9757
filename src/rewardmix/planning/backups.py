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
        low: M numbers, the least belief in each context; a tuple, so that machine code is made for their number, and
            loops over contexts are written out in it.
        spread: what the beliefs above these add up to.
        ranks: (M, n + 2), see ``lattice.ranks_of``.
    """

    low: tuple[float, ...]
    spread: float
    ranks: Any


TILE = 256
"""Beliefs that are worked on at once: vector instructions take several of them in each loop. What differs between them
is chosen, not branched to, for a processor guesses such branches wrong half of the time."""
TILE_WIDTH = TILE + 8
"""Places of a row of a tile: rows that are a power of two apart are in each other's way in fast memory."""


class Tile(NamedTuple):
    """Room for some beliefs, (..., TILE_WIDTH), and what an action brings there.

    Attributes:
        belief: (M, .)
        joint: (M, .) belief times likelihood of an outcome.
        total: (.,) their sum, the chance of the outcome.
        hope: (.,) upper bound of the action.
        earned: (., M) what it earns in each context.
        jump: (Z, .) next node.
        weight: (.,) ``total``, or what the law sums to where the outcome is impossible.
        scale: (.,) from ``joint`` to coordinates.
        rest: (.,) a sum on its way.
        fraction: (M, .) what coordinates 1 .. M-1 are above their floor, the largest first.
        raised: (M, .) by how much that coordinate, raised by one, raises the place of a point.
        share: (M, .) of each corner in the belief.
        corner: (M, .) its point; in the end the first is the best of them.
        low: (M, .) what the node of that point earns; in the end the first is the most.
    """

    belief: Any
    joint: Any
    total: Any
    hope: Any
    earned: Any
    jump: Any
    weight: Any
    scale: Any
    rest: Any
    fraction: Any
    raised: Any
    share: Any
    corner: Any
    low: Any


@kernel
def tile_for(contexts: int, values: int) -> Any:
    """An empty tile."""
    each = contexts, TILE_WIDTH
    return Tile(
        np.empty(each), np.empty(each), np.empty(TILE_WIDTH), np.empty(TILE_WIDTH), np.empty((TILE_WIDTH, contexts)),
        np.empty((values, TILE_WIDTH), np.uint32), np.empty(TILE_WIDTH), np.empty(TILE_WIDTH), np.empty(TILE_WIDTH),
        np.empty(each), np.empty(each, np.uint32), np.empty(each), np.empty(each, np.uint32), np.empty(each),
    )  # fmt: skip


@kernel
def find_corners(count: int, cells: Any, tile: Any) -> None:
    """The corners of the simplices of the lattice in which the directions of ``joint`` lie, and their shares.

    Coordinates are sorted by exchanging neighbours, at the same places for all beliefs. A corner without a share may
    lie beside the lattice: the first one, which always has a share, stands for it.
    """
    contexts, finest = len(cells.low), cells.ranks.shape[1] - 2
    first = tile.corner[0]
    for j in range(count):
        tile.scale[j] = finest / (tile.weight[j] * cells.spread)
        tile.rest[j] = 0.0
        first[j] = 0
    for i in range(contexts - 1, 0, -1):
        low = cells.low[i]
        for j in range(count):
            tile.rest[j] += max(tile.joint[i, j] - low * tile.weight[j], 0.0)
            place = min(tile.rest[j] * tile.scale[j], float(finest))
            below = np.uint32(place)
            tile.fraction[i, j] = place - below
            tile.raised[i, j] = below
        rank = cells.ranks[i]
        for j in range(count):
            below = tile.raised[i, j]
            first[j] += np.uint32(rank[below])
            tile.raised[i, j] = np.uint32(rank[below + 1] - rank[below])
    for i in range(2, contexts):
        for c in range(i, 1, -1):
            for j in range(count):
                a, b, x, y = tile.fraction[c - 1, j], tile.fraction[c, j], tile.raised[c - 1, j], tile.raised[c, j]
                tile.fraction[c - 1, j] = b if a < b else a
                tile.fraction[c, j] = a if a < b else b
                tile.raised[c - 1, j] = y if a < b else x
                tile.raised[c, j] = x if a < b else y
    for j in range(count):
        tile.share[0, j] = 1.0 - tile.fraction[1, j]
    for c in range(1, contexts):
        for j in range(count):
            after = tile.fraction[c + 1, j] if c + 1 < contexts else 0.0
            tile.share[c, j] = tile.fraction[c, j] - after
            tile.corner[c, j] = tile.corner[c - 1, j] + tile.raised[c, j]
    for c in range(1, contexts):
        for j in range(count):
            tile.corner[c, j] = tile.corner[c, j] if tile.share[c, j] > 0.0 else first[j]


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
def points_left(beaten: Any, r: int, out: Any) -> int:
    """How many points there are at which row r is not known to be beaten; they are listed in ``out`` (N,)."""
    if beaten.cell.size == 0:
        for k in range(out.size):
            out[k] = k
        return int(out.size)
    left, before = 0, beaten.before[r]
    for k in range(out.size):
        out[left] = k
        left += not before[beaten.cell[k]]
    return left


@kernel
def begin_tile(listed: Any, points: Any, means: Any, cells: Any, tile: Any) -> None:
    """The beliefs of the ``listed`` points, and what an action of ``means`` (M,) brings at once."""
    tile.hope[: listed.size] = 0.0
    for m in range(len(cells.low)):
        mean = means[m]
        for j in range(listed.size):
            tile.belief[m, j] = points[listed[j], m]
            tile.hope[j] += tile.belief[m, j] * mean
            tile.earned[j, m] = mean


@kernel
def weigh_outcome(count: int, law: Any, cells: Any, tile: Any) -> float:
    """Belief times likelihood of an outcome of ``law`` (M,), and its chance; returns what the law sums to.

    Where the outcome is impossible under the belief there is yet a continuation in the contexts that it excludes.
    """
    contexts, impossible, anywhere = len(cells.low), 0, 0.0
    tile.total[:count] = 0.0
    for m in range(contexts):
        likelihood = law[m]
        anywhere += likelihood
        for j in range(count):
            tile.joint[m, j] = tile.belief[m, j] * likelihood
            tile.total[j] += tile.joint[m, j]
    for j in range(count):
        tile.weight[j] = tile.total[j]
        impossible += not tile.total[j] * cells.spread > UNLIKELIEST
    if impossible > 0:
        for j in range(count):
            if not tile.total[j] * cells.spread > UNLIKELIEST:
                tile.weight[j] = anywhere
                for m in range(contexts):
                    tile.joint[m, j] = law[m]
    return anywhere


@kernel
def look_ahead(count: int, ahead: Any, cells: Any, tile: Any, jump: Any) -> None:
    """Adds the mixture of the upper bounds ``ahead`` (L, 1 + M) at the corners, and goes on to the best of these."""
    contexts = len(cells.low)
    for j in range(count):
        between = 0.0
        for c in range(contexts):
            corner = tile.corner[c, j]
            between += tile.share[c, j] * ahead[corner, 0]
            low = 0.0
            for m in range(contexts):
                low += tile.joint[m, j] * ahead[corner, 1 + m]
            tile.low[c, j] = low
        tile.hope[j] += tile.total[j] * between
    for c in range(1, contexts):
        for j in range(count):
            better = tile.low[c, j] > tile.low[0, j]
            tile.low[0, j] = tile.low[c, j] if better else tile.low[0, j]
            tile.corner[0, j] = tile.corner[c, j] if better else tile.corner[0, j]
    jump[:count] = tile.corner[0, :count]


@kernel
def earn_on(count: int, law: Any, ahead: Any, cells: Any, tile: Any, jump: Any) -> None:
    """Adds what the next nodes earn after an outcome of ``law`` (M,)."""
    for j in range(count):
        for m in range(len(cells.low)):
            tile.earned[j, m] += law[m] * ahead[jump[j], 1 + m]


@kernel
def keep_best(
    listed: Any, label: int, cells: Any, tile: Any, high: Any, lower: Any, value: Any, best: Any, moves: Any
) -> None:
    """Enters an action at the ``listed`` points of a state where it earns more than those before it."""
    contexts = len(cells.low)
    for j in range(listed.size):
        k = listed[j]
        high[k] = tile.hope[j]
        value[k, 0] = max(value[k, 0], tile.hope[j])
        low = 0.0
        for m in range(contexts):
            low += tile.belief[m, j] * tile.earned[j, m]
        if low > lower[k]:
            lower[k] = low
            best[k] = label
            for m in range(contexts):
                value[k, 1 + m] = tile.earned[j, m]
            for z in range(moves.shape[1]):
                moves[k, z] = tile.jump[z, j]


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
    num_points, num_values, known = points.shape[0], laws.shape[1], after.size > 0
    upper = np.empty((most_rows(starts), num_points))
    lower = np.empty(num_points)
    left = np.empty(num_points, np.int64)
    tile = tile_for(len(cells.low), num_values)
    for s in range(starts.size - 1):
        lower[:] = -np.inf
        value[s, :, 0] = -np.inf
        upper[:] = -np.inf
        for r in range(starts[s], starts[s + 1]):
            high, size = upper[r - starts[s]], points_left(beaten, r, left)
            for begin in range(0, size, TILE):
                listed = left[begin : min(begin + TILE, size)]
                count = listed.size
                begin_tile(listed, points, means[r], cells, tile)
                for z in range(num_values):
                    law, jump = laws[r, z], tile.jump[z]
                    anywhere = weigh_outcome(count, law, cells, tile)
                    if known or ahead.shape[1] == 1:
                        for j in range(count):
                            jump[j] = after[listed[j], kinds[r, z]] if known else 0
                            tile.hope[j] += tile.total[j] * ahead[r, jump[j], 0]
                    elif anywhere > 0.0:
                        find_corners(count, cells, tile)
                        look_ahead(count, ahead[r], cells, tile, jump)
                    else:
                        jump[:count] = 0
                    earn_on(count, law, ahead[r], cells, tile, jump)
                keep_best(listed, labels[r], cells, tile, high, lower, value[s], best[s], moves[s])
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
