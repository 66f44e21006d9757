"""Episodes as padded arrays of states, actions and reward indices.

Steps after the end of an episode hold padding (-1), which differs from a reward of 0. The hidden type is not stored,
because it is not observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardmix._core.checks import (
    Floats,
    as_array,
    as_count,
    as_indices,
    as_readonly_copy,
    as_reward_values,
    check_shape,
    first_index,
    format_index,
    mark_readonly,
    raise_input_error,
)
from rewardmix._core.int_dtypes import action_dtype, length_dtype, outcome_dtype, state_dtype, symbol_dtype
from rewardmix._core.storage import get_metadata
from rewardmix.reward_scale import NO_LEVEL, RewardScale

PADDING = -1
"""Marker of a step after the end of an episode."""

ARRAY_FIELDS = ("states", "actions", "reward_indices", "lengths")
"""Names of the arrays with one row per episode."""


@dataclass(frozen=True, eq=False)
class Episodes:
    """K episodes of at most H steps.

    Arrays are validated, and copied if they are writable elsewhere. So the contents stay within the sizes, which
    compiled kernels rely on when they index.

    Attributes:
        states: (K, H + 1) integers (int32, wider if needed), padding after the final state of an episode.
        actions: (K, H) integers (int16, wider if needed), padding after the end of an episode.
        reward_indices: (K, H) integers (int8, wider if needed), index into ``reward_values``, padding after the end of
            an episode.
        lengths: (K,) integers (int32, wider if needed), number of steps.
        num_states: number of states S.
        num_actions: number of actions A.
        reward_values: (Z,) values of a reward, increasing.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> episodes = rm.simulate(rm.uniform_policy(model), model, 1000)
        >>> len(episodes), episodes.horizon, episodes.states.shape
        (1000, 8, (1000, 9))
        >>> round(float(episodes.returns.mean()), 2)
        3.5
        >>> len(episodes[episodes.returns > 4])
        436
    """

    states: NDArray[Any]
    actions: NDArray[Any]
    reward_indices: NDArray[Any]
    lengths: NDArray[Any]
    num_states: int
    num_actions: int
    reward_values: Floats

    def __post_init__(self) -> None:
        sizes = as_count("num_states", self.num_states), as_count("num_actions", self.num_actions)
        values = as_reward_values(self.reward_values)
        _, horizon = _shape_of("actions", as_array("actions", self.actions))
        widths = state_dtype(sizes[0]), action_dtype(sizes[1]), outcome_dtype(values.size), length_dtype(horizon)
        arrays = [
            _as_int_array(name, getattr(self, name), width) for name, width in zip(ARRAY_FIELDS, widths, strict=True)
        ]
        count = arrays[3].size
        for name, array, shape in zip(
            ARRAY_FIELDS, arrays, ((count, horizon + 1), *2 * [(count, horizon)], (count,)), strict=True
        ):
            check_shape(name, array, shape)
        _check_content(arrays, *sizes, values.size)
        _set_fields(self, dict(zip(ARRAY_FIELDS, arrays, strict=True)), *sizes, values)

    @staticmethod
    def from_valid_arrays(
        arrays: Mapping[str, NDArray[Any]], num_states: int, num_actions: int, reward_values: Floats
    ) -> Episodes:
        """Make episodes without validation, from arrays of other episodes or of kernels that stay within the sizes."""
        episodes = object.__new__(Episodes)
        _set_fields(
            episodes,
            {name: mark_readonly(arrays[name]) for name in ARRAY_FIELDS},
            num_states,
            num_actions,
            reward_values,
        )
        return episodes

    def __len__(self) -> int:
        return int(self.lengths.size)

    def __getitem__(self, index: Any) -> Episodes:
        """Select episodes by a slice, mask or index array."""
        if isinstance(index, int | np.integer):
            # A single index gives episodes too. For -1 the end of the slice would be 0, which ``or None`` corrects.
            index = slice(int(index), int(index) + 1 or None)
        try:
            if self.lengths[index].ndim != 1:
                raise IndexError
        except IndexError:
            raise_input_error("index", type(index).__name__, f"a slice, mask or index array of {len(self)} episodes")
        return self._with({name: getattr(self, name)[index] for name in ARRAY_FIELDS})

    def __add__(self, other: Episodes) -> Episodes:
        self_spec, other_spec = self.spec, other.spec
        if self_spec != other_spec:
            raise_input_error(
                "other", f"(states, actions, horizon, reward values) = {other_spec}", f"{self_spec}, as on the left"
            )
        return self._with({name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in ARRAY_FIELDS})

    def _with(self, arrays: Mapping[str, NDArray[Any]]) -> Episodes:
        return Episodes.from_valid_arrays(arrays, self.num_states, self.num_actions, self.reward_values)

    def __repr__(self) -> str:
        return (
            f"Episodes({len(self)}, horizon={self.horizon}, states={self.num_states}, actions={self.num_actions}, "
            f"reward_values={tuple(self.reward_values.tolist())})"
        )

    @property
    def spec(self) -> tuple[int, int, int, tuple[float, ...]]:
        """Spec (S, A, H, reward values); episodes can be added only if it is equal."""
        return self.num_states, self.num_actions, self.horizon, tuple(self.reward_values.tolist())

    @property
    def horizon(self) -> int:
        """Horizon H, the maximum number of steps of an episode."""
        return int(self.actions.shape[1])

    @property
    def step_mask(self) -> NDArray[np.bool_]:
        """Mask (K, H) of the steps that took place."""
        return self.reward_indices >= 0

    @property
    def rewards(self) -> Floats:
        """Rewards (K, H), NaN after the end of an episode."""
        return np.where(self.step_mask, self.reward_values[self.reward_indices], np.nan)

    @property
    def returns(self) -> Floats:
        """Return (K,) of each episode, the sum of its rewards."""
        returns: Floats = np.where(self.step_mask, self.reward_values[self.reward_indices], 0.0).sum(axis=1)
        return returns

    @property
    def symbols(self) -> NDArray[Any]:
        """Symbols (N,) of all steps, x * Z + z with x = s * A + a, episode after episode."""
        from rewardmix.episode_kernels import list_symbols

        num_values = int(self.reward_values.size)
        width = symbol_dtype(self.num_states * self.num_actions * num_values)
        symbols = np.empty(int(self.lengths.sum(dtype=np.int64)), width)
        list_symbols(
            self.states, self.actions, self.reward_indices, self.lengths, self.num_actions, num_values, symbols
        )
        return symbols

    @staticmethod
    def from_arrays(
        states: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        *,
        num_states: int,
        num_actions: int,
        lengths: ArrayLike | None = None,
        reward_values: ArrayLike | None = None,
    ) -> Episodes:
        """Make episodes from arrays of states, actions and rewards.

        Args:
            states: (K, H + 1) integers; the last column is the state after the last action. Shape (K, H) is accepted if
                that state is unknown; the last transition is then missing.
            actions: (K, H) integers.
            rewards: (K, H) numbers.
            num_states: Number of states S.
            num_actions: Number of actions A.
            lengths: (K,) number of steps of each episode. ``None``: all have H. Entries after the end are ignored.
            reward_values: (Z,) values that a reward can take. ``None`` uses the values that occur, or 0 and 1 if there
                are no others.

        Returns:
            The episodes.

        Raises:
            InputError: If an entry is out of range, or a reward is not finite or not among ``reward_values``.

        Examples:
            >>> import rewardmix as rm
            >>> states, actions, rewards = [[0, 1, 1], [0, 0, 1]], [[0, 1], [1, 0]], [[0, 1], [1, 1]]
            >>> episodes = rm.Episodes.from_arrays(states, actions, rewards, num_states=2, num_actions=2)
            >>> episodes.returns.tolist()
            [1.0, 2.0]
        """
        count, horizon = _shape_of("actions", as_array("actions", actions))
        steps = _as_lengths(lengths, count, horizon)
        step_mask = np.arange(horizon) < steps[:, None]
        state_array = _as_numeric_array("states", states)
        if state_array.shape == (count, horizon):
            state_array = np.concatenate([state_array, np.full((count, 1), PADDING, state_array.dtype)], axis=1)
            state_mask = np.concatenate([step_mask, np.zeros((count, 1), bool)], axis=1)
        else:
            check_shape("states", state_array, (count, horizon + 1))
            state_mask = np.arange(horizon + 1) <= steps[:, None]
        # Entries after the end may be anything, NaN included, so they are replaced by 0 before the check.
        valid_states = as_indices("states", np.where(state_mask, state_array, 0), as_count("num_states", num_states))
        action_array = _as_numeric_array("actions", actions)
        action_array = as_indices("actions", np.where(step_mask, action_array, 0), as_count("num_actions", num_actions))
        reward_array = _as_float_array("rewards", rewards)
        check_shape("rewards", reward_array, (count, horizon))
        bad = step_mask & ~np.isfinite(reward_array)
        if bad.any():
            raise_input_error(
                format_index("rewards", first_index(bad)), float(reward_array[first_index(bad)]), "a finite reward"
            )
        values = _reward_values(reward_values, reward_array[step_mask])
        arrays = {
            "states": np.where(state_mask, valid_states, PADDING).astype(state_dtype(num_states)),
            "actions": np.where(step_mask, action_array, PADDING).astype(action_dtype(num_actions)),
            "reward_indices": reward_indices(reward_array, step_mask, values),
            "lengths": steps,
        }
        return Episodes.from_valid_arrays(arrays, int(num_states), int(num_actions), values)


def _set_fields(
    episodes: Episodes, arrays: Mapping[str, NDArray[Any]], num_states: int, num_actions: int, reward_values: Floats
) -> None:
    sizes = {"num_states": num_states, "num_actions": num_actions, "reward_values": reward_values}
    for name, value in {**arrays, **sizes}.items():
        # The dataclass is frozen, so fields are set through ``object``.
        object.__setattr__(episodes, name, value)


def _as_int_array(argument: str, values: Any, width: Any) -> NDArray[Any]:
    """Convert to read-only integers of this width; raise an error for a value that does not fit."""
    array = as_array(argument, values)
    if array.dtype.kind not in "iu":
        raise_input_error(argument, f"dtype {array.dtype}", "whole numbers")
    # Range checks cost a pass over the data and are needed only if the given type is wider than the stored one.
    if not np.can_cast(array.dtype, width) and array.size:
        limits = np.iinfo(width)
        bad = (array < limits.min) | (array > limits.max)
        if bad.any():
            raise_input_error(
                format_index(argument, first_index(bad)),
                int(array[first_index(bad)]),
                f"a number of {8 * width.itemsize} bits",
            )
    int_array: NDArray[Any] = as_readonly_copy(array, width)
    return int_array


def _as_numeric_array(argument: str, values: Any) -> NDArray[Any]:
    """Check for integers or floats; entries after the end of an episode may be anything."""
    array = as_array(argument, values)
    if array.dtype.kind not in "iuf":
        raise_input_error(argument, f"dtype {array.dtype}", "whole numbers")
    return array


def _as_float_array(argument: str, values: Any) -> Floats:
    """Convert to floats, which may be infinite or NaN."""
    array = as_array(argument, values)
    if array.dtype.kind not in "iufb":
        raise_input_error(argument, f"dtype {array.dtype}", "numbers")
    return array.astype(np.float64)


def _check_content(arrays: Sequence[NDArray[Any]], num_states: int, num_actions: int, num_values: int) -> None:
    """Raise an error for the first invalid length, state, action or reward index."""
    if not arrays[3].size or _passes_fast_check(arrays, num_states, num_actions, num_values):
        return
    from rewardmix import episode_kernels as kernels

    states, actions, reward_indices, lengths = arrays
    sizes = num_states, num_actions, num_values
    fault, episode, step = kernels.find_first_fault(states, actions, reward_indices, lengths, *sizes)
    if fault == kernels.NO_FAULT:
        return
    horizon = arrays[1].shape[1]
    if fault == kernels.LENGTH:
        raise_input_error(
            format_index("lengths", (episode,)), int(arrays[3][episode]), f"at least one step and at most {horizon}"
        )
    if fault == kernels.DATA_AFTER_END:
        raise_input_error(
            f"episode {episode}",
            f"a value at step {step}",
            f"the padding {PADDING} after its {arrays[3][episode]} steps",
        )
    kind = {kernels.STATE: 0, kernels.ACTION: 1, kernels.REWARD_INDEX: 2}[fault]
    count = (num_states, num_actions, num_values)[kind]
    raise_input_error(
        format_index(ARRAY_FIELDS[kind], (episode, step)),
        int(arrays[kind][episode, step]),
        f"a whole number from 0 to {count - 1}",
    )


def _passes_fast_check(arrays: Sequence[NDArray[Any]], num_states: int, num_actions: int, num_values: int) -> bool:
    """Return whether all episodes have H steps and valid entries.

    This check is fast and succeeds for most data; the slower search for the first fault runs only if it fails.
    """
    states, actions, reward_indices, lengths = arrays
    if lengths.min() != actions.shape[1] or lengths.max() != actions.shape[1]:
        return False
    sizes = ((reward_indices, num_values), (actions, num_actions), (states, num_states))
    # Viewed as unsigned, -1 is the largest value, so one maximum checks both ends of the range.
    return all(array.view(f"u{array.itemsize}").max() < count for array, count in sizes)


def allocate_episodes(
    count: int, horizon: int, num_states: int, num_actions: int, num_values: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Allocate uninitialized states, actions and reward indices of ``count`` episodes, wide enough for the sizes."""
    return (
        np.empty((count, horizon + 1), state_dtype(num_states)),
        np.empty((count, horizon), action_dtype(num_actions)),
        np.empty((count, horizon), outcome_dtype(num_values)),
    )


