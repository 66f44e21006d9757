"""Collect the results of a run in one object from which its report is made.

The functions ``report_data_from_*`` convert results; ``report.summary`` makes the plain data of ``result.json``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.portable_math import exp_array, log
from rewardmix._core.short_repr import use_short_repr
from rewardmix._version import __version__
from rewardmix.environments import copy_names
from rewardmix.learning import Certificate, LearnResult, TrueModelComparison
from rewardmix.learning.certificate import compare_with_true_model
from rewardmix.model import RewardMixingMDP, set_type_names
from rewardmix.moments import Moments
from rewardmix.online import OnlineResult
from rewardmix.online.drift_detection import DriftAlarm
from rewardmix.planning import Plan, compare_with_baselines
from rewardmix.report.log_sections import make_log_sections
from rewardmix.statements import Statement

if TYPE_CHECKING:  # imported only if there is a log
    from rewardmix.logs import FitResult
    from rewardmix.recovery import RecoveryInfo


@use_short_repr
@dataclass(frozen=True, kw_only=True)
class ReportData:
    """Hold everything that the report of a run is made of.

    Attributes:
        title: Title of the report.
        model: Recovered model.
        plan: Plan made for ``model``.
        moments: Sufficient counts of the exploration episodes; ``None`` if there are none.
        num_refinement_episodes: Episodes of refinement; the pair counts of ``moments`` do not contain them.
        uncertainty: (number of episodes, V_0), in the order of time.
        reward_intervals: Lower and upper limits of the rewards, each shaped like ``model.rewards``.
        certificate: What was and was not proved; ``docs/reference/result-json.md`` describes its fields.
        comparison: ``{"evidence_key": "exact" | "played" | "planned", "rows": [{"name", "role", "value", "lower",
            "upper"}]}``. The role is "adaptive" for this policy, "markov" for the best Markov policy and "oracle" for
            the policy that knows the type.
        true_model: ``{"model", "value", "regret", "normalized_score"}`` where the true model is known.
        open_questions: Sentences, one for each question that the data cannot answer.
        command: Command that made this run.
        version: Version of rewardmix.
        seed: Seed of the run.
        online: For a run of ``learn_online``: ``{"total_reward", "policy_changes", "returns": [(episodes, reward per
            episode)], "optimal_value", "cumulative_regret", "type_weights": [(episodes, [weight of each type])]}``.
        statements: Statements about the run; the verdict is derived from them.
        warnings: Sentences that the report prints before anything else.
        sections: Further sections of the page: ``{"title", "paragraphs": [...], "columns": [...], "rows": [[...]]}``.
        metadata: Further data that ``result.json`` keeps.
    """

    title: str
    model: RewardMixingMDP
    plan: Plan
    moments: Moments | None = None
    num_refinement_episodes: int = 0
    uncertainty: Sequence[tuple[float, float]] = ()
    reward_intervals: tuple[ArrayLike, ArrayLike] | None = None
    certificate: Mapping[str, Any] = field(default_factory=dict)
    comparison: Mapping[str, Any] = field(default_factory=dict)
    true_model: Mapping[str, Any] = field(default_factory=dict)
    open_questions: Sequence[str] = ()
    command: str = ""
    version: str = __version__
    seed: int | None = None
    online: Mapping[str, Any] | None = None
    statements: Sequence[Statement] = ()
    warnings: Sequence[str] = ()
    sections: Sequence[Mapping[str, Any]] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


def set_report_type_names(data: ReportData, names: Sequence[str]) -> ReportData:
    """Return a copy in which the types of the model and of the plan's model have these names."""
    plan = dataclasses.replace(data.plan, model=set_type_names(data.plan.model, names))
    return dataclasses.replace(data, model=set_type_names(data.model, names), plan=plan)


