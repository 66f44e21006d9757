"""Plan in the augmented MDP of triples, in a collapsed form: one slot more than for pairs.

    slot 1  nothing picked yet        V_t(1, s)
    slot 2  x1 picked                 V_t(2, x1, s)          the first pick matters, as for pairs
    slot 3  x1 and x2 picked          V_t(3, {x1, x2}, s)    their order does not: triples are unordered
    slot 4  all three picked          V_t(4, s)              no triple is left to collect

    Q_t(1, s, a, pick)           = follow(x, V_{t+1}(2, x, .))
    Q_t(2, x1, s, a, pick)       = follow(x, V_{t+1}(3, {x1, x}, .))
    Q_t(3, {x1, x2}, s, a, pick) = b(x1, x2, x) + follow(x, V_{t+1}(4, .))
    Q_t(i, ..., s, a, -)         = follow(x, V_{t+1}(i, ..., .))

all clipped at 1, with ``follow``, V_0 and the rule for ties of ``augmented_mdp``. The bonus of a triple is the bonus of
a pair with as many samples. Pairs are counted too, but add no value.

The third slot has X (X + 1) / 2 rows of S states, each with its own value iteration: about S A times the work and the
memory of pairs, so this is for small models. Rows without a known triple share one plan, and between full replans only
rows with a triple that has grown are replanned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.count_tables import Counts
from rewardmix._core.int_dtypes import choice_dtype
from rewardmix._core.pair_count_kernels import NEW_VISITS_SLOT, STALE_SLOT
from rewardmix.exploration import exploration_kernels as kernels
from rewardmix.exploration import triple_kernels
from rewardmix.exploration.augmented_mdp import (
    REPLAN_OVERHEAD,
    AugmentedPlan,
    PairPlan,
    empty_plan_fields,
    estimate_transitions,
    initial_value,
    saturation_count,
    set_visit_limits,
)
from rewardmix.exploration.bonuses import Bonus
from rewardmix.exploration.running_counts import RunningCounts
from rewardmix.exploration.triple_kernels import TripleChoices

BONUS_BATCH = 1 << 20
"""Bonuses that are looked up at once; limits memory."""


@dataclass(kw_only=True)
class TriplePlan(AugmentedPlan):
    """Hold a plan for triples.

    Attributes:
        choices: What to play.
        after_pair: (X, H, X) value of what follows when x2 is picked at t as the second: [x1, t, x2].
        after_last: (H, X) value of what follows when x is picked at t as the third.
    """

    choices: TripleChoices
    after_pair: Floats
    after_last: Floats


AnyPlan = PairPlan | TriplePlan
"""Plan for pairs or for triples."""


def make_triple_plan(counts: RunningCounts, bonus: Bonus, failure_prob: float) -> TriplePlan:
    """Allocate a plan for triples; nothing is planned yet."""
    num_state_actions, horizon = counts.num_state_actions, counts.horizon
    rows = 2 + num_state_actions + num_state_actions * (num_state_actions + 1) // 2
    choices = TripleChoices(np.zeros((rows, horizon, counts.num_states), choice_dtype(counts.num_actions)))
    after_pair = np.zeros((num_state_actions, horizon, num_state_actions))
    after_last = np.zeros((horizon, num_state_actions))
    fields = empty_plan_fields(counts, bonus, failure_prob)
    return TriplePlan(choices=choices, after_pair=after_pair, after_last=after_last, **fields)


def replan_triples(plan: TriplePlan, counts: RunningCounts, bonus: Bonus, growth: float) -> None:
    """Replan everything from the counts: T-hat, confidence levels, every row."""
    assert counts.triples is not None
    counts.refresh_transition_lists()
    plan.problem_size = plan.problem_size._replace(
        num_episodes=counts.episodes, num_next_states=counts.num_states + counts.ended_early
    )
    plan.transition_estimate = estimate_transitions(counts, bonus, plan.problem_size)
    plan.saturation_count = saturation_count(bonus.pair, plan.problem_size)
    set_visit_limits(counts, bonus, plan.problem_size)
    num_state_actions, rows, all_states = counts.num_state_actions, plan.choices.rows, plan.all_states
    # Last slot: picking is forbidden by a negative value, only the transition bonus accrues.
    forbidden = np.full(plan.scratch.shape, -1.0)
    kernels.plan_slot(
        plan.transition_estimate, plan.zeros, forbidden, all_states, rows[-1], plan.after_last, plan.value
    )
    # Third slot without a known triple: every triple has bonus 1, so one row serves all these pairs.
    shared = rows[1 + num_state_actions]
    kernels.plan_slot(
        plan.transition_estimate,
        np.ones(num_state_actions),
        plan.after_last,
        all_states,
        shared,
        plan.scratch,
        plan.value,
    )
    rows[2 + num_state_actions : -1] = shared
    plan.after_pair[:] = plan.scratch
    has_known_triple = np.zeros((num_state_actions, num_state_actions), bool)
    triple_kernels.set_triple_limits(
        counts.triples.slots, growth, plan.saturation_count, num_state_actions, has_known_triple
    )
    counts.progress[NEW_VISITS_SLOT] = 0
    plan.num_replans += 1
    plan.operations += 2 * counts.horizon * plan.transition_estimate.counts.size
    _plan_rows(plan, counts, bonus, has_known_triple, np.arange(num_state_actions))


def replan_stale_triples(plan: TriplePlan, counts: RunningCounts, bonus: Bonus) -> None:
    """Replan only the stale rows, with T-hat and the confidence levels of the last full replan."""
    stale = counts.stale_triples
    _plan_rows(plan, counts, bonus, stale, np.flatnonzero(stale.any(axis=0) | stale.any(axis=1)))


def _plan_rows(plan: TriplePlan, counts: RunningCounts, bonus: Bonus, pairs: NDArray[np.bool_], firsts: Counts) -> None:
    """Plan the third slot after ``pairs`` (X, X), the second slot after ``firsts``, then the first slot; update V_0."""
    assert counts.triples is not None
    num_state_actions, rows = counts.num_state_actions, plan.choices.rows
    x1s, x2s = np.nonzero(pairs)
    # Blocks limit the memory of the (B, X) tables of samples and bonuses.
    for begin in range(0, x1s.size, max(1, BONUS_BATCH // num_state_actions)):
        block = slice(begin, begin + max(1, BONUS_BATCH // num_state_actions))
        x1, x2 = x1s[block], x2s[block]
        samples = np.empty((x1.size, num_state_actions), np.int64)
        triple_kernels.triple_samples(
            counts.triples.slots, *counts.triples.hash_params, num_state_actions, x1, x2, samples
        )
        bonuses = np.ascontiguousarray(bonus.pair(samples, plan.problem_size), dtype=np.float64)
        triple_kernels.plan_third_slot(
            plan.transition_estimate, plan.after_last, plan.all_states, x1, x2, bonuses, rows, plan.after_pair
        )
    triple_kernels.plan_second_slot(
        plan.transition_estimate,
        plan.zeros,
        plan.after_pair,
        plan.all_states,
        firsts,
        rows,
        plan.value_after_first_pick,
    )
    kernels.plan_slot(
        plan.transition_estimate,
        plan.zeros,
        plan.value_after_first_pick,
        plan.all_states,
        rows[0],
        plan.scratch,
        plan.value,
    )
    counts.stale_triples[:] = False
    counts.triples_progress[STALE_SLOT] = 0
    plan.uncertainty = initial_value(plan.value, counts, bonus, plan.problem_size)
    plan.num_rows_planned += x1s.size + firsts.size
    plan.operations += (
        REPLAN_OVERHEAD + (x1s.size + firsts.size + 1) * counts.horizon * plan.transition_estimate.counts.size
    )
