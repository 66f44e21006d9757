"""Validate a fit: coverage of the log, held-out episodes, and bootstrap resamples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rewardmix._core.random_streams import Role, make_generator
from rewardmix.bootstrap_regret import evaluate_regrets
from rewardmix.bounded_mean import student_quantile
from rewardmix.episodes import Episodes
from rewardmix.evaluation import controller_value
from rewardmix.logs.log_schema import LogSchema
from rewardmix.logs.off_policy import OffPolicyEstimate, estimate_off_policy
from rewardmix.logs.pessimism import FittedLog, plan_pessimistically
from rewardmix.moments import Moments
from rewardmix.planning import default_max_operations, plan
from rewardmix.policy import Controller
from rewardmix.recovery.bootstrap import iter_refits, model_to_mixture, refit_model
from rewardmix.recovery.evidence import RecoverySettings
from rewardmix.recovery.likelihood import Mixture, log_likelihoods
from rewardmix.recovery.recovery_result import RecoveryResult
from rewardmix.recovery.reward_patterns import patterns_from_episodes

MAX_LISTED_ACTIONS = 5
"""Largest number of untried actions that a sentence lists."""


@dataclass(frozen=True)
class LogCoverage:
    """States, actions and pairs that the log contains.

    Attributes:
        unvisited_states: states without visits.
        untried_actions: (state, action) without visits although the state was visited.
        num_observed_pairs: pairs of visited state-actions that occur together in an episode.
        num_missing_pairs: pairs of visited state-actions that do not.
        text: coverage as a sentence.
    """

    unvisited_states: tuple[int, ...]
    untried_actions: tuple[tuple[int, int], ...]
    num_observed_pairs: int
    num_missing_pairs: int
    text: str


def log_coverage(moments: Moments, schema: LogSchema) -> LogCoverage:
    """Compute the coverage from the sufficient counts."""
    is_visited = np.reshape(moments.num_samples > 0, (schema.num_states, schema.num_actions))
    visited = is_visited.any(axis=1)
    untried = [(int(s), int(a)) for s, a in np.argwhere(np.asarray(visited)[:, None] & ~is_visited)]
    first, second = moments.pairs
    observed = int((first != second).sum())
    num_visited = int(is_visited.sum())
    # Pairs of one state-action with itself are not counted in either number.
    missing = num_visited * (num_visited - 1) // 2 - observed
    unvisited = tuple(np.flatnonzero(~visited).tolist())
    return LogCoverage(
        unvisited, tuple(untried), observed, missing, _coverage_sentence(schema, unvisited, untried, observed, missing)
    )


def _coverage_sentence(
    schema: LogSchema, unvisited: tuple[int, ...], untried: list[tuple[int, int]], observed: int, missing: int
) -> str:
    clauses = []
    if unvisited:
        clauses.append(f"{len(unvisited)} of {schema.num_states} states were never visited")
    if untried:
        named = [f"{schema.action_label(a)} in state {schema.state_label(s)}" for s, a in untried[:MAX_LISTED_ACTIONS]]
        more = ", ..." if len(untried) > MAX_LISTED_ACTIONS else ""
        clauses.append(
            f"{len(untried)} actions were never taken in a visited state (action {', action '.join(named)}{more})"
        )
    clauses.append(f"{observed} pairs of state-actions occur together in an episode, {missing} do not")
    text = "; ".join(clauses)
    return text[0].upper() + text[1:] + "."


@dataclass(frozen=True)
class HeldOutLikelihood:
    """Log-likelihood of held-out episodes.

    Attributes:
        num_episodes: number of held-out episodes.
        loglik: mean log-likelihood of an episode under types fitted to the other episodes, in nats.
        single_type_loglik: mean log-likelihood under a single type fitted to the other episodes, in nats.
        standard_error: standard error of the difference.
    """

    num_episodes: int
    loglik: float
    single_type_loglik: float
    standard_error: float

    @property
    def loglik_gain(self) -> float:
        """Gain of several types over one, in nats per episode."""
        return self.loglik - self.single_type_loglik


@dataclass(frozen=True)
class BootstrapValue:
    """Bootstrap of a policy's value and regret.

    Attributes:
        num_resamples: number of resamples.
        value: value of the policy in the fitted model; optimistic, because the policy was optimized there.
        lower: lower end of the 95 % interval of the value (Student's t, because the spread comes from few resamples).
        upper: upper end of the interval.
        regret: mean regret of the policy against policies planned in the resampled models.
        gap: mean optimality gap of those policies, which the regret may lack.
        weights_lower: (M,) lower ends of the 95 % intervals of the weights; None if weights were given.
        weights_upper: (M,) upper ends; None if weights were given.
    """

    num_resamples: int
    value: float
    lower: float
    upper: float
    regret: float
    gap: float
    weights_lower: tuple[float, ...] | None
    weights_upper: tuple[float, ...] | None

    @property
    def text(self) -> str:
        """Value, interval and regret as a sentence."""
        if not self.num_resamples:
            return "No bootstrap resample: none of the episodes to draw from ended early."
        rival = "the policy planned for it" if self.num_resamples == 1 else "policies planned for them"
        regret = f"{self.regret:.4f} against {rival} (their optimality gap: {self.gap:.4f})"
        limits = "Resamples contain no state that the log never visited."
        # A standard deviation needs two resamples.
        if self.num_resamples == 1:
            return f"One resample gives no interval of the policy's value; use at least two. Regret: {regret}. {limits}"
        interval = f"{self.lower:.4f} .. {self.upper:.4f}"
        return f"Value of the policy in {self.num_resamples} resamples: {interval}, mean regret {regret}. {limits}"


MAX_RESAMPLE_EPISODES = 50_000
"""Largest number of episodes of a resample; for longer logs the spread is rescaled to their length."""


def evaluate_held_out(
    fitted_log: FittedLog,
    recovery: RecoveryResult,
    settings: RecoverySettings,
    fraction: float,
    gap: float,
    pessimism: float,
) -> tuple[HeldOutLikelihood | None, OffPolicyEstimate | None]:
    """Fit and plan without some episodes, and evaluate likelihood and policy on them.

    Returns (held-out likelihood, off-policy estimate); both None if either part is too small.
    """
    episodes = fitted_log.episodes
    mask = make_generator(settings.seed, Role.HELD_OUT).random(len(episodes)) < fraction
    if mask.sum() < 2 or (~mask).sum() < 2:
        return None, None
    training, held_out = episodes[~mask], episodes[mask]
    other_model = refit_model(
        training, recovery.model, weights=recovery.fixed_weights, pseudocount=settings.pseudocount_or_default
    )
    if other_model.num_states < recovery.model.num_states:  # no training episode ended early
        return None, None
    patterns = patterns_from_episodes(held_out)
    average = patterns_from_episodes(training).marginal_probs
    # Both likelihoods use the training episodes only, and the difference is paired by episode, which removes the
    # variance that episodes share.
    logliks = log_likelihoods(patterns, model_to_mixture(other_model, held_out))
    single_loglik = log_likelihoods(patterns, Mixture(np.ones(1), average[None]))
    error = float((logliks - single_loglik).std(ddof=1)) / math.sqrt(logliks.size)
    likelihood = HeldOutLikelihood(int(mask.sum()), float(logliks.mean()), float(single_loglik.mean()), error)
    other_plan = plan(other_model, gap=max(gap, 1e-3), max_operations=default_max_operations(other_model))
    other_log = FittedLog(training, other_model, fitted_log.reward_errors, fitted_log.visits, policy=fitted_log.policy)
    other_plan, support, behavior_policy = plan_pessimistically(
        other_plan, other_log, pessimism, max(gap, 1e-3), settings.seed
    )
    # Logged propensities are exact. Estimated ones come from the training episodes, whose sampling error is added.
    if fitted_log.propensities is not None:
        return likelihood, estimate_off_policy(
            other_plan, held_out, fitted_log.propensities[mask], off_support_fraction=support.off_support_fraction
        )
    propensities = behavior_policy.propensities(held_out, other_model)
    return likelihood, estimate_off_policy(
        other_plan,
        held_out,
        propensities,
        off_support_fraction=support.off_support_fraction,
        num_propensity_episodes=len(training),
    )


def bootstrap_policy_value(
    episodes: Episodes,
    recovery: RecoveryResult,
    policy: Controller,
    settings: RecoverySettings,
    num_resamples: int,
    gap: float,
    num_episodes: int,
    callback: Callable[[int], None],
) -> BootstrapValue:
    """Bootstrap value and regret of the policy, rescaled to the length of the whole log."""
    rng = make_generator(settings.seed, Role.LOG_RESAMPLES)
    size = min(len(episodes), MAX_RESAMPLE_EPISODES)
    models = iter_refits(episodes, recovery, rng, num_resamples, size=size, pseudocount=settings.pseudocount_or_default)
    results = evaluate_regrets(policy, models, num_resamples, gap=max(gap, 1e-3), callback=callback)
    model = recovery.model
    # A resample of a long log has fewer episodes than the log. Standard errors decrease as 1 / sqrt(episodes), so the
    # spread is multiplied by sqrt(size / total); regret is quadratic in the errors and is multiplied by the square.
    scale = math.sqrt(size / num_episodes)
    value = controller_value(policy, model)
    values, weights = [result.value for result in results], [result.weights for result in results]
    quantile = scale * (student_quantile(len(values), 0.05) if len(values) > 1 else float("inf"))
    value_radius = quantile * (float(np.std(values, ddof=1)) if len(values) > 1 else 1.0)
    weight_radius = quantile * (np.std(weights, axis=0, ddof=1) if len(weights) > 1 else model.weights)
    lower, upper = (tuple(np.clip(model.weights + sign * weight_radius, 0.0, 1.0).tolist()) for sign in (-1, 1))
    estimated = recovery.fixed_weights is None
    return BootstrapValue(
        len(values),
        value,
        value - value_radius,
        value + value_radius,
        float(np.mean([result.regret for result in results])) * scale**2 if results else float("nan"),
        float(np.mean([result.planning_gap for result in results])) if results else float("nan"),
        lower if estimated else None,
        upper if estimated else None,
    )
