"""What is known of a fitted model: standard errors, the certificate of its set, and what is not identified."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix.model import RewardMixingMDP
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.confidence_set import ConfidenceSet
from rewardmix.recovery.evidence import Evidence, Question
from rewardmix.recovery.likelihood import Fit, Mixture, e_step
from rewardmix.recovery.linear_program import Magnitudes, magnitudes
from rewardmix.recovery.recovery_result import (
    SAME,
    Ascent,
    Recovery,
    RecoveryCertificate,
    RecoveryInfo,
    assembled,
    canonical,
    on_model,
)
from rewardmix.recovery.signs import Parity, components, parities, two_sided
from rewardmix.recovery.standard_errors import limits_95, standard_errors


def certify(
    confidence: ConfidenceSet,
    model: RewardMixingMDP,
    program: Magnitudes | None = None,
    signs: Parity | None = None,
    *,
    weights: str,
) -> RecoveryCertificate:
    """Check a model against its confidence set, and the set against itself.

    ``weights``: whether those of the model are "known", "estimated" or "assumed equal". The program takes them as
    known.
    """
    outside = sum(int(mask.sum()) for *_, mask in confidence.checks(model))
    if model.num_contexts != 2:
        nothing = np.arange(confidence.average.size)
        return RecoveryCertificate(
            "not asked", 1.0, weights, None, (), (), (), nothing, outside == 0, outside, float("nan")
        )
    program = magnitudes(confidence, model.weights) if program is None else program
    signs = parities(confidence) if signs is None else signs
    return RecoveryCertificate(
        program.status,
        program.kappa,
        weights,
        program.contradiction,
        program.broken,
        signs.conflicts,
        signs.odd_cycle,
        signs.groups,
        outside == 0,
        outside,
        _signs_agree(confidence, model),
    )


def _signs_agree(confidence: ConfidenceSet, model: RewardMixingMDP) -> float:
    decided = confidence.excludes_zero
    if not decided.any():
        return float("nan")
    covariance = next(values for what, _, values, *_ in confidence.checks(model) if what == "covariance")
    return float((np.sign(covariance[decided]) == np.sign(confidence.centre[decided])).mean())


def coverage(confidence: ConfidenceSet) -> dict[str, Any]:
    """What the pairs that were seen cannot tell, whatever the method."""
    size, width = confidence.num_points, confidence.width
    x, y = confidence.first // width, confidence.second // width
    visited = np.isfinite(confidence.average.reshape(size, width)[:, 0])
    apart = np.unique((x * size + y)[x != y]).size
    count = int(visited.sum())
    paired = np.zeros(size, bool)
    paired[x] = paired[y] = True
    component = components(x, y, size)
    groups = tuple(
        tuple(int(i) for i in np.flatnonzero(component == number)) for number in np.unique(component[paired])
    )
    return {
        "never_visited": np.flatnonzero(~visited),
        "never_together": count * (count - 1) // 2 - apart,
        "alone": np.flatnonzero(visited & ~paired),
        "groups": groups,
        "two_sided": np.flatnonzero(two_sided(x, y, size) & paired),
    }


def sentence(
    found: dict[str, Any],
    *,
    weights: str,
    equal: bool,
    undecided: int,
    decided: bool,
    related: bool,
    contexts: int,
    size: int,
) -> str:
    """One plain sentence on what is not identified.

    Args:
        found: what ``coverage`` says.
        weights: "known", "estimated" or "assumed equal".
        equal: whether the weights are equal, so that groups that never meet can be combined either way.
        undecided: groups whose orientation triples did not decide, with weights that are not equal.
        decided: whether the method could use any pair.
        related: whether any pair of rewards is correlated at all.
        contexts: M.
        size: X.
    """
    parts = []
    if found["never_visited"].size:
        parts.append(
            f"{found['never_visited'].size} of {size} state-actions were never visited, so their rewards are set to "
            "the mean law of the others with an infinite interval and their moves to staying"
        )
    if not found["groups"]:
        parts.append("no episode has two rewards, so nothing is known about how contexts differ")
    elif not related:
        parts.append("no pair of rewards is correlated beyond chance, so the contexts may be identical")
    elif not decided:
        parts.append("no covariance interval excludes 0, so the contexts came out as good as equal")
    if found["alone"].size and found["groups"]:
        parts.append(
            f"{found['alone'].size} state-actions were never seen with another reward in one episode, so how contexts "
            "differ there is unknown"
        )
    if len(found["groups"]) > 1 and (equal or undecided):
        which = len(found["groups"]) if equal else undecided
        parts.append(
            f"{which} groups of state-actions never meet in an episode, so which of their contexts belong together is "
            "unknown (values do not depend on it as long as they never meet)"
        )
    elif undecided:
        parts.append("which way round the contexts go at these weights is not decided by the data")
    if found["two_sided"].size:
        parts.append(
            f"at {found['two_sided'].size} state-actions only products of differences across two sides that never meet "
            "within themselves are known, not each (values do not depend on it as long as they never meet)"
        )
    if weights == "assumed equal":
        parts.append("two rewards an episode say nothing about the weights of the contexts, so they are assumed equal")
    if not parts:
        return f"Everything is identified, up to the order of the {contexts} contexts."
    return "Not identified: " + "; ".join(parts) + "."


CORRELATED = 4.5
"""A pair this many deviations from 0, its own and those of independent rewards, shows that contexts differ."""


def finished(
    method: str,
    evidence: Evidence,
    question: Question,
    fits: list[Fit],
    *,
    bags: Bags | None,
    source: str,
    gross: Any = (),
    undecided: int = 0,
    decided: bool = True,
    program: Magnitudes | None = None,
    signs: Parity | None = None,
) -> Recovery:
    """The best fit as a model in canonical order, with everything that ``RecoveryInfo`` holds."""
    confidence = evidence.confidence
    chosen = max(fits, key=lambda fit: fit.objective) if len(fits) > 1 else fits[0]
    order = canonical(chosen.mixture.weights, chosen.mixture.laws, confidence.reward_values, source == "known")
    mixture = Mixture(chosen.mixture.weights[order], chosen.mixture.laws[order])
    errors, weight_errors = _errors(evidence, question, mixture, bags, source)
    unseen = np.isnan(confidence.average.reshape(confidence.num_points, -1)[:, 0])
    if evidence.bags is not None:
        unseen &= evidence.bags.occurrences.sum(axis=1) == 0  # episodes that follow rewards may have been there
    errors[:, unseen] = np.inf
    model = assembled(confidence, mixture)
    found = {**coverage(confidence), "never_visited": np.flatnonzero(unseen)}
    errors_shown = on_model(errors, confidence, model, 0.0)
    lower, upper = limits_95(model.rewards, errors_shown)
    equal = bool(np.ptp(mixture.weights) < 1e-9)
    text = sentence(
        found,
        weights=source,
        equal=equal,
        undecided=undecided,
        decided=decided,
        related=_related(evidence, bags, chosen),
        contexts=question.num_contexts,
        size=confidence.num_points,
    )
    info = RecoveryInfo(
        method,
        chosen.loglik,
        _summaries(fits),
        _reproduced(fits),
        _reason(chosen),
        source,
        certify(confidence, model, program, signs, weights=source),
        found["never_visited"],
        found["never_together"],
        found["groups"] if equal or undecided else (),
        found["two_sided"],
        _gross(evidence, gross),
        errors_shown,
        lower,
        upper,
        weight_errors,
        text,
    )
    return Recovery(model, info)


def _related(evidence: Evidence, bags: Bags | None, chosen: Fit) -> bool:
    """Whether anything shows that contexts differ: a clear pair, or more likelihood than chance would give."""
    confidence = evidence.confidence
    if (confidence.deviation == 0).all():
        return bool((np.abs(confidence.centre) > 1e-12).any())
    scale = np.maximum(confidence.deviation, confidence.null_deviation)
    if (np.abs(confidence.centre) > CORRELATED * scale).any():
        return True
    if bags is None or evidence.bags is None or not np.isfinite(chosen.loglik):
        return False
    alone = e_step(bags, Mixture(np.ones(1), bags.average[None])).loglik
    extra = chosen.mixture.laws[1:, ..., 1:].size
    return bool(2.0 * (chosen.loglik - alone) > extra + 4.0 * np.sqrt(2.0 * extra))


def _errors(
    evidence: Evidence, question: Question, mixture: Mixture, bags: Bags | None, source: str
) -> tuple[Floats, Floats]:
    if bags is None or not bags.counts.size:
        return np.full(mixture.laws.shape, np.inf), np.zeros(mixture.num_contexts)
    seen = e_step(bags, mixture)
    free = source == "estimated"
    centre = evidence.centre(bags)
    errors, weight_errors = standard_errors(bags, mixture, seen, centre, question.prior, free_weights=free)
    if evidence.bags is None:  # each visit is in many pairs: the tables know less than their counts say
        samples = (
            np.maximum(evidence.moments.samples, 1) if evidence.moments is not None else np.ones(mixture.laws.shape[1])
        )
        share = np.maximum(bags.occurrences.sum(axis=1) / samples, 1.0)
        errors = errors * np.sqrt(share)[None, :, None]
    return errors, weight_errors


def _summaries(fits: list[Fit]) -> tuple[Ascent, ...]:
    return tuple(
        Ascent(fit.start, fit.loglik, fit.objective, fit.iterations, fit.converged)
        for fit in fits
        if np.isfinite(fit.objective)
    )


def _reproduced(fits: list[Fit]) -> int:
    values = np.asarray([fit.objective for fit in fits])
    return int((values >= np.max(values) - SAME).sum()) if np.isfinite(values).all() else 0


def _reason(fit: Fit) -> str:
    if fit.iterations == 0:
        return "no likelihood was climbed"
    if fit.converged:
        return f"the objective stopped growing after {fit.iterations} E-steps"
    return f"stopped after {fit.iterations} E-steps while the objective still grew"


def _gross(evidence: Evidence, gross: Any) -> tuple[tuple[int, int], ...]:
    confidence = evidence.confidence
    chosen = np.flatnonzero(gross) if len(gross) else np.zeros(0, np.int64)
    return tuple((int(confidence.first[k]), int(confidence.second[k])) for k in chosen)
