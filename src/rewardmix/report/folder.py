"""The artefacts of a run, in one folder: what was learned, in files of its own, and the report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewardmix.io import save
from rewardmix.learning import Learned
from rewardmix.learning.facts import Fact
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import compare_plan
from rewardmix.report.files import write_report, write_result
from rewardmix.report.summary import summarise

FILES = ("model.safetensors", "policy.safetensors", "moments.safetensors", "result.json", "report.html")


def write_folder(
    folder: str | Path,
    learned: Learned,
    *,
    title: str,
    truth: RewardMixingMDP | None = None,
    command: str = "",
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the artefacts of ``learn`` and return the summary that ``result.json`` holds.

    Args:
        folder: made if it is not there.
        learned: what to write.
        title: of the report.
        truth: the true model, where it is known.
        command: that made this run.
        settings: everything that is needed to repeat it.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    save(target / "model.safetensors", learned.model)
    save(target / "policy.safetensors", learned.plan)
    save(target / "moments.safetensors", learned.exploration.moments)
    summary = summary_of(learned, title=title, truth=truth, command=command, settings=settings)
    write_result(target, summary)
    write_report(target, summary)
    return summary


def summary_of(
    learned: Learned,
    *,
    title: str,
    truth: RewardMixingMDP | None = None,
    command: str = "",
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A run of ``learn`` as plain data."""
    info = learned.recovery.info
    standing = learned.certificate.truth
    return summarise(
        title=title,
        model=learned.model,
        plan=learned.plan,
        moments=learned.exploration.moments,
        refined=learned.episodes - learned.exploration.episodes,
        uncertainty=[(float(k), float(v)) for k, v in learned.exploration.info.curve],
        intervals=(info.lower, info.upper),
        certificate=plain_certificate(learned),
        comparison=comparison_of(learned),
        truth=None
        if standing is None
        else {
            "model": truth,
            "value": standing.value,
            "regret": standing.regret,
            "regret_least": standing.least_regret,
            "share": standing.share,
        },
        unanswered=questions_of(info.not_identified),
        command=command,
        seed=None if settings is None else settings.get("seed"),
        record={"settings": dict(settings or {}), "weights": learned.model.weights.tolist()},
    )


def questions_of(sentence: str) -> list[str]:
    """What recovery could not identify, one sentence each; none where it says that everything is identified."""
    start, listed = "Not identified: ", sentence.rstrip(".")
    if not listed.startswith(start):
        return []
    return [f"{part[:1].upper()}{part[1:]}." for part in listed.removeprefix(start).split("; ")]


def plain_certificate(learned: Learned) -> dict[str, Any]:
    """The certificate with words and numbers only."""
    found = learned.certificate
    agreement = found.agreement
    return {
        "setting": found.setting,
        "stopped": found.stopped,
        "proved": list(found.proved),
        "not_proved": list(found.not_proved),
        "facts": [plain_fact(fact) for fact in found.facts],
        "uncertainty": found.uncertainty,
        "target": found.target,
        "coverage": {
            "seen": found.coverage.seen,
            "never": found.coverage.never_seen,
            "impossible": found.coverage.impossible,
        },
        "kappa": found.kappa,
        "kappa_weights": found.kappa_weights,
        "agreement": {
            "lp": agreement["program"],
            "parity": agreement["parities"],
            "likelihood": agreement["likelihood"],
        },
        "planned": list(found.planned),
        "bootstrap_regret": None
        if found.bootstrap is None
        else {"mean": found.bootstrap.mean, "upper": found.bootstrap.upper, "gap": found.bootstrap.gap},
        "validation": None
        if found.validation is None
        else {
            "value": found.validation.value,
            "lower": found.validation.lower,
            "upper": found.validation.upper,
            "episodes": found.validation.episodes,
        },
    }


def plain_fact(fact: Fact) -> dict[str, Any]:
    """A fact as plain data, with the sentence that is made from it."""
    return {
        "what": fact.what,
        "kind": fact.kind,
        "premises": {premise.name: premise.holds for premise in fact.premises},
        "numbers": dict(fact.numbers),
        "sentence": fact.sentence,
    }


def comparison_of(learned: Learned) -> dict[str, Any]:
    """This policy beside others: in the true model where it is known, otherwise as planned in the recovered one."""
    standing = learned.certificate.truth
    if standing is not None:
        return {
            "measured": "exact",
            "rows": [
                row("told the context (a bound)", "told", standing.told),
                row("best adaptive policy", "best", standing.best_lower, standing.best_lower, standing.best_upper),
                row("this policy", "adaptive", standing.value),
                row("best policy that does not adapt", "fixed", standing.markov),
            ],
        }
    found = compare_plan(learned.plan)
    return {
        "measured": "planned",
        "rows": [
            row("told the context (a bound)", "told", found.told),
            row("this policy", "adaptive", found.adaptive_lower, found.adaptive_lower, found.adaptive_upper),
            row("best policy that does not adapt", "fixed", found.markov),
        ],
    }


def row(name: str, role: str, value: float, lower: float | None = None, upper: float | None = None) -> dict[str, Any]:
    """One line of a comparison."""
    return {"name": name, "role": role, "value": value, "lower": lower, "upper": upper}
