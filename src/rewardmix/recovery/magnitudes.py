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
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.portable import log, logs
from rewardmix.recovery import feasibility
from rewardmix.recovery.confidence import ConfidenceSet
from rewardmix.recovery.feasibility import Cycle, Rows
from rewardmix.recovery.solver import minimise

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
    _, cycle = feasibility.solve(program)
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
        _, cycle = feasibility.solve(program_of(confidence.grown(kappa), weights))
    return kappa


def _resolving(confidence: ConfidenceSet, weights: Floats | None, cycle: Cycle, kappa: float) -> float:
    """The least factor above ``kappa`` at which this one cycle is no contradiction, by bisection."""

    def length(factor: float) -> float:
        rows = program_of(confidence.grown(factor), weights)
        size = rows.floor.size
        keys = rows.first * size + rows.second
        total = 0.0
        for i, j, upper in cycle.pairs:
            if i == j:
                total += 2.0 * float(rows.cap[i] if upper else -rows.floor[i])
            else:
                row = int(np.searchsorted(keys, i * size + j))
                total += float(rows.high[row] if upper else -rows.low[row])
        return total

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
    return replace(
        confidence,
        average=confidence.average[points],
        average_radius=confidence.average_radius[points],
        first=place[confidence.first[kept]],
        second=place[confidence.second[kept]],
        centre=confidence.centre[kept],
        radius=confidence.radius[kept],
        deviation=confidence.deviation[kept],
        null_deviation=confidence.null_deviation[kept],
        counts=confidence.counts[kept],
    )