def reward_indices(rewards: Floats, present: NDArray[np.bool_], values: Floats) -> NDArray[Any]:
    """Return the index of each reward among the increasing values; raise an error for a reward that is none of them."""
    # Padding is replaced by a valid reward first, so that only real steps can fail.
    levels = RewardScale(values).levels(np.where(present, rewards, values[0]))
    bad = levels == NO_LEVEL
    if bad.any():
        raise_input_error(
            format_index("rewards", first_index(bad)),
            float(rewards[first_index(bad)]),
            f"one of the reward values {values.tolist()}",
        )
    return np.where(present, levels, PADDING).astype(outcome_dtype(values.size))


def _shape_of(argument: str, array: NDArray[Any]) -> tuple[int, int]:
    if array.ndim != 2 or array.shape[1] < 1:
        raise_input_error(argument, f"shape {array.shape}", "shape (episodes, horizon) with a horizon of at least 1")
    return int(array.shape[0]), int(array.shape[1])


def _as_lengths(lengths: ArrayLike | None, count: int, horizon: int) -> NDArray[Any]:
    if lengths is None:
        return np.full(count, horizon, length_dtype(horizon))
    array = as_indices("lengths", lengths, horizon + 1, (count,))
    if (array < 1).any():
        raise_input_error(
            format_index("lengths", first_index(array < 1)), 0, f"at least one step and at most {horizon}"
        )
    return array.astype(length_dtype(horizon))


