"""Compute initial values for EM with two types: loadings, weights and orientation from pairs and triples, or at random.

Pairs. The loadings are a robust rank-one fit of the centered covariances:

    minimize  sum over pairs of  huber((covariance_ij - loadings_i loadings_j) / null_standard_error_ij)

by cyclic coordinate descent with weights renewed in each sweep; signs and initial values come from
``signs.spectral_signs``. Each connected component of the pair graph is in effect fitted alone (no pair joins two). Its
overall sign is left open. In a bipartite component the balance of magnitudes between the two sides is open too; they
are then given equal size.

The weights of this fit are variances of uncorrelated rewards, which do not follow the covariance that they weigh. A
pair is an *outlier* if it is far from the fit both in its own standard errors and in those that it would have if the
fit were right: a correct pair whose few samples vary little is far by the first alone, one with a rare event by the
second.

Triples. Third-order information gives the weights of the types and the orientation of each group of signs. With
a_t = loadings(z_t | x_t) / marginal(z_t | x_t) (for two values: (r_t - marginal) loadings / (marginal (1 - marginal)))
and b_t = sum_z loadings(z | x_t)^2 / marginal(z | x_t), the rewards of type m have E[a_t] = c_m b_t with
c = (sqrt(w_2 / w_1), -sqrt(w_1 / w_2)). Steps are independent given m, so over all triples of steps of an episode

    E[e3(a)] = E[c^3] e3(b),     e3(a) = (S1^3 - 3 S1 S2 + 2 S3) / 6,     E[c^3] = (1 - 2 w) / sqrt(w (1 - w)) = slope

Pairs do not determine the sign of the loadings; triples do, because a flip of the sign flips the slope. At w = 1/2 the
slope is 0 and both signs give one model with its labels exchanged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.budget import check_budget
from rewardmix._core.checks import Floats
from rewardmix._core.jit import lazy_jit
from rewardmix._core.portable_math import exp_array
from rewardmix.recovery.confidence_set import ConfidenceSet
from rewardmix.recovery.evidence import RecoveryData, RecoverySettings
from rewardmix.recovery.likelihood import Mixture
from rewardmix.recovery.reward_patterns import RewardPatterns
from rewardmix.recovery.signs import bipartite_sides, connected_components, groups_of_points, spectral_signs

HUBER_THRESHOLD = 1.5
"""Huber threshold: residuals beyond this many standard errors count linearly."""

OUTLIER_Z_SCORE = 5.0
"""A pair this many standard errors away from the fit is an outlier."""

MAX_NODE_SWEEPS = 400
"""Largest number of sweeps of the coordinate descent."""


@dataclass(frozen=True, eq=False)
class RankOneFit:
    """Robust rank-one fit of the covariances.

    Attributes:
        loadings: (N,) fitted loadings, covariance_ij = loadings_i loadings_j.
        component: (N,) index of the component of the pair graph.
        bipartite_points: (N,) mask of coordinates whose balance of magnitudes between two sides is a convention.
        is_outlier: (Q,) mask of the pairs that are far from the fit.
        num_sweeps: Number of sweeps.
    """

    loadings: Floats
    component: NDArray[np.int64]
    bipartite_points: NDArray[np.bool_]
    is_outlier: NDArray[np.bool_]
    num_sweeps: int


def fit_rank_one(confidence_set: ConfidenceSet, rng: np.random.Generator) -> RankOneFit:
    """Fit the loadings to the centers of a confidence set by robust coordinate descent."""
    first, second, size = confidence_set.pair_first, confidence_set.pair_second, confidence_set.marginals.size
    error = confidence_set.null_standard_error
    deviation = np.where(error > 0, error, _min_positive(error))
    scores = confidence_set.center / deviation
    signs = spectral_signs(first, second, scores, size, rng)
    loadings = signs * _init_magnitudes(
        first, second, confidence_set.center * signs[first] * signs[second], deviation, size
    )
    # A loading is at most the standard deviation of its indicator, which every type with probabilities in [0, 1]
    # satisfies.
    limit = np.sqrt(np.nan_to_num(confidence_set.marginals * (1 - confidence_set.marginals), nan=0.25))
    sweeps = _coordinate_descent(
        *_build_adjacency(first, second, size),
        confidence_set.center,
        1.0 / deviation**2,
        limit,
        loadings,
        MAX_NODE_SWEEPS,
    )
    is_unpaired = np.ones(size, bool)
    is_unpaired[first] = is_unpaired[second] = False
    loadings[is_unpaired] = 0.0  # no pair was observed: no difference between types is the neutral guess
    side, component = bipartite_sides(first, second, size), connected_components(first, second, size)
    is_outlier = _find_outliers(confidence_set, loadings[first] * loadings[second])
    return RankOneFit(_balance_sides(loadings, component, side), component, side >= 0, is_outlier, int(sweeps))


def _find_outliers(confidence_set: ConfidenceSet, fitted: Floats) -> NDArray[np.bool_]:
    """Find the (Q,) pairs that are far from the fit by both standard errors."""
    p_i, p_j = confidence_set.marginals[confidence_set.pair_first], confidence_set.marginals[confidence_set.pair_second]
    slope = (1.0 - 2.0 * p_i) * (1.0 - 2.0 * p_j)
    # v(c) at the fitted covariance: null_standard_error^2 is v(0) / n, and v(c) - v(0) = c (slope - c).
    fitted_variance = confidence_set.null_standard_error**2 + fitted * (slope - fitted) / confidence_set.pair_samples
    scale = np.maximum(confidence_set.standard_error, np.sqrt(np.maximum(fitted_variance, 0.0)))
    return np.asarray(
        (np.abs(confidence_set.center - fitted) > OUTLIER_Z_SCORE * scale) & (confidence_set.standard_error > 0)
    )


def _min_positive(deviation: Floats) -> float:
    """Return the smallest positive standard error, or 1 if there is none."""
    positive = deviation[deviation > 0]
    return float(positive.min()) if positive.size else 1.0


def _init_magnitudes(first: Any, second: Any, aligned: Floats, deviation: Floats, size: int) -> Floats:
    """Compute (N,) initial magnitudes: covariance_ij ~ m_i m_j gives m_i ~ sum_j c_ij / sqrt(sum_ij c_ij)."""
    weight = 1.0 / deviation**2
    # No covariance of two indicators exceeds 1/4, so larger centers are noise and must not dominate the row sums.
    clipped = np.clip(aligned, -0.25, 0.25) * weight
    sums, total = np.zeros(size), np.zeros(size)
    for i in (first, second):
        np.add.at(sums, i, clipped)
        np.add.at(total, i, weight)
    mean = sums / np.maximum(total, 1e-300)
    overall = max(float((sums.sum()) / max(total.sum(), 1e-300)), 1e-6)
    # A magnitude of 0 would be a stationary point of the coordinate descent, hence the lower limit.
    return np.asarray(np.clip(mean / np.sqrt(overall), 0.02, 0.5))


def _balance_sides(loadings: Floats, component: NDArray[np.int64], side: NDArray[np.int64]) -> Floats:
    """Give both sides of a bipartite component equal root-mean-square loadings; only their product is identified."""
    loadings = loadings.copy()
    for number in np.unique(component[side >= 0]):
        in_component = component == number
        size0, size1 = (np.sqrt((loadings[in_component & (side == s)] ** 2).mean()) for s in (0, 1))
        if size0 > 0 and size1 > 0:
            ratio = np.sqrt(size1 / size0)
            loadings[in_component] *= np.where(side[in_component] == 0, ratio, 1.0 / ratio)
    return loadings


def _build_adjacency(first: Any, second: Any, size: int) -> tuple[Any, Any, Any]:
    """Build (offsets, neighbors, pair indices) of the pair graph in CSR form; a pair (i, i) occurs once."""
    other = first != second
    number = np.arange(first.size)
    owner = np.concatenate([first, second[other]])
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=size))])
    return offsets, np.concatenate([second, first[other]])[order], np.concatenate([number, number[other]])[order]


@lazy_jit(lambda offsets, neighbor, *rest: rest[-1] * neighbor.size // 5)
def _coordinate_descent(
    offsets: Any, neighbor: Any, pair: Any, center: Any, weight: Any, limit: Any, loadings: Any, sweeps: Any
) -> Any:
    """Run the coordinate descent in place and return the number of sweeps.

    A diagonal pair c_ii ~ loadings_i^2 is linearized at the present loadings_i.
    """
    size = loadings.size
    for sweep in range(sweeps):
        change = 0.0
        for i in range(size):
            numerator, denominator = 0.0, 0.0
            for k in range(offsets[i], offsets[i + 1]):
                j, q = neighbor[k], pair[k]
                # Iteratively reweighted least squares: the Huber loss is a weight of 1 inside the threshold and
                # threshold / residual outside.
                residual = abs(center[q] - loadings[i] * loadings[j]) * np.sqrt(weight[q])
                w = weight[q] * (1.0 if residual <= HUBER_THRESHOLD else HUBER_THRESHOLD / residual)
                if j == i:
                    # c ~ s^2 + 2 s (s_new - s): the target is c + s^2 and the regressor 2 s, so both sums carry the
                    # factor.
                    numerator += 2.0 * w * loadings[i] * (center[q] + loadings[i] * loadings[i])
                    denominator += 4.0 * w * loadings[i] * loadings[i]
                else:
                    numerator += w * center[q] * loadings[j]
                    denominator += w * loadings[j] * loadings[j]
            if denominator > 0.0:
                new = min(max(numerator / denominator, -limit[i]), limit[i])
                change = max(change, abs(new - loadings[i]))
                loadings[i] = new
        if change < 1e-9:
            return sweep + 1
    return sweeps


DECISION_Z_SCORE = 2.0
"""A slope this many standard errors from 0 orients its group."""

_MIN_CLOSED_FORM_WEIGHT = 0.02
"""Closed-form weights stay this far from 0 and 1, because EM cannot move a weight that starts at 0."""


@dataclass(frozen=True, eq=False)
class Orientation:
    """Third-order slopes that determine the orientation of each group.

    Attributes:
        slope: (G,) third-order slope of each group with its present signs, NaN without triples.
        standard_error: (G,) standard error of the slope.
    """

    slope: Floats
    standard_error: Floats

    @property
    def is_significant(self) -> NDArray[np.bool_]:
        """(G,) mask of the groups whose slope differs significantly from 0."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(self.slope) > DECISION_Z_SCORE * self.standard_error)


