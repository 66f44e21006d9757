"""The augmented MDP of pairs, collapsed, and plans in it.

In the paper an augmented state is (slot i, picks v, state s): about 3 (SA+1)^2 S of them. What follows depends on less:

    slot 1  nothing picked yet       V_t(1, s)
    slot 2  x1 picked                V_t(2, x1, s)     one small value iteration for each x1, independent of the others
    slot 3  both picked              V_t(3, s)         no pair is left to earn, the bonus of moves still accrues

An action is (a, pick). With x = (s, a), n(x) its visits, and ``follow(x, V) = b_move(x) + sum_s' That(s'|x) V(s')``

    Q_t(1, s, a, pick) = min(1, follow(x, V_{t+1}(2, x, .)))                        Q_t(1, s, a, -) = min(1, follow(x, V_{t+1}(1, .)))
    Q_t(2, x1, s, a, pick) = min(1, b_pair(x1, x) + follow(x, V_{t+1}(3, .)))       Q_t(2, x1, s, a, -) = min(1, follow(x, V_{t+1}(2, x1, .)))
    Q_t(3, s, a) = min(1, follow(x, V_{t+1}(3, .)))                                 V_{H+1} = 0
    V_0 = min(1, b_start(K) + sum_s nuhat(s) V_1(1, s))

The practical setting counts a pair that was never seen more than 1: its bonuses are in units of that, ``unseen``, and
V_0 is multiplied by it. Scaled settings replace follow(x, V) by min(top, sum_s' That V + b_move(x) top), top = max_s V(s), and V_0 likewise. The
end of an episode is a state of value 0.

Ties are common, since values are clipped at 1, and must not be left to rounding: of equal Q, the x with the fewest
visits is played (its unclipped bonus is the largest), then the lowest action, picking before not picking. T-hat stays
in the form of whole numbers, (sum of counts times values) / n, so that a row of ones sums to exactly one.

Most pairs of a large world have bonus 1. Let a be the action of s with the fewest visits. While the pair (x1, (s, a)) has
bonus 1, V_t(2, x1, s) = 1 at every t, and by the rule for ties (a, pick) is played, whatever follows and whatever x1 is.
So all first picks share one row, and each is planned only in the other states.
"""  # noqa: E501 - the equations are easier to compare side by side

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.algebra import dot
from rewardmix._core.checks import Floats
from rewardmix._core.pair_counting import DIRTY, NEWS, set_limits
from rewardmix._core.widths import choice_width, state_width
from rewardmix.exploration import exploration_kernels as kernels
from rewardmix.exploration.bonuses import Confidence, Size
from rewardmix.exploration.exploration_kernels import Choices, Hat
from rewardmix.exploration.partners import known_partners
from rewardmix.exploration.tally import Tally

WHOLE_ROWS = 1 << 23
"""Where the choices after all first picks together take no more numbers than this, each has room for all states."""

DENSE = 0.2
"""T-hat with more than this share of possible moves is kept as a plain array too: vector instructions win."""

EVENT_COST = 300_000
"""What one call for new plans costs beside its arithmetic, in multiplications."""


@dataclass(kw_only=True)
class AugmentedPlan:
    """What plans for pairs and for triples have in common: what is needed to bring parts of them up to date.

    Attributes:
        hat: T-hat, as it was when everything was last planned.
        size: the sizes and the number of episodes then.
        known: a pair (a triple) with more samples than this has a bonus below 1.
        after_second: (H, X) value of what follows when x is the first pick at t.
        value: (S,) V_1(1, s).
        everywhere: (S,) all states.
        nothing: (X,) zeros.
        spare: (H, X) to be written to.
        uncertainty: V_0.
        cost: multiplications spent on planning so far.
        refreshes: how often everything was planned.
        rows_planned: plans made for single first picks.
    """

    hat: Hat
    size: Size
    known: int
    after_second: Floats
    value: Floats
    everywhere: NDArray[np.int64]
    nothing: Floats
    spare: Floats
    uncertainty: float = 1.0
    cost: int = 0
    refreshes: int = 0
    rows_planned: int = 0

    def first_limit(self, growth: float) -> int:
        """The samples at which the rows of what is seen together for the first time are outdated."""
        return max(1, int(np.ceil(growth * self.known)))


