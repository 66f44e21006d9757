"""Fit a reward-mixing MDP to a log and plan in it (offline reinforcement learning).

    sufficient counts of all partitions  ->  confidence set, coverage and the initial values of EM
    maximum likelihood on a sample       ->  model; the whole log if it has at most ``MAX_EPISODES_IN_MEMORY`` episodes
    EM over all partitions               ->  model; continues from there, for longer logs only
    pessimistic planning                 ->  policy with certified bounds

The likelihood is valid for any behavior policy that does not depend on the hidden type given the observed history.
Moments are valid only for nonadaptive data (actions do not depend on rewards). So moments only initialize the fit, and
the likelihood determines it. Every quantity computed on a sample (held-out likelihood, bootstrap, off-policy estimate)
states the number of episodes used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.budget import (
    RESAMPLE_COST,
    check_budget,
    check_budget_episodes,
    check_budget_planning,
    check_budget_recovery,
)
from rewardmix._core.checks import as_count, as_number, as_seed, check_callback, quote_value, raise_input_error
from rewardmix.diagnostics import run_assumption_tests
from rewardmix.logs.adaptivity_test import count_reward_action_pairs, run_adaptivity_test
from rewardmix.logs.fit_result import FitInfo, FitResult
from rewardmix.logs.fit_validation import (
    BootstrapValue,
    HeldOutLikelihood,
    bootstrap_policy_value,
    evaluate_held_out,
    log_coverage,
)
from rewardmix.logs.log import CompactEpisodes, Log, load_partition
from rewardmix.logs.log_reader import to_log
from rewardmix.logs.log_schema import LogSchema
from rewardmix.logs.off_policy import OffPolicyEstimate
from rewardmix.logs.pessimism import DEFAULT_PESSIMISM, FittedLog, plan_pessimistically, policy_to_keep
from rewardmix.logs.schema_match import check_schema_match, read_options_from_model, to_model
from rewardmix.model import RewardMixingMDP, check_type_names
from rewardmix.planning import Plan, default_max_operations, plan
from rewardmix.recovery import RecoveryResult, confidence_set, maximum_likelihood
from rewardmix.recovery.bootstrap import model_to_mixture
from rewardmix.recovery.evidence import RecoveryData, RecoverySettings
from rewardmix.recovery.identification import make_recovery_result
from rewardmix.recovery.likelihood import Mixture, SufficientStatistics, e_step, run_em, single_type_mixture
from rewardmix.recovery.ml_recovery import check_weights
from rewardmix.recovery.model_selection import MAX_NUM_TYPES, TypeSelection, bic_scores, select_from_data
from rewardmix.recovery.recovery_result import Candidates, EpisodeSpec
from rewardmix.recovery.reward_patterns import merge_patterns, normalize_counts

MAX_EPISODES_IN_MEMORY = 200_000
"""Logs with at most this many episodes are fitted as a whole; EM on longer logs is initialized on a sample."""


PLANNING_COST_PER_STEP = 1e6
"""Lower bound of the planner's elementary operations per step of the horizon."""


@dataclass(frozen=True)
class FitProgress:
    """Progress of a fit, passed to ``callback``.

    Attributes:
        stage: "count", "initialize", "em", "plan", "diagnose" or "validate".
        done: partitions counted, E-steps taken or resamples finished.
        total: their total number, 0 if unknown.
    """

    stage: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, eq=False)
