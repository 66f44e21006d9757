"""What adapting is worth: between the best Markov policy and being told the context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rewardmix._core.checks import as_instance
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.baselines import Baseline, plan_greedy, plan_markov, plan_qmdp, plan_told, plan_uniform
from rewardmix.planning.planner import plan
from rewardmix.planning.result import Plan

BASELINES: tuple[Callable[[RewardMixingMDP], Baseline], ...] = (
    plan_uniform,
    plan_markov,
    plan_greedy,
    plan_qmdp,
    plan_told,
)


@dataclass(frozen=True)
class Standing:
    """One line of a comparison.

    Attributes:
        name: of the policy.
        value: what it earns, or a bound.
        share: of the gain of adapting, (value - Markov) / (best - Markov); NaN where adapting gains nothing.
    """

    name: str
    value: float
    share: float


@dataclass(frozen=True)
class Comparison:
    """What adapting is worth in a model.

    Attributes:
        markov: value of the best Markov policy.
        adaptive_lower: lower bound of the best history-dependent policy, earned by the plan.
        adaptive_upper: upper bound of it.
        told: value if the context were told at the start.
        table: every policy, by value.
    """

    markov: float
    adaptive_lower: float
    adaptive_upper: float
    told: float
    table: tuple[Standing, ...]

    @property
    def gain(self) -> float:
        """What adapting is known to add to the best Markov policy."""
        return self.adaptive_lower - self.markov


def compare(
    model: RewardMixingMDP, *, gap: float = 1e-3, work_limit: float | None = None, time_limit: float | None = None
) -> Comparison:
    """Plan, and set the plan beside every baseline."""
    return compare_plan(plan(model, gap=gap, work_limit=work_limit, time_limit=time_limit))


def compare_plan(found: Plan) -> Comparison:
    """Set a plan beside every baseline in its model."""
    as_instance("found", found, Plan)
    others = {baseline.name: baseline.value for baseline in (make(found.model) for make in BASELINES)}
    markov, told = others["Markov"], others["told the context"]
    gain = found.lower - markov
    values = {**others, "adaptive, lower bound": found.lower, "adaptive, upper bound": found.upper}
    worth = gain > 1e-9 * max(1.0, abs(markov))
    table = [
        Standing(name, value, (value - markov) / gain if worth else float("nan")) for name, value in values.items()
    ]
    table.sort(key=lambda standing: standing.value)
    return Comparison(markov, found.lower, found.upper, told, tuple(table))
