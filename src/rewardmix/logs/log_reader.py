"""Read a log of sessions from files, tables or episodes, and check every row.

    source -> chunks -> (sort, split into sessions, bin rewards, merge states) -> schema -> checked partitions

Sizes, names and reward values are declared by the caller, stored in the files, or scanned from the rows, in this order
of precedence. Invalid episodes raise an error with the first occurrence of each kind of problem, unless they may be
dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import InputError, as_count, check_callback, quote_value, raise_input_error
from rewardmix.episodes import Episodes
from rewardmix.logs import arrow_io
from rewardmix.logs.binning import make_reward_bins, make_state_merge
from rewardmix.logs.columns import ColumnCoding, ColumnNames, StateMerge
from rewardmix.logs.episode_ids import ChunkOrigin
from rewardmix.logs.executors import ExecutorPool, ProgressCallback, report_each, to_executor
from rewardmix.logs.left_out import LeftOut
from rewardmix.logs.log import CompactEpisodes, Log, ReadReport, Repair, RowProblem, SpilledPartition, spill_if_path
from rewardmix.logs.log_schema import ColumnValues, LogSchema, scan_values
from rewardmix.logs.minari_io import is_dataset, read_minari
from rewardmix.logs.row_checks import (
    BAD_REWARD,
    NO_EPISODE_ID,
    NO_LIMIT,
    PROBLEM_KINDS,
    PROBLEM_NAMES,
    UNSORTED,
    CheckedChunk,
    RowLimits,
    check_chunk,
    list_episode_ids,
    load_valid_episodes,
)
from rewardmix.logs.row_sorting import first_split
from rewardmix.logs.schema_hints import SchemaHints, label_columns, make_read_options, make_schema_hints, parse_columns
from rewardmix.logs.sessionization import SortBudget, sort_by_step, sort_by_time, split_sessions
from rewardmix.logs.sources import IN_ORDER, LogSource, open_source
from rewardmix.logs.timestamps import SessionGap
from rewardmix.reward_scale import RewardScale

ROWS_PER_PART = 1 << 21
"""Rows of a partition: the cost of starting a task is small, and many partitions fit into memory."""


def read_log(
    source: Any,
    *,
    columns: Mapping[str, str | None] | None = None,
    horizon: int | None = None,
    reward_values: ArrayLike | RewardScale | None = None,
    num_states: int | None = None,
    num_actions: int | None = None,
    state_names: Sequence[str] = (),
    action_names: Sequence[str] = (),
    session_gap: float | str | timedelta | None = None,
    num_reward_bins: int | None = None,
    min_state_count: int | None = None,
    drop_invalid: bool | float = False,
    rows_per_partition: int = ROWS_PER_PART,
    executor: Executor | None = None,
    callback: ProgressCallback | None = None,
) -> Log:
    """Read and check a log of sessions.

    Args:
        source: Path or pattern of Parquet or CSV files, several paths, a directory of them, a pyarrow, pandas or polars
            table, a Minari dataset (open, or ``"minari:ID"``), or ``Episodes``.
        columns: Role -> column name, where the names differ from episode, step, state, action, reward, and next_state
            and propensity (used if present): ``{"state": "page"}``. Without a step column rows must be complete and in
            order. The role ``"time"`` names a column of timestamps or numbers that orders the rows of an episode in
            place of steps. The role ``"user"`` replaces the episode if only users are known; ``session_gap`` then
            splits their rows into sessions.
        horizon: Maximum number of steps H of an episode. ``None`` uses the longest episode.
        reward_values: Values (Z,) that a reward can take, or the reward scale of a model (``model.reward_scale``),
            which applies the bins of that model. ``None`` uses the values that occur.
        num_states: Number of states S. ``None`` uses the largest index plus one, or the number of labels.
        num_actions: Number of actions A. ``None`` uses the largest index plus one, or the number of labels.
        state_names: Labels of states in the order of their indices. Left out, the labels that occur, sorted.
        action_names: Labels of actions in the order of their indices. Left out, the labels that occur, sorted.
        session_gap: Longest pause within a session of a user, in seconds or as text such as ``"30m"``.
        num_reward_bins: Put rewards into this many bins of about equal counts if there are more distinct values. A
            reward counts as the mean of its bin.
        min_state_count: Merge states with fewer visits than this into one state called "other".
        drop_invalid: Drop invalid episodes instead of raising an error: ``True`` allows up to a tenth of the episodes,
            a number allows that fraction. ``log.read_report.left_out`` counts them and their share of the reward.
        rows_per_partition: About how many rows are read, stored and processed at a time.
        executor: A ``concurrent.futures.Executor`` (for example ``process_pool(n)``) or a Dask client. ``None`` uses
            this process. Files must have equal paths on all workers.
        callback: Called with (partitions read, partitions in total).

    Returns:
        Log of checked episodes, with its schema and a report of what was repaired and dropped.

    Raises:
        InputError: If a column is missing or has the wrong type, a size contradicts the rows, or episodes are invalid
            and may not be dropped.
        ImportError: If the source needs pyarrow or minari and it is not installed.

    Examples:
        >>> import pyarrow as pa
        >>> import rewardmix as rm
        >>> rows = {"session": [7, 7, 8], "step": [0, 1, 0], "page": ["home", "cart", "home"], "action": [0, 1, 1]}
        >>> table = pa.table({**rows, "reward": [0, 1, 0]})
        >>> log = rm.read_log(table, columns={"episode": "session", "state": "page"})
        >>> len(log), log.schema.horizon, log.schema.state_names
        (2, 2, ('cart', 'home'))
    """
    names, pause = parse_columns(columns, session_gap)
    read_options = make_read_options(pause, num_reward_bins, min_state_count, drop_invalid)
    schema_hints = make_schema_hints(horizon, reward_values, num_states, num_actions, state_names, action_names)
    check_callback("callback", callback)
    pool = ExecutorPool(to_executor(executor))
    budget = SortBudget(as_count("rows_per_partition", rows_per_partition), pool.folder)
    if isinstance(source, Log):
        raise_input_error("source", "a Log", "a source to read; pass the Log itself to fit")
    if is_dataset(source) or (isinstance(source, str) and source.startswith("minari:")):
        dataset = source.removeprefix("minari:") if isinstance(source, str) else source
        source = read_minari(dataset, horizon=schema_hints.horizon, reward_values=schema_hints.reward_values)
    read_options.check(schema_hints, table=not isinstance(source, Episodes))
    if isinstance(source, Episodes):
        return _from_episodes(source, schema_hints, pool)
    log_source = open_source(source, names, budget.max_rows, label_columns(names, schema_hints), pool.folder)
    log_source, repairs = _sort_rows(log_source, names, pause, budget)
    schema_hints = read_options.without_derived_fields(schema_hints.fill_from_metadata(log_source.metadata))
    bins, bin_repairs = make_reward_bins(log_source, read_options.num_reward_bins, pool)
    state_merge, merge_repairs = make_state_merge(log_source, read_options.min_state_count, pool)
    prepared = PreparedSource(
        log_source, schema_hints.apply_binning(bins, state_merge), state_merge, (*repairs, *bin_repairs, *merge_repairs)
    )
    return _check_and_build(prepared, budget, pool, read_options.max_left_out, callback)


def to_log(log: Any, executor: Executor | None, read_options: Mapping[str, Any]) -> Log:
    """Return a log unchanged or with another executor, and read any other source."""
    if not isinstance(log, Log):
        return read_log(log, executor=executor, **read_options)
    if read_options:
        raise_input_error(
            "log", f"a Log and the read option {next(iter(read_options))!r}", "a source; pass read options to read_log"
        )
    return log if executor is None else log.with_executor(to_executor(executor))


@dataclass(frozen=True, eq=False)
class PreparedSource:
    """Source that is ready to be checked, with its schema hints, merged states and repairs."""

    source: LogSource
    schema_hints: SchemaHints
    state_merge: StateMerge | None
    repairs: tuple[Repair, ...]


def _sort_rows(
    source: LogSource, requested_names: ColumnNames, pause: SessionGap | None, budget: SortBudget
) -> tuple[LogSource, tuple[Repair, ...]]:
    """Sort rows by time or split them into sessions where the columns ask for it, and describe the repairs."""
    if pause is not None:
        return split_sessions(source, pause, budget)
    if source.names.time is not None:
        return sort_by_time(source, budget)
    if source.names.step is None and requested_names.step is not None:
        rows = sum(chunk.num_rows for chunk in source.chunks)
        text = f"There is no column {requested_names.step!r}. The {rows} rows are assumed to be complete and in order."
        return source, (Repair("rows without a step", rows, text),)
    return source, ()


def _from_episodes(episodes: Episodes, schema_hints: SchemaHints, pool: ExecutorPool) -> Log:
    """Convert ``Episodes`` to a log.

    Episodes were checked when they were made, so only a larger horizon and names can be declared.
    """
    for name in ("num_states", "num_actions"):
        if getattr(schema_hints, name) not in (None, getattr(episodes, name)):
            raise_input_error(name, getattr(schema_hints, name), f"{getattr(episodes, name)}, as in the episodes")
    values = tuple(episodes.reward_values.tolist())
    if schema_hints.reward_values not in (None, values):
        raise_input_error(
            "reward_values", list(schema_hints.reward_values or ()), f"{list(values)}, as in the episodes"
        )
    longest = int(episodes.lengths.max(initial=1))
    horizon = schema_hints.horizon or episodes.horizon
    if horizon < longest:
        raise_input_error("horizon", horizon, f"at least {longest}, the longest episode")
    sizes = episodes.num_states, episodes.num_actions, horizon, episodes.reward_values
    schema = LogSchema(*sizes, schema_hints.state_names, schema_hints.action_names)
    if not len(episodes):
        raise_input_error("log", "no episodes", "at least one")
    # Converting a partition allocates arrays of its padded size, so partitions are limited by episodes times horizon.
    size = max(1, arrow_io.BATCH_ROWS // max(1, horizon))
    partitions = [
        CompactEpisodes.from_episodes(episodes[begin : begin + size]) for begin in range(0, len(episodes), size)
    ]
    files = pool.files(partition.num_rows for partition in partitions)
    rows = int(episodes.lengths.sum())
    counts = np.bincount(episodes.reward_indices[episodes.step_mask], minlength=len(values))
    total_reward = sum(count * abs(value) for count, value in zip(counts.tolist(), values, strict=True))
    left_out = LeftOut(0, len(episodes), rows=rows, paid=total_reward)
    report = ReadReport(rows, len(episodes), len(episodes), in_order=True, lost=left_out)
    return Log(schema, tuple(map(spill_if_path, partitions, files)), pool, report)


def _check_and_build(
    prepared: PreparedSource,
    budget: SortBudget,
    pool: ExecutorPool,
    max_left_out: float | None,
    callback: ProgressCallback | None,
) -> Log:
    source, schema_hints, repairs = prepared.source, prepared.schema_hints, prepared.repairs
    coding, limits = _resolve_schema(prepared, pool)
    checked = _check_chunks(source.chunks, coding, limits, pool, callback)
    chunks, checked, num_split = _repair_split_episodes(source.chunks, checked, coding, limits, pool)
    problems = _collect_problems(chunks, checked, coding, pool)
    # Rows out of order or an episode in two places: sort by episode and step once, then check again. Checking first
    # keeps logs that are already sorted, the common case, in one pass.
    if problems.keys() & {UNSORTED, PROBLEM_KINDS}:
        if source.names.step is None:
            _refuse_split(source)
        source, sort_repairs = sort_by_step(source, budget)
        chunks, repairs = source.chunks, (*repairs, *sort_repairs)
        checked = _check_chunks(chunks, coding, limits, pool)
        problems = _collect_problems(chunks, checked, coding, pool)
    # Sorted by kind, so that messages do not depend on which chunk was checked first.
    listed = tuple(problems[kind] for kind in sorted(problems))
    episodes, num_kept = sum(chunk.num_episodes for chunk in checked), sum(len(chunk.episodes) for chunk in checked)
    _check_row_count(source, checked)
    left_out = _left_out(checked, problems, episodes - num_kept)
    if problems and (max_left_out is None or left_out.share > max_left_out):
        _raise_problems(listed, left_out, max_left_out)
    if not num_kept:
        actual = f"{episodes} episodes, all invalid" if episodes else "no episodes"
        raise_input_error("log", actual, "at least one valid episode")
    horizon = schema_hints.horizon or max(chunk.max_length for chunk in checked)
    sizes = limits.num_states, limits.num_actions, horizon, np.asarray(limits.reward_values)
    labels = coding.state_names or schema_hints.state_names, coding.action_names or schema_hints.action_names
    cuts = None if schema_hints.reward_scale is None else schema_hints.reward_scale.cuts
    schema = LogSchema(*sizes, *labels, cuts)
    in_order = source.in_order or source.metadata.get(IN_ORDER) is True
    report = ReadReport(
        left_out.rows, episodes, num_kept, listed, num_split, source.name, repairs, source.time_span, in_order, left_out
    )
    nonempty = [
        (chunk.episodes, ChunkOrigin(source_chunk, coding, limits, source.extra_columns))
        for chunk, source_chunk in zip(checked, chunks, strict=True)
        if len(chunk.episodes)
    ]
    return Log(
        schema, tuple(partition for partition, _ in nonempty), pool, report, tuple(origin for _, origin in nonempty)
    )


def _check_chunks(
    chunks: Sequence[Any],
    coding: ColumnCoding,
    limits: RowLimits,
    pool: ExecutorPool,
    callback: ProgressCallback | None = None,
) -> list[CheckedChunk]:
    """Check all chunks; a spilled partition keeps a reference to its chunk so that it can be rebuilt.

    Partitions of a table in memory keep none, because the rows would be sent along with it.
    """
    files = pool.files(chunk.num_rows for chunk in chunks)
    results = pool.map(check_chunk, chunks, files, common=(coding, limits))
    return [
        replace(checked, episodes=replace(checked.episodes, origin=partial(load_valid_episodes, chunk, coding, limits)))
        if isinstance(checked.episodes, SpilledPartition) and isinstance(chunk, arrow_io.ParquetChunk)
        else checked
        for checked, chunk in zip(report_each(results, len(chunks), callback), chunks, strict=True)
    ]


def _resolve_schema(prepared: PreparedSource, pool: ExecutorPool) -> tuple[ColumnCoding, RowLimits]:
    """Determine the encoding of labels and the allowed values: declared, or scanned from the rows."""
    source, schema_hints = prepared.source, prepared.schema_hints
    names, labeled = source.names, source.label_columns
    by_name = names.state in labeled, names.action in labeled
    states_open = not schema_hints.state_names if by_name[0] else schema_hints.num_states is None
    actions_open = not schema_hints.action_names if by_name[1] else schema_hints.num_actions is None
    undeclared = {
        "state": states_open,
        "next_state": states_open,
        "action": actions_open,
        "reward": schema_hints.reward_values is None,
        "step": not source.metadata,
    }
    expected = frozenset(role for role in names.roles if undeclared.get(role))
    column_values = ColumnValues()
    for chunk_values in pool.map(scan_values, source.chunks, common=(names, labeled, expected)) if expected else ():
        column_values = column_values + chunk_values
    found_states, found_actions = column_values["state"] | column_values["next_state"], column_values["action"]
    states = schema_hints.state_names or (tuple(sorted(found_states)) if by_name[0] else ())
    actions = schema_hints.action_names or (tuple(sorted(found_actions)) if by_name[1] else ())
    if by_name[0]:
        _check_labels(names.state, "states", states, schema_hints.num_states)
    if by_name[1]:
        _check_labels(names.action, "actions", actions, schema_hints.num_actions)
    # Steps that begin at 1 in the whole log are numbered from 1. A first step of 2 or more is a gap, not a convention.
    first_step = 1 if min(column_values["step"], default=0) == 1 else 0
    coding = ColumnCoding(names, labeled, states if by_name[0] else (), actions if by_name[1] else (), first_step)
    coding = replace(coding, state_merge=prepared.state_merge)
    limits = RowLimits(
        schema_hints.num_states or len(states) or max(found_states, default=0) + 1,
        schema_hints.num_actions or len(actions) or max(found_actions, default=0) + 1,
        schema_hints.reward_values or _default_reward_values(column_values["reward"]),
        schema_hints.horizon or NO_LIMIT,
        schema_hints.reward_scale,
    )
    _check_limits(limits)
    return coding, limits


def _check_labels(column: str, role: str, labels: Sequence[str], count: int | None) -> None:
    if not labels:
        raise_input_error(f"column {column!r}", "no label in any row", f"labels of {role}")
    if count not in (None, len(labels)):
        advice = f"{len(labels)}, the number of labels of {role}; {role[:-1]}_names declares more"
        raise_input_error(f"num_{role}", count, advice)


def _check_limits(limits: RowLimits) -> None:
    """Raise an error for impossible sizes before anything is allocated."""
    for name in ("num_states", "num_actions"):
        if getattr(limits, name) < 1:
            raise_input_error(
                name.replace("num_", ""), "only negative or missing numbers", "whole numbers from 0, or text"
            )
    LogSchema(limits.num_states, limits.num_actions, 1, np.asarray(limits.reward_values))


def _default_reward_values(rewards: frozenset[float]) -> tuple[float, ...]:
    # A model needs two reward values. A log with one value gets 0 as well, and a binary log is always {0, 1}.
    return (0.0, 1.0) if rewards <= {0.0, 1.0} else tuple(sorted(rewards if len(rewards) > 1 else rewards | {0.0}))


def _repair_split_episodes(
    chunks: Sequence[Any], checked: list[CheckedChunk], coding: ColumnCoding, limits: RowLimits, pool: ExecutorPool
) -> tuple[Sequence[Any], list[CheckedChunk], int]:
    """Read again the chunks whose border splits an episode, this time across the border.

    Returns the chunks, their checked contents and the number of such borders.
    """
    cuts = {
        i
        for i in range(len(chunks) - 1)
        if chunks[i].path == chunks[i + 1].path and _shares_episode(checked[i], checked[i + 1])
    }
    if not cuts:
        return chunks, checked, 0
    heads = {i + 1 for i in cuts}
    reread = sorted(cuts | heads)
    repaired = list(chunks)
    for i in reread:
        # A chunk that lies wholly inside one episode adds nothing: the chunk where the episode begins reads all of it.
        inner = i in heads and checked[i].num_episodes == 1
        repaired[i] = replace(chunks[i], skip_leading_episode=i in heads, complete_last_episode=i in cuts and not inner)
    for i, chunk in zip(reread, _check_chunks([repaired[i] for i in reread], coding, limits, pool), strict=True):
        checked[i] = chunk
    return repaired, checked, len(cuts)


def _shares_episode(chunk: CheckedChunk, next_chunk: CheckedChunk) -> bool:
    return bool(chunk.num_episodes and next_chunk.num_episodes and chunk.ids[-1] == next_chunk.ids[0])


def _collect_problems(
    chunks: Sequence[Any], checked: Sequence[CheckedChunk], coding: ColumnCoding, pool: ExecutorPool
) -> dict[int, RowProblem]:
    """Collect the problems of all chunks by kind, and find episodes that occur in two places of a file."""
    merged: dict[int, RowProblem] = {}
    for chunk in checked:
        for kind, problem in chunk.problems.items():
            before = merged.get(kind)
            merged[kind] = replace(before, count=before.count + problem.count) if before else problem
    # Episode ids are unique within a file only: two files may use one id for different episodes.
    for path in dict.fromkeys(chunk.path for chunk in chunks):
        indices = [i for i, chunk in enumerate(chunks) if chunk.path == path and checked[i].num_episodes]
        # Increasing ids rule out repeats without listing them. Only other files pay for a list of all ids.
        if not _ids_increase([checked[i] for i in indices]):
            all_ids = np.concatenate(list(pool.map(list_episode_ids, [chunks[i] for i in indices], common=(coding,))))
            ids, times = np.unique(all_ids, return_counts=True)
            if (times > 1).any() and PROBLEM_KINDS not in merged:
                label = (
                    "one of them" if coding.names.episode in coding.label_columns else f"episode {ids[times > 1][0]}"
                )
                first = f"{label} in {path}"
                merged[PROBLEM_KINDS] = RowProblem(PROBLEM_NAMES[PROBLEM_KINDS], int((times > 1).sum()), first)
    return merged


def _refuse_split(source: LogSource) -> None:
    """Raise an error if the rows of an episode have rows of other episodes between them.

    Without a step or time column the order of such rows is unknown, and whether they are one episode.
    """
    column = source.names.episode
    for path in dict.fromkeys(chunk.path for chunk in source.chunks):
        chunks = [chunk for chunk in source.chunks if chunk.path == path]

        def tables(file_chunks: Sequence[Any] = chunks) -> Iterator[Any]:
            for chunk in file_chunks:
                yield from chunk.batches([column], source.label_columns)

        split = first_split(tables, column)
        if split is not None:
            episode, first, second = split
            raise_input_error(
                "log",
                f"episode {quote_value(episode)} in two places of {chunks[0].name}, from row {first} and from row "
                f"{second} (the first row is 1), and no column that orders its rows",
                "the rows of each episode together and in order, or a column that orders them: columns={'step': ...} "
                "or {'time': ...} (row numbers are valid times); remove duplicate rows",
            )


def _ids_increase(chunks: Sequence[CheckedChunk]) -> bool:
    """Return whether ids increase throughout a file, which rules out that an episode occurs twice."""
    inside = all(chunk.ids_increasing for chunk in chunks)
    return inside and all(chunk.ids[-1] < next_chunk.ids[0] for chunk, next_chunk in pairwise(chunks))


def _check_row_count(source: LogSource, checked: Sequence[CheckedChunk]) -> None:
    """Raise an error if a file written by this package does not have the number of rows that it states."""
    rows = source.metadata.get("rows") if source.metadata else None
    num_rows = sum(chunk.num_rows for chunk in checked)
    if rows is not None and rows != num_rows:
        raise_input_error("path", f"{source.name} with {num_rows} rows", f"{rows} rows, as stated in the file")


def _left_out(checked: Sequence[CheckedChunk], problems: Mapping[int, RowProblem], bad: int) -> LeftOut:
    """Measure how much of the log the dropped episodes are: sessions, rows and share of the reward."""
    kept_sum, dropped_sum = sum((chunk.rewards for chunk in checked), start=np.zeros(2)).tolist()
    # The share is undefined if all rewards are 0, or if their sum overflows.
    share = dropped_sum / (kept_sum + dropped_sum) if 0.0 < kept_sum + dropped_sum < math.inf else math.nan
    without_id, missing = (problems[kind].count if kind in problems else 0 for kind in (NO_EPISODE_ID, BAD_REWARD))
    rows = sum(chunk.num_rows for chunk in checked)
    return LeftOut(bad, sum(chunk.num_episodes for chunk in checked), without_id, rows, share, missing, kept_sum)


def _raise_problems(problems: Sequence[RowProblem], left_out: LeftOut, max_left_out: float | None) -> None:
    lines = "\n".join(f"  {problem}" for problem in problems)
    plural = "s" * (len(problems) != 1)
    expected = "none" if max_left_out is None else f"at most {100 * max_left_out:g} % of the episodes"
    raise InputError(
        f"log: got {len(problems)} kind{plural} of problem{plural} in {left_out.sessions} of "
        f"{left_out.all_sessions} episodes, expected {expected} ({left_out.advice}):\n{lines}"
    )