def report_data_from_learn(
    result: LearnResult,
    *,
    title: str,
    true_model: RewardMixingMDP | None = None,
    command: str = "",
    settings: Mapping[str, Any] | None = None,
) -> ReportData:
    """Convert the result of ``learn`` to report data.

    Args:
        result: Result of ``learn``.
        title: Title of the report.
        true_model: True model, if it is known.
        command: Command that made this run.
        settings: Everything that is needed to repeat the run; ``"seed"`` is read from it.

    Returns:
        Report data with pair counts, intervals, certificate and comparison.
    """
    info = result.recovery.info
    return ReportData(
        title=title,
        model=result.model,
        plan=result.plan,
        moments=result.exploration.moments,
        # Refinement episodes are collected adaptively. They are counted apart, as the pair counts do not contain them.
        num_refinement_episodes=result.num_episodes - result.exploration.num_episodes,
        uncertainty=[(float(k), float(v)) for k, v in result.exploration.info.uncertainty_curve],
        reward_intervals=(info.lower, info.upper),
        certificate=_certificate_fields(result.certificate),
        comparison=make_comparison(result.certificate.true_model, result.plan),
        true_model=_true_model_fields(result.certificate.true_model, true_model),
        open_questions=[statement.text for statement in info.unidentified],
        command=command,
        seed=None if settings is None else settings.get("seed"),
        statements=result.certificate.statements,
        metadata={
            "settings": dict(settings or {}),
            "weights": result.model.weights.tolist(),
            "errors": _error_fields(info),
        },
    )


def report_data_from_plan(plan: Plan, *, title: str) -> ReportData:
    """Convert a plan to report data; all values are planned in its model."""
    return ReportData(title=title, model=plan.model, plan=plan, comparison=_compare_in_model(plan))


def report_data_from_fit(
    result: FitResult, *, title: str, command: str = "", settings: Mapping[str, Any] | None = None
) -> ReportData:
    """Convert the result of ``fit`` to report data.

    Args:
        result: Result of ``fit``.
        title: Title of the report.
        command: Command that made this run.
        settings: Everything that is needed to repeat the run; ``"seed"`` is read from it.

    Returns:
        Report data. The headline is the off-policy estimate if the log supports one, and the planned value otherwise.
    """
    info = result.info
    # An off-policy estimate without support (few sessions follow the policy) has no valid interval and is not shown.
    is_supported = info.off_policy is not None and info.off_policy.is_supported
    validation = _pick_attributes(info.off_policy if is_supported else None, *_INTERVAL_FIELDS)
    return ReportData(
        title=title,
        model=result.model,
        plan=result.plan,
        moments=info.moments,
        reward_intervals=(info.recovery.lower, info.recovery.upper),
        certificate={
            "bonus": "a log",
            "stop_reason": "the end of the log",
            "proved": [],
            # The sentence about identification is among the open questions; each sentence occurs once on the page.
            "unproved": [sentence for sentence in info.report_text if sentence != info.recovery.identification_text],
            "planned_value_bounds": [result.plan.lower, result.plan.upper],
            "validation": None if validation is None else {**validation, "evidence_key": "logged"},
            "bootstrap_regret": None
            if info.bootstrap is None
            else {"mean": info.bootstrap.regret, "upper": None, "planning_gap": info.bootstrap.gap},
        },
        comparison=_compare_in_model(result.plan),
        open_questions=[statement.text for statement in info.recovery.unidentified],
        command=command,
        seed=None if settings is None else settings.get("seed"),
        statements=info.statements,
        warnings=info.warnings,
        sections=make_log_sections(result),
        metadata={
            "settings": dict(settings or {}),
            "weights": result.model.weights.tolist(),
            "errors": _error_fields(info.recovery),
            "fit": _log_fields(result),
        },
    )


def _error_fields(info: RecoveryInfo) -> dict[str, Any]:
    """Return standard errors of rewards and weights; ``compare_runs`` reads them from ``result.json``."""
    return {"rewards": info.reward_errors, "weights": info.weight_errors}


NUM_CURVE_POINTS = 60
"""Number of points of the reward curve: means over stretches of episodes that grow geometrically."""

TRUE_MODEL_GAP = 1e-3
"""Gap of the optimal value's bracket, per step and unit of reward range."""

DRIFT_TEXT = (
    "Recent episodes contradict earlier ones. An agent that keeps all episodes adapts to a change slowly: set `window` "
    "to the number of episodes during which the environment stays the same."
)

ONLINE_UNKNOWN_TEXT = (
    "The agent maximizes reward and does not explore for its own sake. Actions that it abandoned early are estimated "
    "roughly, and the regret of its policy was not estimated."
)


