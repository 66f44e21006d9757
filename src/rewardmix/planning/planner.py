"""``plan``: the best history-dependent policy of a known model, with a certified gap, and the loop that refines it.

A pass over the grids or points gives a bracket; passes are refined until the gap is met, or a limit on the work or the
memory is reached. The gap of a grid falls about as resolution^-2, so the resolution that is needed is predicted, not
groped for. Work is counted in simple steps (``_core.limits``), from the sizes of a pass and before it begins: a pass
that would go beyond the limit is not begun, so a limit on the work gives the same plan on every machine. A limit on the
time cannot.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from rewardmix._core.checks import as_instance, as_number, check_callback
from rewardmix._core.limits import GIB, afford, afford_planning
from rewardmix._core.portable import log
from rewardmix._core.portable import power as power_of
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_pass import Sweep
from rewardmix.planning.grid import GridSweeper
from rewardmix.planning.lattice import LatticeSweeper
from rewardmix.planning.plans import Plan, PlanInfo, Round
from rewardmix.policy import Controller

SAFETY = 1.06
"""What the predicted resolution is multiplied by."""
LEAP = 12.0
"""Most by which one refinement multiplies the resolution."""
LEAST_LEAP = 1.25
"""Least by which it does: a grid that is hardly finer is not worth a pass."""
PASS_MEMORY = 4 * GIB
"""Bytes that a pass may take, but for the first one: the same on every machine that has them."""
PLANNING_WORK = 3.5e8
"""Simple steps for one plan of learning or fitting; with two or three contexts the gap is met long before."""
WORK_PER_CELL = 1e5
"""In large models as many for each outcome of a state-action, and for each of its moves, at every step."""


def plan(
    model: RewardMixingMDP,
    *,
    gap: float = 1e-3,
    work_limit: float | None = None,
    time_limit: float | None = None,
    on_update: Callable[[Round], None] | None = None,
) -> Plan:
    """Plan in a known model until the certified gap ``upper - lower`` is at most ``gap``.

    Args:
        model: what is known.
        gap: largest difference between the bounds; ``plan.info.converged`` says whether it was reached.
        work_limit: simple steps (``_core.limits``) within which the best bracket is returned; the first sweep is
            always made. The same limit gives the same plan on every machine.
        time_limit: the same in seconds. What is returned then depends on the machine and on what else it is doing.
        on_update: called after every sweep with a ``Round``.
    """
    wanted = request(gap, work_limit, time_limit, on_update)
    afford_plan(as_instance("model", model, RewardMixingMDP))
    policy, lower, upper, info = narrow(_sweeper(model), wanted)
    return Plan(policy, lower, upper, info, model)


def afford_plan(model: RewardMixingMDP) -> None:
    """Refuse a model in which no plan can be made."""
    sizes = model.num_states, model.num_actions, model.horizon, model.num_values, model.num_contexts
    afford_planning(*sizes, _moves(model))


def _moves(model: RewardMixingMDP) -> int:
    """Entries of the transition."""
    rows = model.transition_rows
    return int(rows.nnz if model.is_sparse else rows.size)


def _sweeper(model: RewardMixingMDP) -> Sweeper:
    """A grid for two contexts, lattices for more."""
    return GridSweeper(model) if model.num_contexts == 2 else LatticeSweeper(model)


def usual_work(model: RewardMixingMDP) -> float:
    """What a plan may take where nobody set a limit: a constant, or what the size of the model asks for."""
    cells = model.horizon * (model.num_states * model.num_actions * model.num_values + _moves(model))
    return max(PLANNING_WORK, WORK_PER_CELL * cells)


class Sweeper(Protocol):
    """What ``narrow`` drives."""

    first: int
    """Resolution to begin with."""
    largest: int
    """Finest resolution."""
    growth: int
    """The cost of a pass grows as resolution ** growth."""

    def sweep(self, resolution: int, deadline: float) -> Sweep | None:
        """One backward pass; None if the deadline (time.perf_counter) passed on the way."""

    def bytes(self, resolution: int) -> float:
        """Estimate of the memory of a pass."""

    def work(self, resolution: int) -> float:
        """Simple steps that the next pass takes, about, from the sizes alone."""


@dataclass(frozen=True)
class Request:
    """What a caller wants of a planner.

    Attributes:
        gap: upper - lower at which to stop.
        work_limit: simple steps, infinite if none.
        time_limit: seconds, infinite if none.
        on_update: told about every round.
    """

    gap: float
    work_limit: float
    time_limit: float
    on_update: Callable[[Round], None] | None


def request(gap: object, work_limit: object, time_limit: object, on_update: Callable[[Round], None] | None) -> Request:
    """A checked request."""
    check_callback("on_update", on_update)
    work, seconds = (
        math.inf if value is None else as_number(name, value, above=0.0)
        for name, value in (("work_limit", work_limit), ("time_limit", time_limit))
    )
    return Request(as_number("gap", gap, above=0.0), work, seconds, on_update)


def narrow(sweeper: Sweeper, wanted: Request) -> tuple[Controller, float, float, PlanInfo]:
    """(policy, lower, upper, info): sweep at growing resolutions."""
    began = time.perf_counter()
    resolution = sweeper.first
    afford("model", memory=sweeper.bytes(resolution), change="fewer states, actions, contexts or steps")
    rounds: list[Round] = []
    history: list[tuple[int, float]] = []
    best: Sweep | None = None
    upper, spent = math.inf, 0.0
    while True:
        deadline = math.inf if best is None else began + wanted.time_limit
        spent += sweeper.work(resolution)
        now = sweeper.sweep(resolution, deadline)
        seconds = time.perf_counter() - began
        if now is None:
            reason = "time limit"
            break
        best = now if best is None or now.lower > best.lower else best
        upper = min(upper, now.upper)
        rounds.append(Round(len(rounds) + 1, now.points, best.lower, upper, seconds))
        if wanted.on_update is not None:
            wanted.on_update(rounds[-1])
        if upper - best.lower <= wanted.gap:
            reason = "gap met"
            break
        history.append((resolution, now.upper - now.lower))
        if now.exact or now.upper - now.lower <= 2 * now.floor:
            reason = "rounding"
            break
        following = next_resolution(history, wanted.gap, sweeper.growth)
        resolution, reason = _affordable(sweeper, following, resolution, _left(wanted, spent, seconds))
        if reason:
            break
    assert best is not None  # the first sweep has no deadline
    info = PlanInfo(upper - best.lower <= wanted.gap, wanted.gap, reason, tuple(rounds))
    return best.policy(), best.lower, upper, info


def next_resolution(history: list[tuple[int, float]], gap: float, growth: int) -> int:
    """The resolution that should meet ``gap``, by the law seen so far, if it is within a leap.

    Args:
        history: (resolution, gap) of each sweep.
        gap: asked for.
        growth: the cost of a pass grows as resolution ** growth.
    """
    resolution, found = history[-1]
    power, leap = 2.0, 4.0
    if len(history) > 1:
        before = history[-2]
        power = log(before[1] / found) / log(resolution / before[0]) if before[1] > found > 0 else 1.0
        power, leap = min(max(power, 1.5), 2.2), LEAP
    factor: float = SAFETY * power_of(max(found / gap, 1.0), 1.0 / power)
    most: float = power_of(leap, 1.0 / growth)
    return math.ceil(resolution * min(max(factor, LEAST_LEAP), most))


def _left(wanted: Request, spent: float, seconds: float) -> tuple[float, str]:
    """Simple steps that the next pass may take, and which limit says so; time is turned into steps as seen so far."""
    work = wanted.work_limit - spent
    in_time = 0.8 * (wanted.time_limit - seconds) * spent / max(seconds, 1e-9)
    return (in_time, "time limit") if in_time < work else (work, "work limit")


def _affordable(sweeper: Sweeper, wanted: int, resolution: int, left: tuple[float, str]) -> tuple[int, str]:
    """The finest resolution up to ``wanted`` that memory and work allow, or why there is none finer than this one."""
    if resolution >= sweeper.largest:
        return resolution, "finest grid"
    least = min(math.ceil(LEAST_LEAP * resolution), sweeper.largest)
    room, (work, limit) = float(PASS_MEMORY), left
    if sweeper.bytes(least) > room:
        return resolution, "memory"
    if sweeper.work(least) > work:
        return resolution, limit
    wanted = max(min(wanted, sweeper.largest), least)
    while sweeper.bytes(wanted) > room or sweeper.work(wanted) > work:
        wanted = max(int(wanted * 0.9), least)
    return wanted, ""
