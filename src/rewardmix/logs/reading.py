"""``read``: a log from wherever it is, checked row by row, ready to be counted and fitted."""

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

from rewardmix._core.checks import InputError, as_count, check_callback, quoted, refuse
from rewardmix.episodes import Episodes
from rewardmix.logs import arrow
from rewardmix.logs.checking import (
    BAD_REWARD,
    NO_EPISODE_ID,
    NO_LIMIT,
    PROBLEM_KINDS,
    UNSORTED,
    WORDS,
    Checked,
    Limits,
    check_piece,
    episode_ids,
    good_episodes,
)
from rewardmix.logs.coarsening import bins_for, folding_for
from rewardmix.logs.columns import Coding, Folding, Names
from rewardmix.logs.declaration import Declared, as_declared, as_names_and_pause, as_wishes, labelled
from rewardmix.logs.identities import Origin
from rewardmix.logs.left_out import LeftOut
from rewardmix.logs.log import Compact, Log, Notes, Problem, Repair, StoredPart, stored
from rewardmix.logs.log_schema import FoundValues, LogSchema, find_values
from rewardmix.logs.minari import is_dataset, read_minari
from rewardmix.logs.ordering import first_split
from rewardmix.logs.sessions import Room, cut_at_pauses, sorted_by_step, sorted_by_time
from rewardmix.logs.sources import IN_ORDER, Source, source_of
from rewardmix.logs.times import Pause
from rewardmix.logs.workers import Callback, Workers, as_executor, reported
from rewardmix.reward_scale import RewardScale

ROWS_PER_PART = 1 << 21
"""Enough to make starting a part cheap, few enough for many parts to be in memory."""


def read(
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
    bins: int | None = None,
    fold: int | None = None,
    skip_bad: bool | float = False,
    rows_per_part: int = ROWS_PER_PART,
    executor: Executor | None = None,
    on_update: Callback | None = None,
) -> Log:
    """Read and check a log.

    Args:
        source: a path or pattern of Parquet or CSV files, several paths, a directory of them, a pyarrow, pandas or
            polars table, a Minari dataset (open, or "minari:ID"), or ``Episodes``.
        columns: what columns are called, where not episode, step, state, action, reward (and next_state and
            propensity, if they are there): {"state": "page"}. Without a step column rows are taken to be complete and
            in order. "time" names a column of timestamps or numbers that orders the rows of an episode instead of
            steps; "visitor" one that is in the place of the episode if only visitors are known: their sessions end
            where they pause.
        horizon: most steps of an episode; left out, the longest episode has it.
        reward_values: values a reward can take, or the scale of a run (``model.reward_scale``), which puts rewards into
            the bins of that run; left out, those that occur.
        num_states: S; left out, one more than the largest, or the number of labels.
        num_actions: A, likewise.
        state_names: labels in the order of their indices; left out, those that occur, sorted.
        action_names: likewise.
        session_gap: the longest pause within a session of a visitor: seconds, or text such as "30m".
        bins: rewards of more different values than this are put into so many bins of about equal counts, and count as
            the mean of their bin.
        fold: states that were seen fewer times than this count as one, called "other".
        skip_bad: drop episodes with problems instead of refusing the log: True up to a tenth of them, a number up to
            that share; ``log.notes.left_out`` says how many, and what share of the reward they hold.
        rows_per_part: about how many rows are read, kept and worked on at a time.
        executor: who reads, a ``concurrent.futures.Executor`` (``process_pool(n)``) or a Dask client; left out, this
            process. Files have to be at the same paths for all workers.
        on_update: called with (parts read, parts in all).
    """
    names, pause = as_names_and_pause(columns, session_gap)
    wishes = as_wishes(pause, bins, fold, skip_bad)
    declared = as_declared(horizon, reward_values, num_states, num_actions, state_names, action_names)
    check_callback("on_update", on_update)
    workers = Workers(as_executor(executor))
    room = Room(as_count("rows_per_part", rows_per_part), workers.folder)
    if isinstance(source, Log):
        refuse("source", "a Log", "something to read; a log that was read goes to fit() as it is")
    if is_dataset(source) or (isinstance(source, str) and source.startswith("minari:")):
        dataset = source.removeprefix("minari:") if isinstance(source, str) else source
        source = read_minari(dataset, horizon=declared.horizon, reward_values=declared.reward_values)
    wishes.check(declared, table=not isinstance(source, Episodes))
    if isinstance(source, Episodes):
        return _of_episodes(source, declared, workers)
    found = source_of(source, names, room.rows, labelled(names, declared), workers.folder)
    found, repairs = _arranged(found, names, pause, room)
    declared = wishes.of(declared.completed(found.metadata))
    binned, done = bins_for(found, wishes.bins, workers)
    folding, folded = folding_for(found, wishes.fold, workers)
    prepared = Prepared(found, declared.coarsened(binned, folding), folding, (*repairs, *done, *folded))
    return _checked_log(prepared, room, workers, wishes.most_left_out, on_update)


