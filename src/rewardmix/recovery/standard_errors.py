"""Compute standard errors of the recovered probabilities from the observed information.

The information is the sum over episodes of the outer product of the score of the log-likelihood,

    d log L_k / d p_m(z | x) = b_k[m] n_k(x, z) / p_m(z | x),      d log L_k / d w[m] = b_k[m] / w[m],

with b_k the posterior of the types given the episode. It is taken along the directions that keep each row of
probabilities summing to 1. A direction without information gets an infinite error, not zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel, lazy_jit
from rewardmix._core.linear_algebra import inverse_quadratic_forms, product
from rewardmix.model import weighted_sum
from rewardmix.recovery.likelihood import MIN_PROB, Mixture, SufficientStatistics
from rewardmix.recovery.reward_patterns import RewardPatterns

MAX_JOINT_PARAMETERS = 1200
"""With more free parameters than this, the errors of each x are computed separately (all its types jointly)."""

_MAX_PRODUCTS = 2e8
"""Largest number of products in the sum of outer products; beyond it a fraction of the (merged, so shuffled) patterns
is used.
"""

RIDGE_SHARE = 1e-11
"""Information added to every direction, as a share of the largest row sum: more than rounding removes."""

_NUMPY_BATCH = 250_000
"""Number of products that NumPy computes in one batch."""

_MAX_ERROR = 0.5
"""A standard error of a probability above this carries no information and is reported as infinite."""

NORMAL_95 = 1.959963984540054
"""Half-width of a 95 % normal interval in standard errors."""


def standard_errors(
    patterns: RewardPatterns,
    mixture: Mixture,
    statistics: SufficientStatistics,
    prior_mean: Floats,
    pseudocount: float,
    *,
    free_weights: bool,
) -> tuple[Floats, Floats]:
    """Compute (M, X, Z) errors of the reward probabilities and (M,) errors of the weights (0 where they are known)."""
    num_types, points, values = mixture.probs.shape
    size = num_types * points * values
    # The score divides by the probability. An estimate of exactly 0 would claim infinite information, so it is raised
    # to half a count.
    min_probs = 0.5 / (statistics.reward_counts.sum(axis=2, keepdims=True) + 1.0)
    probs = np.maximum(mixture.probs, min_probs)
    diagonal = (pseudocount * prior_mean / probs**2).ravel()
    # The joint information is dense, so its memory grows with the square of the parameters and its factorization with
    # the cube.
    if num_types * points * (values - 1) > MAX_JOINT_PARAMETERS:
        errors = _blockwise_errors(patterns, mixture, probs, diagonal)
        return np.where(errors > _MAX_ERROR, np.inf, errors), np.zeros(num_types)
    information = _information(patterns, mixture, probs)
    information[np.arange(size), np.arange(size)] += diagonal
    blocks = num_types * points
    basis = _zero_sum_basis(values)
    weight_basis = _zero_sum_basis(num_types) if free_weights else np.zeros((num_types, 0))
    errors = np.sqrt(_variances(information, blocks, basis, weight_basis))
    errors[errors > _MAX_ERROR] = np.inf
    return errors[:size].reshape(mixture.probs.shape), errors[size:]


def limits_95(probs: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Compute 95 % limits inside [0, 1]; the whole interval where the error is infinite."""
    return np.clip(probs - NORMAL_95 * errors, 0.0, 1.0), np.clip(probs + NORMAL_95 * errors, 0.0, 1.0)


def _information(patterns: RewardPatterns, mixture: Mixture, probs: Floats) -> Floats:
    """Compute the (D, D) sum of outer products of scores, D = M*X*Z + M, coordinates (m, x, z), then m."""
    num_types = mixture.num_types
    table = np.ascontiguousarray(np.maximum(mixture.probs, MIN_PROB).reshape(num_types, -1).T)
    inverse = np.ascontiguousarray((1.0 / probs).reshape(num_types, -1).T)
    size = table.size + num_types
    out = np.zeros((size, size))
    lengths = np.diff(patterns.offsets)
    work = float((((lengths + 1.0) * num_types) ** 2).sum())
    # Merged patterns lie in the order of a hash, so the first ones are a fair sample; the sum is scaled up to all
    # episodes.
    used = patterns.counts.size if work <= _MAX_PRODUCTS else max(1, int(patterns.counts.size * _MAX_PRODUCTS / work))
    _add_outer_products(
        patterns.symbols, patterns.offsets, patterns.counts[:used], table, mixture.weights, inverse, out
    )
    return out * (patterns.num_episodes / max(float(patterns.counts[:used].sum()), 1e-300))


