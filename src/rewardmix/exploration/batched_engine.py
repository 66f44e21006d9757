"""Engine (c): N episodes of the paper's counts at once, exact in distribution, at a cost that does not depend on N.

Between two replans the plan is fixed, and the path of an episode depends neither on its context nor on its rewards. So
whole numbers of episodes are pushed through (slot, first pick, state) by multinomial draws; each episode ends with the
label of its two picks. Contexts and rewards are drawn afterwards, for each label: given its label an episode has
context m with probability w[m], and its picked rewards are independent given m.

A batch is as long as no pair is expected to grow by more than the growth factor.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.binomial import multinomial
from rewardmix._core.checks import refuse
from rewardmix._core.jit import kernel
from rewardmix._core.pair_counting import DIRTY, EPISODES, LIMIT, NEWS, SAMPLES, TABLE, USED, add_pair, slot_of, watch
from rewardmix._core.streams import Role, stream
from rewardmix.episodes import Episodes
from rewardmix.exploration.augmented import PairPlan
from rewardmix.exploration.exploration_kernels import ANY, FIRST, SHARED, THIRD, Choices, choice
from rewardmix.exploration.tally import Tally
from rewardmix.model import RewardMixingMDP
from rewardmix.simulation_kernels import successor_lists


class Laws(NamedTuple):
    """A model as probabilities and their tail sums, for multinomial draws."""

    weights: NDArray[np.float64]
    weights_tail: NDArray[np.float64]
    initial: NDArray[np.float64]
    initial_tail: NDArray[np.float64]
    rewards: NDArray[np.float64]  # (M, X, Z)
    rewards_tail: NDArray[np.float64]
    begins: NDArray[np.int64]
    successors: NDArray[np.int32]
    moves: NDArray[np.float64]  # (nnz,)
    moves_tail: NDArray[np.float64]


class BatchedEngine:
    """Plays a model by counts alone. ``selected`` counts only, and no episodes to keep."""

    exact_resume = True

    def __init__(self, model: RewardMixingMDP, seed: int) -> None:
        begins, successors, moves = successor_lists(model)
        tail = np.concatenate([_tail(moves[i:j]) for i, j in pairwise(begins)])
        rewards = model.laws.reshape(model.num_contexts, -1, model.num_values)
        self.laws = Laws(
            model.weights,
            _tail(model.weights),
            model.initial,
            _tail(model.initial),
            np.ascontiguousarray(rewards),
            _tail(rewards),
            begins,
            successors,
            moves,
            tail,
        )
        self.sizes = model.num_states, model.num_actions, model.horizon
        self.reward_values = model.reward_values
        self.stream = stream(seed, Role.BATCHED_EXPLORATION)

    def fresh_tally(self, ordered: bool) -> Tally:
        """An empty tally over the model's own lists of next states."""
        if not ordered:
            refuse("counts", "all_pairs", "selected: a batch of episodes keeps no paths, only picked pairs")
        return Tally.fresh(self.sizes, self.reward_values, ordered, (self.laws.begins, self.laws.successors))

    def play(self, plan: PairPlan, choices: Choices, tally: Tally, until: int, patience: int, growth: float) -> None:
        """Play one batch: up to ``until`` episodes in all, and no pair growing by more than ``growth`` on average."""
        if choices.rows[FIRST, 0, 0] == ANY:
            refuse("strategy", "random actions", "a strategy that plans: a batch follows one plan")
        labels, alone = np.zeros((tally.num_x, tally.num_x), np.int64), np.zeros(tally.num_x, np.int64)
        chances = np.zeros((tally.num_x, tally.num_x))
        starts = tally.starts / max(tally.episodes, 1)
        expected_pairs(plan.hat, choices, starts, tally.num_actions, chances)
        number = batch_size(chances, tally.pairs.records, *tally.pairs.hashing, plan.known, growth)
        number = min(until - tally.episodes, int(number))
        push(self.laws, choices, tally.arrays, self.stream, number, labels, alone)
        tally.progress[NEWS] += np.count_nonzero(tally.visits >= tally.visit_limits)
        limit = plan.first_limit(growth)
        tally.make_room(int(np.count_nonzero(labels)))
        draw_rewards(self.laws, tally.arrays, self.stream, labels, alone, growth, limit)
        tally.progress[EPISODES] += number

    def gathered(self, episodes: int) -> Episodes | None:
        """Nothing: episodes were never looked at one by one."""
        return None