class FitSettings:
    """Validated arguments of ``fit``."""

    num_types: int | str
    weights: ArrayLike | str | None
    pseudocount: float
    seed: int
    max_types: int
    failure_prob: float
    epsilon: float
    held_out_fraction: float
    num_resamples: int
    gap: float
    pessimism: float
    init_model: RewardMixingMDP | None

    def __post_init__(self) -> None:
        as_count("max_types", self.max_types, min_value=2)
        if self.init_model is not None:
            num_types = self.init_model.num_types
            if not isinstance(self.num_types, int) or self.num_types != num_types:
                raise_input_error(
                    "num_types", quote_value(self.num_types), f"{num_types}, the number of types of init_model"
                )
        if not self.selects_num_types:
            check_weights(self.weights, as_count("num_types", self.num_types))
        _check_nonnegative("pseudocount", self.pseudocount)
        _check_nonnegative("held_out_fraction", self.held_out_fraction, below=1.0)
        as_seed("seed", self.seed)
        as_count("num_resamples", self.num_resamples, min_value=0)
        check_budget("num_resamples", operations=RESAMPLE_COST * self.num_resamples, remedy="fewer resamples")
        as_number("failure_prob", self.failure_prob, above=0.0, below=1.0)
        as_number("epsilon", self.epsilon, above=0.0)
        as_number("gap", self.gap, above=0.0)
        _check_nonnegative("pessimism", self.pessimism)

    @property
    def selects_num_types(self) -> bool:
        """Whether the number of types is selected from the data."""
        return isinstance(self.num_types, str) and self.num_types == "auto"

    @property
    def type_limit(self) -> int:
        """Largest number of types that the fit may use."""
        return int(self.max_types if self.selects_num_types else self.num_types)

    def make_recovery_settings(self, num_types: int, spec: EpisodeSpec) -> RecoverySettings:
        """Make the recovery settings for a given number of types, with the initial model if there is one."""
        recovery_settings = RecoverySettings(
            num_types, check_weights(self.weights, num_types), float(self.pseudocount), int(self.seed)
        )
        if self.init_model is None:
            return recovery_settings
        mixture = model_to_mixture(self.init_model, spec)
        return replace(recovery_settings, init_mixture=(mixture.weights, mixture.probs))


