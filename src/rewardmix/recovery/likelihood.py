"""Maximum likelihood of a mixture of reward laws, by EM on bags of rewards.

    log-likelihood   L(w, p) = sum_k log sum_m w[m] prod_t p_m(z_kt | x_kt)
    penalty          prior * sum_m sum_x sum_z average(z | x) log p_m(z | x)       a pseudo-count at the average
    E-step           posterior of m for each bag; sums N_m = sum_k b_k[m], n_m(x, z) = sum_k b_k[m] #{t: (x, z)}
    M-step           w = N / K,   p_m(z | x) = (n_m(x, z) + prior * average(z | x)) / (n_m(x) + prior)

The sums of the E-step add over bags, so chunks, processes and machines can be summed: ``e_step`` of a chunk,
``+``, then ``m_step``. ``ascend`` needs only a function from parameters to summed statistics. It accelerates EM by
Anderson's mixing of the last steps (Walker and Ni 2011), kept only if the objective did not fall: on flat likelihoods,
where plain EM needs thousands of steps, ten times fewer.
p_1 = p_2 is a fixed point, so starts must not be there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.algebra import product, solve
from rewardmix._core.brevity import short
from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel
from rewardmix._core.portable import exps, log, logs
from rewardmix.recovery.bags import Bags

FLOOR = 1e-12
"""No probability in the E-step is smaller, so that one impossible reward cannot make the likelihood -inf."""

LOG_RESCALED = 230.25850929940458
"""log(1e100), what rescaling a product takes off."""

LEAST_GAIN = 3e-8
"""Steps that gain less than this have converged, however few the bags."""

CALM = 4
"""So many steps in a row must gain next to nothing."""

_MEMORY = 8
"""Earlier steps that are mixed."""

RIDGE = 1e-10
"""Keeps the mixing solvable when steps are almost parallel."""

INSIDE = 0.05
"""An extrapolated probability is at least this share of the plain step's."""

_LEAST_WEIGHT = 1e-9
"""A context cannot vanish altogether: a model's weights are positive."""


PADDED = {1: 2, 3: 4}
"""Contexts of which so many are made for the E-step: in vector registers they cost no more than their own number."""

History = deque[tuple[Floats, Floats, Floats, Floats]]
"""Of the last steps: where a plain step led, how far, and how much each of these differs from the step before."""


@short
@dataclass(frozen=True, eq=False)
class Mixture:
    """Weights (M,) and reward laws (M, X, Z) of the contexts."""

    weights: Floats
    laws: Floats

    @property
    def num_contexts(self) -> int:
        """M."""
        return int(self.weights.size)


@dataclass(frozen=True, eq=False)
class Statistics:
    """What an E-step leaves of some bags; adds over bags.

    Attributes:
        weights: (M,) expected number of bags from each context.
        outcomes: (M, X, Z) expected number of times that x paid z in each context.
        loglik: log-likelihood of the bags.
        bags: how many there were.
    """

    weights: Floats
    outcomes: Floats
    loglik: float
    bags: float

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.weights + other.weights,
            self.outcomes + other.outcomes,
            self.loglik + other.loglik,
            self.bags + other.bags,
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """Where an ascent ended.

    Attributes:
        mixture: the parameters.
        loglik: their log-likelihood.
        objective: log-likelihood plus penalty, what was maximised.
        iterations: E-steps taken.
        converged: whether the objective stopped growing (otherwise the steps ran out).
        start: the name of the start.
    """

    mixture: Mixture
    loglik: float
    objective: float
    iterations: int
    converged: bool
    start: str = ""


def start_fit(mixture: Mixture, name: str) -> Fit:
    """A start that no likelihood was asked about."""
    return Fit(mixture, float("nan"), float("nan"), 0, True, name)


def one_context(bags: Bags) -> Mixture:
    """The most likely mixture of a single context: the average."""
    return Mixture(np.ones(1), bags.average[None])


