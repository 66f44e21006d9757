"""What to play, given the plan: the plan itself (Algorithm 2), or one of two baselines to compare with.

V_0 and the counts mean the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rewardmix import theory
from rewardmix.exploration import exploration_kernels as kernels
from rewardmix.exploration.exploration_kernels import Choices, choice
from rewardmix.exploration.triple_kernels import TripleChoices, triple_choice
from rewardmix.exploration.triples import Planned

AnyChoices = Choices | TripleChoices
"""What to play, for pairs or for triples."""

Strategy = Callable[[Planned], AnyChoices]
"""What to play, given the plan. ``optimistic`` plays the plan; baselines do something else."""


def picks_of(choices: AnyChoices) -> int:
    """Steps of an episode that are picked at most."""
    return 3 if isinstance(choices, TripleChoices) else 2


def code_of(choices: AnyChoices, sizes: tuple[int, int, int], picked: Sequence[int], t: int, s: int) -> int:
    """The choice in s at step t, after these picks, in a world of S, A and H."""
    first, second, *_ = (*picked, 0, 0)
    if isinstance(choices, TripleChoices):
        return int(triple_choice(choices, sizes[0] * sizes[1], len(picked), first, second, t, s))
    return int(choice(choices, len(picked), first, t, s))


def optimistic(plan: Planned) -> AnyChoices:
    """Play what the plan says: Algorithm 2."""
    return plan.choices


def uniformly(plan: Planned) -> AnyChoices:
    """Every action equally likely, always."""
    return _everywhere(plan, np.full_like(plan.choices.rows[kernels.FIRST], kernels.ANY))


def first_order(plan: Planned) -> AnyChoices:
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


def _everywhere(plan: Planned, first: NDArray[np.int16]) -> AnyChoices:
    """Choices that never pick, so that no other row is ever looked at."""
    return plan.choices._replace(rows=first[None])