def report_data_from_online(
    result: OnlineResult,
    *,
    title: str,
    env_or_model: Any = None,
    command: str = "",
    settings: Mapping[str, Any] | None = None,
) -> ReportData:
    """Convert the result of ``learn_online`` to report data, with the policy of the last episode.

    Args:
        result: Result of ``learn_online``.
        title: Name of the problem.
        env_or_model: What the agent played in. Its state and action names are used; a model also serves as the true
            model.
        command: Command that made this run.
        settings: Settings of the run.

    Returns:
        Report data with the reward curve and, if there were drift alarms, a section about them.
    """
    plan = result.plan
    plan = dataclasses.replace(plan, model=copy_names(plan.model, env_or_model))
    true_model = env_or_model if isinstance(env_or_model, RewardMixingMDP) else None
    # The tolerance scales with horizon and reward range, as the gap of a planner is absolute, in units of return.
    comparison = (
        None
        if true_model is None
        else compare_with_true_model(
            plan.policy, true_model, TRUE_MODEL_GAP * true_model.horizon * _reward_range(true_model)
        )
    )
    return ReportData(
        title=title,
        model=plan.model,
        plan=plan,
        moments=result.agent.moments(),
        comparison=make_comparison(comparison, plan),
        true_model=_true_model_fields(comparison, true_model),
        open_questions=[ONLINE_UNKNOWN_TEXT],
        command=command,
        seed=result.agent.seed,
        online=_online_fields(result),
        sections=_drift_sections(result, plan.model),
        metadata={"settings": dict(settings or {}), "weights": plan.model.weights.tolist()},
    )


def _drift_sections(result: OnlineResult, model: RewardMixingMDP) -> list[dict[str, Any]]:
    """Make the section about drift alarms; empty if there were none."""
    if not result.agent.alarms:
        return []
    rows = [
        [str(alarm.num_episodes), alarm.kind, _describe_alarm(alarm, model), f"{alarm.p_value:.2g}"]
        for alarm in result.agent.alarms
    ]
    columns = ["alarm after episode", "what changed", "largest change", "p-value"]
    return [{"title": "Drift alarms", "paragraphs": [DRIFT_TEXT], "columns": columns, "rows": rows}]


def _describe_alarm(alarm: DriftAlarm, model: RewardMixingMDP) -> str:
    """Describe what an alarm is about: the type weights, or a state and an action."""
    if alarm.kind == "types":
        return "the weights of the types"
    state, action = divmod(alarm.index, model.num_actions)
    return f"{model.state_labels[state]}, {model.action_labels[action]}"


def _reward_range(model: RewardMixingMDP) -> float:
    """Return the difference between the largest and the smallest reward value."""
    return float(model.reward_values[-1] - model.reward_values[0])


def _online_fields(result: OnlineResult) -> dict[str, Any]:
    """Return the reward curve, the regret and the estimated type weights over the episodes as plain data."""
    num_episodes = result.episode_returns.size
    # Edges are equally spaced in log(episodes), because the axis of the figure is logarithmic. Rounding repeats the
    # first edges; ``unique`` removes the repeats, so no stretch is empty and ``reduceat`` sums each of them once.
    edges = np.unique(np.rint(exp_array(np.linspace(0.0, log(float(num_episodes)), NUM_CURVE_POINTS))).astype(np.int64))
    edges = np.concatenate([[0], edges])
    means = np.add.reduceat(result.episode_returns, edges[:-1]) / np.diff(edges)
    weights = [] if result.type_weights is None else zip(result.policy_start_episodes, result.type_weights, strict=True)
    return {
        "total_reward": result.total_reward,
        "policy_changes": result.policy_start_episodes[1:].tolist(),
        "returns": [[int(k), float(mean)] for k, mean in zip(edges[1:], means, strict=True)],
        "optimal_value": result.optimal_value,
        "cumulative_regret": None if result.cumulative_regret is None else float(result.cumulative_regret[-1]),
        "type_weights": [[int(k), row.tolist()] for k, row in weights],
    }


def _true_model_fields(comparison: TrueModelComparison | None, true_model: RewardMixingMDP | None) -> dict[str, Any]:
    """Return the comparison with the true model as plain data; empty if it is not known."""
    fields = _pick_attributes(comparison, "regret", "regret_lower", "normalized_score", value="policy_value")
    return {} if fields is None else {"model": true_model, **fields}


