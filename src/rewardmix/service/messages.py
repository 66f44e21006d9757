"""What clients say, checked, and what they are told when it is refused."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

LONGEST_TEXT = 200
"""Characters of a state or a key."""

LARGEST_NUMBER = 1 << 61
"""Of a state, whether the policy knows it or not."""


class Refusal(Exception):
    """A request that is not done: a status of HTTP, a word for programs and a sentence for people."""

    def __init__(self, status: int, word: str, message: str) -> None:
        super().__init__(message)
        self.status, self.word, self.message = status, word, message


@dataclass(frozen=True)
class Begin:
    """A session is to begin.

    Attributes:
        state: a name or a number.
        key: of the client, so that a request that is sent again begins no second session.
        visitor: whose session it is, to find all of somebody's sessions.
    """

    state: str | int
    key: str | None
    visitor: str | None = None


@dataclass(frozen=True)
class Observed:
    """What came of a step.

    Attributes:
        step: whose reward it is.
        reward: what was earned.
        state: where it led, a name or a number; None: the session has ended.
    """

    step: int
    reward: float
    state: str | int | None


@dataclass(frozen=True)
class Choose:
    """A version of the policy is to be the one that new sessions get.

    Attributes:
        hold: until somebody chooses again; otherwise until a newer one is learned.
    """

    hold: bool


def parsed(body: bytes) -> dict[str, Any]:
    """A body as a JSON object."""
    try:
        found = _DECODER.decode(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Refusal(400, "malformed", "the body is not JSON in UTF-8") from None
    if not isinstance(found, dict):
        raise Refusal(400, "malformed", "the body is not a JSON object")
    return found


def as_begin(body: dict[str, Any]) -> Begin:
    """The body of a request that begins a session."""
    _check_fields(body, required=("state",), optional=("key", "visitor"))
    for name in ("key", "visitor"):
        if body.get(name) is not None:
            _check_text(name, body[name])
    return Begin(_state("state", body["state"]), body.get("key"), body.get("visitor"))


def as_observed(body: dict[str, Any]) -> Observed:
    """The body of a request that goes on with a session."""
    _check_fields(body, required=("step", "reward", "state"))
    step, reward, state = _whole(body["step"]), body["reward"], body["state"]
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        _invalid("step", "a whole number from 0")
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        _invalid("reward", "a number")
    try:
        paid = float(reward)
    except OverflowError:
        paid = math.inf
    if not math.isfinite(paid):
        _invalid("reward", "a finite number")
    return Observed(step, paid, None if state is None else _state("state", state))


def as_choose(body: dict[str, Any]) -> Choose:
    """The body of a request that chooses a version."""
    _check_fields(body, required=(), optional=("hold",))
    hold = body.get("hold", True)
    if not isinstance(hold, bool):
        _invalid("hold", "true or false")
    return Choose(hold)


def _check_fields(body: dict[str, Any], required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    for name in required:
        if name not in body:
            _invalid(name, "there")
    if not body.keys() <= {*required, *optional}:
        raise Refusal(422, "invalid", f"the body has fields beside {', '.join((*required, *optional))}")


def _whole(value: Any) -> Any:
    """What JSON calls a whole number, also where it is written as 1.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _state(name: str, value: Any) -> str | int:
    value = _whole(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > LARGEST_NUMBER:
            _invalid(name, "a number of a state, or its name")
        return value
    _check_text(name, value)
    return str(value)


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_TEXT:
        _invalid(name, f"a text of 1 to {LONGEST_TEXT} characters" + (", or a number" if name == "state" else ""))
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        _invalid(name, "text without halves of characters")


def _invalid(name: str, expected: str) -> NoReturn:
    raise Refusal(422, "invalid", f"{name} has to be {expected}")


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; of a name that it has twice, two readers may take different values."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise Refusal(422, "invalid", "the body has a field twice; each is said once")
    return values


_DECODER = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_named_once)
