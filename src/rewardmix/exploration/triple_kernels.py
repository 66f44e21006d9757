"""Kernels of the augmented MDP of triples: plan rows, look bonuses up, and play plans.

Choices are one dense table of rows (R, H, S), by what was picked so far:

    0                        nothing
    1 + x                    x
    1 + X + place of {x, y}  x and y, in either order; see ``place_of``
    R - 1                    all three
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
    NEVER,
    NEWS,
    SAMPLES,
    USED,
    count_all_pairs,
    slot_of,
)
from rewardmix._core.triple_counting import count_all_triples
from rewardmix._core.xoshiro import advance, pick
from rewardmix.exploration.exploration_kernels import ANY, count_visit, high, low, plan_slot
from rewardmix.simulation_kernels import next_place


class TripleChoices(NamedTuple):
    """What to play; ``triple_choice`` looks it up."""

    rows: NDArray[np.int16]  # (R, H, S), or (1, H, S) where nothing is ever picked


@kernel
def place_of(x: Any, y: Any, num_x: Any) -> Any:
    """Number of the pair x <= y among all X (X + 1) / 2."""
    return x * num_x - x * (x - 1) // 2 + y - x


@deferred(lambda *_: 8)
def triple_choice(choices: Any, num_x: Any, picked: Any, one: Any, other: Any, t: Any, s: Any) -> Any:
    """The choice in s at step t, when so many steps are picked, of them ``one`` and ``other`` as the first two."""
    row = 0
    if picked == 1:
        row = 1 + one
    elif picked == 2:
        row = 1 + num_x + place_of(min(one, other), max(one, other), num_x)
    elif picked == 3:
        row = choices.rows.shape[0] - 1
    return np.int64(choices.rows[row, t, s])


# ---------------------------------------------------------------------------------------------------------------------
# Planning


@kernel
def triple_samples(records: Any, multiplier: Any, shift: Any, num_x: Any, ones: Any, others: Any, out: Any) -> None:
    """``out`` (B, X): samples of each triple {one, other, x}, for pairs one <= other."""
    for b in range(ones.size):
        one, other = ones[b], others[b]
        for x in range(num_x):
            if x <= one:
                key = (x * num_x + one) * num_x + other
            elif x <= other:
                key = (one * num_x + x) * num_x + other
            else:
                key = (one * num_x + other) * num_x + x
            slot = slot_of(records, key, multiplier, shift)
            out[b, x] = records[slot, SAMPLES] if records[slot, KEY] == key else 0


@kernel
def set_triple_limits(records: Any, growth: Any, known: Any, num_x: Any, touched: Any) -> None:
    """After all was planned anew: when the next plan is due for each triple, and which pairs have a known one."""
    for i in range(records.shape[0]):
        if records[i, KEY] >= 0:
            samples = records[i, SAMPLES]
            records[i, LIMIT] = max(samples + 1, np.int64(np.ceil(growth * max(samples, known))))
            if samples > known:
                front, w = records[i, KEY] // num_x, records[i, KEY] % num_x
                x, y = front // num_x, front % num_x
                touched[x, y] = touched[x, w] = touched[y, w] = True


@kernel
def plan_third(
    hat: Any, after_last: Any, everywhere: Any, ones: Any, others: Any, bonuses: Any, rows: Any, after_pair: Any
) -> None:
    """The third slot after each pair one <= other, where picking x is worth ``bonuses`` (B, X) besides.

    Fills the rows of the pairs, and ``after_pair`` (X, H, X): [x1, t, x2] is the value of what follows when x2 is
    picked at t as the second, after x1.
    """
    horizon, num_x = after_last.shape
    after, value = np.empty((horizon, num_x)), np.empty(everywhere.size)
    for b in range(ones.size):
        one, other = ones[b], others[b]
        row = rows[1 + num_x + place_of(one, other, num_x)]
        plan_slot(hat, bonuses[b], after_last, everywhere, row, after, value)
        for t in range(horizon):
            after_pair[one, t, other] = after[t, other]
            after_pair[other, t, one] = after[t, one]


@kernel
def plan_second(
    hat: Any, nothing: Any, after_pair: Any, everywhere: Any, firsts: Any, rows: Any, after_second: Any
) -> None:
    """The second slot after each of ``firsts``; fills their rows and their columns of ``after_second`` (H, X)."""
    horizon, num_x = after_second.shape
    after, value = np.empty((horizon, num_x)), np.empty(everywhere.size)
    for first in firsts:
        plan_slot(hat, nothing, after_pair[first], everywhere, rows[1 + first], after, value)
        for t in range(horizon):
            after_second[t, first] = after[t, first]


# ---------------------------------------------------------------------------------------------------------------------
# Playing


def _to_play(tables: Any, choices: Any, counts: Any, triples: Any, kept: Any, stream: Any, until: Any, *_: Any) -> Any:
    """Steps of Python that the episodes until ``until`` take."""
    return 8 * max(until - counts.progress[EPISODES], 0) * choices.rows.shape[1]


@deferred(_to_play, left=_to_play)
def play_triples(
    tables: Any,
    choices: Any,
    counts: Any,
    triples: Any,
    kept: Any,
    stream: Any,
    until: Any,
    patience: Any,
    capacity: Any,
    triple_capacity: Any,
    growth: Any,
    limit: Any,
) -> None:
    """``play_choices`` with three picks: all pairs are counted, and all triples, which alone call for new plans."""
    horizon, num_values = choices.rows.shape[1], tables.rewards.shape[2]
    num_x = counts.mark.size
    num_actions = num_x // choices.rows.shape[2]
    most, most_triples = horizon * (horizon + 1) // 2, horizon * (horizon + 1) * (horizon + 2) // 6
    keeping = kept.states.shape[0] > 0
    xs, zs, room = np.empty(horizon, np.int64), np.empty(horizon, np.int64), np.empty((3, horizon), np.int64)
    seen, visits = np.empty(horizon, np.int64), np.empty((horizon, 3), np.int64)
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    while counts.progress[EPISODES] < until and counts.progress[USED] + most <= capacity:
        if triples.progress[USED] + most_triples > triple_capacity:
            break
        k = counts.progress[EPISODES]
        keep, at = keeping and k % kept.every == 0, k // kept.every
        if keep and at >= kept.states.shape[0]:
            break
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        s, m = pick(tables.initial, high(word)), pick(tables.contexts, low(word))
        counts.starts[s] += 1
        picked, one, other = 0, 0, 0
        for t in range(horizon):
            code = triple_choice(choices, num_x, picked, one, other, t, s)
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
            if code & 1 == 0 and picked < 3:
                if picked == 0:
                    one = x
                elif picked == 1:
                    other = x
                picked += 1
        if keep:
            kept.states[at, horizon] = s
        count_all_pairs(counts, xs, zs, horizon, 1.0, NEVER, room)
        count_all_triples(triples, num_x, num_values, xs, zs, horizon, growth, limit, seen, visits)
        counts.progress[EPISODES] += 1
        if triples.progress[DIRTY] + counts.progress[NEWS] > 0 and counts.progress[EPISODES] >= patience:
            break
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3


@kernel
def count_played_triples(
    triples: Any,
    num_states: Any,
    totals: Any,
    states: Any,
    actions: Any,
    outcomes: Any,
    lengths: Any,
    growth: Any,
    limit: Any,
) -> None:
    """Count the triples of episodes that were played elsewhere; ``totals`` (X, Z) has the sizes of the world."""
    num_x, num_values = totals.shape
    num_actions, horizon = num_x // num_states, actions.shape[1]
    xs, zs = np.empty(horizon, np.int64), np.empty(horizon, np.int64)
    seen, visits = np.empty(horizon, np.int64), np.empty((horizon, 3), np.int64)
    for k in range(lengths.size):
        for t in range(lengths[k]):
            xs[t], zs[t] = np.int64(states[k, t]) * num_actions + actions[k, t], outcomes[k, t]
        count_all_triples(triples, num_x, num_values, xs, zs, lengths[k], growth, limit, seen, visits)
