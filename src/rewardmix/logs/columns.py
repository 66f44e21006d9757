"""Encode the columns of a log as integers: labels become indices, missing values become markers.

Markers are negative numbers that no check accepts as an index, so a missing value is found where indices are checked.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, raise_input_error
from rewardmix.logs import arrow_io

MISSING_INDEX = -(1 << 31)
"""Marker of a missing value: null or NaN."""

INVALID_INDEX = MISSING_INDEX + 1
"""Marker of a value that is not an integer or does not fit."""

MAX_INDEX = (1 << 31) - 1
"""Largest integer that fits."""

MAX_EXACT_FLOAT = 1 << 53
"""Floats below this value represent integers exactly."""
NO_EPISODE = -(1 << 63)
"""Number of rows without an episode. A real episode may have it too; ``absent`` distinguishes them."""


@dataclass(frozen=True)
class ColumnNames:
    """Column names of a log by role.

    Attributes:
        episode: id of the episode of a row: integers or text.
        step: index of the row in its episode; None: rows are in order and complete.
        state: integers from 0, or text.
        action: integers from 0, or text.
        reward: numbers.
        next_state: state after the action, used if the column exists; None: ignore it.
        time: time of the row, which orders the rows of an episode in place of steps; None: steps do.
        propensity: probability of the action under the behavior policy, used if the column exists; None: ignore it.
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
        """Role -> column name, for the roles in use."""
        return {field.name: name for field in fields(self) if (name := getattr(self, field.name)) is not None}

    @property
    def all_names(self) -> list[str]:
        """Names of the columns in use."""
        return list(self.roles.values())


@dataclass(frozen=True)
class StateMerge:
    """Merge rare states into one state.

    Attributes:
        labels: labels or numbers of the states that are kept, in order.
        state_names: names of the kept states, and last the name of the merged state.
    """

    labels: tuple[Any, ...]
    state_names: tuple[str, ...]

    @property
    def merged_index(self) -> int:
        """Index of the merged state."""
        return len(self.labels)

    def __call__(self, states: NDArray[np.int32]) -> NDArray[np.int32]:
        """Map integer states to indices; negative markers stay."""
        labels = np.asarray(self.labels, np.int32)
        index = np.searchsorted(labels, states)
        is_frequent = labels[np.minimum(index, labels.size - 1)] == states
        merged = np.where(is_frequent, index, self.merged_index).astype(np.int32)
        return np.where(states < 0, states, merged)


@dataclass(frozen=True)
class ColumnCoding:
    """Encoding of column values as integers.

    Attributes:
        names: column names.
        label_columns: columns that hold labels.
        state_names: index -> label, if states are labels.
        action_names: index -> label, if actions are labels.
        first_step: number of the first step, 0 or 1.
        state_merge: merge of rare states, if requested.
    """

    names: ColumnNames
    label_columns: frozenset[str] = frozenset()
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    first_step: int = 0
    state_merge: StateMerge | None = None


@dataclass(frozen=True, eq=False)
class Columns:
    """N rows as arrays; ``step``, ``next_state`` and ``propensity`` are empty if the log has no such column.

    Attributes:
        episode: (N,) int64 episode ids.
        step: (N,) int32, from 0.
        state: (N,) int32.
        action: (N,) int32.
        reward: (N,) float64, NaN where missing.
        next_state: (N,) int32.
        propensity: (N,) float64, NaN where missing.
        absent: (N,) whether a row has no episode (null, or not an integer); any integer is a possible episode id.
    """

    episode: NDArray[np.int64]
    step: NDArray[np.int32]
    state: NDArray[np.int32]
    action: NDArray[np.int32]
    reward: Floats
    next_state: NDArray[np.int32]
    propensity: Floats
    absent: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.episode.size)

    def readonly_arrays(self) -> tuple[NDArray[Any], ...]:
        """Return read-only views of the arrays.

        Kernels are compiled per type of array and writability. Read-only views give one type whatever the arrays come
        from.
        """
        views = [getattr(self, field.name)[:] for field in fields(self)]
        for view in views:
            view.setflags(write=False)
        return tuple(views)

    def slice_rows(self, begin: int, end: int) -> Columns:
        """Select rows begin .. end - 1."""
        return Columns(*(getattr(self, field.name)[begin:end] for field in fields(self)))

    def __add__(self, other: Columns) -> Columns:
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return Columns(*(np.concatenate(pair) for pair in pairs))


