"""How many contexts there are, by what they said of episodes before these were seen (prequential likelihood).

    whenever the episodes have doubled:
        for M = 2, 3, ...:   gain of M = what M contexts, fitted then, say of the episodes since, above those now sure
        M is sure where that is clear (CLEAR standard errors); where it is open one more is taken; then no further
        fit all of them, and one more, to all episodes: the forecasts of the next doubling

One context too few loses reward for ever and one too many next to nothing: in doubt one more. What was said at earlier
doublings is not added up: early on a context too many costs more than it tells, and that would be held against it long
after.
"""

from __future__ import annotations

import math

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.streams import Role, generator
from rewardmix.online.posterior import Chains, chains_at
from rewardmix.recovery import likelihood, moment_start
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.likelihood import Mixture

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
    numbers = range(FEWEST_CONTEXTS, min(now + 1, MOST_CONTEXTS) + 1)
    return tuple(fit_mixture(bags, np.full(m, 1.0 / m), known.get(m), rng) for m in numbers)


def fit_mixture(
    bags: Bags, weights: Floats, before: Mixture | None, rng: np.random.Generator, *, known: bool = False
) -> Mixture:
    """The most likely laws and, unless they are ``known``, weights: from random starts and from where they were."""
    seen = bags.occurrences + 1.0
    centre = seen / seen.sum(axis=1, keepdims=True)  # what was seen once or twice may turn out otherwise
    free = np.ones(bags.num_points, bool)
    starts = [moment_start.random_mixture(centre, weights, free, rng) for _ in range(CLIMBS_OF_FITS)]
    starts += [] if before is None else [before]
    fits = [
        likelihood.ascend(
            lambda mixture: likelihood.e_step(bags, mixture),
            start,
            average=centre,
            weights=weights if known else None,
            max_iterations=200,
            tolerance=1e-7,
        )
        for start in starts
    ]
    return max(fits, key=lambda fit: fit.objective).mixture
