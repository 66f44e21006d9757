"""Draw N episodes of the paper's counts at once, exact in distribution, at a cost that does not depend on N.

Between two replans the plan is fixed, and the path of an episode depends neither on its type nor on its rewards. So
whole numbers of episodes are propagated through (slot, first pick, state) by multinomial draws; each episode ends with
the label of its two picks. Types and rewards are drawn afterwards for each label: given its label an episode has type m
with probability w[m], and its picked rewards are independent given m.

A batch is as long as no pair is expected to grow by more than the growth factor.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.binomial import multinomial
from rewardmix._core.checks import raise_input_error
from rewardmix._core.jit import kernel
from rewardmix._core.pair_count_kernels import (
    EPISODES_SLOT,
    LIMIT_COLUMN,
    NEW_VISITS_SLOT,
    SAMPLES_COLUMN,
    STALE_SLOT,
    TABLE_COLUMN,
    USED_SLOT,
    add_pair,
    advance_limit,
    find_slot,
)
from rewardmix._core.random_streams import Role, kernel_stream
from rewardmix.episodes import Episodes
from rewardmix.exploration.augmented_mdp import PairPlan
from rewardmix.exploration.exploration_kernels import FIRST, RANDOM_ACTION, SHARED, THIRD, Choices, look_up_choice
from rewardmix.exploration.running_counts import RunningCounts
from rewardmix.model import RewardMixingMDP
from rewardmix.simulation_kernels import successor_lists


class CumulativeModel(NamedTuple):
    """Hold a model as probabilities and their tail sums, for multinomial draws."""

    weights: NDArray[np.float64]
    weights_tail: NDArray[np.float64]
    initial: NDArray[np.float64]
    initial_tail: NDArray[np.float64]
    rewards: NDArray[np.float64]  # (M, X, Z)
    rewards_tail: NDArray[np.float64]
    row_offsets: NDArray[np.int64]
    next_states: NDArray[np.int32]
    transition_probs: NDArray[np.float64]  # (nnz,)
    transition_tail: NDArray[np.float64]


class BatchedEngine:
    """Draw batches of episodes of a model; supports ``selected_pairs`` counts only and stores no episodes."""

    resumes_exactly = True

    def __init__(self, model: RewardMixingMDP, seed: int) -> None:
        row_offsets, next_states, probs = successor_lists(model)
        tail = np.concatenate([_tail_sums(probs[i:j]) for i, j in pairwise(row_offsets)])
        rewards = model.reward_probs.reshape(model.num_types, -1, model.num_values)
        self.tables = CumulativeModel(
            model.weights,
            _tail_sums(model.weights),
            model.initial,
            _tail_sums(model.initial),
            np.ascontiguousarray(rewards),
            _tail_sums(rewards),
            row_offsets,
            next_states,
            probs,
            tail,
        )
        self.sizes = model.num_states, model.num_actions, model.horizon
        self.reward_values = model.reward_values
        self.rng_state = kernel_stream(seed, Role.BATCHED_EXPLORATION)

    def new_counts(self, ordered: bool) -> RunningCounts:
        """Return empty counts over the model's lists of next states."""
        if not ordered:
            raise_input_error(
                "counting", "all_pairs", "selected_pairs; the batched engine keeps no paths, only picked pairs"
            )
        return RunningCounts.empty(
            self.sizes, self.reward_values, ordered, (self.tables.row_offsets, self.tables.next_states)
        )

    def play(
        self, plan: PairPlan, choices: Choices, counts: RunningCounts, until: int, replan_after: int, growth: float
    ) -> None:
        """Draw one batch, in which no pair should grow by more than ``growth``; at most to ``until`` episodes."""
        if choices.rows[FIRST, 0, 0] == RANDOM_ACTION:
            raise_input_error("strategy", "random actions", "a strategy that plans; a batch follows one plan")
        labels = np.zeros((counts.num_state_actions, counts.num_state_actions), np.int64)
        single_picks = np.zeros(counts.num_state_actions, np.int64)
        pair_probs = np.zeros((counts.num_state_actions, counts.num_state_actions))
        initial = counts.initial_counts / max(counts.episodes, 1)
        fill_pair_probs(plan.transition_estimate, choices, initial, counts.num_actions, pair_probs)
        num_episodes = batch_size(
            pair_probs, counts.pairs.slots, *counts.pairs.hash_params, plan.saturation_count, growth
        )
        # The length is estimated with T-hat. As long as T-hat reaches no pair, the batch has one episode.
        num_episodes = min(until - counts.episodes, int(num_episodes))
        propagate_batch(self.tables, choices, counts.arrays, self.rng_state, num_episodes, labels, single_picks)
        # Visits are added in bulk, so the limits are checked once per batch.
        counts.progress[NEW_VISITS_SLOT] += np.count_nonzero(counts.visits >= counts.visit_limits)
        limit = plan.first_limit(growth)
        counts.reserve(int(np.count_nonzero(labels)))
        draw_rewards(self.tables, counts.arrays, self.rng_state, labels, single_picks, growth, limit)
        counts.progress[EPISODES_SLOT] += num_episodes

    def collect_episodes(self, episodes: int) -> Episodes | None:
        """Return None: a batch holds counts, not single episodes."""
        return None


