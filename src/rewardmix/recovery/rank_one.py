"""The spread as a robust rank-one fit of the centred covariances.

    minimise  sum over pairs of  huber((covariance_ij - spread_i spread_j) / null_deviation_ij)

by cyclic coordinate steps with weights renewed each sweep; signs and start from ``signs.spectral_signs``. Each
connected component of the pair graph is in effect fitted by itself (no pair joins two); its overall sign is left open,
and where it is two-sided so is the balance of magnitudes between the sides, which is then set equal.

Weights are those of uncorrelated rewards, which do not follow the covariance that they weigh. A pair is *gross* if it
is far from the fit both in its own standard errors and in those that it would have if the fit were right: a correct
pair whose few samples happen to vary little is far by the first alone, one that holds a rare event by the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel
from rewardmix.recovery.confidence import ConfidenceSet
from rewardmix.recovery.signs import components, spectral_signs, two_sided

BEND = 1.5
"""Residuals beyond this many deviations count linearly."""

GROSS = 5.0
"""A pair this many deviations away from the fit is wrong, not unlucky."""

SWEEPS = 400
"""Sweeps at most."""


@dataclass(frozen=True, eq=False)
class RankOne:
    """A fit.

    Attributes:
        spread: (N,).
        component: (N,) number of the component of the pair graph.
        two_sided: (N,) where the balance of magnitudes is a convention.
        gross: (Q,) pairs that the fit disbelieves.
        sweeps: how many it took.
    """

    spread: Floats
    component: NDArray[np.int64]
    two_sided: NDArray[np.bool_]
    gross: NDArray[np.bool_]
    sweeps: int


def rank_one(confidence: ConfidenceSet, rng: np.random.Generator) -> RankOne:
    """Fit the spread to the centres of a confidence set."""
    first, second, size = confidence.first, confidence.second, confidence.average.size
    deviation = np.where(confidence.null_deviation > 0, confidence.null_deviation, _smallest(confidence.null_deviation))
    scores = confidence.centre / deviation
    signs = spectral_signs(first, second, scores, size, rng)
    spread = signs * _start(first, second, confidence.centre * signs[first] * signs[second], deviation, size)
    limit = np.sqrt(np.nan_to_num(confidence.average * (1 - confidence.average), nan=0.25))
    sweeps = _sweep(*_adjacency(first, second, size), confidence.centre, 1.0 / deviation**2, limit, spread, SWEEPS)
    alone = np.ones(size, bool)
    alone[first] = alone[second] = False
    spread[alone] = 0.0  # nothing is known: no difference is the neutral guess
    sided = two_sided(first, second, size)
    component = components(first, second, size)
    return RankOne(
        _balanced(spread, component, sided, confidence),
        component,
        sided,
        _gross(confidence, spread[first] * spread[second]),
        int(sweeps),
    )


def _gross(confidence: ConfidenceSet, fitted: Floats) -> NDArray[np.bool_]:
    """(Q,): pairs that are far from the fit by either standard error."""
    one, two = confidence.average[confidence.first], confidence.average[confidence.second]
    slope = (1.0 - 2.0 * one) * (1.0 - 2.0 * two)
    at_fit = confidence.null_deviation**2 + fitted * (slope - fitted) / confidence.counts
    scale = np.maximum(confidence.deviation, np.sqrt(np.maximum(at_fit, 0.0)))
    return np.asarray((np.abs(confidence.centre - fitted) > GROSS * scale) & (confidence.deviation > 0))


def _smallest(deviation: Floats) -> float:
    positive = deviation[deviation > 0]
    return float(positive.min()) if positive.size else 1.0


def _start(first: Any, second: Any, aligned: Floats, deviation: Floats, size: int) -> Floats:
    """(N,) magnitudes from the sums over pairs: covariance_ij ~ m_i m_j gives m_i ~ sum_j c_ij / sqrt(sum_ij c_ij)."""
    weight = 1.0 / deviation**2
    clipped = np.clip(aligned, -0.25, 0.25) * weight
    rows, total = np.zeros(size), np.zeros(size)
    for i in (first, second):
        np.add.at(rows, i, clipped)
        np.add.at(total, i, weight)
    mean = rows / np.maximum(total, 1e-300)
    overall = max(float((rows.sum()) / max(total.sum(), 1e-300)), 1e-6)
    return np.asarray(np.clip(mean / np.sqrt(overall), 0.02, 0.5))


def _balanced(spread: Floats, component: NDArray[np.int64], sided: Any, confidence: ConfidenceSet) -> Floats:
    """Where only products across two sides are known, give both sides the same typical size."""
    spread = spread.copy()
    edges = confidence.first != confidence.second
    for number in np.unique(component[sided]):
        inside = edges & (component[confidence.first] == number)
        side = _side_of(confidence.first[inside], confidence.second[inside])
        members = np.flatnonzero(component == number)
        left = np.asarray([side[int(i)] for i in members])
        one, two = (np.sqrt((spread[members[left == s]] ** 2).mean()) for s in (0, 1))
        if one > 0 and two > 0:
            ratio = np.sqrt(two / one)
            spread[members] *= np.where(left == 0, ratio, 1.0 / ratio)
    return spread


def _side_of(first: Any, second: Any) -> dict[int, int]:
    near: dict[int, list[int]] = {}
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    start = min(near)
    side, queue = {start: 0}, [start]
    for node in queue:
        for other in near[node]:
            if other not in side:
                side[other] = 1 - side[node]
                queue.append(other)
    return side


def _adjacency(first: Any, second: Any, size: int) -> tuple[Any, Any, Any]:
    """(offsets, neighbours, pairs): the neighbours of each coordinate and the number of each pair, itself once."""
    other = first != second
    number = np.arange(first.size)
    owner = np.concatenate([first, second[other]])
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=size))])
    return offsets, np.concatenate([second, first[other]])[order], np.concatenate([number, number[other]])[order]


@kernel
def _sweep(
    offsets: Any, neighbour: Any, pair: Any, centre: Any, weight: Any, limit: Any, spread: Any, sweeps: Any
) -> Any:
    """Coordinate steps; a diagonal pair c_ii ~ spread_i^2 is linearised at the present spread_i."""
    size = spread.size
    for sweep in range(sweeps):
        moved = 0.0
        for i in range(size):
            up, down = 0.0, 0.0
            for k in range(offsets[i], offsets[i + 1]):
                j, q = neighbour[k], pair[k]
                off = abs(centre[q] - spread[i] * spread[j]) * np.sqrt(weight[q])
                w = weight[q] * (1.0 if off <= BEND else BEND / off)
                if j == i:
                    up += 2.0 * w * spread[i] * (centre[q] + spread[i] * spread[i])
                    down += 4.0 * w * spread[i] * spread[i]
                else:
                    up += w * centre[q] * spread[j]
                    down += w * spread[j] * spread[j]
            if down > 0.0:
                new = min(max(up / down, -limit[i]), limit[i])
                moved = max(moved, abs(new - spread[i]))
                spread[i] = new
        if moved < 1e-9:
            return sweep + 1
    return sweeps
