"""Compute magnitudes of the loadings by linear programming (Algorithm 3, first line; appendix "Formulation of the LP").

    minimize    sum_i l_i                                           l_i = log |loadings_i|
    subject to  l_i + l_j <= log max(|lower_ij|, |upper_ij|)        every observed pair
                l_i + l_j >= log min(|lower_ij|, |upper_ij|)        where the interval excludes 0
                10 log epsilon_0 <= l_i <= log(cap_i + epsilon_0^2)

cap_i is the largest magnitude for any marginal within its interval. At weights 1/2 that is min(a, 1 - a) + radius, at
most 1/2 (the paper). For other weights w it is the larger of the two one-sided caps that 0 <= p_1, p_2 <= 1 leave,
since the sign is not yet known (departures 12 and 26 of docs/concepts/paper-and-code.md). Each one-sided cap rises to
its peak and falls, with slopes sqrt(w_2 / w_1) and its inverse, so it is largest where the interval comes nearest to
the peak. Every model in the set with these weights has magnitudes that satisfy the program: a contradiction is evidence
against the set or the weights.

If no magnitudes exist, ``radius_inflation`` (kappa) is the factor by which all radii have to grow. Up to
``MAX_SCALED_INFLATION`` the program is solved with radii inflated that much. Above it rows may be violated at a cost,
and the violated pairs are listed (departure 24).

Feasibility is decided first, by difference constraints on the doubled graph. Every row of the program is
lower <= l_i + l_j <= upper. With two nodes per coordinate, i+ for l_i and i- for -l_i,

    l_i + l_j <= upper    is    (i+) - (j-) <= upper     and    (j+) - (i-) <= upper
    l_i + l_j >= lower    is    (i-) - (j+) <= -lower    and    (j-) - (i+) <= -lower

so a solution exists if and only if no cycle of this graph has negative length. Shortest distances d then give one:
l_i = (d(i+) - d(i-)) / 2. A negative cycle is a readable proof of contradiction: the intervals of its pairs cannot all
hold.

Row generation (HiGHS). There are half a million rows but a thousand unknowns: rows are added as they are violated, the
most violated one at each coordinate, and the dual simplex continues from its previous basis.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel, lazy_jit
from rewardmix._core.portable_math import log, log_array
from rewardmix.recovery.confidence_set import ConfidenceSet

CYCLE_TOLERANCE = 1e-9
"""A cycle shorter than minus this many units of log-magnitude is a contradiction; a smaller deficit is rounding."""


@dataclass(frozen=True, eq=False)
class Constraints:
    """Constraints of the program: lower <= l[first] + l[second] <= upper and min_value <= l <= max_value.

    Attributes:
        first: (R,) coordinate i of each row, i < j (a pair of a coordinate with itself is a bound).
        second: (R,) coordinate j.
        lower: (R,) lower limits, -inf where the interval of the pair contains 0.
        upper: (R,) upper limits.
        min_value: (N,) lower bounds of l.
        max_value: (N,) upper bounds of l.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    lower: Floats
    upper: Floats
    min_value: Floats
    max_value: Floats


@dataclass(frozen=True)
class NegativeCycle:
    """Contradiction: pairs (i, j) whose bounds sum to a negative number around a cycle.

    Attributes:
        pairs: Rows in order, each (i, j, is_upper); i = j for the bound of one coordinate.
        slack: Sum of the bounds, negative.
    """

    pairs: tuple[tuple[int, int, bool], ...]
    slack: float


def find_feasible_point(rows: Constraints) -> tuple[Floats | None, NegativeCycle | None]:
    """Find magnitudes that satisfy every row, or a cycle that proves that there are none."""
    size = rows.min_value.size
    distance, parent = np.zeros(2 * size), np.full(2 * size, -1, np.int64)
    node = _bellman_ford(
        rows.first, rows.second, rows.lower, rows.upper, rows.min_value, rows.max_value, distance, parent
    )
    if node < 0:
        return np.clip((distance[:size] - distance[size:]) / 2.0, rows.min_value, rows.max_value), None
    return None, _trace_cycle(rows, parent, int(node))