def _tail(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.ascontiguousarray(np.cumsum(probabilities[..., ::-1], axis=-1)[..., ::-1])


@kernel
def expected_pairs(hat: Any, choices: Any, starts: Any, num_actions: Any, out: Any) -> None:
    """``out`` (X, X): probability, under T-hat, that an episode picks each pair."""
    horizon, num_states = choices.rows.shape[1:]
    num_x = num_states * num_actions
    none, one = starts.copy(), np.zeros((num_x, num_states))
    later_none, later_one = np.zeros(num_states), np.zeros((num_x, num_states))
    for t in range(horizon):
        later_none[:] = 0.0
        later_one[:] = 0.0
        for s in range(num_states):
            if none[s] > 0:
                code = choices.rows[FIRST, t, s]
                x = s * num_actions + (code >> 1)
                for j in range(hat.begins[x], hat.begins[x + 1]):
                    flow = none[s] * hat.counts[j] / hat.totals[x]
                    if code & 1 == 0:
                        later_one[x, hat.successors[j]] += flow
                    else:
                        later_none[hat.successors[j]] += flow
        for x1 in range(num_x):
            for s in range(num_states):
                if one[x1, s] > 0:
                    code = choice(choices, SHARED, x1, t, s)
                    x = s * num_actions + (code >> 1)
                    if code & 1 == 0:
                        out[x1, x] += one[x1, s]
                        continue
                    for j in range(hat.begins[x], hat.begins[x + 1]):
                        later_one[x1, hat.successors[j]] += one[x1, s] * hat.counts[j] / hat.totals[x]
        none[:] = later_none
        one[:] = later_one


@kernel
def batch_size(chances: Any, records: Any, multiplier: Any, shift: Any, known: Any, growth: Any) -> Any:
    """The longest batch in which no pair is expected to grow by more than ``growth`` beyond saturation."""
    longest = 2.0**52
    for x1 in range(chances.shape[0]):
        for x2 in range(chances.shape[1]):
            if chances[x1, x2] > 0:
                slot = slot_of(records, x1 * chances.shape[1] + x2, multiplier, shift)
                samples = max(records[slot, SAMPLES], known, 1)
                longest = min(longest, (growth - 1.0) * samples / chances[x1, x2])
    return max(1, np.int64(longest)) if longest < 2.0**52 else 1


@kernel
def send_on(laws: Any, x: Any, number: Any, stream: Any, moves: Any, visits: Any, into: Any, buffer: Any) -> None:
    """Send ``number`` episodes from x to next states, counting the moves."""
    begin, end = laws.begins[x], laws.begins[x + 1]
    visits[x] += number
    multinomial(number, laws.moves[begin:end], laws.moves_tail[begin:end], stream, buffer[: end - begin])
    for j in range(begin, end):
        moves[j] += buffer[j - begin]
        into[laws.successors[j]] += buffer[j - begin]


@kernel
def push(laws: Any, choices: Any, counts: Any, stream: Any, number: Any, labels: Any, alone: Any) -> None:
    """Push ``number`` episodes through the augmented MDP.

    Fills ``labels`` (X, X) with the episodes that picked each ordered pair, ``alone`` (X,) with those that picked only
    one step, and counts starts and moves.
    """
    horizon, num_states = choices.rows.shape[1:]
    num_x = counts.mark.size
    num_actions = num_x // num_states
    none, one, both = np.zeros(num_states, np.int64), np.zeros((num_x, num_states), np.int64), np.zeros(num_x, np.int64)
    done = np.zeros(num_states, np.int64)
    later_none, later_one, later_done = np.zeros_like(none), np.zeros_like(one), np.zeros_like(done)
    buffer = np.zeros(num_states, np.int64)
    active = np.zeros(num_x, np.bool_)
    multinomial(number, laws.initial, laws.initial_tail, stream, none)
    counts.starts[:] += none
    for t in range(horizon):
        later_none[:], later_done[:], both[:] = 0, 0, 0
        for s in range(num_states):
            if done[s] > 0:
                both[s * num_actions + (choices.rows[THIRD, t, s] >> 1)] += done[s]
        for x1 in range(num_x):
            if not active[x1]:
                continue
            later_one[x1] = 0
            for s in range(num_states):
                if one[x1, s] == 0:
                    continue
                code = choice(choices, SHARED, x1, t, s)
                x = s * num_actions + (code >> 1)
                if code & 1 == 0:
                    labels[x1, x] += one[x1, s]
                    both[x] += one[x1, s]
                else:
                    send_on(laws, x, one[x1, s], stream, counts.moves, counts.visits, later_one[x1], buffer)
        for s in range(num_states):
            if none[s] > 0:
                code = choices.rows[FIRST, t, s]
                x = s * num_actions + (code >> 1)
                into = later_one[x] if code & 1 == 0 else later_none
                active[x] |= code & 1 == 0
                send_on(laws, x, none[s], stream, counts.moves, counts.visits, into, buffer)
        for x in range(num_x):
            if both[x] > 0:
                send_on(laws, x, both[x], stream, counts.moves, counts.visits, later_done, buffer)
        none[:], done[:] = later_none, later_done
        for x1 in range(num_x):
            if active[x1]:
                one[x1] = later_one[x1]
    for x1 in range(num_x):
        if active[x1]:
            alone[x1] = one[x1].sum()


@kernel
def draw_rewards(laws: Any, counts: Any, stream: Any, labels: Any, alone: Any, growth: Any, limit: Any) -> None:
    """Draw the contexts and picked rewards of the episodes of each label, and count them."""
    num_x, num_values = counts.outcomes.shape
    split = np.zeros(laws.weights.size, np.int64)
    one, two = np.zeros(num_values, np.int64), np.zeros(num_values, np.int64)
    for x1 in range(num_x):
        if alone[x1] > 0:
            multinomial(alone[x1], laws.weights, laws.weights_tail, stream, split)
            for m in range(split.size):
                multinomial(split[m], laws.rewards[m, x1], laws.rewards_tail[m, x1], stream, one)
                counts.outcomes[x1] += one
        for x2 in range(num_x):
            if labels[x1, x2] == 0:
                continue
            multinomial(labels[x1, x2], laws.weights, laws.weights_tail, stream, split)
            for m in range(split.size):
                multinomial(split[m], laws.rewards[m, x1], laws.rewards_tail[m, x1], stream, one)
                counts.outcomes[x1] += one
                for z in range(num_values):
                    multinomial(one[z], laws.rewards[m, x2], laws.rewards_tail[m, x2], stream, two)
                    if x2 != x1:
                        counts.outcomes[x2] += two
                    for other in range(num_values):
                        count_many(counts, x1, x2, z * num_values + other, two[other], limit)
            slot = slot_of(counts.records, x1 * num_x + x2, counts.multiplier, counts.shift)
            if watch(counts.records, slot, growth):
                counts.progress[DIRTY] += 1
                counts.dirty[x1] = True


@kernel
def count_many(counts: Any, x1: Any, x2: Any, cell: Any, number: Any, limit: Any) -> None:
    """``number`` samples of one cell of a pair."""
    if number == 0:
        return
    slot = add_pair(counts.records, x1 * counts.mark.size + x2, cell, counts.multiplier, counts.shift, limit)
    if slot < 0:
        slot = -1 - slot
        counts.progress[USED] += 1
        counts.records[slot, LIMIT] = limit
    counts.records[slot, SAMPLES] += number - 1
    counts.records[slot, TABLE + cell] += number - 1
