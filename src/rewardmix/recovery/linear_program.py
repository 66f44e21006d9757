"""Magnitudes of the spread by linear programming (Algorithm 3, first line; appendix "Formulation of the LP").

    minimise    sum_i l_i                                           l_i = log |spread_i|
    subject to  l_i + l_j <= log max(|lower_ij|, |upper_ij|)        every observed pair
                l_i + l_j >= log min(|lower_ij|, |upper_ij|)        where the interval excludes 0
                10 log epsilon_0 <= l_i <= log(cap_i + epsilon_0^2)

cap_i is the largest magnitude for any average within its interval. At weights 1/2 that is min(a, 1 - a) + radius, at
most 1/2 (the paper); for other weights w the larger of the two one-sided caps that 0 <= p_1, p_2 <= 1 leave, since the
sign is not yet known (departures 12 and 26 of docs/paper.md). Each rises to its peak and falls, with slopes
sqrt(w_2 / w_1) and its inverse, so that it is largest where the interval comes nearest to the peak. Then every model in
the set with these weights has magnitudes that satisfy the program: contradictions speak against the set or the weights.

If no magnitudes exist, ``kappa`` is the factor by which all radii would have to grow; up to ``MILD`` the program is
solved with radii grown that much, above it the rows may be broken at a price, and those that are broken are named
(departure 24).

Whether magnitudes can exist at all is asked first: difference constraints on the doubled graph. Every row of the
program says low <= l_i + l_j <= high. With two nodes a coordinate, i+ for l_i and i- for -l_i,

    l_i + l_j <= high    is    (i+) - (j-) <= high    and    (j+) - (i-) <= high
    l_i + l_j >= low     is    (i-) - (j+) <= -low    and    (j-) - (i+) <= -low

so a solution exists if and only if no cycle of this graph has a negative length, and shortest distances d from
anywhere give one: l_i = (d(i+) - d(i-)) / 2. A negative cycle is a proof of contradiction that a person can read: going
around it, the intervals of its pairs cannot all hold.

Row generation (HiGHS). Half a million rows but a thousand unknowns: rows are added as they are violated, the worst at
each coordinate, and the dual simplex goes on from where it stood.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.jit import deferred, kernel
from rewardmix._core.portable import log, logs
from rewardmix.recovery.confidence_set import ConfidenceSet

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


def feasible_point(rows: Rows) -> tuple[Floats | None, Cycle | None]:
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
    pairs = []
    for head, tail in pairwise([*walk, node]):
        i, j = sorted((head % size, tail % size))
        pairs.append((i, j, head < size))
    return Cycle(tuple(pairs), _length(rows, pairs))


def _length(rows: Rows, pairs: Iterable[tuple[int, int, bool]]) -> float:
    """Sum of the bounds around a cycle."""
    size, total = rows.floor.size, 0.0
    keys = rows.first * size + rows.second
    for i, j, upper in pairs:
        if i == j:
            total += 2.0 * float(rows.cap[i] if upper else -rows.floor[i])
        else:
            row = int(np.searchsorted(keys, i * size + j))
            total += float(rows.high[row] if upper else -rows.low[row])
    return total


@deferred(lambda first, second, low, high, floor, cap, distance, parent: 8 * (first.size + floor.size) * floor.size)
def _relax(first: Any, second: Any, low: Any, high: Any, floor: Any, cap: Any, distance: Any, parent: Any) -> int:
    """Bellman-Ford from everywhere at distance 0; -1 if it settles, else a node on a negative cycle."""
    size = floor.size
    seen = np.empty(2 * size, np.int64)
    while True:
        changed = False
        for i in range(size):
            changed |= _shorten(distance, parent, size + i, i, 2.0 * cap[i])
            changed |= _shorten(distance, parent, i, size + i, -2.0 * floor[i])
        for row in range(first.size):
            i, j = first[row], second[row]
            changed |= _shorten(distance, parent, size + j, i, high[row])
            changed |= _shorten(distance, parent, size + i, j, high[row])
            if low[row] > -np.inf:
                changed |= _shorten(distance, parent, j, size + i, -low[row])
                changed |= _shorten(distance, parent, i, size + j, -low[row])
        if not changed:
            return -1
        node = _cycle_in(parent, seen)
        if node >= 0:
            return node


@kernel
def _shorten(distance: Any, parent: Any, tail: Any, head: Any, length: Any) -> bool:
    """Go to ``head`` by way of ``tail`` if that is shorter by more than rounding."""
    if distance[tail] + length < distance[head] - SLACK:
        distance[head] = distance[tail] + length
        parent[head] = tail
        return True
    return False


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


VIOLATION = 1e-7
"""Rows broken by less than this are satisfied."""

PRICE = 1e3
"""Cost of one unit of broken row in the elastic program, against 1 for a unit of log-magnitude."""


def minimise(rows: Rows, *, elastic: bool) -> tuple[Floats, tuple[tuple[int, int], ...], int, int]:
    """(l, broken pairs, rounds, rows used): row generation around a warm dual simplex."""
    import highspy

    size = rows.floor.size
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    floor = np.minimum(rows.floor, rows.cap)  # bounds that contradict each other give way in the elastic program
    solver.addVars(size, floor, rows.cap)
    solver.changeColsCost(size, np.arange(size, dtype=np.int32), np.ones(size))
    point = floor
    used = np.zeros(rows.first.size, bool)
    rounds = 0
    while True:
        chosen = _worst(rows, point, used)
        if chosen.size == 0:
            break
        rounds += 1
        used[chosen] = True
        _add(solver, rows, chosen, elastic=elastic)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise ArithmeticError(
                f"the linear program ended with {solver.modelStatusToString(solver.getModelStatus())}"
            )
        point = np.asarray(solver.getSolution().col_value)[:size]
    total = point[rows.first] + point[rows.second]
    beyond = (total > rows.high + 1e-6) | (total < rows.low - 1e-6)
    broken = tuple((int(rows.first[k]), int(rows.second[k])) for k in np.flatnonzero(beyond))
    return point, broken, rounds, int(used.sum())


def _worst(rows: Rows, point: Floats, used: Any) -> Any:
    """For each coordinate the unused row at it that is violated most."""
    best = np.full(point.size, -1, np.int64)
    _worst_rows(rows.first, rows.second, rows.low, rows.high, point, used, best, np.full(point.size, VIOLATION))
    return np.unique(best[best >= 0])


def _add(solver: Any, rows: Rows, chosen: Any, *, elastic: bool) -> None:
    count, columns, values = chosen.size, [rows.first[chosen], rows.second[chosen]], [1.0, 1.0]
    if elastic:
        begin = solver.getNumCol()
        extra = np.arange(begin, begin + 2 * count, dtype=np.int32)
        solver.addVars(2 * count, np.zeros(2 * count), np.full(2 * count, np.inf))
        solver.changeColsCost(2 * count, extra, np.full(2 * count, PRICE))
        columns, values = [*columns, extra[:count], extra[count:]], [*values, 1.0, -1.0]
    width = len(columns)
    begins = np.arange(0, width * count, width, dtype=np.int32)
    index = np.stack(columns, axis=1).astype(np.int32).ravel()
    solver.addRows(count, rows.low[chosen], rows.high[chosen], width * count, begins, index, np.tile(values, count))


@deferred(lambda first, *_: 2 * first.size)
def _worst_rows(first: Any, second: Any, low: Any, high: Any, point: Any, used: Any, best: Any, worst: Any) -> None:
    for row in range(first.size):
        if used[row]:
            continue
        i, j = first[row], second[row]
        total = point[i] + point[j]
        over = max(total - high[row], low[row] - total)
        if over > worst[i]:
            worst[i] = over
            best[i] = row
        if over > worst[j]:
            worst[j] = over
            best[j] = row


MILD = 1.5
"""Above this growth of the radii the elastic program says more than grown intervals."""


@dataclass(frozen=True, eq=False)
class Magnitudes:
    """The answer of the program.

    Attributes:
        log: (N,) l_i.
        objective: sum of l.
        status: "feasible", "grown" (solved with all radii times kappa) or "elastic" (some rows broken).
        kappa: 1 if feasible, else the factor by which the radii must grow; inf if no factor helps.
        contradiction: the cycle that shows infeasibility, if there is one.
        broken: pairs (i, j) of coordinates whose rows the elastic solution breaks.
        rounds: how often rows were added.
        rows: how many of the rows were needed.
    """

    log: Floats
    objective: float
    status: str
    kappa: float
    contradiction: Cycle | None
    broken: tuple[tuple[int, int], ...]
    rounds: int
    rows: int


def magnitudes(confidence: ConfidenceSet, weights: Floats | None = None) -> Magnitudes:
    """Solve the program on a confidence set; ``weights`` (two of them) move the caps."""
    program = program_of(confidence, weights)
    _, cycle = feasible_point(program)
    if cycle is None:
        log, _, rounds, rows = minimise(program, elastic=False)
        return Magnitudes(log, float(log.sum()), "feasible", 1.0, None, (), rounds, rows)
    kappa = growth(confidence, weights, cycle)
    if kappa <= MILD:
        log, _, rounds, rows = minimise(program_of(confidence.grown(kappa * (1 + 1e-6)), weights), elastic=False)
        return Magnitudes(log, float(log.sum()), "grown", kappa, cycle, (), rounds, rows)
    log, broken, rounds, rows = minimise(program, elastic=True)
    return Magnitudes(log, float(log.sum()), "elastic", kappa, cycle, broken, rounds, rows)


def program_of(confidence: ConfidenceSet, weights: Floats | None = None) -> Rows:
    """The rows and bounds above, from the intervals."""
    lower, upper = confidence.lower, confidence.upper
    floor = np.full(confidence.average.size, 10.0 * log(min(confidence.tolerance, 0.5)))
    cap = logs(caps(confidence, weights))
    high = logs(np.maximum(np.abs(lower), np.abs(upper)))
    low = np.where(confidence.excludes_zero, logs(np.minimum(np.abs(lower), np.abs(upper))), -np.inf)
    cap = np.maximum(cap, floor)
    # A product below the smallest magnitude times the largest is as good as zero: one factor at its floor does it
    # (departure 23).
    least = floor.max() + max(0.0, float(cap.max(initial=0.0)))
    high = np.maximum(high, least)
    low = np.where(low > least, low, -np.inf)
    own = confidence.first == confidence.second
    points = confidence.first[own]
    np.minimum.at(cap, points, high[own] / 2.0)
    np.maximum.at(floor, points, np.where(upper[own] < 0, -np.inf, low[own] / 2.0))
    return Rows(confidence.first[~own], confidence.second[~own], low[~own], high[~own], floor, cap)


def caps(confidence: ConfidenceSet, weights: Floats | None) -> Floats:
    """(N,) epsilon_0^2 and the largest magnitude that leaves p_1, p_2 probabilities at an average in its interval."""
    known = np.isfinite(confidence.average)
    low = np.where(known, np.maximum(confidence.average - confidence.average_radius, 0.0), 0.0)
    high = np.where(known, np.minimum(confidence.average + confidence.average_radius, 1.0), 1.0)
    one, two = (0.5, 0.5) if weights is None else (float(weights[0]), float(weights[1]))
    plus, _ = one_sided_caps(np.clip(one, low, high), weights)  # largest at average = w_1, with p_1 = 1 and p_2 = 0
    _, minus = one_sided_caps(np.clip(two, low, high), weights)
    return np.asarray(np.maximum(plus, minus) + confidence.tolerance * confidence.tolerance)


def one_sided_caps(average: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """(plus, minus): largest spread of each sign for which p_1 and p_2 are probabilities."""
    ratio = 1.0 if weights is None else float(np.sqrt(weights[1] / weights[0]))
    return (np.minimum((1.0 - average) / ratio, average * ratio), np.minimum(average / ratio, (1.0 - average) * ratio))


def growth(confidence: ConfidenceSet, weights: Floats | None, cycle: Cycle | None) -> float:
    """kappa: the least factor for the radii without a contradiction.

    Each contradiction found names the least factor that resolves it; growing to that and looking again ends at kappa.
    """
    kappa = 1.0
    while cycle is not None:
        kappa = _resolving(confidence, weights, cycle, kappa)
        if not np.isfinite(kappa):
            return float("inf")
        _, cycle = feasible_point(program_of(confidence.grown(kappa), weights))
    return kappa


def _resolving(confidence: ConfidenceSet, weights: Floats | None, cycle: Cycle, kappa: float) -> float:
    """The least factor above ``kappa`` at which this one cycle is no contradiction, by bisection."""

    def length(factor: float) -> float:
        return _length(program_of(confidence.grown(factor), weights), cycle.pairs)

    points = sorted({i for pair in cycle.pairs for i in pair[:2]})
    confidence = restricted(confidence, points)
    names = {point: place for place, point in enumerate(points)}
    cycle = Cycle(tuple((names[i], names[j], upper) for i, j, upper in cycle.pairs), cycle.length)
    low, high = kappa, 2.0 * kappa
    while length(high) < 0:
        low, high = high, 2.0 * high
        if high > 1e9:
            return float("inf")
    while high - low > 1e-7 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if length(middle) < 0 else (low, middle)
    return high * (1.0 + 1e-7)


def restricted(confidence: ConfidenceSet, points: list[int]) -> ConfidenceSet:
    """The intervals among some coordinates only, renumbered."""
    place = np.full(confidence.average.size, -1)
    place[points] = np.arange(len(points))
    kept = (place[confidence.first] >= 0) & (place[confidence.second] >= 0)
    coordinates = {name: getattr(confidence, name)[points] for name in ("average", "average_radius")}
    names = ("centre", "radius", "deviation", "null_deviation", "counts")
    pairs = {name: getattr(confidence, name)[kept] for name in names}
    ends = {name: place[getattr(confidence, name)[kept]] for name in ("first", "second")}
    return replace(confidence, **coordinates, **ends, **pairs)
