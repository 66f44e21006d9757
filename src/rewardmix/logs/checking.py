"""From the columns of a piece to checked, compact episodes; every problem is counted and its first offender named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import kernel
from rewardmix.logs import arrow
from rewardmix.logs.columns import MISSING, STRANGE, Coding, Columns, decoded, runs_of
from rewardmix.logs.left_out import reward_sizes
from rewardmix.logs.log import Compact, Problem, join_parts, loaded, stored
from rewardmix.reward_scale import RewardScale

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
    BAD_PROPENSITY,
) = range(12)
"""Kinds of problems: places in ``counts`` and ``firsts``."""

PROBLEM_KINDS = 12


@kernel
def _outcome_of(reward: Any, values: Any) -> Any:
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
def check_steps(step: Any, begin: Any, end: Any, counts: Any, firsts: Any) -> None:
    """Name everything that keeps the steps of one episode from being 0, 1, 2, ..."""
    gaps, gap_at, last = 0, -1, -1
    unsorted = False
    for i in range(begin, end):
        now = step[i]
        if now <= STRANGE:  # nothing, or no whole number
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
def check_rows(rows: Any, limits: Any, begin: Any, end: Any, counts: Any, firsts: Any) -> None:
    """Name everything about the rows of one episode that is outside the schema."""
    _, _, state, action, reward, following, propensity, _ = rows
    values, num_states, num_actions, _ = limits
    for i in range(begin, end):
        if state[i] < 0 or state[i] >= num_states:
            note(UNKNOWN_STATE, i, 1, counts, firsts)
        if action[i] < 0 or action[i] >= num_actions:
            note(UNKNOWN_ACTION, i, 1, counts, firsts)
        if _outcome_of(reward[i], values) < 0:
            note(UNDECLARED_REWARD if np.isfinite(reward[i]) else BAD_REWARD, i, 1, counts, firsts)
        if propensity.size and not 0.0 < propensity[i] <= 1.0:
            note(BAD_PROPENSITY, i, 1, counts, firsts)
        if following.size and i + 1 < end and following[i] != state[i + 1]:
            note(BROKEN_PATH, i, 1, counts, firsts)


@kernel
def take_rows(rows: Any, limits: Any, begin: Any, symbols: Any, chances: Any, place: Any) -> Any:
    """Symbols and chances of the episode that begins at row ``begin``: (row after it, whether all is well); fast."""
    episode, step, state, action, reward, following, propensity, absent = rows
    values, num_states, num_actions, _ = limits
    this, nobody = episode[begin], absent[begin]
    numbered, follows = step.size > 0, following.size > 0
    lowest, second = values[0], values[1]
    good = True
    i = begin
    while i < episode.size and episode[i] == this and absent[i] == nobody:
        s, a, r = state[i], action[i], reward[i]
        z = 1 if r == second else 0
        if r != lowest and r != second:
            z = _outcome_of(r, values)
            good &= z >= 0
        good &= (s >= 0) & (s < num_states) & (a >= 0) & (a < num_actions)
        if numbered:
            good &= step[i] == i - begin
        if propensity.size:
            good &= 0.0 < propensity[i] <= 1.0
            chances[place + i - begin] = propensity[i]
        if follows and i > begin:
            good &= following[i - 1] == s
        symbols[place + i - begin] = (s * num_actions + a) * values.size + z
        i += 1
    return i, good


@kernel
def check_episodes(
    rows: Any,
    limits: Any,
    counts: Any,
    firsts: Any,
    symbols: Any,
    chances: Any,
    lengths: Any,
    last: Any,
    which: Any,
    ids: Any,
) -> Any:
    """Fill the symbols, chances, lengths, last states and numbers of the good episodes, and the id of every episode.

    ``rows``: the eight columns; ``limits``: (reward values, states, actions, horizon).
    Returns (rows kept, episodes kept, episodes seen).
    """
    episode, step, _, _, _, following, _, absent = rows
    _, num_states, _, horizon = limits
    place, kept, seen = 0, 0, 0
    begin = 0
    while begin < episode.size:
        end, good = take_rows(rows, limits, begin, symbols, chances, place)
        where = following[end - 1] if following.size else MISSING
        if not good:
            if step.size:
                check_steps(step, begin, end, counts, firsts)
            check_rows(rows, limits, begin, end, counts, firsts)
        if absent[begin]:
            note(NO_EPISODE_ID, begin, end - begin, counts, firsts)
            good = False
        if end - begin > horizon:
            note(TOO_LONG, begin, 1, counts, firsts)
            good = False
        if where >= num_states or (where < 0 and where != MISSING):
            note(UNKNOWN_STATE, end - 1, 1, counts, firsts)
            good = False
        ids[seen] = episode[begin]
        seen += 1
        if good:
            lengths[kept], last[kept], which[kept] = end - begin, max(where, -1), seen - 1
            kept += 1
            place += end - begin
        begin = end
    return place, kept, seen


NO_LIMIT = 1 << 30
"""The horizon as long as nobody said one."""

WORDS = {
    NO_EPISODE_ID: "rows without an episode",
    NO_STEP: "steps that are missing a number",
    MISSING_STEPS: "missing steps",
    DUPLICATE_STEPS: "duplicate steps",
    UNSORTED: "unsorted rows",
    BAD_REWARD: "rewards that are NaN or missing",
    UNDECLARED_REWARD: "rewards outside the declared values",
    UNKNOWN_STATE: "unknown states",
    UNKNOWN_ACTION: "unknown actions",
    BROKEN_PATH: "next states that are not the state of the next step",
    TOO_LONG: "episodes longer than the horizon",
    BAD_PROPENSITY: "propensities that are no chance above 0 and at most 1",
    PROBLEM_KINDS: "episodes in two places of a file",
}
"""How each kind of problem is called."""


@dataclass(frozen=True)
class Limits:
    """What a good row looks like; ``reward_scale``: which of the values a reward counts as, where somebody said so."""

    num_states: int
    num_actions: int
    reward_values: tuple[float, ...]
    horizon: int = NO_LIMIT
    reward_scale: RewardScale | None = None


@dataclass(frozen=True, eq=False)
class Checked:
    """What one piece held.

    Attributes:
        part: its good episodes.
        problems: by kind.
        ids: of its first and of its last episode.
        increasing: whether its ids increase.
        rows: read.
        episodes: read, good and bad.
        longest: steps of the longest good episode.
        rewards: sizes of those in its good and in its bad episodes, added.
    """

    part: Any
    problems: dict[int, Problem] = field(default_factory=dict)
    ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    increasing: bool = True
    rows: int = 0
    episodes: int = 0
    longest: int = 0
    rewards: NDArray[np.float64] = field(default_factory=lambda: np.zeros(2))


def check_piece(piece: Any, path: str | None, coding: Coding, limits: Limits) -> Checked:
    """Read a piece, check every row, and keep the good episodes in compact form (in a file, if it has a path)."""
    counts, firsts = np.zeros(PROBLEM_KINDS, np.int64), np.full(PROBLEM_KINDS, -1, np.int64)
    parts: list[Compact] = []
    ids: list[NDArray[np.int64]] = []
    rows, rewards = 0, np.zeros(2)
    for columns in whole_episodes(piece, coding):
        found, at = np.zeros(PROBLEM_KINDS, np.int64), np.full(PROBLEM_KINDS, -1, np.int64)
        part, seen, which = check_columns(columns, limits, found, at)
        rewards += reward_sizes(columns.episode, columns.reward, seen.size, which)
        firsts = np.where((firsts < 0) & (at >= 0), at + rows, firsts)
        counts += found
        parts.append(part)
        ids.append(seen)
        rows += len(columns)
    part = parts[0] if len(parts) == 1 else join_parts(parts)
    every = np.concatenate([np.empty(0, np.int64), *ids])
    increasing = bool((every[1:] > every[:-1]).all())
    borders = every[[0, -1]] if every.size else every
    problems = _described(piece, coding, limits, counts, firsts)
    longest = int(part.lengths.max(initial=0))
    return Checked(stored(part, path), problems, borders, increasing, rows, int(every.size), longest, rewards)


def good_episodes(piece: Any, coding: Coding, limits: Limits) -> Compact:
    """Those of a piece that was checked before."""
    return loaded(check_piece(piece, None, coding, limits).part)


def whole_episodes(piece: Any, coding: Coding) -> Iterator[Columns]:
    """The columns of a piece, cut only between episodes."""
    left: Columns | None = None
    for table in tables_of(piece, coding):
        columns = _decoded(piece, table, coding)
        if left is not None and left.episode[-1] == columns.episode[0]:  # the batch begins within an episode
            changes = np.flatnonzero(left.episode[1:] != left.episode[:-1])
            cut = int(changes[-1]) + 1 if changes.size else 0
            columns = left.part(cut, len(left)) + columns
            left = left.part(0, cut) if cut else None
        if left is not None:
            yield left
        left = columns
    if left is not None:
        yield left + _continued(piece, coding, left) if piece.tail else left


def tables_of(piece: Any, coding: Coding, more: tuple[str, ...] = ()) -> Iterator[Any]:
    """The tables of a piece that have rows, behind those that ``head`` drops; ``more``: further columns."""
    drop = _last_before(piece, coding) if piece.head else None
    for table in piece.batches([*coding.names.listed, *more], coding.texts):
        if drop is not None:
            others = np.flatnonzero(_decoded(piece, table, coding).episode != drop)
            table = table.slice(int(others[0]) if others.size else table.num_rows)
            drop = None if others.size else drop
        if table.num_rows:
            yield table


def episode_ids(piece: Any, coding: Coding) -> NDArray[np.int64]:
    """The id of every episode of a piece, in order, without rows that have none."""
    ids = [
        columns.episode[runs_of(columns.episode, columns.absent) & ~columns.absent]
        for columns in whole_episodes(piece, coding)
    ]
    return np.concatenate([np.empty(0, np.int64), *ids])


def _decoded(piece: Any, table: Any, coding: Coding) -> Columns:
    with arrow.reading(piece.name):
        return decoded(table, coding)


def _last_before(piece: Any, coding: Coding) -> int | None:
    """The episode that the rows before the piece ended with."""
    for table in piece.neighbour(coding.names.listed, coding.texts, before=True):
        if table.num_rows:
            return int(_decoded(piece, table.slice(table.num_rows - 1), coding).episode[0])
    return None


def _continued(piece: Any, coding: Coding, left: Columns) -> Columns:
    """The rows after the piece that belong to its last episode."""
    episode = left.episode[-1]
    parts = []
    for table in piece.neighbour(coding.names.listed, coding.texts, before=False):
        columns = _decoded(piece, table, coding)
        strange = np.flatnonzero(columns.episode != episode)
        parts.append(columns.part(0, int(strange[0]) if strange.size else len(columns)))
        if strange.size:
            break
    if not parts:
        return left.part(0, 0)
    first, *others = parts
    for other in others:
        first = first + other
    return first


def check_columns(
    columns: Columns, limits: Limits, counts: NDArray[np.int64], firsts: NDArray[np.int64]
) -> tuple[Compact, NDArray[np.int64], NDArray[np.int64]]:
    """The good episodes of some columns, the id of every episode, and the numbers of the good ones among all."""
    size = len(columns)
    symbols, ids, which = np.empty(size, np.int32), np.empty(size, np.int64), np.empty(size, np.int64)
    chances = np.empty(columns.propensity.size)
    lengths, last = np.empty(size, np.int32), np.empty(size, np.int32)
    bounds = np.asarray(limits.reward_values), limits.num_states, limits.num_actions, limits.horizon
    out = symbols, chances, lengths, last, which, ids
    if limits.reward_scale is not None:
        columns = replace(columns, reward=limits.reward_scale.counted(columns.reward))
    rows, kept, seen = check_episodes(columns.fixed(), bounds, counts, firsts, *out)
    if rows < size:
        symbols, chances = symbols[:rows].copy(), chances[:rows].copy()
    good = Compact(symbols, lengths[:kept].copy(), last[:kept].copy(), chances)
    return good, ids[:seen].copy(), which[:kept].copy()


def _described(piece: Any, coding: Coding, limits: Limits, counts: Any, firsts: Any) -> dict[int, Problem]:
    """The problems of a piece; the rows of the first offenders are read again, for their own words."""
    wanted = {kind: int(firsts[kind]) for kind in np.flatnonzero(counts).tolist()}
    rows = _raw_rows(piece, coding, set(wanted.values())) if wanted else {}
    return {
        kind: Problem(WORDS[kind], int(counts[kind]), _offender(kind, rows.get(row, {}), limits, piece.name))
        for kind, row in wanted.items()
    }


def _raw_rows(piece: Any, coding: Coding, wanted: set[int]) -> dict[int, dict[str, Any]]:
    """Rows of a piece by number (counted behind the ones that ``head`` drops), as they stand in the log."""
    done, rows = 0, {}
    for table in tables_of(piece, coding):
        for row in wanted:
            if done <= row < done + table.num_rows:
                cells = {role: table.column(name)[row - done] for role, name in coding.names.roles.items()}
                rows[row] = {role: _as_python(cell) for role, cell in cells.items()}
        done += table.num_rows
    return rows


def _as_python(cell: Any) -> Any:
    try:
        return cell.as_py()
    except (ValueError, OverflowError):  # bytes that are no text
        return "unreadable"


_OFFENCES: dict[int, Callable[[dict[str, Any], Limits], str]] = {
    UNKNOWN_STATE: lambda row, limits: (
        f"state {row['state']!r}"
        + (f" and next state {row['next_state']!r}" if "next_state" in row else "")
        + f", expected one of {limits.num_states} states"
    ),
    UNKNOWN_ACTION: lambda row, limits: f"action {row['action']!r}, expected one of {limits.num_actions} actions",
    BAD_REWARD: lambda row, limits: f"reward {row['reward']}",
    UNDECLARED_REWARD: lambda row, limits: f"reward {row['reward']}, declared {list(limits.reward_values)}",
    TOO_LONG: lambda row, limits: f"more than {limits.horizon} steps",
    MISSING_STEPS: lambda row, limits: "the step before it is not there",
    DUPLICATE_STEPS: lambda row, limits: "the same step again",
    UNSORTED: lambda row, limits: "it comes after a later step",
    BROKEN_PATH: lambda row, limits: f"next state {row['next_state']!r}",
    BAD_PROPENSITY: lambda row, limits: f"propensity {row['propensity']}",
}


def _offender(kind: int, row: dict[str, Any], limits: Limits, name: str) -> str:
    """Where the first problem of a kind is, and what is there."""
    if not row:
        return f"at the end of {name}"
    step = f", step {row['step']}" if "step" in row and kind != TOO_LONG else ""
    what = _OFFENCES.get(kind)
    return f"in episode {row['episode']!r}{step} of {name}" + (f": {what(row, limits)}" if what else "")
