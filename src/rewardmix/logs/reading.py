"""``read``: a log from wherever it is, checked row by row, ready to be counted and fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import InputError, as_count, check_callback, refuse
from rewardmix.episodes import Episodes
from rewardmix.logs import arrow
from rewardmix.logs.checking import (
    NO_LIMIT,
    PROBLEM_KINDS,
    WORDS,
    Checked,
    Limits,
    check_piece,
    episode_ids,
    good_episodes,
)
from rewardmix.logs.columns import NO_EPISODE, Coding, Names
from rewardmix.logs.log import Compact, Log, Notes, Problem, StoredPart, stored
from rewardmix.logs.log_schema import (
    FoundValues,
    LogSchema,
    as_distinct_rewards,
    as_horizon,
    as_names,
    find_values,
)
from rewardmix.logs.minari import is_dataset, read_minari
from rewardmix.logs.sources import Source, source_of
from rewardmix.logs.workers import Callback, Workers, as_executor, reported

ROWS_PER_PART = 1 << 21
"""Enough to make starting a part cheap, few enough for many parts to be in memory."""


@dataclass(frozen=True)
class Declared:
    """What the caller (or the file) says about the log; None where nobody does."""

    num_states: int | None = None
    num_actions: int | None = None
    horizon: int | None = None
    reward_values: tuple[float, ...] | None = None
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()


def read(
    source: Any,
    *,
    columns: Mapping[str, str | None] | None = None,
    horizon: int | None = None,
    reward_values: ArrayLike | None = None,
    num_states: int | None = None,
    num_actions: int | None = None,
    state_names: Sequence[str] = (),
    action_names: Sequence[str] = (),
    skip_bad: bool = False,
    rows_per_part: int = ROWS_PER_PART,
    executor: Executor | None = None,
    on_update: Callback | None = None,
) -> Log:
    """Read and check a log.

    Args:
        source: a path or pattern of Parquet or CSV files, several paths, a directory of them, a pyarrow, pandas or
            polars table, a Minari dataset (open, or "minari:ID"), or ``Episodes``.
        columns: what columns are called, where not episode, step, state, action, reward (and next_state, if there is
            one): {"state": "page", "step": None}. Without a step column rows are taken to be complete and in order.
        horizon: most steps of an episode; left out, the longest episode has it.
        reward_values: values a reward can take; left out, those that occur.
        num_states: S; left out, one more than the largest, or the number of labels.
        num_actions: A, likewise.
        state_names: labels in the order of their indices; left out, those that occur, sorted.
        action_names: likewise.
        skip_bad: drop episodes with problems instead of refusing the log; ``log.notes`` says how many.
        rows_per_part: about how many rows are read, kept and worked on at a time.
        executor: who reads, a ``concurrent.futures.Executor`` (``process_pool(n)``) or a Dask client; left out, this
            process. Files have to be at the same paths for all workers.
        on_update: called with (parts read, parts in all).
    """
    names = Names(**_roles(columns))
    declared = _declared(horizon, reward_values, num_states, num_actions, state_names, action_names)
    drop = _as_truth("skip_bad", skip_bad)
    check_callback("on_update", on_update)
    workers = Workers(as_executor(executor))
    size = as_count("rows_per_part", rows_per_part)
    if isinstance(source, Log):
        refuse("source", "a Log", "something to read; a log that was read goes to fit() as it is")
    if is_dataset(source) or (isinstance(source, str) and source.startswith("minari:")):
        dataset = source.removeprefix("minari:") if isinstance(source, str) else source
        source = read_minari(dataset, horizon=declared.horizon, reward_values=declared.reward_values)
    if isinstance(source, Episodes):
        return _of_episodes(source, declared, workers)
    found = source_of(source, names, size, _labelled(names, declared), workers.folder)
    return _checked_log(found, _completed(declared, found), workers, drop, on_update)


def _declared(
    horizon: Any, reward_values: Any, num_states: Any, num_actions: Any, state_names: Any, action_names: Any
) -> Declared:
    """What somebody says about a log, checked."""
    states = None if num_states is None else as_count("num_states", num_states)
    actions = None if num_actions is None else as_count("num_actions", num_actions)
    return Declared(
        states,
        actions,
        None if horizon is None else as_horizon(horizon),
        None if reward_values is None else tuple(as_distinct_rewards(reward_values).tolist()),
        as_names("state_names", state_names, states),
        as_names("action_names", action_names, actions),
    )


def _labelled(names: Names, declared: Declared) -> frozenset[str]:
    """Columns whose labels were declared: text, even if all of it looks like numbers."""
    states = (names.state, names.next_state) if declared.state_names else ()
    actions = (names.action,) if declared.action_names else ()
    return frozenset(name for name in (*states, *actions) if name is not None)


def _roles(columns: Any) -> dict[str, Any]:
    if columns is None:
        return {}
    known = {field: getattr(Names, field) for field in Names.__dataclass_fields__}
    if not isinstance(columns, Mapping):
        refuse("columns", type(columns).__name__, "a mapping such as {'state': 'page', 'step': None}")
    for role, name in columns.items():
        if role not in known:
            refuse("columns", repr(role), f"one of {', '.join(known)}")
        if name is None and role not in ("step", "next_state"):
            refuse(f"columns[{role!r}]", None, "the name of a column")
        if name is not None and not isinstance(name, str):
            refuse(f"columns[{role!r}]", repr(name), "the name of a column, or None")
    taken: dict[str, str] = {}
    for role, name in {**known, **columns}.items():
        if name is not None and taken.setdefault(name, role) != role:
            refuse("columns", f"{name!r} for {taken[name]} and for {role}", "a column for each role")
    return dict(columns)


def _completed(declared: Declared, source: Source) -> Declared:
    """What the caller says; where nothing, what the file says about itself."""
    metadata = source.metadata
    if not metadata:
        return declared
    filled = {
        name: value if (value := getattr(declared, name)) not in (None, ()) else metadata.get(name, value)
        for name in Declared.__dataclass_fields__
    }
    return _declared(**filled)


def _of_episodes(episodes: Episodes, declared: Declared, workers: Workers) -> Log:
    """Episodes were checked where they were born; only a larger horizon, and names, can be declared."""
    for name in ("num_states", "num_actions"):
        if getattr(declared, name) not in (None, getattr(episodes, name)):
            refuse(name, getattr(declared, name), f"{getattr(episodes, name)}, as the episodes have it")
    values = tuple(episodes.reward_values.tolist())
    if declared.reward_values not in (None, values):
        refuse("reward_values", list(declared.reward_values or ()), f"{list(values)}, as the episodes have them")
    longest = int(episodes.lengths.max(initial=1))
    horizon = declared.horizon or episodes.horizon
    if horizon < longest:
        refuse("horizon", horizon, f"at least {longest}, the longest episode")
    sizes = episodes.num_states, episodes.num_actions, horizon, episodes.reward_values
    schema = LogSchema(*sizes, declared.state_names, declared.action_names)
    if not len(episodes):
        refuse("log", "no episodes", "at least one")
    size = max(1, arrow.BATCH // max(1, horizon))
    parts = [Compact.of(episodes[begin : begin + size], schema) for begin in range(0, len(episodes), size)]
    files = workers.files(part.rows for part in parts)
    rows = int(episodes.lengths.sum())
    return Log(schema, tuple(map(stored, parts, files)), workers, Notes(rows, len(episodes), len(episodes)))


def _checked_log(
    source: Source, declared: Declared, workers: Workers, skip_bad: bool, on_update: Callback | None
) -> Log:
    coding, limits = _agreed(source, declared, workers)
    checked = _checked(source.pieces, coding, limits, workers, on_update)
    pieces, checked, cut = _mended(source.pieces, checked, coding, limits, workers)
    problems, twice = _all_problems(pieces, checked, coding, workers)
    episodes, kept = sum(one.episodes for one in checked), sum(len(one.part) for one in checked)
    _check_row_count(source, checked)
    if problems and (not skip_bad or twice):
        _refuse_all(problems, episodes - kept, episodes, skip_bad)
    if not kept:
        found = f"{episodes} episodes, all of them bad" if episodes else "no episodes"
        refuse("log", found, "at least one good episode")
    horizon = declared.horizon or max(one.longest for one in checked)
    sizes = limits.num_states, limits.num_actions, horizon, np.asarray(limits.reward_values)
    labels = coding.state_names or declared.state_names, coding.action_names or declared.action_names
    schema = LogSchema(*sizes, *labels)
    notes = Notes(sum(one.rows for one in checked), episodes, kept, problems, cut, source.name)
    return Log(schema, tuple(one.part for one in checked if len(one.part)), workers, notes)


def _checked(
    pieces: Sequence[Any], coding: Coding, limits: Limits, workers: Workers, on_update: Callback | None = None
) -> list[Checked]:
    """What the pieces hold; a part in a file knows its piece, but for rows in memory, which would travel with it."""
    files = workers.files(piece.rows for piece in pieces)
    results = workers.map(check_piece, pieces, files, common=(coding, limits))
    return [
        replace(one, part=replace(one.part, origin=partial(good_episodes, piece, coding, limits)))
        if isinstance(one.part, StoredPart) and isinstance(piece, arrow.ParquetPiece)
        else one
        for one, piece in zip(reported(results, len(pieces), on_update), pieces, strict=True)
    ]


def _agreed(source: Source, declared: Declared, workers: Workers) -> tuple[Coding, Limits]:
    """How labels become numbers, and what a good row is: declared, or found in the rows."""
    names, texts = source.names, source.texts
    by_name = names.state in texts, names.action in texts
    states_open = not declared.state_names if by_name[0] else declared.num_states is None
    actions_open = not declared.action_names if by_name[1] else declared.num_actions is None
    undeclared = {
        "state": states_open,
        "next_state": states_open,
        "action": actions_open,
        "reward": declared.reward_values is None,
        "step": not source.metadata,
    }
    wanted = frozenset(role for role in names.roles if undeclared.get(role))
    found = FoundValues()
    for part in workers.map(find_values, source.pieces, common=(names, texts, wanted)) if wanted else ():
        found = found + part
    seen_states, seen_actions = found["state"] | found["next_state"], found["action"]
    states = declared.state_names or (tuple(sorted(seen_states)) if by_name[0] else ())
    actions = declared.action_names or (tuple(sorted(seen_actions)) if by_name[1] else ())
    if by_name[0]:
        _check_labels(names.state, "states", states, declared.num_states)
    if by_name[1]:
        _check_labels(names.action, "actions", actions, declared.num_actions)
    first_step = 1 if min(found["step"], default=0) == 1 else 0
    coding = Coding(names, texts, states if by_name[0] else (), actions if by_name[1] else (), first_step)
    limits = Limits(
        declared.num_states or len(states) or max(seen_states, default=0) + 1,
        declared.num_actions or len(actions) or max(seen_actions, default=0) + 1,
        declared.reward_values or _values(found["reward"]),
        declared.horizon or NO_LIMIT,
    )
    _check_limits(limits)
    return coding, limits


def _check_labels(column: str, role: str, labels: Sequence[str], count: int | None) -> None:
    if not labels:
        refuse(f"column {column!r}", "no label in any row", f"labels of {role}")
    if count not in (None, len(labels)):
        advice = f"{len(labels)}, the number of labels of {role}; {role[:-1]}_names declares more"
        refuse(f"num_{role}", count, advice)


def _as_truth(argument: str, value: object) -> bool:
    if not isinstance(value, bool | np.bool_):
        refuse(argument, repr(value), "True or False")
    return bool(value)


def _check_limits(limits: Limits) -> None:
    """Refuse sizes that cannot be meant before anything is allocated."""
    for name in ("num_states", "num_actions"):
        if getattr(limits, name) < 1:
            refuse(name.replace("num_", ""), "only negative or missing numbers", "whole numbers from 0, or text")
    LogSchema(limits.num_states, limits.num_actions, 1, np.asarray(limits.reward_values))


def _values(found: frozenset[float]) -> tuple[float, ...]:
    return (0.0, 1.0) if found <= {0.0, 1.0} else tuple(sorted(found if len(found) > 1 else found | {0.0}))


def _mended(
    pieces: Sequence[Any], checked: list[Checked], coding: Coding, limits: Limits, workers: Workers
) -> tuple[Sequence[Any], list[Checked], int]:
    """Read the pieces again whose border cuts an episode, this time across it; and how many borders do."""
    cuts = {
        i for i in range(len(pieces) - 1) if pieces[i].path == pieces[i + 1].path and _touch(checked[i], checked[i + 1])
    }
    if not cuts:
        return pieces, checked, 0
    heads = {i + 1 for i in cuts}
    again = sorted(cuts | heads)
    mended = list(pieces)
    for i in again:
        inner = i in heads and checked[i].episodes == 1  # wholly inside an episode that began before: that piece has it
        mended[i] = replace(pieces[i], head=i in heads, tail=i in cuts and not inner)
    for i, one in zip(again, _checked([mended[i] for i in again], coding, limits, workers), strict=True):
        checked[i] = one
    return mended, checked, len(cuts)


def _touch(one: Checked, following: Checked) -> bool:
    return bool(one.episodes and following.episodes and one.ids[-1] == following.ids[0])


def _all_problems(
    pieces: Sequence[Any], checked: Sequence[Checked], coding: Coding, workers: Workers
) -> tuple[tuple[Problem, ...], bool]:
    """The problems of all pieces by kind, and whether an episode is in two places (which cannot be skipped)."""
    merged: dict[int, Problem] = {}
    for one in checked:
        for kind, problem in one.problems.items():
            before = merged.get(kind)
            merged[kind] = replace(before, count=before.count + problem.count) if before else problem
    for path in dict.fromkeys(piece.path for piece in pieces):
        of_file = [i for i, piece in enumerate(pieces) if piece.path == path and checked[i].episodes]
        if not _in_order([checked[i] for i in of_file]):
            every = np.concatenate(list(workers.map(episode_ids, [pieces[i] for i in of_file], common=(coding,))))
            ids, times = np.unique(every[every != NO_EPISODE], return_counts=True)
            if (times > 1).any() and PROBLEM_KINDS not in merged:
                label = "one of them" if coding.names.episode in coding.texts else f"episode {ids[times > 1][0]}"
                first = f"{label} in {path}"
                merged[PROBLEM_KINDS] = Problem(WORDS[PROBLEM_KINDS], int((times > 1).sum()), first)
    return tuple(merged[kind] for kind in sorted(merged)), PROBLEM_KINDS in merged


def _in_order(of_file: Sequence[Checked]) -> bool:
    """Whether the ids increase all through a file, so that none can come twice."""
    inside = all(one.increasing for one in of_file)
    return inside and all(one.ids[-1] < two.ids[0] for one, two in pairwise(of_file))


def _check_row_count(source: Source, checked: Sequence[Checked]) -> None:
    """A file of our own says how many rows it has."""
    rows = source.metadata.get("rows") if source.metadata else None
    found = sum(one.rows for one in checked)
    if rows is not None and rows != found:
        refuse("path", f"{source.name} with {found} rows", f"{rows} rows, as the file itself says")


def _refuse_all(problems: Sequence[Problem], bad: int, episodes: int, skip_bad: bool) -> None:
    lines = "\n".join(f"  {problem}" for problem in problems)
    advice = "sort the rows by episode and step" if skip_bad else "skip_bad drops these episodes"
    raise InputError(
        f"log: found {len(problems)} kind{'s' * (len(problems) != 1)} of problems in {bad} of {episodes} episodes, "
        f"expected none ({advice}):\n{lines}"
    )
