"""``best``: the estimate that the data allow, for two contexts.

1. robust rank-one fit of the centred covariances, each component of the pair graph with its signs (``rank_one``);
2. weights in closed form where they are unknown, and the orientation of each component, from triples (``weights``);
3. maximum likelihood by EM on the episodes, from that start, from both orientations of what triples do not decide, and
   from random starts; the best objective wins. With moments only, the composite likelihood of the pair tables, without
   the pairs that the robust fit disbelieves; with a bare confidence set, the robust fit itself;
4. standard errors, and the check against the confidence set and Algorithm 3's certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.limits import afford
from rewardmix._core.streams import Role, generator
from rewardmix.recovery import likelihood, starts
from rewardmix.recovery.certificate import groups_of_points
from rewardmix.recovery.contexts import many
from rewardmix.recovery.evidence import Evidence
from rewardmix.recovery.finish import finished
from rewardmix.recovery.likelihood import Fit, Mixture, Statistics, climb
from rewardmix.recovery.patterns import Patterns, pair_patterns
from rewardmix.recovery.rank_one import RankOne, rank_one
from rewardmix.recovery.result import Question, Recovery
from rewardmix.recovery.weights import closed_form, orientation

SHORT, POLISHED = 300, 3
"""E-steps that every start gets, and how many of the starts that need more get them."""

RANDOM_STARTS = 4
"""Random starts besides the informed ones."""


@dataclass(frozen=True, eq=False)
class Start:
    """What the moments (and triples) say before any climbing.

    Attributes:
        fit: the rank-one fit.
        average: (X, Z).
        spread: (X, Z), oriented.
        weights: (2,) known, from triples, or equal.
        groups: (X,) component of each x.
        undecided: components whose orientation triples leave open although the weights are not equal.
    """

    fit: RankOne
    average: Floats
    spread: Floats
    weights: Floats
    groups: NDArray[np.int64]
    undecided: NDArray[np.int64]


def best(evidence: Evidence, question: Question) -> Recovery:
    """The estimate to use; see the top of this file. More than two contexts: ``contexts.many``."""
    if question.num_contexts > 2:
        return many(evidence, question)
    rng = _generator(question)
    start = moment_start(evidence, question, rng)
    bags = evidence.bags if evidence.bags is not None else _pairs(evidence, start.fit)
    source = _weights_source(evidence, question)
    if bags is None or not evidence.confidence.first.size:
        fits = [_unclimbed(starts.mixture_of(start.average, start.spread, start.weights))]
    else:
        known = None if source == "estimated" else start.weights
        fits = climb_all(
            lambda mixture: likelihood.statistics(bags, mixture),
            all_starts(start, question, rng),
            average=evidence.centre(bags),
            prior=question.prior,
            weights=known,
        )
    return finished(
        "best",
        evidence,
        question,
        fits,
        bags=bags,
        source=source,
        gross=start.fit.gross,
        undecided=int(start.undecided.size),
    )


def moment_start(evidence: Evidence, question: Question, rng: np.random.Generator) -> Start:
    """Steps 1 and 2: spread, weights and orientation from moments and triples."""
    confidence = evidence.confidence
    fit = rank_one(confidence, rng)
    average = confidence.average_laws
    spread = starts.spread_laws(fit.spread, confidence.num_points)
    groups = groups_of_points(fit.component, confidence.width)
    equal = np.array([0.5, 0.5])
    if evidence.blind is None:
        weights = equal if question.weights is None else question.weights
        uneven = abs(weights[0] - 0.5) > 1e-9
        return Start(fit, average, spread, weights, groups, _real(groups, spread) if uneven else groups[:0])
    found = orientation(evidence.blind, average, spread, groups)
    wanted = 1.0 if question.weights is None else float(np.sign(question.weights[1] - question.weights[0]))
    turn = np.where(np.nan_to_num(found.slope) * wanted < 0, -1.0, 1.0)
    spread = spread * turn[groups][:, None]
    weights = closed_form(evidence.blind, average, spread)[0] if question.weights is None else question.weights
    real = _real(groups, spread)
    undecided = np.setdiff1d(real, np.flatnonzero(found.decided))
    if wanted == 0.0 or (question.weights is None and real.size < 2):  # turning everything only swaps the labels
        undecided = undecided[:0]
    return Start(fit, average, spread, weights, groups, undecided)


def climb_all(
    expect: Callable[[Mixture], Statistics],
    mixtures: list[tuple[str, Mixture]],
    *,
    average: Floats,
    prior: float,
    weights: Floats | None,
) -> list[Fit]:
    """Climb from every named start; ``expect`` sums the statistics wherever the episodes are.

    Starts that have not converged after ``SHORT`` E-steps lie on a flat part; only the best of them go on.
    """
    settings: dict[str, Any] = {"average": average, "prior": prior, "weights": weights}
    fits = [climb(expect, mixture, name=name, max_iterations=SHORT, **settings) for name, mixture in mixtures]
    order = sorted(range(len(fits)), key=lambda k: -fits[k].objective)
    for k in order[:POLISHED]:
        if not fits[k].converged:
            longer = climb(expect, fits[k].mixture, name=fits[k].start, **settings)
            fits[k] = replace(longer, iterations=fits[k].iterations + longer.iterations)
    return fits


def all_starts(start: Start, question: Question, rng: np.random.Generator) -> list[tuple[str, Mixture]]:
    """Step 3: the informed start, what it leaves open turned round, and random ones."""

    def of(name: str, spread: Floats, weights: Floats) -> tuple[str, Mixture]:
        return name, starts.inward(starts.mixture_of(start.average, spread, weights), start.average)

    _afford_starts(start)
    out = [of("moments", start.spread, start.weights)]
    for number, turn in enumerate(starts.flips(start.groups, start.undecided)):
        out.append(of(f"flipped {number + 1}", start.spread * turn[:, None], start.weights))
    if question.weights is None and start.weights[0] != 0.5:
        out.append(of("moments, equal weights", start.spread, np.array([0.5, 0.5])))
    free = np.isin(start.groups, _real(start.groups, start.spread))
    weights = start.weights if question.weights is not None else np.array([0.5, 0.5])
    for number in range(RANDOM_STARTS):
        out.append((f"random {number + 1}", starts.random_mixture(start.average, weights, free, rng)))
    return out


def _afford_starts(start: Start) -> None:
    """Refuse more starts than fit: each undecided group is turned round once."""
    points, values = start.average.shape
    afford(
        "data",
        memory=start.undecided.size * points * (8 + 64 * values),
        change="fewer states or actions, or more episodes, so that they hang together",
    )


def _real(groups: NDArray[np.int64], spread: Floats) -> NDArray[np.int64]:
    """Numbers of the groups with more than one x, or with a spread."""
    sizes = np.bincount(groups)
    moved = np.unique(groups[np.abs(spread).max(axis=1) > 0])
    return np.union1d(np.flatnonzero(sizes > 1), moved)


def _pairs(evidence: Evidence, fit: RankOne) -> Patterns | None:
    """Bags of two from the pair tables, without those the fit disbelieves."""
    if evidence.moments is None:
        return None
    confidence, moments = evidence.confidence, evidence.moments
    width, points = confidence.width, confidence.num_points
    keys = (confidence.first // width)[fit.gross] * points + (confidence.second // width)[fit.gross]
    kept = ~np.isin(moments.pair_keys, keys)
    bags = pair_patterns(moments.pair_keys[kept], moments.pair_tables[kept], points)
    average = np.where(np.isfinite(moments.frequencies), moments.frequencies, bags.average)
    bags.__dict__["average"] = average  # first visits know the averages better than pairs do
    return bags


def _weights_source(evidence: Evidence, question: Question) -> str:
    if question.weights is not None:
        return "known"
    return "assumed equal" if evidence.bags is None or not evidence.bags.has_triples else "estimated"


def _generator(question: Question) -> np.random.Generator:
    return generator(question.seed, Role.STARTS)


def _unclimbed(mixture: Mixture) -> Fit:
    return Fit(mixture, float("nan"), float("nan"), 0, True, "moments")


def start_only(evidence: Evidence, question: Question) -> Recovery:
    """Steps 1 and 2 of ``best`` without climbing: quick, and all that a bare confidence set allows."""
    start = moment_start(evidence, question, _generator(question))
    fits = [_unclimbed(starts.mixture_of(start.average, start.spread, start.weights))]
    return finished(
        "start_only",
        evidence,
        question,
        fits,
        bags=None,
        source=_weights_source(evidence, question),
        gross=start.fit.gross,
        undecided=int(start.undecided.size),
    )
