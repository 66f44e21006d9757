"""Compute initial values for EM with a rare type, one that few episodes belong to.

A type of one episode in a hundred contributes almost nothing to covariances: w (1 - w) times a squared difference,
below the noise of all others. It contributes most to skewness, (1 - 2 w) / sqrt(w (1 - w)) in each coordinate. So take
the fit without its rarest type, and the residual of each reward,

    r_t = 1[z_t = z] - p_m(z | x_t)       m: the most likely type of the episode, the rare one left out

and search for directions v (X, Z) along which r is most skewed. With L = sum_t v . r_t, over triples of different
steps,

    E[e3(v . r)],   its gradient by r_t:   G_t = e2 of the other steps,   v <- sum of G_t r_t, whitened

is a power iteration of the tensor of third moments (Anandkumar et al., 2014), started from the residuals of random
episodes. The episodes with the largest scores along a direction initialize the rare type.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel
from rewardmix._core.random_streams import Role, make_generator
from rewardmix.recovery.evidence import RecoveryData, RecoverySettings
from rewardmix.recovery.likelihood import EMFit, Mixture, e_step, run_em, single_type_mixture, type_posteriors
from rewardmix.recovery.moment_init import INIT_SMOOTHING, smooth_mixture
from rewardmix.recovery.reward_patterns import RewardPatterns

MIN_GAIN_PER_PARAMETER = 3.0
"""A further type whose fit gains this many nats per parameter is visible in the moments, so no search is needed; by
chance a fit gains about one.
"""

NUM_DIRECTIONS, POWER_ITERATIONS = 48, 12
"""Number of power iterations run in parallel, and steps of each."""

MAX_ENTRIES = 4e6
"""Largest number of entries in the directions of all power iterations: large tables get fewer directions, at least
four.
"""

MAX_INITS, MAX_CORRELATION = 12, 0.95
"""Largest number of directions that initialize EM, and the correlation of scores above which two directions count as
one.
"""

INIT_WEIGHT = 0.01
"""Initial weight of the rare type: the share of the episodes with the largest scores along a direction."""

SCREENING_ITERATIONS_RARE, NUM_CONTINUED, MAX_ITERATIONS_RARE = 12, 4, 300
"""E-steps of every EM run, number of runs that continue, and the E-steps of these."""

MAX_EPISODES_SEARCHED, MAX_SYMBOLS_SEARCHED = 20_000, 400_000
"""Largest numbers of episodes and of rewards that are searched for directions."""


def fit_rare_types(
    evidence: RecoveryData, settings: RecoverySettings, best: EMFit, weights: Floats | None
) -> list[EMFit]:
    """Run EM with the rarest type of ``best`` initialized anew; return no runs where two types are clear without it.

    Args:
        evidence: Whole episodes; pairs contain no third-order information.
        settings: Pseudocount and seed.
        best: Best EM run so far.
        weights: (M,) weights if they are fixed.

    Returns:
        EM runs, best objective not necessarily first.
    """
    patterns, num_types = evidence.patterns, best.mixture.num_types
    if patterns is None:
        return []
    single_loglik = e_step(patterns, single_type_mixture(patterns)).loglik if num_types == 2 else None
    rng = make_rare_rng(settings.seed, num_types)
    em_options = {
        "prior_mean": evidence.prior_mean(patterns, settings),
        "pseudocount": evidence.pseudocount(settings),
        "weights": weights,
    }
    return run_em_rare(patterns, best, single_loglik, rng, **em_options)


def make_rare_rng(seed: int, *position: int) -> np.random.Generator:
    """Make the random stream of ``run_em_rare`` for a seed and a position in the run."""
    return make_generator(seed, Role.RARE_TYPE_INITS, *position)


def run_em_rare(
    patterns: RewardPatterns, best: EMFit, fewer_loglik: float | None, rng: np.random.Generator, **em_options: Any
) -> list[EMFit]:
    """Run EM with the rarest type initialized anew, unless ``best`` gains clearly over one type less.

    Args:
        patterns: Patterns of whole episodes.
        best: Best EM run so far.
        fewer_loglik: Log-likelihood of a fit with one type less, or None if it is not known.
        rng: Random generator of the directions.
        **em_options: Keyword arguments of ``run_em``.

    Returns:
        EM runs from the most promising directions.
    """
    if not patterns.has_triples or (fewer_loglik is not None and _gains_clearly(patterns, best, fewer_loglik)):
        return []
    expect = partial(e_step, patterns)
    fits = [
        run_em(
            expect, start, **{**em_options, "max_iterations": SCREENING_ITERATIONS_RARE, "name": f"rare {number + 1}"}
        )
        for number, start in enumerate(make_rare_inits(patterns, best.mixture, rng))
    ]
    fits.sort(key=lambda fit: -fit.objective)
    continued = []
    for fit in fits[:NUM_CONTINUED]:
        longer = run_em(
            expect, fit.mixture, **{"max_iterations": MAX_ITERATIONS_RARE, **em_options, "name": fit.init_name}
        )
        continued.append(replace(longer, iterations=fit.iterations + longer.iterations))
    return continued


def _gains_clearly(patterns: RewardPatterns, best: EMFit, fewer_loglik: float) -> bool:
    """Return whether a fit is far more likely than one with a type less."""
    reward_counts = patterns.reward_counts
    # Free parameters of one more type: observed values beyond one for each visited state-action.
    num_parameters = np.count_nonzero(reward_counts) - np.count_nonzero(reward_counts.sum(axis=1))
    return bool(best.loglik - fewer_loglik > MIN_GAIN_PER_PARAMETER * num_parameters)


def make_rare_inits(patterns: RewardPatterns, mixture: Mixture, rng: np.random.Generator) -> list[Mixture]:
    """Make initial mixtures: the rarest type replaced, once for each of the most skewed directions."""
    rare = int(np.argmin(mixture.weights))
    other_types = np.delete(np.arange(mixture.num_types), rare)
    others = Mixture(mixture.weights[other_types] / mixture.weights[other_types].sum(), mixture.probs[other_types])
    sample = _take_sample(patterns)
    directions = _find_skewed_directions(sample, others, rng)
    inits = []
    for scores in directions:
        extreme_probs = _extreme_probs(sample, scores)
        probs, weights = mixture.probs.copy(), mixture.weights.copy()
        probs[rare] = extreme_probs
        weights[other_types], weights[rare] = others.weights * (1.0 - INIT_WEIGHT), INIT_WEIGHT
        inits.append(smooth_mixture(Mixture(weights, probs), patterns.marginal_probs))
    return inits


def _take_sample(patterns: RewardPatterns) -> RewardPatterns:
    """Take the first patterns; merged patterns lie in the order of a hash, so these are a fair sample."""
    count = min(
        patterns.counts.size,
        MAX_EPISODES_SEARCHED,
        max(int(np.searchsorted(patterns.offsets, MAX_SYMBOLS_SEARCHED)), 1),
    )
    end = int(patterns.offsets[count])
    return replace(
        patterns, symbols=patterns.symbols[:end], offsets=patterns.offsets[: count + 1], counts=patterns.counts[:count]
    )


def _find_skewed_directions(patterns: RewardPatterns, others: Mixture, rng: np.random.Generator) -> list[Floats]:
    """Find the most skewed directions; return the (P,) scores of all patterns along each."""
    types = np.argmax(type_posteriors(patterns, others), axis=1).astype(np.int64)
    probs = (1.0 - INIT_SMOOTHING) * others.probs + INIT_SMOOTHING / others.probs.shape[2]
    marginals = (others.weights[:, None, None] * probs).sum(axis=0)
    visits = patterns.reward_counts.sum(axis=1)
    # A few extra visits for every state-action: whitening by the bare counts would magnify the noise of rare ones.
    smoothed_visits = visits + visits.sum() / max(np.count_nonzero(visits), 1)
    count = min(NUM_DIRECTIONS, patterns.counts.size, max(int(MAX_ENTRIES / probs.size), 4))
    scores = np.zeros((patterns.counts.size, count))
    gradients = np.zeros((probs.shape[0], probs[0].size, count))
    for number, pattern in enumerate(rng.choice(patterns.counts.size, count, replace=False)):
        # Each power iteration starts from the symbols of one episode: in the right region if that episode is of the
        # rare type.
        symbols = patterns.symbols[patterns.offsets[pattern] : patterns.offsets[pattern + 1]]
        np.add.at(gradients[types[pattern], :, number], symbols, 1.0)
    for _ in range(POWER_ITERATIONS):
        gradient = gradients.reshape(*probs.shape, count)
        table = _direction_residuals(_whiten_directions(gradient, probs, marginals, smoothed_visits), probs)
        gradients[:] = 0.0
        _tensor_power_step(
            patterns.symbols,
            patterns.offsets,
            patterns.counts,
            types,
            table.reshape(gradients.shape),
            scores,
            gradients,
        )
    return _select_distinct_columns(scores, patterns.counts)


def _whiten_directions(gradients: Floats, probs: Floats, marginals: Floats, smoothed_visits: Floats) -> Floats:
    """Compute (X, Z, D) directions of length 1 from gradients by type (M, X, Z, D).

    Length is measured in the variance of rewards: marginals (X, Z) weighted by regularized visits (X,).
    """
    gradient = (gradients - probs[..., None] * gradients.sum(axis=2, keepdims=True)).sum(axis=0)
    metric = (smoothed_visits[:, None] * marginals)[..., None]
    direction = gradient / metric
    # A shift of all values of one x changes no residual, so it is projected out.
    direction -= (marginals[..., None] * direction).sum(axis=1, keepdims=True)
    length = np.sqrt((metric * direction**2).sum(axis=(0, 1)))
    return np.asarray(direction / np.maximum(length, 1e-300))


def _direction_residuals(direction: Floats, probs: Floats) -> Floats:
    """Compute (M, X, Z, D) residual scores: the direction at each symbol less its mean under the type."""
    return np.asarray(direction[None] - (probs[..., None] * direction[None]).sum(axis=2, keepdims=True))


def _select_distinct_columns(scores: Floats, counts: Floats) -> list[Floats]:
    """Select the columns that are most skewed and not highly correlated with each other."""
    norm = np.sqrt(np.maximum((counts[:, None] * scores**2).sum(axis=0), 1e-200))
    # The floor of 1e-200 on the squared size keeps size^3 representable, so an empty direction gets skewness 0.
    skewness = (counts[:, None] * scores**3).sum(axis=0) / norm**3
    selected: list[int] = []
    for k in np.argsort(-skewness, kind="stable"):
        similar = [
            (counts * scores[:, k] * scores[:, j]).sum() / (norm[k] * norm[j]) > MAX_CORRELATION for j in selected
        ]
        if not any(similar):
            selected.append(int(k))
        if len(selected) == MAX_INITS:
            break
    return [scores[:, k] for k in selected]


def _extreme_probs(patterns: RewardPatterns, scores: Floats) -> Floats:
    """Estimate (X, Z) reward probabilities of the patterns with the largest scores.

    Two rewards of the marginals are added at each x, so that no probability is 0.
    """
    order = np.argsort(-scores, kind="stable")
    count = int(np.searchsorted(np.cumsum(patterns.counts[order]), INIT_WEIGHT * patterns.num_episodes)) + 1
    is_extreme = np.zeros(scores.size, bool)
    is_extreme[order[:count]] = True
    sums = patterns.with_counts(np.where(is_extreme, patterns.counts, 0.0)).reward_counts
    return np.asarray((sums + 2.0 * patterns.marginal_probs) / (sums.sum(axis=1, keepdims=True) + 2.0))


@kernel
def _tensor_power_step(
    symbols: Any, offsets: Any, counts: Any, types: Any, table: Any, scores: Any, gradients: Any
) -> None:
    """Compute scores of all patterns along all directions and add the gradients of e3, in place."""
    num_directions = table.shape[2]
    first, second = np.empty(num_directions), np.empty(num_directions)
    for pattern in range(counts.size):
        first[:] = 0.0
        second[:] = 0.0
        row_table, pattern_gradients = table[types[pattern]], gradients[types[pattern]]
        for i in range(offsets[pattern], offsets[pattern + 1]):
            row = row_table[symbols[i]]
            for d in range(num_directions):
                first[d] += row[d]
                second[d] += row[d] * row[d]
        for d in range(num_directions):
            scores[pattern, d] = first[d]
            # From here on ``second`` is 2 e2 of all steps; without step i it is that less 2 row (first - row).
            second[d] = first[d] * first[d] - second[d]
        for i in range(offsets[pattern], offsets[pattern + 1]):
            row, gradient = row_table[symbols[i]], pattern_gradients[symbols[i]]
            for d in range(num_directions):
                gradient[d] += counts[pattern] * (second[d] - 2.0 * row[d] * (first[d] - row[d]))