def make_comparison(comparison: TrueModelComparison | None, plan: Plan) -> dict[str, Any]:
    """Compare this policy with the oracle, the optimum and the best Markov policy.

    Values are exact in the true model where it is known, otherwise planned in the recovered model.
    """
    if comparison is None:
        return _compare_in_model(plan)
    rows = [
        _row("oracle (knows the type)", "oracle", comparison.oracle),
        _row("optimal policy", "optimal", comparison.optimal_lower, comparison.optimal_lower, comparison.optimal_upper),
        _row("this policy", "adaptive", comparison.policy_value),
        _row("best Markov policy", "markov", comparison.markov_value),
    ]
    return {"evidence_key": "exact", "rows": rows}


def _compare_in_model(plan: Plan) -> dict[str, Any]:
    """Compare a plan with the oracle and the best Markov policy of its own model."""
    comparison = compare_with_baselines(plan)
    rows = [
        _row("oracle (knows the type)", "oracle", comparison.oracle),
        _row("this policy", "adaptive", comparison.optimal_lower, comparison.optimal_lower, comparison.optimal_upper),
        _row("best Markov policy", "markov", comparison.markov_value),
    ]
    return {"evidence_key": "planned", "rows": rows}


def _row(name: str, role: str, value: float, lower: float | None = None, upper: float | None = None) -> dict[str, Any]:
    """Return one row of the comparison as plain data."""
    return {"name": name, "role": role, "value": value, "lower": lower, "upper": upper}


_INTERVAL_FIELDS = ("value", "lower", "upper", "num_episodes")


def _pick_attributes(source: Any, *names: str, **attribute_by_key: str) -> dict[str, Any] | None:
    """Return attributes of an object as plain data, ``None`` for ``None``; keywords map other keys to attributes."""
    attributes = {name: name for name in names} | attribute_by_key
    return None if source is None else {key: getattr(source, name) for key, name in attributes.items()}


def _certificate_fields(certificate: Certificate) -> dict[str, Any]:
    """Return the certificate as plain data: texts, numbers, lists and objects only."""
    return {
        "bonus": certificate.bonus,
        "stop_reason": certificate.stop_reason,
        "proved": list(certificate.proved_statements),
        "unproved": list(certificate.unproved_statements),
        "statements": [
            {
                "key": statement.key,
                "status": statement.status,
                "premises": {premise.name: premise.is_met for premise in statement.premises},
                "numbers": dict(statement.numbers),
                "labels": dict(statement.labels),
                "text": statement.text,
            }
            for statement in certificate.statements
        ],
        "uncertainty": certificate.uncertainty,
        "uncertainty_target": certificate.uncertainty_target,
        "coverage": _pick_attributes(certificate.coverage, "num_observed", "num_missing", "num_impossible"),
        "radius_inflation": certificate.radius_inflation,
        "weights_source": certificate.weights_source,
        "statement_checks": dict(certificate.statement_checks),
        "planned_value_bounds": list(certificate.planned_value_bounds),
        "bootstrap_regret": _pick_attributes(certificate.bootstrap, "mean", "upper", planning_gap="gap"),
        "validation": _pick_attributes(certificate.validation, *_INTERVAL_FIELDS),
    }


def _log_fields(result: FitResult) -> dict[str, Any]:
    """Return everything that ``fit`` computed about the log as plain data."""
    info = result.info
    sections: dict[str, Any] = {
        "notes": info.read_report,
        "dropped": info.read_report.left_out,
        "coverage": info.coverage,
        "adaptivity": info.adaptivity,
        "support": info.support,
        "diagnostics": info.diagnostics,
        "held_out": info.held_out,
        "bootstrap": info.bootstrap,
        "off_policy": info.off_policy,
    }
    return {
        **{name: None if section is None else dataclasses.asdict(section) for name, section in sections.items()},
        "bic": {str(m): value for m, value in info.bic.items()},
        "type_selection": {str(m): dataclasses.asdict(score) for m, score in info.type_selection.scores.items()}
        if info.type_selection
        else None,
        "num_em_passes": info.num_em_passes,
        "loglik": info.recovery.loglik,
    }