def as_log(log: Any, executor: Executor | None, reading: Mapping[str, Any]) -> Log:
    """A log as it is, moved to an executor if there is one; anything else is read."""
    if not isinstance(log, Log):
        return read(log, executor=executor, **reading)
    if reading:
        refuse("log", f"{next(iter(reading))!r} for a log that was read already", "it as an argument of read()")
    return log if executor is None else log.moved(as_executor(executor))


@dataclass(frozen=True, eq=False)
class Prepared:
    """A source that is ready to be checked, what is known about it, and what was done to it."""

    source: Source
    declared: Declared
    folding: Folding | None
    repairs: tuple[Repair, ...]


def _arranged(source: Source, asked: Names, pause: Pause | None, room: Room) -> tuple[Source, tuple[Repair, ...]]:
    """Rows in the order of their times, if there are times; and what was done."""
    if pause is not None:
        return cut_at_pauses(source, pause, room)
    if source.names.time is not None:
        return sorted_by_time(source, room)
    if source.names.step is None and asked.step is not None:
        rows = sum(piece.rows for piece in source.pieces)
        text = f"There is no column {asked.step!r}: the {rows} rows were taken to be complete and in order."
        return source, (Repair("rows without a step", rows, text),)
    return source, ()


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
    parts = [Compact.of(episodes[begin : begin + size]) for begin in range(0, len(episodes), size)]
    files = workers.files(part.rows for part in parts)
    rows = int(episodes.lengths.sum())
    counts = np.bincount(episodes.outcomes[episodes.present], minlength=len(values))
    paid = sum(count * abs(value) for count, value in zip(counts.tolist(), values, strict=True))
    lost = LeftOut(0, len(episodes), rows=rows, paid=paid)
    notes = Notes(rows, len(episodes), len(episodes), in_order=True, lost=lost)
    return Log(schema, tuple(map(stored, parts, files)), workers, notes)


def _checked_log(
    prepared: Prepared, room: Room, workers: Workers, most_left_out: float | None, on_update: Callback | None
) -> Log:
    source, declared, repairs = prepared.source, prepared.declared, prepared.repairs
    coding, limits = _agreed(prepared, workers)
    checked = _checked(source.pieces, coding, limits, workers, on_update)
    pieces, checked, cut = _mended(source.pieces, checked, coding, limits, workers)
    problems = _all_problems(pieces, checked, coding, workers)
    if problems.keys() & {UNSORTED, PROBLEM_KINDS}:
        if source.names.step is None:
            _refuse_split(source)
        source, done = sorted_by_step(source, room)
        pieces, repairs = source.pieces, (*repairs, *done)
        checked = _checked(pieces, coding, limits, workers)
        problems = _all_problems(pieces, checked, coding, workers)
    listed = tuple(problems[kind] for kind in sorted(problems))
    episodes, kept = sum(one.episodes for one in checked), sum(len(one.part) for one in checked)
    _check_row_count(source, checked)
    lost = _left_out(checked, problems, episodes - kept)
    if problems and (most_left_out is None or lost.share > most_left_out):
        _refuse_all(listed, lost, most_left_out)
    if not kept:
        found = f"{episodes} episodes, all of them bad" if episodes else "no episodes"
        refuse("log", found, "at least one good episode")
    horizon = declared.horizon or max(one.longest for one in checked)
    sizes = limits.num_states, limits.num_actions, horizon, np.asarray(limits.reward_values)
    labels = coding.state_names or declared.state_names, coding.action_names or declared.action_names
    cuts = None if declared.reward_scale is None else declared.reward_scale.cuts
    schema = LogSchema(*sizes, *labels, cuts)
    in_order = source.in_order or source.metadata.get(IN_ORDER) is True
    notes = Notes(lost.rows, episodes, kept, listed, cut, source.name, repairs, source.span, in_order, lost)
    good = [(one.part, Origin(piece, coding, limits, source.about)) for one, piece in zip(checked, pieces, strict=True)
            if len(one.part)]  # fmt: skip
    return Log(schema, tuple(part for part, _ in good), workers, notes, tuple(origin for _, origin in good))


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