def _trace_cycle(rows: Constraints, parent: NDArray[np.int64], node: int) -> NegativeCycle:
    """Trace the cycle back from one of its nodes; edge u -> v is a row on (u, v), an upper limit if v is i+."""
    size = rows.min_value.size
    path = [node]
    while parent[path[-1]] != node:
        path.append(int(parent[path[-1]]))
    pairs = []
    for head, tail in pairwise([*path, node]):
        i, j = sorted((head % size, tail % size))
        pairs.append((i, j, head < size))
    return NegativeCycle(tuple(pairs), _cycle_length(rows, pairs))


def _cycle_length(rows: Constraints, pairs: Iterable[tuple[int, int, bool]]) -> float:
    """Sum the bounds around a cycle."""
    size, total = rows.min_value.size, 0.0
    keys = rows.first * size + rows.second
    for i, j, upper in pairs:
        if i == j:
            # The edge between i+ and i- bounds l_i - (-l_i) = 2 l_i.
            total += 2.0 * float(rows.max_value[i] if upper else -rows.min_value[i])
        else:
            # Rows are sorted by (first, second), as the pairs of a confidence set are.
            row = int(np.searchsorted(keys, i * size + j))
            total += float(rows.upper[row] if upper else -rows.lower[row])
    return total


@lazy_jit(lambda first, second, low, high, floor, cap, distance, parent: 8 * (first.size + floor.size) * floor.size)
def _bellman_ford(
    first: Any, second: Any, low: Any, high: Any, floor: Any, cap: Any, distance: Any, parent: Any
) -> int:
    """Run Bellman-Ford with all distances 0 initially; return -1 if it settles, else a node on a negative cycle."""
    size = floor.size
    marks = np.empty(2 * size, np.int64)
    while True:
        changed = False
        for i in range(size):
            changed |= _relax_edge(distance, parent, size + i, i, 2.0 * cap[i])
            changed |= _relax_edge(distance, parent, i, size + i, -2.0 * floor[i])
        for row in range(first.size):
            i, j = first[row], second[row]
            changed |= _relax_edge(distance, parent, size + j, i, high[row])
            changed |= _relax_edge(distance, parent, size + i, j, high[row])
            if low[row] > -np.inf:
                changed |= _relax_edge(distance, parent, j, size + i, -low[row])
                changed |= _relax_edge(distance, parent, i, size + j, -low[row])
        if not changed:
            return -1
        # Parents are searched after every pass: a negative cycle shows up there long before the worst-case number of
        # passes.
        node = _find_cycle(parent, marks)
        if node >= 0:
            return node


@kernel
def _relax_edge(distance: Any, parent: Any, tail: Any, head: Any, length: Any) -> bool:
    """Relax an edge: shorten the distance of ``head`` by way of ``tail`` if the gain exceeds rounding."""
    if distance[tail] + length < distance[head] - CYCLE_TOLERANCE:
        distance[head] = distance[tail] + length
        parent[head] = tail
        return True
    return False


@kernel
def _find_cycle(parent: Any, marks: Any) -> int:
    """Find a node on a cycle of the parent graph, or -1; every such cycle has negative length."""
    marks[:] = -1
    for start in range(parent.size):
        node = start
        while node >= 0 and marks[node] < 0:
            # Each search marks nodes with its start; meeting its own mark closes a cycle, another mark was searched
            # before.
            marks[node] = start
            node = parent[node]
        if node >= 0 and marks[node] == start:
            return node
    return -1


VIOLATION_TOLERANCE = 1e-7
"""Rows violated by less than this count as satisfied."""

VIOLATION_COST = 1e3
"""Cost of one unit of violation in the elastic program, against 1 for a unit of log-magnitude."""


