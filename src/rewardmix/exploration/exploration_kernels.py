"""Plan in the augmented MDP of pairs, and play plans in a model (compiled kernels).

A choice is one number: 2 a for "play a and pick this step", 2 a + 1 for "play a", -1 for a uniformly random action.
Choices are rows (H, S), one for each situation:

    FIRST      nothing picked yet
    SHARED     one step picked
    THIRD      both picked

After a first pick x1 the choices differ from SHARED only in some states: those where the pair of x1 with the action of
SHARED is known, and the state of x1. These states and their choices are listed.

The columns of pair records, and of ``progress``, are those of ``_core.pair_count_kernels``. A pair's limit is the
number of samples at which its rows become stale; ``stale_rows`` (X,) marks those rows, one entry of ``progress`` counts
them, another counts the state-actions whose visits have reached ``visit_limits``. Planning resets all of these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import kernel, lazy_jit
from rewardmix._core.pair_count_kernels import (
    EPISODES_SLOT,
    NEW_VISITS_SLOT,
    STALE_SLOT,
    USED_SLOT,
    add_pair,
    count_all_pairs,
    count_pair,
)
from rewardmix._core.xoshiro import advance, sample_cumulative
from rewardmix.simulation_kernels import sample_entry

RANDOM_ACTION = -1
"""Choice code of a uniformly random action."""

HALF_WORD_STEP = 1.0 / (1 << 32)
"""Distance between two neighboring uniform draws of 32 bits."""

FIRST, SHARED, THIRD = 0, 1, 2
"""Rows of ``Choices``, by the number of steps picked."""


class TransitionEstimate(NamedTuple):
    """Hold the transition estimate T-hat as counts, fixed at a full replan.

    Transitions to the end are left out of the lists, since their value is 0, but are included in ``totals``.
    """

    row_offsets: NDArray[np.int64]  # (X + 1,)
    next_states: NDArray[np.int32]  # (nnz,)
    counts: NDArray[np.float64]  # (nnz,)
    columns: NDArray[np.float64]  # (S, X) counts as a dense table, next state first; (0, 0) if they are sparse
    totals: NDArray[np.float64]  # (X,) visits
    bonus: NDArray[np.float64]  # (X,) transition bonus
    scales_with_value: bool


class Choices(NamedTuple):
    """Hold what to play; ``look_up_choice`` reads it."""

    rows: NDArray[np.int16]  # (3, H, S): FIRST, SHARED and THIRD
    num_choices: NDArray[np.int64]  # (X,) number of states whose choice after a first pick is listed
    state_offsets: NDArray[np.int64]  # (X,) offset of these states in the two lists
    states: NDArray[np.int32]  # (N,) the states of all first picks, increasing for each; N entries are reserved
    choice_codes: NDArray[np.int16]  # (N, H) the choices


class CountArrays(NamedTuple):
    """Hold the counts that playing updates: those of ``PairCounts``, and those that only exploration needs.

    The order of the fields matters: with the hash parameters before the arrays the compiled code took a quarter longer.
    """

    initial_counts: NDArray[np.int64]  # (S,)
    transition_counts: NDArray[np.int64]  # (nnz,) of each entry
    visits: NDArray[np.int64]  # (X,)
    visit_limits: NDArray[np.int64]  # (X,) visits at which T-hat becomes stale
    reward_counts: NDArray[np.int64]  # (X, Z)
    records: NDArray[np.int64]  # pair table
    stale_rows: NDArray[np.bool_]  # (X,) rows whose plan is stale
    last_visit_mark: NDArray[np.int64]  # (X,)
    progress: NDArray[np.int64]  # (4,)
    multiplier: np.uint64
    shift: np.uint64


class EpisodeStorage(NamedTuple):
    """Hold storage for episodes, or for every n-th of them; arrays without rows if none are stored."""

    states: NDArray[np.int32]  # (N, H + 1), N episodes fit
    actions: NDArray[np.int16]  # (N, H)
    reward_indices: NDArray[np.int8]  # (N, H)
    keep_every: int  # one in how many episodes is stored


# ---------------------------------------------------------------------------------------------------------------------
# Planning


@kernel
def expect_next_values(hat: Any, later: Any, states: Any, bonus: Any, out: Any) -> None:
    """Compute ``out`` (X,): sum over next states s' of counts(x, s') times ``later[s']``.

    Only for the x of ``states`` whose ``bonus`` is finite; the other entries are undefined.
    """
    # Both forms add next states in increasing order, so a dense and a sparse T-hat give equal bits. The dense form
    # runs over x in the inner loop, which the compiler can vectorize without reordering any sum.
    if hat.columns.shape[0] > 0:
        for x in range(out.size):
            out[x] = 0.0
        for s in range(later.size):
            value = later[s]
            column = hat.columns[s]
            for x in range(out.size):
                out[x] += column[x] * value
        return
    num_actions = out.size // later.size
    for s in states:
        for x in range(s * num_actions, (s + 1) * num_actions):
            if bonus[x] < np.inf:
                total = 0.0
                for j in range(hat.row_offsets[x], hat.row_offsets[x + 1]):
                    total += hat.counts[j] * later[hat.next_states[j]]
                out[x] = total


@kernel
def plan_slot(hat: Any, bonus: Any, picking: Any, states: Any, choices: Any, after: Any, value: Any) -> None:
    """Run value iteration in one slot; picking x at step t is worth ``bonus[x] + picking[t, x]`` (negative: forbidden).

    Only ``states`` are planned; every other state keeps its entry of ``value`` (S,), which is 1. For an infinite bonus
    a pick is worth 1, the maximum, and ``after`` is not computed.

    Fills ``choices`` (H, number of states), ``after`` (H, X): value of what follows x at t if x is not picked, and
    ``value`` of the states.
    """
    horizon, num_states = after.shape[0], value.size
    num_actions = bonus.size // num_states
    for t in range(horizon - 1, -1, -1):
        next_value, top = after[t], 0.0
        if t < horizon - 1:
            expect_next_values(hat, value, states, bonus, next_value)
            # States that are not planned have value 1, so if there is any, the largest value is 1.
            top = value[0] if states.size == num_states else 1.0
            for s in states:
                top = max(top, value[s])
        for i in range(states.size):
            best, fewest, code = -1.0, np.inf, 0
            for a in range(num_actions):
                x = states[i] * num_actions + a
                visits = hat.totals[x]
                q = min(1.0, bonus[x] + picking[t, x])
                # Values are clipped at 1, so ties are common and rounding must not decide them: of equal Q the action
                # with fewest visits wins, then the lowest action, and picking (tested first) before not picking.
                if q > best or (q == best and visits < fewest):
                    best, fewest, code = q, visits, 2 * a
                if bonus[x] == np.inf:
                    continue
                # The form (sum of counts times values) / n gives exactly 1 for a row of ones, so ties remain ties.
                follow = next_value[x] / visits if visits > 0 and t < horizon - 1 else 0.0
                follow = min(top, follow + hat.bonus[x] * top) if hat.scales_with_value else follow + hat.bonus[x]
                next_value[x] = follow
                q = min(1.0, follow)
                if q > best or (q == best and visits < fewest):
                    best, fewest, code = q, visits, 2 * a + 1
            choices[t, i] = code
            value[states[i]] = best


@kernel
def plan_rows(
    hat: Any,
    after_third: Any,
    firsts: Any,
    row_offsets: Any,
    partners: Any,
    bonuses: Any,
    choices: Any,
    after_second: Any,
) -> None:
    """Plan the second slot after each first pick in ``firsts``.

    ``partners`` lists the x whose pair with the first pick is known; row b starts at ``row_offsets[b]``. Fills the
    choice lists of the first picks and their columns of ``after_second``. In most states the least visited action,
    which is the choice of SHARED, makes an unknown pair: picking it is worth 1 at every step, so no plan is needed.
    """
    num_states = choices.rows.shape[2]
    horizon, num_state_actions = after_third.shape
    num_actions = num_state_actions // num_states
    after, value = np.empty((horizon, num_state_actions)), np.ones(num_states)
    bonus = np.full(num_state_actions, np.inf)
    codes, states = np.empty((horizon, num_states), choices.rows.dtype), np.empty(num_states, np.int64)
    for b in range(firsts.size):
        first, number = firsts[b], 0
        for j in range(row_offsets[b], row_offsets[b + 1]):
            # The infinite bonus marks unknown pairs; it is restored below, so that one array serves all first picks.
            bonus[partners[j]] = bonuses[j]
            s, a = partners[j] // num_actions, partners[j] % num_actions
            is_shared_choice = choices.rows[SHARED, 0, s] == 2 * a
            if (is_shared_choice or partners[j] == first) and (number == 0 or states[number - 1] != s):
                states[number] = s
                number += 1
        plan_slot(hat, bonus, after_third, states[:number], codes, after, value)
        for t in range(horizon):
            after_second[t, first] = after[t, first]
        for j in range(row_offsets[b], row_offsets[b + 1]):
            bonus[partners[j]] = np.inf
        offset = choices.state_offsets[first]
        choices.num_choices[first] = number
        for i in range(number):
            # States outside the list must have value 1 for the next first pick.
            value[states[i]] = 1.0
            choices.states[offset + i] = states[i]
            for t in range(horizon):
                choices.choice_codes[offset + i, t] = codes[t, i]


# ---------------------------------------------------------------------------------------------------------------------
# Playing


@lazy_jit(lambda *_: 8)
def look_up_choice(choices: Any, picked: Any, first: Any, t: Any, s: Any) -> Any:
    """Look up the choice in state s at step t, after ``picked`` picks of which ``first`` is the first."""
    if picked == SHARED:
        number, begin = choices.num_choices[first], choices.state_offsets[first]
        # A complete list has one entry for each state, so s is its index and no search is needed.
        if number == choices.rows.shape[2]:
            return np.int64(choices.choice_codes[begin + s, t])
        low, high = begin, begin + number
        while low < high:
            middle = (low + high) // 2
            if choices.states[middle] < s:
                low = middle + 1
            else:
                high = middle
        if low < begin + number and choices.states[low] == s:
            return np.int64(choices.choice_codes[low, t])
    return np.int64(choices.rows[picked, t, s])


@kernel
def upper_half_uniform(word: Any) -> Any:
    """Return the upper 32 bits of a word as a uniform float in [0, 1), a multiple of 2^-32."""
    return np.float64(word >> np.uint64(32)) * HALF_WORD_STEP


@kernel
def lower_half_uniform(word: Any) -> Any:
    """Return the lower 32 bits of a word as a uniform float in [0, 1), a multiple of 2^-32."""
    return np.float64(word & np.uint64(0xFFFFFFFF)) * HALF_WORD_STEP


@kernel
def draw_two_uniforms(stream: Any) -> Any:
    """Draw one word from a stream kept in an array; return two uniform floats (upper half, lower half)."""
    word, stream[0], stream[1], stream[2], stream[3] = advance(stream[0], stream[1], stream[2], stream[3])
    return upper_half_uniform(word), lower_half_uniform(word)


@kernel
def count_visit(counts: Any, x: Any) -> None:
    """Count one step from x, and report when T-hat of x becomes stale: at its visit limit, then at each doubling."""
    counts.visits[x] += 1
    if counts.visits[x] >= counts.visit_limits[x]:
        counts.visit_limits[x] = 2 * counts.visits[x]
        counts.progress[NEW_VISITS_SLOT] += 1


@kernel
def count_picks(counts: Any, x1: Any, z1: Any, x2: Any, z2: Any, growth: Any, limit: Any) -> None:
    """Count the picked steps (x1, z1) and (x2, z2) of one episode, in their order; -1 means not picked."""
    if x1 < 0:
        return
    counts.reward_counts[x1, z1] += 1
    if x2 < 0:
        return
    # A state-action counts once per episode: repeated visits share the hidden type and are dependent.
    if x2 != x1:
        counts.reward_counts[x2, z2] += 1
    count_pair(counts, x1, x2, z1 * counts.reward_counts.shape[1] + z2, growth, limit, False)


@kernel
def count_env_episodes(
    counts: Any,
    states: Any,
    actions: Any,
    reward_indices: Any,
    lengths: Any,
    picks: Any,
    ordered: Any,
    growth: Any,
    limit: Any,
    transition_records: Any,
    transition_multiplier: Any,
    transition_shift: Any,
) -> Any:
    """Count episodes of an environment; ``picks`` (n, 2) holds the picked steps, -1 where there was none.

    Transitions go to a hash table with keys x (S + 1) + s', where s' = S is the end. Return the number of new keys.
    """
    num_states = counts.initial_counts.size
    num_actions = counts.last_visit_mark.size // num_states
    horizon = actions.shape[1]
    xs, zs, scratch = np.empty(horizon, np.int64), np.empty(horizon, np.int64), np.empty((3, horizon), np.int64)
    new = 0
    for k in range(lengths.size):
        steps = lengths[k]
        counts.initial_counts[states[k, 0]] += 1
        for t in range(steps):
            xs[t], zs[t] = np.int64(states[k, t]) * num_actions + actions[k, t], reward_indices[k, t]
            ended = t == steps - 1 and steps < horizon
            next_state = num_states if ended else np.int64(states[k, t + 1])
            key = xs[t] * (num_states + 1) + next_state
            new += add_pair(transition_records, key, 0, transition_multiplier, transition_shift, 0) < 0
            count_visit(counts, xs[t])
        if ordered:
            i, j = picks[k, 0], picks[k, 1]
            x1, z1 = (xs[i], zs[i]) if i >= 0 else (-1, 0)
            x2, z2 = (xs[j], zs[j]) if j >= 0 else (-1, 0)
            count_picks(counts, x1, z1, x2, z2, growth, limit)
        else:
            count_all_pairs(counts, xs, zs, steps, growth, limit, scratch)
        counts.progress[EPISODES_SLOT] += 1
    return new


def _remaining_cost(tables: Any, choices: Any, counts: Any, storage: Any, stream: Any, until: Any, *_: Any) -> Any:
    """Estimate the Python steps that the episodes until ``until`` take."""
    return 8 * max(until - counts.progress[EPISODES_SLOT], 0) * choices.rows.shape[1]


@lazy_jit(_remaining_cost, unused=_remaining_cost)
def play_choices(
    tables: Any,
    choices: Any,
    counts: Any,
    storage: Any,
    stream: Any,
    until: Any,
    replan_after: Any,
    ordered: Any,
    capacity: Any,
    growth: Any,
    limit: Any,
) -> None:
    """Play episodes of a model and count them.

    Stops at ``until`` episodes; at ``replan_after`` or more episodes if a row of the plan is stale; when the pair table
    might overflow (``capacity`` records); or when the episode storage is full. Each step uses one word of the stream:
    its upper half draws the next state, its lower half the reward.
    """
    horizon, num_values = choices.rows.shape[1], tables.rewards.shape[2]
    num_actions = counts.last_visit_mark.size // choices.rows.shape[2]
    max_pairs = horizon * (horizon + 1) // 2
    stores_episodes = storage.states.shape[0] > 0
    xs, zs, scratch = np.empty(horizon, np.int64), np.empty(horizon, np.int64), np.empty((3, horizon), np.int64)
    # The generator's state is kept in local variables, which stay in registers, and is written back at the end.
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    while counts.progress[EPISODES_SLOT] < until and counts.progress[USED_SLOT] + max_pairs <= capacity:
        k = counts.progress[EPISODES_SLOT]
        keep, row = stores_episodes and k % storage.keep_every == 0, k // storage.keep_every
        if keep and row >= storage.states.shape[0]:
            break
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        s = sample_cumulative(tables.initial, upper_half_uniform(word))
        m = sample_cumulative(tables.type_cumulative, lower_half_uniform(word))
        counts.initial_counts[s] += 1
        picked, x1, z1, x2, z2 = 0, -1, 0, -1, 0
        for t in range(horizon):
            code = look_up_choice(choices, picked, x1, t, s)
            if code == RANDOM_ACTION:
                word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
                code = 2 * np.int64(upper_half_uniform(word) * num_actions) + 1
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            x = s * num_actions + (code >> 1)
            u, z = lower_half_uniform(word), 0
            # Inverse transform sampling: the reward index is the number of cumulative probabilities <= u.
            for i in range(num_values - 1):
                z += u >= tables.rewards[m, x, i]
            entry = sample_entry(tables, x, upper_half_uniform(word))
            counts.transition_counts[entry] += 1
            count_visit(counts, x)
            if keep:
                storage.states[row, t], storage.actions[row, t], storage.reward_indices[row, t] = s, code >> 1, z
            s = np.int64(tables.next_states[entry])
            xs[t], zs[t] = x, z
            if code & 1 == 0:
                if picked == 0:
                    x1, z1 = x, z
                elif picked == 1:
                    x2, z2 = x, z
                picked = min(picked + 1, 2)
        if keep:
            storage.states[row, horizon] = s
        if ordered:
            count_picks(counts, x1, z1, x2, z2, growth, limit)
        else:
            count_all_pairs(counts, xs, zs, horizon, growth, limit, scratch)
        counts.progress[EPISODES_SLOT] += 1
        if (
            counts.progress[STALE_SLOT] + counts.progress[NEW_VISITS_SLOT] > 0
            and counts.progress[EPISODES_SLOT] >= replan_after
        ):
            break
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3