def decode_table(table: Any, coding: ColumnCoding) -> Columns:
    """Encode the columns of an Arrow table."""
    names = coding.names
    empty = np.empty(0, np.int32)
    step = empty if names.step is None else encode_ints(table.column(names.step), names.step)
    if coding.first_step:
        # Markers stay markers: only real step numbers are shifted to begin at 0.
        step = np.where(step <= INVALID_INDEX, step, step - np.int32(coding.first_step))
    next_states = empty if names.next_state is None else _encode_states(table, names.next_state, coding)
    episodes, absent = encode_episodes(table.column(names.episode), names.episode)
    return Columns(
        episodes,
        step,
        _encode_states(table, names.state, coding),
        _encode_labels(table, names.action, coding.action_names),
        to_floats(table.column(names.reward), names.reward),
        next_states,
        np.empty(0) if names.propensity is None else to_floats(table.column(names.propensity), names.propensity),
        absent,
    )


def to_floats(column: Any, name: str) -> Floats:
    """Convert a column to floats, NaN where it is null."""
    pa = arrow_io.import_pyarrow()
    column = _to_plain_numbers(column, name)
    if column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False))


def distinct_numbers(column: Any, name: str) -> Floats:
    """Return the distinct numbers of a column as floats."""
    pa = arrow_io.import_pyarrow()
    return to_floats(pa.chunked_array([pa.compute.unique(_to_plain_numbers(column, name))]), name)


def distinct_labels(column: Any) -> list[str]:
    """List the distinct labels of a text column."""
    return [label for label in _dictionary_encode(column)[1] if label is not None]


def count_labels(column: Any, name: str, label_columns: frozenset[str]) -> dict[Any, int]:
    """Count how often each label of a text column, or each integer from 0, occurs."""
    if name in label_columns:
        codes, dictionary = _dictionary_encode(column)
        counts = np.bincount(codes[codes >= 0], minlength=len(dictionary))
        return {label: int(n) for label, n in zip(dictionary, counts, strict=True) if label is not None and n}
    integers = encode_ints(column, name)
    values, counts = np.unique(integers[integers >= 0], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _encode_states(table: Any, name: str, coding: ColumnCoding) -> NDArray[np.int32]:
    """Encode a column of states, rare states as the merged state."""
    state_merge = coding.state_merge
    if state_merge is None or coding.state_names:
        return _encode_labels(
            table, name, coding.state_names, INVALID_INDEX if state_merge is None else state_merge.merged_index
        )
    return state_merge(encode_ints(table.column(name), name))


def _encode_labels(
    table: Any, name: str, vocabulary: tuple[str, ...], unknown: int = INVALID_INDEX
) -> NDArray[np.int32]:
    column = table.column(name)
    if not vocabulary:
        return encode_ints(column, name)
    codes, dictionary = _dictionary_encode(column)
    index_of = {label: i for i, label in enumerate(vocabulary)}
    index = [MISSING_INDEX if label is None else index_of.get(label, unknown) for label in dictionary]
    return np.array([*index, MISSING_INDEX], np.int32)[codes]


def _dictionary_encode(column: Any) -> tuple[NDArray[np.int64], list[str | None]]:
    """Return codes (-1 for null) and the list of labels that they index."""
    pa = arrow_io.import_pyarrow()
    if pa.types.is_null(column.type):
        return np.full(len(column), -1, np.int64), []
    if pa.types.is_dictionary(column.type):
        array = column.unify_dictionaries().combine_chunks()
    else:
        array = column.combine_chunks().dictionary_encode()
    codes = array.indices.cast(pa.int64())
    codes = codes.fill_null(-1) if codes.null_count else codes
    return codes.to_numpy(zero_copy_only=False), array.dictionary.to_pylist()


def encode_episodes(column: Any, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Encode episode ids as 64-bit integers, labels by their hash, and return where there is no id.

    The number of a row without an id has no meaning.
    """
    if arrow_io.is_text(column.type):
        # Python handles each distinct label once; the rows are mapped by array indexing. Code -1 selects the last
        # entry, the marker of a missing value.
        codes, labels = _dictionary_encode(column)
        missing = np.array([*(label is None for label in labels), True])
        return np.array([*map(_hash_label, labels), NO_EPISODE], np.int64)[codes], missing[codes]
    values, absent = _to_exact_numbers(column, name)
    absent = np.zeros(values.size, np.bool_) if absent is None else absent
    if values.dtype.kind == "f":
        # Beyond 2^53 neighboring integers become one float, so float ids there would merge different episodes.
        fits = (values == np.floor(values)) & (np.abs(values) < MAX_EXACT_FLOAT)
        ids, absent = np.where(fits, values, 0.0).astype(np.int64), absent | ~fits
    else:
        # Unsigned 64-bit ids are reinterpreted by their bits. Only equality of ids matters, and that keeps them
        # distinct.
        ids = values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64, copy=False)
    return np.where(absent, NO_EPISODE, ids) if absent.any() else np.ascontiguousarray(ids), absent


def encode_episode_ids(column: Any, name: str) -> NDArray[np.int64]:
    """Return the numbers of ``encode_episodes`` without the mask."""
    return encode_episodes(column, name)[0]


def mark_episode_starts(episodes: NDArray[np.int64], absent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark the rows that begin an episode: the id differs from the row before, or only one of the two has an id."""
    return np.append(True, (episodes[1:] != episodes[:-1]) | (absent[1:] != absent[:-1]))


def _hash_label(label: str | None) -> int:
    """Hash a label to 64 bits; equal labels of any file or batch give equal numbers."""
    if label is None:
        return NO_EPISODE
    # Python's own hash differs between processes; BLAKE2 does not, so workers agree on ids without a shared table.
    return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=8).digest(), "little", signed=True)


