"""Whether magnitudes can exist at all: difference constraints on the doubled graph.

Every row of the program says low <= l_i + l_j <= high. With two nodes a coordinate, i+ for l_i and i- for -l_i,

    l_i + l_j <= high    is    (i+) - (j-) <= high    and    (j+) - (i-) <= high
    l_i + l_j >= low     is    (i-) - (j+) <= -low    and    (j-) - (i+) <= -low

so a solution exists if and only if no cycle of this graph has a negative length, and shortest distances d from
anywhere give one: l_i = (d(i+) - d(i-)) / 2. A negative cycle is a proof of contradiction that a person can read: going
around it, the intervals of its pairs cannot all hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel

SLACK = 1e-9
"""A cycle shorter than minus this many units of log-magnitude is a contradiction; less is rounding."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The program: low <= l[first] + l[second] <= high and floor <= l <= cap.

    Attributes:
        first: (R,) coordinate i of each row, i < j (a pair of a coordinate with itself is a bound).
        second: (R,) coordinate j.
        low: (R,), -inf where the interval of the pair holds 0.
        high: (R,).
        floor: (N,).
        cap: (N,).
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    low: Floats
    high: Floats
    floor: Floats
    cap: Floats


@dataclass(frozen=True)
class Cycle:
    """A contradiction: pairs (i, j) whose bounds, added up around the cycle, leave less than nothing.

    Attributes:
        pairs: the rows in order, each (i, j, is_upper); i = j for the bound of one coordinate.
        length: the sum, negative.
    """

    pairs: tuple[tuple[int, int, bool], ...]
    length: float


def solve(rows: Rows) -> tuple[Floats | None, Cycle | None]:
    """Magnitudes that satisfy every row, or a cycle that shows that there are none."""
    size = rows.floor.size
    distance, parent = np.zeros(2 * size), np.full(2 * size, -1, np.int64)
    node = _relax(rows.first, rows.second, rows.low, rows.high, rows.floor, rows.cap, distance, parent)
    if node < 0:
        return np.clip((distance[:size] - distance[size:]) / 2.0, rows.floor, rows.cap), None
    return None, _trace(rows, parent, int(node))


def _trace(rows: Rows, parent: NDArray[np.int64], node: int) -> Cycle:
    """Walk back from a node on the cycle; an edge u -> v is a row on (u, v), upper if v is a plus node."""
    size = rows.floor.size
    walk = [node]
    while parent[walk[-1]] != node:
        walk.append(int(parent[walk[-1]]))
    walk.append(node)
    keys = rows.first * size + rows.second
    pairs, length = [], 0.0
    for head, tail in pairwise(walk):
        i, j = sorted((head % size, tail % size))
        upper = head < size
        pairs.append((i, j, upper))
        if i == j:
            length += 2.0 * (rows.cap[i] if upper else -rows.floor[i])
        else:
            row = int(np.searchsorted(keys, i * size + j))
            length += rows.high[row] if upper else -rows.low[row]
    return Cycle(tuple(pairs), float(length))


@kernel
def _relax(first: Any, second: Any, low: Any, high: Any, floor: Any, cap: Any, distance: Any, parent: Any) -> int:
    """Bellman-Ford from everywhere at distance 0; -1 if it settles, else a node on a negative cycle."""
    size = floor.size
    seen = np.empty(2 * size, np.int64)
    while True:
        changed = False
        for i in range(size):
            if distance[size + i] + 2.0 * cap[i] < distance[i] - SLACK:
                distance[i] = distance[size + i] + 2.0 * cap[i]
                parent[i] = size + i
                changed = True
            if distance[i] - 2.0 * floor[i] < distance[size + i] - SLACK:
                distance[size + i] = distance[i] - 2.0 * floor[i]
                parent[size + i] = i
                changed = True
        for row in range(first.size):
            i, j, up = first[row], second[row], high[row]
            if distance[size + j] + up < distance[i] - SLACK:
                distance[i] = distance[size + j] + up
                parent[i] = size + j
                changed = True
            if distance[size + i] + up < distance[j] - SLACK:
                distance[j] = distance[size + i] + up
                parent[j] = size + i
                changed = True
            if low[row] == -np.inf:
                continue
            if distance[j] - low[row] < distance[size + i] - SLACK:
                distance[size + i] = distance[j] - low[row]
                parent[size + i] = j
                changed = True
            if distance[i] - low[row] < distance[size + j] - SLACK:
                distance[size + j] = distance[i] - low[row]
                parent[size + j] = i
                changed = True
        if not changed:
            return -1
        node = _cycle_in(parent, seen)
        if node >= 0:
            return node


@kernel
def _cycle_in(parent: Any, seen: Any) -> int:
    """A node on a cycle of the graph of parents, or -1: every such cycle has a negative length."""
    seen[:] = -1
    for start in range(parent.size):
        node = start
        while node >= 0 and seen[node] < 0:
            seen[node] = start
            node = parent[node]
        if node >= 0 and seen[node] == start:
            return node
    return -1
