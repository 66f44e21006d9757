"""Episodes: what was seen, as padded arrays.

Steps after the end of an episode that ended early are absent (-1), which is not a reward of zero.
The hidden context is not here: nobody saw it.
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
    as_reward_values,
    at,
    check_shape,
    first,
    owned,
    refuse,
    shut,
)
from rewardmix._core.storage import entry
from rewardmix._core.widths import action_width, length_width, outcome_width, state_width, symbol_width
from rewardmix.reward_scale import NO_LEVEL, RewardScale

ABSENT = -1
"""Marks a step that did not take place."""

PARTS = ("states", "actions", "outcomes", "lengths")
"""The arrays with one row for each episode."""


@dataclass(frozen=True, eq=False)
class Episodes:
    """K episodes of at most H steps.

    Whatever arrays it is made from are checked, and copied where somebody could still write to them: what is in an
    Episodes is within its sizes and stays so, and kernels rely on that.

    Attributes:
        states: (K, H + 1) whole numbers as wide as ``widths`` says (int32), ABSENT after the last state of an episode.
        actions: (K, H) likewise (int16), ABSENT where there was no step.
        outcomes: (K, H) likewise (int8), index of the reward in ``reward_values``, ABSENT where there was no step.
        lengths: (K,) likewise (int32), steps taken.
        num_states: S.
        num_actions: A.
        reward_values: (Z,).
    """

    states: NDArray[Any]
    actions: NDArray[Any]
    outcomes: NDArray[Any]
    lengths: NDArray[Any]
    num_states: int
    num_actions: int
    reward_values: Floats

    def __post_init__(self) -> None:
        sizes = as_count("num_states", self.num_states), as_count("num_actions", self.num_actions)
        values = as_reward_values(self.reward_values)
        _, horizon = _shape_of("actions", as_array("actions", self.actions))
        widths = state_width(sizes[0]), action_width(sizes[1]), outcome_width(values.size), length_width(horizon)
        parts = [_whole(name, getattr(self, name), width) for name, width in zip(PARTS, widths, strict=True)]
        count = parts[3].size
        for name, part, shape in zip(
            PARTS, parts, ((count, horizon + 1), *2 * [(count, horizon)], (count,)), strict=True
        ):
            check_shape(name, part, shape)
        _check_content(parts, *sizes, values.size)
        _fill(self, dict(zip(PARTS, parts, strict=True)), *sizes, values)

    @staticmethod
    def trusted(
        parts: Mapping[str, NDArray[Any]], num_states: int, num_actions: int, reward_values: Floats
    ) -> Episodes:
        """Episodes without a look: for arrays made from other Episodes, or by kernels that cannot leave the sizes."""
        episodes = object.__new__(Episodes)
        _fill(episodes, {name: shut(parts[name]) for name in PARTS}, num_states, num_actions, reward_values)
        return episodes

    def __len__(self) -> int:
        return int(self.lengths.size)

    def __getitem__(self, chosen: Any) -> Episodes:
        """The episodes of a slice, mask or index array."""
        if isinstance(chosen, int | np.integer):
            chosen = slice(int(chosen), int(chosen) + 1 or None)
        try:
            if self.lengths[chosen].ndim != 1:
                raise IndexError
        except IndexError:
            refuse("chosen", type(chosen).__name__, f"a slice, mask or index array of {len(self)} episodes")
        return self._with({name: getattr(self, name)[chosen] for name in PARTS})

    def __add__(self, other: Episodes) -> Episodes:
        mine, yours = self.world, other.world
        if mine != yours:
            refuse("other", f"(states, actions, horizon, reward values) = {yours}", f"{mine}, as on the left")
        return self._with({name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in PARTS})

    def _with(self, parts: Mapping[str, NDArray[Any]]) -> Episodes:
        return Episodes.trusted(parts, self.num_states, self.num_actions, self.reward_values)

    def __repr__(self) -> str:
        return (
            f"Episodes({len(self)}, horizon={self.horizon}, states={self.num_states}, actions={self.num_actions}, "
            f"reward_values={tuple(self.reward_values.tolist())})"
        )

    @property
    def world(self) -> tuple[int, int, int, tuple[float, ...]]:
        """(S, A, H, reward values): episodes add only when these agree."""
        return self.num_states, self.num_actions, self.horizon, tuple(self.reward_values.tolist())

    @property
    def horizon(self) -> int:
        """H, the number of steps that an episode can have."""
        return int(self.actions.shape[1])

    @property
    def present(self) -> NDArray[np.bool_]:
        """(K, H): which steps took place."""
        return self.outcomes >= 0

    @property
    def rewards(self) -> Floats:
        """(K, H): the rewards, NaN where there was no step."""
        return np.where(self.present, self.reward_values[self.outcomes], np.nan)

    @property
    def returns(self) -> Floats:
        """(K,): the sum of the rewards of each episode."""
        returns: Floats = np.where(self.present, self.reward_values[self.outcomes], 0.0).sum(axis=1)
        return returns

    @property
    def symbols(self) -> NDArray[Any]:
        """(N,): x*Z + z of the steps that took place, x = s*A + a, episode after episode."""
        from rewardmix.episodes_kernels import list_symbols

        num_values = int(self.reward_values.size)
        width = symbol_width(self.num_states * self.num_actions * num_values)
        symbols = np.empty(int(self.lengths.sum(dtype=np.int64)), width)
        list_symbols(self.states, self.actions, self.outcomes, self.lengths, self.num_actions, num_values, symbols)
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
        """Episodes from plain arrays.

        Args:
            states: (K, H + 1) whole numbers, the last column being where the last action led. If nobody kept it,
                (K, H) is taken too, and the last move is absent.
            actions: (K, H) whole numbers.
            rewards: (K, H) numbers.
            num_states: S.
            num_actions: A.
            lengths: (K,) steps of each episode, H if left out. What lies behind the end is ignored.
            reward_values: (Z,) the values a reward can take; left out, those that occur (0 and 1 if nothing else does).
        """
        count, horizon = _shape_of("actions", as_array("actions", actions))
        steps = _lengths(lengths, count, horizon)
        here = np.arange(horizon) < steps[:, None]
        given = _some("states", states)
        if given.shape == (count, horizon):
            given = np.concatenate([given, np.full((count, 1), ABSENT, given.dtype)], axis=1)
            there = np.concatenate([here, np.zeros((count, 1), bool)], axis=1)
        else:
            check_shape("states", given, (count, horizon + 1))
            there = np.arange(horizon + 1) <= steps[:, None]
        path = as_indices("states", np.where(there, given, 0), as_count("num_states", num_states))
        played = _some("actions", actions)
        played = as_indices("actions", np.where(here, played, 0), as_count("num_actions", num_actions))
        paid = _numbers("rewards", rewards)
        check_shape("rewards", paid, (count, horizon))
        bad = here & ~np.isfinite(paid)
        if bad.any():
            refuse(at("rewards", first(bad)), float(paid[first(bad)]), "a finite reward")
        values = _reward_values(reward_values, paid[here])
        parts = {
            "states": np.where(there, path, ABSENT).astype(state_width(num_states)),
            "actions": np.where(here, played, ABSENT).astype(action_width(num_actions)),
            "outcomes": outcomes_of(paid, here, values),
            "lengths": steps,
        }
        return Episodes.trusted(parts, int(num_states), int(num_actions), values)


def _fill(
    episodes: Episodes, parts: Mapping[str, NDArray[Any]], num_states: int, num_actions: int, reward_values: Floats
) -> None:
    sizes = {"num_states": num_states, "num_actions": num_actions, "reward_values": reward_values}
    for name, value in {**parts, **sizes}.items():
        object.__setattr__(episodes, name, value)


def _whole(argument: str, values: Any, width: Any) -> NDArray[Any]:
    """Whole numbers of this width that nobody can write to; what does not fit into it is refused."""
    array = as_array(argument, values)
    if array.dtype.kind not in "iu":
        refuse(argument, f"dtype {array.dtype}", "whole numbers")
    if not np.can_cast(array.dtype, width) and array.size:
        limits = np.iinfo(width)
        bad = (array < limits.min) | (array > limits.max)
        if bad.any():
            refuse(at(argument, first(bad)), int(array[first(bad)]), f"a number of {8 * width.itemsize} bits")
    whole: NDArray[Any] = owned(array, width)
    return whole


def _some(argument: str, values: Any) -> NDArray[Any]:
    """Whole numbers or floats, whatever they are where nothing took place."""
    array = as_array(argument, values)
    if array.dtype.kind not in "iuf":
        refuse(argument, f"dtype {array.dtype}", "whole numbers")
    return array


def _numbers(argument: str, values: Any) -> Floats:
    """Numbers, finite or not."""
    array = as_array(argument, values)
    if array.dtype.kind not in "iufb":
        refuse(argument, f"dtype {array.dtype}", "numbers")
    return array.astype(np.float64)


def _check_content(parts: Sequence[NDArray[Any]], num_states: int, num_actions: int, num_values: int) -> None:
    """Refuse the first length, state, action or outcome that cannot be."""
    if not parts[3].size or _plainly_sound(parts, num_states, num_actions, num_values):
        return
    from rewardmix import episodes_kernels as kernels

    states, actions, outcomes, lengths = parts
    sizes = num_states, num_actions, num_values
    fault, episode, step = kernels.first_fault(states, actions, outcomes, lengths, *sizes)
    if fault == kernels.SOUND:
        return
    horizon = parts[1].shape[1]
    if fault == kernels.LENGTH:
        refuse(at("lengths", (episode,)), int(parts[3][episode]), f"at least one step and at most {horizon}")
    if fault == kernels.LEFT_OVER:
        refuse(f"episode {episode}", f"something at step {step}", f"{ABSENT} behind its {parts[3][episode]} steps")
    which = {kernels.STATE: 0, kernels.ACTION: 1, kernels.OUTCOME: 2}[fault]
    count = (num_states, num_actions, num_values)[which]
    refuse(at(PARTS[which], (episode, step)), int(parts[which][episode, step]), f"a whole number from 0 to {count - 1}")


def _plainly_sound(parts: Sequence[NDArray[Any]], num_states: int, num_actions: int, num_values: int) -> bool:
    """Whether all steps took place and all numbers are in range: quickly seen, and true of most episodes."""
    states, actions, outcomes, lengths = parts
    if lengths.min() != actions.shape[1] or lengths.max() != actions.shape[1]:
        return False
    sizes = ((outcomes, num_values), (actions, num_actions), (states, num_states))
    return all(part.view(f"u{part.itemsize}").max() < count for part, count in sizes)  # -1 is the largest of all


def room_for(
    count: int, horizon: int, num_states: int, num_actions: int, num_values: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """States, actions and outcomes of ``count`` episodes, still to be filled, wide enough for these sizes."""
    return (
        np.empty((count, horizon + 1), state_width(num_states)),
        np.empty((count, horizon), action_width(num_actions)),
        np.empty((count, horizon), outcome_width(num_values)),
    )


def outcomes_of(rewards: Floats, present: NDArray[np.bool_], values: Floats) -> NDArray[Any]:
    """Index of each present reward among the increasing values; a reward that is none of them is refused."""
    levels = RewardScale(values).levels(np.where(present, rewards, values[0]))
    bad = levels == NO_LEVEL
    if bad.any():
        refuse(at("rewards", first(bad)), float(rewards[first(bad)]), f"one of the reward values {values.tolist()}")
    return np.where(present, levels, ABSENT).astype(outcome_width(values.size))


def _shape_of(argument: str, array: NDArray[Any]) -> tuple[int, int]:
    if array.ndim != 2 or array.shape[1] < 1:
        refuse(argument, f"shape {array.shape}", "shape (episodes, horizon) with a horizon of at least 1")
    return int(array.shape[0]), int(array.shape[1])


def _lengths(lengths: ArrayLike | None, count: int, horizon: int) -> NDArray[Any]:
    if lengths is None:
        return np.full(count, horizon, length_width(horizon))
    array = as_indices("lengths", lengths, horizon + 1, (count,))
    if (array < 1).any():
        refuse(at("lengths", first(array < 1)), 0, f"at least one step and at most {horizon}")
    return array.astype(length_width(horizon))


def _reward_values(values: ArrayLike | None, seen: Floats) -> Floats:
    if values is not None:
        return as_reward_values(values)
    found = np.unique(seen)
    if found.size > 127:
        refuse("rewards", f"{found.size} different values", "at most 127; pass reward_values, or round the rewards")
    binary = np.isin(found, (0.0, 1.0)).all()
    return as_reward_values((0.0, 1.0) if binary or found.size < 2 else found)


def pack_episodes(episodes: Episodes) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and numbers, for a file."""
    arrays = {name: getattr(episodes, name) for name in (*PARTS, "reward_values")}
    return arrays, {"num_states": episodes.num_states, "num_actions": episodes.num_actions}


def unpack_episodes(arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Episodes:
    """What ``pack_episodes`` packed, checked."""
    states, actions, outcomes, lengths = (arrays[name] for name in PARTS)
    sizes = entry(meta, "num_states", int), entry(meta, "num_actions", int)
    return Episodes(states, actions, outcomes, lengths, *sizes, arrays["reward_values"])
