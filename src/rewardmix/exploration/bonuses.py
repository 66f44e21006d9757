"""Define exploration bonuses: how large they are, and what each guarantees.

A bonus is a small frozen object with three functions of counts in [0, 1]: for pairs, transitions and initial states.
``scales_with_value`` says how the transition bonus enters the value: added (the paper), or multiplied by the largest
value that may follow (sufficient for optimism about pairs, with far less exploration; departure 9 of
docs/concepts/paper-and-code.md).
``unseen_pair_weight`` says how much more an unobserved pair counts than a pair with few samples (departure 32). If both
count 1, as in the paper, a plan has no reason to prefer unobserved pairs.

Use ``practical_bonus`` for 1e3 to 1e6 episodes, ``theory_bonus`` for a proved radius, ``paper_bonus`` to reproduce
the paper's formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from rewardmix import theory as numbers
from rewardmix._core.checks import as_number, quote_value, raise_input_error


class ProblemSize(NamedTuple):
    """Hold the quantities that confidence levels depend on."""

    num_states: int
    num_actions: int
    horizon: int
    num_next_states: int  # next states, the end among them if episodes can end early
    failure_prob: float
    num_episodes: int
    num_values: int = 2  # reward values, Z

    @property
    def num_state_actions(self) -> int:
        """Number of state-actions, X = S A."""
        return self.num_states * self.num_actions


@runtime_checkable
class Bonus(Protocol):
    """Define the interface of a bonus.

    Bonuses depend on counts only and not on rewards; otherwise the moments would be biased.
    """

    @property
    def name(self) -> str:
        """Name used in results."""

    @property
    def scales_with_value(self) -> bool:
        """True if the transition bonus is multiplied by the largest value that may follow."""

    @property
    def unseen_pair_weight(self) -> float:
        """Weight of an unobserved pair, in units of a pair with ``pair_level`` samples. It scales bonuses, not V_0."""

    @property
    def guarantee(self) -> str:
        """Sentence that says what is guaranteed and what is not."""

    def pair(self, counts: ArrayLike, size: ProblemSize) -> Any:
        """Return the bonus of a pair with ``counts`` samples."""

    def transition(self, counts: ArrayLike, size: ProblemSize) -> Any:
        """Return the transition bonus of a state-action with ``counts`` visits."""

    def initial(self, size: ProblemSize) -> Any:
        """Return the bonus of the initial state after ``size.num_episodes`` episodes."""


@dataclass(frozen=True)
class PaperBonus:
    """Use the paper's formulas with one free constant c: iota_2 = c log(K S A / eta), iota_T = iota_nu = S iota_2."""

    scale: float = 1.0
    name: str = "paper"
    scales_with_value: bool = False
    unseen_pair_weight: float = 1.0
    guarantee: str = "the paper's forms with its unknown constants set to c: faithful in shape, not a proven radius"

    def __post_init__(self) -> None:
        as_number("c", self.scale, above=0.0)

    def pair(self, counts: ArrayLike, size: ProblemSize) -> Any:
        """Return min(1, sqrt(iota_2 / n))."""
        return numbers.bonus_width(self._level(size), counts)

    def transition(self, counts: ArrayLike, size: ProblemSize) -> Any:
        """Return min(1, sqrt(iota_T / n)), iota_T = S iota_2; the factor S covers all 2^S subsets of next states."""
        return numbers.bonus_width(size.num_states * self._level(size), counts)

    def initial(self, size: ProblemSize) -> Any:
        """Return min(1, sqrt(iota_nu / K))."""
        return numbers.bonus_width(size.num_states * self._level(size), size.num_episodes)

    def _level(self, size: ProblemSize) -> Any:
        return _cached_paper_level(size.num_episodes, size.num_states, size.num_actions, size.failure_prob, self.scale)


