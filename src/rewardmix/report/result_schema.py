"""What a summary has to look like before a page is made of it: ``result.json`` is a file that anybody can edit.

Each check takes the name of a place and what stands there, and refuses the first thing that is not as written by
``summarise``. Fields that are not named here are left alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from rewardmix._core.checks import quoted, refuse

Check = Callable[[str, Any], None]

RESULT_SCHEMA = "rewardmix-result/1"

_DEEPEST = 20
"""Levels of lists and objects in one another; a summary has fewer."""

_LARGEST = 1e100
"""Numbers beyond it are nobody's result, and cannot be drawn."""


def check_summary(summary: Any) -> None:
    """Refuse a summary of which no page can be made, naming the first field that is missing or of the wrong kind."""
    if not isinstance(summary, Mapping):
        refuse("summary", _found(summary), "an object")
    if summary.get("schema") != RESULT_SCHEMA:
        refuse("summary", f"schema {summary.get('schema')!r}", f"{RESULT_SCHEMA!r}, as written by rewardmix learn")
    check_depth(summary)
    _fields(world=_fields(**_WORLD))("summary", summary)
    world = summary["world"]
    for name, size in (("state_names", "states"), ("action_names", "actions"), ("context_names", "contexts")):
        _list(_text, world[size], world[size])(f"summary.world.{name}", world[name])
    _list(_number, world["contexts"], world["contexts"])("summary.world.weights", world["weights"])
    _fields(**_parts(world))("summary", summary)
    _check_curve(summary["beliefs"])
    if summary["answer"]["gain"] is not None:
        _number("summary.answer.fixed", summary["answer"]["fixed"])
    for i, row in enumerate(summary["rewards"]["rows"]):
        if (row["lower"] is None) != (row["upper"] is None):
            refuse(f"summary.rewards.rows[{i}]", "one of lower and upper", "both or none")
    coverage = summary["coverage"]
    if coverage is not None and -(-world["states"] * world["actions"] // coverage["block"]) < len(coverage["cells"]):
        refuse("summary.coverage.cells", f"{len(coverage['cells'])} rows", "no more than there are state-actions")


def check_depth(data: Any) -> None:
    """Refuse lists and objects that are nested deeper than any summary is."""
    level, depth = [data], 0
    while level:
        if depth > _DEEPEST:
            refuse("summary", f"more than {_DEEPEST} levels of lists and objects", "fewer, as written by rewardmix")
        inner = [part for part in level if isinstance(part, Mapping | list | tuple)]
        level = [value for part in inner for value in (part.values() if isinstance(part, Mapping) else part)]
        depth += 1


def _found(value: Any) -> str:
    return f"{quoted(value)} ({type(value).__name__})"


def _text(where: str, value: Any) -> None:
    if not isinstance(value, str):
        refuse(where, _found(value), "a text")


def _number(where: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        refuse(where, _found(value), "a finite number")


def _count(where: str, value: Any, least: int = 0, most: float = math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= min(most, _LARGEST):
        refuse(
            where,
            _found(value),
            f"a whole number of at least {least}" + (f" and at most {most}" if most < math.inf else ""),
        )


def _anything(where: str, value: Any) -> None:
    """Everything will do; but it has to be there."""


def _maybe(check: Check) -> Check:
    return lambda where, value: None if value is None else check(where, value)


def _within(least: int, most: float = math.inf) -> Check:
    return lambda where, value: _count(where, value, least, most)


def _one_of(*known: str) -> Check:
    def check(where: str, value: Any) -> None:
        if value not in known:
            refuse(where, _found(value), f"one of {', '.join(known)}")

    return check


def _list(entry: Check, least: int = 0, most: float = math.inf) -> Check:
    def check(where: str, value: Any) -> None:
        if not isinstance(value, list | tuple):
            refuse(where, _found(value), "a list")
        if not least <= len(value) <= most:
            wanted = f"{least}" if least == most else f"at least {least}"
            refuse(where, f"{len(value)} entries", wanted)
        for i, part in enumerate(value):
            entry(f"{where}[{i}]", part)

    return check


def _tuple(*entries: Check) -> Check:
    def check(where: str, value: Any) -> None:
        _list(_anything, len(entries), len(entries))(where, value)
        for i, (entry, part) in enumerate(zip(entries, value, strict=True)):
            entry(f"{where}[{i}]", part)

    return check


def _fields(**fields: Check) -> Check:
    """An object with these fields; one whose name ends in an underscore may be missing."""

    def check(where: str, value: Any) -> None:
        if not isinstance(value, Mapping):
            refuse(where, _found(value), "an object")
        for name, inner in fields.items():
            key = name.rstrip("_")
            if key in value:
                inner(f"{where}.{key}", value[key])
            elif key == name:
                refuse(f"{where}.{key}", "nothing", "this field, as written by rewardmix learn")

    return check


def _each(check: Check, names: str) -> dict[str, Check]:
    """The same check for several fields."""
    return dict.fromkeys(names.split(), check)


_WORLD: dict[str, Check] = {
    **_each(_within(1), "states actions horizon contexts"),
    **_each(_anything, "state_names action_names context_names weights"),
    **_each(_maybe(_within(0)), "episodes refined_"),
    "reward_values": _list(_number, 1),
}

_ANSWER: dict[str, Check] = {
    "value": _number,
    "measured": _one_of("exact", "played", "logged", "planned"),
    **_each(_maybe(_number), "lower upper episodes_ regret regret_upper_ regret_least_ regret_gap_ share_ fixed gain"),
    **_each(_maybe(_text), "evidence_ unfounded_ regret_measured gain_measured_"),
}

_LIKING: dict[str, Check] = {"label": _text, **_each(_number, "reward others")}

_TYPE: dict[str, Check] = {
    **_each(_text, "name sentence"),
    "share": _number,
    **_each(_list(_fields(**_LIKING)), "likes dislikes"),
    "favourite": _fields(**_LIKING),
}

_RECOGNITION: dict[str, Check] = {
    "certainty": _list(_number, 1),
    "steps": _maybe(_within(0)),
    **_each(_number, "after spread"),
    **_each(_text, "label sentence"),
}

_COMPARED: dict[str, Check] = {
    "name": _text,
    "role_": _maybe(_text),
    **_each(_maybe(_number), "value lower_ upper_"),
}

_EARNED: dict[str, Check] = {
    "total": _number,
    "switches": _list(_within(0)),
    "points": _list(_tuple(_within(1), _number)),
    "best": _maybe(_number),
    "regret": _maybe(_number),
    "shares": _list(_tuple(_within(0), _list(_number))),
}

_SECTION: dict[str, Check] = {
    "title": _text,
    **_each(_maybe(_list(_text)), "paragraphs_ columns_"),
    "rows_": _maybe(_list(_list(_anything))),
}


def _scalar(where: str, value: Any) -> None:
    if value is not None and not isinstance(value, bool | str):
        _number(where, value)


def _moment(where: str, value: Any) -> None:
    _text(where, value)
    if not re.fullmatch(r"-?\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d", value, re.ASCII):
        refuse(where, _found(value), "a time such as 2026-11-16T09:30:00")


def _agreement(where: str, value: Any) -> None:
    _fields()(where, value)
    for name, verdict in value.items():
        _scalar(f"{where}.{name}", verdict)


_NOTES: dict[str, Check] = {
    "name_": _maybe(_text),
    **_each(_maybe(_number), "rows_ kept_"),
    "span_": _maybe(_tuple(_moment, _moment)),
}

_CERTIFICATE: dict[str, Check] = {
    **_each(_maybe(_text), "setting_ kappa_weights_"),
    **_each(_maybe(_list(_anything)), "proved_ not_proved_"),
    **_each(_maybe(_number), "uncertainty_ kappa_"),
    "coverage_": _maybe(_fields(**_each(_maybe(_number), "seen_ never_ impossible_"))),
    "agreement_": _maybe(_agreement),
    "bootstrap_regret_": _maybe(_fields(**_each(_maybe(_number), "mean_ upper_ gap_"))),
    "validation_": _maybe(_fields(**_each(_maybe(_number), "value_ lower_ upper_ episodes_"))),
}


def _parts(world: Mapping[str, Any]) -> dict[str, Check]:
    """The fields of a summary about a world of this size."""
    contexts = world["contexts"]
    state, action = _within(0, world["states"] - 1), _within(0, world["actions"] - 1)
    for_contexts = _list(_number, contexts, contexts)
    limits = _maybe(_list(_maybe(_number), contexts, contexts))
    reward = _fields(
        state=state, action=action, values=for_contexts, samples=_maybe(_number),
        lower=limits, upper=limits, truth=_maybe(for_contexts),
    )  # fmt: skip
    return {
        "title": _text,
        "rewardmix": _text,
        "command": _text,
        "warnings_": _list(_text),
        "seed": _scalar,
        "planned": _tuple(_number, _number),
        "record": _fields(fit_=_maybe(_fields(notes_=_maybe(_fields(**_NOTES))))),
        "made_": _fields(**_each(_text, "date"), versions=_fields()),
        "verdict_": _fields(**_each(_text, "what sentence advice")),
        "types_": _list(_fields(**_TYPE), contexts, contexts),
        "recognition_": _fields(**_RECOGNITION),
        "answer": _fields(**_ANSWER),
        "comparison": _fields(measured_=_maybe(_text), rows_=_list(_fields(**_COMPARED))),
        "uncertainty": _list(_tuple(_number, _maybe(_number))),
        "coverage": _maybe(_fields(**_COVERAGE)),
        "rewards": _fields(
            kind=_one_of("probability", "expected"), larger=_number, range=_tuple(_number, _number),
            rows=_list(reward), left_out=_within(0),
        ),
        "beliefs": _beliefs(state, action, _within(0, contexts - 1)),
        "unanswered": _list(_text),
        "certificate": _fields(**_CERTIFICATE),
        "earned_": _maybe(_fields(**_EARNED)),
        "sections": _list(_fields(**_SECTION)),
        "session": _maybe(_fields()),
        "session_note": _text,
    }  # fmt: skip


_COVERAGE: dict[str, Check] = {
    **_each(_within(0), "seen never impossible"),
    "block": _within(1),
    "cells": _list(_list(_within(-1), 1), 1),
}


def _beliefs(state: Check, action: Check, context: Check) -> Check:
    """What is shown over beliefs: curve and maps between two contexts, rays towards each of more."""
    runs = _list(_tuple(_number, _number, action))
    curve = _fields(belief=_list(_number), value=_list(_number), runs=runs)
    row = _fields(step=_within(0), runs=runs)
    two = _fields(state=state, step=_within(0), curve=curve, maps=_list(_fields(state=state, rows=_list(row, 1))))
    last = _list(_tuple(_number, _number, action), 1)
    ray = _fields(context=context, value=_list(_number, 1), runs=last)
    more = _list(_fields(state=state, rays=_list(ray, 1)))
    rays = _fields(state=state, step=_within(0), belief=_list(_number), rays=_list(ray, 1), more_=more)

    def check(where: str, value: Any) -> None:
        _fields(kind=_one_of("two", "rays"))(where, value)
        (two if value["kind"] == "two" else rays)(where, value)

    return check


def _check_curve(beliefs: Mapping[str, Any]) -> None:
    """Refuse values that are not as many as the beliefs they belong to."""
    if beliefs["kind"] == "two":
        curves = {"curve.value": (beliefs["curve"]["belief"], beliefs["curve"]["value"])}
    else:
        every = [*beliefs["rays"], *(ray for part in beliefs.get("more", ()) for ray in part["rays"])]
        curves = {f"rays[{i}].value": (beliefs["belief"], ray["value"]) for i, ray in enumerate(every)}
    for name, (axis, values) in curves.items():
        if len(axis) != len(values):
            refuse(f"summary.beliefs.{name}", f"{len(values)} values", f"{len(axis)}, as many as beliefs")
