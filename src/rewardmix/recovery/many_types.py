"""Fit more than two types by maximum likelihood.

Covariances of M types have rank M - 1, which leaves a rotation open: pairs alone do not identify the types. Whole
episodes do, and so do counts of triples; the composite likelihood of their tables is maximized where no episodes were
kept. Initial values: the leading M - 1 factors of the standardized covariances, scores of each episode along them, and
k-means of these scores; reward probabilities drawn at random; and the strongest triples, where they were counted
(``third_moments``). Many initial values run a few E-steps, the most promising ones to convergence.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, as_number, raise_input_error
from rewardmix._core.linear_algebra import product, solve, top_eigenpairs
from rewardmix._core.random_streams import Role, make_generator
from rewardmix.model import weighted_sum
from rewardmix.recovery.confidence_set import ConfidenceSet
from rewardmix.recovery.evidence import RecoveryData, RecoverySettings
from rewardmix.recovery.likelihood import EMFit, Mixture, e_step, run_em
from rewardmix.recovery.moment_init import random_mixture, smooth_mixture
from rewardmix.recovery.recovery_result import Candidates
from rewardmix.recovery.reward_patterns import RewardPatterns
from rewardmix.recovery.third_moments import make_triple_inits, patterns_from_triple_counts

_NUM_SPECTRAL_INITS, _NUM_RANDOM_INITS = 3, 17
"""Numbers of initial values from factors and at random that run a few E-steps."""

SCREENING_ITERATIONS, _NUM_FULL_RUNS = 40, 5
"""E-steps of the first run, and number of initial values that run to convergence."""

MAX_SCREENING_PATTERNS = 20_000
"""Largest number of patterns in the first runs; of more patterns a sample is used."""

_MAX_FILL_ROUNDS = 10
"""Largest number of rounds that fill unobserved covariances from the factors."""

_MAX_FILLED_ENTRIES = 4e6
"""Largest number of entries over all rounds: large tables get fewer rounds, at least two. EM corrects what is left."""


def fit_many_types(evidence: RecoveryData, settings: RecoverySettings) -> Candidates:
    """Fit any number of types by maximum likelihood on whole episodes, or on tables of triples."""
    patterns = evidence.patterns
    if patterns is None:
        moments = evidence.moments
        if moments is None or not moments.triple_keys.size:
            expected = "Episodes, or moments with triples: pairs of rewards do not identify more than two types"
            raise_input_error("data", "moments without episodes", expected)
        patterns = patterns_from_triple_counts(moments)
        evidence = replace(evidence, patterns=patterns, nonadaptive_patterns=patterns)
    fits = run_em_screened(evidence, settings)
    source = "estimated" if settings.weights is None else "known"
    return Candidates("maximum_likelihood", fits, source, patterns)


def run_em_screened(
    evidence: RecoveryData, settings: RecoverySettings, *, tolerance: float = 3e-11, num_full_runs: int = _NUM_FULL_RUNS
) -> list[EMFit]:
    """Run a few E-steps from every initial value, then the most promising ones to convergence; return these."""
    patterns = evidence.patterns
    assert patterns is not None
    pseudocount = as_number("pseudocount", evidence.pseudocount(settings), above=-1e-300)
    rng = make_generator(settings.seed, Role.TYPE_INITS, settings.num_types)
    sample = (
        patterns if patterns.counts.size <= MAX_SCREENING_PATTERNS else _take_first(patterns, MAX_SCREENING_PATTERNS)
    )
    if not evidence.confidence_set.pair_first.size:
        return [_identical_types(patterns, settings)]
    em_options: dict[str, Any] = {
        "prior_mean": evidence.prior_mean(patterns, settings),
        "pseudocount": pseudocount,
        "tolerance": tolerance,
    }
    em_options["weights"] = settings.weights
    screened = [
        run_em(partial(e_step, sample), mixture, max_iterations=SCREENING_ITERATIONS, name=name, **em_options)
        for name, mixture in _make_inits(evidence, settings, rng)
    ]
    promising = sorted(screened, key=lambda fit: -fit.objective)[:num_full_runs]
    return [run_em(partial(e_step, patterns), fit.mixture, name=fit.init_name, **em_options) for fit in promising]


def _take_first(patterns: RewardPatterns, count: int) -> RewardPatterns:
    """Take the first patterns; merged patterns lie in the order of a hash, so these are a fair sample."""
    end = int(patterns.offsets[count])
    return replace(
        patterns, symbols=patterns.symbols[:end], offsets=patterns.offsets[: count + 1], counts=patterns.counts[:count]
    )


def _identical_types(patterns: RewardPatterns, settings: RecoverySettings) -> EMFit:
    """Return identical types equal to the marginals: without pairs nothing distinguishes types."""
    weights = settings.weights
    if weights is None:
        weights = np.full(settings.num_types, 1.0 / settings.num_types)
    mixture = Mixture(weights, np.repeat(patterns.marginal_probs[None], settings.num_types, axis=0))
    loglik = e_step(patterns, mixture).loglik
    return EMFit(mixture, loglik, loglik, 1, True, "marginals")


def _make_inits(
    evidence: RecoveryData, settings: RecoverySettings, rng: np.random.Generator
) -> list[tuple[str, Mixture]]:
    """Make the named initial values."""
    patterns, num_types = evidence.patterns, settings.num_types
    assert patterns is not None
    equal_weights = np.full(num_types, 1.0 / num_types)
    loadings = fit_factors(evidence.confidence_set, num_types - 1)
    scores = episode_scores(
        _take_first(patterns, min(patterns.counts.size, MAX_SCREENING_PATTERNS)), evidence.confidence_set, loadings
    )
    inits = []
    for number in range(_NUM_SPECTRAL_INITS):
        cluster = kmeans(scores, patterns.counts[: scores.shape[0]], num_types, rng)
        inits.append((f"factors {number + 1}", _mixture_from_clusters(patterns, cluster, num_types)))
    is_paired = np.zeros(evidence.confidence_set.num_points, bool)
    is_paired[evidence.confidence_set.pair_first // evidence.confidence_set.width] = True
    is_paired[evidence.confidence_set.pair_second // evidence.confidence_set.width] = True
    for number in range(_NUM_RANDOM_INITS):
        inits.append((f"random {number + 1}", random_mixture(patterns.marginal_probs, equal_weights, is_paired, rng)))
    return inits if evidence.moments is None else inits + make_triple_inits(evidence.moments, num_types)


def fit_factors(confidence_set: ConfidenceSet, rank: int) -> Floats:
    """Fit (N, rank) loadings of the standardized covariances; unobserved entries are filled from the loadings."""
    marginals = np.nan_to_num(confidence_set.marginals, nan=0.5)
    # A reward that hardly varies would get an enormous standardized covariance from a tiny error.
    scale = np.sqrt(np.maximum(marginals * (1.0 - marginals), 1e-6))
    size = marginals.size
    matrix = np.full((size, size), np.nan)
    values = confidence_set.center / (scale[confidence_set.pair_first] * scale[confidence_set.pair_second])
    matrix[confidence_set.pair_first, confidence_set.pair_second] = matrix[
        confidence_set.pair_second, confidence_set.pair_first
    ] = values
    is_unobserved = np.isnan(matrix)
    filled = np.where(is_unobserved, 0.0, matrix)
    loadings = np.zeros((size, rank))
    rounds = int(min(_MAX_FILL_ROUNDS, max(2, _MAX_FILLED_ENTRIES / size**2))) if is_unobserved.any() else 1
    for _ in range(rounds):
        values, vectors = top_eigenpairs(filled, rank)
        loadings = np.zeros((size, rank))
        # A negative eigenvalue is noise and contributes a loading of almost 0.
        loadings[:, : min(rank, size)] = vectors * np.sqrt(np.maximum(values, 1e-12))
        filled = np.where(is_unobserved, product(loadings, loadings.T), filled)
    return loadings


def episode_scores(patterns: RewardPatterns, confidence_set: ConfidenceSet, loadings: Floats) -> Floats:
    """Compute (P, rank) scores of each pattern along the factors, by ridge regression of its standardized rewards."""
    marginals = np.nan_to_num(confidence_set.marginals, nan=0.5).reshape(confidence_set.num_points, -1)
    scale = np.sqrt(np.maximum(marginals * (1.0 - marginals), 1e-6))
    table = loadings.reshape(confidence_set.num_points, confidence_set.width, -1)
    indicator = np.array([[0.0], [1.0]]) if confidence_set.width == 1 else np.eye(confidence_set.width)
    standard = (indicator[None] - marginals[:, None]) / scale[:, None]  # (X, Z, width)
    coordinates = range(confidence_set.width)
    symbol_scores = weighted_sum(
        [standard[:, :, d, None] for d in coordinates],
        [table[:, None, d] * np.ones((1, len(indicator), 1)) for d in coordinates],
    ).reshape(-1, loadings.shape[1])
    gram = weighted_sum(
        np.ones(confidence_set.width), [table[:, d, :, None] * table[:, d, None, :] for d in coordinates]
    )
    begin = patterns.offsets[:-1]
    score_sums = np.add.reduceat(symbol_scores[patterns.symbols], begin, axis=0)
    # The identity is the prior precision of a standard normal score, so short episodes are shrunk to 0.
    precision = np.add.reduceat(gram[patterns.symbols // patterns.num_reward_values], begin, axis=0) + np.eye(
        loadings.shape[1]
    )
    return solve(precision, score_sums)


def kmeans(
    scores: Floats, counts: Floats, num_clusters: int, rng: np.random.Generator, rounds: int = 15
) -> NDArray[np.int64]:
    """Cluster scores by k-means with k-means++ initial centers, weighted by counts; return the (P,) cluster indices."""
    centers = scores[rng.choice(len(scores), 1, p=counts / counts.sum())]
    for _ in range(num_clusters - 1):
        # The next center is drawn with probability proportional to the squared distance to the nearest one.
        distance = ((scores[:, None] - centers[None]) ** 2).sum(axis=2).min(axis=1) * counts
        probs = distance / distance.sum() if distance.sum() > 0 else counts / counts.sum()
        centers = np.concatenate([centers, scores[rng.choice(len(scores), 1, p=probs)]])
    nearest = np.zeros(len(scores), np.int64)
    for _ in range(rounds):
        nearest = ((scores[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
        for m in range(num_clusters):
            in_cluster = nearest == m
            # An empty cluster keeps its center.
            if in_cluster.any():
                centers[m] = (scores[in_cluster] * counts[in_cluster, None]).sum(axis=0) / counts[in_cluster].sum()
    return nearest


def _mixture_from_clusters(patterns: RewardPatterns, cluster: NDArray[np.int64], num_types: int) -> Mixture:
    """Estimate a mixture as if each pattern came from its cluster with certainty, shrunk slightly to the marginals."""
    sample = _take_first(patterns, cluster.size)
    symbol_cluster = np.repeat(cluster, np.diff(sample.offsets))
    size = patterns.num_state_actions * patterns.num_reward_values
    repeated = np.repeat(sample.counts, np.diff(sample.offsets))
    sums = np.bincount(symbol_cluster * size + sample.symbols, weights=repeated, minlength=num_types * size)
    sums = sums.reshape(num_types, patterns.num_state_actions, patterns.num_reward_values)
    probs = (sums + 2.0 * patterns.marginal_probs) / (sums.sum(axis=2, keepdims=True) + 2.0)
    weights = np.bincount(cluster, weights=sample.counts, minlength=num_types) + 1.0
    return smooth_mixture(Mixture(weights / weights.sum(), probs), patterns.marginal_probs)
