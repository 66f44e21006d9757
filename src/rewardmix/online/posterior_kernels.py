"""Kernels of the posterior sampler: arrays and scalars in, arrays changed in place.

Bags are those of ``recovery.bags``: symbols x*Z + z, bag after bag, each bag with a count. ``table`` (X*Z, M) holds
the law of every context at every symbol, so that one symbol is one line of memory; ``weights`` is (M,). A stream of
``draws`` is advanced in place.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rewardmix._core.binomial import binomial
from rewardmix._core.jit import kernel
from rewardmix._core.portable import exp, log
from rewardmix._core.xoshiro import uniform_draw

TINY, LOG_TINY = 1e-100, 230.25850929940458
"""A product below this is divided by it, and so much is taken off its logarithm."""

ONE_BY_ONE = 12
"""Up to so many equal episodes get their contexts one by one."""

LEAST_LAW = 1e-300
"""No drawn probability is smaller: a law of 0 would make a reward impossible that may still come."""


class BagArrays(NamedTuple):
    """Bags as kernels take them: bag b is ``symbols[offsets[b]:offsets[b + 1]]``, seen ``counts[b]`` times."""

    symbols: Any
    offsets: Any
    counts: Any


class Prior(NamedTuple):
    """Dirichlet shapes of the laws (X*Z,), of the weights (0: they are known), and the number of reward values."""

    laws: Any
    weights: float
    num_values: int


class Meetings(NamedTuple):
    """(X, X) episodes with both, their largest (X,) with another, and the share of flips of a single state-action."""

    together: Any
    peaks: Any
    alone: float


@kernel
def normal_draw(stream: Any) -> Any:
    """A standard normal draw, by Marsaglia's polar method."""
    while True:
        a, b = 2.0 * uniform_draw(stream) - 1.0, 2.0 * uniform_draw(stream) - 1.0
        square = a * a + b * b
        if 0.0 < square < 1.0:
            return a * math.sqrt(-2.0 * log(square) / square)


@kernel
def gamma(shape: Any, stream: Any) -> Any:
    """A gamma draw of scale 1 (Marsaglia and Tsang 2000); shapes below 1 from the next one, times U^(1/shape)."""
    boost = 1.0
    if shape < 1.0:
        u = 1.0 - uniform_draw(stream)
        boost = exp(log(u) / shape)
        shape = shape + 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal_draw(stream)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u = 1.0 - uniform_draw(stream)
        if log(u) < 0.5 * x * x + d - d * v + d * log(v):
            return boost * d * v


@kernel
def dirichlet(shapes: Any, stream: Any, out: Any) -> None:
    """A draw from a Dirichlet law; all shapes above 0."""
    total = 0.0
    for i in range(shapes.size):
        out[i] = gamma(shapes[i], stream)
        total += out[i]
    if total <= 0.0:  # shapes so small that all draws vanished: one outcome has it all
        out[:] = 0.0
        out[np.int64(uniform_draw(stream) * shapes.size)] = 1.0
        return
    for i in range(shapes.size):
        out[i] /= total


@kernel
def joint(symbols: Any, begin: Any, end: Any, weights: Any, table: Any, out: Any) -> Any:
    """``out`` (M,): weight times likelihood of one bag in each context, up to a factor; the factor's logarithm."""
    contexts = weights.size
    for m in range(contexts):
        out[m] = weights[m]
    log_factor = 0.0
    for i in range(begin, end):
        row = table[symbols[i]]
        top = 0.0
        for m in range(contexts):
            out[m] *= row[m]
            top = max(top, out[m])
        if 0.0 < top < TINY:
            for m in range(contexts):
                out[m] /= TINY
            log_factor -= LOG_TINY
    return log_factor


