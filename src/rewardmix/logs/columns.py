"""Columns of a log as plain numbers: labels become indices, what is missing becomes a mark that no check lets pass."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, refuse
from rewardmix.logs import arrow

MISSING = -(1 << 31)
"""Nothing is there: null, or NaN."""

STRANGE = MISSING + 1
"""Something is there that is no whole number, or one that does not fit."""

LARGEST_INDEX = (1 << 31) - 1
"""Of the whole numbers that fit."""

EXACT = 1 << 53
"""Up to here floats tell whole numbers apart."""
NOBODY = -(1 << 63)
"""The number of rows without an episode. An episode can have it too: ``absent`` tells them apart."""


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
        time: when it happened, which orders the rows of an episode instead of steps; None: steps do.
        propensity: chance with which the action was taken, used if there is such a column; None: ignore it.
    """

    episode: str = "episode"
    step: str | None = "step"
    state: str = "state"
    action: str = "action"
    reward: str = "reward"
    next_state: str | None = "next_state"
    time: str | None = None
    propensity: str | None = "propensity"

    @property
    def roles(self) -> dict[str, str]:
        """Role -> name, of those that are in use."""
        return {field.name: name for field in fields(self) if (name := getattr(self, field.name)) is not None}

    @property
    def listed(self) -> list[str]:
        """The names that are in use."""
        return list(self.roles.values())


@dataclass(frozen=True)
class Folding:
    """Rare states as one.

    Attributes:
        kept: labels or numbers of the states that are none of the rare ones, in order.
        names: what they are called, and last what the rare ones are called together.
    """

    kept: tuple[Any, ...]
    names: tuple[str, ...]

    @property
    def other(self) -> int:
        """The index of the rare ones."""
        return len(self.kept)

    def __call__(self, states: NDArray[np.int32]) -> NDArray[np.int32]:
        """States that are numbers, as indices; what is no state stays."""
        kept = np.asarray(self.kept, np.int32)
        place = np.searchsorted(kept, states)
        known = kept[np.minimum(place, kept.size - 1)] == states
        folded = np.where(known, place, self.other).astype(np.int32)
        return np.where(states < 0, states, folded)


@dataclass(frozen=True)
class Coding:
    """How values become numbers.

    Attributes:
        names: of the columns.
        texts: columns that hold labels.
        state_names: index -> label, if the states are labels.
        action_names: index -> label, if the actions are labels.
        first_step: number of the first step, 0 or 1.
        folding: of the states, if rare ones are one.
    """

    names: Names
    texts: frozenset[str] = frozenset()
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    first_step: int = 0
    folding: Folding | None = None


@dataclass(frozen=True, eq=False)
class Columns:
    """N rows; ``step``, ``following`` and ``propensity`` are empty where the log has none.

    Attributes:
        episode: (N,) int64.
        step: (N,) int32, from 0.
        state: (N,) int32.
        action: (N,) int32.
        reward: (N,) float64, NaN where missing.
        following: (N,) int32, the next state.
        propensity: (N,) float64, NaN where missing.
        absent: (N,) whether there is no episode: null, or no whole number. Every number can be that of an episode.
    """

    episode: NDArray[np.int64]
    step: NDArray[np.int32]
    state: NDArray[np.int32]
    action: NDArray[np.int32]
    reward: Floats
    following: NDArray[np.int32]
    propensity: Floats
    absent: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.episode.size)

    def fixed(self) -> tuple[NDArray[Any], ...]:
        """The arrays, not to be written to: one kind for the kernels, wherever they come from."""
        views = [getattr(self, field.name)[:] for field in fields(self)]
        for view in views:
            view.setflags(write=False)
        return tuple(views)

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
        step = np.where(step <= STRANGE, step, step - np.int32(coding.first_step))
    following = none if names.next_state is None else _states(table, names.next_state, coding)
    episodes, absent = episodes_of(table.column(names.episode), names.episode)
    return Columns(
        episodes,
        step,
        _states(table, names.state, coding),
        _indices(table, names.action, coding.action_names),
        numbers(table.column(names.reward), names.reward),
        following,
        np.empty(0) if names.propensity is None else numbers(table.column(names.propensity), names.propensity),
        absent,
    )


def numbers(column: Any, name: str) -> Floats:
    """A column as floats, NaN where it is null."""
    pa = arrow.library()
    column = _plain(column, name)
    if column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False))


def distinct_numbers(column: Any, name: str) -> Floats:
    """The distinct numbers of a column as floats."""
    pa = arrow.library()
    return numbers(pa.chunked_array([pa.compute.unique(_plain(column, name))]), name)


def labels(column: Any) -> list[str]:
    """The distinct labels of a text column."""
    return [label for label in _dictionary(column)[1] if label is not None]