def _agreed(prepared: Prepared, workers: Workers) -> tuple[Coding, Limits]:
    """How labels become numbers, and what a good row is: declared, or found in the rows."""
    source, declared = prepared.source, prepared.declared
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
    coding = replace(coding, folding=prepared.folding)
    limits = Limits(
        declared.num_states or len(states) or max(seen_states, default=0) + 1,
        declared.num_actions or len(actions) or max(seen_actions, default=0) + 1,
        declared.reward_values or _values(found["reward"]),
        declared.horizon or NO_LIMIT,
        declared.reward_scale,
    )
    _check_limits(limits)
    return coding, limits


def _check_labels(column: str, role: str, labels: Sequence[str], count: int | None) -> None:
    if not labels:
        refuse(f"column {column!r}", "no label in any row", f"labels of {role}")
    if count not in (None, len(labels)):
        advice = f"{len(labels)}, the number of labels of {role}; {role[:-1]}_names declares more"
        refuse(f"num_{role}", count, advice)


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
) -> dict[int, Problem]:
    """The problems of all pieces by kind, and that an episode is in two places."""
    merged: dict[int, Problem] = {}
    for one in checked:
        for kind, problem in one.problems.items():
            before = merged.get(kind)
            merged[kind] = replace(before, count=before.count + problem.count) if before else problem
    for path in dict.fromkeys(piece.path for piece in pieces):
        of_file = [i for i, piece in enumerate(pieces) if piece.path == path and checked[i].episodes]
        if not _in_order([checked[i] for i in of_file]):
            every = np.concatenate(list(workers.map(episode_ids, [pieces[i] for i in of_file], common=(coding,))))
            ids, times = np.unique(every, return_counts=True)
            if (times > 1).any() and PROBLEM_KINDS not in merged:
                label = "one of them" if coding.names.episode in coding.texts else f"episode {ids[times > 1][0]}"
                first = f"{label} in {path}"
                merged[PROBLEM_KINDS] = Problem(WORDS[PROBLEM_KINDS], int((times > 1).sum()), first)
    return merged


def _refuse_split(source: Source) -> None:
    """Refuse an episode whose rows have others between them: nothing says which come first, or if all are of one."""
    column = source.names.episode
    for path in dict.fromkeys(piece.path for piece in source.pieces):
        pieces = [piece for piece in source.pieces if piece.path == path]

        def tables(own: Sequence[Any] = pieces) -> Iterator[Any]:
            for piece in own:
                yield from piece.batches([column], source.texts)

        split = first_split(tables, column)
        if split is not None:
            episode, one, two = split
            refuse(
                "log",
                f"episode {quoted(episode)} in two places of {pieces[0].name}, from row {one} and again from row {two} "
                "(the first row is 1), and nothing that says in which order its rows come",
                "the rows of an episode together and in their order, or a column that orders them: columns={'step': "
                "...}, or {'time': ...} (numbers of the rows are times too); leave out a second copy of them",
            )


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


def _left_out(checked: Sequence[Checked], problems: Mapping[int, Problem], bad: int) -> LeftOut:
    """How much of the log the bad episodes are."""
    paid, lost = sum((one.rewards for one in checked), start=np.zeros(2)).tolist()
    share = lost / (paid + lost) if 0.0 < paid + lost < math.inf else math.nan
    nameless, missing = (problems[kind].count if kind in problems else 0 for kind in (NO_EPISODE_ID, BAD_REWARD))
    rows = sum(one.rows for one in checked)
    return LeftOut(bad, sum(one.episodes for one in checked), nameless, rows, share, missing, paid)


def _refuse_all(problems: Sequence[Problem], lost: LeftOut, most: float | None) -> None:
    lines = "\n".join(f"  {problem}" for problem in problems)
    expected = "none" if most is None else f"at most {100 * most:g} % of the episodes"
    raise InputError(
        f"log: found {len(problems)} kind{'s' * (len(problems) != 1)} of problems in {lost.sessions} of "
        f"{lost.all_sessions} episodes, expected {expected} ({lost.advice}):\n{lines}"
    )
