"""The bootstrap: what the model would have been, had other episodes been seen.

Each resample draws episodes with replacement, counts its own moves and starts, and ascends the likelihood from the
recovered model, so the contexts keep their labels. A bootstrap cannot see what no episode went to.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats, as_count
from rewardmix._core.streams import Role, generator
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.recovery.bags import bags_of, merge_bags
from rewardmix.recovery.likelihood import Mixture, ascend, e_step
from rewardmix.recovery.moment_start import random_mixture
from rewardmix.recovery.recovery_result import Recovered, Seen, assembled


def bootstrap(
    episodes: Episodes, found: Recovered, *, resamples: int = 8, prior: float = 1.0, seed: int = 0
) -> tuple[RewardMixingMDP, ...]:
    """Models recovered from resampled episodes, contexts in the order of ``found.model``; see ``resampled``."""
    return tuple(resampled(episodes, found, resamples=resamples, prior=prior, seed=seed))


def resampled(
    episodes: Episodes,
    found: Recovered,
    *,
    resamples: int = 8,
    prior: float = 1.0,
    seed: int = 0,
    elsewhere: int = 0,
) -> Iterator[RewardMixingMDP]:
    """Models of as many episodes as there are, drawn with replacement, each when it is asked for.

    The prior pulls to the average of the recovered model: some of the episodes may have followed rewards.

    Args:
        episodes: those that ``found`` was recovered from.
        found: where the ascents begin; weights that were estimated are estimated again.
        resamples: how many.
        prior: pseudo-count, as for ``recover``.
        seed: of the draws.
        elsewhere: random starts beside the recovered model. Without them every resample stays on its hill of the
            likelihood, and contexts keep their labels; with them the best hill of each resample is found.
    """
    start = mixture_of_model(found.model, episodes)
    average = (start.weights[:, None, None] * start.laws).sum(axis=0)
    rng = generator(seed, Role.RESAMPLES)
    return refits(episodes, found, rng, resamples, prior=prior, elsewhere=elsewhere, average=average)


def refits(
    episodes: Episodes,
    found: Recovered,
    rng: np.random.Generator,
    resamples: int,
    *,
    size: int | None = None,
    prior: float = 1.0,
    average: Floats | None = None,
    elsewhere: int = 0,
) -> Iterator[RewardMixingMDP]:
    """Resample and refit: every bootstrap of the package.

    Where the model has an end, so has each resample; if none of the episodes ended early there are none.

    Args:
        episodes: what is drawn from.
        found: where the ascents begin; only weights that were estimated are estimated again.
        rng: of the draws.
        resamples: how many.
        size: episodes of each; as many as there are if left out.
        prior: pseudo-count, as for ``recover``.
        average: (X, Z) law that the prior pulls to; left out, that of each resample.
        elsewhere: random starts of each ascent, beside the model that was found.
    """
    count, size = as_count("resamples", resamples), len(episodes) if size is None else size
    early = episodes.lengths < episodes.horizon
    ended = found.model.num_states > episodes.num_states
    for _ in range(0 if ended and not early.any() else count):
        drawn = np.sort(rng.integers(len(episodes), size=size))
        while ended and not early[drawn].any():
            drawn = np.sort(rng.integers(len(episodes), size=size))
        settings: dict[str, Any] = {"average": average, "elsewhere": (rng, elsewhere)}
        yield refitted(episodes[drawn], found.model, weights=found.fixed_weights, prior=prior, **settings)


def refitted(
    episodes: Episodes,
    model: RewardMixingMDP,
    *,
    weights: Floats | None = None,
    prior: float = 1.0,
    average: Floats | None = None,
    elsewhere: tuple[np.random.Generator, int] | None = None,
) -> RewardMixingMDP:
    """The model of other episodes of the same world, by EM from ``model``.

    Args:
        episodes: the other episodes.
        model: where EM begins.
        weights: if they are known.
        prior: pseudo-count, as for ``recover``.
        average: (X, Z) law that the prior pulls to, if it is not to be that of these episodes.
        elsewhere: what random starts are drawn from, and how many there are beside ``model``.
    """
    bags, start, moves = merge_bags(bags_of(episodes)), mixture_of_model(model, episodes), Moments.of_moves(episodes)
    average = bags.average if average is None else average
    starts = [Mixture(start.weights, 0.99 * start.laws + 0.01 * average)]  # off the boundary, where EM would stay
    if elsewhere is not None:
        rng, count = elsewhere
        everywhere = np.ones(average.shape[0], bool)
        starts += [random_mixture(average, start.weights, everywhere, rng) for _ in range(count)]
    settings: dict[str, Any] = {"average": average, "prior": prior, "weights": weights, "tolerance": 1e-8}
    fits = [ascend(partial(e_step, bags), mixture, **settings) for mixture in starts]
    fit = max(fits, key=lambda fit: fit.objective)
    return assembled(episodes, fit.mixture, moves.initial_estimate(), moves.transition_estimate()[0])


def mixture_of_model(model: RewardMixingMDP, seen: Seen) -> Mixture:
    """The reward laws of a recovered model on the states and reward values that were seen: without an added end."""
    places = np.searchsorted(model.reward_values, seen.reward_values)
    laws = model.laws[:, : seen.num_states][..., places]
    return Mixture(model.weights, np.ascontiguousarray(laws.reshape(model.num_contexts, -1, places.size)))
