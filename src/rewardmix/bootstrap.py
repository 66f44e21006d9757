"""How much a policy may lose, by the bootstrap: resample episodes, fit again, and judge the policy in each fit.

Each resample draws as many episodes as there are, with replacement; EM goes on from the model at hand (a warm start);
moves and starts are estimated anew. The regret of the policy in such a model is exact: value of its best policy less
value of the controller. On average it follows the true regret within a factor of about two. It cannot see rooms that
no episode ever entered: that is what the uncertainty V_0 is for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rewardmix._check import Floats, as_count
from rewardmix.episodes import Episodes
from rewardmix.evaluation import controller_value
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.planning import plan
from rewardmix.policy import Controller
from rewardmix.recovery.confidence import confidence_set
from rewardmix.recovery.likelihood import Mixture, climb, statistics
from rewardmix.recovery.patterns import merged, patterns
from rewardmix.recovery.result import assembled


@dataclass(frozen=True, eq=False)
class BootstrapRegret:
    """Regret of a policy over resampled models.

    Attributes:
        mean: average over resamples.
        upper: the largest.
        regrets: (R,) one for each resample.
    """

    mean: float
    upper: float
    regrets: Floats


def bootstrap_regret(
    episodes: Episodes,
    model: RewardMixingMDP,
    policy: Controller,
    *,
    weights: Floats | None = None,
    prior: float = 1.0,
    resamples: int = 8,
    gap: float = 1e-3,
    seed: int = 0,
    on_update: Callable[[int], None] | None = None,
) -> BootstrapRegret:
    """Regret of ``policy`` in models fitted to resampled episodes.

    Args:
        episodes: what the model was recovered from.
        model: the recovered model, where every fit starts.
        policy: to be judged.
        weights: (M,) if they were known.
        prior: pseudo-count of the fits, as in recovery.
        resamples: R.
        gap: of the plans that the policy is compared with.
        seed: of the resamples.
        on_update: called with the number of resamples done.
    """
    rng = np.random.default_rng([seed, 8])
    regrets = []
    for done in range(as_count("resamples", resamples)):
        drawn = episodes[np.sort(rng.integers(len(episodes), size=len(episodes)))]
        other = refitted(drawn, model, weights=weights, prior=prior)
        if other.num_states == model.num_states:  # not so only if no episode of the resample ended early
            regrets.append(max(plan(other, gap=gap).upper - controller_value(policy, other), 0.0))
        if on_update:
            on_update(done + 1)
    array = np.array(regrets)
    return BootstrapRegret(float(array.mean()), float(array.max()), array)


def refitted(
    episodes: Episodes, model: RewardMixingMDP, *, weights: Floats | None = None, prior: float = 1.0
) -> RewardMixingMDP:
    """The model of other episodes of the same world, by EM from ``model``."""
    bags = merged(patterns(episodes))
    start = mixture_of(model, episodes)
    fit = climb(lambda mixture: statistics(bags, mixture), start, average=bags.average, prior=prior, weights=weights)
    return assembled(confidence_set(Moments.of(episodes), failure=0.05, accuracy=0.1), fit.mixture)


def mixture_of(model: RewardMixingMDP, episodes: Episodes) -> Mixture:
    """Weights and laws (M, X, Z) of a recovered model, without the end that recovery may have added."""
    values = np.searchsorted(model.reward_values, episodes.reward_values)
    laws = model.laws[:, : episodes.num_states][..., values]
    return Mixture(model.weights, laws.reshape(model.num_contexts, -1, values.size))