def e_step(bags: Bags, mixture: Mixture) -> Statistics:
    """The E-step: expected counts in each context, and the log-likelihood."""
    contexts = mixture.num_contexts
    width = PADDED.get(contexts, contexts)
    table, prior = np.full((mixture.laws[0].size, width), FLOOR), np.zeros(width)
    table[:, :contexts] = np.maximum(mixture.laws, FLOOR).reshape(contexts, -1).T
    prior[:contexts] = mixture.weights
    outcomes, weights = np.zeros_like(table), np.zeros(width)
    loglik = _expect_kernel(width)(bags.symbols, bags.offsets, bags.counts, table, prior, outcomes, weights)
    shaped = np.ascontiguousarray(outcomes[:, :contexts].T).reshape(mixture.laws.shape)
    return Statistics(weights[:contexts], shaped, float(loglik), bags.total)


def logliks(bags: Bags, mixture: Mixture) -> Floats:
    """(P,) log-likelihood of each bag."""
    out, filled = np.zeros(bags.counts.size), np.diff(bags.offsets) > 0
    joint = _joint_logliks(bags, mixture, filled)
    highest = joint.max(axis=0)
    out[filled] = highest + logs(exps(joint - highest).sum(axis=0))
    return out


def posteriors(bags: Bags, mixture: Mixture) -> Floats:
    """(P, M) chance of each context for each bag; that of the weights for an empty one."""
    out, filled = np.tile(mixture.weights, (bags.counts.size, 1)), np.diff(bags.offsets) > 0
    joint = _joint_logliks(bags, mixture, filled)
    shares = exps(joint - joint.max(axis=0))
    out[filled] = (shares / shares.sum(axis=0)).T
    return out


def _joint_logliks(bags: Bags, mixture: Mixture, filled: NDArray[np.bool_]) -> Floats:
    """(M, F) log-likelihood of each filled bag together with each context."""
    table = logs(np.maximum(mixture.laws, FLOOR)).reshape(mixture.num_contexts, -1)
    sums = np.add.reduceat(table[:, bags.symbols], bags.offsets[:-1][filled], axis=1)
    return np.asarray(sums + logs(mixture.weights)[:, None])


def m_step(summed: Statistics, average: Floats, prior: float | Floats, weights: Floats | None = None) -> Mixture:
    """The M-step. Weights that are known are passed in and stay."""
    visits = summed.outcomes.sum(axis=2, keepdims=True) + prior
    if np.all(prior > 0):
        laws = (summed.outcomes + prior * average) / visits
    else:
        laws = np.where(visits > 0, summed.outcomes / np.where(visits > 0, visits, 1.0), average)
    if weights is None:
        weights = np.maximum(summed.weights / max(summed.bags, 1e-300), _LEAST_WEIGHT)
        weights = weights / weights.sum()
    return Mixture(weights, laws)


def penalty(mixture: Mixture, average: Floats, prior: float | Floats) -> float:
    """The log-density of the pseudo-counts."""
    if np.ndim(prior):  # of each state-action its own
        return float((prior * average * logs(np.maximum(mixture.laws, FLOOR))).sum())
    if prior == 0:
        return 0.0
    return float(prior * (average * logs(np.maximum(mixture.laws, FLOOR))).sum())


def ascend(
    expect: Callable[[Mixture], Statistics],
    start: Mixture,
    *,
    average: Floats,
    prior: float | Floats = 1.0,
    weights: Floats | None = None,
    max_iterations: int = 5000,
    tolerance: float = 3e-11,
    name: str = "",
) -> Fit:
    """Accelerated EM from ``start`` until steps gain less than ``tolerance`` a bag.

    Args:
        expect: parameters -> statistics summed over all bags (of a chunk loop, a cluster, or ``e_step``).
        start: where to begin; weights that are known replace its own.
        average: (X, Z) where the pseudo-counts are.
        prior: number of pseudo-counts for each x and context, or (X, 1) of each x its own, all positive.
        weights: (M,) if they are known.
        max_iterations: E-steps at most.
        tolerance: gain a bag below which it has converged.
        name: what to call the start.
    """
    here = start if weights is None else Mixture(weights, start.laws)
    seen, value = _evaluate(expect, here, average, prior)
    history: History = deque(maxlen=_MEMORY + 1)
    least = max(tolerance * seen.bags, LEAST_GAIN)
    steps, calm = 1, 0
    while steps < max_iterations and calm < CALM:
        plain = m_step(seen, average, prior, weights)
        ahead = _extrapolated(history, here, plain)
        seen_ahead, value_ahead = _evaluate(expect, ahead, average, prior)
        steps += 1
        if value_ahead < value and ahead is not plain:  # the jump went too far: forget, and take the plain step
            history.clear()
            ahead = plain
            seen_ahead, value_ahead = _evaluate(expect, ahead, average, prior)
            steps += 1
        calm = calm + 1 if value_ahead - value <= least else 0
        if value_ahead >= value:
            here, seen, value = ahead, seen_ahead, value_ahead
    return Fit(here, seen.loglik, value, steps, calm >= CALM, name)


