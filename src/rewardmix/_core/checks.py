"""Checks of what comes in, and the wording of the errors.

Every message names the argument (with the first offending index), what was found and what was expected.
Objects are checked where they are born and trusted afterwards.
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
from rewardmix._core.errors import quoted as quoted
from rewardmix._core.errors import refuse as refuse
from rewardmix._core.errors import shown as shown

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]

_T = TypeVar("_T")

MOST = (1 << 62) - 1
"""The largest count there is: twice as many still fit into a 64-bit number."""

SUM_TOLERANCE = 1e-8
"""How far a row of probabilities may be from summing to one."""


def at(argument: str, index: Sequence[int]) -> str:
    """``rewards[0, 3, 1]``: an argument and an index into it."""
    return f"{argument}[{', '.join(str(int(i)) for i in index)}]" if len(index) else argument


def first(mask: NDArray[np.bool_]) -> tuple[int, ...]:
    """The first index (in C order) at which ``mask`` holds."""
    return tuple(int(i) for i in np.argwhere(mask)[0]) if mask.ndim else ()


def as_floats(argument: str, values: ArrayLike, shape: tuple[int | None, ...] | None = None) -> Floats:
    """``values`` as a read-only float64 array of its own, of the given shape (None: any length), all finite."""
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "fiubO":
            raise TypeError
        array: Floats = owned(given, np.float64)
    except (TypeError, ValueError, OverflowError):
        refuse(argument, f"{type(values).__name__} that is not an array of numbers", "an array of numbers")
    check_shape(argument, array, shape)
    bad = ~np.isfinite(array)
    if bad.any():
        refuse(at(argument, first(bad)), array[first(bad)], "a finite number")
    return array


def owned(array: Any, dtype: Any = None) -> Any:
    """``array`` as a contiguous array that nobody can write to: itself if that is so already, otherwise a copy."""
    if isinstance(array, np.ndarray) and (dtype is None or array.dtype == dtype) and array.flags.c_contiguous:
        holder: Any = array
        while isinstance(holder, np.ndarray) and not holder.flags.writeable:
            holder = holder.base
        if holder is None or isinstance(holder, bytes):
            return array
    copy = np.array(array, dtype=dtype, order="C")
    copy.setflags(write=False)
    return copy


def shut(array: NDArray[Any]) -> NDArray[Any]:
    """An array that its maker hands over and writes to no more, contiguous and closed for writing."""
    whole = np.ascontiguousarray(array)
    whole.setflags(write=False)
    return whole


def as_reward_values(values: ArrayLike) -> Floats:
    """The values that a reward can take: at least two, increasing."""
    array = as_floats("reward_values", values, (None,))
    if array.size < 2:
        refuse("reward_values", array.tolist(), "at least two values")
    steps = np.diff(array) <= 0
    if steps.any():
        index = first(steps)[0] + 1
        refuse(at("reward_values", (index,)), float(array[index]), f"more than {array[index - 1]:g}, the one before")
    return array


def as_array(argument: str, values: ArrayLike) -> NDArray[Any]:
    """``values`` as an array of whatever numpy makes of them."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        refuse(argument, f"{type(values).__name__} that is not an array", "an array")


def check_shape(argument: str, array: NDArray[Any], shape: tuple[int | None, ...] | None) -> None:
    """Refuse an array that does not have ``shape`` (None in it: any length)."""
    if shape is None:
        return
    if array.ndim != len(shape) or any(n is not None and n != m for n, m in zip(shape, array.shape, strict=True)):
        wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"
        refuse(argument, f"shape {array.shape}", f"shape {wanted}")


def check_probabilities(argument: str, array: Floats, over: str) -> None:
    """Refuse an array whose last axis is not a probability distribution ``over`` something."""
    check_unit_interval(argument, array)
    sums = array.sum(axis=-1)
    bad = np.abs(sums - 1.0) > SUM_TOLERANCE
    if bad.any():
        index = first(np.asarray(bad))
        refuse(at(argument, index), f"sum {float(sums[index]):.12g}", f"probabilities over {over} that sum to 1")


