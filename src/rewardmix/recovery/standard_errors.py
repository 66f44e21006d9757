"""How sure each recovered probability is: standard errors from the observed information.

The information is the sum over episodes of the outer product of the score of the log-likelihood,

    d log L_k / d p_m(z | x) = b_k[m] n_k(x, z) / p_m(z | x),      d log L_k / d w[m] = b_k[m] / w[m],

with b_k the posterior of the episode, taken along the directions that keep each law a law. What the data cannot tell
(a direction of no information) gets an infinite error, not a zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rewardmix._core.algebra import inverse_forms, product
from rewardmix._core.checks import Floats
from rewardmix._core.jit import deferred, kernel
from rewardmix.model import mixed
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.likelihood import FLOOR, Mixture, Statistics

LARGEST = 1200
"""With more free parameters than this, contexts are taken jointly for each x but not the x jointly with each other."""

_WORK = 2e8
"""Products in the sum of outer products; beyond it a share of the (merged, so shuffled) bags is used."""

WEAK = 1e-11
"""Information that is added to every direction, as a share of the largest row sum: more than rounding takes away."""

_AT_ONCE = 250_000
"""Products that NumPy makes at once."""

_UNKNOWN = 0.5
"""A standard error of a probability beyond this says nothing: it is called infinite."""

NORMAL_95 = 1.959963984540054
"""Half-width of a 95 % interval in standard errors."""


def standard_errors(
    bags: Bags, mixture: Mixture, seen: Statistics, average: Floats, prior: float, *, free_weights: bool
) -> tuple[Floats, Floats]:
    """(M, X, Z) errors of the laws and (M,) of the weights (0 where they are known)."""
    contexts, points, values = mixture.laws.shape
    size = contexts * points * values
    least = 0.5 / (seen.outcomes.sum(axis=2, keepdims=True) + 1.0)
    laws = np.maximum(mixture.laws, least)
    diagonal = (prior * average / laws**2).ravel()
    if contexts * points * (values - 1) > LARGEST:
        errors = _blockwise(bags, mixture, laws, diagonal)
        return np.where(errors > _UNKNOWN, np.inf, errors), np.zeros(contexts)
    full = _information(bags, mixture, laws)
    full[np.arange(size), np.arange(size)] += diagonal
    blocks = contexts * points
    law, weight = _zero_sum(values), _zero_sum(contexts) if free_weights else np.zeros((contexts, 0))
    errors = np.sqrt(_variances(full, blocks, law, weight))
    errors[errors > _UNKNOWN] = np.inf
    return errors[:size].reshape(mixture.laws.shape), errors[size:]


def limits_95(laws: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """95 % limits inside [0, 1]; all of it where the error is infinite."""
    return np.clip(laws - NORMAL_95 * errors, 0.0, 1.0), np.clip(laws + NORMAL_95 * errors, 0.0, 1.0)


def _information(bags: Bags, mixture: Mixture, laws: Floats) -> Floats:
    """(D, D) sum of outer products of scores, D = M*X*Z + M, coordinates (m, x, z) then m."""
    contexts = mixture.num_contexts
    table = np.ascontiguousarray(np.maximum(mixture.laws, FLOOR).reshape(contexts, -1).T)
    inverse = np.ascontiguousarray((1.0 / laws).reshape(contexts, -1).T)
    size = table.size + contexts
    out = np.zeros((size, size))
    lengths = np.diff(bags.offsets)
    work = float((((lengths + 1.0) * contexts) ** 2).sum())
    used = bags.counts.size if work <= _WORK else max(1, int(bags.counts.size * _WORK / work))
    _outer_products(bags.symbols, bags.offsets, bags.counts[:used], table, mixture.weights, inverse, out)
    return out * (bags.total / max(float(bags.counts[:used].sum()), 1e-300))


def _zero_sum(size: int) -> Floats:
    """(size, size - 1) orthonormal basis of the vectors that sum to zero: e_1 + ... + e_k - k e_k+1, normalised."""
    basis = np.zeros((size, size - 1))
    for k in range(1, size):
        basis[:k, k - 1], basis[k, k - 1] = 1.0, -k
        basis[:, k - 1] /= math.sqrt(k * (k + 1))
    return basis


def _variances(full: Floats, blocks: int, law: Floats, weight: Floats) -> Floats:
    """Variances of all law entries, then of the weights, from their joint information (D, D).

    Along directions that keep each law a law, and with a little information added to all of them: what the data cannot
    tell then has a variance that is huge, not infinite.
    """
    size, values = blocks * law.shape[0], law.shape[0]
    rows = np.concatenate([_within(law, full[:size], values), product(weight.T, full[size:])])
    reduced = np.concatenate([_within(law, rows[:, :size].T, values), product(weight.T, rows[:, size:].T)])
    reduced = (reduced + reduced.T) / 2.0
    reduced[np.diag_indices_from(reduced)] += WEAK * max(float(np.abs(reduced).sum(axis=1).max(initial=0.0)), 1e-300)
    count = blocks * law.shape[1]
    loads = np.zeros((reduced.shape[0], size + weight.shape[0]))
    for block in range(blocks):
        kept, all_values = (
            slice(block * law.shape[1], (block + 1) * law.shape[1]),
            slice(block * values, (block + 1) * values),
        )
        loads[kept, all_values] = law.T
    loads[count:, size:] = weight.T
    return inverse_forms(reduced, loads)


def _within(law: Floats, rows: Floats, values: int) -> Floats:
    """law' times the rows of each block of ``values`` rows."""
    table = rows.reshape(-1, values, rows.shape[1])
    return mixed(law[:, None, :, None], np.moveaxis(table, 1, 0)[:, :, None]).reshape(-1, rows.shape[1])