def encode_ints(column: Any, name: str) -> NDArray[np.int32]:
    """Convert a column to int32: MISSING_INDEX for null, INVALID_INDEX for a value that is no int32."""
    values, absent = _to_exact_numbers(column, name)
    if _fits_int32(values):
        integers = values.astype(np.int32, copy=False)
    else:
        fits = (values > INVALID_INDEX) & (values <= MAX_INDEX)
        if values.dtype.kind == "f":
            fits &= values == np.floor(values)
        # Casting a float that does not fit is undefined behavior, so such values are replaced by 0 before the cast.
        integers = np.where(fits, np.where(fits, values, 0).astype(np.int32), np.int32(INVALID_INDEX))
        if values.dtype.kind == "f":
            integers[np.isnan(values)] = MISSING_INDEX
    return np.ascontiguousarray(integers) if absent is None else np.where(absent, np.int32(MISSING_INDEX), integers)


def _fits_int32(values: NDArray[Any]) -> bool:
    """Return whether all values are integers that fit: the common case, checked in two fast passes."""
    if not values.size:
        return True
    # Comparisons with NaN are false, so an array with a NaN takes the slow path.
    inside = bool(values.min() > INVALID_INDEX and values.max() <= MAX_INDEX)
    return inside and (values.dtype.kind != "f" or bool((values == np.floor(values)).all()))


def _to_exact_numbers(column: Any, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Convert a column to integers of its own width or to float64, and return where it is null (None: nowhere)."""
    column = _to_plain_numbers(column, name)
    absent = None
    if column.null_count:
        absent = column.is_null().to_numpy(zero_copy_only=False)
        # Arrow converts integers with nulls to floats, which would round large ids. Filling first keeps them integers.
        column = column.fill_null(0)
    return column.to_numpy(zero_copy_only=False), absent


def _to_plain_numbers(column: Any, name: str) -> Any:
    """Convert a numeric column to one array of integers or float64; booleans become 0 and 1."""
    pa = arrow_io.import_pyarrow()
    if not arrow_io.is_number(column.type):
        raise_input_error(
            f"column {name!r}", f"type {column.type}", "numbers (or, for episodes, states and actions, text)"
        )
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    target = _number_type(column.type)
    return (column if column.type == target else column.cast(target)).combine_chunks()


def _number_type(kind: Any) -> Any:
    """Return the type that numbers of an Arrow type are converted to."""
    pa = arrow_io.import_pyarrow()
    if pa.types.is_integer(kind):
        return kind
    if pa.types.is_boolean(kind):
        return pa.int32()
    return pa.int64() if arrow_io.is_whole_decimal(kind) else pa.float64()
