"""Compute a near-optimal history-dependent policy of a known model with certified bounds, by refining belief grids.

A backward pass over grids or points gives a bracket of the optimal value. Passes are refined until the gap is met, or
until a limit on operations or memory is reached. The gap of a grid decreases about as resolution^-2, so the resolution
that meets the gap is predicted from earlier passes. Elementary operations (``_core.budget``) are estimated from sizes
before a pass starts, and a pass beyond the limit is not started: a limit on operations therefore gives one plan on
every machine. A limit on time does not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from rewardmix._core.budget import GIB, check_budget, check_budget_planning
from rewardmix._core.checks import as_instance, as_number, check_callback
from rewardmix._core.portable_math import log
from rewardmix._core.portable_math import power as power_of
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_induction import SweepResult
from rewardmix.planning.belief_grid import GridPlanner
from rewardmix.planning.belief_lattice import LatticePlanner
from rewardmix.planning.plan_result import Plan, PlanInfo, PlanProgress
from rewardmix.policy import Controller

RESOLUTION_SAFETY = 1.06
"""Factor on the predicted resolution."""
MAX_REFINEMENT = 12.0
"""Largest factor by which one refinement multiplies the resolution."""
MIN_REFINEMENT = 1.25
"""Smallest such factor: a grid that is hardly finer does not justify a pass."""
MAX_SWEEP_BYTES = 4 * GIB
"""Memory limit of a pass in bytes, except for the first; a constant, so that plans do not depend on the machine."""
DEFAULT_OPERATIONS = 3.5e8
"""Elementary operations of one plan within learning or fitting; with two or three types the gap is met long before."""
OPERATIONS_PER_CELL = 1e5
"""Operations per step for each reward of a state-action and each transition entry: raises the limit in large models."""


def plan(
    model: RewardMixingMDP,
    *,
    gap: float = 1e-3,
    max_operations: float | None = None,
    max_seconds: float | None = None,
    callback: Callable[[PlanProgress], None] | None = None,
) -> Plan:
    """Compute a near-optimal history-dependent policy, with certified bounds of the optimal value.

    Belief-space value iteration on refined grids until ``upper - lower`` is at most ``gap``, or a limit is reached.

    Args:
        model: Model to plan in.
        gap: Largest difference between the bounds; ``plan.info.converged`` says whether it was reached.
        max_operations: Budget of elementary operations (``_core.budget``); the best bracket within it is returned, and
            the first pass is always made. A given budget leads to one plan on every machine. None means no limit.
        max_seconds: Time limit in seconds. The plan then depends on the machine and its load. None means no limit.
        callback: Function that receives a ``PlanProgress`` after every pass.

    Returns:
        Policy with lower and upper bound of the optimal value.

    Raises:
        InputError: If an argument is out of range, or the first pass exceeds the memory limit.

    Examples:
        >>> import rewardmix as rm
        >>> plan = rm.plan(rm.make_model("probe"), gap=1e-3)
        >>> round(plan.lower, 2), plan.info.converged
        (4.58, True)
    """
    request = make_request(gap, max_operations, max_seconds, callback)
    check_budget_plan(as_instance("model", model, RewardMixingMDP))
    policy, lower, upper, info = refine_bracket(_make_sweeper(model), request)
    return Plan(policy, lower, upper, info, model)


def check_budget_plan(model: RewardMixingMDP) -> None:
    """Raise ``InputError`` for a model that is too large to plan in."""
    sizes = model.num_states, model.num_actions, model.horizon, model.num_values, model.num_types
    check_budget_planning(*sizes, _num_transition_entries(model))


def _num_transition_entries(model: RewardMixingMDP) -> int:
    """Count the stored entries of the transition."""
    rows = model.transition_rows
    return int(rows.nnz if model.is_sparse else rows.size)


def _make_sweeper(model: RewardMixingMDP) -> BeliefSweeper:
    """Make the planner's passes: a grid for two types, lattices for other numbers."""
    return GridPlanner(model) if model.num_types == 2 else LatticePlanner(model)


def default_max_operations(model: RewardMixingMDP) -> float:
    """Compute the default budget of elementary operations: a constant, or more in large models."""
    cells = model.horizon * (model.num_states * model.num_actions * model.num_values + _num_transition_entries(model))
    return max(DEFAULT_OPERATIONS, OPERATIONS_PER_CELL * cells)


class BeliefSweeper(Protocol):
    """Interface of the passes that ``refine_bracket`` refines."""

    first_resolution: int
    """Resolution of the first pass."""
    max_resolution: int
    """Largest resolution."""
    resolution_growth: int
    """Exponent of the cost: a pass costs about resolution ** growth."""

    def sweep(self, resolution: int, deadline: float) -> SweepResult | None:
        """Run one backward pass; return None if the deadline (time.perf_counter) passed on the way."""

    def estimate_bytes(self, resolution: int) -> float:
        """Estimate the memory of a pass in bytes."""

    def estimate_operations(self, resolution: int) -> float:
        """Estimate the elementary operations of the next pass, from sizes alone."""


@dataclass(frozen=True)
class PlanRequest:
    """Checked limits of a plan.

    Attributes:
        gap: Gap at which to stop.
        max_operations: Elementary operations, infinite if there is no limit.
        max_seconds: Seconds, infinite if there is no limit.
        callback: Function that receives every round.
    """

    gap: float
    max_operations: float
    max_seconds: float
    callback: Callable[[PlanProgress], None] | None


