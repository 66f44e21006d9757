"""What is known of a fitted model: standard errors, the certificate of its set, and what is not identified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix.facts import Fact
from rewardmix.model import RewardMixingMDP
from rewardmix.recovery.confidence_set import ConfidenceSet
from rewardmix.recovery.evidence import Evidence, Question
from rewardmix.recovery.likelihood import Fit, Mixture, e_step, one_context
from rewardmix.recovery.linear_program import magnitudes
from rewardmix.recovery.recovery_result import (
    Ascent,
    Candidates,
    Estimate,
    Recovery,
    RecoveryCertificate,
    RecoveryInfo,
    assembled,
    on_model,
    summaries,
)
from rewardmix.recovery.signs import components, parities, sides
from rewardmix.recovery.standard_errors import limits_95, standard_errors
from rewardmix.recovery.third_order import third_moments


def _certificate(confidence: ConfidenceSet, model: RewardMixingMDP, candidates: Candidates) -> RecoveryCertificate:
    """Check a model against its confidence set, and the set against itself; the program takes weights as known."""
    outside = sum(int(mask.sum()) for *_, mask in confidence.checks(model))
    inside, weights = outside == 0, candidates.source
    if model.num_contexts != 2:
        nothing = np.arange(confidence.average.size)
        return RecoveryCertificate("not asked", 1.0, weights, None, (), (), (), nothing, inside, outside, float("nan"))
    program = candidates.program or magnitudes(confidence, model.weights)
    signs = candidates.signs or parities(confidence)
    return RecoveryCertificate(
        program.status,
        program.kappa,
        weights,
        program.contradiction,
        program.broken,
        signs.conflicts,
        signs.odd_cycle,
        signs.groups,
        inside,
        outside,
        _signs_agree(confidence, model),
    )


def _signs_agree(confidence: ConfidenceSet, model: RewardMixingMDP) -> float:
    decided = confidence.excludes_zero
    if not decided.any():
        return float("nan")
    covariance = next(values for what, _, values, *_ in confidence.checks(model) if what == "covariance")
    return float((np.sign(covariance[decided]) == np.sign(confidence.centre[decided])).mean())


def _coverage(evidence: Evidence) -> dict[str, Any]:
    """What the pairs that were seen cannot tell, whatever the method."""
    confidence = evidence.confidence
    size, width = confidence.num_points, confidence.width
    x, y = confidence.first // width, confidence.second // width
    visited = confidence.visited
    apart = np.unique((x * size + y)[x != y]).size
    count = int(visited.sum())
    paired = np.zeros(size, bool)
    paired[x] = paired[y] = True
    component = components(x, y, size)
    never = ~visited
    if evidence.bags is not None:
        never &= evidence.bags.occurrences.sum(axis=1) == 0  # episodes that follow rewards may have been there
    return {
        "never_visited": np.flatnonzero(never),
        "never_together": count * (count - 1) // 2 - apart,
        "alone": np.flatnonzero(visited & ~paired),
        "groups": tuple(tuple(np.flatnonzero(component == k).tolist()) for k in np.unique(component[paired])),
        "two_sided": np.flatnonzero((sides(x, y, size) >= 0) & paired),
        "size": size,
    }


def _unidentified(found: dict[str, Any], candidates: Candidates, *, equal: bool, related: bool) -> Iterator[Fact]:
    """What is not identified.

    Args:
        found: what ``_coverage`` says.
        candidates: what the method says.
        equal: whether the weights are equal, so that groups that never meet can be combined either way.
        related: whether any pair of rewards is correlated at all.
    """
    never, groups, undecided = found["never_visited"].size, len(found["groups"]), candidates.undecided
    if never:
        yield Fact("never visited", "open", (), {"count": never, "size": found["size"]})
    if candidates.best.mixture.num_contexts == 1:  # which has nothing to be told apart from
        return
    if not groups:
        yield Fact("no pairs", "open")
    elif not related:
        yield Fact("not correlated", "open")
    elif not candidates.decided:
        yield Fact("no sign", "open")
    if found["alone"].size and groups:
        yield Fact("alone", "open", (), {"count": found["alone"].size})
    if groups > 1 and (equal or undecided):
        yield Fact("groups", "open", (), {"count": groups if equal else undecided})
    elif undecided:
        yield Fact("orientation", "open")
    if found["two_sided"].size:
        yield Fact("two sides", "open", (), {"count": found["two_sided"].size})
    if candidates.source == "assumed equal":
        yield Fact("weights", "assumed")


CORRELATED = 4.5
"""A pair this many deviations from 0, its own and those of independent rewards, shows that contexts differ."""


def estimated(evidence: Evidence, candidates: Candidates) -> Estimate:
    """The best candidate as a model in canonical order, and no more."""
    model = _model(evidence.confidence, candidates.mixture(evidence.confidence.reward_values))
    fixed = None if candidates.source == "estimated" else model.weights
    return Estimate(model, fixed, _ascents(candidates), candidates.reproduced)


def finished(evidence: Evidence, question: Question, candidates: Candidates) -> Recovery:
    """The best candidate as a model in canonical order, with everything that ``RecoveryInfo`` holds."""
    confidence, chosen = evidence.confidence, candidates.best
    mixture = candidates.mixture(confidence.reward_values)
    model = _model(confidence, mixture)
    found = _coverage(evidence)
    errors, weight_errors = _errors(evidence, question, mixture, candidates)
    errors[:, found["never_visited"]] = np.inf
    errors = on_model(errors, confidence, model, 0.0)
    equal = mixture.num_contexts > 1 and bool(np.ptp(mixture.weights) < 1e-9)
    info = RecoveryInfo(
        candidates.method,
        chosen.loglik,
        _ascents(candidates),
        candidates.reproduced,
        _reason(chosen),
        candidates.source,
        _certificate(confidence, model, candidates),
        found["never_visited"],
        found["never_together"],
        found["groups"] if equal or candidates.undecided else (),
        found["two_sided"],
        _gross(confidence, candidates),
        errors,
        *limits_95(model.rewards, errors),
        weight_errors,
        tuple(_unidentified(found, candidates, equal=equal, related=_related(evidence, candidates))),
    )
    return Recovery(model, info)


def _model(confidence: ConfidenceSet, mixture: Mixture) -> RewardMixingMDP:
    return assembled(confidence, mixture, confidence.initial, confidence.transition)


def _ascents(candidates: Candidates) -> tuple[Ascent, ...]:
    """How the ascents ended, if there were any."""
    return summaries([fit for fit in candidates.fits if np.isfinite(fit.objective)])


def _related(evidence: Evidence, candidates: Candidates) -> bool:
    """Whether anything shows that contexts differ: a clear pair or triple, or more likelihood than by chance."""
    confidence, bags, chosen = evidence.confidence, candidates.bags, candidates.best
    if (confidence.deviation == 0).all():
        return bool((np.abs(confidence.centre) > 1e-12).any())
    scale = np.maximum(confidence.deviation, confidence.null_deviation)
    if (np.abs(confidence.centre) > CORRELATED * scale).any():
        return True
    if evidence.moments is not None and (np.abs(third_moments(evidence.moments)[1]) > CORRELATED).any():
        return True
    if bags is None or evidence.bags is None or not np.isfinite(chosen.loglik):
        return False
    alone = e_step(bags, one_context(bags)).loglik
    extra = chosen.mixture.laws[1:, ..., 1:].size
    return bool(2.0 * (chosen.loglik - alone) > extra + 4.0 * np.sqrt(2.0 * extra))


def _errors(evidence: Evidence, question: Question, mixture: Mixture, candidates: Candidates) -> tuple[Floats, Floats]:
    """Standard errors of laws and weights, infinite where there is no likelihood."""
    bags = candidates.bags
    if bags is None or not bags.counts.size:
        return np.full(mixture.laws.shape, np.inf), np.zeros(mixture.num_contexts)
    seen = e_step(bags, mixture)
    free = candidates.source == "estimated"
    centre = evidence.centre(bags, question)
    errors, weight_errors = standard_errors(bags, mixture, seen, centre, evidence.strength(question), free_weights=free)
    if evidence.bags is None:  # each visit is in many pairs: the tables know less than their counts say
        samples = (
            np.maximum(evidence.moments.samples, 1) if evidence.moments is not None else np.ones(mixture.laws.shape[1])
        )
        share = np.maximum(bags.occurrences.sum(axis=1) / samples, 1.0)
        errors = errors * np.sqrt(share)[None, :, None]
    return errors, weight_errors


def _reason(fit: Fit) -> str:
    if fit.iterations == 0:
        return "no likelihood was climbed"
    if fit.converged:
        return f"the objective stopped growing after {fit.iterations} E-steps"
    return f"stopped after {fit.iterations} E-steps while the objective still grew"


def _gross(confidence: ConfidenceSet, candidates: Candidates) -> tuple[tuple[int, int], ...]:
    chosen = np.zeros(0, np.int64) if candidates.gross is None else np.flatnonzero(candidates.gross)
    return tuple((int(confidence.first[k]), int(confidence.second[k])) for k in chosen)
