"""Implement the posterior sampler in compiled kernels, which change arrays in place.

Patterns are those of ``recovery.reward_patterns``: symbols x*Z + z, pattern after pattern, each with a count. ``table``
(X*Z, M) holds the probability of each symbol under each type, so that one symbol is one line of memory; ``weights`` is
(M,). A random stream advances in place.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rewardmix._core.binomial import binomial
from rewardmix._core.jit import kernel
from rewardmix._core.portable_math import exp, log
from rewardmix._core.xoshiro import uniform_draw

RESCALE_THRESHOLD, LOG_RESCALE = 1e-100, 230.25850929940458
"""Threshold below which a product of probabilities is divided by it; the logarithm is corrected by as much."""

MAX_SINGLE_DRAWS = 12
"""Up to so many equal episodes get their types by single draws; more by binomial draws."""

MIN_TABLE_PROB = 1e-300
"""Smallest drawn probability: with 0 a reward that may still occur would be impossible."""


class PatternArrays(NamedTuple):
    """Hold reward patterns as arrays.

    Pattern b is ``symbols[offsets[b]:offsets[b + 1]]``, observed ``counts[b]`` times.
    """

    symbols: Any
    offsets: Any
    counts: Any


class Prior(NamedTuple):
    """Hold Dirichlet counts of rewards (X*Z,) and of weights (0: known), and the number of reward values."""

    prob_counts: Any
    weight_counts: float
    num_values: int


class CoOccurrence(NamedTuple):
    """Hold co-occurrence counts (X, X), their maximum over others (X,), and the fraction of single flips."""

    co_counts: Any
    max_co_counts: Any
    single_flip_share: float


@kernel
def draw_normal(stream: Any) -> Any:
    """Draw a standard normal number by Marsaglia's polar method."""
    # The polar method needs log and sqrt only, for which portable implementations give equal bits on all platforms.
    while True:
        a, b = 2.0 * uniform_draw(stream) - 1.0, 2.0 * uniform_draw(stream) - 1.0
        square = a * a + b * b
        if 0.0 < square < 1.0:
            return a * math.sqrt(-2.0 * log(square) / square)


@kernel
def draw_gamma(shape: Any, stream: Any) -> Any:
    """Draw a gamma variate of scale 1 (Marsaglia and Tsang, 2000)."""
    boost = 1.0
    # For shapes below 1: Gamma(a) = Gamma(a + 1) U^(1/a). The power is taken in logarithms, as it may underflow.
    if shape < 1.0:
        u = 1.0 - uniform_draw(stream)
        boost = exp(log(u) / shape)
        shape = shape + 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = draw_normal(stream)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u = 1.0 - uniform_draw(stream)
        if log(u) < 0.5 * x * x + d - d * v + d * log(v):
            return boost * d * v


@kernel
def draw_dirichlet(shapes: Any, stream: Any, out: Any) -> None:
    """Draw from a Dirichlet distribution with positive ``shapes``."""
    total = 0.0
    for i in range(shapes.size):
        out[i] = draw_gamma(shapes[i], stream)
        total += out[i]
    # Very small shapes can make all gamma draws underflow. The limit of the distribution puts all mass on one entry.
    if total <= 0.0:
        out[:] = 0.0
        out[np.int64(uniform_draw(stream) * shapes.size)] = 1.0
        return
    for i in range(shapes.size):
        out[i] /= total


@kernel
def joint_probs(symbols: Any, begin: Any, end: Any, weights: Any, table: Any, out: Any) -> Any:
    """Write weight times likelihood of a pattern for each type into ``out`` (M,), up to a common factor.

    The logarithm of the factor is returned.
    """
    num_types = weights.size
    for m in range(num_types):
        out[m] = weights[m]
    log_factor = 0.0
    for i in range(begin, end):
        row = table[symbols[i]]
        top = 0.0
        for m in range(num_types):
            out[m] *= row[m]
            top = max(top, out[m])
        # The product underflows float64 after a few hundred rewards. It is rescaled by 1e100 whenever the largest entry
        # falls below 1e-100; all types share the factor, so that their ratios stay exact up to rounding.
        if 0.0 < top < RESCALE_THRESHOLD:
            for m in range(num_types):
                out[m] /= RESCALE_THRESHOLD
            log_factor -= LOG_RESCALE
    return log_factor


