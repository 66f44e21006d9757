"""Validate arguments.

Every message names the argument (with the first invalid index), the value and what was expected. Objects are validated
when they are created and trusted afterwards.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardmix._core.errors import InputError as InputError
from rewardmix._core.errors import format_value as format_value
from rewardmix._core.errors import quote_value as quote_value
from rewardmix._core.errors import raise_input_error as raise_input_error

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]

_T = TypeVar("_T")

MAX_COUNT = (1 << 62) - 1
"""Largest count that is accepted: twice as many still fit into a 64-bit integer."""

SUM_TOLERANCE = 1e-8
"""Largest deviation of a sum of probabilities from one."""


def format_index(argument: str, index: Sequence[int]) -> str:
    """Format an argument and an index into it, as in ``rewards[0, 3, 1]``."""
    return f"{argument}[{', '.join(str(int(i)) for i in index)}]" if len(index) else argument


def first_index(mask: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the first index (in C order) at which ``mask`` is true."""
    return tuple(int(i) for i in np.argwhere(mask)[0]) if mask.ndim else ()


def as_floats(argument: str, values: ArrayLike, shape: tuple[int | None, ...] | None = None) -> Floats:
    """Return a read-only, finite float64 array that shares no memory with writable arrays.

    ``shape`` is checked if given; None in it stands for any length.
    """
    try:
        raw_array = np.asarray(values)
        if raw_array.dtype.kind not in "fiubO":
            raise TypeError
        array: Floats = as_readonly_copy(raw_array, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise_input_error(argument, f"{type(values).__name__} that is not an array of numbers", "an array of numbers")
    check_shape(argument, array, shape)
    bad = ~np.isfinite(array)
    if bad.any():
        raise_input_error(format_index(argument, first_index(bad)), array[first_index(bad)], "a finite number")
    return array


def as_readonly_copy(array: Any, dtype: Any = None) -> Any:
    """Return a contiguous array without writable views: ``array`` itself if it is one, otherwise a copy."""
    if isinstance(array, np.ndarray) and (dtype is None or array.dtype == dtype) and array.flags.c_contiguous:
        holder: Any = array
        # A read-only view of a writable array could still change, so every array up to the owner of the memory must be
        # read-only.
        while isinstance(holder, np.ndarray) and not holder.flags.writeable:
            holder = holder.base
        if holder is None or isinstance(holder, bytes):
            return array
    copy = np.array(array, dtype=dtype, order="C")
    copy.setflags(write=False)
    return copy


def mark_readonly(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array contiguous and read-only without copying; the caller must hold the only reference."""
    contiguous = np.ascontiguousarray(array)
    contiguous.setflags(write=False)
    return contiguous


def as_reward_values(values: ArrayLike) -> Floats:
    """Return possible rewards as an array: at least two values, increasing."""
    array = as_floats("reward_values", values, (None,))
    if array.size < 2:
        raise_input_error("reward_values", array.tolist(), "at least two values")
    steps = np.diff(array) <= 0
    if steps.any():
        index = first_index(steps)[0] + 1
        raise_input_error(
            format_index("reward_values", (index,)),
            float(array[index]),
            f"more than {array[index - 1]:g}, the one before",
        )
    return array


def as_array(argument: str, values: ArrayLike) -> NDArray[Any]:
    """Convert to an array of the type that NumPy infers."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        raise_input_error(argument, f"{type(values).__name__} that is not an array", "an array")


def check_shape(argument: str, array: NDArray[Any], shape: tuple[int | None, ...] | None) -> None:
    """Raise InputError unless an array has ``shape`` (None in it: any length)."""
    if shape is None:
        return
    if array.ndim != len(shape) or any(n is not None and n != m for n, m in zip(shape, array.shape, strict=True)):
        expected = (
            "(" + ", ".join("any" if n is None else str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"
        )
        raise_input_error(argument, f"shape {array.shape}", f"shape {expected}")


def check_probabilities(argument: str, array: Floats, over: str) -> None:
    """Raise InputError unless the last axis of an array holds probability distributions ``over`` something."""
    check_unit_interval(argument, array)
    sums = array.sum(axis=-1)
    bad = np.abs(sums - 1.0) > SUM_TOLERANCE
    if bad.any():
        index = first_index(np.asarray(bad))
        raise_input_error(
            format_index(argument, index), f"sum {float(sums[index]):.12g}", f"probabilities over {over} that sum to 1"
        )


def check_unit_interval(argument: str, array: Floats) -> None:
    """Raise InputError if an array has an entry outside [0, 1]."""
    bad = (array < 0.0) | (array > 1.0)
    if bad.any():
        raise_input_error(
            format_index(argument, first_index(bad)), float(array[first_index(bad)]), "a probability between 0 and 1"
        )


def as_count(argument: str, value: object, min_value: int = 1) -> int:
    """Return an int between ``min_value`` and 2^62 - 1; raise InputError otherwise."""
    number = _as_int(argument, value, f"a whole number of at least {min_value}")
    if number < min_value:
        raise_input_error(argument, value, f"a whole number of at least {min_value}")
    if number > MAX_COUNT:
        raise_input_error(argument, value, f"a whole number of at most {MAX_COUNT:.2g}")
    return number


def as_seed(argument: str, value: object) -> int:
    """Return a seed: an int of at least 0, of any size."""
    number = _as_int(argument, value, "a whole number of at least 0")
    if number < 0:
        raise_input_error(argument, value, "a whole number of at least 0")
    return number


def _as_int(argument: str, value: object, expected: str) -> int:
    """Return an int; raise InputError for other types, bool included."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise_input_error(argument, f"{quote_value(value)} ({type(value).__name__})", expected)
    return int(value)


def as_number(argument: str, value: object, *, above: float = -math.inf, below: float = math.inf) -> float:
    """Return a finite float strictly between ``above`` and ``below``."""
    expected = "a finite number" + (f" above {above:g}" if above > -math.inf else "")
    expected += (" and" if above > -math.inf else "") + f" below {below:g}" if below < math.inf else ""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise_input_error(argument, f"{quote_value(value)} ({type(value).__name__})", expected)
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the largest float
        number = math.inf
    if not (math.isfinite(number) and above < number < below):
        raise_input_error(argument, value, expected)
    return number


def as_instance(argument: str, value: object, kind: type[_T]) -> _T:
    """Return ``value``; raise InputError unless it is an instance of ``kind``."""
    if not isinstance(value, kind):
        raise_input_error(argument, f"{quote_value(value)} ({type(value).__name__})", f"a {kind.__name__}")
    return value


def as_path(argument: str, value: object) -> Path:
    """Return a path; raise InputError for other types."""
    try:
        os.fsencode(value)  # type: ignore[arg-type]  # any object may be passed
    except (TypeError, ValueError):
        raise_input_error(argument, f"{quote_value(value)} ({type(value).__name__})", "a path")
    return Path(os.fsdecode(value))  # type: ignore[arg-type]


def check_callback(argument: str, value: object) -> None:
    """Raise InputError unless the value is callable or None."""
    if value is not None and not callable(value):
        raise_input_error(argument, f"{quote_value(value)} ({type(value).__name__})", "a function, or None")


def as_indices(
    argument: str, values: ArrayLike, count: int, shape: tuple[int | None, ...] | None = None, *, absent: bool = False
) -> Ints:
    """Return integers in 0..count-1 (``absent``: -1 is allowed too)."""
    array = as_array(argument, values)
    check_shape(argument, array, shape)
    if array.dtype.kind not in "iu":
        # Floats are accepted if they are whole and in the range of int64, because data frames with gaps hold indices
        # as floats.
        is_integral = array.dtype.kind == "f" and bool(
            np.all((np.abs(array, dtype=np.float64) <= MAX_COUNT) & (array == np.floor(array)))
        )
        if not is_integral:
            raise_input_error(argument, f"dtype {array.dtype}", f"whole numbers from 0 to {count - 1}")
        array = array.astype(np.int64)
    bad = out_of_range_mask(array, -1 if absent else 0, count)
    if bad is not None:
        raise_input_error(
            format_index(argument, first_index(bad)),
            int(array[first_index(bad)]),
            f"a whole number from 0 to {count - 1}",
        )
    return array


def out_of_range_mask(array: Ints, min_value: int, count: int) -> NDArray[np.bool_] | None:
    """Return the mask of integers outside min_value..count-1, or None if there are none.

    Limits that the dtype of the array cannot represent are not compared with it: before NumPy 2.3 such a comparison
    reads outside the memory of a strided array.
    """
    below = array.size > 0 and int(array.min()) < min_value
    above = array.size > 0 and int(array.max()) >= count
    if not below and not above:
        return None
    none = np.zeros(array.shape, dtype=np.bool_)
    return (array < min_value if below else none) | (array >= count if above else none)
