"""Integer widths: the one place that chooses how many bytes an index takes, from how many things it counts.

Each kind of index has a least width, so that everything of ordinary size has the same type (one compilation of each
kernel, one form of each stored file); only what does not fit is wider. All are signed: -1 marks what is absent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Width = np.dtype[np.signedinteger[Any]]

WIDTHS = tuple(np.dtype(name) for name in ("int8", "int16", "int32", "int64"))
_MOST = tuple(int(np.iinfo(width).max) for width in WIDTHS)
_PLACES = {width.name: place for place, width in enumerate(WIDTHS)}


def width_of(count: int, least: str = "int8") -> Width:
    """The smallest signed integer, of at least ``least``, that holds -1 and the indices 0 .. count - 1."""
    for place in range(_PLACES[least], len(WIDTHS)):
        if count - 1 <= _MOST[place]:
            return WIDTHS[place]
    raise OverflowError(f"{count} things cannot be told apart by 64 bits")


def state_width(num_states: int) -> Width:
    """Of a state."""
    return width_of(num_states, "int32")


def action_width(num_actions: int) -> Width:
    """Of an action."""
    return width_of(num_actions, "int16")


def outcome_width(num_values: int) -> Width:
    """Of the index of a reward value."""
    return width_of(num_values, "int8")


def length_width(horizon: int) -> Width:
    """Of the number of steps of an episode, 0 .. horizon."""
    return width_of(horizon + 1, "int32")


def symbol_width(num_symbols: int) -> Width:
    """Of x * Z + z, a state-action together with the index of its reward value."""
    return width_of(num_symbols, "int32")


def choice_width(num_actions: int) -> Width:
    """Of a choice of exploration, 2 a or 2 a + 1."""
    return width_of(2 * num_actions, "int16")


def node_width(count: int) -> Width:
    """Of a node of a controller, where a kernel plays it."""
    return width_of(count, "int32")


def place_width(count: int) -> Width:
    """Of a place among the entries of a sparse transition."""
    return width_of(count, "int32")
