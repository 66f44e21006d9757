"""Confidence settings: how large the bonuses are, and what is promised for it.

A setting is a small frozen object with three count-only bonuses in [0, 1]. ``scaled`` says how the bonus of a move
enters the value: added as it is (the paper), or times the largest value that may follow (all that optimism about the
pairs needs, and far less to explore; departure 9 of docs/paper.md). ``unseen`` says how much more a pair counts that
was never seen than one that is barely known (departure 32): where both count 1, as in the paper, a plan is indifferent
between all that is not known yet, and wanders.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from rewardmix import theory as numbers
from rewardmix._core.checks import as_number, quoted, refuse


class Size(NamedTuple):
    """What confidence levels may depend on."""

    num_states: int
    num_actions: int
    horizon: int
    num_following: int  # next states, the end among them if episodes can end early
    failure: float
    episodes: int
    num_values: int = 2  # reward values, Z

    @property
    def num_state_actions(self) -> int:
        """X = S*A."""
        return self.num_states * self.num_actions


@runtime_checkable
class Confidence(Protocol):
    """A setting. Bonuses depend on counts alone, never on rewards: that keeps the moments unbiased."""

    @property
    def name(self) -> str:
        """A word for results."""

    @property
    def scaled(self) -> bool:
        """Whether the bonus of a move is multiplied by the largest value that may follow."""

    @property
    def unseen(self) -> float:
        """What an unseen pair counts where one that is barely known counts 1; the unit of bonuses, not of V_0."""

    @property
    def guarantee(self) -> str:
        """What is and is not promised, in a sentence."""

    def pair(self, counts: ArrayLike, size: Size) -> Any:
        """Bonus of a pair after ``counts`` samples."""

    def move(self, counts: ArrayLike, size: Size) -> Any:
        """Bonus of a state-action left ``counts`` times."""

    def start(self, size: Size) -> Any:
        """Bonus of the first state after ``size.episodes`` episodes."""


@dataclass(frozen=True)
class Paper:
    """The paper's forms with one free constant c: iota_2 = c log(K S A / eta), iota_T = iota_nu = S iota_2."""

    constant: float = 1.0
    name: str = "paper"
    scaled: bool = False
    unseen: float = 1.0
    guarantee: str = "the paper's forms with its unknown constants set to c: faithful in shape, not a proven radius"

    def __post_init__(self) -> None:
        as_number("c", self.constant, above=0.0)

    def pair(self, counts: ArrayLike, size: Size) -> Any:
        """min(1, sqrt(iota_2 / n))."""
        return numbers.bonus(self._level(size), counts)

    def move(self, counts: ArrayLike, size: Size) -> Any:
        """min(1, sqrt(iota_T / n)), iota_T = S iota_2: the factor S pays for all 2^S subsets of next states."""
        return numbers.bonus(size.num_states * self._level(size), counts)

    def start(self, size: Size) -> Any:
        """min(1, sqrt(iota_nu / K))."""
        return numbers.bonus(size.num_states * self._level(size), size.episodes)

    def _level(self, size: Size) -> Any:
        return _paper_level(size.episodes, size.num_states, size.num_actions, size.failure, self.constant)


@dataclass(frozen=True)
class Theory:
    """Explicit anytime radii (``rewardmix.theory``): all of them hold together with probability 1 - failure."""

    name: str = "theory"
    scaled: bool = False
    unseen: float = 1.0
    guarantee: str = "with probability 1 - failure every pair, move and start lies within its radius, at every count"

    def pair(self, counts: ArrayLike, size: Size) -> Any:
        """The pair's Hoeffding radius, at most 1; with Z > 2 reward values for each of the Z^2 cells of its table."""
        return _at_most_one(numbers.pair_radius(counts, size.num_state_actions, size.failure, size.num_values))

    def move(self, counts: ArrayLike, size: Size) -> Any:
        """Half of the L1 radius of T-hat: what a value in [0, 1] can be off by."""
        radius = numbers.transition_radius(counts, size.num_following, size.num_state_actions, size.failure)
        return _at_most_one(numbers.optimism(radius))

    def start(self, size: Size) -> Any:
        """Half of the L1 radius of nu-hat."""
        return _at_most_one(numbers.optimism(numbers.initial_radius(size.episodes, size.num_states, size.failure)))


@dataclass(frozen=True)
class Practical:
    """Small multipliers, so that 1e3 to 1e6 episodes are useful in worlds of any depth: no proof.

    Attributes:
        pair_level: a pair counts as unknown up to this many samples.
        move_level: a next state that was never seen from a state-action counts as this many visits of it; 1 is the rule
            of succession, by which n visits leave the chance 1 / (n + 1) of something new, whatever S is.
        unseen: what a pair counts that was never seen, where one of ``pair_level`` samples counts 1.
    """

    pair_level: float = 2.0
    move_level: float = 1.0
    unseen: float = 5.0
    name: str = "practical"
    scaled: bool = True
    guarantee: str = (
        "none, its confidence levels were fitted to experiments. V_0 tells how well the pairs that can be reached are "
        "covered, not how well the moves between them are known"
    )

    def __post_init__(self) -> None:
        as_number("pair_level", self.pair_level, above=0.0)
        as_number("move_level", self.move_level, above=0.0)
        if not as_number("unseen", self.unseen, below=1e9) >= 1.0:
            refuse("unseen", self.unseen, "a number of at least 1")

    def pair(self, counts: ArrayLike, size: Size) -> Any:
        """min(1, sqrt(pair_level / n) / unseen)."""
        return numbers.bonus(self.pair_level / (self.unseen * self.unseen), counts)

    def move(self, counts: ArrayLike, size: Size) -> Any:
        """move_level / (move_level + n)."""
        return self.move_level / (self.move_level + np.asarray(counts, np.float64))

    def start(self, size: Size) -> Any:
        """move_level / (move_level + K)."""
        return self.move_level / (self.move_level + size.episodes)


def paper(c: float = 1.0) -> Paper:
    """The paper's forms with the constant c."""
    return Paper(c)


theory = Theory()
"""Explicit radii with a proof."""

practical = Practical()
"""Published multipliers for real budgets."""


def as_confidence(setting: object) -> Confidence:
    """``setting``, refused unless it has everything that a setting has."""
    if isinstance(setting, type) or not isinstance(setting, Confidence):
        wanted = "a setting of rewardmix.exploration: practical, theory or paper(c)"
        refuse("confidence", f"{quoted(setting)} ({type(setting).__name__})", wanted)
    return setting


_paper_level = lru_cache(numbers.paper_level)
"""Asked for again and again with the same numbers while rows are planned."""


def _at_most_one(radius: Any) -> Any:
    return np.minimum(radius, 1.0)
