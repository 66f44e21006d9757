"""From the climbs of a method to its answer: labels, standard errors, certificate, sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix.recovery import labels, likelihood
from rewardmix.recovery.certificate import certify, coverage, sentence
from rewardmix.recovery.evidence import Evidence
from rewardmix.recovery.intervals import interval, standard_errors
from rewardmix.recovery.likelihood import Fit, Mixture
from rewardmix.recovery.magnitudes import Magnitudes
from rewardmix.recovery.patterns import Patterns
from rewardmix.recovery.result import (
    SAME,
    Info,
    Question,
    Recovery,
    Start,
    assembled,
    on_model,
)
from rewardmix.recovery.signs import Parity

CORRELATED = 4.5
"""A pair this many deviations from 0, its own and those of independent rewards, shows that contexts differ."""


def finished(
    method: str,
    evidence: Evidence,
    question: Question,
    fits: list[Fit],
    *,
    bags: Patterns | None,
    source: str,
    gross: Any = (),
    undecided: int = 0,
    decided: bool = True,
    program: Magnitudes | None = None,
    signs: Parity | None = None,
) -> Recovery:
    """The best fit as a model in canonical order, with everything that ``Info`` holds."""
    confidence = evidence.confidence
    chosen = max(fits, key=lambda fit: fit.objective) if len(fits) > 1 else fits[0]
    order = labels.canonical(chosen.mixture.weights, chosen.mixture.laws, confidence.reward_values, source == "known")
    mixture = Mixture(chosen.mixture.weights[order], chosen.mixture.laws[order])
    errors, weight_errors = _errors(evidence, question, mixture, bags, source)
    unseen = np.isnan(confidence.average.reshape(confidence.num_points, -1)[:, 0])
    if evidence.bags is not None:
        unseen &= evidence.bags.occurrences.sum(axis=1) == 0  # episodes that follow rewards may have been there
    errors[:, unseen] = np.inf
    model = assembled(confidence, mixture)
    found = {**coverage(confidence), "never_visited": np.flatnonzero(unseen)}
    errors_shown = on_model(errors, confidence, model, 0.0)
    lower, upper = interval(model.rewards, errors_shown)
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
    info = Info(
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


def _related(evidence: Evidence, bags: Patterns | None, chosen: Fit) -> bool:
    """Whether anything shows that contexts differ: a clear pair, or more likelihood than chance would give."""
    confidence = evidence.confidence
    if (confidence.deviation == 0).all():
        return bool((np.abs(confidence.centre) > 1e-12).any())
    scale = np.maximum(confidence.deviation, confidence.null_deviation)
    if (np.abs(confidence.centre) > CORRELATED * scale).any():
        return True
    if bags is None or evidence.bags is None or not np.isfinite(chosen.loglik):
        return False
    alone = likelihood.statistics(bags, Mixture(np.ones(1), bags.average[None])).loglik
    extra = chosen.mixture.laws[1:, ..., 1:].size
    return bool(2.0 * (chosen.loglik - alone) > extra + 4.0 * np.sqrt(2.0 * extra))


def _errors(
    evidence: Evidence, question: Question, mixture: Mixture, bags: Patterns | None, source: str
) -> tuple[Floats, Floats]:
    if bags is None or not bags.counts.size:
        return np.full(mixture.laws.shape, np.inf), np.zeros(mixture.num_contexts)
    seen = likelihood.statistics(bags, mixture)
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


def _summaries(fits: list[Fit]) -> tuple[Start, ...]:
    return tuple(
        Start(fit.start, fit.loglik, fit.objective, fit.iterations, fit.converged)
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
