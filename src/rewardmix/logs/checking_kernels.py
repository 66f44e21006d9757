"""One pass over the rows of a log: cut it into episodes, check every row, keep the symbols of the good episodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.jit import kernel

(
    NO_EPISODE_ID,
    NO_STEP,
    MISSING_STEPS,
    DUPLICATE_STEPS,
    UNSORTED,
    BAD_REWARD,
    UNDECLARED_REWARD,
    UNKNOWN_STATE,
    UNKNOWN_ACTION,
    BROKEN_PATH,
    TOO_LONG,
) = range(11)
"""Kinds of problems: places in ``counts`` and ``firsts``."""

KINDS = 11


@kernel
def outcome_of(reward: Any, values: Any) -> Any:
    """The index of a reward among the values, which are further apart than 2e-9; -1 if it is none of them."""
    for z in range(values.size):
        if abs(values[z] - reward) <= 1e-9:
            return z
    return -1


@kernel
def note(kind: Any, row: Any, many: Any, counts: Any, firsts: Any) -> None:
    """Count a problem, and remember the first row that had it."""
    if firsts[kind] < 0:
        firsts[kind] = row
    counts[kind] += many


@kernel
def check_steps(step: Any, begin: Any, end: Any, missing: Any, counts: Any, firsts: Any) -> None:
    """Name everything that keeps the steps of one episode from being 0, 1, 2, ..."""
    gaps, gap_at, last = 0, -1, -1
    unsorted = False
    for i in range(begin, end):
        now = step[i]
        if now <= missing + 1:  # nothing, or no whole number
            note(NO_STEP, i, 1, counts, firsts)
            continue
        if now == last + 1:
            last = now
        elif now == last:
            note(DUPLICATE_STEPS, i, 1, counts, firsts)
        elif now < last or now < 0:
            note(UNSORTED, i, 1, counts, firsts)
            unsorted = True
        else:
            gap_at = i if gap_at < 0 else gap_at
            gaps += now - last - 1
            last = now
    if gaps and not unsorted:  # a row that comes too early leaves a gap behind, which is not missing
        note(MISSING_STEPS, gap_at, gaps, counts, firsts)


@kernel
def check_rows(
    state: Any,
    action: Any,
    reward: Any,
    following: Any,
    values: Any,
    num_states: Any,
    num_actions: Any,
    begin: Any,
    end: Any,
    counts: Any,
    firsts: Any,
) -> None:
    """Name everything about the rows of one episode that is outside the world."""
    for i in range(begin, end):
        if state[i] < 0 or state[i] >= num_states:
            note(UNKNOWN_STATE, i, 1, counts, firsts)
        if action[i] < 0 or action[i] >= num_actions:
            note(UNKNOWN_ACTION, i, 1, counts, firsts)
        if outcome_of(reward[i], values) < 0:
            note(UNDECLARED_REWARD if np.isfinite(reward[i]) else BAD_REWARD, i, 1, counts, firsts)
        if following.size and i + 1 < end and following[i] != state[i + 1]:
            note(BROKEN_PATH, i, 1, counts, firsts)


@kernel
def take_rows(
    episode: Any,
    step: Any,
    state: Any,
    action: Any,
    reward: Any,
    following: Any,
    values: Any,
    num_states: Any,
    num_actions: Any,
    begin: Any,
    symbols: Any,
    place: Any,
) -> Any:
    """Symbols of the episode that begins at row ``begin``: (row after it, whether all is well). The fast path."""
    rows, this = episode.size, episode[begin]
    numbered, follows = step.size > 0, following.size > 0
    lowest, second = values[0], values[1]
    good = True
    i = begin
    while i < rows and episode[i] == this:
        s, a, r = state[i], action[i], reward[i]
        z = 1 if r == second else 0
        if r != lowest and r != second:
            z = outcome_of(r, values)
            good &= z >= 0
        good &= (s >= 0) & (s < num_states) & (a >= 0) & (a < num_actions)
        if numbered:
            good &= step[i] == i - begin
        if follows and i > begin:
            good &= following[i - 1] == s
        symbols[place + i - begin] = (s * num_actions + a) * values.size + z
        i += 1
    return i, good


@kernel
def check_episodes(
    episode: Any,
    step: Any,
    state: Any,
    action: Any,
    reward: Any,
    following: Any,
    values: Any,
    num_states: Any,
    num_actions: Any,
    horizon: Any,
    missing: Any,
    no_episode: Any,
    counts: Any,
    firsts: Any,
    symbols: Any,
    lengths: Any,
    last: Any,
    ids: Any,
) -> Any:
    """Fill the symbols, lengths and last states of the good episodes, and the id of every episode.

    Returns (rows kept, episodes kept, episodes seen).
    """
    rows = episode.size
    place, kept, seen = 0, 0, 0
    begin = 0
    while begin < rows:
        end, good = take_rows(
            episode, step, state, action, reward, following, values, num_states, num_actions, begin, symbols, place
        )
        where = following[end - 1] if following.size else missing
        if not good:
            if step.size:
                check_steps(step, begin, end, missing, counts, firsts)
            check_rows(state, action, reward, following, values, num_states, num_actions, begin, end, counts, firsts)
        if episode[begin] == no_episode:
            note(NO_EPISODE_ID, begin, end - begin, counts, firsts)
            good = False
        if end - begin > horizon:
            note(TOO_LONG, begin, 1, counts, firsts)
            good = False
        if where >= num_states or (where < 0 and where != missing):
            note(UNKNOWN_STATE, end - 1, 1, counts, firsts)
            good = False
        ids[seen] = episode[begin]
        seen += 1
        if good:
            lengths[kept], last[kept] = end - begin, max(where, -1)
            kept += 1
            place += end - begin
        begin = end
    return place, kept, seen