@dataclass(frozen=True)
class TheoryBonus:
    """Use the explicit anytime radii of ``rewardmix.theory``: all hold together with probability 1 - failure_prob."""

    name: str = "theory"
    scales_with_value: bool = False
    unseen_pair_weight: float = 1.0
    guarantee: str = (
        "with probability 1 - failure_prob every pair, transition and initial state lies within its radius, at every "
        "count"
    )

    def pair(self, counts: ArrayLike, size: ProblemSize) -> Any:
        """Return the pair's Hoeffding radius, at most 1; for Z > 2 it covers each of the Z^2 cells of its table."""
        return _clip_at_one(numbers.pair_radius(counts, size.num_state_actions, size.failure_prob, size.num_values))

    def transition(self, counts: ArrayLike, size: ProblemSize) -> Any:
        """Return half of the L1 radius of T-hat: the largest error of an expected value in [0, 1]."""
        radius = numbers.transition_radius(counts, size.num_next_states, size.num_state_actions, size.failure_prob)
        return _clip_at_one(numbers.value_error_bound(radius))

    def initial(self, size: ProblemSize) -> Any:
        """Return half of the L1 radius of nu-hat."""
        return _clip_at_one(
            numbers.value_error_bound(numbers.initial_radius(size.num_episodes, size.num_states, size.failure_prob))
        )


@dataclass(frozen=True)
class PracticalBonus:
    """Use small multipliers, for budgets of 1e3 to 1e6 episodes and any depth; without a proof.

    Attributes:
        pair_level: Number of samples up to which a pair counts as unknown.
        transition_level: Pseudocount of unobserved next states of a state-action. With 1, the rule of succession, a
            new next state has probability 1 / (n + 1) after n visits, for every S.
        unseen_pair_weight: Weight of an unobserved pair, relative to a pair with ``pair_level`` samples.
        name: Name used in results.
        scales_with_value: True: the transition bonus is multiplied by the largest value that may follow.
        guarantee: Sentence that says what is guaranteed and what is not.
    """

    pair_level: float = 2.0
    transition_level: float = 1.0
    unseen_pair_weight: float = 5.0
    name: str = "practical"
    scales_with_value: bool = True
    guarantee: str = (
        "none, its confidence levels were fitted to experiments. V_0 measures how well the reachable pairs are "
        "covered, not how well the transitions between them are known"
    )

    def __post_init__(self) -> None:
        as_number("pair_level", self.pair_level, above=0.0)
        as_number("transition_level", self.transition_level, above=0.0)
        if not as_number("unseen_pair_weight", self.unseen_pair_weight, below=1e9) >= 1.0:
            raise_input_error("unseen_pair_weight", self.unseen_pair_weight, "a number of at least 1")

    def pair(self, counts: ArrayLike, size: ProblemSize) -> Any:
        """Return min(1, sqrt(pair_level / n) / unseen_pair_weight)."""
        # The bonus is expressed in units of an unobserved pair, so that it is clipped at 1 only for n = 0. The weight
        # moves inside the square root, hence its square; the initial value V_0 is multiplied by the weight again.
        return numbers.bonus_width(self.pair_level / (self.unseen_pair_weight * self.unseen_pair_weight), counts)

    def transition(self, counts: ArrayLike, size: ProblemSize) -> Any:
        """Return transition_level / (transition_level + n)."""
        return self.transition_level / (self.transition_level + np.asarray(counts, np.float64))

    def initial(self, size: ProblemSize) -> Any:
        """Return transition_level / (transition_level + K)."""
        return self.transition_level / (self.transition_level + size.num_episodes)


def paper_bonus(c: float = 1.0) -> PaperBonus:
    """Return the paper's bonus with the unknown constants set to c."""
    return PaperBonus(c)


theory_bonus = TheoryBonus()
"""Bonus with explicit, proved radii."""

practical_bonus = PracticalBonus()
"""Default bonus: multipliers chosen for real budgets, without a proof."""


def as_bonus(bonus: object) -> Bonus:
    """Return ``bonus``; raise InputError unless it has the interface of a bonus."""
    # ``isinstance`` of a runtime protocol also accepts the class itself, whose methods lack ``self``.
    if isinstance(bonus, type) or not isinstance(bonus, Bonus):
        expected = "a bonus of rewardmix.exploration: practical_bonus, theory_bonus or paper_bonus(c)"
        raise_input_error("bonus", f"{quote_value(bonus)} ({type(bonus).__name__})", expected)
    return bonus


_cached_paper_level = lru_cache(numbers.paper_level)
"""Confidence level of the paper, cached because planning computes it for few different arguments."""


def _clip_at_one(radius: Any) -> Any:
    """Clip a radius at 1, the largest value of a bonus."""
    return np.minimum(radius, 1.0)
