"""Parse and check request bodies, and define the error that answers invalid ones."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

MAX_TEXT_LENGTH = 200
"""Maximum length of a state, idempotency key or user in characters."""

MAX_STATE_NUMBER = 1 << 61
"""Maximum absolute value of a state number, known to the policy or not."""


class ApiError(Exception):
    """Report a failed request: HTTP status, machine-readable code and message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True)
class StartSession:
    """Request to start a session.

    Attributes:
        state: Initial state, as a name or a number.
        idempotency_key: Key of the client: a repeated request with this key does not start a second session.
        user: User of the session, so that all sessions of one user can be deleted.
    """

    state: str | int
    idempotency_key: str | None
    user: str | None = None


@dataclass(frozen=True)
class StepFeedback:
    """Outcome of a step.

    Attributes:
        step: Index of the step that was rewarded, from 0.
        reward: Reward of the step.
        state: Next state, as a name or a number; None ends the session.
    """

    step: int
    reward: float
    state: str | int | None


@dataclass(frozen=True)
class ActivateVersion:
    """Request to activate a version.

    Attributes:
        pin: True keeps the version until another one is activated by hand; False until the next refit.
    """

    pin: bool


def parse_body(body: bytes) -> dict[str, Any]:
    """Parse a body as a JSON object."""
    try:
        data = _DECODER.decode(body.decode("utf-8"))
    # Deeply nested JSON raises RecursionError and not ValueError.
    except (ValueError, RecursionError):
        raise ApiError(400, "malformed", "body: expected JSON in UTF-8") from None
    if not isinstance(data, dict):
        raise ApiError(400, "malformed", "body: expected a JSON object")
    return data


def parse_start_session(body: dict[str, Any]) -> StartSession:
    """Check the body of a request that starts a session."""
    _check_fields(body, required=("state",), optional=("idempotency_key", "user"))
    for name in ("idempotency_key", "user"):
        if body.get(name) is not None:
            _check_text(name, body[name])
    return StartSession(_parse_state("state", body["state"]), body.get("idempotency_key"), body.get("user"))


def parse_step_feedback(body: dict[str, Any]) -> StepFeedback:
    """Check the body of a request that adds a step."""
    _check_fields(body, required=("step", "reward", "state"))
    step, reward, state = _to_int(body["step"]), body["reward"], body["state"]
    # bool is a subclass of int in Python, but true is no step.
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        _raise_invalid("step", "an integer of at least 0")
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        _raise_invalid("reward", "a number")
    try:
        value = float(reward)
    # JSON integers have any number of digits; those beyond the range of a float are infinite.
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        _raise_invalid("reward", "a finite number")
    return StepFeedback(step, value, None if state is None else _parse_state("state", state))


def parse_activate_version(body: dict[str, Any]) -> ActivateVersion:
    """Check the body of a request that activates a version."""
    _check_fields(body, required=(), optional=("pin",))
    pin = body.get("pin", True)
    if not isinstance(pin, bool):
        _raise_invalid("pin", "true or false")
    return ActivateVersion(pin)


def _check_fields(body: dict[str, Any], required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    """Raise an ``ApiError`` for missing or unknown fields."""
    for name in required:
        if name not in body:
            raise ApiError(422, "invalid", f"{name}: missing from the body")
    if not body.keys() <= {*required, *optional}:
        raise ApiError(422, "invalid", f"body: unknown fields, expected only {', '.join((*required, *optional))}")


def _to_int(value: Any) -> Any:
    """Convert a float without fraction to an integer, since JSON does not distinguish 1.0 from 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parse_state(name: str, value: Any) -> str | int:
    """Check a state: a short text or a number."""
    value = _to_int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        # Larger numbers do not fit into the 64-bit columns of the store.
        if abs(value) > MAX_STATE_NUMBER:
            _raise_invalid(name, "the name of a state, or a smaller number")
        return value
    _check_text(name, value)
    return str(value)


def _check_text(name: str, value: Any) -> None:
    """Check a text: its length, and that it can be encoded in UTF-8."""
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_TEXT_LENGTH:
        _raise_invalid(
            name, f"a text of 1 to {MAX_TEXT_LENGTH} characters" + (", or an integer" if name == "state" else "")
        )
    try:
        # A JSON escape can contain half of a surrogate pair, which databases reject.
        value.encode("utf-8")
    except UnicodeEncodeError:
        _raise_invalid(name, "text without unpaired surrogates")


def _raise_invalid(name: str, expected: str) -> NoReturn:
    """Raise an ``ApiError`` with status 422 for a field."""
    raise ApiError(422, "invalid", f"{name}: expected {expected}")


def _reject_constant(text: str) -> NoReturn:
    """Reject ``NaN`` and ``Infinity``, which Python accepts but JSON does not contain."""
    raise ValueError(text)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; reject duplicate names, for which two parsers may use different values."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ApiError(422, "invalid", "body: a field occurs twice, expected unique field names")
    return values


_DECODER = json.JSONDecoder(parse_constant=_reject_constant, object_pairs_hook=_build_object)