def minimize_magnitudes(rows: Constraints, *, elastic: bool) -> tuple[Floats, tuple[tuple[int, int], ...], int, int]:
    """Solve the program by row generation around a warm dual simplex; return (l, violated pairs, rounds, rows used)."""
    import highspy

    size = rows.min_value.size
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    # One thread: the returned vertex must not depend on the scheduling of threads.
    solver.setOptionValue("threads", 1)
    floor = np.minimum(rows.min_value, rows.max_value)  # contradicting bounds are relaxed in the elastic program
    solver.addVars(size, floor, rows.max_value)
    solver.changeColsCost(size, np.arange(size, dtype=np.int32), np.ones(size))
    point = floor
    used = np.zeros(rows.first.size, bool)
    rounds = 0
    while True:
        new_rows = _most_violated_rows(rows, point, used)
        if new_rows.size == 0:
            break
        rounds += 1
        used[new_rows] = True
        _add_rows(solver, rows, new_rows, elastic=elastic)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise ArithmeticError(
                f"the linear program ended with {solver.modelStatusToString(solver.getModelStatus())}"
            )
        point = np.asarray(solver.getSolution().col_value)[:size]
    total = point[rows.first] + point[rows.second]
    is_violated = (total > rows.upper + 1e-6) | (total < rows.lower - 1e-6)
    violated = tuple((int(rows.first[k]), int(rows.second[k])) for k in np.flatnonzero(is_violated))
    return point, violated, rounds, int(used.sum())


def _most_violated_rows(rows: Constraints, point: Floats, used: Any) -> Any:
    """Select, for each coordinate, the unused row that is violated most."""
    best = np.full(point.size, -1, np.int64)
    _find_most_violated(
        rows.first, rows.second, rows.lower, rows.upper, point, used, best, np.full(point.size, VIOLATION_TOLERANCE)
    )
    return np.unique(best[best >= 0])


def _add_rows(solver: Any, rows: Constraints, new_rows: Any, *, elastic: bool) -> None:
    """Add rows to the solver; in the elastic program each gets a surplus and a slack variable with a cost."""
    count, columns, values = new_rows.size, [rows.first[new_rows], rows.second[new_rows]], [1.0, 1.0]
    if elastic:
        begin = solver.getNumCol()
        extra = np.arange(begin, begin + 2 * count, dtype=np.int32)
        solver.addVars(2 * count, np.zeros(2 * count), np.full(2 * count, np.inf))
        solver.changeColsCost(2 * count, extra, np.full(2 * count, VIOLATION_COST))
        columns, values = [*columns, extra[:count], extra[count:]], [*values, 1.0, -1.0]
    width = len(columns)
    row_offsets = np.arange(0, width * count, width, dtype=np.int32)
    index = np.stack(columns, axis=1).astype(np.int32).ravel()
    solver.addRows(
        count, rows.lower[new_rows], rows.upper[new_rows], width * count, row_offsets, index, np.tile(values, count)
    )


@lazy_jit(lambda first, *_: 2 * first.size)
def _find_most_violated(
    first: Any, second: Any, low: Any, high: Any, point: Any, used: Any, best: Any, max_violation: Any
) -> None:
    """Find in place, for each coordinate, the most violated unused row above the threshold in ``max_violation``."""
    for row in range(first.size):
        if used[row]:
            continue
        i, j = first[row], second[row]
        total = point[i] + point[j]
        violation = max(total - high[row], low[row] - total)
        if violation > max_violation[i]:
            max_violation[i] = violation
            best[i] = row
        if violation > max_violation[j]:
            max_violation[j] = violation
            best[j] = row


MAX_SCALED_INFLATION = 1.5
"""Up to this inflation the program is solved with inflated radii; above it the elastic program names the violated
pairs.
"""


