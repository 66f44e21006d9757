"""The posterior of a mixture of reward laws, by Markov chains that are carried on as episodes come in.

    weights  w ~ Dirichlet(5, ..., 5) unless they are known       laws  p_m(. | x) ~ Dirichlet(Z c(x))
    rewards  of an episode: context m ~ w, then z_t ~ p_m(. | x_t)

c(x) is the average law of the rewards at x, pulled towards an even one: contexts may differ anywhere, and are not
charged for agreeing. Under an even prior each context has to pay for its own laws at every x, so that where most of the
world never pays, one context with all of the weight is the more likely the longer that is seen.

A chain is a draw (w, p); contexts of episodes are drawn within a sweep and forgotten, so a chain does not grow with the
data. Two moves leave the posterior as it is:

    sweep   Gibbs: contexts given (w, p), then (w, p) given contexts. It cannot cross from one assignment of signs to
            another: half-way the episodes fit neither
    flip    Metropolis: swap the laws of two contexts on a block of state-actions, contexts summed out. It can

What is played comes from mixtures without what looks like luck (``luck_evened``): where the state-actions of a world
pay about the same on average, one that paid less in its first tries was most likely unlucky. Taken by itself it would
be given up, and with it whatever its rewards say of the context.

``updated`` adds what makes few chains useful early, at the price of exactness: a chain far below the best one is
replaced by it, and the worst one by a fresh climb of the likelihood whenever there is half as much data again. The
moves alone (``moved``) are exact, and are what is tested against enumeration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.streams import Role, generator
from rewardmix.online import posterior_kernels as kernels
from rewardmix.online.posterior_kernels import BagArrays, Meetings, Prior
from rewardmix.recovery import likelihood, moment_start
from rewardmix.recovery.bags import Bags, shares
from rewardmix.recovery.likelihood import Mixture
from rewardmix.recovery.pooling import pooled_alike

Stream = NDArray[np.uint64]

CHAINS = 3
"""Chains of an agent."""

LAWS, WEIGHTS = 1.0, 5.0
"""Dirichlet priors, so much for each value or context. That on weights keeps a context alive while it is not needed."""

PULLED = 10.0
"""Rewards of each value that c(x) takes for granted: an action that was unlucky at first has not yet shown its law."""

SWEEPS, FLIPS = 5, 5
"""Moves of each kind in an update, at least."""

SWEPT = 30_000
"""Few distinct episodes are swept more often: until a chain read so many symbols and drew so many laws ..."""

MOST_SWEEPS = 300
"""... or so many sweeps were made."""

ALONE = 0.3
"""Share of flips of a single state-action."""

NEVER_CAME = 1e-9
"""Share of a value that never came, where shares are divided."""

AS_WIDE = 30.0
"""Rewards of a state-action in a context up to which a draw that is played is as wide as the posterior."""

RESEEDED = 1.5
"""Growth of the number of episodes after which the worst chain gets a fresh start."""

CLIMBS = 3
"""Random starts of that."""

CLIMB: dict[str, Any] = {"max_iterations": 60, "tolerance": 1e-6}
"""How far a climb goes while the agent looks again: nearly to the top."""


@dataclass(frozen=True, eq=False)
class Chains:
    """Draws from the posterior, each the present state of a chain.

    Attributes:
        weights: (C, M).
        tables: (C, X*Z, M) laws, as kernels want them.
        logliks: (C,) log-likelihood of each, of the data at the last update.
        seeded: number of episodes at which the worst was last given a fresh start.
        known: whether the weights were given.
    """

    weights: Floats
    tables: Floats
    logliks: Floats
    seeded: float
    known: bool

    @property
    def number(self) -> int:
        """C."""
        return int(self.logliks.size)


@dataclass(frozen=True, eq=False)
class RewardEvidence:
    """What the rewards say: bags, and how often state-actions were together in an episode.

    Attributes:
        bags: merged bags of symbols.
        together: (X, X) episodes with both, symmetric.
    """

    bags: Bags
    together: NDArray[np.int64]

    @property
    def arrays(self) -> BagArrays:
        """The bags as kernels take them."""
        return BagArrays(self.bags.symbols, self.bags.offsets, self.bags.counts)

    @property
    def meetings(self) -> Meetings:
        """What flips choose their blocks by."""
        others = self.together.copy()
        np.fill_diagonal(others, 0)
        return Meetings(self.together, others.max(axis=1), ALONE)


def prior_of(known: bool, outcomes: Floats) -> Prior:
    """The prior of laws around what was paid on average, (X, Z) ``outcomes``, and of weights unless they are known.

    Where nothing was paid yet it is even.
    """
    centre = shares(outcomes + PULLED)
    num_values = outcomes.shape[1]
    return Prior(np.ascontiguousarray((LAWS * num_values * centre).ravel()), 0.0 if known else WEIGHTS, num_values)


def even_prior(known: bool, num_points: int, num_values: int) -> Prior:
    """The prior of a world in which nothing was paid yet."""
    return prior_of(known, np.zeros((num_points, num_values)))


def prior_chains(
    num_points: int, num_values: int, num_contexts: int, weights: Floats | None, stream: Stream, number: int = CHAINS
) -> Chains:
    """Chains that know nothing: draws from the prior."""
    drawn = np.full((number, num_contexts), 1.0 / num_contexts) if weights is None else np.tile(weights, (number, 1))
    tables = np.empty((number, num_points * num_values, num_contexts))
    sizes, outcomes = np.zeros(num_contexts), np.zeros(tables.shape[1:])
    prior = even_prior(weights is not None, num_points, num_values)
    for chain in range(number):
        kernels.draw_laws(sizes, outcomes, prior, stream, drawn[chain], tables[chain])
    return Chains(drawn, tables, np.zeros(number), 0.0, weights is not None)


def chains_at(mixture: Mixture, number: int = CHAINS) -> Chains:
    """Chains that all begin at one place; their weights are not known."""
    table = np.maximum(np.moveaxis(mixture.laws, 0, -1).reshape(-1, mixture.num_contexts), kernels.LEAST_LAW)
    tables = np.ascontiguousarray(np.tile(table, (number, 1, 1)))
    return Chains(np.tile(mixture.weights, (number, 1)), tables, np.zeros(number), 0.0, False)


def moved(chains: Chains, evidence: RewardEvidence, prior: Prior, sweeps: int, flips: int, stream: Stream) -> Chains:
    """Every chain after ``sweeps`` sweeps, ``flips`` flips spread over them. Exact: leaves the posterior as it is."""
    weights, tables = chains.weights.copy(), chains.tables.copy()
    logliks = np.empty(chains.number)
    bags, met = evidence.arrays, evidence.meetings
    for c in range(chains.number):
        logliks[c] = kernels.carry_on(bags, met, prior, sweeps, flips, stream, weights[c], tables[c])
    return replace(chains, weights=weights, tables=tables, logliks=logliks)


def updated(chains: Chains, evidence: RewardEvidence, stream: Stream) -> Chains:
    """The chains brought up to date with the evidence."""
    if evidence.bags.total >= RESEEDED * max(chains.seeded, 1.0):
        rng = generator(stream.tolist(), Role.RESEEDED_CHAINS)  # so that the stream is all there is to store
        chains = reseeded(chains, evidence, rng)
    sweeps = max(SWEEPS, min(MOST_SWEEPS, SWEPT // (evidence.bags.symbols.size + chains.tables[0].size)))
    prior = prior_of(chains.known, evidence.bags.occurrences)
    chains = moved(chains, evidence, prior, sweeps, sweeps * FLIPS // SWEEPS, stream)
    return without_stragglers(chains, evidence)


def without_stragglers(chains: Chains, evidence: RewardEvidence) -> Chains:
    """Chains far below the best one become copies of it: 5 + 3 sqrt(d/2) nats, d the free parameters that matter."""
    seen = int((evidence.bags.occurrences.sum(axis=1) > 0).sum())
    free = chains.weights.shape[1] * seen * (evidence.bags.num_values - 1)
    best = int(chains.logliks.argmax())
    far = chains.logliks < chains.logliks[best] - 5.0 - 3.0 * math.sqrt(free / 2)
    return _placed(chains, far, chains.weights[best], chains.tables[best], float(chains.logliks[best]))


def reseeded(chains: Chains, evidence: RewardEvidence, rng: np.random.Generator) -> Chains:
    """The worst chain begins anew where the best of several climbs ended, if that is higher than it is now."""
    bags = evidence.bags
    places = zip(chains.weights, chains.tables, strict=True)
    now = np.array([kernels.log_likelihood(evidence.arrays, *place) for place in places])
    chains = replace(chains, logliks=now, seeded=bags.total)
    fit = max((_climbed(chains, bags, rng) for _ in range(CLIMBS)), key=lambda found: found.objective)
    worst = int(now.argmin())
    if fit.loglik <= now[worst]:
        return chains
    table = np.ascontiguousarray(np.moveaxis(fit.mixture.laws, 0, -1).reshape(chains.tables.shape[1:]))
    return _placed(chains, np.arange(now.size) == worst, fit.mixture.weights, table, fit.loglik)


def most_likely(chains: Chains, bags: Bags, **settings: Any) -> Mixture:
    """The best chain climbed to the top of its hill, as ``settings`` of ``likelihood.ascend`` say."""
    best = chain_mixture(chains, int(chains.logliks.argmax()), bags.num_values)
    expect = partial(likelihood.e_step, bags)
    weights = best.weights if chains.known else None
    return likelihood.ascend(expect, best, average=bags.average, weights=weights, **settings).mixture


def chain_mixture(chains: Chains, chain: int, num_values: int) -> Mixture:
    """One draw as weights and laws (M, X, Z)."""
    laws = np.moveaxis(chains.tables[chain], -1, 0).reshape(chains.weights.shape[1], -1, num_values)
    return Mixture(chains.weights[chain], laws)


def drawn_mixture(chains: Chains, chain: int, evidence: RewardEvidence, sharpness: float, stream: Stream) -> Mixture:
    """Weights and laws given contexts that are drawn from a chain, sharper where much was seen.

    Laws are drawn around an even one, not around the average: what is played should still hope where little was seen.
    With a ``sharpness`` of 1 it is a draw from the posterior of such laws, given the contexts.
    """
    weights, table = chains.weights[chain].copy(), chains.tables[chain].copy()
    sizes, outcomes = np.empty(weights.size), np.empty(table.shape)
    kernels.draw_contexts(evidence.arrays, weights, table, stream, sizes, outcomes)
    values = evidence.bags.num_values
    shaped = moved_by_luck(outcomes.reshape(-1, values, weights.size), evidence.bags.occurrences)
    sharper = np.ascontiguousarray((shaped * emphasis(shaped.sum(axis=1), sharpness)[:, None]).reshape(table.shape))
    kernels.draw_laws(sizes, sharper, even_prior(chains.known, shaped.shape[0], values), stream, weights, table)
    return Mixture(weights, np.moveaxis(table, -1, 0).reshape(weights.size, -1, values))


def luck_evened(mixture: Mixture, outcomes: Floats) -> Mixture:
    """The mixture, its laws moved by as much as the averages of (X, Z) ``outcomes`` are pulled to that of the world."""
    laws = moved_by_luck(np.moveaxis(mixture.laws, 0, -1), outcomes)
    return Mixture(mixture.weights, np.ascontiguousarray(np.moveaxis(laws, -1, 0)))


def moved_by_luck(laws: Floats, outcomes: Floats) -> Floats:
    """(X, Z, M) laws of the contexts, or counts, of which each value has as much more as in the pulled average.

    What a context has at x in all stays as it is. A value that never came gets what it has in the pulled average.
    """
    total = laws.sum(axis=1, keepdims=True)
    average = shares(outcomes)
    more = (pooled_alike(outcomes) + NEVER_CAME) / (average + NEVER_CAME)
    moved = (laws + NEVER_CAME * total) * np.where(outcomes.sum(axis=1) > 0, more.T, 1.0).T[..., None]
    return np.asarray(moved * (total / np.maximum(moved.sum(axis=1, keepdims=True), kernels.LEAST_LAW)))


def emphasis(counts: Floats, sharpness: float) -> Floats:
    """What counts are multiplied by: nothing is made of the first ``AS_WIDE``, each one beyond is worth ``sharpness``.

    A few unlucky rewards must not be believed more than they deserve: nobody would try again.
    """
    beyond = np.maximum(counts - AS_WIDE, 0.0)
    return np.asarray(1.0 + (sharpness - 1.0) * beyond / np.maximum(counts, 1.0))


def _climbed(chains: Chains, bags: Bags, rng: np.random.Generator) -> likelihood.Fit:
    contexts = chains.weights.shape[1]
    weights = chains.weights[0] if chains.known else np.full(contexts, 1.0 / contexts)
    start = moment_start.random_mixture(bags.average, weights, np.ones(bags.num_points, bool), rng)
    return likelihood.ascend(
        lambda mixture: likelihood.e_step(bags, mixture),
        start,
        average=bags.average,
        weights=weights if chains.known else None,
        **CLIMB,
    )


def _placed(chains: Chains, where: NDArray[np.bool_], weights: Floats, table: Floats, loglik: float) -> Chains:
    """The chains with some of them moved to one place."""
    return replace(
        chains,
        weights=np.where(where[:, None], weights, chains.weights),
        tables=np.where(where[:, None, None], np.maximum(table, kernels.LEAST_LAW), chains.tables),
        logliks=np.where(where, loglik, chains.logliks),
    )
