"""What the model would have been, had other episodes been seen: warm climbs on episodes drawn again.

Each resample draws as many episodes with replacement, counts its own moves and starts, and climbs from the recovered
model, so the contexts keep their labels. A bootstrap cannot see what no episode went to.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Protocol

import numpy as np

from rewardmix._core.checks import Floats, as_count
from rewardmix._core.streams import Role, generator
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP
from rewardmix.recovery.evidence import evidence_of
from rewardmix.recovery.likelihood import Mixture, ascend, e_step
from rewardmix.recovery.recovery_result import Recovery, assembled


def bootstrap(
    episodes: Episodes, found: Recovery, *, resamples: int = 8, prior: float = 1.0, seed: int = 0
) -> tuple[RewardMixingMDP, ...]:
    """Models recovered from resampled episodes, contexts in the order of ``found.model``; see ``resampled``."""
    return tuple(resampled(episodes, found, resamples=resamples, prior=prior, seed=seed))


def resampled(
    episodes: Episodes, found: Recovery, *, resamples: int = 8, prior: float = 1.0, seed: int = 0
) -> Iterator[RewardMixingMDP]:
    """The same models one after the other, each when it is asked for.

    Args:
        episodes: those that ``found`` was recovered from.
        found: where the climbs begin; weights that were estimated are estimated again.
        resamples: how many.
        prior: pseudo-count, as for ``recover``.
        seed: of the draws.
    """
    count = as_count("resamples", resamples)
    rng = generator(seed, Role.RESAMPLES)
    early = (episodes.lengths < episodes.horizon).any()
    ended = early and found.model.num_states > episodes.num_states  # then each resample needs an early end as well
    start = mixture_of_model(found.model, episodes)
    average = (start.weights[:, None, None] * start.laws).sum(axis=0)  # some episodes may have followed rewards
    for _ in range(count):
        drawn = _drawn(episodes, rng)
        while ended and (drawn.lengths == drawn.horizon).all():
            drawn = _drawn(episodes, rng)
        yield refitted(drawn, found.model, weights=found.fixed_weights, prior=prior, average=average)


def _drawn(episodes: Episodes, rng: np.random.Generator) -> Episodes:
    return episodes[np.sort(rng.integers(len(episodes), size=len(episodes)))]


def refitted(
    episodes: Episodes,
    model: RewardMixingMDP,
    *,
    weights: Floats | None = None,
    prior: float = 1.0,
    average: Floats | None = None,
) -> RewardMixingMDP:
    """The model of other episodes of the same world, by EM from ``model``.

    Args:
        episodes: the other episodes.
        model: where EM begins.
        weights: if they are known.
        prior: pseudo-count, as for ``recover``.
        average: (X, Z) law that the prior pulls to, if it is not to be that of these episodes.
    """
    evidence, start = evidence_of(episodes), mixture_of_model(model, episodes)
    bags = evidence.bags
    assert bags is not None
    average = bags.average if average is None else average
    fit = ascend(
        partial(e_step, bags),
        Mixture(start.weights, 0.99 * start.laws + 0.01 * average),  # off the boundary, where EM would stay
        average=average,
        prior=prior,
        weights=weights,
        tolerance=1e-8,
    )
    return assembled(evidence.confidence, fit.mixture)


class Seen(Protocol):
    """What was seen: episodes, or a log of them."""

    @property
    def num_states(self) -> int:
        """S."""

    @property
    def reward_values(self) -> Floats:
        """(Z,)."""


def mixture_of_model(model: RewardMixingMDP, seen: Seen) -> Mixture:
    """The reward laws of a recovered model on the states and reward values that were seen: without an added end."""
    places = np.searchsorted(model.reward_values, seen.reward_values)
    laws = model.laws[:, : seen.num_states][..., places]
    return Mixture(model.weights, np.ascontiguousarray(laws.reshape(model.num_contexts, -1, places.size)))
