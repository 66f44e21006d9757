"""Map raw rewards to the reward values of a model.

A model has finitely many reward values. Either they are all possible rewards, and other numbers are invalid; or rewards
are binned: cuts divide the real line into levels, and each level has a value that represents it. Logs, policies, the
service and the JavaScript player all use the scale of the model.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import (
    Floats,
    as_floats,
    as_number,
    as_reward_values,
    first_index,
    format_index,
    raise_input_error,
)

REWARD_TOLERANCE = 1e-9
"""Absolute tolerance within which a reward equals a declared value."""

RELATIVE_REWARD_TOLERANCE = 1e-6
"""Relative tolerance, for numbers that were typed or printed with six digits."""

MAX_ROUNDED = 1 << 22
"""Magnitude above which the spacing of floats is about the tolerance, so that rounding has no effect."""

_MAX_COMPARED_VALUES = 8
"""Number of values up to which comparing with each of them is faster than a search."""

NO_LEVEL = -1
"""Level of numbers that are no valid reward."""


@dataclass(frozen=True, eq=False)
class RewardScale:
    """Levels of rewards.

    Attributes:
        values: Value of each level in increasing order, shape (Z,).
        cuts: Smallest reward of each level but the first, non-decreasing, shape (Z - 1,). None: the values are the only
            valid rewards. A level between equal cuts contains no rewards.
    """

    values: Floats
    cuts: Floats | None = None

    def __post_init__(self) -> None:
        values = as_reward_values(self.values)
        object.__setattr__(self, "values", values)
        if self.cuts is None:
            return
        cuts = as_floats("reward_cuts", self.cuts, (values.size - 1,))
        falling = np.diff(cuts) < 0
        if falling.any():
            index = first_index(falling)[0] + 1
            expected = f"at least {cuts[index - 1]:g}, the one before"
            raise_input_error(format_index("reward_cuts", (index,)), float(cuts[index]), expected)
        object.__setattr__(self, "cuts", cuts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RewardScale) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        """Return the content as a hashable tuple."""
        return tuple(self.values.tolist()), None if self.cuts is None else tuple(self.cuts.tolist())

    def level(self, reward: Any, argument: str = "reward") -> int:
        """Return the level of a reward; raise an ``InputError`` about ``argument`` if it has none."""
        try:
            known_level = self._level_of_value.get(reward)
        except TypeError:
            # Not hashable, such as an array; as_number reports what is wrong with it.
            known_level = None
        if known_level is not None:
            return known_level
        raw = as_number(argument, reward.item() if isinstance(reward, np.ndarray) and reward.ndim == 0 else reward)
        level = int(self.levels(np.array([raw]))[0])
        if level == NO_LEVEL:
            raise_input_error(argument, raw, f"one of the reward values {self.values.tolist()}")
        return level

    def levels(self, rewards: Floats) -> NDArray[np.int64]:
        """Return the level of each reward; NO_LEVEL if it is not finite or, without cuts, equals no value.

        The value of a level belongs to this level, also after printing with six digits.
        """
        finite = np.isfinite(rewards)
        raw = np.where(finite, rewards, self.values[0])
        after = np.searchsorted(self.values, raw).clip(1, self.values.size - 1)
        # Of two values at equal distance the lower one is taken.
        nearest = after - (raw - self.values[after - 1] <= self.values[after] - raw)
        is_exact = self._printed_values[nearest] == raw
        if self.cuts is None:
            is_exact |= np.abs(self.values[nearest] - raw) <= self._margins[nearest]
            return np.where(finite & is_exact, nearest, NO_LEVEL)
        # Rounding puts 0.1 + 0.2 and 0.3 into one bin when the cut is 0.3.
        bin_index = np.searchsorted(self.cuts, round_nine_decimals(raw), side="right")
        return np.where(finite, np.where(is_exact & ~self.empty[nearest], nearest, bin_index), NO_LEVEL)

    def round_to_values(self, rewards: Floats) -> Floats:
        """Replace each reward by the value of its level; numbers without level stay unchanged."""
        if self.cuts is None and self.values.size <= _MAX_COMPARED_VALUES:
            is_exact = np.zeros(rewards.shape, np.bool_)
            for value in self.values:
                is_exact |= rewards == value
            # The usual case, and fast to detect: all rewards are exact values.
            if is_exact.all():
                return rewards
        levels = self.levels(rewards)
        return np.where(levels == NO_LEVEL, rewards, self.values[levels])

    def to_stored(self, reward: Any, argument: str = "reward") -> float:
        """Return what is stored of a reward: the raw number with cuts, else the declared value that it equals."""
        level = self.level(reward, argument)
        return float(self.values[level]) if self.cuts is None else float(reward)

    def with_values(self, values: Floats) -> RewardScale:
        """Return the scale with additional values, whose levels contain no rewards."""
        if self.cuts is None:
            return RewardScale(values)
        # Number of existing levels up to each border between two values.
        below = np.cumsum(np.isin(values, self.values))[:-1]
        cuts = np.concatenate([[-sys.float_info.max], self.cuts, [sys.float_info.max]])
        return RewardScale(values, cuts[below])

    @cached_property
    def empty(self) -> NDArray[np.bool_]:
        """Return which levels contain no rewards, shape (Z,)."""
        if self.cuts is None:
            return np.zeros(self.values.size, np.bool_)
        edges = np.concatenate([[-sys.float_info.max], self.cuts, [sys.float_info.max]])
        return np.asarray(edges[1:] == edges[:-1])

    @property
    def intervals(self) -> tuple[str, ...]:
        """Describe the interval of rewards of each level as text."""
        if self.cuts is None:
            return tuple(f"{value:.6g}" for value in self.values)
        edges = [None if abs(cut) == sys.float_info.max else f"{cut:.6g}" for cut in self.cuts]
        texts = []
        for low, high, empty in zip([None, *edges], [*edges, None], self.empty, strict=True):
            upper = "or more" if high is None else f"to below {high}"
            texts.append("none" if empty else f"below {high}" if low is None else f"{low} {upper}")
        return tuple(texts)

    @cached_property
    def _level_of_value(self) -> dict[float, int]:
        """Return the levels of exact values, which most rewards equal, as a dictionary."""
        return {float(value): z for z, value in enumerate(self.values) if not self.empty[z]}

    @cached_property
    def _printed_values(self) -> Floats:
        """Return the values as they are printed, with six significant digits, shape (Z,)."""
        return np.array([float(f"{value:g}") for value in self.values])

    @cached_property
    def _margins(self) -> Floats:
        """Return the tolerance around each value, shape (Z,)."""
        return np.maximum(REWARD_TOLERANCE, RELATIVE_REWARD_TOLERANCE * np.abs(self.values))


def have_equal_cuts(first: Floats | None, second: Floats | None) -> bool:
    """Return whether two scales with equal values have equal cuts."""
    return first is second or (first is not None and second is not None and np.array_equal(first, second))


def round_nine_decimals(rewards: Floats) -> Floats:
    """Round finite values to nine decimals, where the spacing of floats is smaller than that."""
    small = np.abs(rewards) < MAX_ROUNDED
    # Adding 0.0 turns -0.0 into 0.0, which has another bit pattern.
    return np.where(small, np.round(np.where(small, rewards, 0.0), 9), rewards) + 0.0
