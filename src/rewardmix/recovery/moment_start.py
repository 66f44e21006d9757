"""Where likelihood ascent begins: spread, weights and orientation of two contexts from pairs and triples, or at random.

Pairs. The spread is a robust rank-one fit of the centred covariances:

    minimise  sum over pairs of  huber((covariance_ij - spread_i spread_j) / null_deviation_ij)

by cyclic coordinate steps with weights renewed each sweep; signs and start from ``signs.spectral_signs``. Each
connected component of the pair graph is in effect fitted by itself (no pair joins two); its overall sign is left open,
and where it is two-sided so is the balance of magnitudes between the sides, which is then set equal.

Weights are those of uncorrelated rewards, which do not follow the covariance that they weigh. A pair is *gross* if it
is far from the fit both in its own standard errors and in those that it would have if the fit were right: a correct
pair whose few samples happen to vary little is far by the first alone, one that holds a rare event by the second.

Triples. The weights, and which way round each group of signs goes, from third-order information: with a_t = spread(z_t
| x_t) / average(z_t | x_t) (for two values: (r_t - average) spread / (average (1 - average))) and b_t = sum_z spread(z
| x_t)^2 / average(z | x_t), the rewards of context m have E[a_t] = c_m b_t with c = (sqrt(w_2 / w_1), -sqrt(w_1 /
w_2)). Steps are independent given m, so over all triples of steps of an episode

    E[e3(a)] = E[c^3] e3(b),     e3(a) = (S1^3 - 3 S1 S2 + 2 S3) / 6,     E[c^3] = (1 - 2 w) / sqrt(w (1 - w)) = slope

Pairs cannot tell the sign of a spread, triples can: flipping it flips the slope. Unless w = 1/2, where both are the
same model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.jit import deferred
from rewardmix._core.limits import afford
from rewardmix._core.portable import exps
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.confidence_set import ConfidenceSet
from rewardmix.recovery.evidence import Evidence, Question
from rewardmix.recovery.likelihood import Mixture
from rewardmix.recovery.signs import components, groups_of_points, sides, spectral_signs

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
    side, component = sides(first, second, size), components(first, second, size)
    gross = _gross(confidence, spread[first] * spread[second])
    return RankOne(_balanced(spread, component, side), component, side >= 0, gross, int(sweeps))


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


def _balanced(spread: Floats, component: NDArray[np.int64], side: NDArray[np.int64]) -> Floats:
    """Where only products across two sides are known, give both sides the same typical size."""
    spread = spread.copy()
    for number in np.unique(component[side >= 0]):
        mine = component == number
        one, two = (np.sqrt((spread[mine & (side == s)] ** 2).mean()) for s in (0, 1))
        if one > 0 and two > 0:
            ratio = np.sqrt(two / one)
            spread[mine] *= np.where(side[mine] == 0, ratio, 1.0 / ratio)
    return spread


def _adjacency(first: Any, second: Any, size: int) -> tuple[Any, Any, Any]:
    """(offsets, neighbours, pairs): the neighbours of each coordinate and the number of each pair, itself once."""
    other = first != second
    number = np.arange(first.size)
    owner = np.concatenate([first, second[other]])
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=size))])
    return offsets, np.concatenate([second, first[other]])[order], np.concatenate([number, number[other]])[order]


@deferred(lambda offsets, neighbour, *rest: rest[-1] * neighbour.size // 5)
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


DECIDED = 2.0
"""A slope this many standard errors from 0 orients its group."""

_LEAST = 0.02
"""A closed-form weight is kept this far from 0 and 1: it is a start, and EM has to be able to leave it."""


@dataclass(frozen=True, eq=False)
class Orientation:
    """Which way round each group goes.

    Attributes:
        slope: (G,) third-order slope of each group as it stands, NaN without triples.
        error: (G,) its standard error.
    """

    slope: Floats
    error: Floats

    @property
    def decided(self) -> NDArray[np.bool_]:
        """(G,): groups whose orientation the triples tell."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(self.slope) > DECIDED * self.error)


