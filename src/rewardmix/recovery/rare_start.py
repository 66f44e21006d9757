"""Where likelihood ascent begins for a context that few episodes belong to.

One episode in a hundred leaves next to nothing in covariances: its part is w (1 - w) of a squared difference, below the
noise of all others. Of skewness, (1 - 2 w) / sqrt(w (1 - w)) in each coordinate, it has most. So take the fit without
its rarest context, and what is left of each episode's rewards beyond it,

    r_t = 1[z_t = z] - p_m(z | x_t)       m: the context that the episode most likely is of, without the rare one

and look for directions v (X, Z) along which r is most skewed: with L = sum_t v . r_t, over triples of different steps,

    E[e3(v . r)],   its gradient by r_t:   G_t = e2 of the other steps,   v <- sum of G_t r_t, whitened

a power iteration of the tensor of third moments (Anandkumar et al. 2014), from the residuals of some episodes. The
episodes that are furthest along a direction are the first guess of the rare context.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel
from rewardmix._core.streams import Role, generator
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.evidence import Evidence, Question
from rewardmix.recovery.likelihood import Fit, Mixture, ascend, e_step, one_context, posteriors
from rewardmix.recovery.moment_start import INWARD, inward

CLEAR_GAIN = 3.0
"""A further context whose fit gains as many nats for each of its parameters shows in moments, and begins there; by
chance a fit gains about one."""

DIRECTIONS, ROUNDS = 48, 12
"""Power iterations, and how long they are."""

ENTRIES = 4e6
"""Numbers in the directions of all power iterations: of large tables there are fewer, but four."""

DISTINCT, ALIKE = 12, 0.95
"""So many of the most skewed directions begin an ascent, those apart whose places correlate as much are one."""

FURTHEST = 0.01
"""Share of the episodes that are furthest along a direction and begin as the rare context."""

TRIED, CLIMBED, MOST_CLIMBED = 12, 4, 300
"""E-steps of every ascent, how many of them go on, and the E-steps of these."""

LOOKED_AT, SYMBOLS = 20_000, 400_000
"""Episodes and rewards that directions are looked for in, of more there are."""


def rare_fits(evidence: Evidence, question: Question, best: Fit, weights: Floats | None) -> list[Fit]:
    """Ascents in which the rarest context of ``best`` begins anew; none where two contexts are clear without.

    Args:
        evidence: whole episodes; of pairs alone there is no third order.
        question: the pseudo-count, and the seed.
        best: the best ascent so far.
        weights: (M,) if they may not move.
    """
    bags, contexts = evidence.bags, best.mixture.num_contexts
    if bags is None:
        return []
    alone = e_step(bags, one_context(bags)).loglik if contexts == 2 else None
    rng = rare_draws(question.seed, contexts)
    settings = {"average": evidence.centre(bags, question), "prior": evidence.strength(question), "weights": weights}
    return rare_ascents(bags, best, alone, rng, **settings)


def rare_draws(seed: int, *place: int) -> np.random.Generator:
    """What ``rare_ascents`` draws by, for a seed and the place where it is asked."""
    return generator(seed, Role.RARE_STARTS, *place)


def rare_ascents(bags: Bags, best: Fit, fewer: float | None, rng: np.random.Generator, **settings: Any) -> list[Fit]:
    """The same where ``fewer`` is what one context less comes to, if that is known; none where ``best`` is clear.

    Args:
        bags: whole episodes.
        best: the best ascent so far.
        fewer: log-likelihood of a fit with one context less.
        rng: of the directions.
        **settings: of the ascents.
    """
    if not bags.has_triples or (fewer is not None and _clear(bags, best, fewer)):
        return []
    expect = partial(e_step, bags)
    tried = [
        ascend(expect, start, **{**settings, "max_iterations": TRIED, "name": f"rare {number + 1}"})
        for number, start in enumerate(rare_starts(bags, best.mixture, rng))
    ]
    tried.sort(key=lambda fit: -fit.objective)
    out = []
    for fit in tried[:CLIMBED]:
        longer = ascend(expect, fit.mixture, **{"max_iterations": MOST_CLIMBED, **settings, "name": fit.start})
        out.append(replace(longer, iterations=fit.iterations + longer.iterations))
    return out


def _clear(bags: Bags, best: Fit, fewer: float) -> bool:
    """Whether a fit is far more likely than one with a context less."""
    occurrences = bags.occurrences
    further = np.count_nonzero(occurrences) - np.count_nonzero(occurrences.sum(axis=1))
    return bool(best.loglik - fewer > CLEAR_GAIN * further)


def rare_starts(bags: Bags, mixture: Mixture, rng: np.random.Generator) -> list[Mixture]:
    """The mixture with its rarest context begun anew, once for each of the most skewed directions."""
    rare = int(np.argmin(mixture.weights))
    kept = np.delete(np.arange(mixture.num_contexts), rare)
    others = Mixture(mixture.weights[kept] / mixture.weights[kept].sum(), mixture.laws[kept])
    some = _some(bags)
    places = _places(some, others, rng)
    starts = []
    for place in places:
        law = _furthest_law(some, place)
        laws, weights = mixture.laws.copy(), mixture.weights.copy()
        laws[rare] = law
        weights[kept], weights[rare] = others.weights * (1.0 - FURTHEST), FURTHEST
        starts.append(inward(Mixture(weights, laws), bags.average))
    return starts


def _some(bags: Bags) -> Bags:
    """The first bags; merged bags lie in the order of a hash, so these are a fair sample."""
    count = min(bags.counts.size, LOOKED_AT, max(int(np.searchsorted(bags.offsets, SYMBOLS)), 1))
    end = int(bags.offsets[count])
    return replace(bags, symbols=bags.symbols[:end], offsets=bags.offsets[: count + 1], counts=bags.counts[:count])


def _places(bags: Bags, others: Mixture, rng: np.random.Generator) -> list[Floats]:
    """(P,) for each of the most skewed directions: how far every bag lies along it."""
    owner = np.argmax(posteriors(bags, others), axis=1).astype(np.int64)
    laws = (1.0 - INWARD) * others.laws + INWARD / others.laws.shape[2]
    average = (others.weights[:, None, None] * laws).sum(axis=0)
    visits = bags.occurrences.sum(axis=1)
    spread = visits + visits.sum() / max(np.count_nonzero(visits), 1)
    count = min(DIRECTIONS, bags.counts.size, max(int(ENTRIES / laws.size), 4))
    places, pulls = np.zeros((bags.counts.size, count)), np.zeros((laws.shape[0], laws[0].size, count))
    for number, bag in enumerate(rng.choice(bags.counts.size, count, replace=False)):
        np.add.at(pulls[owner[bag], :, number], bags.symbols[bags.offsets[bag] : bags.offsets[bag + 1]], 1.0)
    for _ in range(ROUNDS):
        table = _residuals(_whitened(pulls.reshape(*laws.shape, count), laws, average, spread), laws)
        pulls[:] = 0.0
        _pull(bags.symbols, bags.offsets, bags.counts, owner, table.reshape(pulls.shape), places, pulls)
    return _distinct(places, bags.counts)


def _whitened(pulls: Floats, laws: Floats, average: Floats, spread: Floats) -> Floats:
    """(X, Z, D) directions of length 1 from what pulls at each symbol, by the context of the episodes (M, X, Z, D).

    A direction is measured where rewards vary: by the average (X, Z) law, and by the visits (X,) with a few for all.
    """
    pull = (pulls - laws[..., None] * pulls.sum(axis=2, keepdims=True)).sum(axis=0)
    measure = (spread[:, None] * average)[..., None]
    direction = pull / measure
    direction -= (average[..., None] * direction).sum(axis=1, keepdims=True)
    length = np.sqrt((measure * direction**2).sum(axis=(0, 1)))
    return np.asarray(direction / np.maximum(length, 1e-300))


def _residuals(direction: Floats, laws: Floats) -> Floats:
    """(M, X, Z, D): how far each symbol lies along, beyond what the context leaves to be expected."""
    return np.asarray(direction[None] - (laws[..., None] * direction[None]).sum(axis=2, keepdims=True))


def _distinct(places: Floats, counts: Floats) -> list[Floats]:
    """The columns that are most skewed, and not like each other."""
    size = np.sqrt(np.maximum((counts[:, None] * places**2).sum(axis=0), 1e-200))  # its third power is a number too
    skewness = (counts[:, None] * places**3).sum(axis=0) / size**3
    taken: list[int] = []
    for k in np.argsort(-skewness, kind="stable"):
        alike = [(counts * places[:, k] * places[:, j]).sum() / (size[k] * size[j]) > ALIKE for j in taken]
        if not any(alike):
            taken.append(int(k))
        if len(taken) == DISTINCT:
            break
    return [places[:, k] for k in taken]


def _furthest_law(bags: Bags, place: Floats) -> Floats:
    """(X, Z) law of the bags that are furthest along, with two rewards of the average at each x."""
    order = np.argsort(-place, kind="stable")
    many = int(np.searchsorted(np.cumsum(bags.counts[order]), FURTHEST * bags.total)) + 1
    mine = np.zeros(place.size, bool)
    mine[order[:many]] = True
    sums = bags.reweighted(np.where(mine, bags.counts, 0.0)).occurrences
    return np.asarray((sums + 2.0 * bags.average) / (sums.sum(axis=1, keepdims=True) + 2.0))


@kernel
def _pull(symbols: Any, offsets: Any, counts: Any, owner: Any, table: Any, places: Any, pulls: Any) -> None:
    """Where each bag lies along each direction, and the gradient of e3 by the residual of each step, summed."""
    number = table.shape[2]
    first, second = np.empty(number), np.empty(number)
    for bag in range(counts.size):
        first[:] = 0.0
        second[:] = 0.0
        mine, out = table[owner[bag]], pulls[owner[bag]]
        for i in range(offsets[bag], offsets[bag + 1]):
            row = mine[symbols[i]]
            for d in range(number):
                first[d] += row[d]
                second[d] += row[d] * row[d]
        for d in range(number):
            places[bag, d] = first[d]
            second[d] = first[d] * first[d] - second[d]
        for i in range(offsets[bag], offsets[bag + 1]):
            row, into = mine[symbols[i]], out[symbols[i]]
            for d in range(number):
                into[d] += counts[bag] * (second[d] - 2.0 * row[d] * (first[d] - row[d]))
