"""Choose how many bytes an index takes, from the number of its values.

Each kind of index has a minimum dtype, so that problems of ordinary size share one dtype (one compilation of each
kernel, one form of each stored file); only larger ones use a wider dtype. All are signed: -1 marks a missing value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

IntDtype = np.dtype[np.signedinteger[Any]]

INT_DTYPES = tuple(np.dtype(name) for name in ("int8", "int16", "int32", "int64"))
_MAX_VALUES = tuple(int(np.iinfo(width).max) for width in INT_DTYPES)
_DTYPE_INDEX = {width.name: i for i, width in enumerate(INT_DTYPES)}


def smallest_int_dtype(count: int, min_dtype: str = "int8") -> IntDtype:
    """Return the smallest signed integer dtype, not below ``min_dtype``, for -1 and the indices 0 .. count - 1."""
    for index in range(_DTYPE_INDEX[min_dtype], len(INT_DTYPES)):
        if count - 1 <= _MAX_VALUES[index]:
            return INT_DTYPES[index]
    raise OverflowError(f"{count} values do not fit into 64 bits")


def state_dtype(num_states: int) -> IntDtype:
    """Return the dtype of a state."""
    return smallest_int_dtype(num_states, "int32")


def action_dtype(num_actions: int) -> IntDtype:
    """Return the dtype of an action."""
    return smallest_int_dtype(num_actions, "int16")


def outcome_dtype(num_values: int) -> IntDtype:
    """Return the dtype of a reward index."""
    return smallest_int_dtype(num_values, "int8")


def length_dtype(horizon: int) -> IntDtype:
    """Return the dtype of the number of steps of an episode, 0 .. horizon."""
    return smallest_int_dtype(horizon + 1, "int32")


def symbol_dtype(num_symbols: int) -> IntDtype:
    """Return the dtype of x * Z + z, a state-action with its reward index."""
    return smallest_int_dtype(num_symbols, "int32")


def choice_dtype(num_actions: int) -> IntDtype:
    """Return the dtype of a choice of exploration, 2 a or 2 a + 1."""
    return smallest_int_dtype(2 * num_actions, "int16")


def node_dtype(count: int) -> IntDtype:
    """Return the dtype of a controller node in kernels."""
    return smallest_int_dtype(count, "int32")


def entry_dtype(count: int) -> IntDtype:
    """Return the dtype of an index into the entries of a sparse transition."""
    return smallest_int_dtype(count, "int32")
