"""``recover``: a model from what was seen, by a method; ``best`` is the one to use.

1. robust rank-one fit of the centred covariances, each component of the pair graph with its signs (``rank_one``);
2. weights in closed form where they are unknown, and the orientation of each component, from triples (``orientation``);
3. maximum likelihood by EM on the episodes, from that start, from both orientations of what triples do not decide, and
   from random starts; the best objective wins. With moments only, the composite likelihood of the pair tables, without
   the pairs that the robust fit disbelieves; with a bare confidence set, the robust fit itself;
4. standard errors, and the check against the confidence set and Algorithm 3's certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import (
    Floats,
    as_count,
    as_floats,
    as_number,
    as_seed,
    at,
    check_probabilities,
    first,
    quoted,
    refuse,
)
from rewardmix._core.streams import Role, generator
from rewardmix.episodes import Episodes
from rewardmix.moments import Moments
from rewardmix.recovery.assessment import estimated, finished
from rewardmix.recovery.bags import Bags, pair_bags, with_guesses
from rewardmix.recovery.confidence_set import ConfidenceSet, Radius, hoeffding
from rewardmix.recovery.evidence import Evidence, Question, afford_data, evidence_of
from rewardmix.recovery.likelihood import Fit, Mixture, Statistics, ascend, e_step, start_fit
from rewardmix.recovery.many_contexts import many
from rewardmix.recovery.moment_start import MomentStart, RankOne, all_starts, mixture_of_spread, moment_start
from rewardmix.recovery.rare_start import rare_fits
from rewardmix.recovery.recovery_result import SAME, Candidates, Estimate, Method, Recovery

SHORT, POLISHED = 300, 3
"""E-steps that every start gets, and how many of the starts that need more get them."""


def best(evidence: Evidence, question: Question) -> Recovery:
    """The method to use; see the top of this file. More than two contexts: ``many_contexts``."""
    return finished(evidence, question, _candidates(evidence, question))


def estimate_model(evidence: Evidence, question: Question) -> Estimate:
    """The model of ``best`` without standard errors and certificate: for those who only go on from it."""
    return estimated(evidence, _candidates(evidence, question))


def _candidates(evidence: Evidence, question: Question) -> Candidates:
    """Steps 1 to 3; an earlier model is one more start, and contexts keep its order."""
    if question.num_contexts == 1:
        return _one_context(evidence, question)
    found = many(evidence, question) if question.num_contexts > 2 else _two_contexts(evidence, question)
    found = _with_rare(evidence, question, found)
    if question.start is None or found.bags is None:
        return found
    weights, laws = question.start
    average = evidence.centre(found.bags, question)
    warm = ascend(
        partial(e_step, found.bags),
        Mixture(weights, 0.99 * laws + 0.01 * average),  # off the boundary, where EM would stay
        average=average,
        prior=evidence.strength(question),
        weights=None if found.source == "estimated" else found.best.mixture.weights,
        name="earlier model",
    )
    return replace(found, fits=[warm, *found.fits], like=laws)


def _one_context(evidence: Evidence, question: Question) -> Candidates:
    """One context: its laws are the average, pulled to the centre by the prior."""
    bags, weights = evidence.bags, np.ones(1)
    if bags is None or not bags.counts.size:
        fit = start_fit(Mixture(weights, evidence.confidence.average_laws[None]), "average")
        return Candidates("best", [fit], "known", bags)
    centre, prior = evidence.centre(bags, question), evidence.strength(question)
    start = Mixture(weights, bags.average[None])
    fit = ascend(partial(e_step, bags), start, average=centre, prior=prior, weights=weights, name="average")
    return Candidates("best", [fit], "known", bags)


def _with_rare(evidence: Evidence, question: Question, found: Candidates) -> Candidates:
    """The candidates, and another one if it is better in which the rarest context began anew."""
    if found.bags is None or found.bags is not evidence.bags or not np.isfinite(found.best.objective):
        return found
    weights = None if found.source == "estimated" else found.best.mixture.weights
    fits = rare_fits(evidence, question, found.best, weights)
    better = [fit for fit in fits if fit.objective > found.best.objective + SAME]
    return replace(found, fits=[*better, *found.fits]) if better else found


def _two_contexts(evidence: Evidence, question: Question) -> Candidates:
    """Steps 1 to 3 for two contexts."""
    start, rng = _begun(evidence, question)
    bags = evidence.bags if evidence.bags is not None else _pairs(evidence, start.fit)
    if bags is None or not evidence.confidence.first.size:
        return _unascended("best", evidence, question, start, bags)
    source = _weights_source(evidence, question)
    fits = ascend_all(
        partial(e_step, bags),
        all_starts(start, question, rng),
        average=evidence.centre(bags, question),
        prior=evidence.strength(question),
        weights=None if source == "estimated" else start.weights,
    )
    return Candidates("best", fits, source, bags, start.fit.gross, int(start.undecided.size))


def start_only(evidence: Evidence, question: Question) -> Recovery:
    """Steps 1 and 2 of ``best`` without likelihood: quick, and all that a bare confidence set allows."""
    start, _ = _begun(evidence, question)
    return finished(evidence, question, _unascended("start_only", evidence, question, start, None))


def _begun(evidence: Evidence, question: Question) -> tuple[MomentStart, np.random.Generator]:
    """Where climbs begin by the moments, and what is drawn from for other beginnings."""
    rng = generator(question.seed, Role.STARTS)
    return moment_start(evidence, question, rng), rng


def _unascended(
    method: str, evidence: Evidence, question: Question, start: MomentStart, bags: Bags | None
) -> Candidates:
    """The start itself."""
    fit = start_fit(mixture_of_spread(start.average, start.spread, start.weights), "moments")
    source = _weights_source(evidence, question)
    return Candidates(method, [fit], source, bags, start.fit.gross, int(start.undecided.size))


def ascend_all(
    expect: Callable[[Mixture], Statistics],
    mixtures: list[tuple[str, Mixture]],
    *,
    average: Floats,
    prior: float,
    weights: Floats | None,
) -> list[Fit]:
    """Ascend from every named start; ``expect`` sums the statistics wherever the episodes are.

    Starts that have not converged after ``SHORT`` E-steps lie on a flat part; only the best of them go on.
    """
    settings: dict[str, Any] = {"average": average, "prior": prior, "weights": weights}
    fits = [ascend(expect, mixture, name=name, max_iterations=SHORT, **settings) for name, mixture in mixtures]
    order = sorted(range(len(fits)), key=lambda k: -fits[k].objective)
    for k in order[:POLISHED]:
        if not fits[k].converged:
            longer = ascend(expect, fits[k].mixture, name=fits[k].start, **settings)
            fits[k] = replace(longer, iterations=fits[k].iterations + longer.iterations)
    return fits


def _pairs(evidence: Evidence, fit: RankOne) -> Bags | None:
    """Bags of two from the pair tables, without those the fit disbelieves."""
    if evidence.moments is None:
        return None
    confidence, moments = evidence.confidence, evidence.moments
    width, points = confidence.width, confidence.num_points
    keys = (confidence.first // width)[fit.gross] * points + (confidence.second // width)[fit.gross]
    kept = ~np.isin(moments.pair_keys, keys)
    bags = pair_bags(moments.pair_keys[kept], moments.pair_tables[kept], points)
    average = with_guesses(moments.frequencies, moments.samples > 0)
    bags.__dict__["average"] = average  # first visits know the averages better than pairs do
    return bags


def _weights_source(evidence: Evidence, question: Question) -> str:
    if question.weights is not None:
        return "known"
    return "assumed equal" if evidence.bags is None or not evidence.bags.has_triples else "estimated"


def recover(
    data: ConfidenceSet | Moments | Episodes,
    *,
    following: Episodes | None = None,
    moments: Moments | None = None,
    num_contexts: int = 2,
    weights: ArrayLike | None = None,
    prior: float | None = None,
    method: Method = best,
    seed: int = 0,
    failure: float = 0.05,
    accuracy: float = 0.1,
    radius: Radius = hoeffding,
) -> Recovery:
    """A model from what was seen.

    Args:
        data: whole episodes say most (weights, orientation and more than two contexts need them); moments and
            confidence sets are enough for the rest.
        following: further episodes, whose actions did follow their rewards. They count in the likelihood and for the
            moves, and are kept out of the confidence set, of triples, and of the averages that the prior pulls to
            wherever an episode of ``data`` went.
        moments: of ``data``, if it is episodes and they were counted already.
        num_contexts: M; ``choose_contexts`` finds it.
        weights: (M,) if known; "uniform" for equal ones; None to estimate them.
        prior: pseudo-count at the average for each state-action and context; 0 is plain maximum likelihood. Left out it
            is 1, or in a world of more than 256 state-actions what the data show (``recovery/pooling.py``).
        method: ``best``, ``algorithm_3``, ``spectral`` or ``sweep_weights(...)`` of ``rewardmix.recovery``, or a
            function like them.
        seed: of the random starts.
        failure: of the confidence set, if ``data`` is none.
        accuracy: of the confidence set, if ``data`` is none.
        radius: of the confidence set, if ``data`` is none: ``hoeffding`` or ``normal(3.0)``.
    """
    contexts = as_count("num_contexts", num_contexts)
    if not callable(method):
        refuse("method", quoted(method), "a function: best, algorithm_3, spectral or sweep_weights(...)")
    if prior is not None and not (isinstance(prior, int | float) and prior == 0):
        as_number("prior", prior, above=0.0)
    as_number("failure", failure, above=0.0, below=1.0)
    as_number("accuracy", accuracy, above=0.0)
    if not callable(radius):
        refuse("radius", quoted(radius), "a function: hoeffding or normal(3.0) of rewardmix.recovery")
    afford_data(data, following, contexts)
    pseudo = None if prior is None else float(prior)
    question = Question(contexts, as_weights(weights, contexts), pseudo, as_seed("seed", seed))
    evidence = evidence_of(data, following, moments=moments, failure=failure, accuracy=accuracy, radius=radius)
    return method(evidence, question)


def as_weights(weights: Any, num_contexts: int) -> Floats | None:
    """Known weights as an array; None if they are not known."""
    if weights is None:
        return None
    if isinstance(weights, str):
        if weights != "uniform":
            refuse("weights", repr(weights), '"uniform", an array of probabilities, or None')
        return np.full(num_contexts, 1.0 / num_contexts)
    array = as_floats("weights", weights, (num_contexts,))
    check_probabilities("weights", array, "contexts")
    if (array <= 0).any():
        refuse(at("weights", first(array <= 0)), 0.0, "a positive weight")
    return array
