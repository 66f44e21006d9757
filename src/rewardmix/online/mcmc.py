"""Sample the posterior of a mixture of reward distributions by Markov chain Monte Carlo (MCMC).

The chains are updated as episodes arrive.

    weights  w ~ Dirichlet(5, ..., 5) unless they are known       rewards  p_m(. | x) ~ Dirichlet(Z c(x))
    rewards  of an episode: type m ~ w, then z_t ~ p_m(. | x_t)

c(x) is the marginal reward distribution at x, shrunk towards the uniform one: types may differ anywhere, and agreement
costs nothing. Under a uniform prior each type pays for its own distribution at every x. Where most state-actions never
give a reward, a single type with all the weight would then become the more likely the more episodes are observed.

A chain is a draw (w, p). Types of episodes are drawn within a sweep and discarded, so that a chain does not grow with
the data. Two moves leave the posterior invariant:

    sweep   Gibbs: types given (w, p), then (w, p) given types. It cannot change from one assignment of signs to
            another, because episodes fit neither halfway
    flip    Metropolis: swap the distributions of two types on a block of state-actions, types summed out. It can

Policies are planned in mixtures that are shrunk to a pooled mean (``shrink_mixture``). If the state-actions of an
environment have about equal mean rewards, one with low rewards in its first tries was probably unlucky. Without
shrinkage the agent would give it up, and with it what its rewards reveal about the type.

``update_chains`` adds two heuristics that make few chains useful early, at the price of exactness: a chain far below
the best one is replaced by it, and the worst one is restarted from a maximum of the likelihood whenever the data have
grown by half. The moves alone (``run_mcmc_moves``) are exact; tests compare them with enumeration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.random_streams import Role, make_generator
from rewardmix.online import mcmc_kernels as kernels
from rewardmix.online.mcmc_kernels import CoOccurrence, PatternArrays, Prior
from rewardmix.recovery import likelihood, moment_init
from rewardmix.recovery.hierarchical_prior import shrink_to_pooled
from rewardmix.recovery.likelihood import Mixture
from rewardmix.recovery.reward_patterns import RewardPatterns, normalize_counts

Stream = NDArray[np.uint64]

NUM_CHAINS = 3
"""Number of chains of an agent."""

REWARD_PRIOR_COUNT, WEIGHT_PRIOR_COUNT = 1.0, 5.0
"""Dirichlet prior counts, for each reward value and for each type. The count of the weights keeps an unused type
available.
"""

SHRINKAGE_COUNT = 10.0
"""Pseudocount of each reward value in c(x): after a few unlucky rewards an action has not shown its distribution
yet.
"""

MIN_SWEEPS, MIN_FLIPS = 5, 5
"""Smallest number of moves of each kind in an update."""

SWEEP_WORK = 30_000
"""With few distinct episodes there are more sweeps: until a chain has read about so many symbols and drawn so many
entries.
"""

MAX_SWEEPS = 300
"""Largest number of sweeps in an update."""

SINGLE_FLIP_SHARE = 0.3
"""Fraction of flips that move a single state-action."""

MIN_SHARE = 1e-9
"""Share of a reward value that was never observed, where shares are divided."""

SHARPENING_START = 30.0
"""Number of rewards of a state-action and type up to which a sample that is played is as wide as the posterior."""

RESTART_GROWTH = 1.5
"""Growth of the number of episodes after which the worst chain is restarted."""

RESTART_ASCENTS = 3
"""Number of random starts of EM for a restart."""

ASCENT_OPTIONS: dict[str, Any] = {"max_iterations": 60, "tolerance": 1e-6}
"""Options of EM while the agent replans: nearly converged is enough."""


@dataclass(frozen=True, eq=False)
class MarkovChains:
    """Hold the current states of the Markov chains, each a draw from the posterior.

    Attributes:
        weights: (C, M) type weights.
        probs: (C, X*Z, M) reward probabilities, in the layout of the kernels.
        logliks: (C,) log-likelihood of each chain for the data of the last update.
        last_restart: Number of episodes at which the worst chain was last restarted.
        weights_known: Whether the weights were given.
    """

    weights: Floats
    probs: Floats
    logliks: Floats
    last_restart: float
    weights_known: bool

    @property
    def num_chains(self) -> int:
        """Number of chains C."""
        return int(self.logliks.size)


@dataclass(frozen=True, eq=False)
class RewardData:
    """Hold the data of the reward posterior: reward patterns and co-occurrence counts.

    Attributes:
        patterns: Merged reward patterns.
        co_counts: (X, X) number of episodes with both state-actions, symmetric.
    """

    patterns: RewardPatterns
    co_counts: NDArray[np.int64]

    @property
    def arrays(self) -> PatternArrays:
        """Patterns in the layout of the kernels."""
        return PatternArrays(self.patterns.symbols, self.patterns.offsets, self.patterns.counts)

    @property
    def co_occurrence(self) -> CoOccurrence:
        """Co-occurrence counts from which flips choose their blocks."""
        others = self.co_counts.copy()
        np.fill_diagonal(others, 0)
        return CoOccurrence(self.co_counts, others.max(axis=1), SINGLE_FLIP_SHARE)


def make_prior(weights_known: bool, reward_counts: Floats) -> Prior:
    """Make the prior around the marginal rewards, from reward counts (X, Z).

    Without rewards it is uniform. The weights have a prior unless they are known.
    """
    center = normalize_counts(reward_counts + SHRINKAGE_COUNT)
    num_values = reward_counts.shape[1]
    return Prior(
        np.ascontiguousarray((REWARD_PRIOR_COUNT * num_values * center).ravel()),
        0.0 if weights_known else WEIGHT_PRIOR_COUNT,
        num_values,
    )


def make_uniform_prior(weights_known: bool, num_state_actions: int, num_values: int) -> Prior:
    """Make the prior of an environment in which no reward was observed yet."""
    return make_prior(weights_known, np.zeros((num_state_actions, num_values)))


def sample_prior_chains(
    num_state_actions: int,
    num_values: int,
    num_types: int,
    weights: Floats | None,
    stream: Stream,
    num_chains: int = NUM_CHAINS,
) -> MarkovChains:
    """Draw chains from the prior."""
    initial_weights = np.full(num_types, 1.0 / num_types) if weights is None else weights
    chain_weights = np.tile(initial_weights, (num_chains, 1))
    tables = np.empty((num_chains, num_state_actions * num_values, num_types))
    sizes, reward_counts = np.zeros(num_types), np.zeros(tables.shape[1:])
    prior = make_uniform_prior(weights is not None, num_state_actions, num_values)
    for chain in range(num_chains):
        kernels.draw_weights_and_probs(sizes, reward_counts, prior, stream, chain_weights[chain], tables[chain])
    return MarkovChains(chain_weights, tables, np.zeros(num_chains), 0.0, weights is not None)


def start_chains_at(mixture: Mixture, num_chains: int = NUM_CHAINS) -> MarkovChains:
    """Start all chains at one mixture with unknown weights."""
    # A probability of exactly 0 would make a reward impossible for this chain for good; the kernels have a floor
    # instead.
    table = np.maximum(np.moveaxis(mixture.probs, 0, -1).reshape(-1, mixture.num_types), kernels.MIN_TABLE_PROB)
    tables = np.ascontiguousarray(np.tile(table, (num_chains, 1, 1)))
    return MarkovChains(np.tile(mixture.weights, (num_chains, 1)), tables, np.zeros(num_chains), 0.0, False)


def run_mcmc_moves(
    chains: MarkovChains, evidence: RewardData, prior: Prior, sweeps: int, flips: int, stream: Stream
) -> MarkovChains:
    """Run Markov chain Monte Carlo moves: ``sweeps`` sweeps, with ``flips`` flips spread over them.

    The moves are exact: they leave the posterior invariant.
    """
    weights, tables = chains.weights.copy(), chains.probs.copy()
    logliks = np.empty(chains.num_chains)
    patterns, co_occurrence = evidence.arrays, evidence.co_occurrence
    for c in range(chains.num_chains):
        logliks[c] = kernels.run_chain(patterns, co_occurrence, prior, sweeps, flips, stream, weights[c], tables[c])
    return replace(chains, weights=weights, probs=tables, logliks=logliks)


def update_chains(chains: MarkovChains, evidence: RewardData, stream: Stream) -> MarkovChains:
    """Update the chains with the data; the result is approximate, as chains may be restarted or replaced."""
    if evidence.patterns.num_episodes >= RESTART_GROWTH * max(chains.last_restart, 1.0):
        # The seed is the state of the stream, which does not advance: a stored agent needs no second stream.
        rng = make_generator(stream.tolist(), Role.RESEEDED_CHAINS)
        chains = restart_worst_chain(chains, evidence, rng)
    # Sweeps over few distinct patterns are cheap, and early on the chains have to travel farthest.
    sweeps = max(MIN_SWEEPS, min(MAX_SWEEPS, SWEEP_WORK // (evidence.patterns.symbols.size + chains.probs[0].size)))
    prior = make_prior(chains.weights_known, evidence.patterns.reward_counts)
    chains = run_mcmc_moves(chains, evidence, prior, sweeps, sweeps * MIN_FLIPS // MIN_SWEEPS, stream)
    return replace_low_chains(chains, evidence)


def replace_low_chains(chains: MarkovChains, evidence: RewardData) -> MarkovChains:
    """Replace chains far below the best one by copies of it.

    Under the posterior the log-likelihood varies by about sqrt(d/2) nats, d the number of free parameters that were
    observed. A chain more than 5 + 3 sqrt(d/2) nats below the best is stuck at another local maximum.
    """
    num_observed = int((evidence.patterns.reward_counts.sum(axis=1) > 0).sum())
    num_free = chains.weights.shape[1] * num_observed * (evidence.patterns.num_reward_values - 1)
    best = int(chains.logliks.argmax())
    is_low = chains.logliks < chains.logliks[best] - 5.0 - 3.0 * math.sqrt(num_free / 2)
    return _set_chains(chains, is_low, chains.weights[best], chains.probs[best], float(chains.logliks[best]))


def restart_worst_chain(chains: MarkovChains, evidence: RewardData, rng: np.random.Generator) -> MarkovChains:
    """Restart the worst chain at the best of several EM runs, if that has a higher likelihood."""
    patterns = evidence.patterns
    states = zip(chains.weights, chains.probs, strict=True)
    logliks = np.array([kernels.log_likelihood(evidence.arrays, *state) for state in states])
    chains = replace(chains, logliks=logliks, last_restart=patterns.num_episodes)
    # The objective contains the prior; the comparison with chains below uses the likelihood, which is what chains
    # store.
    fit = max(
        (_ascend_from_random(chains, patterns, rng) for _ in range(RESTART_ASCENTS)),
        key=lambda best_fit: best_fit.objective,
    )
    worst = int(logliks.argmin())
    if fit.loglik <= logliks[worst]:
        return chains
    table = np.ascontiguousarray(np.moveaxis(fit.mixture.probs, 0, -1).reshape(chains.probs.shape[1:]))
    return _set_chains(chains, np.arange(logliks.size) == worst, fit.mixture.weights, table, fit.loglik)


def find_map_mixture(chains: MarkovChains, patterns: RewardPatterns, **em_options: Any) -> Mixture:
    """Run EM from the best chain to the maximum-a-posteriori mixture; ``em_options`` go to ``likelihood.run_em``."""
    best = get_chain_mixture(chains, int(chains.logliks.argmax()), patterns.num_reward_values)
    e_step = partial(likelihood.e_step, patterns)
    weights = best.weights if chains.weights_known else None
    return likelihood.run_em(e_step, best, prior_mean=patterns.marginal_probs, weights=weights, **em_options).mixture


def get_chain_mixture(chains: MarkovChains, chain: int, num_values: int) -> Mixture:
    """Return one chain as weights and reward probabilities (M, X, Z)."""
    probs = np.moveaxis(chains.probs[chain], -1, 0).reshape(chains.weights.shape[1], -1, num_values)
    return Mixture(chains.weights[chain], probs)


def sample_mixture(chains: MarkovChains, chain: int, evidence: RewardData, sharpness: float, stream: Stream) -> Mixture:
    """Sample weights and reward probabilities given types that are drawn from a chain, sharper where counts are large.

    The prior here is uniform, not centered at the marginal rewards: samples must stay optimistic where few rewards were
    observed. With ``sharpness`` 1 it is a posterior sample under that prior, given the types.
    """
    weights, table = chains.weights[chain].copy(), chains.probs[chain].copy()
    sizes, reward_counts = np.empty(weights.size), np.empty(table.shape)
    kernels.draw_types(evidence.arrays, weights, table, stream, sizes, reward_counts)
    values = evidence.patterns.num_reward_values
    # Counts are shrunk before they are sharpened: otherwise bad luck in the first tries would be amplified.
    shrunk_counts = shrink_to_pooled_mean(
        reward_counts.reshape(-1, values, weights.size), evidence.patterns.reward_counts
    )
    sharpened_counts = np.ascontiguousarray(
        (shrunk_counts * sharpening_factors(shrunk_counts.sum(axis=1), sharpness)[:, None]).reshape(table.shape)
    )
    prior = make_uniform_prior(chains.weights_known, shrunk_counts.shape[0], values)
    kernels.draw_weights_and_probs(sizes, sharpened_counts, prior, stream, weights, table)
    return Mixture(weights, np.moveaxis(table, -1, 0).reshape(weights.size, -1, values))


def shrink_mixture(mixture: Mixture, reward_counts: Floats) -> Mixture:
    """Shrink the reward probabilities of a mixture as the marginals of reward counts (X, Z) are shrunk.

    Marginals are shrunk to the pooled mean of all state-actions (``hierarchical_prior``).
    """
    probs = shrink_to_pooled_mean(np.moveaxis(mixture.probs, 0, -1), reward_counts)
    return Mixture(mixture.weights, np.ascontiguousarray(np.moveaxis(probs, -1, 0)))


def shrink_to_pooled_mean(probs: Floats, reward_counts: Floats) -> Floats:
    """Rescale the values of reward probabilities or counts (X, Z, M) by the ratio of shrunk to observed marginals.

    The total of a type at x is unchanged. A reward value that was never observed gets its share in the shrunk marginal.
    """
    total = probs.sum(axis=1, keepdims=True)
    marginals = normalize_counts(reward_counts)
    # The small constant keeps the ratio finite where a value was never observed; there it lets the shrunk share
    # through.
    ratio = (shrink_to_pooled(reward_counts) + MIN_SHARE) / (marginals + MIN_SHARE)
    rescaled = (probs + MIN_SHARE * total) * np.where(reward_counts.sum(axis=1) > 0, ratio.T, 1.0).T[..., None]
    return np.asarray(rescaled * (total / np.maximum(rescaled.sum(axis=1, keepdims=True), kernels.MIN_TABLE_PROB)))


def sharpening_factors(counts: Floats, sharpness: float) -> Floats:
    """Compute the factors by which counts are multiplied before sampling.

    Counts up to ``SHARPENING_START`` stay as they are; each further one counts ``sharpness`` times. If few unlucky
    rewards were sharpened, the agent would never try the action again.
    """
    excess = np.maximum(counts - SHARPENING_START, 0.0)
    return np.asarray(1.0 + (sharpness - 1.0) * excess / np.maximum(counts, 1.0))


def _ascend_from_random(chains: MarkovChains, patterns: RewardPatterns, rng: np.random.Generator) -> likelihood.EMFit:
    """Run EM from a random mixture around the marginal rewards."""
    num_types = chains.weights.shape[1]
    weights = chains.weights[0] if chains.weights_known else np.full(num_types, 1.0 / num_types)
    init = moment_init.random_mixture(patterns.marginal_probs, weights, np.ones(patterns.num_state_actions, bool), rng)
    return likelihood.run_em(
        lambda mixture: likelihood.e_step(patterns, mixture),
        init,
        prior_mean=patterns.marginal_probs,
        weights=weights if chains.weights_known else None,
        **ASCENT_OPTIONS,
    )


def _set_chains(
    chains: MarkovChains, mask: NDArray[np.bool_], weights: Floats, table: Floats, loglik: float
) -> MarkovChains:
    """Set the chains marked in ``mask`` to one state."""
    return replace(
        chains,
        weights=np.where(mask[:, None], weights, chains.weights),
        probs=np.where(mask[:, None, None], np.maximum(table, kernels.MIN_TABLE_PROB), chains.probs),
        logliks=np.where(mask, loglik, chains.logliks),
    )