@dataclass(kw_only=True)
class PairPlan(AugmentedPlan):
    """A plan for pairs.

    Attributes:
        choices: what to play.
        after_third: (H, X) value of what follows when x is the second pick at t.
        reserved: (X,) states that there is room for in the own choices after a first pick.
        used: places of these lists that are reserved.
    """

    choices: Choices
    after_third: Floats
    reserved: NDArray[np.int64]
    used: int


def blank_plan(tally: Tally, confidence: Confidence, failure: float) -> PairPlan:
    """Room for a plan; nothing is planned yet."""
    num_x, horizon, num_states = tally.num_x, tally.horizon, tally.num_states
    width = choice_width(tally.num_actions)
    reserved = np.full(num_x, num_states if num_x * num_states * horizon <= WHOLE_ROWS else 0)
    used, places = int(reserved.sum()), np.cumsum(reserved) - reserved
    rows, own = np.zeros((3, horizon, num_states), width), np.zeros((used, horizon), width)
    listed = np.zeros(used, state_width(num_states))
    choices = Choices(rows, np.zeros(num_x, np.int64), places, listed, own)
    room = nothing_planned(tally, confidence, failure)
    return PairPlan(choices=choices, after_third=np.zeros((horizon, num_x)), reserved=reserved, used=used, **room)


def nothing_planned(tally: Tally, confidence: Confidence, failure: float) -> dict[str, Any]:
    """What every plan begins with, by the fields of ``AugmentedPlan``."""
    num_x, horizon, num_states = tally.num_x, tally.horizon, tally.num_states
    return {
        "hat": no_moves(tally, confidence),
        "size": Size(num_states, tally.num_actions, horizon, num_states, failure, 0, tally.reward_values.size),
        "known": 0,
        "after_second": np.zeros((horizon, num_x)),
        "value": np.zeros(num_states),
        "everywhere": np.arange(num_states),
        "nothing": np.zeros(num_x),
        "spare": np.zeros((horizon, num_x)),
    }


def no_moves(tally: Tally, confidence: Confidence) -> Hat:
    """T-hat before anything was seen."""
    none = np.zeros(0)
    return Hat(tally.begins, tally.successors, none, none.reshape(0, 0), none, none, confidence.scaled)


def refresh(plan: PairPlan, tally: Tally, confidence: Confidence, growth: float) -> None:
    """Plan everything anew from the counts: T-hat, the levels, every row."""
    tally.list_moves()
    plan.size = plan.size._replace(episodes=tally.episodes, num_following=tally.num_states + tally.ended_early)
    plan.hat = estimate_moves(tally, confidence, plan.size)
    plan.known = saturation(confidence.pair, plan.size)
    limit_visits(tally, confidence, plan.size)
    shape, rows = plan.after_third.shape, plan.choices.rows
    nothing, forbidden = np.zeros(tally.num_x), np.full(shape, -1.0)
    forbid = plan.hat, nothing, forbidden, plan.everywhere, rows[kernels.THIRD], plan.after_third
    kernels.plan_slot(*forbid, plan.value)
    share = plan.hat, np.ones(tally.num_x), plan.after_third, plan.everywhere, rows[kernels.SHARED], plan.after_second
    kernels.plan_slot(*share, plan.value)
    plan.choices.numbers[:] = 0
    known = np.zeros(tally.num_x, bool)
    set_limits(tally.pairs.records, growth, plan.known, tally.ordered, tally.num_x, known)
    tally.progress[NEWS] = 0
    plan.refreshes += 1
    plan.cost += 2 * shape[0] * plan.hat.counts.size
    _plan_rows(plan, tally, confidence, np.flatnonzero(known))


def limit_visits(tally: Tally, confidence: Confidence, size: Size) -> None:
    """Set the visits at which T-hat is outdated: the first, those from which x is known, and twice as many as now."""
    known = saturation(confidence.move, size)
    tally.visit_limits[:] = np.where(tally.visits < known, known + 1, 2 * tally.visits)
    tally.visit_limits[tally.visits == 0] = 1


def touch_up(plan: PairPlan, tally: Tally, confidence: Confidence) -> None:
    """Plan only the rows that became outdated, with T-hat and the levels as they were."""
    _plan_rows(plan, tally, confidence, np.flatnonzero(tally.dirty))


