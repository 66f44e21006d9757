"""The augmented MDP of triples, collapsed, and plans in it: one slot more than ``augmented`` has.

    slot 1  nothing picked yet        V_t(1, s)
    slot 2  x1 picked                 V_t(2, x1, s)          the first pick matters, as for pairs
    slot 3  x1 and x2 picked          V_t(3, {x1, x2}, s)    their order does not: triples are counted without
    slot 4  all three picked          V_t(4, s)              no triple is left to earn

    Q_t(1, s, a, pick) = follow(x, V_{t+1}(2, x, .))                    Q_t(2, x1, s, a, pick) = follow(x, V_{t+1}(3, {x1, x}, .))
    Q_t(3, {x1, x2}, s, a, pick) = b(x1, x2, x) + follow(x, V_{t+1}(4, .))    Q_t(i, ..., s, a, -) = follow(x, V_{t+1}(i, ..., .))

all clipped at 1, with ``follow``, V_0 and the rule for ties as in ``augmented``. The bonus of a triple is what the
setting gives a pair of as many samples. Pairs are counted too, and earn nothing.

The third slot has X (X + 1) / 2 rows of S states, each a value iteration of its own: about S A times the work and the
memory of pairs, so this is for small worlds. Rows of which no triple is known share one plan, and in between whole
plans only rows are planned of which a triple has grown.
"""  # noqa: E501 - the equations are easier to compare side by side

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.pair_counting import DIRTY, NEWS
from rewardmix._core.pair_table import Counts
from rewardmix._core.widths import choice_width
from rewardmix.exploration import exploration_kernels as kernels
from rewardmix.exploration import triple_kernels
from rewardmix.exploration.augmented import (
    EVENT_COST,
    AugmentedPlan,
    PairPlan,
    estimate_moves,
    limit_visits,
    nothing_planned,
    saturation,
    start_value,
)
from rewardmix.exploration.bonuses import Confidence
from rewardmix.exploration.tally import Tally
from rewardmix.exploration.triple_kernels import TripleChoices

BLOCK = 1 << 20
"""Bonuses that are looked up at once."""


@dataclass(kw_only=True)
class TriplePlan(AugmentedPlan):
    """A plan for triples.

    Attributes:
        choices: what to play.
        after_pair: (X, H, X) value of what follows when x2 is picked at t as the second: [x1, t, x2].
        after_last: (H, X) likewise for the third.
    """

    choices: TripleChoices
    after_pair: Floats
    after_last: Floats


Planned = PairPlan | TriplePlan
"""A plan of either order."""


def blank_triples(tally: Tally, confidence: Confidence, failure: float) -> TriplePlan:
    """Room for a plan; nothing is planned yet."""
    num_x, horizon = tally.num_x, tally.horizon
    rows = 2 + num_x + num_x * (num_x + 1) // 2
    choices = TripleChoices(np.zeros((rows, horizon, tally.num_states), choice_width(tally.num_actions)))
    after_pair, after_last = np.zeros((num_x, horizon, num_x)), np.zeros((horizon, num_x))
    room = nothing_planned(tally, confidence, failure)
    return TriplePlan(choices=choices, after_pair=after_pair, after_last=after_last, **room)


def refresh_triples(plan: TriplePlan, tally: Tally, confidence: Confidence, growth: float) -> None:
    """Plan everything anew from the counts: T-hat, the levels, every row."""
    assert tally.triples is not None
    tally.list_moves()
    plan.size = plan.size._replace(episodes=tally.episodes, num_following=tally.num_states + tally.ended_early)
    plan.hat = estimate_moves(tally, confidence, plan.size)
    plan.known = saturation(confidence.pair, plan.size)
    limit_visits(tally, confidence, plan.size)
    num_x, rows, everywhere = tally.num_x, plan.choices.rows, plan.everywhere
    forbidden = np.full(plan.spare.shape, -1.0)
    kernels.plan_slot(plan.hat, plan.nothing, forbidden, everywhere, rows[-1], plan.after_last, plan.value)
    shared = rows[1 + num_x]
    kernels.plan_slot(plan.hat, np.ones(num_x), plan.after_last, everywhere, shared, plan.spare, plan.value)
    rows[2 + num_x : -1] = shared
    plan.after_pair[:] = plan.spare
    touched = np.zeros((num_x, num_x), bool)
    triple_kernels.set_triple_limits(tally.triples.records, growth, plan.known, num_x, touched)
    tally.progress[NEWS] = 0
    plan.refreshes += 1
    plan.cost += 2 * tally.horizon * plan.hat.counts.size
    _plan_rows(plan, tally, confidence, touched, np.arange(num_x))


def touch_up_triples(plan: TriplePlan, tally: Tally, confidence: Confidence) -> None:
    """Plan only the rows that became outdated, with T-hat and the levels as they were."""
    outdated = tally.triples_dirty
    _plan_rows(plan, tally, confidence, outdated, np.flatnonzero(outdated.any(axis=0) | outdated.any(axis=1)))


def _plan_rows(
    plan: TriplePlan, tally: Tally, confidence: Confidence, pairs: NDArray[np.bool_], firsts: Counts
) -> None:
    """Plan the third slot after these pairs (X, X), the second after these first picks, and the first."""
    assert tally.triples is not None
    num_x, rows = tally.num_x, plan.choices.rows
    ones, others = np.nonzero(pairs)
    for begin in range(0, ones.size, max(1, BLOCK // num_x)):
        block = slice(begin, begin + max(1, BLOCK // num_x))
        one, other = ones[block], others[block]
        samples = np.empty((one.size, num_x), np.int64)
        triple_kernels.triple_samples(tally.triples.records, *tally.triples.hashing, num_x, one, other, samples)
        bonuses = np.ascontiguousarray(confidence.pair(samples, plan.size), dtype=np.float64)
        triple_kernels.plan_third(
            plan.hat, plan.after_last, plan.everywhere, one, other, bonuses, rows, plan.after_pair
        )
    triple_kernels.plan_second(
        plan.hat, plan.nothing, plan.after_pair, plan.everywhere, firsts, rows, plan.after_second
    )
    kernels.plan_slot(plan.hat, plan.nothing, plan.after_second, plan.everywhere, rows[0], plan.spare, plan.value)
    tally.triples_dirty[:] = False
    tally.triples_progress[DIRTY] = 0
    plan.uncertainty = start_value(plan.value, tally, confidence, plan.size)
    plan.rows_planned += ones.size + firsts.size
    plan.cost += EVENT_COST + (ones.size + firsts.size + 1) * tally.horizon * plan.hat.counts.size
