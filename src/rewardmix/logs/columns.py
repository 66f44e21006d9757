"""Columns of a log as plain numbers: labels become indices, what is missing becomes a mark that no check lets pass."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._check import Floats, refuse
from rewardmix.logs import arrow

MISSING = -(1 << 31)
"""A value that is null, not a whole number, or does not fit."""

NO_EPISODE = -(1 << 63)
"""An episode that is null."""


@dataclass(frozen=True)
class Names:
    """How the columns are called.

    Attributes:
        episode: which episode a row belongs to: whole numbers or text.
        step: position in the episode; None: the rows are in order and none is missing.
        state: whole numbers from 0, or text.
        action: whole numbers from 0, or text.
        reward: numbers.
        next_state: where the action led, used if there is such a column; None: ignore it.
    """

    episode: str = "episode"
    step: str | None = "step"
    state: str = "state"
    action: str = "action"
    reward: str = "reward"
    next_state: str | None = "next_state"

    @property
    def listed(self) -> list[str]:
        """The names that are in use."""
        return [name for field in fields(self) if (name := getattr(self, field.name)) is not None]


@dataclass(frozen=True)
class Coding:
    """How values become numbers.

    Attributes:
        names: of the columns.
        texts: columns that hold labels.
        state_names: index -> label, if the states are labels.
        action_names: index -> label, if the actions are labels.
        first_step: number of the first step, 0 or 1.
    """

    names: Names
    texts: frozenset[str] = frozenset()
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    first_step: int = 0


@dataclass(frozen=True, eq=False)
class Columns:
    """N rows; ``step`` and ``following`` are empty where the log has none.

    Attributes:
        episode: (N,) int64.
        step: (N,) int32, from 0.
        state: (N,) int32.
        action: (N,) int32.
        reward: (N,) float64, NaN where missing.
        following: (N,) int32, the next state.
    """

    episode: NDArray[np.int64]
    step: NDArray[np.int32]
    state: NDArray[np.int32]
    action: NDArray[np.int32]
    reward: Floats
    following: NDArray[np.int32]

    def __len__(self) -> int:
        return int(self.episode.size)

    def part(self, begin: int, end: int) -> Columns:
        """Rows begin .. end - 1."""
        return Columns(*(getattr(self, field.name)[begin:end] for field in fields(self)))

    def __add__(self, other: Columns) -> Columns:
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return Columns(*(np.concatenate(pair) for pair in pairs))


def decoded(table: Any, coding: Coding) -> Columns:
    """The columns of an Arrow table as numbers."""
    names = coding.names
    none = np.empty(0, np.int32)
    step = none if names.step is None else whole_numbers(table.column(names.step), names.step)
    if coding.first_step:
        step = np.where(step == MISSING, step, step - np.int32(coding.first_step))
    following = none if names.next_state is None else _indices(table, names.next_state, coding.state_names)
    return Columns(
        episode_numbers(table.column(names.episode), names.episode),
        step,
        _indices(table, names.state, coding.state_names),
        _indices(table, names.action, coding.action_names),
        numbers(table.column(names.reward), names.reward),
        following,
    )


def numbers(column: Any, name: str) -> Floats:
    """A column as floats, NaN where it is null."""
    pa = arrow.library()
    column = _plain(column, name)
    if column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False))


def labels(column: Any) -> list[str]:
    """The distinct labels of a text column."""
    return [label for label in arrow.library().compute.unique(column).to_pylist() if label is not None]


def _indices(table: Any, name: str, vocabulary: tuple[str, ...]) -> NDArray[np.int32]:
    column = table.column(name)
    if not vocabulary:
        return whole_numbers(column, name)
    codes, found = _dictionary(column)
    places = {label: i for i, label in enumerate(vocabulary)}
    index = np.array([places.get(label, MISSING) for label in found] + [MISSING], np.int32)
    return index[codes]


def _dictionary(column: Any) -> tuple[NDArray[np.int64], list[Any]]:
    """Codes (-1 for null) into a list of labels."""
    pa = arrow.library()
    if pa.types.is_dictionary(column.type):
        array = column.unify_dictionaries().combine_chunks()
    else:
        array = column.combine_chunks().dictionary_encode()
    codes = array.indices.cast(pa.int64())
    codes = codes.fill_null(-1) if codes.null_count else codes
    return codes.to_numpy(zero_copy_only=False), array.dictionary.to_pylist()


def episode_numbers(column: Any, name: str) -> NDArray[np.int64]:
    """Episodes as 64-bit numbers, NO_EPISODE where there is none; labels by their digest."""
    if arrow.is_text(column.type):
        codes, found = _dictionary(column)
        return np.array([_digest(label) for label in found] + [NO_EPISODE], np.int64)[codes]
    return _integers(column, name, np.int64, NO_EPISODE)


def _digest(label: str | None) -> int:
    """A label as 64 bits: equal labels in any file or batch are equal numbers."""
    if label is None:
        return NO_EPISODE
    return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=8).digest(), "little", signed=True)


def whole_numbers(column: Any, name: str) -> NDArray[np.int32]:
    """Whole numbers, MISSING where there is none."""
    return _integers(column, name, np.int32, MISSING)


def _integers(column: Any, name: str, dtype: Any, missing: int) -> NDArray[Any]:
    """Whole numbers of a type, ``missing`` for everything that is none."""
    pa = arrow.library()
    column = _plain(column, name)
    if column.null_count and pa.types.is_integer(column.type):
        column = column.cast(pa.int64(), safe=False).fill_null(NO_EPISODE)
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == dtype:
        return np.ascontiguousarray(values)
    highest = np.iinfo(dtype).max
    if values.dtype.kind == "f":
        fits = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < min(highest, 1 << 53))
    elif values.dtype.kind == "u":
        fits = values <= highest
    else:
        fits = (values <= highest) & (values >= -highest)
    return np.where(fits, np.where(fits, values, 0).astype(dtype), dtype(missing))


def _plain(column: Any, name: str) -> Any:
    """A column of numbers as one array: dictionaries decoded, truth values as 0 and 1."""
    pa = arrow.library()
    if not arrow.is_number(column.type):
        refuse(f"column {name!r}", f"type {column.type}", "numbers (or, for episodes, states and actions, text)")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_null(column.type):
        column = column.cast(pa.float64())
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int32())
    return column.combine_chunks()
