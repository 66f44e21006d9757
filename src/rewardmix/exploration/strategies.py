"""Choose what to play from a plan: the plan itself (Algorithm 2) or one of two baselines.

The baselines do not change how pairs are counted or how V_0 is computed, so results can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rewardmix import theory
from rewardmix.exploration import exploration_kernels as kernels
from rewardmix.exploration.augmented_mdp_triples import AnyPlan
from rewardmix.exploration.exploration_kernels import Choices, look_up_choice
from rewardmix.exploration.triple_kernels import TripleChoices, triple_choice

AnyChoices = Choices | TripleChoices
"""Table of choices, for pairs or for triples."""

Strategy = Callable[[AnyPlan], AnyChoices]
"""Function from a plan to the choices to play; ``optimistic_strategy`` plays the plan, baselines ignore parts of it."""


def max_picks(choices: AnyChoices) -> int:
    """Return how many steps of an episode are picked at most: 2 for pairs, 3 for triples."""
    return 3 if isinstance(choices, TripleChoices) else 2


def choice_code(choices: AnyChoices, sizes: tuple[int, int, int], picked: Sequence[int], t: int, s: int) -> int:
    """Look up the choice in state s at step t after the picks so far; ``sizes`` is (S, A, H)."""
    first, second, *_ = (*picked, 0, 0)
    if isinstance(choices, TripleChoices):
        return int(triple_choice(choices, sizes[0] * sizes[1], len(picked), first, second, t, s))
    return int(look_up_choice(choices, len(picked), first, t, s))


def optimistic_strategy(plan: AnyPlan) -> AnyChoices:
    """Play the plan itself: Algorithm 2 of the paper."""
    return plan.choices


def uniform_strategy(plan: AnyPlan) -> AnyChoices:
    """Play uniformly random actions (baseline)."""
    return _without_picks(plan, np.full_like(plan.choices.rows[kernels.FIRST], kernels.RANDOM_ACTION))


def state_action_strategy(plan: AnyPlan) -> AnyChoices:
    """Explore single state-actions, in the manner of RF-UCRL (Kaufmann et al. 2021); a baseline.

    The bonus of x is min(1, sqrt(S / 4n(x))), added along the path. It rewards visits to x alone, not visits to x and
    another state-action in one episode, which is what the moments of pairs need.
    """
    hat = plan.transition_estimate._replace(
        bonus=theory.bonus_width(plan.problem_size.num_states / 4, plan.transition_estimate.totals),
        scales_with_value=False,
    )
    first = np.empty_like(plan.choices.rows[kernels.FIRST])
    # A negative value of picking excludes it: single state-actions are explored without picks.
    forbidden = np.full(plan.scratch.shape, -1.0)
    value = np.empty(plan.problem_size.num_states)
    kernels.plan_slot(hat, plan.zeros, forbidden, plan.all_states, first, plan.scratch, value)
    return _without_picks(plan, first)


def _without_picks(plan: AnyPlan, first: NDArray[np.int16]) -> AnyChoices:
    """Return choices that play one table (H, S) and never pick, so the tables after a pick are not read."""
    return plan.choices._replace(rows=first[None])