def fit(
    log: Any,
    *,
    num_types: int | str | None = None,
    weights: ArrayLike | str | None = None,
    init_model: Any = None,
    pseudocount: float = 1.0,
    seed: int = 0,
    executor: Any = None,
    max_types: int = MAX_NUM_TYPES,
    failure_prob: float = 0.05,
    epsilon: float = 0.1,
    held_out_fraction: float = 0.2,
    num_resamples: int = 8,
    gap: float = 1e-3,
    pessimism: float = DEFAULT_PESSIMISM,
    type_names: Sequence[str] = (),
    callback: Callable[[FitProgress], None] | None = None,
    **read_options: Any,
) -> FitResult:
    """Learn a model and a policy from logged sessions (offline reinforcement learning).

    The fit needs a behavior policy that does not use the hidden type; it may depend on the observed history. The plan
    is pessimistic: it lowers rewards by their standard errors and stays within the support of the log.

    Args:
        log: A ``Log``, or any source that ``read_log`` accepts.
        num_types: Number of types M, or ``"auto"`` for the number with the best held-out likelihood
            (``select_num_types``), which may be 1. ``None`` uses that of ``init_model``, or 2.
        weights: Probabilities (M,) of the types if known, or ``"uniform"``. ``None`` estimates them.
        init_model: Earlier model of the environment, or a result of ``fit`` or ``learn``. EM also starts there, the
            types keep their order, and the log is read with its names, sizes and reward values. If its policy
            took every action of a log with at most 500 episodes, the log is too small to improve on that policy, and
            ``fit`` keeps it.
        pseudocount: Additive smoothing towards the marginal reward probabilities, in visits per state-action and type.
        seed: Seed of random initial values, samples and resamples.
        executor: A ``concurrent.futures.Executor`` or a Dask client. ``None`` uses that of the log, or this process.
        max_types: Largest number of types that ``"auto"`` tries.
        failure_prob: Failure probability of the confidence set.
        epsilon: Accuracy epsilon of the confidence set.
        held_out_fraction: Fraction of episodes held out for the likelihood and the off-policy estimate; 0 skips both.
        num_resamples: Number of bootstrap resamples; 0 skips the bootstrap.
        gap: Largest difference between the certified bounds of the plan, in return per episode.
        pessimism: Number of standard errors by which the planner lowers rewards. If positive, the plan also stays
            within the actions that the log took in comparable situations, so that it should not be worse than the
            behavior policy; 0 trusts the model.
        type_names: Names of the types in their order. Left out, those of ``init_model``.
        callback: Called now and then with a ``FitProgress``.
        **read_options: Arguments of ``read_log``: horizon, columns, drop_invalid, ...

    Returns:
        Model, plan, and ``info`` with support, off-policy estimate, diagnostics and bootstrap intervals.

    Raises:
        InputError: If an argument or the log is invalid, or the log is too large for the memory limit.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> episodes = rm.simulate(rm.uniform_policy(model), model, 2000)
        >>> result = rm.fit(episodes, num_resamples=0, held_out_fraction=0.0)
        >>> result.model.num_types, round(result.plan.lower, 2)
        (2, 4.62)
    """
    check_callback("callback", callback)
    notify = callback or (lambda progress: None)
    model = None if init_model is None else to_model("init_model", init_model)
    types = num_types if num_types is not None else 2 if model is None else model.num_types
    check_type_names(type_names, types)
    others = failure_prob, epsilon, held_out_fraction, num_resamples, gap, pessimism
    # All arguments are validated before the log is read, which can take long.
    settings = FitSettings(types, weights, pseudocount, seed, max_types, *others, model)
    data = to_log(log, executor, read_options if model is None else read_options_from_model(model, log, read_options))
    # The log was read with the model's sizes and names; values that it declares itself can still differ.
    if model is not None:
        check_schema_match("init_model", model, data.schema)
    _check_budget(data, settings.type_limit, settings.num_resamples)
    moments = data.sum_int_over_partitions(lambda done, total: notify(FitProgress("count", done, total)))
    sizes = data.schema.num_state_actions, data.schema.num_values, settings.type_limit
    check_budget_recovery(*sizes, int(moments.pair_keys.size), 0)
    notify(FitProgress("initialize"))
    sample = data.sample(MAX_EPISODES_IN_MEMORY, settings.seed)
    conf_set = confidence_set(moments, failure_prob=settings.failure_prob, epsilon=settings.epsilon)
    patterns = merge_patterns(sample.reward_patterns(data.schema))
    evidence = RecoveryData(conf_set, moments, patterns, patterns)
    choice = _select_num_types(evidence, settings)
    number = int(settings.num_types) if choice is None else choice.num_types
    recovery_settings = settings.make_recovery_settings(number, data.schema)
    recovery, passes = _recover(data, evidence, len(sample), recovery_settings, notify)
    recovery = replace(recovery, model=_set_names(recovery.model, data.schema, settings.init_model))
    notify(FitProgress("plan"))
    # The plan that trusts the model gives the upper bound; the pessimistic plan is compared with it.
    trusting_plan = plan(recovery.model, gap=settings.gap, max_operations=default_max_operations(recovery.model))
    visits = moments.num_samples.reshape(data.schema.num_states, -1)
    # Support and pessimism use visits of the whole log, but beliefs and features only of the sample.
    propensities, episodes = sample.propensities(data.schema), sample.episodes(data.schema)
    given_policy = policy_to_keep(init_model, episodes, recovery.model) if settings.pessimism > 0 else None
    if given_policy is not None:
        propensities = np.ones(episodes.step_mask.shape)  # a given policy draws nothing
    fitted_log = FittedLog(episodes, recovery.model, recovery.info.reward_errors, visits, propensities, given_policy)
    plan_result, support, _ = plan_pessimistically(
        trusting_plan, fitted_log, float(settings.pessimism), settings.gap, settings.seed
    )
    test = run_adaptivity_test(data.sum_over_partitions(count_reward_action_pairs), data.schema)
    criterion = choice.bic if choice else _bic(sample, recovery.model, data.schema)
    notify(FitProgress("diagnose"))
    order = {"in_order": data.read_report.in_order}
    diagnostics = run_assumption_tests(fitted_log.episodes, model=recovery.model, seed=settings.seed, **order)
    validated = _validate(len(data), fitted_log, recovery, plan_result, settings, notify)
    checks = log_coverage(moments, data.schema), test, support, diagnostics, *validated
    info = FitInfo(data.read_report, data.schema, moments, recovery.info, choice, criterion, *checks, passes, ())
    fitted = FitResult(recovery.model, plan_result, replace(info, report_text=_make_sentences(info)))
    labels = type_names or (() if model is None else model.type_names)
    return fitted.with_type_names(labels) if labels else fitted