def _tail_sums(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums of probabilities from each entry to the last, added from the end.

    The conditional probabilities of the multinomial divide by them. Adding from the end keeps small tails accurate,
    where 1 - cumsum would cancel.
    """
    return np.ascontiguousarray(np.cumsum(probabilities[..., ::-1], axis=-1)[..., ::-1])


@kernel
def fill_pair_probs(hat: Any, choices: Any, initial: Any, num_actions: Any, out: Any) -> None:
    """Fill ``out`` (X, X) with the probability, under T-hat, that an episode picks each ordered pair."""
    horizon, num_states = choices.rows.shape[1:]
    num_state_actions = num_states * num_actions
    none, one_pick = initial.copy(), np.zeros((num_state_actions, num_states))
    later_none, next_one_pick = np.zeros(num_states), np.zeros((num_state_actions, num_states))
    for t in range(horizon):
        later_none[:] = 0.0
        next_one_pick[:] = 0.0
        for s in range(num_states):
            if none[s] > 0:
                code = choices.rows[FIRST, t, s]
                x = s * num_actions + (code >> 1)
                for j in range(hat.row_offsets[x], hat.row_offsets[x + 1]):
                    flow = none[s] * hat.counts[j] / hat.totals[x]
                    if code & 1 == 0:
                        next_one_pick[x, hat.next_states[j]] += flow
                    else:
                        later_none[hat.next_states[j]] += flow
        for x1 in range(num_state_actions):
            for s in range(num_states):
                if one_pick[x1, s] > 0:
                    code = look_up_choice(choices, SHARED, x1, t, s)
                    x = s * num_actions + (code >> 1)
                    if code & 1 == 0:
                        out[x1, x] += one_pick[x1, s]
                        # After the second pick nothing is collected, so the probability need not be propagated.
                        continue
                    for j in range(hat.row_offsets[x], hat.row_offsets[x + 1]):
                        next_one_pick[x1, hat.next_states[j]] += one_pick[x1, s] * hat.counts[j] / hat.totals[x]
        none[:] = later_none
        one_pick[:] = next_one_pick


@kernel
def batch_size(pair_probs: Any, records: Any, multiplier: Any, shift: Any, saturation_count: Any, growth: Any) -> Any:
    """Return the longest batch in which no pair is expected to grow by more than ``growth``.

    Pairs below the saturation count are treated as if they had reached it: their bonus stays at its maximum anyway.
    """
    # Float64 represents every integer below 2^52; a longer batch could not be counted exactly.
    longest = 2.0**52
    for x1 in range(pair_probs.shape[0]):
        for x2 in range(pair_probs.shape[1]):
            if pair_probs[x1, x2] > 0:
                slot = find_slot(records, x1 * pair_probs.shape[1] + x2, multiplier, shift)
                samples = max(records[slot, SAMPLES_COLUMN], saturation_count, 1)
                longest = min(longest, (growth - 1.0) * samples / pair_probs[x1, x2])
    return max(1, np.int64(longest)) if longest < 2.0**52 else 1


@kernel
def propagate(
    probs: Any, x: Any, number: Any, stream: Any, transitions: Any, visits: Any, next_counts: Any, buffer: Any
) -> None:
    """Propagate ``number`` episodes from x to next states by one multinomial draw, and count the transitions."""
    begin, end = probs.row_offsets[x], probs.row_offsets[x + 1]
    visits[x] += number
    multinomial(
        number, probs.transition_probs[begin:end], probs.transition_tail[begin:end], stream, buffer[: end - begin]
    )
    for j in range(begin, end):
        transitions[j] += buffer[j - begin]
        next_counts[probs.next_states[j]] += buffer[j - begin]


@kernel
def propagate_batch(
    probs: Any, choices: Any, counts: Any, stream: Any, number: Any, labels: Any, single_picks: Any
) -> None:
    """Propagate ``number`` episodes through the augmented MDP.

    Fills ``labels`` (X, X) with the number of episodes that picked each ordered pair and ``single_picks`` (X,) with the
    number that picked only one step; counts initial states and transitions.
    """
    horizon, num_states = choices.rows.shape[1:]
    num_state_actions = counts.last_visit_mark.size
    num_actions = num_state_actions // num_states
    none, one_pick = np.zeros(num_states, np.int64), np.zeros((num_state_actions, num_states), np.int64)
    both, done = np.zeros(num_state_actions, np.int64), np.zeros(num_states, np.int64)
    later_none, next_one_pick, later_done = np.zeros_like(none), np.zeros_like(one_pick), np.zeros_like(done)
    buffer = np.zeros(num_states, np.int64)
    active = np.zeros(num_state_actions, np.bool_)
    multinomial(number, probs.initial, probs.initial_tail, stream, none)
    counts.initial_counts[:] += none
    for t in range(horizon):
        later_none[:], later_done[:], both[:] = 0, 0, 0
        for s in range(num_states):
            if done[s] > 0:
                # Episodes with two picks all follow one row of choices, so their flows are added by state-action
                # before the draw.
                both[s * num_actions + (choices.rows[THIRD, t, s] >> 1)] += done[s]
        for x1 in range(num_state_actions):
            if not active[x1]:
                continue
            next_one_pick[x1] = 0
            for s in range(num_states):
                if one_pick[x1, s] == 0:
                    continue
                code = look_up_choice(choices, SHARED, x1, t, s)
                x = s * num_actions + (code >> 1)
                if code & 1 == 0:
                    labels[x1, x] += one_pick[x1, s]
                    both[x] += one_pick[x1, s]
                else:
                    propagate(
                        probs,
                        x,
                        one_pick[x1, s],
                        stream,
                        counts.transition_counts,
                        counts.visits,
                        next_one_pick[x1],
                        buffer,
                    )
        for s in range(num_states):
            if none[s] > 0:
                code = choices.rows[FIRST, t, s]
                x = s * num_actions + (code >> 1)
                next_counts = next_one_pick[x] if code & 1 == 0 else later_none
                active[x] |= code & 1 == 0
                propagate(probs, x, none[s], stream, counts.transition_counts, counts.visits, next_counts, buffer)
        for x in range(num_state_actions):
            if both[x] > 0:
                propagate(probs, x, both[x], stream, counts.transition_counts, counts.visits, later_done, buffer)
        # Flows of this step are replaced only after all draws: every draw reads the flows of step t and adds to those
        # of t + 1.
        none[:], done[:] = later_none, later_done
        for x1 in range(num_state_actions):
            if active[x1]:
                one_pick[x1] = next_one_pick[x1]
    for x1 in range(num_state_actions):
        if active[x1]:
            single_picks[x1] = one_pick[x1].sum()


@kernel
def draw_rewards(probs: Any, counts: Any, stream: Any, labels: Any, single_picks: Any, growth: Any, limit: Any) -> None:
    """Draw the types and picked rewards of the episodes of each label by multinomials, and count them."""
    num_state_actions, num_values = counts.reward_counts.shape
    type_counts = np.zeros(probs.weights.size, np.int64)
    first_counts, second_counts = np.zeros(num_values, np.int64), np.zeros(num_values, np.int64)
    for x1 in range(num_state_actions):
        if single_picks[x1] > 0:
            multinomial(single_picks[x1], probs.weights, probs.weights_tail, stream, type_counts)
            for m in range(type_counts.size):
                multinomial(type_counts[m], probs.rewards[m, x1], probs.rewards_tail[m, x1], stream, first_counts)
                counts.reward_counts[x1] += first_counts
        for x2 in range(num_state_actions):
            if labels[x1, x2] == 0:
                continue
            multinomial(labels[x1, x2], probs.weights, probs.weights_tail, stream, type_counts)
            for m in range(type_counts.size):
                multinomial(type_counts[m], probs.rewards[m, x1], probs.rewards_tail[m, x1], stream, first_counts)
                counts.reward_counts[x1] += first_counts
                # Given the type, the two rewards are independent: the second is drawn among the episodes of each first
                # reward.
                for z in range(num_values):
                    multinomial(first_counts[z], probs.rewards[m, x2], probs.rewards_tail[m, x2], stream, second_counts)
                    if x2 != x1:
                        counts.reward_counts[x2] += second_counts
                    for other in range(num_values):
                        add_pair_samples(counts, x1, x2, z * num_values + other, second_counts[other], limit)
            # The growth limit is checked once per pair, after all its cells were counted.
            slot = find_slot(counts.records, x1 * num_state_actions + x2, counts.multiplier, counts.shift)
            if advance_limit(counts.records, slot, growth):
                counts.progress[STALE_SLOT] += 1
                counts.stale_rows[x1] = True


@kernel
def add_pair_samples(counts: Any, x1: Any, x2: Any, cell: Any, num_samples: Any, limit: Any) -> None:
    """Count ``num_samples`` samples of one cell of a pair's table."""
    if num_samples == 0:
        return
    slot = add_pair(counts.records, x1 * counts.last_visit_mark.size + x2, cell, counts.multiplier, counts.shift, limit)
    if slot < 0:
        slot = -1 - slot
        counts.progress[USED_SLOT] += 1
        counts.records[slot, LIMIT_COLUMN] = limit
    # ``add_pair`` has already counted one sample.
    counts.records[slot, SAMPLES_COLUMN] += num_samples - 1
    counts.records[slot, TABLE_COLUMN + cell] += num_samples - 1
