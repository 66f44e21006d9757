"""Check every row of a log and build compact episodes from the valid ones.

A chunk is read table by table, decoded to integer columns, cut into episodes and checked against the schema by compiled
kernels. Valid episodes become symbols ``x * Z + z`` (state-action index x, reward index z). Each kind of problem is
counted, and the first row with it is described.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import kernel
from rewardmix.logs import arrow_io
from rewardmix.logs.columns import (
    INVALID_INDEX,
    MISSING_INDEX,
    ColumnCoding,
    Columns,
    decode_table,
    mark_episode_starts,
)
from rewardmix.logs.left_out import reward_sizes
from rewardmix.logs.log import CompactEpisodes, RowProblem, concat_partitions, load_partition, spill_if_path
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
"""Kinds of problems: indices into ``counts`` and ``firsts``."""

PROBLEM_KINDS = 12


@kernel
def _reward_index(reward: Any, values: Any) -> Any:
    """Return the index of a reward among the reward values, or -1 if it equals none of them within 1e-9.

    Reward values differ by more than 2e-9, so at most one matches.
    """
    for z in range(values.size):
        if abs(values[z] - reward) <= 1e-9:
            return z
    return -1


@kernel
def record(kind: Any, row: Any, count: Any, counts: Any, firsts: Any) -> None:
    """Add to the count of one kind of problem and record the first row that has it."""
    if firsts[kind] < 0:
        firsts[kind] = row
    counts[kind] += count


@kernel
def check_steps(step: Any, begin: Any, end: Any, counts: Any, firsts: Any) -> None:
    """Record every reason why the step numbers of one episode are not 0, 1, 2, ..."""
    gaps, gap_at, last = 0, -1, -1
    unsorted = False
    for i in range(begin, end):
        number = step[i]
        if number <= INVALID_INDEX:  # missing, or not an integer
            record(NO_STEP, i, 1, counts, firsts)
            continue
        if number == last + 1:
            last = number
        elif number == last:
            record(DUPLICATE_STEPS, i, 1, counts, firsts)
        elif number < last or number < 0:
            record(UNSORTED, i, 1, counts, firsts)
            unsorted = True
        else:
            gap_at = i if gap_at < 0 else gap_at
            gaps += number - last - 1
            last = number
    # An unsorted row leaves a gap where it belongs. It is reported as unsorted only, or it would also count as missing.
    if gaps and not unsorted:
        record(MISSING_STEPS, gap_at, gaps, counts, firsts)


@kernel
def check_rows(rows: Any, limits: Any, begin: Any, end: Any, counts: Any, firsts: Any) -> None:
    """Record every value of one episode that the schema does not allow."""
    _, _, state, action, reward, next_states, propensity, _ = rows
    values, num_states, num_actions, _ = limits
    for i in range(begin, end):
        if state[i] < 0 or state[i] >= num_states:
            record(UNKNOWN_STATE, i, 1, counts, firsts)
        if action[i] < 0 or action[i] >= num_actions:
            record(UNKNOWN_ACTION, i, 1, counts, firsts)
        if _reward_index(reward[i], values) < 0:
            record(UNDECLARED_REWARD if np.isfinite(reward[i]) else BAD_REWARD, i, 1, counts, firsts)
        if propensity.size and not 0.0 < propensity[i] <= 1.0:
            record(BAD_PROPENSITY, i, 1, counts, firsts)
        if next_states.size and i + 1 < end and next_states[i] != state[i + 1]:
            record(BROKEN_PATH, i, 1, counts, firsts)


@kernel
def decode_episode(rows: Any, limits: Any, begin: Any, symbols: Any, propensities: Any, offset: Any) -> Any:
    """Decode the episode that begins at row ``begin`` into symbols and propensities.

    Returns (first row after the episode, whether all its rows are valid). Problems are not named here: valid rows are
    the common case, and ``check_steps`` and ``check_rows`` run only if this pass finds an invalid one.
    """
    episode, step, state, action, reward, next_states, propensity, absent = rows
    values, num_states, num_actions, _ = limits
    episode_id, has_no_id = episode[begin], absent[begin]
    numbered, has_next = step.size > 0, next_states.size > 0
    # Rewards of most logs take the two lowest values exactly. Two comparisons decide them; the tolerant search runs
    # only for the others.
    lowest, second = values[0], values[1]
    valid = True
    i = begin
    while i < episode.size and episode[i] == episode_id and absent[i] == has_no_id:
        s, a, r = state[i], action[i], reward[i]
        z = 1 if r == second else 0
        if r != lowest and r != second:
            z = _reward_index(r, values)
            valid &= z >= 0
        valid &= (s >= 0) & (s < num_states) & (a >= 0) & (a < num_actions)
        if numbered:
            valid &= step[i] == i - begin
        if propensity.size:
            valid &= 0.0 < propensity[i] <= 1.0
            propensities[offset + i - begin] = propensity[i]
        if has_next and i > begin:
            valid &= next_states[i - 1] == s
        # Symbols of an invalid episode are written too, and overwritten by the next one because its index does not
        # advance.
        symbols[offset + i - begin] = (s * num_actions + a) * values.size + z
        i += 1
    return i, valid


@kernel
def check_episodes(
    rows: Any,
    limits: Any,
    counts: Any,
    firsts: Any,
    symbols: Any,
    propensities: Any,
    lengths: Any,
    last: Any,
    valid_at: Any,
    ids: Any,
) -> Any:
    """Decode and check all episodes of some columns.

    Fills the symbols, propensities, lengths, final states and indices of the valid episodes, and the id of every
    episode. ``rows`` holds the eight columns; ``limits`` is (reward values, states, actions, horizon). Returns (rows
    kept, episodes kept, episodes read).
    """
    episode, step, _, _, _, next_states, _, absent = rows
    _, num_states, _, horizon = limits
    offset, num_kept, num_read = 0, 0, 0
    begin = 0
    while begin < episode.size:
        end, valid = decode_episode(rows, limits, begin, symbols, propensities, offset)
        # The next state of the last row is the final state. It may be missing, but must not be invalid.
        final_state = next_states[end - 1] if next_states.size else MISSING_INDEX
        if not valid:
            if step.size:
                check_steps(step, begin, end, counts, firsts)
            check_rows(rows, limits, begin, end, counts, firsts)
        if absent[begin]:
            record(NO_EPISODE_ID, begin, end - begin, counts, firsts)
            valid = False
        if end - begin > horizon:
            record(TOO_LONG, begin, 1, counts, firsts)
            valid = False
        if final_state >= num_states or (final_state < 0 and final_state != MISSING_INDEX):
            record(UNKNOWN_STATE, end - 1, 1, counts, firsts)
            valid = False
        ids[num_read] = episode[begin]
        num_read += 1
        if valid:
            lengths[num_kept], last[num_kept], valid_at[num_kept] = end - begin, max(final_state, -1), num_read - 1
            num_kept += 1
            offset += end - begin
        begin = end
    return offset, num_kept, num_read


NO_LIMIT = 1 << 30
"""Horizon while none was declared: no episode is too long."""

PROBLEM_NAMES = {
    NO_EPISODE_ID: "rows without an episode id",
    NO_STEP: "rows without a step number",
    MISSING_STEPS: "missing steps",
    DUPLICATE_STEPS: "duplicate steps",
    UNSORTED: "unsorted rows",
    BAD_REWARD: "rewards that are NaN or missing",
    UNDECLARED_REWARD: "rewards outside the declared values",
    UNKNOWN_STATE: "unknown states",
    UNKNOWN_ACTION: "unknown actions",
    BROKEN_PATH: "next states that differ from the state of the next step",
    TOO_LONG: "episodes longer than the horizon",
    BAD_PROPENSITY: "propensities that are not above 0 and at most 1",
    PROBLEM_KINDS: "episodes in two places of a file",
}
"""Problem kind -> its name in messages."""


@dataclass(frozen=True)
class RowLimits:
    """Values that a valid row may have.

    ``reward_scale`` maps a reward to one of the reward values; None: rewards must equal a value.
    """

    num_states: int
    num_actions: int
    reward_values: tuple[float, ...]
    horizon: int = NO_LIMIT
    reward_scale: RewardScale | None = None


@dataclass(frozen=True, eq=False)
class CheckedChunk:
    """Contents of one chunk.

    Attributes:
        episodes: its valid episodes, in memory or spilled to a file.
        problems: problem kind -> count and first row.
        ids: ids of its first and of its last episode.
        ids_increasing: whether its ids increase.
        num_rows: rows read.
        num_episodes: episodes read, valid and invalid.
        max_length: steps of the longest valid episode.
        rewards: (2,) sum of absolute rewards in its valid and in its invalid episodes.
    """

    episodes: Any
    problems: dict[int, RowProblem] = field(default_factory=dict)
    ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    ids_increasing: bool = True
    num_rows: int = 0
    num_episodes: int = 0
    max_length: int = 0
    rewards: NDArray[np.float64] = field(default_factory=lambda: np.zeros(2))


def check_chunk(chunk: Any, path: str | None, coding: ColumnCoding, limits: RowLimits) -> CheckedChunk:
    """Read a chunk, check every row and keep the valid episodes in compact form (in a file if there is a path)."""
    counts, firsts = np.zeros(PROBLEM_KINDS, np.int64), np.full(PROBLEM_KINDS, -1, np.int64)
    blocks: list[CompactEpisodes] = []
    ids: list[NDArray[np.int64]] = []
    rows, rewards = 0, np.zeros(2)
    for columns in iter_whole_episodes(chunk, coding):
        chunk_counts, chunk_firsts = np.zeros(PROBLEM_KINDS, np.int64), np.full(PROBLEM_KINDS, -1, np.int64)
        episodes, chunk_ids, valid = check_columns(columns, limits, chunk_counts, chunk_firsts)
        rewards += reward_sizes(columns.episode, columns.reward, chunk_ids.size, valid)
        # Row numbers count from the beginning of the chunk, so those of this table are shifted by the rows before it.
        firsts = np.where((firsts < 0) & (chunk_firsts >= 0), chunk_firsts + rows, firsts)
        counts += chunk_counts
        blocks.append(episodes)
        ids.append(chunk_ids)
        rows += len(columns)
    episodes = blocks[0] if len(blocks) == 1 else concat_partitions(blocks)
    all_ids = np.concatenate([np.empty(0, np.int64), *ids])
    increasing = bool((all_ids[1:] > all_ids[:-1]).all())
    borders = all_ids[[0, -1]] if all_ids.size else all_ids
    problems = _describe_problems(chunk, coding, limits, counts, firsts)
    longest = int(episodes.lengths.max(initial=0))
    return CheckedChunk(
        spill_if_path(episodes, path), problems, borders, increasing, rows, int(all_ids.size), longest, rewards
    )


def load_valid_episodes(chunk: Any, coding: ColumnCoding, limits: RowLimits) -> CompactEpisodes:
    """Return the valid episodes of a chunk that was checked before."""
    return load_partition(check_chunk(chunk, None, coding, limits).episodes)


def iter_whole_episodes(chunk: Any, coding: ColumnCoding) -> Iterator[Columns]:
    """Iterate over the columns of a chunk, cut only between episodes."""
    rest: Columns | None = None
    for table in iter_tables(chunk, coding):
        columns = _decode(chunk, table, coding)
        if rest is not None and rest.episode[-1] == columns.episode[0]:  # the batch begins within an episode
            # The last episode of the batch before goes on here. Only that episode is moved over, so that memory holds
            # two batches at most.
            changes = np.flatnonzero(rest.episode[1:] != rest.episode[:-1])
            cut = int(changes[-1]) + 1 if changes.size else 0
            columns = rest.slice_rows(cut, len(rest)) + columns
            rest = rest.slice_rows(0, cut) if cut else None
        if rest is not None:
            yield rest
        rest = columns
    if rest is not None:
        yield rest + _rows_after(chunk, coding, rest) if chunk.complete_last_episode else rest


def iter_tables(chunk: Any, coding: ColumnCoding, extra_columns: tuple[str, ...] = ()) -> Iterator[Any]:
    """Iterate over the non-empty tables of a chunk, without the leading rows that belong to the chunk before.

    ``extra_columns`` names columns to read besides those of the schema.
    """
    skipped_id = _last_episode_before(chunk, coding) if chunk.skip_leading_episode else None
    for table in chunk.batches([*coding.names.all_names, *extra_columns], coding.label_columns):
        if skipped_id is not None:
            others = np.flatnonzero(_decode(chunk, table, coding).episode != skipped_id)
            table = table.slice(int(others[0]) if others.size else table.num_rows)
            skipped_id = None if others.size else skipped_id
        if table.num_rows:
            yield table


def list_episode_ids(chunk: Any, coding: ColumnCoding) -> NDArray[np.int64]:
    """List the ids of all episodes of a chunk in order, without rows that have no episode."""
    ids = [
        columns.episode[mark_episode_starts(columns.episode, columns.absent) & ~columns.absent]
        for columns in iter_whole_episodes(chunk, coding)
    ]
    return np.concatenate([np.empty(0, np.int64), *ids])


def _decode(chunk: Any, table: Any, coding: ColumnCoding) -> Columns:
    with arrow_io.raise_read_errors(chunk.name):
        return decode_table(table, coding)


def _last_episode_before(chunk: Any, coding: ColumnCoding) -> int | None:
    """Return the id of the episode that the rows before the chunk end with, or None."""
    # Row groups may be empty, so the search goes back until one has a row.
    for table in chunk.adjacent_batches(coding.names.all_names, coding.label_columns, before=True):
        if table.num_rows:
            return int(_decode(chunk, table.slice(table.num_rows - 1), coding).episode[0])
    return None


def _rows_after(chunk: Any, coding: ColumnCoding, columns_before: Columns) -> Columns:
    """Read the rows after the chunk that belong to its last episode."""
    episode = columns_before.episode[-1]
    blocks = []
    for table in chunk.adjacent_batches(coding.names.all_names, coding.label_columns, before=False):
        columns = _decode(chunk, table, coding)
        outside = np.flatnonzero(columns.episode != episode)
        blocks.append(columns.slice_rows(0, int(outside[0]) if outside.size else len(columns)))
        if outside.size:
            break
    if not blocks:
        return columns_before.slice_rows(0, 0)
    first, *others = blocks
    for other in others:
        first = first + other
    return first


def check_columns(
    columns: Columns, limits: RowLimits, counts: NDArray[np.int64], firsts: NDArray[np.int64]
) -> tuple[CompactEpisodes, NDArray[np.int64], NDArray[np.int64]]:
    """Check some columns and return (valid episodes, ids of all episodes, indices of the valid ones among all)."""
    size = len(columns)
    symbols, ids, valid_indices = np.empty(size, np.int32), np.empty(size, np.int64), np.empty(size, np.int64)
    propensities = np.empty(columns.propensity.size)
    lengths, last = np.empty(size, np.int32), np.empty(size, np.int32)
    bounds = np.asarray(limits.reward_values), limits.num_states, limits.num_actions, limits.horizon
    out = symbols, propensities, lengths, last, valid_indices, ids
    if limits.reward_scale is not None:
        columns = replace(columns, reward=limits.reward_scale.round_to_values(columns.reward))
    rows, num_kept, num_episodes = check_episodes(columns.readonly_arrays(), bounds, counts, firsts, *out)
    # A slice would keep the whole buffer alive; copies release the memory of invalid rows.
    if rows < size:
        symbols, propensities = symbols[:rows].copy(), propensities[:rows].copy()
    episodes = CompactEpisodes(symbols, lengths[:num_kept].copy(), last[:num_kept].copy(), propensities)
    return episodes, ids[:num_episodes].copy(), valid_indices[:num_kept].copy()


def _describe_problems(
    chunk: Any, coding: ColumnCoding, limits: RowLimits, counts: Any, firsts: Any
) -> dict[int, RowProblem]:
    """Describe the problems of a chunk.

    The rows of the first occurrences are read again, so that messages show the values of the file and not their codes.
    """
    first_rows = {kind: int(firsts[kind]) for kind in np.flatnonzero(counts).tolist()}
    rows = _raw_rows(chunk, coding, set(first_rows.values())) if first_rows else {}
    return {
        kind: RowProblem(
            PROBLEM_NAMES[kind], int(counts[kind]), _describe_first_row(kind, rows.get(row, {}), limits, chunk.name)
        )
        for kind, row in first_rows.items()
    }


def _raw_rows(chunk: Any, coding: ColumnCoding, row_indices: set[int]) -> dict[int, dict[str, Any]]:
    """Read some rows of a chunk as Python values.

    Rows are counted behind the leading rows that ``skip_leading_episode`` drops.
    """
    done, rows = 0, {}
    for table in iter_tables(chunk, coding):
        for row in row_indices:
            if done <= row < done + table.num_rows:
                cells = {role: table.column(name)[row - done] for role, name in coding.names.roles.items()}
                rows[row] = {role: _as_python(cell) for role, cell in cells.items()}
        done += table.num_rows
    return rows


def _as_python(cell: Any) -> Any:
    try:
        return cell.as_py()
    except (ValueError, OverflowError):  # bytes that are not valid text
        return "unreadable"


_PROBLEM_DETAILS: dict[int, Callable[[dict[str, Any], RowLimits], str]] = {
    UNKNOWN_STATE: lambda row, limits: (
        f"state {row['state']!r}"
        + (f" and next state {row['next_state']!r}" if "next_state" in row else "")
        + f", expected one of {limits.num_states} states"
    ),
    UNKNOWN_ACTION: lambda row, limits: f"action {row['action']!r}, expected one of {limits.num_actions} actions",
    BAD_REWARD: lambda row, limits: f"reward {row['reward']}",
    UNDECLARED_REWARD: lambda row, limits: f"reward {row['reward']}, declared {list(limits.reward_values)}",
    TOO_LONG: lambda row, limits: f"more than {limits.horizon} steps",
    MISSING_STEPS: lambda row, limits: "the step before it is missing",
    DUPLICATE_STEPS: lambda row, limits: "the step occurs twice",
    UNSORTED: lambda row, limits: "the row comes after a later step",
    BROKEN_PATH: lambda row, limits: f"next state {row['next_state']!r}",
    BAD_PROPENSITY: lambda row, limits: f"propensity {row['propensity']}",
}


def _describe_first_row(kind: int, row: dict[str, Any], limits: RowLimits, name: str) -> str:
    """Describe where the first problem of a kind is and which value was found."""
    if not row:
        return f"at the end of {name}"
    step = f", step {row['step']}" if "step" in row and kind != TOO_LONG else ""
    describe = _PROBLEM_DETAILS.get(kind)
    return f"in episode {row['episode']!r}{step} of {name}" + (f": {describe(row, limits)}" if describe else "")