@kernel
def log_likelihood(patterns: Any, weights: Any, table: Any) -> Any:
    """Compute the log-likelihood of all rewards, with types summed out."""
    joint = np.empty(weights.size)
    total = 0.0
    for pattern in range(patterns.counts.size):
        log_factor = joint_probs(
            patterns.symbols, patterns.offsets[pattern], patterns.offsets[pattern + 1], weights, table, joint
        )
        mass = 0.0
        for m in range(weights.size):
            mass += joint[m]
        # The floor keeps the logarithm finite if a reward is impossible under every type.
        total += patterns.counts[pattern] * (log(max(mass, MIN_TABLE_PROB)) + log_factor)
    return total


@kernel
def add_residuals(patterns: Any, weights: Any, table: Any, num_values: Any, sums: Any, squares: Any) -> None:
    """Add up score residuals: how much more often each symbol occurred than expected, and the squares of these.

    ``sums`` and ``squares`` are (X*Z + M,): symbols first, then the types relative to their weights. For each episode
    they are derivatives of its log-likelihood, with mean zero at the true mixture whatever policy chose the actions.
    """
    num_types = weights.size
    posterior, num_symbols, residuals = np.empty(num_types), table.shape[0], np.zeros(table.shape[0])
    for pattern in range(patterns.counts.size):
        begin, end, copies = patterns.offsets[pattern], patterns.offsets[pattern + 1], patterns.counts[pattern]
        joint_probs(patterns.symbols, begin, end, weights, table, posterior)
        total = 0.0
        for m in range(num_types):
            total += posterior[m]
        for m in range(num_types):
            posterior[m] /= max(total, MIN_TABLE_PROB)
            residual = posterior[m] - weights[m]
            sums[num_symbols + m] += copies * residual
            squares[num_symbols + m] += copies * residual * residual
        for i in range(begin, end):
            residuals[patterns.symbols[i]] += 1.0
            first = patterns.symbols[i] // num_values * num_values
            for symbol in range(first, first + num_values):
                for m in range(num_types):
                    residuals[symbol] -= posterior[m] * table[symbol, m]
        for i in range(begin, end):
            first = patterns.symbols[i] // num_values * num_values
            # Squares are taken per pattern, after all its steps. Clearing the entry makes a repeated state-action count
            # once.
            for symbol in range(first, first + num_values):
                sums[symbol] += copies * residuals[symbol]
                squares[symbol] += copies * residuals[symbol] * residuals[symbol]
                residuals[symbol] = 0.0


@kernel
def draw_multinomial_counts(copies: Any, sums: Any, stream: Any, out: Any) -> None:
    """Draw how many ``copies`` of a pattern each type gets, into ``out`` (M,), by cumulative ``sums`` (M,)."""
    last = sums.size - 1
    out[:] = 0.0
    if copies <= MAX_SINGLE_DRAWS:
        for _ in range(copies):
            u = uniform_draw(stream) * sums[last]
            chosen = 0
            for m in range(last):
                chosen += u >= sums[m]
            out[chosen] += 1.0
        return
    # A multinomial draw by successive binomials: its cost does not grow with the number of copies.
    remaining, below = copies, 0.0
    for m in range(last):
        tail = sums[last] - below
        drawn = binomial(remaining, (sums[m] - below) / tail, stream) if tail > 0.0 else 0
        out[m] = drawn
        remaining -= drawn
        below = sums[m]
    out[last] = remaining


@kernel
def draw_types(patterns: Any, weights: Any, table: Any, stream: Any, sizes: Any, reward_counts: Any) -> None:
    """Draw the type of every episode; write the counts of episodes (M,) and of symbols (X*Z, M) per type."""
    num_types = weights.size
    joint, type_counts = np.empty(num_types), np.empty(num_types)
    sizes[:] = 0.0
    reward_counts[:] = 0.0
    for pattern in range(patterns.counts.size):
        joint_probs(patterns.symbols, patterns.offsets[pattern], patterns.offsets[pattern + 1], weights, table, joint)
        # Cumulative sums in place; they need no normalization, as ``draw_multinomial_counts`` scales by the last one.
        for m in range(1, num_types):
            joint[m] += joint[m - 1]
        draw_multinomial_counts(np.int64(patterns.counts[pattern]), joint, stream, type_counts)
        for m in range(num_types):
            sizes[m] += type_counts[m]
        for i in range(patterns.offsets[pattern], patterns.offsets[pattern + 1]):
            for m in range(num_types):
                reward_counts[patterns.symbols[i], m] += type_counts[m]


