"""What to play, given the plan: the plan itself (Algorithm 2), or one of two baselines to compare with.

V_0 and the counts mean the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rewardmix import theory
from rewardmix.exploration import exploration_kernels as kernels
from rewardmix.exploration.augmented import PairPlan
from rewardmix.exploration.exploration_kernels import Choices

Strategy = Callable[[PairPlan], Choices]
"""What to play, given the plan. ``optimistic`` plays the plan; baselines do something else."""


def optimistic(plan: PairPlan) -> Choices:
    """Play what the plan says: Algorithm 2."""
    return plan.choices


def uniformly(plan: PairPlan) -> Choices:
    """Every action equally likely, always."""
    return _everywhere(plan, np.full_like(plan.choices.rows[kernels.FIRST], kernels.ANY))


def first_order(plan: PairPlan) -> Choices:
    """Reward-free exploration of single state-actions, in the manner of RF-UCRL (Kaufmann et al. 2021).

    The bonus of x is min(1, sqrt(S / 4n(x))), added along the way: what pays is to see x, not to see it together
    with something else.
    """
    hat = plan.hat._replace(bonus=theory.bonus(plan.size.num_states / 4, plan.hat.totals), scaled=False)
    first = np.empty_like(plan.choices.rows[kernels.FIRST])
    forbidden = np.full(plan.spare.shape, -1.0)
    value = np.empty(plan.size.num_states)
    kernels.plan_slot(hat, plan.nothing, forbidden, plan.everywhere, first, plan.spare, value)
    return _everywhere(plan, first)


def _everywhere(plan: PairPlan, first: NDArray[np.int16]) -> Choices:
    """Choices that never pick, so that no other row is ever looked at."""
    return plan.choices._replace(rows=first[None])
