"""The reward scale of a run: which level each raw reward belongs to.

A run knows finitely many levels. Either they are all the values that a reward can take, and any other number is
refused; or rewards were put into bins: cuts divide the numbers, a level is what lies between two of them, and its value
is what such a reward counts as. Every way in uses the scale of the run: logs, policies, the service, the player.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, as_floats, as_number, as_reward_values, at, first, refuse

SAME_REWARD = 1e-9
"""A reward this near to a declared value is that value."""

SAME_SHARE = 1e-6
"""So is one that is off by this share of the value, as numbers are that somebody typed or printed."""

DIGITS_BELOW = 1 << 22
"""Above it neighbouring floats are about as far apart as rewards that count as equal."""

_ONE_BY_ONE = 8
"""So few values are compared one by one."""

NO_LEVEL = -1
"""In place of a level, for what is no reward."""


@dataclass(frozen=True, eq=False)
class RewardScale:
    """Levels of rewards.

    Attributes:
        values: (Z,), increasing; what a reward of each level counts as.
        cuts: (Z - 1,), not decreasing: the smallest reward of each level but the first; None: rewards are the values
            alone. A level between equal cuts holds no rewards.
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
            index = first(falling)[0] + 1
            expected = f"at least {cuts[index - 1]:g}, the one before"
            refuse(at("reward_cuts", (index,)), float(cuts[index]), expected)
        object.__setattr__(self, "cuts", cuts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RewardScale) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return tuple(self.values.tolist()), None if self.cuts is None else tuple(self.cuts.tolist())

    def level(self, reward: Any, argument: str = "reward") -> int:
        """The level of a reward; a number that belongs to none is refused in the name of ``argument``."""
        try:
            known = self._known.get(reward)
        except TypeError:  # no number
            known = None
        if known is not None:
            return known
        raw = as_number(argument, reward.item() if isinstance(reward, np.ndarray) and reward.ndim == 0 else reward)
        level = int(self.levels(np.array([raw]))[0])
        if level == NO_LEVEL:
            refuse(argument, raw, f"one of the reward values {self.values.tolist()}")
        return level

    def levels(self, rewards: Floats) -> NDArray[np.int64]:
        """The level of each reward; NO_LEVEL where it is no finite number, or, without cuts, none of the values.

        A level's own value belongs to it, also as it is printed.
        """
        finite = np.isfinite(rewards)
        raw = np.where(finite, rewards, self.values[0])
        after = np.searchsorted(self.values, raw).clip(1, self.values.size - 1)
        nearest = after - (raw - self.values[after - 1] <= self.values[after] - raw)
        meant = self._printed[nearest] == raw
        if self.cuts is None:
            meant |= np.abs(self.values[nearest] - raw) <= self._margins[nearest]
            return np.where(finite & meant, nearest, NO_LEVEL)
        place = np.searchsorted(self.cuts, to_nine_digits(raw), side="right")
        return np.where(finite, np.where(meant & ~self.empty[nearest], nearest, place), NO_LEVEL)

    def counted(self, rewards: Floats) -> Floats:
        """What each reward counts as: the value of its level; numbers that belong to none stay as they are."""
        if self.cuts is None and self.values.size <= _ONE_BY_ONE:
            known = np.zeros(rewards.shape, np.bool_)
            for value in self.values:
                known |= rewards == value
            if known.all():  # most often, and soon seen
                return rewards
        levels = self.levels(rewards)
        return np.where(levels == NO_LEVEL, rewards, self.values[levels])

    def recorded(self, reward: Any, argument: str = "reward") -> float:
        """What is stored of a reward: the raw number where there are cuts, else the value that is meant."""
        level = self.level(reward, argument)
        return float(self.values[level]) if self.cuts is None else float(reward)

    def with_values(self, values: Floats) -> RewardScale:
        """The same levels among more values: those that are new hold no rewards."""
        if self.cuts is None:
            return RewardScale(values)
        below = np.cumsum(np.isin(values, self.values))[:-1]  # own levels up to each border between two values
        cuts = np.concatenate([[-sys.float_info.max], self.cuts, [sys.float_info.max]])
        return RewardScale(values, cuts[below])

    @cached_property
    def empty(self) -> NDArray[np.bool_]:
        """(Z,): levels that hold no rewards."""
        if self.cuts is None:
            return np.zeros(self.values.size, np.bool_)
        edges = np.concatenate([[-sys.float_info.max], self.cuts, [sys.float_info.max]])
        return np.asarray(edges[1:] == edges[:-1])

    @property
    def intervals(self) -> tuple[str, ...]:
        """Which rewards each level holds, in words."""
        if self.cuts is None:
            return tuple(f"{value:.6g}" for value in self.values)
        edges = [None if abs(cut) == sys.float_info.max else f"{cut:.6g}" for cut in self.cuts]
        words = []
        for low, high, empty in zip([None, *edges], [*edges, None], self.empty, strict=True):
            upper = "or more" if high is None else f"to below {high}"
            words.append("none" if empty else f"below {high}" if low is None else f"{low} {upper}")
        return tuple(words)

    @cached_property
    def _known(self) -> dict[float, int]:
        """The level of each value of those that hold rewards, where most rewards are found."""
        return {float(value): z for z, value in enumerate(self.values) if not self.empty[z]}

    @cached_property
    def _printed(self) -> Floats:
        """(Z,): the values as messages and pages print them."""
        return np.array([float(f"{value:g}") for value in self.values])

    @cached_property
    def _margins(self) -> Floats:
        """(Z,): how far a number may be off that means a value."""
        return np.maximum(SAME_REWARD, SAME_SHARE * np.abs(self.values))


def same_cuts(one: Floats | None, two: Floats | None) -> bool:
    """Whether two scales of the same values are cut alike."""
    return one is two or (one is not None and two is not None and np.array_equal(one, two))


def to_nine_digits(paid: Floats) -> Floats:
    """Finite values to nine digits after the point, where floats of that size have so many."""
    small = np.abs(paid) < DIGITS_BELOW
    return np.where(small, np.round(np.where(small, paid, 0.0), 9), paid) + 0.0