def estimate_orientation(
    patterns: RewardPatterns, marginal_probs: Floats, loadings: Floats, groups: NDArray[np.int64]
) -> Orientation:
    """Estimate the third-order slope of each group of state-actions.

    Args:
        patterns: Reward patterns of the episodes.
        marginal_probs: (X, Z) marginal reward probabilities.
        loadings: (X, Z) loadings, with consistent signs within each group.
        groups: (X,) index of the group of each state-action.

    Returns:
        Slopes and their standard errors.
    """
    a, b = _symbol_scores(marginal_probs, loadings)
    sums = np.zeros((int(groups.max(initial=-1)) + 1, 6))
    _add_third_order_sums(
        patterns.symbols, patterns.offsets, patterns.counts, a, b, groups, patterns.num_reward_values, sums
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        # Ratio estimator E[e3(a)] / E[e3(b)] with its residual variance (delta method), corrected for few episodes.
        slope = sums[:, 0] / sums[:, 1]
        squares = sums[:, 2] - 2 * slope * sums[:, 3] + slope**2 * sums[:, 4]
        small_sample = np.sqrt(sums[:, 5] / np.maximum(sums[:, 5] - 1.0, 0.0))  # infinite for a single episode
        return Orientation(slope, small_sample * np.sqrt(np.maximum(squares, 1e-300)) / np.abs(sums[:, 1]))


def weight_from_slope(slope: float) -> float:
    """Compute the weight of the first type from the slope: (1 - slope / sqrt(4 + slope^2)) / 2."""
    return float((1.0 - slope / math.sqrt(4.0 + slope * slope)) / 2.0)


def estimate_weights(patterns: RewardPatterns, marginal_probs: Floats, loadings: Floats) -> tuple[Floats, float, float]:
    """Estimate ((w, 1 - w), slope, standard error) from all triples; weights (1/2, 1/2) without a significant slope."""
    pooled = estimate_orientation(patterns, marginal_probs, loadings, np.zeros(marginal_probs.shape[0], np.int64))
    slope, error = float(pooled.slope[0]), float(pooled.standard_error[0])
    if not pooled.is_significant[0]:  # no triples, or too few for a significant slope
        return np.array([0.5, 0.5]), slope, error
    w = min(max(weight_from_slope(slope), _MIN_CLOSED_FORM_WEIGHT), 1.0 - _MIN_CLOSED_FORM_WEIGHT)
    return np.array([w, 1.0 - w]), slope, error


def _symbol_scores(marginal_probs: Floats, loadings: Floats) -> tuple[Floats, Floats]:
    """Compute a of each symbol (X*Z,) and b of each state-action (X,), the terms of the third-order slope."""
    # A value that hardly ever occurs carries no information, and its ratio would be dominated by rounding.
    common = marginal_probs > 1e-9
    ratio = np.where(common, loadings / np.where(common, marginal_probs, 1.0), 0.0)
    return np.ascontiguousarray(ratio.ravel()), np.ascontiguousarray((ratio * loadings).sum(axis=1))


@lazy_jit(lambda symbols, *_: 2 * symbols.size)
def _add_third_order_sums(
    symbols: Any, offsets: Any, counts: Any, a_values: Any, b_values: Any, groups: Any, num_values: Any, sums: Any
) -> None:
    """Add to ``sums`` (G, 6), for each group over its patterns: e3(a), e3(b), e3(a)^2, e3(a) e3(b), e3(b)^2, and 1."""
    for pattern in range(counts.size):
        low, high = offsets[pattern], offsets[pattern + 1]
        for i in range(low, high):
            group = groups[symbols[i] // num_values]
            # A group is handled at its first symbol in the pattern; the scan back avoids an array of groups per
            # pattern.
            is_done = False
            for j in range(low, i):
                is_done = is_done or groups[symbols[j] // num_values] == group
            if is_done:
                continue
            steps = 0
            a1 = a2 = a3 = b1 = b2 = b3 = 0.0
            for j in range(i, high):
                x = symbols[j] // num_values
                if groups[x] == group:
                    steps += 1
                    a, b = a_values[symbols[j]], b_values[x]
                    a1 += a
                    a2 += a * a
                    a3 += a * a * a
                    b1 += b
                    b2 += b * b
                    b3 += b * b * b
            if steps < 3:  # no triple; rounding would give a nonzero sum
                continue
            # Newton's identity gives e3 from power sums in one pass instead of a loop over all triples.
            e3_a = (a1 * a1 * a1 - 3.0 * a1 * a2 + 2.0 * a3) / 6.0
            e3_b = (b1 * b1 * b1 - 3.0 * b1 * b2 + 2.0 * b3) / 6.0
            sums[group, 0] += counts[pattern] * e3_a
            sums[group, 1] += counts[pattern] * e3_b
            sums[group, 2] += counts[pattern] * e3_a * e3_a
            sums[group, 3] += counts[pattern] * e3_a * e3_b
            sums[group, 4] += counts[pattern] * e3_b * e3_b
            sums[group, 5] += counts[pattern]


INIT_SMOOTHING = 0.02
"""Share of the marginals mixed into initial values: EM cannot leave a probability that starts at 0."""

MAX_JOINT_FLIPS = 3
"""Up to this many undecided groups are tried in all sign combinations; with more, each is flipped alone."""


def loadings_to_probs(loadings: Floats, num_points: int) -> Floats:
    """Expand loadings of coordinates (N,) to loadings (X, Z) of all values, which sum to zero."""
    table = loadings.reshape(num_points, -1)
    if table.shape[1] == 1:
        return np.concatenate([-table, table], axis=1)
    return np.asarray(table - table.mean(axis=1, keepdims=True))


def mixture_from_loadings(marginal_probs: Floats, loadings: Floats, weights: Floats) -> Mixture:
    """Make the two types with these marginals and loadings, both (X, Z).

        p_1 = marginals + sqrt(w_2 / w_1) loadings,  p_2 = marginals - sqrt(w_1 / w_2) loadings

    Where a probability would leave [0, 1], the loadings of that x are shortened. This replaces the clip of the paper,
    and it can take a model out of its confidence set (departure 14 of docs/concepts/paper-and-code.md).
    """
    ratio = float(np.sqrt(weights[1] / weights[0]))
    differences = np.stack([ratio * loadings, -loadings / ratio])
    limit = np.where(differences > 0, 1.0 - marginal_probs, marginal_probs)
    size = np.abs(differences)
    # One factor per x, common to both types and all values, keeps the rows summing to 1 and the marginals unchanged.
    factor = np.where(size > limit, limit / np.where(size > 0, size, 1.0), 1.0).min(axis=(0, 2))
    return Mixture(
        np.asarray(weights, dtype=np.float64), np.clip(marginal_probs + factor[:, None] * differences, 0.0, 1.0)
    )


def smooth_mixture(mixture: Mixture, marginal_probs: Floats) -> Mixture:
    """Mix a small share of the marginals into the types, so that EM can change every probability."""
    safe = (1.0 - INIT_SMOOTHING) * marginal_probs + INIT_SMOOTHING / marginal_probs.shape[1]
    return Mixture(mixture.weights, (1.0 - INIT_SMOOTHING) * mixture.probs + INIT_SMOOTHING * safe)


def random_mixture(
    marginal_probs: Floats, weights: Floats, free: NDArray[np.bool_], rng: np.random.Generator
) -> Mixture:
    """Draw types whose reward probabilities are randomly tilted marginals.

    Only state-actions in the mask ``free`` (X,) are tilted; the data do not distinguish types at the others.
    """
    safe = (1.0 - INIT_SMOOTHING) * marginal_probs + INIT_SMOOTHING / marginal_probs.shape[1]
    # A sum of twelve uniforms minus 6 has mean 0 and variance 1. Unlike a normal sampler it is additions only, so all
    # platforms draw equal bits.
    nearly_normal = rng.random((12, weights.size, *marginal_probs.shape)).sum(axis=0) - 6.0
    tilt = exp_array(nearly_normal)
    probs = safe * np.where(free[:, None], tilt, 1.0)
    return Mixture(weights, probs / probs.sum(axis=2, keepdims=True))


def sign_patterns(groups: NDArray[np.int64], undecided: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """List sign patterns (X,) over the undecided groups, other than the one that changes nothing."""
    if undecided.size == 0:
        return []
    if undecided.size <= MAX_JOINT_FLIPS:
        masks = [np.asarray(bits, bool) for bits in product((False, True), repeat=undecided.size) if any(bits)]
    else:
        masks = list(np.eye(undecided.size, dtype=bool))
    return [np.where(np.isin(groups, undecided[mask]), -1, 1) for mask in masks]


NUM_RANDOM_INITS = 4
"""Number of random initial values besides the informed ones."""


@dataclass(frozen=True, eq=False)
class MomentInit:
    """Estimate from moments (and triples) before EM.

    Attributes:
        fit: Rank-one fit of the covariances.
        marginals: (X, Z) marginal reward probabilities.
        loadings: (X, Z) loadings, oriented by triples where these are significant.
        weights: (2,) weights: known, from triples, or equal.
        groups: (X,) component of each state-action.
        undecided_groups: Components whose orientation triples leave open although the weights are not equal.
    """

    fit: RankOneFit
    marginals: Floats
    loadings: Floats
    weights: Floats
    groups: NDArray[np.int64]
    undecided_groups: NDArray[np.int64]


def make_moment_init(evidence: RecoveryData, settings: RecoverySettings, rng: np.random.Generator) -> MomentInit:
    """Estimate loadings, weights and orientation from moments and triples (steps 1 and 2 of ``maximum_likelihood``)."""
    confidence_set = evidence.confidence_set
    fit = fit_rank_one(confidence_set, rng)
    marginal_probs = confidence_set.marginal_probs
    loadings = loadings_to_probs(fit.loadings, confidence_set.num_points)
    groups = groups_of_points(fit.component, confidence_set.width)
    equal_weights = np.array([0.5, 0.5])
    if evidence.nonadaptive_patterns is None:
        weights = equal_weights if settings.weights is None else settings.weights
        is_uneven = abs(weights[0] - 0.5) > 1e-9
        return MomentInit(
            fit,
            marginal_probs,
            loadings,
            weights,
            groups,
            _informative_groups(groups, loadings) if is_uneven else groups[:0],
        )
    orientation = estimate_orientation(evidence.nonadaptive_patterns, marginal_probs, loadings, groups)
    target_sign = 1.0 if settings.weights is None else float(np.sign(settings.weights[1] - settings.weights[0]))
    # Unknown weights: the first type is taken to be the rarer one, so every slope is turned positive. An undecided
    # slope is turned too, and its flip is tried later.
    flip = np.where(np.nan_to_num(orientation.slope) * target_sign < 0, -1.0, 1.0)
    loadings = loadings * flip[groups][:, None]
    weights = (
        estimate_weights(evidence.nonadaptive_patterns, marginal_probs, loadings)[0]
        if settings.weights is None
        else settings.weights
    )
    informative = _informative_groups(groups, loadings)
    undecided = np.setdiff1d(informative, np.flatnonzero(orientation.is_significant))
    if target_sign == 0.0 or (
        settings.weights is None and informative.size < 2
    ):  # turning all groups only exchanges the labels
        undecided = undecided[:0]
    return MomentInit(fit, marginal_probs, loadings, weights, groups, undecided)


def make_inits(start: MomentInit, settings: RecoverySettings, rng: np.random.Generator) -> list[tuple[str, Mixture]]:
    """Make the initial values of step 3: the informed one, its sign flips of undecided groups, and random ones."""

    def make_init(name: str, loadings: Floats, weights: Floats) -> tuple[str, Mixture]:
        """Make a named initial value from loadings and weights."""
        return name, smooth_mixture(mixture_from_loadings(start.marginals, loadings, weights), start.marginals)

    _check_budget(start)
    inits = [make_init("moments", start.loadings, start.weights)]
    for number, flip in enumerate(sign_patterns(start.groups, start.undecided_groups)):
        inits.append(make_init(f"flipped {number + 1}", start.loadings * flip[:, None], start.weights))
    # A wrong slope can put the weights far off; equal weights guard against a local optimum there.
    if settings.weights is None and start.weights[0] != 0.5:
        inits.append(make_init("moments, equal weights", start.loadings, np.array([0.5, 0.5])))
    free = np.isin(start.groups, _informative_groups(start.groups, start.loadings))
    weights = start.weights if settings.weights is not None else np.array([0.5, 0.5])
    for number in range(NUM_RANDOM_INITS):
        inits.append((f"random {number + 1}", random_mixture(start.marginals, weights, free, rng)))
    return inits


def _check_budget(start: MomentInit) -> None:
    """Raise ``InputError`` if the initial values do not fit in memory: each undecided group adds one flip."""
    points, values = start.marginals.shape
    check_budget(
        "data",
        memory=start.undecided_groups.size * points * (8 + 64 * values),
        remedy="fewer states or actions, or more episodes, so that pairs connect them",
    )


def _informative_groups(groups: NDArray[np.int64], loadings: Floats) -> NDArray[np.int64]:
    """List the groups with more than one state-action or with nonzero loadings: only their orientation matters."""
    sizes = np.bincount(groups)
    is_nonzero = np.unique(groups[np.abs(loadings).max(axis=1) > 0])
    return np.union1d(np.flatnonzero(sizes > 1), is_nonzero)
