"""Assess a fitted model: standard errors, certificate of its confidence set, and what is not identified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix.model import RewardMixingMDP
from rewardmix.recovery.confidence_set import ConfidenceSet
from rewardmix.recovery.evidence import RecoveryData, RecoverySettings
from rewardmix.recovery.likelihood import EMFit, Mixture, e_step, single_type_mixture
from rewardmix.recovery.linear_program import solve_magnitudes
from rewardmix.recovery.recovery_result import (
    Candidates,
    EMRun,
    Estimate,
    RecoveryCertificate,
    RecoveryInfo,
    RecoveryResult,
    build_model,
    summarize_runs,
    to_model_shape,
)
from rewardmix.recovery.signs import bipartite_sides, connected_components, solve_signs
from rewardmix.recovery.standard_errors import limits_95, standard_errors
from rewardmix.recovery.third_moments import estimate_third_moments
from rewardmix.statements import Statement


def _make_certificate(
    confidence_set: ConfidenceSet, model: RewardMixingMDP, candidates: Candidates
) -> RecoveryCertificate:
    """Check a model against its confidence set, and the set for consistency at the weights of the model."""
    violations = sum(int(mask.sum()) for *_, mask in confidence_set.iter_checks(model))
    contains_model, weights = violations == 0, candidates.weights_source
    if model.num_types != 2:
        groups = np.arange(confidence_set.marginals.size)
        return RecoveryCertificate(
            "not run", 1.0, weights, None, (), (), (), groups, contains_model, violations, float("nan")
        )
    program = candidates.magnitude_solution or solve_magnitudes(confidence_set, model.weights)
    signs = candidates.sign_solution or solve_signs(confidence_set)
    return RecoveryCertificate(
        program.status,
        program.radius_inflation,
        weights,
        program.contradiction,
        program.violated_pairs,
        signs.conflicts,
        signs.odd_cycle,
        signs.groups,
        contains_model,
        violations,
        _sign_agreement(confidence_set, model),
    )


def _sign_agreement(confidence_set: ConfidenceSet, model: RewardMixingMDP) -> float:
    """Compute the fraction of the pairs with known sign whose sign the model reproduces; NaN without such pairs."""
    has_sign = confidence_set.excludes_zero
    if not has_sign.any():
        return float("nan")
    covariance = next(values for family, _, values, *_ in confidence_set.iter_checks(model) if family == "covariance")
    return float((np.sign(covariance[has_sign]) == np.sign(confidence_set.center[has_sign])).mean())


def _measure_coverage(evidence: RecoveryData) -> dict[str, Any]:
    """Measure which state-actions and pairs the data cover: what no method can identify without them."""
    confidence_set = evidence.confidence_set
    size, width = confidence_set.num_points, confidence_set.width
    x, y = confidence_set.pair_first // width, confidence_set.pair_second // width
    visited = confidence_set.visited
    num_pairs = np.unique((x * size + y)[x != y]).size
    num_visited = int(visited.sum())
    is_paired = np.zeros(size, bool)
    is_paired[x] = is_paired[y] = True
    component = connected_components(x, y, size)
    is_unvisited = ~visited
    if evidence.patterns is not None:
        is_unvisited &= evidence.patterns.reward_counts.sum(axis=1) == 0  # adaptive episodes may have visited it
    return {
        "unvisited": np.flatnonzero(is_unvisited),
        "num_unobserved_pairs": num_visited * (num_visited - 1) // 2 - num_pairs,
        "unpaired": np.flatnonzero(visited & ~is_paired),
        "groups": tuple(tuple(np.flatnonzero(component == k).tolist()) for k in np.unique(component[is_paired])),
        "bipartite_points": np.flatnonzero((bipartite_sides(x, y, size) >= 0) & is_paired),
        "num_state_actions": size,
    }


def _unidentified_statements(
    coverage: dict[str, Any], candidates: Candidates, *, equal_weights: bool, correlated: bool
) -> Iterator[Statement]:
    """Yield statements about what is not identified.

    Args:
        coverage: Result of ``_measure_coverage``.
        candidates: Output of the method.
        equal_weights: Whether the weights are equal, so that unconnected groups can be combined either way.
        correlated: Whether any pair of rewards is correlated.

    Yields:
        Statements with status "open" or "assumed".
    """
    unvisited, groups, undecided = coverage["unvisited"].size, len(coverage["groups"]), candidates.num_undecided_groups
    if unvisited:
        yield Statement("never visited", "open", (), {"count": unvisited, "size": coverage["num_state_actions"]})
    if candidates.best.mixture.num_types == 1:  # a single type is always identified
        return
    if not groups:
        yield Statement("no pairs", "open")
    elif not correlated:
        yield Statement("not correlated", "open")
    elif not candidates.has_usable_pairs:
        yield Statement("no sign", "open")
    if coverage["unpaired"].size and groups:
        yield Statement("unpaired", "open", (), {"count": coverage["unpaired"].size})
    if groups > 1 and (equal_weights or undecided):
        yield Statement("groups", "open", (), {"count": groups if equal_weights else undecided})
    elif undecided:
        yield Statement("orientation", "open")
    if coverage["bipartite_points"].size:
        yield Statement("two sides", "open", (), {"count": coverage["bipartite_points"].size})
    if candidates.weights_source == "assumed equal":
        yield Statement("weights", "assumed")


CORRELATION_Z_SCORE = 4.5
"""A pair this many standard errors from 0, by both standard errors, shows that types differ."""


def make_estimate(evidence: RecoveryData, candidates: Candidates) -> Estimate:
    """Make an estimate from the best candidate: the model in canonical order."""
    model = _build_model(evidence.confidence_set, candidates.mixture(evidence.confidence_set.reward_values))
    fixed_weights = None if candidates.weights_source == "estimated" else model.weights
    return Estimate(model, fixed_weights, _summarize_em_runs(candidates), candidates.num_reproduced)


def make_recovery_result(evidence: RecoveryData, settings: RecoverySettings, candidates: Candidates) -> RecoveryResult:
    """Make a recovery result from the best candidate: the model in canonical order, with all of ``RecoveryInfo``."""
    confidence_set, best = evidence.confidence_set, candidates.best
    mixture = candidates.mixture(confidence_set.reward_values)
    model = _build_model(confidence_set, mixture)
    coverage = _measure_coverage(evidence)
    errors, weight_errors = _compute_errors(evidence, settings, mixture, candidates)
    errors[:, coverage["unvisited"]] = np.inf
    errors = to_model_shape(errors, confidence_set, model, 0.0)
    # Only with equal weights does exchanging the types within one group leave all observable moments unchanged.
    equal_weights = mixture.num_types > 1 and bool(np.ptp(mixture.weights) < 1e-9)
    info = RecoveryInfo(
        candidates.method,
        best.loglik,
        _summarize_em_runs(candidates),
        candidates.num_reproduced,
        _describe_convergence(best),
        candidates.weights_source,
        _make_certificate(confidence_set, model, candidates),
        coverage["unvisited"],
        coverage["num_unobserved_pairs"],
        coverage["groups"] if equal_weights or candidates.num_undecided_groups else (),
        coverage["bipartite_points"],
        _outlier_pairs(confidence_set, candidates),
        errors,
        *limits_95(model.rewards, errors),
        weight_errors,
        tuple(
            _unidentified_statements(
                coverage, candidates, equal_weights=equal_weights, correlated=_has_correlation(evidence, candidates)
            )
        ),
    )
    return RecoveryResult(model, info)


def _build_model(confidence_set: ConfidenceSet, mixture: Mixture) -> RewardMixingMDP:
    """Build the model of a mixture with the transitions of the confidence set."""
    return build_model(confidence_set, mixture, confidence_set.initial, confidence_set.transition)


def _summarize_em_runs(candidates: Candidates) -> tuple[EMRun, ...]:
    """Summarize the EM runs, if there were any."""
    return summarize_runs([fit for fit in candidates.fits if np.isfinite(fit.objective)])


def _has_correlation(evidence: RecoveryData, candidates: Candidates) -> bool:
    """Return whether data show that types differ: a clear pair or triple, or more likelihood than by chance."""
    confidence_set, patterns, best = evidence.confidence_set, candidates.patterns, candidates.best
    # An exact set has no sampling error: any covariance beyond rounding counts.
    if (confidence_set.standard_error == 0).all():
        return bool((np.abs(confidence_set.center) > 1e-12).any())
    # A rare event makes the standard error too small, an outlier the null one; the larger of both is robust to either.
    scale = np.maximum(confidence_set.standard_error, confidence_set.null_standard_error)
    if (np.abs(confidence_set.center) > CORRELATION_Z_SCORE * scale).any():
        return True
    if (
        evidence.moments is not None
        and (np.abs(estimate_third_moments(evidence.moments)[1]) > CORRELATION_Z_SCORE).any()
    ):
        return True
    if patterns is None or evidence.patterns is None or not np.isfinite(best.loglik):
        return False
    single_loglik = e_step(patterns, single_type_mixture(patterns)).loglik
    # Under one type twice the likelihood ratio is roughly chi-squared with ``extra`` degrees of freedom: mean
    # ``extra``, variance 2 ``extra``. Four standard deviations above the mean are required.
    extra = best.mixture.probs[1:, ..., 1:].size
    return bool(2.0 * (best.loglik - single_loglik) > extra + 4.0 * np.sqrt(2.0 * extra))


def _compute_errors(
    evidence: RecoveryData, settings: RecoverySettings, mixture: Mixture, candidates: Candidates
) -> tuple[Floats, Floats]:
    """Compute standard errors of reward probabilities and weights; infinite without a likelihood."""
    patterns = candidates.patterns
    if patterns is None or not patterns.counts.size:
        return np.full(mixture.probs.shape, np.inf), np.zeros(mixture.num_types)
    statistics = e_step(patterns, mixture)
    free_weights = candidates.weights_source == "estimated"
    prior_mean = evidence.prior_mean(patterns, settings)
    errors, weight_errors = standard_errors(
        patterns, mixture, statistics, prior_mean, evidence.pseudocount(settings), free_weights=free_weights
    )
    if evidence.patterns is None:  # pair tables count each visit many times
        samples = (
            np.maximum(evidence.moments.num_samples, 1)
            if evidence.moments is not None
            else np.ones(mixture.probs.shape[1])
        )
        # Composite likelihood counts each reward once per pair. Dividing the information by the number of uses per
        # visit restores the information of the visits.
        uses_per_visit = np.maximum(patterns.reward_counts.sum(axis=1) / samples, 1.0)
        errors = errors * np.sqrt(uses_per_visit)[None, :, None]
    return errors, weight_errors


def _describe_convergence(fit: EMFit) -> str:
    """Describe how EM ended, in one sentence."""
    if fit.iterations == 0:
        return "EM was not run"
    if fit.converged:
        return f"the objective stopped growing after {fit.iterations} E-steps"
    return f"stopped after {fit.iterations} E-steps while the objective still grew"


def _outlier_pairs(confidence_set: ConfidenceSet, candidates: Candidates) -> tuple[tuple[int, int], ...]:
    """List the outlier pairs (i, j)."""
    outliers = np.zeros(0, np.int64) if candidates.is_outlier is None else np.flatnonzero(candidates.is_outlier)
    return tuple((int(confidence_set.pair_first[k]), int(confidence_set.pair_second[k])) for k in outliers)
