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

from rewardmix._check import Floats
from rewardmix.episodes import Episodes
from rewardmix.evaluation import controller_value
from rewardmix.planning import plan
from rewardmix.policy import Controller
from rewardmix.recovery import Recovery
from rewardmix.recovery.bootstrap import resampled


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
    found: Recovery,
    policy: Controller,
    *,
    prior: float = 1.0,
    resamples: int = 8,
    gap: float = 1e-3,
    seed: int = 0,
    on_update: Callable[[int], None] | None = None,
) -> BootstrapRegret:
    """Regret of ``policy`` in models fitted to resampled episodes.

    Args:
        episodes: what the model was recovered from.
        found: the recovery, where every fit starts.
        policy: to be judged.
        prior: pseudo-count of the fits, as in recovery.
        resamples: R.
        gap: of the plans that the policy is compared with.
        seed: of the resamples.
        on_update: called with the number of resamples done.
    """
    regrets = []
    for done, other in enumerate(resampled(episodes, found, resamples=resamples, prior=prior, seed=seed)):
        regrets.append(max(plan(other, gap=gap).upper - controller_value(policy, other), 0.0))
        if on_update:
            on_update(done + 1)
    array = np.array(regrets)
    return BootstrapRegret(float(array.mean()), float(array.max()), array)