def _zero_sum_basis(size: int) -> Floats:
    """Compute a (size, size - 1) orthonormal basis of zero-sum vectors: e_1 + ... + e_k - k e_k+1, normalized."""
    basis = np.zeros((size, size - 1))
    for k in range(1, size):
        basis[:k, k - 1], basis[k, k - 1] = 1.0, -k
        basis[:, k - 1] /= math.sqrt(k * (k + 1))
    return basis


def _variances(full: Floats, blocks: int, basis: Floats, weight_basis: Floats) -> Floats:
    """Compute variances of all probabilities, then of the weights, from their joint information (D, D).

    Directions keep each row of probabilities summing to 1. A little information is added to all of them, so a direction
    that the data do not determine has a huge variance rather than an infinite one.
    """
    size, values = blocks * basis.shape[0], basis.shape[0]
    rows = np.concatenate([_apply_basis(basis, full[:size], values), product(weight_basis.T, full[size:])])
    reduced = np.concatenate([_apply_basis(basis, rows[:, :size].T, values), product(weight_basis.T, rows[:, size:].T)])
    # Rounding makes the two halves differ in the last bits; the factorization needs an exactly symmetric matrix.
    reduced = (reduced + reduced.T) / 2.0
    reduced[np.diag_indices_from(reduced)] += RIDGE_SHARE * max(
        float(np.abs(reduced).sum(axis=1).max(initial=0.0)), 1e-300
    )
    count = blocks * basis.shape[1]
    loads = np.zeros((reduced.shape[0], size + weight_basis.shape[0]))
    for block in range(blocks):
        directions = slice(block * basis.shape[1], (block + 1) * basis.shape[1])
        loads[directions, block * values : (block + 1) * values] = basis.T
    loads[count:, size:] = weight_basis.T
    return inverse_quadratic_forms(reduced, loads)


def _apply_basis(basis: Floats, rows: Floats, values: int) -> Floats:
    """Multiply each block of ``values`` rows by the transposed basis."""
    table = rows.reshape(-1, values, rows.shape[1])
    return weighted_sum(basis[:, None, :, None], np.moveaxis(table, 1, 0)[:, :, None]).reshape(-1, rows.shape[1])


def _blockwise_errors(patterns: RewardPatterns, mixture: Mixture, probs: Floats, diagonal: Floats) -> Floats:
    """Compute errors from the information of each x alone, all its types jointly."""
    num_types, points, values = mixture.probs.shape
    table = np.ascontiguousarray(np.maximum(mixture.probs, MIN_PROB).reshape(num_types, -1).T)
    inverse = np.ascontiguousarray((1.0 / probs).reshape(num_types, -1).T)
    out = np.zeros((points, num_types * values, num_types * values))
    _add_block_products(
        patterns.symbols, patterns.offsets, patterns.counts, table, mixture.weights, inverse, values, out
    )
    index = np.arange(num_types * values)
    out[:, index, index] += diagonal.reshape(num_types, points, values).transpose(1, 0, 2).reshape(points, -1)
    errors = np.empty((points, num_types * values))
    basis, no_basis = _zero_sum_basis(values), np.zeros((0, 0))
    for x in range(points):
        errors[x] = np.sqrt(_variances(out[x], num_types, basis, no_basis))
    return errors.reshape(points, num_types, values).transpose(1, 0, 2)


@kernel
def _type_posterior(symbols: Any, low: Any, high: Any, table: Any, weights: Any, joint: Any) -> None:
    """Compute the belief over types after one pattern in place, normalized at every step to avoid underflow."""
    total = 0.0
    for m in range(weights.size):
        total += weights[m]
    for m in range(weights.size):
        joint[m] = weights[m] / total
    for i in range(low, high):
        total = 0.0
        for m in range(weights.size):
            joint[m] *= table[symbols[i], m]
            total += joint[m]
        for m in range(weights.size):
            joint[m] /= total


@kernel
def _add_block_products(
    symbols: Any, offsets: Any, counts: Any, table: Any, weights: Any, inverse: Any, values: Any, out: Any
) -> None:
    """Add to ``out`` (X, M*Z, M*Z) the outer products of scores of each x with itself."""
    num_types = weights.size
    joint = np.empty(num_types)
    for pattern in range(counts.size):
        low, high = offsets[pattern], offsets[pattern + 1]
        _type_posterior(symbols, low, high, table, weights, joint)
        for i in range(low, high):
            for j in range(low, high):
                x = symbols[i] // values
                if symbols[j] // values == x:
                    for m in range(num_types):
                        left = joint[m] * inverse[symbols[i], m]
                        for n in range(num_types):
                            right = joint[n] * inverse[symbols[j], n]
                            out[x, m * values + symbols[i] % values, n * values + symbols[j] % values] += (
                                counts[pattern] * left * right
                            )