@kernel
def log_likelihood(bags: Any, weights: Any, table: Any) -> Any:
    """log of the probability of all rewards, contexts summed out."""
    share = np.empty(weights.size)
    total = 0.0
    for bag in range(bags.counts.size):
        log_factor = joint(bags.symbols, bags.offsets[bag], bags.offsets[bag + 1], weights, table, share)
        mass = 0.0
        for m in range(weights.size):
            mass += share[m]
        total += bags.counts[bag] * (log(max(mass, LEAST_LAW)) + log_factor)
    return total


@kernel
def add_residuals(bags: Any, weights: Any, table: Any, num_values: Any, sums: Any, squares: Any) -> None:
    """What each symbol came more often than expected of the bags, summed and squared over them.

    ``sums`` and ``squares`` are (X*Z + M,): the symbols, then the contexts themselves beside their weights. Of a bag
    they are derivatives of its log-likelihood: of mean zero at the true mixture, whatever chose the actions.
    """
    contexts = weights.size
    share, rest, off = np.empty(contexts), table.shape[0], np.zeros(table.shape[0])
    for bag in range(bags.counts.size):
        begin, end, copies = bags.offsets[bag], bags.offsets[bag + 1], bags.counts[bag]
        joint(bags.symbols, begin, end, weights, table, share)
        total = 0.0
        for m in range(contexts):
            total += share[m]
        for m in range(contexts):
            share[m] /= max(total, LEAST_LAW)
            more = share[m] - weights[m]
            sums[rest + m] += copies * more
            squares[rest + m] += copies * more * more
        for i in range(begin, end):
            off[bags.symbols[i]] += 1.0
            first = bags.symbols[i] // num_values * num_values
            for symbol in range(first, first + num_values):
                for m in range(contexts):
                    off[symbol] -= share[m] * table[symbol, m]
        for i in range(begin, end):
            first = bags.symbols[i] // num_values * num_values
            for symbol in range(first, first + num_values):  # a state-action that comes again finds zeros
                sums[symbol] += copies * off[symbol]
                squares[symbol] += copies * off[symbol] * off[symbol]
                off[symbol] = 0.0


@kernel
def share_out(copies: Any, sums: Any, stream: Any, out: Any) -> None:
    """``out`` (M,): how many of the ``copies`` of a bag fall to each context, by cumulative ``sums`` (M,)."""
    last = sums.size - 1
    out[:] = 0.0
    if copies <= ONE_BY_ONE:
        for _ in range(copies):
            u = uniform_draw(stream) * sums[last]
            chosen = 0
            for m in range(last):
                chosen += u >= sums[m]
            out[chosen] += 1.0
        return
    left, below = copies, 0.0
    for m in range(last):
        beyond = sums[last] - below
        taken = binomial(left, (sums[m] - below) / beyond, stream) if beyond > 0.0 else 0
        out[m] = taken
        left -= taken
        below = sums[m]
    out[last] = left


@kernel
def draw_contexts(bags: Any, weights: Any, table: Any, stream: Any, sizes: Any, outcomes: Any) -> None:
    """Draw the context of every episode; ``sizes`` (M,) and ``outcomes`` (X*Z, M) count what fell to each context."""
    contexts = weights.size
    share, number = np.empty(contexts), np.empty(contexts)
    sizes[:] = 0.0
    outcomes[:] = 0.0
    for bag in range(bags.counts.size):
        joint(bags.symbols, bags.offsets[bag], bags.offsets[bag + 1], weights, table, share)
        for m in range(1, contexts):
            share[m] += share[m - 1]
        share_out(np.int64(bags.counts[bag]), share, stream, number)
        for m in range(contexts):
            sizes[m] += number[m]
        for i in range(bags.offsets[bag], bags.offsets[bag + 1]):
            for m in range(contexts):
                outcomes[bags.symbols[i], m] += number[m]