def _check_nonnegative(argument: str, value: object, below: float = float("inf")) -> None:
    number = as_number(argument, value, below=below)
    if number < 0:
        raise_input_error(argument, number, "a number of at least 0")


def _check_budget(data: Log, num_types: int, num_resamples: int) -> None:
    """Raise an error for a log that is too large to fit, from its sizes alone."""
    schema, used = data.schema, min(len(data), MAX_EPISODES_IN_MEMORY)
    steps = min(data.read_report.num_rows, used * schema.horizon)
    check_budget(
        "horizon", operations=PLANNING_COST_PER_STEP * schema.horizon, remedy="a horizon near the longest episode"
    )
    check_budget_episodes(used, schema.horizon)
    check_budget_recovery(schema.num_state_actions, schema.num_values, num_types, 0, steps)
    check_budget_planning(
        schema.num_states, schema.num_actions, schema.horizon, schema.num_values, num_types, schema.num_state_actions
    )
    cost_per_resample = (
        PLANNING_COST_PER_STEP * schema.horizon
        + 1e4 * num_types * schema.num_state_actions * schema.num_values
        + 1e3 * steps
    )
    check_budget("num_resamples", operations=num_resamples * cost_per_resample, remedy="fewer resamples")


def _select_num_types(evidence: RecoveryData, settings: FitSettings) -> TypeSelection | None:
    """Select the number of types if it was left open."""
    if not settings.selects_num_types:
        return None
    return select_from_data(
        evidence, settings.max_types, pseudocount=float(settings.pseudocount), seed=int(settings.seed)
    )


def compute_statistics(partition: Any, schema: LogSchema, mixture: Mixture) -> SufficientStatistics:
    """Compute the E-step on one partition of a log."""
    return e_step(load_partition(partition).reward_patterns(schema), mixture)


def _recover(
    data: Log, evidence: RecoveryData, sampled: int, settings: RecoverySettings, notify: Callable[[FitProgress], None]
) -> tuple[RecoveryResult, int]:
    """Fit by maximum likelihood on the sample, then continue EM over all partitions if the sample is not the whole log.

    Returns the fit and the number of E-steps over the whole log.
    """
    start = maximum_likelihood(evidence, settings)
    if sampled == len(data):
        return start, 0
    patterns = evidence.patterns
    assert patterns is not None
    steps = 0

    def expect(mixture: Mixture) -> SufficientStatistics:
        nonlocal steps
        steps += 1
        notify(FitProgress("em", steps))
        summed: SufficientStatistics = data.sum_over_partitions(compute_statistics, mixture)
        return summed

    # The smoothing target is computed once, from the expected reward counts of the whole log, so that it stays fixed
    # during EM and the penalized likelihood increases monotonically.
    mixture = model_to_mixture(start.model, data.schema)
    prior_mean = normalize_counts(expect(mixture).reward_counts.sum(axis=0))
    pseudocount = evidence.pseudocount(settings)
    em_fit = run_em(
        expect, mixture, prior_mean=prior_mean, pseudocount=pseudocount, weights=start.fixed_weights, name="sample"
    )
    # Standard errors are computed from the sample with counts scaled to the length of the whole log.
    scaled = replace(patterns, counts=patterns.counts * (len(data) / sampled))
    all_evidence = replace(evidence, patterns=scaled)
    reference = None if settings.init_mixture is None else settings.init_mixture[1]
    recovery = make_recovery_result(
        all_evidence,
        settings,
        Candidates("best", [em_fit], start.info.weights_source, scaled, reference_probs=reference),
    )
    return recovery, steps


