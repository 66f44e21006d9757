"""Two other ways to explore, to compare with. V_0 and the counts mean the same for all of them."""

from __future__ import annotations

import numpy as np

from rewardmix import theory
from rewardmix.exploration import kernels
from rewardmix.exploration.augmented import Plan
from rewardmix.exploration.kernels import Choices


def uniformly(plan: Plan) -> Choices:
    """Every action equally likely, always."""
    return plan.choices._replace(first=np.full_like(plan.choices.first, kernels.ANY))


def first_order(plan: Plan) -> Choices:
    """Reward-free exploration of single state-actions, in the manner of RF-UCRL (Kaufmann et al. 2021).

    The bonus of x is min(1, sqrt(S / 4n(x))), added along the way: what pays is to see x, not to see it together
    with something else. The multiplier S / 4 is that of the practical setting.
    """
    level = plan.size.num_states / 4
    hat = plan.hat._replace(bonus=theory.bonus(level, plan.hat.totals), scaled=False)
    first = np.empty_like(plan.choices.first)
    shape = plan.after_third.shape
    kernels.plan_slot(
        hat, plan.size.num_actions, np.full(shape, -1.0), first, np.empty(shape), np.empty(plan.size.num_states)
    )
    return plan.choices._replace(first=first)
