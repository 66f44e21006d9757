"""From the columns of a piece to checked, compact episodes; every problem is counted and its first offender named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix.logs import arrow
from rewardmix.logs import checking_kernels as kinds
from rewardmix.logs.columns import MISSING, NO_EPISODE, Coding, Columns, decoded
from rewardmix.logs.compact import Compact, joined

NO_LIMIT = 1 << 30
"""The horizon as long as nobody said one."""

WORDS = {
    kinds.NO_EPISODE_ID: "rows without an episode",
    kinds.NO_STEP: "steps that are missing a number",
    kinds.MISSING_STEPS: "missing steps",
    kinds.DUPLICATE_STEPS: "duplicate steps",
    kinds.UNSORTED: "unsorted rows",
    kinds.BAD_REWARD: "rewards that are NaN or missing",
    kinds.UNDECLARED_REWARD: "rewards outside the declared values",
    kinds.UNKNOWN_STATE: "unknown states",
    kinds.UNKNOWN_ACTION: "unknown actions",
    kinds.BROKEN_PATH: "next states that are not the state of the next step",
    kinds.TOO_LONG: "episodes longer than the horizon",
    kinds.KINDS: "episodes in two places of a file",
}
"""How each kind of problem is called."""


@dataclass(frozen=True)
class Problem:
    """One kind of problem.

    Attributes:
        kind: what is wrong, in the plural.
        count: how often.
        first: the first offender, in words.
    """

    kind: str
    count: int
    first: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.count}, first {self.first}"


@dataclass(frozen=True)
class Limits:
    """What a good row looks like."""

    num_states: int
    num_actions: int
    reward_values: tuple[float, ...]
    horizon: int = NO_LIMIT


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
    """

    part: Any
    problems: dict[int, Problem] = field(default_factory=dict)
    ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    increasing: bool = True
    rows: int = 0
    episodes: int = 0
    longest: int = 0

    @property
    def bad(self) -> int:
        """Episodes with a problem."""
        return self.episodes - len(self.part)


def check(piece: Any, coding: Coding, limits: Limits) -> Checked:
    """Read a piece, check every row, and keep the good episodes in compact form."""
    counts, firsts = np.zeros(kinds.KINDS, np.int64), np.full(kinds.KINDS, -1, np.int64)
    parts: list[Compact] = []
    ids: list[NDArray[np.int64]] = []
    rows = 0
    for columns in whole_episodes(piece, coding):
        found, at = np.zeros(kinds.KINDS, np.int64), np.full(kinds.KINDS, -1, np.int64)
        part, seen = _check_columns(columns, limits, found, at)
        firsts = np.where((firsts < 0) & (at >= 0), at + rows, firsts)
        counts += found
        parts.append(part)
        ids.append(seen)
        rows += len(columns)
    part = parts[0] if len(parts) == 1 else joined(parts)
    every = np.concatenate([np.empty(0, np.int64), *ids])
    increasing = bool((every[1:] > every[:-1]).all())
    borders = every[[0, -1]] if every.size else every
    problems = _described(piece, coding, limits, counts, firsts)
    return Checked(part, problems, borders, increasing, rows, int(every.size), int(part.lengths.max(initial=0)))


def whole_episodes(piece: Any, coding: Coding) -> Iterator[Columns]:
    """The columns of a piece, cut only between episodes."""
    left: Columns | None = None
    drop = _last_before(piece, coding) if piece.head else None
    for table in piece.batches(coding.names.listed, coding.texts):
        columns = _decoded(piece, table, coding)
        if drop is not None:
            strange = np.flatnonzero(columns.episode != drop)
            columns = columns.part(int(strange[0]) if strange.size else len(columns), len(columns))
            drop = None if strange.size else drop
        if not len(columns):
            continue
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


def episode_ids(piece: Any, coding: Coding) -> NDArray[np.int64]:
    """The id of every episode of a piece, in order."""
    runs = [columns.episode for columns in whole_episodes(piece, coding)]
    ids = [episode[np.append(True, episode[1:] != episode[:-1])] for episode in runs]
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


def _check_columns(
    columns: Columns, limits: Limits, counts: NDArray[np.int64], firsts: NDArray[np.int64]
) -> tuple[Compact, NDArray[np.int64]]:
    size = len(columns)
    symbols, ids = np.empty(size, np.int32), np.empty(size, np.int64)
    lengths, last = np.empty(size, np.int32), np.empty(size, np.int32)
    fixed = columns.fixed()
    rows, kept, seen = kinds.check_episodes(
        fixed.episode,
        fixed.step,
        fixed.state,
        fixed.action,
        fixed.reward,
        fixed.following,
        np.asarray(limits.reward_values),
        limits.num_states,
        limits.num_actions,
        limits.horizon,
        MISSING,
        NO_EPISODE,
        counts,
        firsts,
        symbols,
        lengths,
        last,
        ids,
    )
    return Compact(symbols if rows == size else symbols[:rows].copy(), lengths[:kept].copy(), last[:kept].copy()), ids[
        :seen
    ].copy()


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
    names = {
        role: getattr(coding.names, role) for role in ("episode", "step", "state", "action", "reward", "next_state")
    }
    drop = _last_before(piece, coding) if piece.head else None
    done, rows = 0, {}
    for table in piece.batches(coding.names.listed, coding.texts):
        if drop is not None:
            strange = np.flatnonzero(_decoded(piece, table, coding).episode != drop)
            table = table.slice(int(strange[0]) if strange.size else table.num_rows)
            drop = None if strange.size else drop
        for row in wanted:
            if done <= row < done + table.num_rows:
                rows[row] = {
                    role: _as_python(table.column(name)[row - done]) for role, name in names.items() if name is not None
                }
        done += table.num_rows
    return rows


def _as_python(cell: Any) -> Any:
    try:
        return cell.as_py()
    except (ValueError, OverflowError):  # bytes that are no text
        return "unreadable"


_OFFENCES: dict[int, Callable[[dict[str, Any], Limits], str]] = {
    kinds.UNKNOWN_STATE: lambda row, limits: (
        f"state {row['state']!r}"
        + (f" and next state {row['next_state']!r}" if "next_state" in row else "")
        + f", expected one of {limits.num_states} states"
    ),
    kinds.UNKNOWN_ACTION: lambda row, limits: f"action {row['action']!r}, expected one of {limits.num_actions} actions",
    kinds.BAD_REWARD: lambda row, limits: f"reward {row['reward']}",
    kinds.UNDECLARED_REWARD: lambda row, limits: f"reward {row['reward']}, declared {list(limits.reward_values)}",
    kinds.TOO_LONG: lambda row, limits: f"more than {limits.horizon} steps",
    kinds.MISSING_STEPS: lambda row, limits: "the step before it is not there",
    kinds.DUPLICATE_STEPS: lambda row, limits: "the same step again",
    kinds.UNSORTED: lambda row, limits: "it comes after a later step",
    kinds.BROKEN_PATH: lambda row, limits: f"next state {row['next_state']!r}",
}


def _offender(kind: int, row: dict[str, Any], limits: Limits, name: str) -> str:
    """Where the first problem of a kind is, and what is there."""
    if not row:
        return f"at the end of {name}"
    step = f", step {row['step']}" if "step" in row and kind != kinds.TOO_LONG else ""
    what = _OFFENCES.get(kind)
    return f"in episode {row['episode']!r}{step} of {name}" + (f": {what(row, limits)}" if what else "")
