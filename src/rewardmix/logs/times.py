"""Columns of times as numbers that can be compared, and how long a pause is."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import refuse
from rewardmix.logs import arrow
from rewardmix.logs.columns import numbers

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""How long the units of a pause are."""

NANOSECONDS = 1_000_000_000
"""In a second."""


@dataclass(frozen=True)
class Pause:
    """How long nothing happens within a session, at most.

    Attributes:
        seconds: between timestamps, or between numbers, which then count seconds.
        text: as it was said.
    """

    seconds: float
    text: str

    def ticks(self, *, clock: bool) -> float:
        """In the units of a column: nanoseconds of a clock, or seconds."""
        return self.seconds * (NANOSECONDS if clock else 1)


def as_pause(argument: str, value: object) -> Pause:
    """A pause: seconds, text such as 30m, or a ``timedelta``."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhd])", value.strip()) if isinstance(value, str) else None
    seconds = math.nan
    if found:
        seconds = float(found[1]) * _SECONDS[found[2]]
    elif isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    if not 0 < seconds < math.inf:
        refuse(argument, repr(value), "seconds, or a text such as 90s, 30m, 2h or 1d")
    return Pause(seconds, value.strip() if isinstance(value, str) else f"{seconds:g}s")


@dataclass
class Span:
    """From when to when a log is, as its rows are looked at; numbers that nobody called times have no date."""

    first: int | None = None
    last: int | None = None

    def seen(self, moments: NDArray[Any], *, clock: bool) -> NDArray[Any]:
        """Some more moments, as they are."""
        if clock and moments.size:
            least, most = int(moments.min()), int(moments.max())
            self.first = least if self.first is None else min(self.first, least)
            self.last = most if self.last is None else max(self.last, most)
        return moments

    @property
    def texts(self) -> tuple[str, str] | None:
        """Both ends to the second, in ISO 8601, and in UTC where the column has a zone."""
        if self.first is None or self.last is None:
            return None
        begins, ends = (str(np.datetime64(moment, "ns").astype("datetime64[s]")) for moment in (self.first, self.last))
        return begins, ends


def is_clock(kind: Any) -> bool:
    """Whether times of this Arrow type are read as nanoseconds."""
    return arrow.is_time(kind) or arrow.is_text(kind)


def times(column: Any, name: str, where: str) -> NDArray[Any]:
    """A column of times: timestamps, dates and text as nanoseconds since 1970, numbers as they are."""
    pa = arrow.library()
    check_there(column.is_null().to_numpy(), name, where, "a time")
    if arrow.is_text(column.type):
        column = _parsed(column, name, where)
    if pa.types.is_temporal(column.type):
        with _naming(name, where):
            ticks = column.cast(pa.timestamp("ns", getattr(column.type, "tz", None)))
        return np.asarray(ticks.cast(pa.int64()).to_numpy())
    if pa.types.is_signed_integer(column.type):
        return np.asarray(column.cast(pa.int64()).to_numpy())
    found = numbers(column, name)
    check_there(~np.isfinite(found), name, where, "a time")
    return found


def _parsed(column: Any, name: str, where: str) -> Any:
    """Text as timestamps: all of one clock, or each with its zone."""
    pa = arrow.library()
    try:
        return column.cast(pa.timestamp("ns"))
    except pa.ArrowInvalid:
        with _naming(name, where):
            return column.cast(pa.timestamp("ns", "UTC"))


@contextmanager
def _naming(name: str, where: str) -> Iterator[None]:
    """Name the column and the file of what Arrow cannot take for a time."""
    try:
        yield
    except arrow.library().ArrowException as error:
        reason = " ".join(str(error).split())[:120]
        expected = "times such as 2026-11-16 09:30:00, of the years 1678 to 2261"
        refuse(f"column {name!r}", f"what is no time in {where} ({reason})", expected)


def check_there(missing: NDArray[np.bool_], name: str, where: str, what: str) -> None:
    """Refuse a column that says nothing in some rows."""
    if missing.any():
        found = f"nothing in {int(missing.sum())} rows of {where}"
        refuse(f"column {name!r}", found, f"{what} in every row")