def _plan_rows(plan: PairPlan, tally: Tally, confidence: Confidence, firsts: NDArray[np.int64]) -> None:
    if firsts.size:
        begins, partners, samples = known_partners(tally, plan.known, firsts)
        _make_room(plan, firsts, np.diff(begins))
        bonuses = confidence.pair(samples, plan.size)
        listed = firsts, begins, partners, bonuses
        kernels.plan_rows(plan.hat, plan.after_third, *listed, plan.choices, plan.after_second)
    first = plan.choices.rows[kernels.FIRST]
    kernels.plan_slot(plan.hat, plan.nothing, plan.after_second, plan.everywhere, first, plan.spare, plan.value)
    tally.dirty[:] = False
    tally.progress[DIRTY] = 0
    plan.uncertainty = start_value(plan.value, tally, confidence, plan.size)
    plan.rows_planned += firsts.size
    plan.cost += EVENT_COST + (firsts.size + 1) * plan.choices.rows.shape[1] * plan.hat.counts.size


def _make_room(plan: PairPlan, firsts: NDArray[np.int64], partners: NDArray[np.int64]) -> None:
    """Let there be room for the own choices after ``firsts``, each known with so many partners."""
    num_states = plan.size.num_states
    needed = np.minimum(partners, num_states)
    grown = needed > plan.reserved[firsts]
    if not grown.any():
        return
    choices, firsts = plan.choices, firsts[grown]
    plan.reserved[firsts] = np.minimum(2 * needed[grown], num_states)
    choices.places[firsts] = plan.used + np.cumsum(plan.reserved[firsts]) - plan.reserved[firsts]
    plan.used += int(plan.reserved[firsts].sum())
    if plan.used > len(choices.own):
        more = 2 * plan.used - len(choices.own)
        states = np.concatenate([choices.states, np.zeros(more, choices.states.dtype)])
        own = np.concatenate([choices.own, np.zeros((more, choices.own.shape[1]), choices.own.dtype)])
        plan.choices = choices._replace(states=states, own=own)


def estimate_moves(tally: Tally, confidence: Confidence, size: Size) -> Hat:
    """T-hat with its bonuses, without the moves to the end (whose value is 0)."""
    totals = tally.visits.astype(np.float64)
    bonus = np.ascontiguousarray(confidence.move(totals, size), dtype=np.float64)
    begins, successors, moves = tally.begins, tally.successors, tally.moves
    going = (successors < tally.num_states) & (moves > 0)
    if not going.all():
        begins = np.concatenate([[0], np.cumsum(going)])[begins]
        successors, moves = successors[going], moves[going]
    counts = moves.astype(np.float64)
    dense = counts.size > DENSE * tally.num_x * tally.num_states
    columns = np.zeros((tally.num_states if dense else 0, tally.num_x if dense else 0))
    if dense:
        columns[successors, np.repeat(np.arange(tally.num_x), np.diff(begins))] = counts
    return Hat(begins, successors, counts, columns, totals, bonus, confidence.scaled)


def start_value(value: Floats, tally: Tally, confidence: Confidence, size: Size) -> float:
    """V_0, with nu-hat and its bonus of this moment."""
    episodes = tally.episodes
    if episodes == 0:
        return 1.0
    bonus = float(confidence.start(size._replace(episodes=episodes)))
    expected = float(dot(tally.starts, value)) / episodes
    top = float(value.max())
    value_now = min(top, expected + bonus * top) if confidence.scaled else expected + bonus
    return min(1.0, confidence.unseen * value_now)


def saturation(bonus: Callable[[Any, Size], Any], size: Size) -> int:
    """The largest count at which a bonus is still 1 (to 2 % where it is above 64)."""
    doubled = 2 ** np.arange(62, dtype=np.int64)
    full = bonus(doubled, size) >= 1.0
    if not full[0]:
        return 0
    lower = int(doubled[full][-1])
    finer = lower + np.arange(65, dtype=np.int64) * max(lower // 64, 1)
    finer = finer[finer < 2 * lower]
    return int(finer[bonus(finer, size) >= 1.0][-1])