@kernel
def draw_laws(sizes: Any, outcomes: Any, prior: Any, stream: Any, weights: Any, table: Any) -> None:
    """Draw weights and laws given what fell to each context; ``prior.weights`` of 0 leave them as known."""
    contexts = weights.size
    num_values = prior.num_values
    if prior.weights > 0.0:
        dirichlet(sizes + prior.weights, stream, weights)
    law = np.empty(num_values)
    for m in range(contexts):
        for begin in range(0, table.shape[0], num_values):
            end = begin + num_values
            dirichlet(outcomes[begin:end, m] + prior.laws[begin:end], stream, law)
            for z in range(num_values):
                table[begin + z, m] = max(law[z], LEAST_LAW)


@kernel
def gibbs_sweep(
    bags: Any,
    prior: Any,
    stream: Any,
    weights: Any,
    table: Any,
) -> None:
    """One Gibbs sweep: contexts given laws, then laws given contexts."""
    sizes, outcomes = np.empty(weights.size), np.empty(table.shape)
    draw_contexts(bags, weights, table, stream, sizes, outcomes)
    draw_laws(sizes, outcomes, prior, stream, weights, table)


@kernel
def choose_block(met: Any, stream: Any, block: Any) -> None:
    """``block`` (X,): a pivot x, and with chance 1 - ``met.alone`` those that x is often together with.

    y belongs to it if n(x, y) / min(max_z n(x, z), max_z n(y, z)) >= u, u uniform. It depends on counts alone, so that
    swapping twice gives back what was there.
    """
    peaks = met.peaks
    pivot = np.int64(uniform_draw(stream) * peaks.size)
    single = uniform_draw(stream) < met.alone
    u = 1.0 - uniform_draw(stream)
    for y in range(peaks.size):
        least = min(peaks[pivot], peaks[y])
        block[y] = y == pivot or (not single and least > 0 and met.together[pivot, y] >= u * least)


@kernel
def swap(block: Any, one: Any, other: Any, num_values: Any, table: Any) -> None:
    """Exchange the laws of two contexts on a block."""
    for x in range(block.size):
        if block[x]:
            for symbol in range(x * num_values, (x + 1) * num_values):
                table[symbol, one], table[symbol, other] = table[symbol, other], table[symbol, one]


@kernel
def flip(
    bags: Any,
    met: Any,
    num_values: Any,
    stream: Any,
    weights: Any,
    table: Any,
    before: Any,
) -> Any:
    """Metropolis: swap two contexts' laws on a block, contexts of episodes summed out.

    ``before`` is the log-likelihood now; that after the step is returned. The prior is the same for all contexts and
    the proposal is its own inverse, so the likelihood alone decides.
    """
    block = np.empty(met.peaks.size, np.bool_)
    choose_block(met, stream, block)
    contexts = weights.size
    one = np.int64(uniform_draw(stream) * contexts)
    other = (one + 1 + np.int64(uniform_draw(stream) * (contexts - 1))) % contexts
    swap(block, one, other, num_values, table)
    after = log_likelihood(bags, weights, table)
    if log(1.0 - uniform_draw(stream)) <= after - before:
        return after
    swap(block, one, other, num_values, table)
    return before


@kernel
def carry_on(
    bags: Any,
    met: Any,
    prior: Any,
    sweeps: Any,
    flips: Any,
    stream: Any,
    weights: Any,
    table: Any,
) -> Any:
    """So many sweeps of a chain with so many flips spread over them; its log-likelihood afterwards."""
    loglik = 0.0
    for done in range(sweeps):
        gibbs_sweep(bags, prior, stream, weights, table)
        now = flips * (done + 1) // sweeps - flips * done // sweeps
        if now > 0 or done == sweeps - 1:
            loglik = log_likelihood(bags, weights, table)
        for _ in range(now):
            loglik = flip(bags, met, prior.num_values, stream, weights, table, loglik)
    return loglik


@kernel
def draw_rows(shapes: Any, stream: Any, out: Any) -> None:
    """A Dirichlet draw for each row of ``shapes`` (N, S), into the first rows of ``out``."""
    for row in range(shapes.shape[0]):
        dirichlet(shapes[row], stream, out[row])