def _blockwise(bags: Bags, mixture: Mixture, laws: Floats, diagonal: Floats) -> Floats:
    """Errors from the information of each x by itself, all its contexts together."""
    contexts, points, values = mixture.laws.shape
    table = np.ascontiguousarray(np.maximum(mixture.laws, FLOOR).reshape(contexts, -1).T)
    inverse = np.ascontiguousarray((1.0 / laws).reshape(contexts, -1).T)
    out = np.zeros((points, contexts * values, contexts * values))
    _own_products(bags.symbols, bags.offsets, bags.counts, table, mixture.weights, inverse, values, out)
    index = np.arange(contexts * values)
    out[:, index, index] += diagonal.reshape(contexts, points, values).transpose(1, 0, 2).reshape(points, -1)
    errors = np.empty((points, contexts * values))
    law, none = _zero_sum(values), np.zeros((0, 0))
    for x in range(points):
        errors[x] = np.sqrt(_variances(out[x], contexts, law, none))
    return errors.reshape(points, contexts, values).transpose(1, 0, 2)


@kernel
def _posterior(symbols: Any, low: Any, high: Any, table: Any, weights: Any, joint: Any) -> None:
    """Belief over contexts after one bag; divided at every step, so that long bags do not vanish."""
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
def _own_products(
    symbols: Any, offsets: Any, counts: Any, table: Any, weights: Any, inverse: Any, values: Any, out: Any
) -> None:
    contexts = weights.size
    joint = np.empty(contexts)
    for bag in range(counts.size):
        low, high = offsets[bag], offsets[bag + 1]
        _posterior(symbols, low, high, table, weights, joint)
        for i in range(low, high):
            for j in range(low, high):
                x = symbols[i] // values
                if symbols[j] // values == x:
                    for m in range(contexts):
                        left = joint[m] * inverse[symbols[i], m]
                        for n in range(contexts):
                            right = joint[n] * inverse[symbols[j], n]
                            out[x, m * values + symbols[i] % values, n * values + symbols[j] % values] += (
                                counts[bag] * left * right
                            )


def _outer_products_together(
    symbols: Any, offsets: Any, counts: Any, table: Any, weights: Any, inverse: Any, out: Any
) -> None:
    """``_outer_products`` by NumPy, some bags at a time; sums are taken in the same order."""
    lengths = np.diff(offsets[: counts.size + 1])
    longest = int(lengths.max(initial=0))
    contexts, entries = weights.size, table.shape[0]
    width = (1 + longest) * contexts
    together = max(1, _AT_ONCE // width**2)
    for begin in range(0, counts.size, together):
        part = slice(begin, begin + together)
        inside = np.arange(longest) < lengths[part, None]
        listed = symbols[np.where(inside, offsets[:-1][part, None] + np.arange(longest), 0)]
        joint = _posteriors(table[listed], inside, weights)
        own = np.ones((len(joint), 1), bool)
        place = np.empty((len(joint), contexts, 1 + longest), np.int64)
        score: Any = np.empty(place.shape)
        for m in range(contexts):
            place[:, m, 0], place[:, m, 1:] = contexts * entries + m, m * entries + listed
            score[:, m, 0], score[:, m, 1:] = joint[:, m] / weights[m], joint[:, m, None] * inverse[listed, m]
        used = np.tile(np.concatenate([own, inside], axis=1), (1, contexts))
        both = used[:, :, None] & used[:, None, :]
        place, score = place.reshape(-1, width), score.reshape(-1, width)
        cells = place[:, :, None] * out.shape[1] + place[:, None, :]
        values = (counts[part, None] * score)[:, :, None] * score[:, None, :]
        np.add.at(out.reshape(-1), cells[both], values[both])


def _posteriors(chances: Any, inside: Any, weights: Any) -> Any:
    """``_posterior`` of many bags: chances (K, L, M) of what they saw, as far as they go (K, L)."""
    joint = np.tile(weights / _summed(weights), (len(chances), 1))
    for i in range(chances.shape[1]):
        seen = joint * chances[:, i]
        joint = np.where(inside[:, i, None], seen / _summed(seen.T)[:, None], joint)
    return joint


def _summed(parts: Any) -> Any:
    """One after the other, as a loop does it."""
    total = np.zeros(parts.shape[1:])
    for part in parts:
        total = total + part
    return total


def _outer_steps(symbols: Any, offsets: Any, counts: Any, table: Any, weights: Any, *_: Any) -> int:
    scores = (1 + np.diff(offsets[: counts.size + 1])) * weights.size
    return 100 + int((scores * scores).sum()) // 50


@deferred(_outer_steps, play=_outer_products_together)
def _outer_products(symbols: Any, offsets: Any, counts: Any, table: Any, weights: Any, inverse: Any, out: Any) -> None:
    contexts = weights.size
    entries = table.shape[0]
    longest = 0
    for bag in range(counts.size):
        longest = max(longest, offsets[bag + 1] - offsets[bag])
    where = np.empty((longest + 1) * contexts, np.int64)
    score = np.empty((longest + 1) * contexts)
    joint = np.empty(contexts)
    for bag in range(counts.size):
        low, high = offsets[bag], offsets[bag + 1]
        _posterior(symbols, low, high, table, weights, joint)
        used = 0
        for m in range(contexts):
            where[used] = contexts * entries + m
            score[used] = joint[m] / weights[m]
            used += 1
            for i in range(low, high):
                where[used] = m * entries + symbols[i]
                score[used] = joint[m] * inverse[symbols[i], m]
                used += 1
        for a in range(used):
            for b in range(used):
                out[where[a], where[b]] += counts[bag] * score[a] * score[b]