def _evaluate(
    expect: Callable[[Mixture], Statistics], mixture: Mixture, average: Floats, prior: float | Floats
) -> tuple[Statistics, float]:
    seen = expect(mixture)
    return seen, seen.loglik + penalty(mixture, average, prior)


def _extrapolated(history: History, here: Mixture, plain: Mixture) -> Mixture:
    """Anderson's mixture of the last EM steps: the one whose change, were EM linear, would be smallest."""
    image = _packed(plain)
    change = image - _packed(here)
    if not history:
        history.append((image, change, image, change))
        return plain
    history.append((image, change, image - history[-1][0], change - history[-1][1]))
    _, *later = history
    images, changes = (np.concatenate([step[k] for step in later]).reshape(len(later), -1) for k in (2, 3))
    gram = product(changes, changes.T)
    diagonal = gram.reshape(-1)[:: len(later) + 1]
    diagonal += RIDGE * diagonal.sum() + 1e-300
    point = image - product(solve(gram, product(changes, change)), images)
    point = np.maximum(point, INSIDE * image)  # never on the boundary, where EM would stay
    contexts = plain.num_contexts
    weights, laws = point[:contexts], point[contexts:].reshape(plain.laws.shape)
    known = bool((here.weights == plain.weights).all())
    return Mixture(plain.weights if known else weights / weights.sum(), laws / laws.sum(axis=2, keepdims=True))


def _packed(mixture: Mixture) -> Floats:
    return np.concatenate([mixture.weights, mixture.laws.ravel()])


@cache
def _expect_kernel(width: int) -> Any:
    """The E-step for ``width`` contexts: a constant width lets the compiler keep them in vector registers.

    One context and three are padded with weight 0. Products, not sums of logarithms: rescaled when they get small (no
    step makes them smaller than by FLOOR, so looking at every eighth step is enough). Likelihoods of bags that occur
    once are multiplied too, and one logarithm is taken of many: else portable logarithms take a third of an E-step.
    """

    @kernel
    def expect(symbols: Any, offsets: Any, counts: Any, table: Any, weights: Any, outcomes: Any, sums: Any) -> Any:
        joint = np.empty(width)
        loglik, product = 0.0, 1.0
        for bag in range(counts.size):
            low, high = offsets[bag], offsets[bag + 1]
            for m in range(width):
                joint[m] = weights[m]
            scale = 0
            for i in range(low, high):
                row = table[symbols[i]]
                for m in range(width):
                    joint[m] *= row[m]
                if (i - low) & 7 == 7:
                    total = 0.0
                    for m in range(width):
                        total += joint[m]
                    if total < 1e-100:
                        for m in range(width):
                            joint[m] *= 1e100
                        scale += 1
            total = 0.0
            for m in range(width):
                total += joint[m]
            loglik -= counts[bag] * scale * LOG_RESCALED
            if counts[bag] == 1.0:
                product *= total
                if product < 1e-100:
                    loglik += log(product)
                    product = 1.0
            else:
                loglik += counts[bag] * log(total)
            share = counts[bag] / total
            for m in range(width):
                joint[m] *= share
                sums[m] += joint[m]
            for i in range(low, high):
                row = outcomes[symbols[i]]
                for m in range(width):
                    row[m] += joint[m]
        return loglik + log(product)

    return expect
