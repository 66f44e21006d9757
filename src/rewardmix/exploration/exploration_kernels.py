"""Kernels of exploration: plan in the augmented MDP, and play plans in a model.

A choice is one number: 2 a for "play a and pick this step", 2 a + 1 for "play a", ANY for a uniformly random action.
Choices are rows (H, S), one for each situation:

    FIRST      nothing picked yet
    SHARED     one step picked
    THIRD      both picked

After a first pick the choices are others in those states of which it is known with the action that SHARED plays (and in
its own): they are listed.

The columns of pair records, and of ``progress``, are those of ``_core.pair_counting``. A pair's LIMIT is the number of
samples at which its rows are outdated; ``dirty`` (X,) marks those rows, DIRTY counts them, and NEWS counts the
state-actions whose visits have reached ``visit_limits``. Planning resets all of these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import deferred, kernel
from rewardmix._core.pair_counting import (
    DIRTY,
    EPISODES,
    NEWS,
    USED,
    add_pair,
    count_all_pairs,
    count_pair,
)
from rewardmix._core.xoshiro import advance, pick
from rewardmix.simulation_kernels import next_place

ANY = -1
"""The choice of a uniformly random action."""

HALF = 1.0 / (1 << 32)
"""Distance between two neighbouring draws from half a word."""

FIRST, SHARED, THIRD = 0, 1, 2
"""Rows of ``Choices``, by the number of steps picked."""


class Hat(NamedTuple):
    """T-hat as counts, frozen at a refresh. Moves to the end are left out of the lists and kept in the totals."""

    begins: NDArray[np.int64]  # (X + 1,)
    successors: NDArray[np.int32]  # (nnz,)
    counts: NDArray[np.float64]  # (nnz,)
    columns: NDArray[np.float64]  # (S, X) the same counts, next state first, where they are not sparse; else (0, 0)
    totals: NDArray[np.float64]  # (X,) visits
    bonus: NDArray[np.float64]  # (X,) of a move
    scaled: bool


class Choices(NamedTuple):
    """What to play; ``choice`` looks it up."""

    rows: NDArray[np.int16]  # (3, H, S): FIRST, SHARED and THIRD
    numbers: NDArray[np.int64]  # (X,) in how many states there are other choices than SHARED after a first pick
    places: NDArray[np.int64]  # (X,) where in the two lists these are
    states: NDArray[np.int32]  # (room,) the states, in their order
    own: NDArray[np.int16]  # (room, H) the choices


class TallyArrays(NamedTuple):
    """The counts that playing fills: ``PairCounts``, and what exploration counts besides.

    The order is not indifferent: with the hash before the arrays compiled code was a quarter slower.
    """

    starts: NDArray[np.int64]  # (S,)
    moves: NDArray[np.int64]  # (nnz,) of each place
    visits: NDArray[np.int64]  # (X,)
    visit_limits: NDArray[np.int64]  # (X,) visits at which T-hat is outdated
    outcomes: NDArray[np.int64]  # (X, Z)
    records: NDArray[np.int64]  # pair table
    dirty: NDArray[np.bool_]  # (X,) rows whose plan is outdated
    mark: NDArray[np.int64]  # (X,)
    progress: NDArray[np.int64]  # (4,)
    multiplier: np.uint64
    shift: np.uint64


class Kept(NamedTuple):
    """Room for the episodes themselves, or for every so-manieth; empty arrays if nobody wants them."""

    states: NDArray[np.int32]  # (room, H + 1)
    actions: NDArray[np.int16]  # (room, H)
    outcomes: NDArray[np.int8]  # (room, H)
    every: int  # episodes 0, every, 2 * every, ... are kept


# ---------------------------------------------------------------------------------------------------------------------
# Planning


@kernel
def expected(hat: Any, later: Any, states: Any, bonus: Any, out: Any) -> None:
    """``out`` (X,): sum over next states of counts times values, in the order of the states in both forms.

    For the x of ``states`` whose ``bonus`` is finite; nobody may look at the others.
    """
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
                for j in range(hat.begins[x], hat.begins[x + 1]):
                    total += hat.counts[j] * later[hat.successors[j]]
                out[x] = total


@kernel
def plan_slot(hat: Any, bonus: Any, picking: Any, states: Any, choices: Any, after: Any, value: Any) -> None:
    """Value iteration in one slot, where picking x at t is worth ``bonus[x] + picking[t, x]`` (negative: forbidden).

    Only in ``states``; any other is worth 1 until the last step, as ``value`` (S,) has it. A bonus may be infinite:
    then a pick is worth 1, the most that there is, and what follows is not looked at.

    Fills ``choices`` (H, S), a column for each of the states, ``after`` (H, X): value of what follows x at t if it is
    not picked, and ``value`` of the states.
    """
    horizon, num_states = after.shape[0], value.size
    num_actions = bonus.size // num_states
    for t in range(horizon - 1, -1, -1):
        following, top = after[t], 0.0
        if t < horizon - 1:
            expected(hat, value, states, bonus, following)
            top = value[0] if states.size == num_states else 1.0
            for s in states:
                top = max(top, value[s])
        for i in range(states.size):
            best, fewest, code = -1.0, np.inf, 0
            for a in range(num_actions):
                x = states[i] * num_actions + a
                seen = hat.totals[x]
                q = min(1.0, bonus[x] + picking[t, x])
                if q > best or (q == best and seen < fewest):
                    best, fewest, code = q, seen, 2 * a
                if bonus[x] == np.inf:
                    continue
                follow = following[x] / seen if seen > 0 and t < horizon - 1 else 0.0
                follow = min(top, follow + hat.bonus[x] * top) if hat.scaled else follow + hat.bonus[x]
                following[x] = follow
                q = min(1.0, follow)
                if q > best or (q == best and seen < fewest):
                    best, fewest, code = q, seen, 2 * a + 1
            choices[t, i] = code
            value[states[i]] = best


@kernel
def plan_rows(
    hat: Any, after_third: Any, firsts: Any, begins: Any, partners: Any, bonuses: Any, choices: Any, after_second: Any
) -> None:
    """The second slot for each of ``firsts``: ``partners`` are the x with which it is known, from ``begins`` on.

    Fills their own choices and their columns of ``after_second``. In most states the action that was played least, the
    choice of SHARED, makes a pair that is not known: worth 1, at any time, and preferred to whatever else is.
    """
    num_states = choices.rows.shape[2]
    horizon, num_x = after_third.shape
    num_actions = num_x // num_states
    after, value, bonus = np.empty((horizon, num_x)), np.ones(num_states), np.full(num_x, np.inf)
    codes, states = np.empty((horizon, num_states), choices.rows.dtype), np.empty(num_states, np.int64)
    for b in range(firsts.size):
        first, number = firsts[b], 0
        for j in range(begins[b], begins[b + 1]):
            bonus[partners[j]] = bonuses[j]
            s, a = partners[j] // num_actions, partners[j] % num_actions
            least = choices.rows[SHARED, 0, s] == 2 * a
            if (least or partners[j] == first) and (number == 0 or states[number - 1] != s):
                states[number] = s
                number += 1
        plan_slot(hat, bonus, after_third, states[:number], codes, after, value)
        for t in range(horizon):
            after_second[t, first] = after[t, first]
        for j in range(begins[b], begins[b + 1]):
            bonus[partners[j]] = np.inf
        place = choices.places[first]
        choices.numbers[first] = number
        for i in range(number):
            value[states[i]] = 1.0
            choices.states[place + i] = states[i]
            for t in range(horizon):
                choices.own[place + i, t] = codes[t, i]


# ---------------------------------------------------------------------------------------------------------------------
# Playing


@deferred(lambda *_: 8)
def choice(choices: Any, picked: Any, first: Any, t: Any, s: Any) -> Any:
    """The choice in s at step t, when so many steps are picked, of them ``first`` as the first."""
    if picked == SHARED:
        number, begin = choices.numbers[first], choices.places[first]
        if number == choices.rows.shape[2]:
            return np.int64(choices.own[begin + s, t])
        least, most = begin, begin + number
        while least < most:
            middle = (least + most) // 2
            if choices.states[middle] < s:
                least = middle + 1
            else:
                most = middle
        if least < begin + number and choices.states[least] == s:
            return np.int64(choices.own[least, t])
    return np.int64(choices.rows[picked, t, s])


@kernel
def high(word: Any) -> Any:
    """The upper half of a word as a uniform float on [0, 1), a multiple of 2^-32."""
    return np.float64(word >> np.uint64(32)) * HALF


@kernel
def low(word: Any) -> Any:
    """The lower half of a word as a uniform float on [0, 1), a multiple of 2^-32."""
    return np.float64(word & np.uint64(0xFFFFFFFF)) * HALF


@kernel
def halves(stream: Any) -> Any:
    """One word of a stream kept in an array, as two uniform floats: (upper half, lower half)."""
    word, stream[0], stream[1], stream[2], stream[3] = advance(stream[0], stream[1], stream[2], stream[3])
    return high(word), low(word)


@kernel
def count_visit(counts: Any, x: Any) -> None:
    """One more step from x; T-hat is outdated at the first, and whenever visits have doubled since it was made."""
    counts.visits[x] += 1
    if counts.visits[x] >= counts.visit_limits[x]:
        counts.visit_limits[x] = 2 * counts.visits[x]
        counts.progress[NEWS] += 1


@kernel
def count_selected(counts: Any, x1: Any, z1: Any, x2: Any, z2: Any, growth: Any, limit: Any) -> None:
    """The picked steps of one episode (-1: not picked), in their order."""
    if x1 < 0:
        return
    counts.outcomes[x1, z1] += 1
    if x2 < 0:
        return
    if x2 != x1:
        counts.outcomes[x2, z2] += 1
    count_pair(counts, x1, x2, z1 * counts.outcomes.shape[1] + z2, growth, limit, False)


@kernel
def count_played(
    counts: Any,
    states: Any,
    actions: Any,
    outcomes: Any,
    lengths: Any,
    picks: Any,
    ordered: Any,
    growth: Any,
    limit: Any,
    move_records: Any,
    move_multiplier: Any,
    move_shift: Any,
) -> Any:
    """Count episodes that were played elsewhere; ``picks`` (n, 2) are the picked steps, -1 where there was none.

    Moves go to a table of their own, key x * (S + 1) + s'; returns how many kinds of moves were new.
    """
    num_states = counts.starts.size
    num_actions = counts.mark.size // num_states
    horizon = actions.shape[1]
    xs, zs, room = np.empty(horizon, np.int64), np.empty(horizon, np.int64), np.empty((3, horizon), np.int64)
    new = 0
    for k in range(lengths.size):
        steps = lengths[k]
        counts.starts[states[k, 0]] += 1
        for t in range(steps):
            xs[t], zs[t] = np.int64(states[k, t]) * num_actions + actions[k, t], outcomes[k, t]
            ended = t == steps - 1 and steps < horizon
            following = num_states if ended else np.int64(states[k, t + 1])
            key = xs[t] * (num_states + 1) + following
            new += add_pair(move_records, key, 0, move_multiplier, move_shift, 0) < 0
            count_visit(counts, xs[t])
        if ordered:
            i, j = picks[k, 0], picks[k, 1]
            x1, z1 = (xs[i], zs[i]) if i >= 0 else (-1, 0)
            x2, z2 = (xs[j], zs[j]) if j >= 0 else (-1, 0)
            count_selected(counts, x1, z1, x2, z2, growth, limit)
        else:
            count_all_pairs(counts, xs, zs, steps, growth, limit, room)
        counts.progress[EPISODES] += 1
    return new


def _to_play(tables: Any, choices: Any, counts: Any, kept: Any, stream: Any, until: Any, *_: Any) -> Any:
    """Steps of Python that the episodes until ``until`` take."""
    return 8 * max(until - counts.progress[EPISODES], 0) * choices.rows.shape[1]


@deferred(_to_play, left=_to_play)
def play_choices(
    tables: Any,
    choices: Any,
    counts: Any,
    kept: Any,
    stream: Any,
    until: Any,
    patience: Any,
    ordered: Any,
    capacity: Any,
    growth: Any,
    limit: Any,
) -> None:
    """Play the choices until there are ``until`` episodes, or a reason for a new plan once there are ``patience``.

    Also stops when the pair table might overflow (``capacity`` records) or the room for kept episodes is full. One word
    of the stream a step: its upper half draws the next state, its lower half the reward.
    """
    horizon, num_values = choices.rows.shape[1], tables.rewards.shape[2]
    num_actions = counts.mark.size // choices.rows.shape[2]
    most = horizon * (horizon + 1) // 2
    keeping = kept.states.shape[0] > 0
    xs, zs, room = np.empty(horizon, np.int64), np.empty(horizon, np.int64), np.empty((3, horizon), np.int64)
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    while counts.progress[EPISODES] < until and counts.progress[USED] + most <= capacity:
        k = counts.progress[EPISODES]
        keep, at = keeping and k % kept.every == 0, k // kept.every
        if keep and at >= kept.states.shape[0]:
            break
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        s, m = pick(tables.initial, high(word)), pick(tables.contexts, low(word))
        counts.starts[s] += 1
        picked, x1, z1, x2, z2 = 0, -1, 0, -1, 0
        for t in range(horizon):
            code = choice(choices, picked, x1, t, s)
            if code == ANY:
                word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
                code = 2 * np.int64(high(word) * num_actions) + 1
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            x = s * num_actions + (code >> 1)
            u, z = low(word), 0
            for i in range(num_values - 1):
                z += u >= tables.rewards[m, x, i]
            place = next_place(tables, x, high(word))
            counts.moves[place] += 1
            count_visit(counts, x)
            if keep:
                kept.states[at, t], kept.actions[at, t], kept.outcomes[at, t] = s, code >> 1, z
            s = np.int64(tables.successors[place])
            xs[t], zs[t] = x, z
            if code & 1 == 0:
                if picked == 0:
                    x1, z1 = x, z
                elif picked == 1:
                    x2, z2 = x, z
                picked = min(picked + 1, 2)
        if keep:
            kept.states[at, horizon] = s
        if ordered:
            count_selected(counts, x1, z1, x2, z2, growth, limit)
        else:
            count_all_pairs(counts, xs, zs, horizon, growth, limit, room)
        counts.progress[EPISODES] += 1
        if counts.progress[DIRTY] + counts.progress[NEWS] > 0 and counts.progress[EPISODES] >= patience:
            break
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3