def _add_outer_products_numpy(
    symbols: Any, offsets: Any, counts: Any, table: Any, weights: Any, inverse: Any, out: Any
) -> None:
    """Compute ``_add_outer_products`` with NumPy, in batches of patterns, adding in the order of the compiled loop."""
    lengths = np.diff(offsets[: counts.size + 1])
    longest = int(lengths.max(initial=0))
    num_types, entries = weights.size, table.shape[0]
    width = (1 + longest) * num_types
    batch_size = max(1, _NUMPY_BATCH // width**2)
    for begin in range(0, counts.size, batch_size):
        batch = slice(begin, begin + batch_size)
        # Patterns are padded to the longest of all; padded entries are masked out before they are added.
        inside = np.arange(longest) < lengths[batch, None]
        batch_symbols = symbols[np.where(inside, offsets[:-1][batch, None] + np.arange(longest), 0)]
        joint = _type_posteriors_numpy(table[batch_symbols], inside, weights)
        has_weight = np.ones((len(joint), 1), bool)
        index = np.empty((len(joint), num_types, 1 + longest), np.int64)
        score: Any = np.empty(index.shape)
        for m in range(num_types):
            index[:, m, 0], index[:, m, 1:] = num_types * entries + m, m * entries + batch_symbols
            score[:, m, 0], score[:, m, 1:] = joint[:, m] / weights[m], joint[:, m, None] * inverse[batch_symbols, m]
        used = np.tile(np.concatenate([has_weight, inside], axis=1), (1, num_types))
        is_used = used[:, :, None] & used[:, None, :]
        index, score = index.reshape(-1, width), score.reshape(-1, width)
        cells = index[:, :, None] * out.shape[1] + index[:, None, :]
        values = (counts[batch, None] * score)[:, :, None] * score[:, None, :]
        # ``np.add.at`` adds one by one in index order, which keeps the bits of the compiled loop.
        np.add.at(out.reshape(-1), cells[is_used], values[is_used])


def _type_posteriors_numpy(likelihoods: Any, inside: Any, weights: Any) -> Any:
    """Compute beliefs over types after many patterns from likelihoods (K, L, M) of their symbols and a mask (K, L)."""
    joint = np.tile(weights / _sum_in_order(weights), (len(likelihoods), 1))
    for i in range(likelihoods.shape[1]):
        updated = joint * likelihoods[:, i]
        joint = np.where(inside[:, i, None], updated / _sum_in_order(updated.T)[:, None], joint)
    return joint


def _sum_in_order(terms: Any) -> Any:
    """Sum along the first axis one after the other, in the order of a loop; ``np.sum`` adds pairwise."""
    total = np.zeros(terms.shape[1:])
    for term in terms:
        total = total + term
    return total


def _outer_products_cost(symbols: Any, offsets: Any, counts: Any, table: Any, weights: Any, *_: Any) -> int:
    """Estimate the cost of ``_add_outer_products``, which decides between NumPy and the compiled loop."""
    scores = (1 + np.diff(offsets[: counts.size + 1])) * weights.size
    return 100 + int((scores * scores).sum()) // 50


@lazy_jit(_outer_products_cost, numpy_impl=_add_outer_products_numpy)
def _add_outer_products(
    symbols: Any, offsets: Any, counts: Any, table: Any, weights: Any, inverse: Any, out: Any
) -> None:
    """Add to ``out`` (D, D) the outer product of the score of each pattern."""
    num_types = weights.size
    entries = table.shape[0]
    longest = 0
    for pattern in range(counts.size):
        longest = max(longest, offsets[pattern + 1] - offsets[pattern])
    index = np.empty((longest + 1) * num_types, np.int64)
    score = np.empty((longest + 1) * num_types)
    joint = np.empty(num_types)
    for pattern in range(counts.size):
        low, high = offsets[pattern], offsets[pattern + 1]
        _type_posterior(symbols, low, high, table, weights, joint)
        used = 0
        for m in range(num_types):
            index[used] = num_types * entries + m
            score[used] = joint[m] / weights[m]
            used += 1
            for i in range(low, high):
                index[used] = m * entries + symbols[i]
                score[used] = joint[m] * inverse[symbols[i], m]
                used += 1
        for a in range(used):
            for b in range(used):
                out[index[a], index[b]] += counts[pattern] * score[a] * score[b]