@dataclass(frozen=True, eq=False)
class MagnitudeSolution:
    """Solution of the program.

    Attributes:
        log_magnitudes: (N,) l_i.
        objective: Sum of l.
        status: "feasible", "inflated" (solved with all radii times ``radius_inflation``) or "elastic" (some rows
            violated).
        radius_inflation: 1 if feasible, else the factor by which the radii must grow; inf if no factor helps.
        contradiction: Cycle that proves infeasibility, if there is one.
        violated_pairs: Pairs (i, j) of coordinates whose rows the elastic solution violates.
        num_rounds: How often rows were added.
        num_constraints: How many rows were needed.
    """

    log_magnitudes: Floats
    objective: float
    status: str
    radius_inflation: float
    contradiction: NegativeCycle | None
    violated_pairs: tuple[tuple[int, int], ...]
    num_rounds: int
    num_constraints: int


def solve_magnitudes(confidence_set: ConfidenceSet, weights: Floats | None = None) -> MagnitudeSolution:
    """Solve the program on a confidence set; ``weights`` (two of them) set the caps."""
    program = make_constraints(confidence_set, weights)
    _, cycle = find_feasible_point(program)
    if cycle is None:
        magnitudes, _, rounds, rows = minimize_magnitudes(program, elastic=False)
        return MagnitudeSolution(magnitudes, float(magnitudes.sum()), "feasible", 1.0, None, (), rounds, rows)
    # The factor comes from a bisection; the extra 1e-6 below keeps the inflated program feasible after rounding.
    kappa = min_radius_inflation(confidence_set, weights, cycle)
    if kappa <= MAX_SCALED_INFLATION:
        magnitudes, _, rounds, rows = minimize_magnitudes(
            make_constraints(confidence_set.scale_radii(kappa * (1 + 1e-6)), weights), elastic=False
        )
        return MagnitudeSolution(magnitudes, float(magnitudes.sum()), "inflated", kappa, cycle, (), rounds, rows)
    magnitudes, violated, rounds, rows = minimize_magnitudes(program, elastic=True)
    return MagnitudeSolution(magnitudes, float(magnitudes.sum()), "elastic", kappa, cycle, violated, rounds, rows)


def make_constraints(confidence_set: ConfidenceSet, weights: Floats | None = None) -> Constraints:
    """Make the constraints of the program from the intervals of a confidence set."""
    lower, upper = confidence_set.lower, confidence_set.upper
    floor = np.full(confidence_set.marginals.size, 10.0 * log(min(confidence_set.tolerance, 0.5)))
    cap = log_array(magnitude_caps(confidence_set, weights))
    high = log_array(np.maximum(np.abs(lower), np.abs(upper)))
    low = np.where(confidence_set.excludes_zero, log_array(np.minimum(np.abs(lower), np.abs(upper))), -np.inf)
    cap = np.maximum(cap, floor)
    # A product below the smallest magnitude times the largest is as good as zero: one factor at its floor does it
    # (departure 23).
    min_bound = floor.max() + max(0.0, float(cap.max(initial=0.0)))
    high = np.maximum(high, min_bound)
    low = np.where(low > min_bound, low, -np.inf)
    # A pair of a coordinate with itself bounds 2 l_i, so it becomes a bound of the variable instead of a row.
    same = confidence_set.pair_first == confidence_set.pair_second
    points = confidence_set.pair_first[same]
    np.minimum.at(cap, points, high[same] / 2.0)
    np.maximum.at(floor, points, np.where(upper[same] < 0, -np.inf, low[same] / 2.0))
    return Constraints(
        confidence_set.pair_first[~same], confidence_set.pair_second[~same], low[~same], high[~same], floor, cap
    )


