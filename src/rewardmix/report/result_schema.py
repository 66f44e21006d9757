"""Check a summary before a page is made of it, because ``result.json`` is a file that users can edit.

Each check takes the path of a field and its value, and raises ``InputError`` at the first value that differs from what
``build_summary`` writes. Unknown fields are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from rewardmix._core.checks import quote_value, raise_input_error

Check = Callable[[str, Any], None]

RESULT_SCHEMA = "rewardmix-result/2"

_MAX_DEPTH = 20
"""Largest depth of nested lists and objects; summaries have less."""

_MAX_NUMBER = 1e100
"""Largest absolute value of a number; larger ones overflow when figures are scaled."""


def check_summary(summary: Any) -> None:
    """Check that a page can be made of a summary; raise ``InputError`` with the first missing or wrong field."""
    if not isinstance(summary, Mapping):
        raise_input_error("summary", _describe_value(summary), "an object")
    if summary.get("schema") != RESULT_SCHEMA:
        raise_input_error(
            "summary", f"schema {summary.get('schema')!r}", f"{RESULT_SCHEMA!r}; repeat the run with this version"
        )
    # Depth comes first: the checks below and the JSON writer recurse, and a deeply nested file would exhaust the stack.
    check_depth(summary)
    # Sizes come before everything else, since all other lengths and index ranges are checked against them.
    _fields(environment=_fields(**_ENVIRONMENT))("summary", summary)
    env = summary["environment"]
    for name, size in (("state_names", "num_states"), ("action_names", "num_actions"), ("type_names", "num_types")):
        _list(_text, env[size], env[size])(f"summary.environment.{name}", env[name])
    _list(_number, env["num_types"], env["num_types"])("summary.environment.weights", env["weights"])
    _fields(**_summary_fields(env))("summary", summary)
    _check_curve(summary["beliefs"])
    if summary["headline"]["adaptivity_gain"] is not None:
        _number("summary.headline.markov", summary["headline"]["markov"])
    # Figures draw an interval from its two ends, so a row with one end only cannot be drawn.
    for i, row in enumerate(summary["rewards"]["rows"]):
        if (row["lower"] is None) != (row["upper"] is None):
            raise_input_error(f"summary.rewards.rows[{i}]", "one of lower and upper", "both or none")
    coverage = summary["coverage"]
    # Ceiling division: the heat map has one row for each block of state-actions, the last block may be smaller.
    if coverage is not None and -(-env["num_states"] * env["num_actions"] // coverage["block"]) < len(
        coverage["cells"]
    ):
        raise_input_error(
            "summary.coverage.cells", f"{len(coverage['cells'])} rows", "at most one per block of state-actions"
        )


def check_depth(data: Any) -> None:
    """Check that lists and objects are nested at most ``_MAX_DEPTH`` levels deep."""
    # Breadth first, level by level, without recursion: a hostile file must not exhaust the Python stack.
    level, depth = [data], 0
    while level:
        if depth > _MAX_DEPTH:
            raise_input_error("summary", f"more than {_MAX_DEPTH} levels of lists and objects", "at most that many")
        inner = [child for child in level if isinstance(child, Mapping | list | tuple)]
        level = [value for child in inner for value in (child.values() if isinstance(child, Mapping) else child)]
        depth += 1


def _describe_value(value: Any) -> str:
    """Format a value and its type for an error message."""
    return f"{quote_value(value)} ({type(value).__name__})"


def _text(path: str, value: Any) -> None:
    """Check that a value is a string."""
    if not isinstance(value, str):
        raise_input_error(path, _describe_value(value), "a string")


def _number(path: str, value: Any) -> None:
    """Check that a value is a finite number."""
    # ``bool`` is a subclass of ``int``. The comparison is negated because it is false for NaN, too.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MAX_NUMBER:
        raise_input_error(path, _describe_value(value), "a finite number")


def _count(path: str, value: Any, minimum: int = 0, maximum: float = math.inf) -> None:
    """Check that a value is an integer between two limits."""
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= min(maximum, _MAX_NUMBER):
        raise_input_error(
            path,
            _describe_value(value),
            f"an integer of at least {minimum}" + (f" and at most {maximum}" if maximum < math.inf else ""),
        )


def _check_present(path: str, value: Any) -> None:
    """Accept any value; ``_fields`` still requires that it is present."""


def _optional(check: Check) -> Check:
    """Return a check that accepts ``None`` in addition."""
    return lambda path, value: None if value is None else check(path, value)


def _int_between(minimum: int, maximum: float = math.inf) -> Check:
    """Return a check for integers between two limits."""
    return lambda path, value: _count(path, value, minimum, maximum)


def _one_of(*choices: str) -> Check:
    """Return a check for one of several strings."""

    def check(path: str, value: Any) -> None:
        """Check that a value is one of the choices."""
        if value not in choices:
            raise_input_error(path, _describe_value(value), f"one of {', '.join(choices)}")

    return check


def _list(entry: Check, min_length: int = 0, max_length: float = math.inf) -> Check:
    """Return a check for lists with a limited length whose items all pass a check."""

    def check(path: str, value: Any) -> None:
        """Check the length and each item of a list."""
        if not isinstance(value, list | tuple):
            raise_input_error(path, _describe_value(value), "a list")
        if not min_length <= len(value) <= max_length:
            expected = f"{min_length}" if min_length == max_length else f"at least {min_length}"
            raise_input_error(path, f"{len(value)} entries", expected)
        for i, item in enumerate(value):
            entry(f"{path}[{i}]", item)

    return check


def _tuple(*entries: Check) -> Check:
    """Return a check for lists of a fixed length with one check for each position."""

    def check(path: str, value: Any) -> None:
        """Check the length and the item at each position."""
        _list(_check_present, len(entries), len(entries))(path, value)
        for i, (entry, item) in enumerate(zip(entries, value, strict=True)):
            entry(f"{path}[{i}]", item)

    return check


def _fields(**fields: Check) -> Check:
    """Return a check for objects with these fields; a name that ends in an underscore is optional."""

    def check(path: str, value: Any) -> None:
        """Check that a value is an object and has all required fields."""
        if not isinstance(value, Mapping):
            raise_input_error(path, _describe_value(value), "an object")
        for name, inner in fields.items():
            key = name.rstrip("_")
            if key in value:
                inner(f"{path}.{key}", value[key])
            elif key == name:
                raise_input_error(f"{path}.{key}", "nothing", "this field, as written by rewardmix learn")

    return check


def _each(check: Check, names: str) -> dict[str, Check]:
    """Return one check for each of several field names, separated by spaces."""
    return dict.fromkeys(names.split(), check)


_ENVIRONMENT: dict[str, Check] = {
    **_each(_int_between(1), "num_states num_actions horizon num_types"),
    **_each(_check_present, "state_names action_names type_names weights"),
    **_each(_optional(_int_between(0)), "num_episodes num_refinement_episodes_"),
    "reward_values": _list(_number, 1),
}

_HEADLINE: dict[str, Check] = {
    "value": _number,
    "evidence_key": _one_of("exact", "played", "logged", "planned"),
    **_each(_optional(_number), "lower upper num_episodes_ regret regret_upper_ regret_lower_ planning_gap_"),
    **_each(_optional(_number), "normalized_score_ markov adaptivity_gain"),
    **_each(_optional(_text), "evidence_ unfounded_ regret_measured adaptivity_gain_evidence_"),
}

_PREFERENCE: dict[str, Check] = {"label": _text, **_each(_number, "reward reward_other_types")}

_TYPE: dict[str, Check] = {
    **_each(_text, "name text"),
    "weight": _number,
    **_each(_list(_fields(**_PREFERENCE)), "preferred avoided"),
    "favorite": _fields(**_PREFERENCE),
}

_IDENTIFICATION: dict[str, Check] = {
    "certainty": _list(_number, 1),
    "steps_to_identify": _optional(_int_between(0)),
    **_each(_number, "certainty_after return_std"),
    **_each(_text, "label text"),
}

_COMPARISON_ROW: dict[str, Check] = {
    "name": _text,
    "role_": _optional(_text),
    **_each(_optional(_number), "value lower_ upper_"),
}

_ONLINE: dict[str, Check] = {
    "total_reward": _number,
    "policy_changes": _list(_int_between(0)),
    "returns": _list(_tuple(_int_between(1), _number)),
    "optimal_value": _optional(_number),
    "cumulative_regret": _optional(_number),
    "type_weights": _list(_tuple(_int_between(0), _list(_number))),
}

_SECTION: dict[str, Check] = {
    "title": _text,
    **_each(_optional(_list(_text)), "paragraphs_ columns_"),
    "rows_": _optional(_list(_list(_check_present))),
}


def _scalar(path: str, value: Any) -> None:
    """Check that a value is ``None``, a boolean, a string or a finite number."""
    if value is not None and not isinstance(value, bool | str):
        _number(path, value)


def _check_timestamp(path: str, value: Any) -> None:
    """Check that a value is an ISO 8601 date and time without a zone."""
    _text(path, value)
    # Years of NumPy's datetime64 may have more digits and a sign, so ``datetime.fromisoformat`` would be too strict.
    if not re.fullmatch(r"-?\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d", value, re.ASCII):
        raise_input_error(path, _describe_value(value), "a time such as 2026-11-16T09:30:00")


def _statement_checks(path: str, value: Any) -> None:
    """Check the object of statement checks: each value is a scalar."""
    _fields()(path, value)
    for name, outcome in value.items():
        _scalar(f"{path}.{name}", outcome)


_NOTES: dict[str, Check] = {
    "source_name_": _optional(_text),
    **_each(_optional(_number), "num_rows_ num_kept_"),
    "time_span_": _optional(_tuple(_check_timestamp, _check_timestamp)),
}

_CERTIFICATE: dict[str, Check] = {
    **_each(_optional(_text), "bonus_ weights_source_"),
    **_each(_optional(_list(_check_present)), "proved_ unproved_"),
    **_each(_optional(_number), "uncertainty_ radius_inflation_"),
    "coverage_": _optional(_fields(**_each(_optional(_number), "num_observed_ num_missing_ num_impossible_"))),
    "statement_checks_": _optional(_statement_checks),
    "bootstrap_regret_": _optional(_fields(**_each(_optional(_number), "mean_ upper_ planning_gap_"))),
    "validation_": _optional(_fields(**_each(_optional(_number), "value_ lower_ upper_ num_episodes_"))),
}


def _summary_fields(env: Mapping[str, Any]) -> dict[str, Check]:
    """Return the checks of all fields of a summary for an environment of these sizes."""
    num_types = env["num_types"]
    state, action = _int_between(0, env["num_states"] - 1), _int_between(0, env["num_actions"] - 1)
    for_types = _list(_number, num_types, num_types)
    limits = _optional(_list(_optional(_number), num_types, num_types))
    reward = _fields(
        state=state, action=action, values=for_types, samples=_optional(_number),
        lower=limits, upper=limits, true_values=_optional(for_types),
    )  # fmt: skip
    return {
        "title": _text,
        "rewardmix": _text,
        "command": _text,
        "warnings_": _list(_text),
        "seed": _scalar,
        "planned_value_bounds": _tuple(_number, _number),
        "metadata": _fields(fit_=_optional(_fields(notes_=_optional(_fields(**_NOTES))))),
        "made_": _fields(**_each(_text, "date"), versions=_fields()),
        "verdict_": _fields(**_each(_text, "key text advice")),
        "types_": _list(_fields(**_TYPE), num_types, num_types),
        "identification_": _fields(**_IDENTIFICATION),
        "headline": _fields(**_HEADLINE),
        "comparison": _fields(evidence_key_=_optional(_text), rows_=_list(_fields(**_COMPARISON_ROW))),
        "uncertainty": _list(_tuple(_number, _optional(_number))),
        "coverage": _optional(_fields(**_COVERAGE)),
        "rewards": _fields(
            kind=_one_of("probability", "expected"), larger_value=_number, range=_tuple(_number, _number),
            rows=_list(reward), num_omitted=_int_between(0),
        ),
        "beliefs": _beliefs(state, action, _int_between(0, num_types - 1)),
        "open_questions": _list(_text),
        "certificate": _fields(**_CERTIFICATE),
        "online_": _optional(_fields(**_ONLINE)),
        "sections": _list(_fields(**_SECTION)),
        "policy": _optional(_fields()),
        "policy_note": _text,
    }  # fmt: skip


_COVERAGE: dict[str, Check] = {
    **_each(_int_between(0), "num_observed num_missing num_impossible"),
    "block": _int_between(1),
    "cells": _list(_list(_int_between(-1), 1), 1),
}


def _beliefs(state: Check, action: Check, type_index: Check) -> Check:
    """Return a check of the belief view: curve and maps for two types, rays towards each type for more."""
    intervals = _list(_tuple(_number, _number, action))
    curve = _fields(belief=_list(_number), value=_list(_number), intervals=intervals)
    row = _fields(step=_int_between(0), intervals=intervals)
    two = _fields(state=state, step=_int_between(0), curve=curve, maps=_list(_fields(state=state, rows=_list(row, 1))))
    last_intervals = _list(_tuple(_number, _number, action), 1)
    ray = _fields(type=type_index, value=_list(_number, 1), intervals=last_intervals)
    more = _list(_fields(state=state, rays=_list(ray, 1)))
    rays = _fields(state=state, step=_int_between(0), belief=_list(_number), rays=_list(ray, 1), more_=more)

    def check(path: str, value: Any) -> None:
        """Check the belief view by its kind."""
        # The kind is checked first, because it selects which fields are required.
        _fields(kind=_one_of("two", "rays"))(path, value)
        (two if value["kind"] == "two" else rays)(path, value)

    return check


def _check_curve(beliefs: Mapping[str, Any]) -> None:
    """Check that each curve has as many values as beliefs."""
    if beliefs["kind"] == "two":
        curves = {"curve.value": (beliefs["curve"]["belief"], beliefs["curve"]["value"])}
    else:
        rays = [*beliefs["rays"], *(ray for view in beliefs.get("more", ()) for ray in view["rays"])]
        curves = {f"rays[{i}].value": (beliefs["belief"], ray["value"]) for i, ray in enumerate(rays)}
    for name, (axis, values) in curves.items():
        if len(axis) != len(values):
            raise_input_error(f"summary.beliefs.{name}", f"{len(values)} values", f"{len(axis)}, one per belief")