def make_request(
    gap: object, max_operations: object, max_seconds: object, callback: Callable[[PlanProgress], None] | None
) -> PlanRequest:
    """Make a request from checked arguments."""
    check_callback("callback", callback)
    operations, seconds = (
        math.inf if value is None else as_number(name, value, above=0.0)
        for name, value in (("max_operations", max_operations), ("max_seconds", max_seconds))
    )
    return PlanRequest(as_number("gap", gap, above=0.0), operations, seconds, callback)


def refine_bracket(sweeper: BeliefSweeper, request: PlanRequest) -> tuple[Controller, float, float, PlanInfo]:
    """Run passes of growing resolution; return (policy, lower, upper, info)."""
    began = time.perf_counter()
    resolution = sweeper.first_resolution
    check_budget("model", memory=sweeper.estimate_bytes(resolution), remedy="fewer states, actions, types or steps")
    rounds: list[PlanProgress] = []
    history: list[tuple[int, float]] = []
    best: SweepResult | None = None
    upper, spent = math.inf, 0.0
    while True:
        # Without one complete pass there is no policy to return, so the first pass has no deadline.
        deadline = math.inf if best is None else began + request.max_seconds
        spent += sweeper.estimate_operations(resolution)
        result = sweeper.sweep(resolution, deadline)
        seconds = time.perf_counter() - began
        if result is None:
            reason = "time limit"
            break
        # Lower and upper bound may come from different passes: each is certified alone, and the policy belongs to the
        # lower one.
        best = result if best is None or result.lower > best.lower else best
        upper = min(upper, result.upper)
        rounds.append(PlanProgress(len(rounds) + 1, result.points, best.lower, upper, seconds))
        if request.callback is not None:
            request.callback(rounds[-1])
        if upper - best.lower <= request.gap:
            reason = "gap met"
            break
        history.append((resolution, result.upper - result.lower))
        # Without interpolation, or close to the rounding error, a finer grid cannot narrow the bracket.
        if result.exact or result.upper - result.lower <= 2 * result.rounding_gap:
            reason = "rounding"
            break
        target = next_resolution(history, request.gap, sweeper.resolution_growth)
        resolution, reason = _max_affordable_resolution(
            sweeper, target, resolution, _remaining_operations(request, spent, seconds)
        )
        if reason:
            break
    assert best is not None  # the first pass has no deadline
    info = PlanInfo(upper - best.lower <= request.gap, request.gap, reason, tuple(rounds))
    return best.policy(), best.lower, upper, info


def next_resolution(history: list[tuple[int, float]], gap: float, growth: int) -> int:
    """Predict the resolution that meets ``gap`` from the gaps of earlier passes, within the largest refinement.

    Args:
        history: (resolution, gap) of each pass.
        gap: Requested gap.
        growth: The cost of a pass grows as resolution ** growth.

    Returns:
        Resolution of the next pass.
    """
    resolution, last_gap = history[-1]
    power, max_cost_factor = 2.0, 4.0
    if len(history) > 1:
        previous = history[-2]
        power = log(previous[1] / last_gap) / log(resolution / previous[0]) if previous[1] > last_gap > 0 else 1.0
        # Interpolation of a convex function has order 2; a fitted order far from it is noise of the coarse passes.
        power, max_cost_factor = min(max(power, 1.5), 2.2), MAX_REFINEMENT
    factor: float = RESOLUTION_SAFETY * power_of(max(last_gap / gap, 1.0), 1.0 / power)
    # The limit is on the cost, so it is translated to resolution by the exponent of the cost.
    max_factor: float = power_of(max_cost_factor, 1.0 / growth)
    return math.ceil(resolution * min(max(factor, MIN_REFINEMENT), max_factor))


def _remaining_operations(request: PlanRequest, spent: float, seconds: float) -> tuple[float, str]:
    """Return the operations that the next pass may take, and the name of the limit that binds."""
    operations = request.max_operations - spent
    # Remaining time becomes operations by the speed measured so far, less a fifth for its error.
    timed_operations = 0.8 * (request.max_seconds - seconds) * spent / max(seconds, 1e-9)
    return (timed_operations, "time limit") if timed_operations < operations else (operations, "operation limit")


def _max_affordable_resolution(
    sweeper: BeliefSweeper, target: int, resolution: int, left: tuple[float, str]
) -> tuple[int, str]:
    """Find the largest resolution up to ``target`` within memory and budget, or the reason why there is none."""
    if resolution >= sweeper.max_resolution:
        return resolution, "finest grid"
    min_resolution = min(math.ceil(MIN_REFINEMENT * resolution), sweeper.max_resolution)
    max_bytes, (operations, limit) = float(MAX_SWEEP_BYTES), left
    if sweeper.estimate_bytes(min_resolution) > max_bytes:
        return resolution, "memory"
    if sweeper.estimate_operations(min_resolution) > operations:
        return resolution, limit
    target = max(min(target, sweeper.max_resolution), min_resolution)
    while sweeper.estimate_bytes(target) > max_bytes or sweeper.estimate_operations(target) > operations:
        # The estimates are increasing but not in closed form; steps of 10 % are close enough.
        target = max(int(target * 0.9), min_resolution)
    return target, ""
