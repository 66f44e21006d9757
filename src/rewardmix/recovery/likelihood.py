"""Fit a mixture of reward distributions to reward patterns by expectation-maximization (EM).

    log-likelihood   L(w, p) = sum_k log sum_m w[m] prod_t p_m(z_kt | x_kt)
    log-prior        pseudocount * sum_m sum_x sum_z prior_mean(z | x) log p_m(z | x)
    E-step           b_k, posterior of the type of each pattern; N_m = sum_k b_k[m], n_m(x, z) = sum_k b_k[m] #{t: (x,
    z)}
    M-step           w = N / K,   p_m(z | x) = (n_m(x, z) + pseudocount * prior_mean(z | x)) / (n_m(x) + pseudocount)

The sums of the E-step add over patterns, so chunks, processes and machines can be summed: ``e_step`` of a chunk, ``+``,
then ``m_step``. ``run_em`` needs only a function from parameters to summed statistics.

EM is accelerated by Anderson mixing of the last steps (Walker and Ni, 2011), accepted only if the objective does not
decrease. On flat likelihoods, where plain EM needs thousands of steps, this needs about ten times fewer.
Equal types (p_1 = p_2) are a stationary point, so initial values must differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel
from rewardmix._core.linear_algebra import product, solve
from rewardmix._core.portable_math import exp_array, log, log_array
from rewardmix._core.short_repr import use_short_repr
from rewardmix.recovery.reward_patterns import RewardPatterns

MIN_PROB = 1e-12
"""Smallest probability in the E-step, so that one impossible reward does not make the likelihood -inf."""

LOG_RESCALE = 230.25850929940458
"""log(1e100): what one rescaling adds to the log of a product."""

MIN_GAIN = 3e-8
"""EM has converged when steps gain less than this in total, however few the patterns: below it is rounding."""

MIN_STALLED_STEPS = 4
"""Number of consecutive steps that must gain almost nothing before EM stops."""

_ANDERSON_MEMORY = 8
"""Number of earlier steps that Anderson mixing combines."""

ANDERSON_RIDGE = 1e-10
"""Relative ridge that keeps the least-squares problem of Anderson mixing solvable when steps are almost parallel."""

MIN_STEP_SHARE = 0.05
"""An extrapolated probability is at least this share of the one after a plain EM step."""

_MIN_WEIGHT = 1e-9
"""Smallest weight of a type: the weights of a model are positive."""


PADDED_WIDTHS = {1: 2, 3: 4}
"""Numbers of types that the E-step pads to a multiple of two: vector registers make the padding free."""

History = deque[tuple[Floats, Floats, Floats, Floats]]
"""Of the last steps: the image under EM, its change, and the difference of both from the step before."""


@use_short_repr
@dataclass(frozen=True, eq=False)
class Mixture:
    """Weights (M,) and reward probabilities (M, X, Z) of the types."""

    weights: Floats
    probs: Floats

    @property
    def num_types(self) -> int:
        """M, the number of types."""
        return int(self.weights.size)


@dataclass(frozen=True, eq=False)
class SufficientStatistics:
    """Sufficient statistics of an E-step; they add over patterns.

    Attributes:
        weights: (M,) expected number of patterns of each type.
        reward_counts: (M, X, Z) expected number of times that x gave value z, of each type.
        loglik: Log-likelihood of the patterns.
        num_patterns: Number of patterns, each counted as often as it occurred.
    """

    weights: Floats
    reward_counts: Floats
    loglik: float
    num_patterns: float

    def __add__(self, other: SufficientStatistics) -> SufficientStatistics:
        return SufficientStatistics(
            self.weights + other.weights,
            self.reward_counts + other.reward_counts,
            self.loglik + other.loglik,
            self.num_patterns + other.num_patterns,
        )


@dataclass(frozen=True, eq=False)
class EMFit:
    """Result of one EM run.

    Attributes:
        mixture: Fitted parameters.
        loglik: Log-likelihood of the parameters.
        objective: Log-likelihood plus log-prior, which EM maximizes.
        iterations: Number of E-steps.
        converged: Whether the objective stopped growing (otherwise the step limit was reached).
        init_name: Name of the initial value.
    """

    mixture: Mixture
    loglik: float
    objective: float
    iterations: int
    converged: bool
    init_name: str = ""


def make_unfitted(mixture: Mixture, name: str) -> EMFit:
    """Wrap a mixture as a fit without EM; its likelihood is NaN."""
    return EMFit(mixture, float("nan"), float("nan"), 0, True, name)


def single_type_mixture(patterns: RewardPatterns) -> Mixture:
    """Return the maximum-likelihood mixture of a single type: the marginals."""
    return Mixture(np.ones(1), patterns.marginal_probs[None])


def e_step(patterns: RewardPatterns, mixture: Mixture) -> SufficientStatistics:
    """Compute the expected counts of each type and the log-likelihood (E-step)."""
    num_types = mixture.num_types
    # Types lie in the last axis, next to each other in memory, so the kernel updates them as one vector.
    width = PADDED_WIDTHS.get(num_types, num_types)
    table, type_weights = np.full((mixture.probs[0].size, width), MIN_PROB), np.zeros(width)
    table[:, :num_types] = np.maximum(mixture.probs, MIN_PROB).reshape(num_types, -1).T
    type_weights[:num_types] = mixture.weights
    reward_counts, weights = np.zeros_like(table), np.zeros(width)
    loglik = _make_e_step_kernel(width)(
        patterns.symbols, patterns.offsets, patterns.counts, table, type_weights, reward_counts, weights
    )
    shaped = np.ascontiguousarray(reward_counts[:, :num_types].T).reshape(mixture.probs.shape)
    return SufficientStatistics(weights[:num_types], shaped, float(loglik), patterns.num_episodes)


def log_likelihoods(patterns: RewardPatterns, mixture: Mixture) -> Floats:
    """Compute the (P,) log-likelihood of each pattern."""
    out, is_nonempty = np.zeros(patterns.counts.size), np.diff(patterns.offsets) > 0
    joint = _joint_log_likelihoods(patterns, mixture, is_nonempty)
    # Log-sum-exp: the maximum is taken out first, because the likelihoods themselves underflow.
    highest = joint.max(axis=0)
    out[is_nonempty] = highest + log_array(exp_array(joint - highest).sum(axis=0))
    return out


def type_posteriors(patterns: RewardPatterns, mixture: Mixture) -> Floats:
    """Compute (P, M) posterior probabilities of the types given each pattern; given an empty one, the weights."""
    out, is_nonempty = np.tile(mixture.weights, (patterns.counts.size, 1)), np.diff(patterns.offsets) > 0
    joint = _joint_log_likelihoods(patterns, mixture, is_nonempty)
    shares = exp_array(joint - joint.max(axis=0))
    out[is_nonempty] = (shares / shares.sum(axis=0)).T
    return out


def _joint_log_likelihoods(patterns: RewardPatterns, mixture: Mixture, is_nonempty: NDArray[np.bool_]) -> Floats:
    """Compute the (M, F) joint log-likelihood of each nonempty pattern and each type."""
    table = log_array(np.maximum(mixture.probs, MIN_PROB)).reshape(mixture.num_types, -1)
    sums = np.add.reduceat(table[:, patterns.symbols], patterns.offsets[:-1][is_nonempty], axis=1)
    return np.asarray(sums + log_array(mixture.weights)[:, None])


def m_step(
    statistics: SufficientStatistics, prior_mean: Floats, pseudocount: float | Floats, weights: Floats | None = None
) -> Mixture:
    """Compute the parameters from expected counts (M-step); weights that are known are passed in and stay."""
    visits = statistics.reward_counts.sum(axis=2, keepdims=True) + pseudocount
    if np.all(pseudocount > 0):
        probs = (statistics.reward_counts + pseudocount * prior_mean) / visits
    else:
        probs = np.where(visits > 0, statistics.reward_counts / np.where(visits > 0, visits, 1.0), prior_mean)
    if weights is None:
        # A type that loses all its patterns keeps a tiny weight, so that later logarithms are finite.
        weights = np.maximum(statistics.weights / max(statistics.num_patterns, 1e-300), _MIN_WEIGHT)
        weights = weights / weights.sum()
    return Mixture(weights, probs)


def log_prior(mixture: Mixture, prior_mean: Floats, pseudocount: float | Floats) -> float:
    """Compute the log-density of the pseudocounts, up to a constant."""
    if np.ndim(pseudocount):  # one pseudocount per state-action
        return float((pseudocount * prior_mean * log_array(np.maximum(mixture.probs, MIN_PROB))).sum())
    if pseudocount == 0:
        return 0.0
    return float(pseudocount * (prior_mean * log_array(np.maximum(mixture.probs, MIN_PROB))).sum())


def run_em(
    expect: Callable[[Mixture], SufficientStatistics],
    start: Mixture,
    *,
    prior_mean: Floats,
    pseudocount: float | Floats = 1.0,
    weights: Floats | None = None,
    max_iterations: int = 5000,
    tolerance: float = 3e-11,
    name: str = "",
) -> EMFit:
    """Run accelerated EM from ``start`` until steps gain less than ``tolerance`` per pattern.

    Args:
        expect: Function from parameters to statistics summed over all patterns (a loop over chunks, or ``e_step``).
        start: Initial mixture; weights that are known replace its own.
        prior_mean: (X, Z) prior mean, the center of the pseudocounts.
        pseudocount: Pseudocounts of each x and type, or (X, 1) of each x its own, all positive.
        weights: (M,) weights if they are known.
        max_iterations: Largest number of E-steps.
        tolerance: Gain per pattern below which EM has converged.
        name: Name of the initial value.

    Returns:
        Mixture with its objective and the number of E-steps.
    """
    mixture = start if weights is None else Mixture(weights, start.probs)
    statistics, objective = _evaluate_objective(expect, mixture, prior_mean, pseudocount)
    history: History = deque(maxlen=_ANDERSON_MEMORY + 1)
    min_gain = max(tolerance * statistics.num_patterns, MIN_GAIN)
    steps, num_stalled = 1, 0
    while steps < max_iterations and num_stalled < MIN_STALLED_STEPS:
        plain = m_step(statistics, prior_mean, pseudocount, weights)
        candidate = _anderson_step(history, mixture, plain)
        candidate_statistics, candidate_objective = _evaluate_objective(expect, candidate, prior_mean, pseudocount)
        steps += 1
        # EM itself increases the objective in every step, extrapolation does not. A decrease means that the stored
        # differences no longer describe the map, so they are dropped.
        if candidate_objective < objective and candidate is not plain:  # fall back to the plain step
            history.clear()
            candidate = plain
            candidate_statistics, candidate_objective = _evaluate_objective(expect, candidate, prior_mean, pseudocount)
            steps += 1
        # One small gain can be a plateau between two steep parts; several in a row are convergence.
        num_stalled = num_stalled + 1 if candidate_objective - objective <= min_gain else 0
        if candidate_objective >= objective:
            mixture, statistics, objective = candidate, candidate_statistics, candidate_objective
    return EMFit(mixture, statistics.loglik, objective, steps, num_stalled >= MIN_STALLED_STEPS, name)


def _evaluate_objective(
    expect: Callable[[Mixture], SufficientStatistics], mixture: Mixture, prior_mean: Floats, pseudocount: float | Floats
) -> tuple[SufficientStatistics, float]:
    """Compute the statistics at a mixture and the objective."""
    statistics = expect(mixture)
    return statistics, statistics.loglik + log_prior(mixture, prior_mean, pseudocount)


def _anderson_step(history: History, mixture: Mixture, plain: Mixture) -> Mixture:
    """Combine the last EM steps by Anderson mixing: the point whose change would be smallest if EM were linear."""
    image = _flatten_params(plain)
    change = image - _flatten_params(mixture)
    if not history:
        history.append((image, change, image, change))
        return plain
    history.append((image, change, image - history[-1][0], change - history[-1][1]))
    _, *later = history
    images, changes = (np.concatenate([step[k] for step in later]).reshape(len(later), -1) for k in (2, 3))
    # Normal equations of at most eight unknowns. ``product`` sums in a fixed order, so the accepted steps are equal on
    # all machines.
    gram = product(changes, changes.T)
    diagonal = gram.reshape(-1)[:: len(later) + 1]
    diagonal += ANDERSON_RIDGE * diagonal.sum() + 1e-300
    point = image - product(solve(gram, product(changes, change)), images)
    point = np.maximum(point, MIN_STEP_SHARE * image)  # EM cannot leave the boundary
    num_types = plain.num_types
    weights, probs = point[:num_types], point[num_types:].reshape(plain.probs.shape)
    weights_known = bool((mixture.weights == plain.weights).all())
    return Mixture(
        plain.weights if weights_known else weights / weights.sum(), probs / probs.sum(axis=2, keepdims=True)
    )


def _flatten_params(mixture: Mixture) -> Floats:
    """Flatten weights and reward probabilities into one vector."""
    return np.concatenate([mixture.weights, mixture.probs.ravel()])


@cache
def _make_e_step_kernel(width: int) -> Any:
    """Compile the E-step for ``width`` types: a constant width lets the compiler keep them in vector registers.

    One type and three are padded with weight 0.
    """

    @kernel
    def expect(symbols: Any, offsets: Any, counts: Any, table: Any, weights: Any, reward_counts: Any, sums: Any) -> Any:
        # The likelihood is a product, not a sum of logarithms: multiplications are much cheaper. Likelihoods of
        # patterns that occur once are multiplied too, and one logarithm is taken of many; otherwise portable logarithms
        # take a third of an E-step.
        joint = np.empty(width)
        loglik, product = 0.0, 1.0
        for pattern in range(counts.size):
            low, high = offsets[pattern], offsets[pattern + 1]
            for m in range(width):
                joint[m] = weights[m]
            scale = 0
            for i in range(low, high):
                row = table[symbols[i]]
                for m in range(width):
                    joint[m] *= row[m]
                # The product underflows float64 after a few hundred rewards. Each factor is at least MIN_PROB = 1e-12,
                # so between two checks a product shrinks by at most 1e-96, and a check at every eighth reward is early
                # enough.
                if (i - low) & 7 == 7:
                    total = 0.0
                    for m in range(width):
                        total += joint[m]
                    # The number of rescalings times log(1e100) is subtracted from the log-likelihood once per pattern.
                    if total < 1e-100:
                        for m in range(width):
                            joint[m] *= 1e100
                        scale += 1
            total = 0.0
            for m in range(width):
                total += joint[m]
            loglik -= counts[pattern] * scale * LOG_RESCALE
            if counts[pattern] == 1.0:
                product *= total
                if product < 1e-100:
                    loglik += log(product)
                    product = 1.0
            else:
                loglik += counts[pattern] * log(total)
            share = counts[pattern] / total
            for m in range(width):
                joint[m] *= share
                sums[m] += joint[m]
            for i in range(low, high):
                row = reward_counts[symbols[i]]
                for m in range(width):
                    row[m] += joint[m]
        return loglik + log(product)

    return expect
