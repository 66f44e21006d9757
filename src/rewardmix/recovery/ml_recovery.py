"""Recover a model from data; ``maximum_likelihood`` is the recommended method.

1. Robust rank-one fit of the centered covariances, each component of the pair graph with its signs (``fit_rank_one``).
2. Weights in closed form where they are unknown, and the orientation of each component, from triples
   (``estimate_orientation``).
3. Maximum likelihood by EM on the episodes from that initial value, from both orientations of what triples leave open,
   and from random initial values; the best objective wins. With moments only, the composite likelihood of the pair
   tables without outlier pairs; with a confidence set alone, the robust fit itself.
4. Standard errors, and the check against the confidence set with Algorithm 3's certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import (
    Floats,
    as_count,
    as_floats,
    as_number,
    as_seed,
    check_probabilities,
    first_index,
    format_index,
    quote_value,
    raise_input_error,
)
from rewardmix._core.random_streams import Role, make_generator
from rewardmix.episodes import Episodes
from rewardmix.moments import Moments
from rewardmix.recovery.confidence_set import ConfidenceSet, RadiusRule, hoeffding_rule
from rewardmix.recovery.evidence import RecoveryData, RecoverySettings, check_budget_data, make_recovery_data
from rewardmix.recovery.identification import make_estimate, make_recovery_result
from rewardmix.recovery.likelihood import EMFit, Mixture, SufficientStatistics, e_step, make_unfitted, run_em
from rewardmix.recovery.many_types import fit_many_types
from rewardmix.recovery.moment_init import MomentInit, RankOneFit, make_inits, make_moment_init, mixture_from_loadings
from rewardmix.recovery.rare_type_init import fit_rare_types
from rewardmix.recovery.recovery_result import (
    SAME_OPTIMUM_TOLERANCE,
    Candidates,
    Estimate,
    RecoveryMethod,
    RecoveryResult,
)
from rewardmix.recovery.reward_patterns import RewardPatterns, fill_unvisited, patterns_from_pairs

MAX_SCREENING_ITERATIONS, NUM_CONTINUED_RUNS = 300, 3
"""E-steps of every EM run, and how many of the runs that need more continue."""


def maximum_likelihood(evidence: RecoveryData, settings: RecoverySettings) -> RecoveryResult:
    """Recover by maximum likelihood (EM), with standard errors and certificate: the default and recommended method.

    More than two types use ``fit_many_types``.
    """
    return make_recovery_result(evidence, settings, _fit_candidates(evidence, settings))


def estimate_model(evidence: RecoveryData, settings: RecoverySettings) -> Estimate:
    """Estimate the model of ``maximum_likelihood`` without standard errors and certificate, for refits."""
    return make_estimate(evidence, _fit_candidates(evidence, settings))


def _fit_candidates(evidence: RecoveryData, settings: RecoverySettings) -> Candidates:
    """Fit candidates (steps 1 to 3); an earlier model is one more initial value, and types keep its order."""
    if settings.num_types == 1:
        return _fit_single_type(evidence, settings)
    candidates = fit_many_types(evidence, settings) if settings.num_types > 2 else _fit_two_types(evidence, settings)
    candidates = _add_rare_types(evidence, settings, candidates)
    if settings.init_mixture is None or candidates.patterns is None:
        return candidates
    weights, probs = settings.init_mixture
    prior_mean = evidence.prior_mean(candidates.patterns, settings)
    warm = run_em(
        partial(e_step, candidates.patterns),
        Mixture(weights, 0.99 * probs + 0.01 * prior_mean),  # EM cannot leave the boundary
        prior_mean=prior_mean,
        pseudocount=evidence.pseudocount(settings),
        weights=None if candidates.weights_source == "estimated" else candidates.best.mixture.weights,
        name="earlier model",
    )
    return replace(candidates, fits=[warm, *candidates.fits], reference_probs=probs)


def _fit_single_type(evidence: RecoveryData, settings: RecoverySettings) -> Candidates:
    """Fit a single type: its reward probabilities are the marginals, shrunk to the prior mean."""
    patterns, weights = evidence.patterns, np.ones(1)
    if patterns is None or not patterns.counts.size:
        fit = make_unfitted(Mixture(weights, evidence.confidence_set.marginal_probs[None]), "marginals")
        return Candidates("maximum_likelihood", [fit], "known", patterns)
    prior_mean, pseudocount = evidence.prior_mean(patterns, settings), evidence.pseudocount(settings)
    start = Mixture(weights, patterns.marginal_probs[None])
    fit = run_em(
        partial(e_step, patterns),
        start,
        prior_mean=prior_mean,
        pseudocount=pseudocount,
        weights=weights,
        name="marginals",
    )
    return Candidates("maximum_likelihood", [fit], "known", patterns)


def _add_rare_types(evidence: RecoveryData, settings: RecoverySettings, candidates: Candidates) -> Candidates:
    """Add a fit whose rarest type was initialized again, if it is better."""
    if (
        candidates.patterns is None
        or candidates.patterns is not evidence.patterns
        or not np.isfinite(candidates.best.objective)
    ):
        return candidates
    weights = None if candidates.weights_source == "estimated" else candidates.best.mixture.weights
    fits = fit_rare_types(evidence, settings, candidates.best, weights)
    # Ties keep the earlier fit: below this difference two runs found one optimum.
    better = [fit for fit in fits if fit.objective > candidates.best.objective + SAME_OPTIMUM_TOLERANCE]
    return replace(candidates, fits=[*better, *candidates.fits]) if better else candidates


def _fit_two_types(evidence: RecoveryData, settings: RecoverySettings) -> Candidates:
    """Fit two types (steps 1 to 3)."""
    start, rng = _init_from_moments(evidence, settings)
    patterns = evidence.patterns if evidence.patterns is not None else _pair_patterns(evidence, start.fit)
    if patterns is None or not evidence.confidence_set.pair_first.size:
        return _candidates_without_em("maximum_likelihood", evidence, settings, start, patterns)
    source = _weights_source(evidence, settings)
    fits = run_em_from_all(
        partial(e_step, patterns),
        make_inits(start, settings, rng),
        prior_mean=evidence.prior_mean(patterns, settings),
        pseudocount=evidence.pseudocount(settings),
        weights=None if source == "estimated" else start.weights,
    )
    return Candidates(
        "maximum_likelihood", fits, source, patterns, start.fit.is_outlier, int(start.undecided_groups.size)
    )


def moment_estimate(evidence: RecoveryData, settings: RecoverySettings) -> RecoveryResult:
    """Recover by steps 1 and 2 of ``maximum_likelihood``, without EM: fast, and enough for a bare confidence set."""
    start, _ = _init_from_moments(evidence, settings)
    return make_recovery_result(
        evidence, settings, _candidates_without_em("moment_estimate", evidence, settings, start, None)
    )


def _init_from_moments(evidence: RecoveryData, settings: RecoverySettings) -> tuple[MomentInit, np.random.Generator]:
    """Make the initial value from moments, and the random stream of the other initial values."""
    rng = make_generator(settings.seed, Role.TWO_TYPE_INITS)
    return make_moment_init(evidence, settings, rng), rng


def _candidates_without_em(
    method: str, evidence: RecoveryData, settings: RecoverySettings, start: MomentInit, patterns: RewardPatterns | None
) -> Candidates:
    """Return the initial value from moments as the only candidate."""
    fit = make_unfitted(mixture_from_loadings(start.marginals, start.loadings, start.weights), "moments")
    source = _weights_source(evidence, settings)
    return Candidates(method, [fit], source, patterns, start.fit.is_outlier, int(start.undecided_groups.size))


def run_em_from_all(
    expect: Callable[[Mixture], SufficientStatistics],
    mixtures: list[tuple[str, Mixture]],
    *,
    prior_mean: Floats,
    pseudocount: float,
    weights: Floats | None,
) -> list[EMFit]:
    """Run EM from every named initial value; ``expect`` sums the statistics wherever the episodes are.

    Runs that have not converged after ``MAX_SCREENING_ITERATIONS`` E-steps are on a flat part of the likelihood; only
    the best of them continue.
    """
    em_options: dict[str, Any] = {"prior_mean": prior_mean, "pseudocount": pseudocount, "weights": weights}
    fits = [
        run_em(expect, mixture, name=name, max_iterations=MAX_SCREENING_ITERATIONS, **em_options)
        for name, mixture in mixtures
    ]
    order = sorted(range(len(fits)), key=lambda k: -fits[k].objective)
    for k in order[:NUM_CONTINUED_RUNS]:
        if not fits[k].converged:
            longer = run_em(expect, fits[k].mixture, name=fits[k].init_name, **em_options)
            fits[k] = replace(longer, iterations=fits[k].iterations + longer.iterations)
    return fits


def _pair_patterns(evidence: RecoveryData, fit: RankOneFit) -> RewardPatterns | None:
    """Make patterns of two symbols from the pair tables, without outlier pairs."""
    if evidence.moments is None:
        return None
    confidence_set, moments = evidence.confidence_set, evidence.moments
    width, points = confidence_set.width, confidence_set.num_points
    keys = confidence_set.pair_first // width * points + confidence_set.pair_second // width
    is_inlier = ~np.isin(moments.pair_keys, keys[fit.is_outlier])
    patterns = patterns_from_pairs(moments.pair_keys[is_inlier], moments.pair_tables[is_inlier], points)
    marginal_probs = fill_unvisited(moments.reward_frequencies, moments.num_samples > 0)
    patterns.__dict__["marginal_probs"] = marginal_probs  # marginals of first visits have more samples than pairs
    return patterns


def _weights_source(evidence: RecoveryData, settings: RecoverySettings) -> str:
    """Return where the weights come from: "known", "assumed equal" or "estimated"."""
    if settings.weights is not None:
        return "known"
    # Two rewards per episode determine the weights only together with the loadings; third-order data are needed.
    return "assumed equal" if evidence.patterns is None or not evidence.patterns.has_triples else "estimated"


def recover(
    data: ConfidenceSet | Moments | Episodes,
    *,
    adaptive_episodes: Episodes | None = None,
    moments: Moments | None = None,
    num_types: int = 2,
    weights: ArrayLike | None = None,
    pseudocount: float | None = None,
    method: RecoveryMethod = maximum_likelihood,
    seed: int = 0,
    failure_prob: float = 0.05,
    epsilon: float = 0.1,
    radius_rule: RadiusRule = hoeffding_rule,
) -> RecoveryResult:
    """Estimate reward probabilities and weights of the types.

    Args:
        data: Episodes, moments or a confidence set. Episodes carry most information: unknown weights, the orientation
            of unconnected groups and more than two types need them (or counts of triples).
        adaptive_episodes: Further episodes, whose actions depended on their rewards. They count in the likelihood and
            for the transitions. They are kept out of the confidence set, of triples, and of the prior mean wherever an
            episode of ``data`` went.
        moments: Moments of ``data``, if it is episodes and they were counted already.
        num_types: M; ``select_num_types`` estimates it.
        weights: (M,) weights if known; "uniform" for equal ones; None to estimate them.
        pseudocount: Pseudocount at the prior mean for each state-action and type; 0 is plain maximum likelihood. None
            means 1, or in a model of more than 256 state-actions the value that the data suggest
            (``recovery/hierarchical_prior.py``).
        method: ``maximum_likelihood``, ``algorithm_3``, ``spectral`` or ``sweep_weights(...)`` of
            ``rewardmix.recovery``, or a function with their arguments.
        seed: Seed of the random initial values.
        failure_prob: Failure probability of the confidence set, unless ``data`` is one.
        epsilon: PAC accuracy of the confidence set, unless ``data`` is one.
        radius_rule: Radius rule of the confidence set, unless ``data`` is one: ``hoeffding_rule`` or
            ``normal_rule(3.0)``.

    Returns:
        Model with standard errors, certificate and statements about what is not identified.

    Raises:
        InputError: If an argument is out of range or the data do not suffice.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> episodes = rm.simulate(rm.uniform_policy(model), model, 2000, seed=0)
        >>> result = rm.recover(episodes, num_types=2)
        >>> result.model.weights.round(1).tolist(), result.info.weights_source
        ([0.5, 0.5], 'estimated')
        >>> result.model.rewards[:, 2, 0].round(1).tolist()  # types differ most in state 2
        [0.9, 0.1]
    """
    count = as_count("num_types", num_types)
    if not callable(method):
        raise_input_error(
            "method",
            quote_value(method),
            "maximum_likelihood, algorithm_3, spectral or sweep_weights(...) of rewardmix.recovery",
        )
    if pseudocount is not None and not (isinstance(pseudocount, int | float) and pseudocount == 0):
        as_number("pseudocount", pseudocount, above=0.0)
    as_number("failure_prob", failure_prob, above=0.0, below=1.0)
    as_number("epsilon", epsilon, above=0.0)
    if not callable(radius_rule):
        raise_input_error(
            "radius_rule",
            quote_value(radius_rule),
            "hoeffding_rule or normal_rule(num_std) of rewardmix.recovery, or a function with their arguments",
        )
    check_budget_data(data, adaptive_episodes, count)
    pseudo = None if pseudocount is None else float(pseudocount)
    settings = RecoverySettings(count, check_weights(weights, count), pseudo, as_seed("seed", seed))
    evidence = make_recovery_data(
        data, adaptive_episodes, moments=moments, failure_prob=failure_prob, epsilon=epsilon, radius=radius_rule
    )
    return method(evidence, settings)


def check_weights(weights: Any, num_types: int) -> Floats | None:
    """Return known weights as a checked array; None if they are unknown."""
    if weights is None:
        return None
    if isinstance(weights, str):
        if weights != "uniform":
            raise_input_error("weights", repr(weights), '"uniform", an array of probabilities, or None')
        return np.full(num_types, 1.0 / num_types)
    array = as_floats("weights", weights, (num_types,))
    check_probabilities("weights", array, "types")
    if (array <= 0).any():
        raise_input_error(format_index("weights", first_index(array <= 0)), 0.0, "a positive weight")
    return array
