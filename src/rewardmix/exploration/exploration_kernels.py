"""Kernels of exploration: plan in the augmented MDP, and play plans in a model.

A choice is one number: 2 a for "play a and pick this step", 2 a + 1 for "play a", ANY for a uniformly random action.
Choices are rows (H, S), one for each situation:

    FIRST      nothing picked yet
    THIRD      both picked
    SHARED     after a first pick of which no pair is known
    OWN + x    after the first pick x, where ``row_of[x]`` says so

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
    KEY,
    LIMIT,
    NEWS,
    SAMPLES,
    USED,
    add_pair,
    count_all_pairs,
    count_pair,
    slot_of,
)
from rewardmix._core.xoshiro import advance, pick
from rewardmix.simulation_kernels import next_place

ANY = -1
"""The choice of a uniformly random action."""

HALF = 1.0 / (1 << 32)
"""Distance between two neighbouring draws from half a word."""

FIRST, THIRD, SHARED, OWN = 0, 1, 2, 3
"""Rows of ``Choices``."""


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
    """What to play: one row (H, S) for each situation; see ``augmented``."""

    rows: NDArray[np.int16]  # (3 + X, H, S): rows FIRST, THIRD and SHARED, then one for each first pick
    row_of: NDArray[np.int64]  # (X,) the row that follows a first pick: SHARED, or its own


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
def expected(hat: Any, later: Any, out: Any) -> None:
    """``out`` (X,): sum over next states of counts times values, in the order of the states in both forms."""
    if hat.columns.shape[0] > 0:
        for x in range(out.size):
            out[x] = 0.0
        for s in range(later.size):
            value = later[s]
            column = hat.columns[s]
            for x in range(out.size):
                out[x] += column[x] * value
        return
    for x in range(out.size):
        total = 0.0
        for j in range(hat.begins[x], hat.begins[x + 1]):
            total += hat.counts[j] * later[hat.successors[j]]
        out[x] = total


@kernel
def plan_slot(hat: Any, bonus: Any, picking: Any, choices: Any, after: Any, value: Any) -> None:
    """Value iteration in one slot, where picking x at t is worth ``bonus[x] + picking[t, x]`` (negative: forbidden).

    Fills ``choices`` (H, S), ``after`` (H, X): value of what follows x at t if it is not picked, ``value`` (S,).
    """
    horizon, num_states = choices.shape
    num_actions = bonus.size // num_states
    later, total = np.zeros(num_states), np.zeros(bonus.size)
    for t in range(horizon - 1, -1, -1):
        top = later[0]
        for s in range(1, num_states):
            top = max(top, later[s])
        expected(hat, later, total)
        for s in range(num_states):
            best, fewest, code = -1.0, np.inf, 0
            for a in range(num_actions):
                x = s * num_actions + a
                seen = hat.totals[x]
                follow = total[x] / seen if seen > 0 else 0.0
                follow = min(top, follow + hat.bonus[x] * top) if hat.scaled else follow + hat.bonus[x]
                after[t, x] = follow
                q = min(1.0, bonus[x] + picking[t, x])
                if q > best or (q == best and seen < fewest):
                    best, fewest, code = q, seen, 2 * a
                q = min(1.0, follow)
                if q > best or (q == best and seen < fewest):
                    best, fewest, code = q, seen, 2 * a + 1
            choices[t, s] = code
            value[s] = best
        for s in range(num_states):
            later[s] = value[s]


@kernel
def plan_rows(hat: Any, bonuses: Any, after_third: Any, firsts: Any, choices: Any, after_second: Any) -> None:
    """The second slot for each of ``firsts``; ``bonuses`` (B, X) of their pairs.

    Fills their rows of ``choices`` and their columns of ``after_second``.
    """
    after, value = np.empty(after_third.shape), np.empty(choices.rows.shape[2])
    for b in range(firsts.size):
        first = firsts[b]
        plan_slot(hat, bonuses[b], after_third, choices.rows[OWN + first], after, value)
        for t in range(after.shape[0]):
            after_second[t, first] = after[t, first]
        choices.row_of[first] = OWN + first


@kernel
def gather_counts(records: Any, multiplier: Any, shift: Any, firsts: Any, ordered: Any, num_x: Any, out: Any) -> None:
    """``out`` (B, X): samples of the pairs of each of ``firsts`` with each x."""
    for b in range(firsts.size):
        one = firsts[b]
        for x in range(num_x):
            key = one * num_x + x if ordered or one <= x else x * num_x + one
            slot = slot_of(records, key, multiplier, shift)
            out[b, x] = records[slot, SAMPLES] if records[slot, KEY] == key else 0


@deferred(lambda records, *_: records.shape[0])
def set_limits(records: Any, growth: Any, known: Any, ordered: Any, num_x: Any, touched: Any) -> None:
    """After everything was planned anew: when the next plan is due for each pair, and which rows have a known pair."""
    for i in range(records.shape[0]):
        if records[i, KEY] >= 0:
            samples = records[i, SAMPLES]
            records[i, LIMIT] = max(samples + 1, np.int64(np.ceil(growth * max(samples, known))))
            if samples > known:
                touched[records[i, KEY] // num_x] = True
                if not ordered:
                    touched[records[i, KEY] % num_x] = True


# ---------------------------------------------------------------------------------------------------------------------
# Playing


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
        row, x1, z1, x2, z2 = FIRST, -1, 0, -1, 0
        for t in range(horizon):
            code = np.int64(choices.rows[row, t, s])
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
                if row == FIRST:
                    x1, z1, row = x, z, choices.row_of[x]
                elif row != THIRD:
                    x2, z2, row = x, z, THIRD
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
