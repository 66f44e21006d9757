"""Plan rows, look up bonuses and play plans in the augmented MDP of triples (compiled kernels).

Choices are one dense table of rows (R, H, S), by what was picked so far:

    0                            nothing
    1 + x                        x
    1 + X + pair_index of {x, y} x and y, in either order
    R - 1                        all three
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import kernel, lazy_jit
from rewardmix._core.pair_count_kernels import (
    EPISODES_SLOT,
    KEY_COLUMN,
    LIMIT_COLUMN,
    NEW_VISITS_SLOT,
    NO_LIMIT_COUNT,
    SAMPLES_COLUMN,
    STALE_SLOT,
    USED_SLOT,
    count_all_pairs,
    find_slot,
)
from rewardmix._core.triple_count_kernels import count_all_triples
from rewardmix._core.xoshiro import advance, sample_cumulative
from rewardmix.exploration.exploration_kernels import (
    RANDOM_ACTION,
    count_visit,
    lower_half_uniform,
    plan_slot,
    upper_half_uniform,
)
from rewardmix.simulation_kernels import sample_entry


class TripleChoices(NamedTuple):
    """Hold what to play; ``triple_choice`` reads it."""

    rows: NDArray[np.int16]  # (R, H, S), or (1, H, S) where nothing is ever picked


@kernel
def pair_index(x: Any, y: Any, num_state_actions: Any) -> Any:
    """Return the index of the pair x <= y among all X (X + 1) / 2 pairs."""
    return x * num_state_actions - x * (x - 1) // 2 + y - x


@lazy_jit(lambda *_: 8)
def triple_choice(choices: Any, num_state_actions: Any, picked: Any, x1: Any, x2: Any, t: Any, s: Any) -> Any:
    """Look up the choice in state s at step t after ``picked`` picks, the first two of which are given."""
    row = 0
    if picked == 1:
        row = 1 + x1
    elif picked == 2:
        row = 1 + num_state_actions + pair_index(min(x1, x2), max(x1, x2), num_state_actions)
    elif picked == 3:
        row = choices.rows.shape[0] - 1
    return np.int64(choices.rows[row, t, s])


# ---------------------------------------------------------------------------------------------------------------------
# Planning


@kernel
def triple_samples(
    records: Any, multiplier: Any, shift: Any, num_state_actions: Any, x1s: Any, x2s: Any, out: Any
) -> None:
    """Fill ``out`` (B, X) with the samples of each triple {x1, x2, x}, for pairs x1 <= x2."""
    for b in range(x1s.size):
        x1, x2 = x1s[b], x2s[b]
        for x in range(num_state_actions):
            # Keys are sorted triples, so x is put in its position among x1 <= x2.
            if x <= x1:
                key = (x * num_state_actions + x1) * num_state_actions + x2
            elif x <= x2:
                key = (x1 * num_state_actions + x) * num_state_actions + x2
            else:
                key = (x1 * num_state_actions + x2) * num_state_actions + x
            slot = find_slot(records, key, multiplier, shift)
            out[b, x] = records[slot, SAMPLES_COLUMN] if records[slot, KEY_COLUMN] == key else 0


@kernel
def set_triple_limits(records: Any, growth: Any, saturation_count: Any, num_state_actions: Any, touched: Any) -> None:
    """Set the sample count at which each triple becomes stale; mark pairs with a known triple in ``touched``."""
    for i in range(records.shape[0]):
        if records[i, KEY_COLUMN] >= 0:
            samples = records[i, SAMPLES_COLUMN]
            records[i, LIMIT_COLUMN] = max(samples + 1, np.int64(np.ceil(growth * max(samples, saturation_count))))
            if samples > saturation_count:
                front, w = records[i, KEY_COLUMN] // num_state_actions, records[i, KEY_COLUMN] % num_state_actions
                x, y = front // num_state_actions, front % num_state_actions
                touched[x, y] = touched[x, w] = touched[y, w] = True


@kernel
def plan_third_slot(
    hat: Any, after_last: Any, all_states: Any, x1s: Any, x2s: Any, bonuses: Any, rows: Any, after_pair: Any
) -> None:
    """Plan the third slot after each pair x1 <= x2, where picking x is worth ``bonuses`` (B, X) more.

    Fills the rows of the pairs, and ``after_pair`` (X, H, X): [x1, t, x2] is the value of what follows when x2 is
    picked at t as the second, after x1.
    """
    horizon, num_state_actions = after_last.shape
    after, value = np.empty((horizon, num_state_actions)), np.empty(all_states.size)
    for b in range(x1s.size):
        x1, x2 = x1s[b], x2s[b]
        row = rows[1 + num_state_actions + pair_index(x1, x2, num_state_actions)]
        plan_slot(hat, bonuses[b], after_last, all_states, row, after, value)
        for t in range(horizon):
            # The order of the two picks does not matter, so one plan serves both.
            after_pair[x1, t, x2] = after[t, x2]
            after_pair[x2, t, x1] = after[t, x1]


@kernel
def plan_second_slot(
    hat: Any, empty: Any, after_pair: Any, all_states: Any, firsts: Any, rows: Any, after_second: Any
) -> None:
    """Plan the second slot after each of ``firsts``; fill their rows and their columns of ``after_second`` (H, X)."""
    horizon, num_state_actions = after_second.shape
    after, value = np.empty((horizon, num_state_actions)), np.empty(all_states.size)
    for first in firsts:
        plan_slot(hat, empty, after_pair[first], all_states, rows[1 + first], after, value)
        for t in range(horizon):
            after_second[t, first] = after[t, first]


# ---------------------------------------------------------------------------------------------------------------------
# Playing


def _remaining_cost(
    tables: Any, choices: Any, counts: Any, triples: Any, storage: Any, stream: Any, until: Any, *_: Any
) -> Any:
    """Estimate the Python steps that the episodes until ``until`` take."""
    return 8 * max(until - counts.progress[EPISODES_SLOT], 0) * choices.rows.shape[1]


@lazy_jit(_remaining_cost, unused=_remaining_cost)
def play_triples(
    tables: Any,
    choices: Any,
    counts: Any,
    triples: Any,
    storage: Any,
    stream: Any,
    until: Any,
    replan_after: Any,
    capacity: Any,
    triple_capacity: Any,
    growth: Any,
    limit: Any,
) -> None:
    """Play episodes of a model with three picks each, and count all pairs and all triples.

    Only triples mark rows of the plan as stale. Stops for the reasons given in ``play_choices``, and when the triple
    table might overflow.
    """
    horizon, num_values = choices.rows.shape[1], tables.rewards.shape[2]
    num_state_actions = counts.last_visit_mark.size
    num_actions = num_state_actions // choices.rows.shape[2]
    max_pairs, max_triples = horizon * (horizon + 1) // 2, horizon * (horizon + 1) * (horizon + 2) // 6
    stores_episodes = storage.states.shape[0] > 0
    xs, zs, scratch = np.empty(horizon, np.int64), np.empty(horizon, np.int64), np.empty((3, horizon), np.int64)
    distinct, visits = np.empty(horizon, np.int64), np.empty((horizon, 3), np.int64)
    # The generator's state is kept in local variables, which stay in registers, and is written back at the end.
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    while counts.progress[EPISODES_SLOT] < until and counts.progress[USED_SLOT] + max_pairs <= capacity:
        if triples.progress[USED_SLOT] + max_triples > triple_capacity:
            break
        k = counts.progress[EPISODES_SLOT]
        keep, row = stores_episodes and k % storage.keep_every == 0, k // storage.keep_every
        if keep and row >= storage.states.shape[0]:
            break
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        s = sample_cumulative(tables.initial, upper_half_uniform(word))
        m = sample_cumulative(tables.type_cumulative, lower_half_uniform(word))
        counts.initial_counts[s] += 1
        picked, x1, x2 = 0, 0, 0
        for t in range(horizon):
            code = triple_choice(choices, num_state_actions, picked, x1, x2, t, s)
            if code == RANDOM_ACTION:
                word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
                code = 2 * np.int64(upper_half_uniform(word) * num_actions) + 1
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            x = s * num_actions + (code >> 1)
            u, z = lower_half_uniform(word), 0
            # Inverse transform sampling: the index of the reward is the number of cumulative probabilities that u has
            # reached.
            for i in range(num_values - 1):
                z += u >= tables.rewards[m, x, i]
            entry = sample_entry(tables, x, upper_half_uniform(word))
            counts.transition_counts[entry] += 1
            count_visit(counts, x)
            if keep:
                storage.states[row, t], storage.actions[row, t], storage.reward_indices[row, t] = s, code >> 1, z
            s = np.int64(tables.next_states[entry])
            xs[t], zs[t] = x, z
            if code & 1 == 0 and picked < 3:
                if picked == 0:
                    x1 = x
                elif picked == 1:
                    x2 = x
                picked += 1
        if keep:
            storage.states[row, horizon] = s
        # With this limit pairs are counted but mark no row as stale.
        count_all_pairs(counts, xs, zs, horizon, 1.0, NO_LIMIT_COUNT, scratch)
        count_all_triples(triples, num_state_actions, num_values, xs, zs, horizon, growth, limit, distinct, visits)
        counts.progress[EPISODES_SLOT] += 1
        if (
            triples.progress[STALE_SLOT] + counts.progress[NEW_VISITS_SLOT] > 0
            and counts.progress[EPISODES_SLOT] >= replan_after
        ):
            break
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3


@kernel
def count_env_triples(
    triples: Any,
    num_states: Any,
    totals: Any,
    states: Any,
    actions: Any,
    reward_indices: Any,
    lengths: Any,
    growth: Any,
    limit: Any,
) -> None:
    """Count the triples of episodes of an environment; the shape of ``totals`` is (X, Z)."""
    num_state_actions, num_values = totals.shape
    num_actions, horizon = num_state_actions // num_states, actions.shape[1]
    xs, zs = np.empty(horizon, np.int64), np.empty(horizon, np.int64)
    distinct, visits = np.empty(horizon, np.int64), np.empty((horizon, 3), np.int64)
    for k in range(lengths.size):
        for t in range(lengths[k]):
            xs[t], zs[t] = np.int64(states[k, t]) * num_actions + actions[k, t], reward_indices[k, t]
        count_all_triples(triples, num_state_actions, num_values, xs, zs, lengths[k], growth, limit, distinct, visits)
