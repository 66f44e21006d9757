"""What a run found, as one object that its report is made of: from ``learn``, ``fit``, ``earn``, or put together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.brevity import short
from rewardmix._core.portable import exps, log
from rewardmix._version import __version__
from rewardmix.environments import named_like
from rewardmix.facts import Fact
from rewardmix.learning import Learned, Truth
from rewardmix.learning.certificate import truth_of
from rewardmix.model import RewardMixingMDP, with_type_names
from rewardmix.moments import Moments
from rewardmix.online import Earned
from rewardmix.online.drift import Alarm
from rewardmix.planning import Plan, compare_plan
from rewardmix.report.log_sections import log_sections

if TYPE_CHECKING:  # only where there is a log
    from rewardmix.logs import Fitted
    from rewardmix.recovery import RecoveryInfo


@short
@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a run found: everything that its report is made of.

    Attributes:
        title: of the run.
        model: as recovered.
        plan: made for ``model``.
        moments: what exploration counted.
        refined: episodes of refinement, which no count of pairs holds.
        uncertainty: (episodes, V_0), in the order of time.
        intervals: lower and upper limits, each shaped like ``model.rewards``.
        certificate: what was and was not proved; its fields are in ``docs/report.md``.
        comparison: ``{"measured": "exact" | "played" | "planned", "rows": [{"name", "role", "value", "lower",
            "upper"}]}``; role "adaptive" is this policy, "fixed" the best that does not adapt, "told" the bound.
        truth: ``{"model", "value", "regret", "share"}`` where the true model is known.
        unanswered: sentences, one for each question that the data cannot answer.
        command: that made this run.
        version: of rewardmix.
        seed: of the run.
        earned: where it earned while it learned: ``{"total", "switches", "points": [(episodes, reward an episode)],
            "best", "regret", "shares": [(episodes, [share of each context])]}``.
        facts: about the run, for the verdict.
        warnings: what has to be said before anything else.
        sections: more for the page: ``{"title", "paragraphs": [...], "columns": [...], "rows": [[...]]}``.
        record: anything else that ``result.json`` should keep.
    """

    title: str
    model: RewardMixingMDP
    plan: Plan
    moments: Moments | None = None
    refined: int = 0
    uncertainty: Sequence[tuple[float, float]] = ()
    intervals: tuple[ArrayLike, ArrayLike] | None = None
    certificate: Mapping[str, Any] = field(default_factory=dict)
    comparison: Mapping[str, Any] = field(default_factory=dict)
    truth: Mapping[str, Any] = field(default_factory=dict)
    unanswered: Sequence[str] = ()
    command: str = ""
    version: str = __version__
    seed: int | None = None
    earned: Mapping[str, Any] | None = None
    facts: Sequence[Fact] = ()
    warnings: Sequence[str] = ()
    sections: Sequence[Mapping[str, Any]] = ()
    record: Mapping[str, Any] = field(default_factory=dict)


def with_names(found: Findings, names: Sequence[str]) -> Findings:
    """The same with names for the types."""
    plan = dataclasses.replace(found.plan, model=with_type_names(found.plan.model, names))
    return dataclasses.replace(found, model=with_type_names(found.model, names), plan=plan)


def learned_findings(
    learned: Learned,
    *,
    title: str,
    truth: RewardMixingMDP | None = None,
    command: str = "",
    settings: Mapping[str, Any] | None = None,
) -> Findings:
    """What ``learn`` found.

    Args:
        learned: what it gave.
        title: of the report.
        truth: the true model, where it is known.
        command: that made this run.
        settings: everything that is needed to repeat it.
    """
    info = learned.recovery.info
    return Findings(
        title=title,
        model=learned.model,
        plan=learned.plan,
        moments=learned.exploration.moments,
        refined=learned.episodes - learned.exploration.episodes,
        uncertainty=[(float(k), float(v)) for k, v in learned.exploration.info.curve],
        intervals=(info.lower, info.upper),
        certificate=_certificate(learned),
        comparison=comparison_of(learned.certificate.truth, learned.plan),
        truth=_standing(learned.certificate.truth, truth),
        unanswered=[fact.sentence for fact in info.unidentified],
        command=command,
        seed=None if settings is None else settings.get("seed"),
        facts=learned.certificate.facts,
        record={"settings": dict(settings or {}), "weights": learned.model.weights.tolist(), "errors": _errors(info)},
    )


def planned_findings(plan: Plan, *, title: str) -> Findings:
    """What ``plan`` found for a model."""
    return Findings(title=title, model=plan.model, plan=plan, comparison=_planned_comparison(plan))


