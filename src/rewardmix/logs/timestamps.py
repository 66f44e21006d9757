"""Convert columns of times to comparable numbers, and parse session gaps."""

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

from rewardmix._core.checks import raise_input_error
from rewardmix.logs import arrow_io
from rewardmix.logs.columns import to_floats

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""Units of a session gap, in seconds."""

NANOSECONDS = 1_000_000_000
"""Nanoseconds per second."""


@dataclass(frozen=True)
class SessionGap:
    """Longest pause within a session.

    Attributes:
        seconds: pause between timestamps, or between numbers, which then count seconds.
        label: text that the caller gave.
    """

    seconds: float
    label: str

    def ticks(self, *, clock: bool) -> float:
        """Return the pause in the units of a column: nanoseconds for timestamps, seconds for numbers."""
        return self.seconds * (NANOSECONDS if clock else 1)


def parse_session_gap(argument: str, value: object) -> SessionGap:
    """Parse a session gap: seconds, text such as 30m, or a ``timedelta``."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhd])", value.strip()) if isinstance(value, str) else None
    seconds = math.nan
    if match:
        seconds = float(match[1]) * _SECONDS[match[2]]
    elif isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    if not 0 < seconds < math.inf:
        raise_input_error(argument, repr(value), "seconds, or text such as 90s, 30m, 2h or 1d")
    return SessionGap(seconds, value.strip() if isinstance(value, str) else f"{seconds:g}s")


@dataclass
class TimeSpan:
    """First and last time of a log; numeric times have no date and are ignored."""

    first: int | None = None
    last: int | None = None

    def update(self, times: NDArray[Any], *, clock: bool) -> NDArray[Any]:
        """Extend the span by these times and return them."""
        if clock and times.size:
            first, last = int(times.min()), int(times.max())
            self.first = first if self.first is None else min(self.first, first)
            self.last = last if self.last is None else max(self.last, last)
        return times

    @property
    def as_iso(self) -> tuple[str, str] | None:
        """Both ends in ISO 8601 to the second, in UTC if the column has a time zone."""
        if self.first is None or self.last is None:
            return None
        first, last = (str(np.datetime64(time, "ns").astype("datetime64[s]")) for time in (self.first, self.last))
        return first, last


def is_timestamp(kind: Any) -> bool:
    """Return whether times of this Arrow type are read as nanoseconds."""
    return arrow_io.is_time(kind) or arrow_io.is_text(kind)


def read_times(column: Any, name: str, file: str) -> NDArray[Any]:
    """Read a column of times: timestamps, dates and text as nanoseconds since 1970, numbers unchanged."""
    pa = arrow_io.import_pyarrow()
    check_no_missing(column.is_null().to_numpy(), name, file, "a time")
    if arrow_io.is_text(column.type):
        # Nulls were rejected above, so every text has to parse.
        column = _parse_times(column, name, file)
    if pa.types.is_temporal(column.type):
        with _raise_time_errors(name, file):
            ticks = column.cast(pa.timestamp("ns", getattr(column.type, "tz", None)))
        return np.asarray(ticks.cast(pa.int64()).to_numpy())
    if pa.types.is_signed_integer(column.type):
        return np.asarray(column.cast(pa.int64()).to_numpy())
    timestamps = to_floats(column, name)
    check_no_missing(~np.isfinite(timestamps), name, file, "a time")
    return timestamps


def _parse_times(column: Any, name: str, file: str) -> Any:
    """Parse text as timestamps, all without a time zone or each with one."""
    pa = arrow_io.import_pyarrow()
    try:
        return column.cast(pa.timestamp("ns"))
    except pa.ArrowInvalid:
        with _raise_time_errors(name, file):
            # Text with a UTC offset cannot be cast to a timestamp without a zone; the second attempt normalizes it to
            # UTC.
            return column.cast(pa.timestamp("ns", "UTC"))


@contextmanager
def _raise_time_errors(name: str, file: str) -> Iterator[None]:
    """Convert errors on reading times to an ``InputError`` that names the column and the file."""
    try:
        yield
    except arrow_io.import_pyarrow().ArrowException as error:
        # Arrow's messages quote the value, which may be long or span several lines.
        reason = " ".join(str(error).split())[:120]
        expected = "times such as 2026-11-16 09:30:00, from 1678 to 2261"
        raise_input_error(f"column {name!r}", f"an invalid time in {file} ({reason})", expected)


def check_no_missing(missing: NDArray[np.bool_], name: str, file: str, needed: str) -> None:
    """Raise an error if a column has missing values."""
    if missing.any():
        actual = f"no value in {int(missing.sum())} rows of {file}"
        raise_input_error(f"column {name!r}", actual, f"{needed} in every row")