def check_unit_interval(argument: str, array: Floats) -> None:
    """Refuse an array with an entry outside [0, 1]."""
    bad = (array < 0.0) | (array > 1.0)
    if bad.any():
        refuse(at(argument, first(bad)), float(array[first(bad)]), "a probability between 0 and 1")


def as_count(argument: str, value: object, least: int = 1) -> int:
    """``value`` as a whole number of at least ``least``, and at most ``MOST``."""
    number = _whole(argument, value, f"a whole number of at least {least}")
    if number < least:
        refuse(argument, value, f"a whole number of at least {least}")
    if number > MOST:
        refuse(argument, value, f"a whole number of at most {MOST:.2g}")
    return number


def as_seed(argument: str, value: object) -> int:
    """``value`` as a seed: a whole number of at least 0, of any size."""
    number = _whole(argument, value, "a whole number of at least 0")
    if number < 0:
        refuse(argument, value, "a whole number of at least 0")
    return number


def _whole(argument: str, value: object, wanted: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        refuse(argument, f"{quoted(value)} ({type(value).__name__})", wanted)
    return int(value)


def as_number(argument: str, value: object, *, above: float = -math.inf, below: float = math.inf) -> float:
    """``value`` as a finite float strictly between ``above`` and ``below``."""
    wanted = "a finite number" + (f" above {above:g}" if above > -math.inf else "")
    wanted += (" and" if above > -math.inf else "") + f" below {below:g}" if below < math.inf else ""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        refuse(argument, f"{quoted(value)} ({type(value).__name__})", wanted)
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond all floats
        number = math.inf
    if not (math.isfinite(number) and above < number < below):
        refuse(argument, value, wanted)
    return number


def as_instance(argument: str, value: object, kind: type[_T]) -> _T:
    """``value``, refused unless it is a ``kind``."""
    if not isinstance(value, kind):
        refuse(argument, f"{quoted(value)} ({type(value).__name__})", f"a {kind.__name__}")
    return value


def as_path(argument: str, value: object) -> Path:
    """``value`` as a path."""
    try:
        os.fsencode(value)  # type: ignore[arg-type]  # anything may come
    except (TypeError, ValueError):
        refuse(argument, f"{quoted(value)} ({type(value).__name__})", "a path")
    return Path(os.fsdecode(value))  # type: ignore[arg-type]


def check_callback(argument: str, value: object) -> None:
    """Refuse what is neither a function nor None."""
    if value is not None and not callable(value):
        refuse(argument, f"{quoted(value)} ({type(value).__name__})", "a function, or None")


def as_indices(
    argument: str, values: ArrayLike, count: int, shape: tuple[int | None, ...] | None = None, *, absent: bool = False
) -> Ints:
    """``values`` as integers in 0..count-1 (``absent``: -1 is allowed too)."""
    array = as_array(argument, values)
    check_shape(argument, array, shape)
    if array.dtype.kind not in "iu":
        whole = array.dtype.kind == "f" and bool(
            np.all((np.abs(array, dtype=np.float64) <= MOST) & (array == np.floor(array)))
        )
        if not whole:
            refuse(argument, f"dtype {array.dtype}", f"whole numbers from 0 to {count - 1}")
        array = array.astype(np.int64)
    bad = outside(array, -1 if absent else 0, count)
    if bad is not None:
        refuse(at(argument, first(bad)), int(array[first(bad)]), f"a whole number from 0 to {count - 1}")
    return array


def outside(array: Ints, least: int, count: int) -> NDArray[np.bool_] | None:
    """Where whole numbers are not in least..count-1; None if nowhere.

    Limits that the type of the array cannot hold are never compared with it: before NumPy 2.3 that follows a strided
    array out of its memory.
    """
    below = array.size > 0 and int(array.min()) < least
    above = array.size > 0 and int(array.max()) >= count
    if not below and not above:
        return None
    none = np.zeros(array.shape, dtype=np.bool_)
    return (array < least if below else none) | (array >= count if above else none)
