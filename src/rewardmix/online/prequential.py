"""Select the number of types by prequential likelihood: how well earlier fits predict new episodes.

    whenever the number of episodes has doubled:
        for M = 2, 3, ...:   gain of M = log-likelihood of the new episodes under the earlier fit of M types, minus
                             that of the number selected with certainty so far
        M is certain if its gain exceeds CLEAR_GAIN_STD standard errors; where it is undecided one more type is taken,
        and larger numbers are not examined
        refit all of them, and one more, to all episodes: forecasts of the next doubling; if one more type is hardly
        more likely, its fit also starts from a rare type

One type too few loses reward in every episode and one too many next to nothing; in doubt one more is taken. Gains of
earlier doublings are not added up: early on a superfluous type costs more likelihood than it gains, and that would
count against it long after.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.random_streams import Role, make_generator
from rewardmix.online.mcmc import MarkovChains, start_chains_at
from rewardmix.recovery import likelihood, moment_init
from rewardmix.recovery.likelihood import EMFit, Mixture
from rewardmix.recovery.rare_type_init import make_rare_rng, run_em_rare
from rewardmix.recovery.reward_patterns import RewardPatterns

MIN_TYPES, MAX_TYPES = 2, 6
"""Smallest and largest number of types that are considered."""

CLEAR_GAIN_STD = 2.0
"""Standard errors above which a gain is certain; down to minus one standard error it is undecided."""

NUM_RANDOM_STARTS = 3
"""Number of random starts of EM, in addition to the earlier fit."""

Forecasts = tuple[Mixture, ...]
"""Most likely mixtures of 2, 3, ... types."""


def select_chains(chains: MarkovChains, recent: RewardPatterns, forecasts: Forecasts) -> MarkovChains:
    """Return chains with the number of types that best predicted recent episodes; unchanged if it is as before."""
    num_types = chains.weights.shape[1]
    best_num_types = select_num_types_prequential(recent, forecasts) if forecasts else num_types
    if best_num_types == num_types:
        return chains
    return start_chains_at(forecasts[best_num_types - MIN_TYPES], chains.num_chains)


def select_num_types_prequential(recent: RewardPatterns, forecasts: Forecasts) -> int:
    """Select the smallest number of types whose gain is certain, plus one where more is undecided."""
    scores = [likelihood.log_likelihoods(recent, mixture) for mixture in forecasts]
    sure = number = 0
    # Consecutive numbers are compared with the last certain one; the search stops at the first that clearly does not
    # help.
    for more in range(1, len(scores)):
        gain, error = _mean_gain(scores[more] - scores[sure], recent.counts)
        if gain > CLEAR_GAIN_STD * error:
            sure = number = more
        elif number == sure and gain > -error:
            number = more
        else:
            break
    return MIN_TYPES + number


def _mean_gain(differences: Floats, counts: Floats) -> tuple[float, float]:
    """Return the weighted mean of differences and its standard error."""
    total = float(counts.sum())
    mean = float((differences * counts).sum()) / total
    return mean, math.sqrt(float(((differences - mean) ** 2 * counts).sum())) / total


def fit_forecasts(patterns: RewardPatterns, num_types: int, before: Forecasts, seed: int) -> Forecasts:
    """Fit mixtures of 2 types up to one more than ``num_types``, each also from its earlier fit."""
    rng = make_generator(seed, Role.FORECASTS, int(patterns.num_episodes))
    previous = dict(enumerate(before, MIN_TYPES))
    fewer_types_loglik = likelihood.e_step(patterns, likelihood.single_type_mixture(patterns)).loglik
    forecasts = []
    for count in range(MIN_TYPES, min(num_types + 1, MAX_TYPES) + 1):
        fit = _best_ascent(patterns, np.full(count, 1.0 / count), previous.get(count), rng)
        # EM from random starts rarely finds a type of few episodes; these starts give the additional type a small
        # weight.
        rare_rng = make_rare_rng(seed, int(patterns.num_episodes), count)
        rare = run_em_rare(patterns, fit, fewer_types_loglik, rare_rng, **_ascent_options(patterns))
        fit = max([fit, *rare], key=lambda fit: fit.objective)
        fewer_types_loglik = fit.loglik
        forecasts.append(fit.mixture)
    return tuple(forecasts)


def fit_mixture(
    patterns: RewardPatterns,
    weights: Floats,
    before: Mixture | None,
    rng: np.random.Generator,
    *,
    weights_known: bool = False,
) -> Mixture:
    """Fit a mixture by EM from random starts and from an earlier fit; known weights stay fixed."""
    return _best_ascent(patterns, weights, before, rng, weights_known=weights_known).mixture


def _best_ascent(
    patterns: RewardPatterns,
    weights: Floats,
    before: Mixture | None,
    rng: np.random.Generator,
    *,
    weights_known: bool = False,
) -> EMFit:
    """Return the EM fit with the highest objective among random starts and the earlier fit."""
    em_options = _ascent_options(patterns)
    is_free = np.ones(patterns.num_state_actions, bool)
    prior_mean = em_options["prior_mean"]
    starts = [moment_init.random_mixture(prior_mean, weights, is_free, rng) for _ in range(NUM_RANDOM_STARTS)]
    starts += [] if before is None else [before]
    e_step = partial(likelihood.e_step, patterns)
    fits = [
        likelihood.run_em(e_step, start, weights=weights if weights_known else None, **em_options) for start in starts
    ]
    return max(fits, key=lambda fit: fit.objective)


def _ascent_options(patterns: RewardPatterns) -> dict[str, Any]:
    """Return the EM options: shrinkage to the marginal rewards with one pseudocount per value, and stopping rules."""
    smoothed_counts = patterns.reward_counts + 1.0
    prior_mean = smoothed_counts / smoothed_counts.sum(axis=1, keepdims=True)
    return {"prior_mean": prior_mean, "max_iterations": 200, "tolerance": 1e-7}
