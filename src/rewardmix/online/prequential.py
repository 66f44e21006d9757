"""How many contexts there are, by what they said of episodes before these were seen (prequential likelihood).

    whenever the episodes have doubled:
        for M = 2, 3, ...:   gain of M = what M contexts, fitted then, say of the episodes since, above those now sure
        M is sure where that is clear (CLEAR standard errors); where it is open one more is taken; then no further
        fit all of them, and one more, to all episodes: the forecasts of the next doubling; where one more context is
        hardly more likely, its fit begins as a rare one too

One context too few loses reward for ever and one too many next to nothing: in doubt one more. What was said at earlier
doublings is not added up: early on a context too many costs more than it tells, and that would be held against it long
after.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.streams import Role, generator
from rewardmix.online.posterior import Chains, chains_at
from rewardmix.recovery import likelihood, moment_start
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.likelihood import Fit, Mixture
from rewardmix.recovery.rare_start import rare_ascents, rare_draws

FEWEST_CONTEXTS, MOST_CONTEXTS = 2, 6
"""Numbers of contexts that are thought of."""

CLEAR = 2.0
"""Standard errors of a gain that is clear. It is open down to minus one."""

CLIMBS_OF_FITS = 3
"""Random starts of the likelihood, beside where it was before."""

Forecasts = tuple[Mixture, ...]
"""What 2, 3, ... contexts look like, the most likely of each."""


def chosen_chains(chains: Chains, recent: Bags, forecasts: Forecasts) -> Chains:
    """The chains with the number of contexts that best said what came; the same ones if that has not changed."""
    now = chains.weights.shape[1]
    number = best_number(recent, forecasts) if forecasts else now
    if number == now:
        return chains
    return chains_at(forecasts[number - FEWEST_CONTEXTS], chains.number)


def best_number(recent: Bags, forecasts: Forecasts) -> int:
    """As many contexts as clearly say more of what came than fewer do, and one more where that is open."""
    scores = [likelihood.logliks(recent, mixture) for mixture in forecasts]
    sure = number = 0
    for more in range(1, len(scores)):
        gain, error = _gain(scores[more] - scores[sure], recent.counts)
        if gain > CLEAR * error:
            sure = number = more
        elif number == sure and gain > -error:
            number = more
        else:
            break
    return FEWEST_CONTEXTS + number


def _gain(differences: Floats, counts: Floats) -> tuple[float, float]:
    """Mean of differences that were seen so often, and its standard error."""
    total = float(counts.sum())
    mean = float((differences * counts).sum()) / total
    return mean, math.sqrt(float(((differences - mean) ** 2 * counts).sum())) / total


def new_forecasts(bags: Bags, now: int, before: Forecasts, seed: int) -> Forecasts:
    """Fits of 2 contexts up to one more than ``now``, each also from where it was before."""
    rng = generator(seed, Role.FORECASTS, int(bags.total))
    known = dict(enumerate(before, FEWEST_CONTEXTS))
    fewer = likelihood.e_step(bags, likelihood.one_context(bags)).loglik
    out = []
    for m in range(FEWEST_CONTEXTS, min(now + 1, MOST_CONTEXTS) + 1):
        fit = _climbed(bags, np.full(m, 1.0 / m), known.get(m), rng)
        rare = rare_ascents(bags, fit, fewer, rare_draws(seed, int(bags.total), m), **_settings(bags))
        fit = max([fit, *rare], key=lambda fit: fit.objective)
        fewer = fit.loglik
        out.append(fit.mixture)
    return tuple(out)


def fit_mixture(
    bags: Bags, weights: Floats, before: Mixture | None, rng: np.random.Generator, *, known: bool = False
) -> Mixture:
    """The most likely laws and, unless they are ``known``, weights: from random starts and from where they were."""
    return _climbed(bags, weights, before, rng, known=known).mixture


def _climbed(
    bags: Bags, weights: Floats, before: Mixture | None, rng: np.random.Generator, *, known: bool = False
) -> Fit:
    """The best of these ascents."""
    settings = _settings(bags)
    free = np.ones(bags.num_points, bool)
    starts = [moment_start.random_mixture(settings["average"], weights, free, rng) for _ in range(CLIMBS_OF_FITS)]
    starts += [] if before is None else [before]
    expect = partial(likelihood.e_step, bags)
    fits = [likelihood.ascend(expect, start, weights=weights if known else None, **settings) for start in starts]
    return max(fits, key=lambda fit: fit.objective)


def _settings(bags: Bags) -> dict[str, Any]:
    """Of every ascent: laws are pulled to the average of what was seen, and what was seen little may turn out else."""
    seen = bags.occurrences + 1.0
    return {"average": seen / seen.sum(axis=1, keepdims=True), "max_iterations": 200, "tolerance": 1e-7}