def label_counts(column: Any, name: str, texts: frozenset[str]) -> dict[Any, int]:
    """How often each label of a column of text occurs, or each whole number from 0."""
    if name in texts:
        codes, found = _dictionary(column)
        counts = np.bincount(codes[codes >= 0], minlength=len(found))
        return {label: int(n) for label, n in zip(found, counts, strict=True) if label is not None and n}
    whole = whole_numbers(column, name)
    values, counts = np.unique(whole[whole >= 0], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _states(table: Any, name: str, coding: Coding) -> NDArray[np.int32]:
    """The indices of states, rare ones as one."""
    folding = coding.folding
    if folding is None or coding.state_names:
        return _indices(table, name, coding.state_names, STRANGE if folding is None else folding.other)
    return folding(whole_numbers(table.column(name), name))


def _indices(table: Any, name: str, vocabulary: tuple[str, ...], unknown: int = STRANGE) -> NDArray[np.int32]:
    column = table.column(name)
    if not vocabulary:
        return whole_numbers(column, name)
    codes, found = _dictionary(column)
    places = {label: i for i, label in enumerate(vocabulary)}
    index = [MISSING if label is None else places.get(label, unknown) for label in found]
    return np.array([*index, MISSING], np.int32)[codes]


def _dictionary(column: Any) -> tuple[NDArray[np.int64], list[str | None]]:
    """Codes (-1 for null) into a list of labels."""
    pa = arrow.library()
    if pa.types.is_null(column.type):
        return np.full(len(column), -1, np.int64), []
    if pa.types.is_dictionary(column.type):
        array = column.unify_dictionaries().combine_chunks()
    else:
        array = column.combine_chunks().dictionary_encode()
    codes = array.indices.cast(pa.int64())
    codes = codes.fill_null(-1) if codes.null_count else codes
    return codes.to_numpy(zero_copy_only=False), array.dictionary.to_pylist()


def episodes_of(column: Any, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Episodes as 64-bit numbers, labels by their digest; and where there is none, whose number says nothing."""
    if arrow.is_text(column.type):
        codes, found = _dictionary(column)
        missing = np.array([*(label is None for label in found), True])
        return np.array([*map(_digest, found), NOBODY], np.int64)[codes], missing[codes]
    values, absent = _exact(column, name)
    absent = np.zeros(values.size, np.bool_) if absent is None else absent
    if values.dtype.kind == "f":
        fits = (values == np.floor(values)) & (np.abs(values) < EXACT)
        ids, absent = np.where(fits, values, 0.0).astype(np.int64), absent | ~fits
    else:  # unsigned ones by their bits: all that counts is which are equal
        ids = values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64, copy=False)
    return np.where(absent, NOBODY, ids) if absent.any() else np.ascontiguousarray(ids), absent


def episode_numbers(column: Any, name: str) -> NDArray[np.int64]:
    """The numbers of ``episodes_of``."""
    return episodes_of(column, name)[0]


def runs_of(episodes: NDArray[np.int64], absent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where a row begins an episode: it has another one than the row before, or none where that has one."""
    return np.append(True, (episodes[1:] != episodes[:-1]) | (absent[1:] != absent[:-1]))


def _digest(label: str | None) -> int:
    """A label as 64 bits: equal labels in any file or batch are equal numbers."""
    if label is None:
        return NOBODY
    return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=8).digest(), "little", signed=True)


def whole_numbers(column: Any, name: str) -> NDArray[np.int32]:
    """Whole numbers, MISSING where there is none and STRANGE where there is something else."""
    values, absent = _exact(column, name)
    if _all_fit(values):
        whole = values.astype(np.int32, copy=False)
    else:
        fits = (values > STRANGE) & (values <= LARGEST_INDEX)
        if values.dtype.kind == "f":
            fits &= values == np.floor(values)
        whole = np.where(fits, np.where(fits, values, 0).astype(np.int32), np.int32(STRANGE))
        if values.dtype.kind == "f":
            whole[np.isnan(values)] = MISSING
    return np.ascontiguousarray(whole) if absent is None else np.where(absent, np.int32(MISSING), whole)


def _all_fit(values: NDArray[Any]) -> bool:
    """Whether all values are whole numbers that fit: the common case, by two fast passes."""
    if not values.size:
        return True
    inside = bool(values.min() > STRANGE and values.max() <= LARGEST_INDEX)  # not so if one is NaN
    return inside and (values.dtype.kind != "f" or bool((values == np.floor(values)).all()))


def _exact(column: Any, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """A column as whole numbers of its own width, or as float64; and where it is null (None: nowhere)."""
    column = _plain(column, name)
    absent = None
    if column.null_count:
        absent = column.is_null().to_numpy(zero_copy_only=False)
        column = column.fill_null(0)
    return column.to_numpy(zero_copy_only=False), absent


def _plain(column: Any, name: str) -> Any:
    """A column of numbers as one array: whole numbers, or float64; truth values as 0 and 1."""
    pa = arrow.library()
    if not arrow.is_number(column.type):
        refuse(f"column {name!r}", f"type {column.type}", "numbers (or, for episodes, states and actions, text)")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    target = _plain_type(column.type)
    return (column if column.type == target else column.cast(target)).combine_chunks()


def _plain_type(kind: Any) -> Any:
    """What numbers of an Arrow type are read as."""
    pa = arrow.library()
    if pa.types.is_integer(kind):
        return kind
    if pa.types.is_boolean(kind):
        return pa.int32()
    return pa.int64() if arrow.is_whole_decimal(kind) else pa.float64()
