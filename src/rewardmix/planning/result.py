"""What a planner answers: a policy, a certified bracket of the optimal value, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rewardmix._core.checks import as_count, as_instance, as_number, refuse
from rewardmix.evaluation import controller_value
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.alpha import AlphaVectors, alpha_vectors
from rewardmix.planning.rounding import rounding_bound
from rewardmix.policy import BeliefPolicy, Controller


@dataclass(frozen=True)
class Round:
    """One sweep of the planner; also what ``on_update`` receives.

    Attributes:
        number: 1 for the first.
        points: most belief points at one step.
        lower: best certified lower bound so far.
        upper: best certified upper bound so far.
        seconds: since planning began.
    """

    number: int
    points: int
    lower: float
    upper: float
    seconds: float

    def __post_init__(self) -> None:
        as_count("number", self.number)
        as_count("points", self.points)
        _check_bracket(self.lower, self.upper)
        as_number("seconds", self.seconds)

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower


@dataclass(frozen=True)
class PlanInfo:
    """How a plan was found.

    Attributes:
        converged: whether the gap that was asked for is met.
        asked: that gap.
        reason: why planning stopped.
        rounds: every sweep.
    """

    converged: bool
    asked: float
    reason: str
    rounds: tuple[Round, ...]

    def __post_init__(self) -> None:
        as_instance("converged", self.converged, bool)
        as_number("asked", self.asked, above=0.0)
        as_instance("reason", self.reason, str)
        for number, done in enumerate(as_instance("rounds", self.rounds, tuple)):
            as_instance(f"rounds[{number}]", done, Round)


@dataclass(frozen=True, eq=False)
class Plan:
    """A policy for ``model`` with ``lower <= value of the policy <= optimal value <= upper``.

    A plan that was loaded from a file has a lower end that was computed again, and an upper end as the file claims it:
    to verify that takes planning again.

    Attributes:
        policy: finite-state controller; its value in any model is exact.
        lower: certified lower bound, the value of ``policy`` less a bound of the rounding errors.
        upper: certified upper bound of the value of every policy that may use the whole history.
        info: whether the gap is met, and how.
        model: what was planned for.
    """

    policy: Controller
    lower: float
    upper: float
    info: PlanInfo
    model: RewardMixingMDP

    def __post_init__(self) -> None:
        as_instance("model", self.model, RewardMixingMDP)
        as_instance("policy", self.policy, Controller).check_fits(self.model)
        as_instance("info", self.info, PlanInfo)
        _check_bracket(self.lower, self.upper)

    def check_lower(self) -> None:
        """Refuse a lower end that is not what the policy earns in the model, up to rounding."""
        value = controller_value(self.policy, self.model)
        if abs(value - self.lower) > 4 * rounding_bound(self.model, self.model.num_states):
            refuse("lower", f"{self.lower!r}", f"{value!r}, the value of the policy in the model")

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower

    @property
    def nbytes(self) -> int:
        """Memory that the policy takes."""
        return self.policy.nbytes

    @cached_property
    def belief_policy(self) -> BeliefPolicy:
        """The same policy in its other form, which follows the posterior and plays the action of the best vector there.

        Built on first use. It earns at least what the controller earns (in ``model``), up to rounding.
        """
        return BeliefPolicy(self.model, self.alpha_vectors)

    @cached_property
    def alpha_vectors(self) -> AlphaVectors:
        """The value of every node of ``policy`` in every context."""
        return alpha_vectors(self.policy, self.model)


def _check_bracket(lower: float, upper: float) -> None:
    """Refuse ends that are not finite or not in order."""
    if as_number("lower", lower) > as_number("upper", upper):
        refuse("lower", lower, f"at most upper, which is {upper}")