def _reward_values(values: ArrayLike | None, rewards: Floats) -> Floats:
    if values is not None:
        return as_reward_values(values)
    distinct = np.unique(rewards)
    # Reward indices are stored as int8, and more than 127 distinct values are probably measurements.
    if distinct.size > 127:
        raise_input_error(
            "rewards", f"{distinct.size} different values", "at most 127; pass reward_values, or round the rewards"
        )
    binary = np.isin(distinct, (0.0, 1.0)).all()
    # A model needs two reward values, so a single value, which occurs in tiny data sets, is read as binary.
    return as_reward_values((0.0, 1.0) if binary or distinct.size < 2 else distinct)


def pack_episodes(episodes: Episodes) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and numbers of episodes, for a file."""
    arrays = {name: getattr(episodes, name) for name in (*ARRAY_FIELDS, "reward_values")}
    return arrays, {"num_states": episodes.num_states, "num_actions": episodes.num_actions}


def unpack_episodes(arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Episodes:
    """Make episodes from the arrays and numbers of a file, validated."""
    states, actions, reward_indices, lengths = (arrays[name] for name in ARRAY_FIELDS)
    sizes = get_metadata(meta, "num_states", int), get_metadata(meta, "num_actions", int)
    return Episodes(states, actions, reward_indices, lengths, *sizes, arrays["reward_values"])