def magnitude_caps(confidence_set: ConfidenceSet, weights: Floats | None) -> Floats:
    """Compute (N,) caps: epsilon_0^2 plus the largest magnitude with p_1, p_2 in [0, 1].

    The marginal may be anywhere in its interval.
    """
    is_visited = np.isfinite(confidence_set.marginals)
    low = np.where(is_visited, np.maximum(confidence_set.marginals - confidence_set.marginal_radius, 0.0), 0.0)
    high = np.where(is_visited, np.minimum(confidence_set.marginals + confidence_set.marginal_radius, 1.0), 1.0)
    w_1, w_2 = (0.5, 0.5) if weights is None else (float(weights[0]), float(weights[1]))
    plus, _ = one_sided_caps(np.clip(w_1, low, high), weights)  # largest at marginal = w_1, with p_1 = 1 and p_2 = 0
    _, minus = one_sided_caps(np.clip(w_2, low, high), weights)
    return np.asarray(np.maximum(plus, minus) + confidence_set.tolerance * confidence_set.tolerance)


def one_sided_caps(marginals: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Compute (plus, minus): the largest loading of each sign for which p_1 and p_2 are probabilities."""
    ratio = 1.0 if weights is None else float(np.sqrt(weights[1] / weights[0]))
    return (
        np.minimum((1.0 - marginals) / ratio, marginals * ratio),
        np.minimum(marginals / ratio, (1.0 - marginals) * ratio),
    )


def min_radius_inflation(confidence_set: ConfidenceSet, weights: Floats | None, cycle: NegativeCycle | None) -> float:
    """Compute the smallest factor for the radii at which no contradiction remains (radius inflation, kappa).

    Each contradiction gives the factor that resolves it; the radii grow to it and the search repeats until none is
    found.
    """
    kappa = 1.0
    while cycle is not None:
        kappa = _inflation_for_cycle(confidence_set, weights, cycle, kappa)
        if not np.isfinite(kappa):
            return float("inf")
        _, cycle = find_feasible_point(make_constraints(confidence_set.scale_radii(kappa), weights))
    return kappa


def _inflation_for_cycle(
    confidence_set: ConfidenceSet, weights: Floats | None, cycle: NegativeCycle, kappa: float
) -> float:
    """Compute by bisection the smallest factor above ``kappa`` at which this cycle is no contradiction."""

    def length(factor: float) -> float:
        """Return the cycle's slack after inflation by ``factor``."""
        return _cycle_length(make_constraints(confidence_set.scale_radii(factor), weights), cycle.pairs)

    points = sorted({i for pair in cycle.pairs for i in pair[:2]})
    # The bisection needs only the few pairs of the cycle; rebuilding all rows in each step would be quadratic in X.
    confidence_set = restrict_to_points(confidence_set, points)
    index = {point: k for k, point in enumerate(points)}
    cycle = NegativeCycle(tuple((index[i], index[j], upper) for i, j, upper in cycle.pairs), cycle.slack)
    low, high = kappa, 2.0 * kappa
    while length(high) < 0:
        low, high = high, 2.0 * high
        if high > 1e9:
            return float("inf")
    while high - low > 1e-7 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if length(middle) < 0 else (low, middle)
    # The upper end, slightly enlarged: the returned factor resolves the cycle despite rounding.
    return high * (1.0 + 1e-7)


def restrict_to_points(confidence_set: ConfidenceSet, points: list[int]) -> ConfidenceSet:
    """Return the intervals among a few coordinates only, renumbered from 0."""
    new_index = np.full(confidence_set.marginals.size, -1)
    new_index[points] = np.arange(len(points))
    is_inside = (new_index[confidence_set.pair_first] >= 0) & (new_index[confidence_set.pair_second] >= 0)
    coordinates = {name: getattr(confidence_set, name)[points] for name in ("marginals", "marginal_radius")}
    pair_fields = ("center", "radius", "standard_error", "null_standard_error", "pair_samples")
    pairs = {name: getattr(confidence_set, name)[is_inside] for name in pair_fields}
    ends = {name: new_index[getattr(confidence_set, name)[is_inside]] for name in ("pair_first", "pair_second")}
    return replace(confidence_set, **coordinates, **ends, **pairs)