def orientation(bags: Bags, average: Floats, spread: Floats, groups: NDArray[np.int64]) -> Orientation:
    """Slopes of all groups of state-actions.

    Args:
        bags: the episodes.
        average: (X, Z) laws.
        spread: (X, Z), signed consistently within each group.
        groups: (X,) number of the group of each x.
    """
    score, size = _scores(average, spread)
    sums = np.zeros((int(groups.max(initial=-1)) + 1, 6))
    _third_order(bags.symbols, bags.offsets, bags.counts, score, size, groups, bags.num_values, sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = sums[:, 0] / sums[:, 1]
        squares = sums[:, 2] - 2 * slope * sums[:, 3] + slope**2 * sums[:, 4]
        small_sample = np.sqrt(sums[:, 5] / np.maximum(sums[:, 5] - 1.0, 0.0))  # infinite for a single episode
        return Orientation(slope, small_sample * np.sqrt(np.maximum(squares, 1e-300)) / np.abs(sums[:, 1]))


def weight_of(slope: float) -> float:
    """w of the first context in closed form: (1 - slope / sqrt(4 + slope^2)) / 2."""
    return float((1.0 - slope / math.sqrt(4.0 + slope * slope)) / 2.0)


def closed_form(bags: Bags, average: Floats, spread: Floats) -> tuple[Floats, float, float]:
    """((w, 1 - w), slope, standard error of the slope) from all triples pooled; (1/2, 1/2) if they do not decide."""
    pooled = orientation(bags, average, spread, np.zeros(average.shape[0], np.int64))
    slope, error = float(pooled.slope[0]), float(pooled.error[0])
    if not pooled.decided[0]:  # no triples, or too few to tell the slope from 0
        return np.array([0.5, 0.5]), slope, error
    w = min(max(weight_of(slope), _LEAST), 1.0 - _LEAST)
    return np.array([w, 1.0 - w]), slope, error


def _scores(average: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """(X*Z,) a of each symbol and (X,) b of each x; an outcome that hardly ever happens tells nothing."""
    common = average > 1e-9
    ratio = np.where(common, spread / np.where(common, average, 1.0), 0.0)
    return np.ascontiguousarray(ratio.ravel()), np.ascontiguousarray((ratio * spread).sum(axis=1))


@deferred(lambda symbols, *_: 2 * symbols.size)
def _third_order(
    symbols: Any, offsets: Any, counts: Any, score: Any, size: Any, groups: Any, num_values: Any, sums: Any
) -> None:
    """For each group: sums over bags of e3(a), e3(b), e3(a)^2, e3(a) e3(b), e3(b)^2, and 1."""
    for bag in range(counts.size):
        low, high = offsets[bag], offsets[bag + 1]
        for i in range(low, high):
            group = groups[symbols[i] // num_values]
            done = False
            for j in range(low, i):
                done = done or groups[symbols[j] // num_values] == group
            if done:
                continue
            steps = 0
            a1 = a2 = a3 = b1 = b2 = b3 = 0.0
            for j in range(i, high):
                x = symbols[j] // num_values
                if groups[x] == group:
                    steps += 1
                    a, b = score[symbols[j]], size[x]
                    a1 += a
                    a2 += a * a
                    a3 += a * a * a
                    b1 += b
                    b2 += b * b
                    b3 += b * b * b
            if steps < 3:  # no triple; rounding would leave something that is not 0
                continue
            left = (a1 * a1 * a1 - 3.0 * a1 * a2 + 2.0 * a3) / 6.0
            right = (b1 * b1 * b1 - 3.0 * b1 * b2 + 2.0 * b3) / 6.0
            sums[group, 0] += counts[bag] * left
            sums[group, 1] += counts[bag] * right
            sums[group, 2] += counts[bag] * left * left
            sums[group, 3] += counts[bag] * left * right
            sums[group, 4] += counts[bag] * right * right
            sums[group, 5] += counts[bag]


INWARD = 0.02
"""Share of the average mixed into a start, so that no probability begins at 0, where EM would leave it."""

MOST_FLIPS = 3
"""Up to this many undecided groups are tried in all combinations; more are flipped one at a time."""


def spread_laws(spread: Floats, num_points: int) -> Floats:
    """(X, Z) spread of the law at each x from its coordinates, summing to zero over the values."""
    table = spread.reshape(num_points, -1)
    if table.shape[1] == 1:
        return np.concatenate([-table, table], axis=1)
    return np.asarray(table - table.mean(axis=1, keepdims=True))


def mixture_of_spread(average: Floats, spread: Floats, weights: Floats) -> Mixture:
    """Two contexts with this average and spread (both (X, Z)); a spread that leaves [0, 1] is shortened, x by x.

    The paper's clip; it can take a model out of its confidence set (departure 14 of docs/paper.md).

    p_1 = average + sqrt(w_2 / w_1) spread,  p_2 = average - sqrt(w_1 / w_2) spread
    """
    ratio = float(np.sqrt(weights[1] / weights[0]))
    moves = np.stack([ratio * spread, -spread / ratio])
    room = np.where(moves > 0, 1.0 - average, average)
    size = np.abs(moves)
    share = np.where(size > room, room / np.where(size > 0, size, 1.0), 1.0).min(axis=(0, 2))
    return Mixture(np.asarray(weights, dtype=np.float64), np.clip(average + share[:, None] * moves, 0.0, 1.0))


def inward(mixture: Mixture, average: Floats) -> Mixture:
    """A start that EM can leave in every direction."""
    safe = (1.0 - INWARD) * average + INWARD / average.shape[1]
    return Mixture(mixture.weights, (1.0 - INWARD) * mixture.laws + INWARD * safe)


def random_mixture(average: Floats, weights: Floats, free: NDArray[np.bool_], rng: np.random.Generator) -> Mixture:
    """Laws tilted at random from the average, where the data can tell (``free``: (X,))."""
    safe = (1.0 - INWARD) * average + INWARD / average.shape[1]
    nearly_normal = rng.random((12, weights.size, *average.shape)).sum(axis=0) - 6.0
    tilt = exps(nearly_normal)
    laws = safe * np.where(free[:, None], tilt, 1.0)
    return Mixture(weights, laws / laws.sum(axis=2, keepdims=True))


def flips(groups: NDArray[np.int64], undecided: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Sign patterns (X,) over the undecided groups, other than leaving everything as it is."""
    if undecided.size == 0:
        return []
    if undecided.size <= MOST_FLIPS:
        chosen = [np.asarray(bits, bool) for bits in product((False, True), repeat=undecided.size) if any(bits)]
    else:
        chosen = list(np.eye(undecided.size, dtype=bool))
    return [np.where(np.isin(groups, undecided[mask]), -1, 1) for mask in chosen]


RANDOM_STARTS = 4
"""Random starts besides the informed ones."""


@dataclass(frozen=True, eq=False)
class MomentStart:
    """What the moments (and triples) say before any ascent.

    Attributes:
        fit: the rank-one fit.
        average: (X, Z).
        spread: (X, Z), oriented.
        weights: (2,) known, from triples, or equal.
        groups: (X,) component of each x.
        undecided: components whose orientation triples leave open although the weights are not equal.
    """

    fit: RankOne
    average: Floats
    spread: Floats
    weights: Floats
    groups: NDArray[np.int64]
    undecided: NDArray[np.int64]


def moment_start(evidence: Evidence, question: Question, rng: np.random.Generator) -> MomentStart:
    """Steps 1 and 2: spread, weights and orientation from moments and triples."""
    confidence = evidence.confidence
    fit = rank_one(confidence, rng)
    average = confidence.average_laws
    spread = spread_laws(fit.spread, confidence.num_points)
    groups = groups_of_points(fit.component, confidence.width)
    equal = np.array([0.5, 0.5])
    if evidence.blind is None:
        weights = equal if question.weights is None else question.weights
        uneven = abs(weights[0] - 0.5) > 1e-9
        return MomentStart(fit, average, spread, weights, groups, _real(groups, spread) if uneven else groups[:0])
    found = orientation(evidence.blind, average, spread, groups)
    wanted = 1.0 if question.weights is None else float(np.sign(question.weights[1] - question.weights[0]))
    turn = np.where(np.nan_to_num(found.slope) * wanted < 0, -1.0, 1.0)
    spread = spread * turn[groups][:, None]
    weights = closed_form(evidence.blind, average, spread)[0] if question.weights is None else question.weights
    real = _real(groups, spread)
    undecided = np.setdiff1d(real, np.flatnonzero(found.decided))
    if wanted == 0.0 or (question.weights is None and real.size < 2):  # turning everything only swaps the labels
        undecided = undecided[:0]
    return MomentStart(fit, average, spread, weights, groups, undecided)


def all_starts(start: MomentStart, question: Question, rng: np.random.Generator) -> list[tuple[str, Mixture]]:
    """Step 3: the informed start, what it leaves open turned round, and random ones."""

    def of(name: str, spread: Floats, weights: Floats) -> tuple[str, Mixture]:
        return name, inward(mixture_of_spread(start.average, spread, weights), start.average)

    _afford_starts(start)
    out = [of("moments", start.spread, start.weights)]
    for number, turn in enumerate(flips(start.groups, start.undecided)):
        out.append(of(f"flipped {number + 1}", start.spread * turn[:, None], start.weights))
    if question.weights is None and start.weights[0] != 0.5:
        out.append(of("moments, equal weights", start.spread, np.array([0.5, 0.5])))
    free = np.isin(start.groups, _real(start.groups, start.spread))
    weights = start.weights if question.weights is not None else np.array([0.5, 0.5])
    for number in range(RANDOM_STARTS):
        out.append((f"random {number + 1}", random_mixture(start.average, weights, free, rng)))
    return out


def _afford_starts(start: MomentStart) -> None:
    """Refuse more starts than fit: each undecided group is turned round once."""
    points, values = start.average.shape
    afford(
        "data",
        memory=start.undecided.size * points * (8 + 64 * values),
        change="fewer states or actions, or more episodes, so that they hang together",
    )


def _real(groups: NDArray[np.int64], spread: Floats) -> NDArray[np.int64]:
    """Numbers of the groups with more than one x, or with a spread."""
    sizes = np.bincount(groups)
    moved = np.unique(groups[np.abs(spread).max(axis=1) > 0])
    return np.union1d(np.flatnonzero(sizes > 1), moved)