@kernel
def draw_weights_and_probs(sizes: Any, reward_counts: Any, prior: Any, stream: Any, weights: Any, table: Any) -> None:
    """Draw weights and reward probabilities given the counts per type; a weight prior of 0 keeps the weights."""
    num_types = weights.size
    num_values = prior.num_values
    if prior.weight_counts > 0.0:
        draw_dirichlet(sizes + prior.weight_counts, stream, weights)
    probs = np.empty(num_values)
    for m in range(num_types):
        for begin in range(0, table.shape[0], num_values):
            end = begin + num_values
            draw_dirichlet(reward_counts[begin:end, m] + prior.prob_counts[begin:end], stream, probs)
            for z in range(num_values):
                table[begin + z, m] = max(probs[z], MIN_TABLE_PROB)


@kernel
def gibbs_sweep(
    patterns: Any,
    prior: Any,
    stream: Any,
    weights: Any,
    table: Any,
) -> None:
    """Run one Gibbs sweep: types given probabilities, then probabilities given types."""
    sizes, reward_counts = np.empty(weights.size), np.empty(table.shape)
    draw_types(patterns, weights, table, stream, sizes, reward_counts)
    draw_weights_and_probs(sizes, reward_counts, prior, stream, weights, table)


@kernel
def choose_block(co_occurrence: Any, stream: Any, block: Any) -> None:
    """Choose the block (X,) of a flip: a pivot x and, unless the flip is single, what often occurs together with x.

    y is in the block if n(x, y) / min(max_z n(x, z), max_z n(y, z)) >= u with u uniform. The choice depends on counts
    alone, so the proposal is symmetric.
    """
    peaks = co_occurrence.max_co_counts
    pivot = np.int64(uniform_draw(stream) * peaks.size)
    single = uniform_draw(stream) < co_occurrence.single_flip_share
    u = 1.0 - uniform_draw(stream)
    for y in range(peaks.size):
        min_peak = min(peaks[pivot], peaks[y])
        block[y] = y == pivot or (not single and min_peak > 0 and co_occurrence.co_counts[pivot, y] >= u * min_peak)


@kernel
def swap_types(block: Any, m: Any, other: Any, num_values: Any, table: Any) -> None:
    """Exchange the reward probabilities of two types on a block."""
    for x in range(block.size):
        if block[x]:
            for symbol in range(x * num_values, (x + 1) * num_values):
                table[symbol, m], table[symbol, other] = table[symbol, other], table[symbol, m]


@kernel
def metropolis_flip(
    patterns: Any,
    co_occurrence: Any,
    num_values: Any,
    stream: Any,
    weights: Any,
    table: Any,
    before: Any,
) -> Any:
    """Propose to swap the probabilities of two types on a block, with types of episodes summed out.

    ``before`` is the current log-likelihood; the one after the step is returned. The prior is symmetric in the types
    and the proposal is its own inverse, so the acceptance ratio is the likelihood ratio.
    """
    block = np.empty(co_occurrence.max_co_counts.size, np.bool_)
    choose_block(co_occurrence, stream, block)
    num_types = weights.size
    m = np.int64(uniform_draw(stream) * num_types)
    other = (m + 1 + np.int64(uniform_draw(stream) * (num_types - 1))) % num_types
    swap_types(block, m, other, num_values, table)
    after = log_likelihood(patterns, weights, table)
    # 1 - u lies in (0, 1], so its logarithm is finite.
    if log(1.0 - uniform_draw(stream)) <= after - before:
        return after
    swap_types(block, m, other, num_values, table)
    return before


@kernel
def run_chain(
    patterns: Any,
    co_occurrence: Any,
    prior: Any,
    sweeps: Any,
    flips: Any,
    stream: Any,
    weights: Any,
    table: Any,
) -> Any:
    """Run ``sweeps`` sweeps of a chain with ``flips`` flips spread evenly over them, and return the log-likelihood."""
    loglik = 0.0
    for sweep in range(sweeps):
        gibbs_sweep(patterns, prior, stream, weights, table)
        num_flips = flips * (sweep + 1) // sweeps - flips * sweep // sweeps
        # The likelihood costs as much as a sweep; it is needed before a flip and at the end.
        if num_flips > 0 or sweep == sweeps - 1:
            loglik = log_likelihood(patterns, weights, table)
        for _ in range(num_flips):
            loglik = metropolis_flip(patterns, co_occurrence, prior.num_values, stream, weights, table, loglik)
    return loglik


@kernel
def draw_dirichlet_rows(shapes: Any, stream: Any, out: Any) -> None:
    """Draw a Dirichlet sample for each row of ``shapes`` (N, S) into the first rows of ``out``."""
    for row in range(shapes.shape[0]):
        draw_dirichlet(shapes[row], stream, out[row])
