"""More than two contexts.

Covariances of M contexts have rank M - 1, which leaves a rotation open: pairs alone cannot tell the contexts, whole
episodes can, and so can counts of triples: the composite likelihood of their tables is ascended where no episodes were
kept. Starts: the leading M - 1 factors of the standardised covariances, each episode's place along them, and k-means of
these places; laws drawn at random; and the strongest triples, where they were counted (``third_order``). Many starts
ascend a little way, the most promising to the end.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.algebra import leading_eigenpairs, product, solve
from rewardmix._core.checks import Floats, as_number, refuse
from rewardmix._core.streams import Role, generator
from rewardmix.model import mixed
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.confidence_set import ConfidenceSet
from rewardmix.recovery.evidence import Evidence, Question
from rewardmix.recovery.likelihood import Fit, Mixture, ascend, e_step
from rewardmix.recovery.moment_start import inward, random_mixture
from rewardmix.recovery.recovery_result import Candidates
from rewardmix.recovery.third_order import bags_of_triples, triple_starts

_SPECTRAL, _RANDOM = 3, 17
"""Starts that ascend a little way."""

SCREENING, _POLISHED = 40, 5
"""E-steps of the first ascent, and how many starts ascend to the end."""

SCREENED = 20_000
"""Bags of which the first ascents see a share, when there are more."""

_FILLS = 10
"""Rounds in which covariances that were never seen are filled from the factors ..."""

_FILLED = 4e6
"""... and entries of all rounds together: of large tables there are fewer, but two; the ascent does the rest."""


def many(evidence: Evidence, question: Question) -> Candidates:
    """Any number of contexts by maximum likelihood on whole episodes, or on tables of triples."""
    bags = evidence.bags
    if bags is None:
        moments = evidence.moments
        if moments is None or not moments.triple_keys.size:
            wanted = "Episodes, or moments with triples: pairs of rewards cannot tell more than two contexts apart"
            refuse("data", "moments without episodes", wanted)
        bags = bags_of_triples(moments)
        evidence = replace(evidence, bags=bags, blind=bags)
    fits = ascend_many(evidence, question)
    source = "estimated" if question.weights is None else "known"
    return Candidates("best", fits, source, bags)


def ascend_many(
    evidence: Evidence, question: Question, *, tolerance: float = 3e-11, polished: int = _POLISHED
) -> list[Fit]:
    """A little way from every start, to the end from the most promising, which are returned."""
    bags = evidence.bags
    assert bags is not None
    prior = as_number("prior", evidence.strength(question), above=-1e-300)
    rng = generator(question.seed, Role.CONTEXT_STARTS, question.num_contexts)
    sample = bags if bags.counts.size <= SCREENED else _share(bags, SCREENED)
    if not evidence.confidence.first.size:
        return [_one_law(bags, question)]
    settings: dict[str, Any] = {"average": evidence.centre(bags, question), "prior": prior, "tolerance": tolerance}
    settings["weights"] = question.weights
    short = [
        ascend(partial(e_step, sample), mixture, max_iterations=SCREENING, name=name, **settings)
        for name, mixture in _starts(evidence, question, rng)
    ]
    promising = sorted(short, key=lambda fit: -fit.objective)[:polished]
    return [ascend(partial(e_step, bags), fit.mixture, name=fit.start, **settings) for fit in promising]


def _share(bags: Bags, count: int) -> Bags:
    """The first bags; merged bags lie in the order of a hash, so these are a fair sample."""
    end = int(bags.offsets[count])
    return replace(bags, symbols=bags.symbols[:end], offsets=bags.offsets[: count + 1], counts=bags.counts[:count])


def _one_law(bags: Bags, question: Question) -> Fit:
    """Without pairs nothing tells contexts apart: all of them are the average."""
    weights = question.weights
    if weights is None:
        weights = np.full(question.num_contexts, 1.0 / question.num_contexts)
    mixture = Mixture(weights, np.repeat(bags.average[None], question.num_contexts, axis=0))
    loglik = e_step(bags, mixture).loglik
    return Fit(mixture, loglik, loglik, 1, True, "average")


def _starts(evidence: Evidence, question: Question, rng: np.random.Generator) -> list[tuple[str, Mixture]]:
    bags, contexts = evidence.bags, question.num_contexts
    assert bags is not None
    equal = np.full(contexts, 1.0 / contexts)
    loadings = factors(evidence.confidence, contexts - 1)
    places = episode_places(_share(bags, min(bags.counts.size, SCREENED)), evidence.confidence, loadings)
    out = []
    for number in range(_SPECTRAL):
        cluster = clusters(places, bags.counts[: places.shape[0]], contexts, rng)
        out.append((f"factors {number + 1}", _from_clusters(bags, cluster, contexts)))
    paired = np.zeros(evidence.confidence.num_points, bool)
    paired[evidence.confidence.first // evidence.confidence.width] = True
    paired[evidence.confidence.second // evidence.confidence.width] = True
    for number in range(_RANDOM):
        out.append((f"random {number + 1}", random_mixture(bags.average, equal, paired, rng)))
    return out if evidence.moments is None else out + triple_starts(evidence.moments, contexts)


def factors(confidence: ConfidenceSet, rank: int) -> Floats:
    """(N, rank) loadings of the standardised covariances, unseen entries filled by what the loadings say."""
    average = np.nan_to_num(confidence.average, nan=0.5)
    scale = np.sqrt(np.maximum(average * (1.0 - average), 1e-6))
    size = average.size
    matrix = np.full((size, size), np.nan)
    values = confidence.centre / (scale[confidence.first] * scale[confidence.second])
    matrix[confidence.first, confidence.second] = matrix[confidence.second, confidence.first] = values
    unseen = np.isnan(matrix)
    filled = np.where(unseen, 0.0, matrix)
    loadings = np.zeros((size, rank))
    rounds = int(min(_FILLS, max(2, _FILLED / size**2))) if unseen.any() else 1
    for _ in range(rounds):
        values, vectors = leading_eigenpairs(filled, rank)
        loadings = np.zeros((size, rank))
        loadings[:, : min(rank, size)] = vectors * np.sqrt(np.maximum(values, 1e-12))
        filled = np.where(unseen, product(loadings, loadings.T), filled)
    return loadings


def episode_places(bags: Bags, confidence: ConfidenceSet, loadings: Floats) -> Floats:
    """(P, rank): where each bag lies along the factors, by ridge regression of its standardised rewards."""
    average = np.nan_to_num(confidence.average, nan=0.5).reshape(confidence.num_points, -1)
    scale = np.sqrt(np.maximum(average * (1.0 - average), 1e-6))
    table = loadings.reshape(confidence.num_points, confidence.width, -1)
    indicator = np.array([[0.0], [1.0]]) if confidence.width == 1 else np.eye(confidence.width)
    standard = (indicator[None] - average[:, None]) / scale[:, None]  # (X, Z, width)
    width = range(confidence.width)
    moved = mixed(
        [standard[:, :, d, None] for d in width], [table[:, None, d] * np.ones((1, len(indicator), 1)) for d in width]
    ).reshape(-1, loadings.shape[1])
    gram = mixed(np.ones(confidence.width), [table[:, d, :, None] * table[:, d, None, :] for d in width])
    begin = bags.offsets[:-1]
    pull = np.add.reduceat(moved[bags.symbols], begin, axis=0)
    weight = np.add.reduceat(gram[bags.symbols // bags.num_values], begin, axis=0) + np.eye(loadings.shape[1])
    return solve(weight, pull)


def clusters(
    places: Floats, counts: Floats, number: int, rng: np.random.Generator, rounds: int = 15
) -> NDArray[np.int64]:
    """(P,) cluster of each place: k-means with spread-out random centres, each place weighing its count."""
    centres = places[rng.choice(len(places), 1, p=counts / counts.sum())]
    for _ in range(number - 1):
        far = ((places[:, None] - centres[None]) ** 2).sum(axis=2).min(axis=1) * counts
        chance = far / far.sum() if far.sum() > 0 else counts / counts.sum()
        centres = np.concatenate([centres, places[rng.choice(len(places), 1, p=chance)]])
    nearest = np.zeros(len(places), np.int64)
    for _ in range(rounds):
        nearest = ((places[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
        for m in range(number):
            mine = nearest == m
            if mine.any():
                centres[m] = (places[mine] * counts[mine, None]).sum(axis=0) / counts[mine].sum()
    return nearest


def _from_clusters(bags: Bags, cluster: NDArray[np.int64], contexts: int) -> Mixture:
    """Laws and weights as if each bag came from its cluster for sure, pulled a little to the average."""
    few = _share(bags, cluster.size)
    owner = np.repeat(cluster, np.diff(few.offsets))
    size = bags.num_points * bags.num_values
    repeated = np.repeat(few.counts, np.diff(few.offsets))
    sums = np.bincount(owner * size + few.symbols, weights=repeated, minlength=contexts * size)
    sums = sums.reshape(contexts, bags.num_points, bags.num_values)
    laws = (sums + 2.0 * bags.average) / (sums.sum(axis=2, keepdims=True) + 2.0)
    weights = np.bincount(cluster, weights=few.counts, minlength=contexts) + 1.0
    return inward(Mixture(weights / weights.sum(), laws), bags.average)