def fitted_findings(
    fitted: Fitted, *, title: str, command: str = "", settings: Mapping[str, Any] | None = None
) -> Findings:
    """What ``fit`` found in a log; the arguments are those of ``learned_findings``."""
    info = fitted.info
    logged = info.off_policy is not None and info.off_policy.supported
    validation = _picked(info.off_policy if logged else None, *_INTERVAL)
    return Findings(
        title=title,
        model=fitted.model,
        plan=fitted.plan,
        moments=info.moments,
        intervals=(info.recovery.lower, info.recovery.upper),
        certificate={
            "setting": "a log",
            "stopped": "the end of the log",
            "proved": [],
            "not_proved": [sentence for sentence in info.sentences if sentence != info.recovery.not_identified],
            "planned": [fitted.plan.lower, fitted.plan.upper],
            "validation": None if validation is None else {**validation, "measured": "logged"},
            "bootstrap_regret": None
            if info.bootstrap is None
            else {"mean": info.bootstrap.regret, "upper": None, "gap": info.bootstrap.gap},
        },
        comparison=_planned_comparison(fitted.plan),
        unanswered=[fact.sentence for fact in info.recovery.unidentified],
        command=command,
        seed=None if settings is None else settings.get("seed"),
        facts=info.facts,
        warnings=info.warnings,
        sections=log_sections(fitted),
        record={
            "settings": dict(settings or {}),
            "weights": fitted.model.weights.tolist(),
            "errors": _errors(info.recovery),
            "fit": _log_record(fitted),
        },
    )


def _errors(info: RecoveryInfo) -> dict[str, Any]:
    """Standard errors of rewards and shares, for those who compare runs."""
    return {"rewards": info.errors, "weights": info.weight_errors}


EARNED_POINTS = 60
"""Points of the curve of rewards: means over stretches that grow with the episodes."""

EARNED_GAP = 1e-3
"""Of the bracket of the best policy, a step and reward range."""

CHANGED = (
    "Recent episodes contradicted those before. An agent that remembers everything learns a new world slowly: give it "
    "a memory of as many episodes as the world stays the same."
)

NOT_ASKED = (
    "An agent asks nothing that does not pay: what it gave up early it knows roughly, and how far its policy is from "
    "the best one it does not know."
)


def earned_findings(
    earned: Earned,
    *,
    title: str,
    world: Any = None,
    command: str = "",
    settings: Mapping[str, Any] | None = None,
) -> Findings:
    """What ``earn`` came to, with the policy of now.

    Args:
        earned: what it gave.
        title: name of the problem.
        world: the model or environment it was earned in; it lends its names, and a model is the truth.
        command: how this was made.
        settings: with what.
    """
    plan = earned.plan
    plan = dataclasses.replace(plan, model=named_like(plan.model, world))
    truth = world if isinstance(world, RewardMixingMDP) else None
    standing = None if truth is None else truth_of(plan.policy, truth, EARNED_GAP * truth.horizon * _reach(truth))
    return Findings(
        title=title,
        model=plan.model,
        plan=plan,
        moments=earned.agent.moments(),
        comparison=comparison_of(standing, plan),
        truth=_standing(standing, truth),
        unanswered=[NOT_ASKED],
        command=command,
        seed=earned.agent.seed,
        earned=_earned(earned),
        sections=_alarm_sections(earned, plan.model),
        record={"settings": dict(settings or {}), "weights": plan.model.weights.tolist()},
    )


def _alarm_sections(earned: Earned, model: RewardMixingMDP) -> list[dict[str, Any]]:
    """Where the recent past contradicted the rest, if it did."""
    if not earned.agent.alarms:
        return []
    rows = [
        [str(alarm.episodes), alarm.what, _place(alarm, model), f"{alarm.p_value:.2g}"] for alarm in earned.agent.alarms
    ]
    columns = ["noticed after episode", "what changed", "most in", "p"]
    return [{"title": "The world has changed", "paragraphs": [CHANGED], "columns": columns, "rows": rows}]


def _place(alarm: Alarm, model: RewardMixingMDP) -> str:
    """What an alarm is about, for people."""
    if alarm.what == "types":
        return "how frequent types are"
    state, action = divmod(alarm.place, model.num_actions)
    return f"{model.state_labels[state]}, {model.action_labels[action]}"


def _reach(model: RewardMixingMDP) -> float:
    return float(model.reward_values[-1] - model.reward_values[0])


