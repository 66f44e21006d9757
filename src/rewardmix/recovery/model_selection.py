"""Select the number of types by held-out log-likelihood.

The episodes are split at random into two halves. For each number M a mixture is fitted to one half and its
log-likelihood computed on the other, both ways round: two-fold cross-validation. M grows as long as the last type gains
more than 1/n nats per episode, n being the number of episodes. More than one type is claimed only if the gain over one
type is clear: more than ``CLEAR_GAIN`` / n nats and more than ``CLEAR_ERRORS`` standard errors. With rare rewards the
standard errors are too small, so the first condition is the safeguard.

The Bayesian information criterion (BIC) of these mixtures, fitted to all episodes, is reported beside it. It penalizes
every state-action of every type and selects too few types in large models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats, as_count, as_instance, as_number, as_seed, raise_input_error
from rewardmix._core.portable_math import log
from rewardmix._core.random_streams import Role, make_generator
from rewardmix._core.short_repr import use_short_repr
from rewardmix.episodes import Episodes
from rewardmix.recovery.evidence import RecoveryData, RecoverySettings, check_budget_data, make_recovery_data
from rewardmix.recovery.likelihood import EMFit, Mixture, e_step, log_likelihoods, run_em, single_type_mixture
from rewardmix.recovery.many_types import run_em_screened
from rewardmix.recovery.rare_type_init import make_rare_rng, run_em_rare
from rewardmix.recovery.reward_patterns import RewardPatterns
from rewardmix.statements import Statement

MAX_NUM_TYPES = 12
"""Default for the largest number of types that is fitted."""

CLEAR_GAIN, CLEAR_ERRORS = 3.0, 2.33
"""Total nats, and standard errors, beyond which a gain over one type is clear; chosen by ``benchmarks/types`` on logs
without types.
"""

MIN_TOTAL_GAIN = 1.0
"""Total nats that the last type has to gain over one type less."""

_EM_TOLERANCE = 1e-3
"""EM has converged when steps gain less than this in total: numbers of types differ by more."""

_NUM_FULL_RUNS = 2
"""Number of initial values that run to convergence, for each half."""


@dataclass(frozen=True)
class TypeCountScore:
    """Scores of one number of types.

    Attributes:
        held_out_loglik: Log-likelihood per episode of episodes that the mixture was not fitted to.
        loglik_gain: Gain of ``held_out_loglik`` over one type less; NaN for a single type.
        gain_error: Standard error of the gain.
        above_one: Gain over a single type; NaN for a single type.
        error_above_one: Standard error of ``above_one``.
        loglik: Log-likelihood of all episodes, fitted to all of them.
        num_parameters: Number of free parameters.
        bic: Bayesian information criterion: num_parameters * log(episodes) - 2 loglik.
    """

    held_out_loglik: float
    loglik_gain: float
    gain_error: float
    above_one: float
    error_above_one: float
    loglik: float
    num_parameters: int
    bic: float


@use_short_repr
@dataclass(frozen=True, eq=False)
class TypeSelection:
    """Selected number of types with the scores behind it.

    Attributes:
        num_types: Number of types that predicts best; 1, unless more types predict clearly better.
        scores: {M: its scores}, from one type to the first M that gains almost nothing.
        mixtures: {M: mixture fitted to all episodes}.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> episodes = rm.simulate(rm.uniform_policy(model), model, 200, seed=0)
        >>> selection = rm.select_num_types(episodes, max_types=2)
        >>> sorted(selection.scores), selection.bic[2] < selection.bic[1]
        ([1, 2], True)
    """

    num_types: int
    scores: dict[int, TypeCountScore]
    mixtures: dict[int, Mixture]

    @property
    def bic(self) -> dict[int, float]:
        """Bayesian information criterion by number of types."""
        return {num_types: score.bic for num_types, score in self.scores.items()}

    @property
    def statement(self) -> Statement:
        """Selection as a statement of the report."""
        if self.num_types == 1:
            return Statement("one type", "estimated")
        last = self.scores[self.num_types]
        numbers = {"types": self.num_types, "gain": last.above_one, "error": last.error_above_one}
        return Statement("types chosen", "estimated", (), {**numbers, "step": last.loglik_gain})

    @property
    def text(self) -> str:
        """Selection as a sentence."""
        return self.statement.text


def select_num_types(
    episodes: Episodes, max_types: int = MAX_NUM_TYPES, *, pseudocount: float = 1.0, seed: int = 0
) -> TypeSelection:
    """Select the number of types, from one to ``max_types``, that predicts held-out episodes best.

    Args:
        episodes: Whole episodes; at least one.
        max_types: Largest number of types that is fitted.
        pseudocount: Pseudocount of each state-action and type at the marginals, as in ``recover``.
        seed: Seed of the split and of the initial values.

    Returns:
        Selected number, with held-out log-likelihood, BIC and fitted mixture of every number.

    Raises:
        InputError: If there are no episodes, or an argument is out of range.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> episodes = rm.simulate(rm.uniform_policy(model), model, 200, seed=0)
        >>> rm.select_num_types(episodes, max_types=2).num_types
        2
    """
    largest = as_count("max_types", max_types)
    as_number("pseudocount", pseudocount, above=-1e-300)
    as_seed("seed", seed)
    check_budget_data(as_instance("episodes", episodes, Episodes), None, largest)
    if len(episodes) == 0:
        raise_input_error("episodes", "no episodes", "at least one")
    return select_from_data(make_recovery_data(episodes), largest, pseudocount=pseudocount, seed=seed)


def select_from_data(
    evidence: RecoveryData, max_types: int, *, pseudocount: float = 1.0, seed: int = 0
) -> TypeSelection:
    """Select the number of types from recovery data that hold reward patterns."""
    patterns = evidence.patterns
    assert patterns is not None
    halves = _split_in_half(patterns, seed)
    mixtures = {1: single_type_mixture(patterns)}
    single = [single_type_mixture(half) for half in halves]
    single_scores = previous = _score_held_out(single, halves)
    fewer_logliks = [e_step(*pair).loglik for pair in zip(halves, single, strict=True)]
    type_scores = {1: _make_score(mixtures[1], patterns, single_scores, None, None)}
    # An empty half cannot score anything; then a single type is all that is claimed.
    for num_types in range(2, max_types + 1 if all(half.num_episodes for half in halves) else 2):
        settings = RecoverySettings(num_types, None, pseudocount, seed)
        half_data = [replace(evidence, patterns=half, nonadaptive_patterns=half) for half in halves]
        fits = [_fit_half(data, settings, fewer) for data, fewer in zip(half_data, fewer_logliks, strict=True)]
        scores = _score_held_out([fit.mixture for fit in fits], halves)
        mixtures[num_types] = _fit_all(evidence, settings, fits)
        type_scores[num_types] = _make_score(mixtures[num_types], patterns, scores, previous, single_scores)
        if not keeps_type(type_scores[num_types], patterns.num_episodes):
            break
        previous, fewer_logliks = scores, [fit.loglik for fit in fits]
    return TypeSelection(count_types(type_scores, patterns.num_episodes), type_scores, mixtures)


def keeps_type(score: TypeCountScore, episodes: float) -> bool:
    """Return whether the last type gains more than ``MIN_TOTAL_GAIN`` nats in total."""
    return score.loglik_gain > MIN_TOTAL_GAIN / episodes


def is_clear(gain: float, error: float, episodes: float) -> bool:
    """Return whether a held-out gain over one type, in nats per episode, shows that there are more types."""
    return gain > max(CLEAR_GAIN / episodes, CLEAR_ERRORS * error)


def count_types(scores: Mapping[int, TypeCountScore], episodes: float) -> int:
    """Count the types: the largest number up to which every type gains that is clearly better than one type, else 1."""
    num_clear = 1
    for num_types in range(2, len(scores) + 1):
        score = scores[num_types]
        if not keeps_type(score, episodes):
            break
        if is_clear(score.above_one, score.error_above_one, episodes):
            num_clear = num_types
    return num_clear


def _split_in_half(patterns: RewardPatterns, seed: int) -> list[RewardPatterns]:
    """Split the episodes at random into two halves."""
    counts = patterns.counts.astype(np.int64)
    # One draw per episode, also within merged patterns: cumulative sums turn the draws into counts of each pattern.
    coins = make_generator(seed, Role.CROSS_FIT).integers(0, 2, size=int(counts.sum()))
    ends = np.cumsum(counts)
    heads = np.concatenate([[0], np.cumsum(coins)])
    first = (heads[ends] - heads[ends - counts]).astype(np.float64)
    return [patterns.with_counts(first), patterns.with_counts(counts - first)]


def _fit_half(evidence: RecoveryData, settings: RecoverySettings, fewer_loglik: float) -> EMFit:
    """Fit a mixture to one half by EM from several initial values; add rare-type initial values if it gains little."""
    patterns = evidence.patterns
    assert patterns is not None
    em_options: dict[str, Any] = {"tolerance": _EM_TOLERANCE / max(patterns.num_episodes, 1.0)}
    fits = run_em_screened(evidence, settings, num_full_runs=_NUM_FULL_RUNS, **em_options)
    em_options |= {"prior_mean": evidence.prior_mean(patterns, settings), "pseudocount": evidence.pseudocount(settings)}
    rng = make_rare_rng(settings.seed, settings.num_types)
    best = max(fits, key=lambda fit: fit.objective)
    return max([best, *run_em_rare(patterns, best, fewer_loglik, rng, **em_options)], key=lambda fit: fit.objective)


def _fit_all(evidence: RecoveryData, settings: RecoverySettings, fits: list[EMFit]) -> Mixture:
    """Fit a mixture to all episodes by EM, starting from the better fit of the two halves."""
    patterns = evidence.patterns
    assert patterns is not None
    start = max(fits, key=lambda fit: e_step(patterns, fit.mixture).loglik)
    return run_em(
        lambda mixture: e_step(patterns, mixture),
        start.mixture,
        prior_mean=evidence.prior_mean(patterns, settings),
        pseudocount=evidence.pseudocount(settings),
        tolerance=_EM_TOLERANCE / patterns.num_episodes,
    ).mixture


Scores = list[tuple[Floats, Floats]]
"""Of each half: (log-likelihood of each pattern, its count)."""


def _score_held_out(mixtures: list[Mixture], halves: list[RewardPatterns]) -> Scores:
    """Score each mixture on the other half."""
    return [
        (log_likelihoods(half, mixture), half.counts) for mixture, half in zip(mixtures, reversed(halves), strict=True)
    ]


def _make_score(
    mixture: Mixture, patterns: RewardPatterns, scores: Scores, previous: Scores | None, single: Scores | None
) -> TypeCountScore:
    """Make the scores of one number of types."""
    total = sum(float(counts.sum()) for _, counts in scores)
    held_out = sum(float((score * counts).sum()) for score, counts in scores) / total
    loglik = e_step(patterns, mixture).loglik
    (bic,) = bic_scores({mixture.num_types: loglik}, patterns).values()
    num_parameters = free_parameters(mixture.num_types, patterns)
    return TypeCountScore(held_out, *_gain(scores, previous), *_gain(scores, single), loglik, num_parameters, bic)


def _gain(scores: Scores, others: Scores | None) -> tuple[float, float]:
    """Compute the mean difference of two scores and its standard error; NaN without other scores."""
    if others is None:
        return math.nan, math.nan
    total = sum(float(counts.sum()) for _, counts in scores)
    differences = [(new - old, counts) for (new, counts), (old, _) in zip(scores, others, strict=True)]
    gain = sum(float((difference * counts).sum()) for difference, counts in differences) / total
    sum_of_squares = sum(float(((difference - gain) ** 2 * counts).sum()) for difference, counts in differences)
    return gain, math.sqrt(sum_of_squares) / total


def bic_scores(logliks: Mapping[int, float], patterns: RewardPatterns) -> dict[int, float]:
    """Compute {M: Bayesian information criterion} from the log-likelihoods of the patterns."""
    log_episodes = float(log(max(patterns.num_episodes, 2.0)))
    return {m: -2.0 * loglik + free_parameters(m, patterns) * log_episodes for m, loglik in logliks.items()}


def free_parameters(num_types: int, patterns: RewardPatterns) -> int:
    """Count the free parameters: weights, and reward probabilities where the patterns have visits."""
    visited = int((patterns.reward_counts.sum(axis=1) > 0).sum())
    return num_types * visited * (patterns.num_reward_values - 1) + num_types - 1