def _set_names(model: RewardMixingMDP, schema: LogSchema, start: RewardMixingMDP | None) -> RewardMixingMDP:
    """Add the names of the log to the model, and its reward bins or those of the initial model."""
    end = ("end",) * (model.num_states - schema.num_states) if schema.state_names else ()
    scale = schema.reward_scale
    if scale.cuts is None and start is not None and np.isin(start.reward_values, model.reward_values).all():
        # Bins are kept over runs, so that models of successive logs have comparable rewards.
        scale = start.reward_scale  # episodes whose rewards are values of the initial model
    cuts = scale.with_values(model.reward_values).cuts
    return replace(model, state_names=(*schema.state_names, *end), action_names=schema.action_names, reward_cuts=cuts)


def _bic(sample: CompactEpisodes, model: RewardMixingMDP, schema: LogSchema) -> dict[int, float]:
    """Compute the BIC of one type and of the fitted number of types on the episodes of the sample."""
    patterns, mixture = sample.reward_patterns(schema), model_to_mixture(model, schema)
    return bic_scores(
        {
            single_type.num_types: e_step(patterns, single_type).loglik
            for single_type in (single_type_mixture(patterns), mixture)
        },
        patterns,
    )


def _validate(
    total: int,
    fitted_log: FittedLog,
    recovery: RecoveryResult,
    plan_result: Plan,
    settings: FitSettings,
    notify: Callable[[FitProgress], None],
) -> tuple[HeldOutLikelihood | None, BootstrapValue | None, OffPolicyEstimate | None]:
    """Evaluate the fit on held-out episodes and bootstrap resamples."""
    fraction, num_resamples, gap = settings.held_out_fraction, settings.num_resamples, settings.gap
    refit_settings = settings.make_recovery_settings(recovery.model.num_types, fitted_log.episodes)
    notify(FitProgress("validate", 0, num_resamples))
    likelihood, off_policy = (
        evaluate_held_out(fitted_log, recovery, refit_settings, fraction, gap, settings.pessimism)
        if fraction > 0
        else (None, None)
    )
    if not num_resamples:
        return likelihood, None, off_policy

    def report_done(number: int) -> None:
        notify(FitProgress("validate", number, num_resamples))

    return (
        likelihood,
        bootstrap_policy_value(
            fitted_log.episodes, recovery, plan_result.policy, refit_settings, num_resamples, gap, total, report_done
        ),
        off_policy,
    )


def _make_sentences(info: FitInfo) -> tuple[str, ...]:
    about_types = [statement.text for statement in info.num_types_statements]
    one_type = any(statement.key == "one type" for statement in info.num_types_statements)
    repairs = info.read_report.format_lines
    sentences = [*about_types, *repairs] if one_type else [*repairs, *about_types]
    sentences += [info.support.text, info.adaptivity.text, info.coverage.text]
    sentences += [test.text for test in info.diagnostics.rejected]
    held_out = info.held_out
    if held_out is not None and info.recovery.weight_errors.size > 1:
        sentences.append(
            f"On {held_out.num_episodes} held-out episodes, types increase the log-likelihood by "
            f"{held_out.loglik_gain:.4f} nats per episode (standard error {held_out.standard_error:.4f})."
        )
    if info.off_policy is not None:
        sentences.append(info.off_policy.text)
    if info.bootstrap is not None:
        sentences += [statement.text for statement in info.disagreement_statements]
        sentences.append(info.bootstrap.text)
    return (*sentences, info.recovery.identification_text) if info.recovery.identification_text else tuple(sentences)