def _earned(earned: Earned) -> dict[str, Any]:
    """What was collected over time, and by which beliefs."""
    number = earned.curve.size
    edges = np.unique(np.rint(exps(np.linspace(0.0, log(float(number)), EARNED_POINTS))).astype(np.int64))
    edges = np.concatenate([[0], edges])
    means = np.add.reduceat(earned.curve, edges[:-1]) / np.diff(edges)
    shares = [] if earned.shares is None else zip(earned.began, earned.shares, strict=True)
    return {
        "total": earned.total,
        "switches": earned.began[1:].tolist(),
        "points": [[int(k), float(mean)] for k, mean in zip(edges[1:], means, strict=True)],
        "best": earned.best,
        "regret": None if earned.regret is None else float(earned.regret[-1]),
        "shares": [[int(k), row.tolist()] for k, row in shares],
    }


def _standing(standing: Truth | None, world: RewardMixingMDP | None) -> dict[str, Any]:
    known = _picked(standing, value="value", regret="regret", regret_least="least_regret", share="share")
    return {} if known is None else {"model": world, **known}


def comparison_of(standing: Truth | None, plan: Plan) -> dict[str, Any]:
    """This policy beside others: in the true model where it is known, otherwise as planned in the recovered one."""
    if standing is None:
        return _planned_comparison(plan)
    rows = [
        _row("told the type (a bound)", "told", standing.told),
        _row("best adaptive policy", "best", standing.best_lower, standing.best_lower, standing.best_upper),
        _row("this policy", "adaptive", standing.value),
        _row("best policy that does not adapt", "fixed", standing.markov),
    ]
    return {"measured": "exact", "rows": rows}


def _planned_comparison(plan: Plan) -> dict[str, Any]:
    found = compare_plan(plan)
    rows = [
        _row("told the type (a bound)", "told", found.told),
        _row("this policy", "adaptive", found.adaptive_lower, found.adaptive_lower, found.adaptive_upper),
        _row("best policy that does not adapt", "fixed", found.markov),
    ]
    return {"measured": "planned", "rows": rows}


def _row(name: str, role: str, value: float, lower: float | None = None, upper: float | None = None) -> dict[str, Any]:
    return {"name": name, "role": role, "value": value, "lower": lower, "upper": upper}


_INTERVAL = ("value", "lower", "upper", "episodes")


def _picked(noun: Any, *names: str, **renamed: str) -> dict[str, Any] | None:
    """Some attributes of what there may be, as plain data; ``renamed``: key = attribute."""
    attributes = {name: name for name in names} | renamed
    return None if noun is None else {key: getattr(noun, name) for key, name in attributes.items()}


def _certificate(learned: Learned) -> dict[str, Any]:
    """The certificate with words and numbers only."""
    found = learned.certificate
    agreement = found.agreement
    return {
        "setting": found.setting,
        "stopped": found.stopped,
        "proved": list(found.proved),
        "not_proved": list(found.not_proved),
        "facts": [
            {
                "what": fact.what,
                "kind": fact.kind,
                "premises": {premise.name: premise.holds for premise in fact.premises},
                "numbers": dict(fact.numbers),
                "sentence": fact.sentence,
            }
            for fact in found.facts
        ],
        "uncertainty": found.uncertainty,
        "target": found.target,
        "coverage": _picked(found.coverage, "seen", never="never_seen", impossible="impossible"),
        "kappa": found.kappa,
        "kappa_weights": found.kappa_weights,
        "agreement": {
            "lp": agreement["program"],
            "parity": agreement["parities"],
            "likelihood": agreement["likelihood"],
        },
        "planned": list(found.planned),
        "bootstrap_regret": _picked(found.bootstrap, "mean", "upper", "gap"),
        "validation": _picked(found.validation, *_INTERVAL),
    }


def _log_record(fitted: Fitted) -> dict[str, Any]:
    """Everything that was found about the log, as plain data."""
    info = fitted.info
    parts = {
        name: getattr(info, name)
        for name in ("notes", "coverage", "logging", "support", "checkup", "held_out", "bootstrap", "off_policy")
    }
    plain = {name: None if part is None else dataclasses.asdict(part) for name, part in parts.items()}
    plain["left_out"] = dataclasses.asdict(info.notes.left_out)
    return {
        **plain,
        "criterion": {str(m): value for m, value in info.criterion.items()},
        "types": {str(m): dataclasses.asdict(trial) for m, trial in info.choice.trials.items()}
        if info.choice
        else None,
        "passes": info.passes,
        "loglik": info.recovery.loglik,
    }
