"""Plan in the augmented MDP of pairs, in a collapsed form.

In the paper an augmented state is (slot i, picks v, state s): about 3 (SA+1)^2 S of them. What follows depends on less:

    slot 1  nothing picked yet       V_t(1, s)
    slot 2  x1 picked                V_t(2, x1, s)     one small value iteration for each x1, independent of the others
    slot 3  both picked              V_t(3, s)         no pair is left to collect, the transition bonus still accrues

An action is (a, pick). With x = (s, a) and n(x) its visits:

    follow(x, V) = b_transition(x) + sum_s' That(s'|x) V(s')
    Q_t(1, s, a, pick)     = min(1, follow(x, V_{t+1}(2, x, .)))
    Q_t(1, s, a, -)        = min(1, follow(x, V_{t+1}(1, .)))
    Q_t(2, x1, s, a, pick) = min(1, b_pair(x1, x) + follow(x, V_{t+1}(3, .)))
    Q_t(2, x1, s, a, -)    = min(1, follow(x, V_{t+1}(2, x1, .)))
    Q_t(3, s, a)           = min(1, follow(x, V_{t+1}(3, .))), V_{H+1} = 0
    V_0 = min(1, b_initial(K) + sum_s nuhat(s) V_1(1, s))

``practical_bonus`` counts an unobserved pair more than 1: its bonuses are in units of ``unseen_pair_weight``, and V_0
is multiplied by it. Bonuses that scale with the value replace follow(x, V) by min(top, sum_s' That V + b_transition(x)
top), top = max_s V(s), and V_0 accordingly. The end of an episode is a state of value 0.

Ties are common, since values are clipped at 1, and rounding must not decide them: of equal Q, the x with the fewest
visits is played (its unclipped bonus is the largest), then the lowest action, picking before not picking. T-hat stays
in the form (sum of counts times values) / n, so that a row of ones sums to exactly one.

Most pairs of a large model have bonus 1. Let a be the action of s with the fewest visits. While the pair (x1, (s, a))
has bonus 1, V_t(2, x1, s) = 1 at every t, and by the rule for ties (a, pick) is played, whatever follows and whatever
x1 is. So all first picks share one row, and each is planned only in the other states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.int_dtypes import choice_dtype, state_dtype
from rewardmix._core.linear_algebra import dot
from rewardmix._core.pair_count_kernels import NEW_VISITS_SLOT, STALE_SLOT, set_limits
from rewardmix.exploration import exploration_kernels as kernels
from rewardmix.exploration.bonuses import Bonus, ProblemSize
from rewardmix.exploration.exploration_kernels import Choices, TransitionEstimate
from rewardmix.exploration.known_pairs import find_known_pairs
from rewardmix.exploration.running_counts import RunningCounts

MAX_DENSE_CHOICES = 1 << 23
"""If the choices after all first picks take at most this many numbers together, each has space for all states."""

MAX_SPARSE_COUNT_DENSITY = 0.2
"""A T-hat with more than this fraction of nonzero transitions is also stored densely, for vector instructions."""

REPLAN_OVERHEAD = 300_000
"""Overhead of one call of the planner beyond its arithmetic, in multiplications."""


@dataclass(kw_only=True)
class AugmentedPlan:
    """Hold what plans for pairs and for triples share: the values needed to replan single rows.

    Attributes:
        transition_estimate: T-hat of the last full replan.
        problem_size: Sizes and number of episodes at the last full replan.
        saturation_count: Saturation count; a pair (a triple) with more samples has a bonus below 1.
        value_after_first_pick: (H, X) value of what follows when x is the first pick at t.
        value: (S,) V_1(1, s).
        all_states: (S,) indices of all states.
        zeros: (X,) zeros.
        scratch: (H, X) scratch array.
        uncertainty: V_0.
        operations: Multiplications spent on planning so far.
        num_replans: Number of full replans.
        num_rows_planned: Number of value iterations for single first picks.
    """

    transition_estimate: TransitionEstimate
    problem_size: ProblemSize
    saturation_count: int
    value_after_first_pick: Floats
    value: Floats
    all_states: NDArray[np.int64]
    zeros: Floats
    scratch: Floats
    uncertainty: float = 1.0
    operations: int = 0
    num_replans: int = 0
    num_rows_planned: int = 0

    def first_limit(self, growth: float) -> int:
        """Return the sample count at which the rows of a newly observed pair become stale."""
        return max(1, int(np.ceil(growth * self.saturation_count)))


@dataclass(kw_only=True)
class PairPlan(AugmentedPlan):
    """Hold a plan for pairs.

    Attributes:
        choices: What to play.
        value_after_second_pick: (H, X) value of what follows when x is the second pick at t.
        reserved_states: (X,) number of states for which the choices after a first pick have space.
        num_reserved: Reserved entries of these lists.
    """

    choices: Choices
    value_after_second_pick: Floats
    reserved_states: NDArray[np.int64]
    num_reserved: int


def make_pair_plan(counts: RunningCounts, bonus: Bonus, failure_prob: float) -> PairPlan:
    """Allocate a plan for pairs; nothing is planned yet."""
    num_state_actions, horizon, num_states = counts.num_state_actions, counts.horizon, counts.num_states
    dtype = choice_dtype(counts.num_actions)
    reserved_states = np.full(
        num_state_actions, num_states if num_state_actions * num_states * horizon <= MAX_DENSE_CHOICES else 0
    )
    num_reserved, offsets = int(reserved_states.sum()), np.cumsum(reserved_states) - reserved_states
    rows, choice_codes = np.zeros((3, horizon, num_states), dtype), np.zeros((num_reserved, horizon), dtype)
    states = np.zeros(num_reserved, state_dtype(num_states))
    choices = Choices(rows, np.zeros(num_state_actions, np.int64), offsets, states, choice_codes)
    fields = empty_plan_fields(counts, bonus, failure_prob)
    return PairPlan(
        choices=choices,
        value_after_second_pick=np.zeros((horizon, num_state_actions)),
        reserved_states=reserved_states,
        num_reserved=num_reserved,
        **fields,
    )


def empty_plan_fields(counts: RunningCounts, bonus: Bonus, failure_prob: float) -> dict[str, Any]:
    """Return the initial fields of ``AugmentedPlan``."""
    num_state_actions, horizon, num_states = counts.num_state_actions, counts.horizon, counts.num_states
    return {
        "transition_estimate": empty_transition_estimate(counts, bonus),
        "problem_size": ProblemSize(
            num_states, counts.num_actions, horizon, num_states, failure_prob, 0, counts.reward_values.size
        ),
        "saturation_count": 0,
        "value_after_first_pick": np.zeros((horizon, num_state_actions)),
        "value": np.zeros(num_states),
        "all_states": np.arange(num_states),
        "zeros": np.zeros(num_state_actions),
        "scratch": np.zeros((horizon, num_state_actions)),
    }


def empty_transition_estimate(counts: RunningCounts, bonus: Bonus) -> TransitionEstimate:
    """Return T-hat without any transition."""
    none = np.zeros(0)
    return TransitionEstimate(
        counts.row_offsets, counts.next_states, none, none.reshape(0, 0), none, none, bonus.scales_with_value
    )


def replan_pairs(plan: PairPlan, counts: RunningCounts, bonus: Bonus, growth: float) -> None:
    """Replan everything from the counts: T-hat, confidence levels, every row."""
    counts.refresh_transition_lists()
    plan.problem_size = plan.problem_size._replace(
        num_episodes=counts.episodes, num_next_states=counts.num_states + counts.ended_early
    )
    plan.transition_estimate = estimate_transitions(counts, bonus, plan.problem_size)
    plan.saturation_count = saturation_count(bonus.pair, plan.problem_size)
    set_visit_limits(counts, bonus, plan.problem_size)
    shape, rows = plan.value_after_second_pick.shape, plan.choices.rows
    empty, forbidden = np.zeros(counts.num_state_actions), np.full(shape, -1.0)
    # Third slot: picking is forbidden by a negative value, only the transition bonus accrues.
    third_slot = empty, forbidden, plan.all_states, rows[kernels.THIRD], plan.value_after_second_pick
    kernels.plan_slot(plan.transition_estimate, *third_slot, plan.value)
    # Shared row of the second slot: every pair has bonus 1. Rows with a known pair are planned one by one below.
    ones = np.ones(counts.num_state_actions)
    shared_row = ones, plan.value_after_second_pick, plan.all_states, rows[kernels.SHARED], plan.value_after_first_pick
    kernels.plan_slot(plan.transition_estimate, *shared_row, plan.value)
    plan.choices.num_choices[:] = 0
    has_known_pair = np.zeros(counts.num_state_actions, bool)
    set_limits(
        counts.pairs.slots, growth, plan.saturation_count, counts.ordered, counts.num_state_actions, has_known_pair
    )
    counts.progress[NEW_VISITS_SLOT] = 0
    plan.num_replans += 1
    plan.operations += 2 * shape[0] * plan.transition_estimate.counts.size
    _plan_rows(plan, counts, bonus, np.flatnonzero(has_known_pair))


def set_visit_limits(counts: RunningCounts, bonus: Bonus, size: ProblemSize) -> None:
    """Set the visits at which T-hat becomes stale.

    These are the first visit, the one at which x becomes known, and then twice the present number.
    """
    max_samples = saturation_count(bonus.transition, size)
    counts.visit_limits[:] = np.where(counts.visits < max_samples, max_samples + 1, 2 * counts.visits)
    counts.visit_limits[counts.visits == 0] = 1


def replan_stale_pairs(plan: PairPlan, counts: RunningCounts, bonus: Bonus) -> None:
    """Replan only the stale rows, with T-hat and the confidence levels of the last full replan."""
    _plan_rows(plan, counts, bonus, np.flatnonzero(counts.stale_rows))


def _plan_rows(plan: PairPlan, counts: RunningCounts, bonus: Bonus, firsts: NDArray[np.int64]) -> None:
    """Plan the second slot after each of ``firsts``, then the first slot, and update V_0."""
    if firsts.size:
        row_offsets, partners, samples = find_known_pairs(counts, plan.saturation_count, firsts)
        _reserve(plan, firsts, np.diff(row_offsets))
        bonuses = bonus.pair(samples, plan.problem_size)
        listed = firsts, row_offsets, partners, bonuses
        kernels.plan_rows(
            plan.transition_estimate, plan.value_after_second_pick, *listed, plan.choices, plan.value_after_first_pick
        )
    # The first slot depends on the values of all first picks, so it is replanned whenever one of them changes.
    first = plan.choices.rows[kernels.FIRST]
    kernels.plan_slot(
        plan.transition_estimate,
        plan.zeros,
        plan.value_after_first_pick,
        plan.all_states,
        first,
        plan.scratch,
        plan.value,
    )
    counts.stale_rows[:] = False
    counts.progress[STALE_SLOT] = 0
    plan.uncertainty = initial_value(plan.value, counts, bonus, plan.problem_size)
    plan.num_rows_planned += firsts.size
    plan.operations += (
        REPLAN_OVERHEAD + (firsts.size + 1) * plan.choices.rows.shape[1] * plan.transition_estimate.counts.size
    )


def _reserve(plan: PairPlan, firsts: NDArray[np.int64], partners: NDArray[np.int64]) -> None:
    """Reserve space for the choices after ``firsts``, each known with the given number of partners."""
    num_states = plan.problem_size.num_states
    needed = np.minimum(partners, num_states)
    grown = needed > plan.reserved_states[firsts]
    if not grown.any():
        return
    choices, firsts = plan.choices, firsts[grown]
    # Space at least doubles, so lists move only O(log S) times. The old space is not reused; it is at most as large as
    # the new one.
    plan.reserved_states[firsts] = np.minimum(2 * needed[grown], num_states)
    choices.state_offsets[firsts] = (
        plan.num_reserved + np.cumsum(plan.reserved_states[firsts]) - plan.reserved_states[firsts]
    )
    plan.num_reserved += int(plan.reserved_states[firsts].sum())
    if plan.num_reserved > len(choices.choice_codes):
        more = 2 * plan.num_reserved - len(choices.choice_codes)
        states = np.concatenate([choices.states, np.zeros(more, choices.states.dtype)])
        choice_codes = np.concatenate(
            [choices.choice_codes, np.zeros((more, choices.choice_codes.shape[1]), choices.choice_codes.dtype)]
        )
        plan.choices = choices._replace(states=states, choice_codes=choice_codes)


def estimate_transitions(running_counts: RunningCounts, bonus_rule: Bonus, size: ProblemSize) -> TransitionEstimate:
    """Return T-hat with its bonuses, without transitions to the end (whose value is 0)."""
    totals = running_counts.visits.astype(np.float64)
    bonus = np.ascontiguousarray(bonus_rule.transition(totals, size), dtype=np.float64)
    row_offsets, next_states, entry_counts = (
        running_counts.row_offsets,
        running_counts.next_states,
        running_counts.transition_counts,
    )
    is_continuing = (next_states < running_counts.num_states) & (entry_counts > 0)
    if not is_continuing.all():
        row_offsets = np.concatenate([[0], np.cumsum(is_continuing)])[row_offsets]
        next_states, entry_counts = next_states[is_continuing], entry_counts[is_continuing]
    counts = entry_counts.astype(np.float64)
    dense = counts.size > MAX_SPARSE_COUNT_DENSITY * running_counts.num_state_actions * running_counts.num_states
    columns = np.zeros((running_counts.num_states if dense else 0, running_counts.num_state_actions if dense else 0))
    if dense:
        columns[next_states, np.repeat(np.arange(running_counts.num_state_actions), np.diff(row_offsets))] = counts
    return TransitionEstimate(row_offsets, next_states, counts, columns, totals, bonus, bonus_rule.scales_with_value)


def initial_value(value: Floats, counts: RunningCounts, bonus_rule: Bonus, size: ProblemSize) -> float:
    """Return V_0, with nu-hat and its bonus at the present number of episodes."""
    episodes = counts.episodes
    if episodes == 0:
        return 1.0
    bonus = float(bonus_rule.initial(size._replace(num_episodes=episodes)))
    expected = float(dot(counts.initial_counts, value)) / episodes
    top = float(value.max())
    # A value cannot exceed the largest value of an initial state, so the scaled bonus is clipped there.
    optimistic = min(top, expected + bonus * top) if bonus_rule.scales_with_value else expected + bonus
    return min(1.0, bonus_rule.unseen_pair_weight * optimistic)


def saturation_count(bonus: Callable[[Any, ProblemSize], Any], size: ProblemSize) -> int:
    """Return the largest count at which a bonus is still 1 (to 2 % if the count is above 64)."""
    # Bonuses decrease with counts: powers of two bracket the last count with bonus 1, 64 steps then refine it.
    doubled = 2 ** np.arange(62, dtype=np.int64)
    full = bonus(doubled, size) >= 1.0
    if not full[0]:
        return 0
    lower = int(doubled[full][-1])
    finer = lower + np.arange(65, dtype=np.int64) * max(lower // 64, 1)
    finer = finer[finer < 2 * lower]
    return int(finer[bonus(finer, size) >= 1.0][-1])
