"""The loop around every sweep: refine until the gap is met, the time is over or the memory is too small.

The gap of a grid falls about as resolution^-2, so the resolution that is needed is predicted, not groped for.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from rewardmix._check import as_number, refuse
from rewardmix.planning.result import PlanInfo, Round
from rewardmix.policy import Controller

SAFETY = 1.06
"""What the predicted resolution is multiplied by."""
LEAP = 12.0
"""Most by which one refinement multiplies the resolution."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """The answer of one backward pass: a bracket and the controller that earns its lower end.

    Attributes:
        lower: certified.
        upper: certified.
        points: most belief points at one step.
        exact: no interpolation took place, so a finer grid gives nothing.
        floor: the part of the gap that rounding takes; no grid gets below it.
        policy: makes the controller (built only for the sweep that is returned).
    """

    lower: float
    upper: float
    points: int
    exact: bool
    floor: float
    policy: Callable[[], Controller]


class Sweeper(Protocol):
    """What ``refine`` drives."""

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


@dataclass(frozen=True)
class Request:
    """What a caller wants of a planner.

    Attributes:
        gap: upper - lower at which to stop.
        time_limit: seconds, infinite if none.
        on_update: told about every round.
    """

    gap: float
    time_limit: float
    on_update: Callable[[Round], None] | None


def request(gap: object, time_limit: object, on_update: Callable[[Round], None] | None) -> Request:
    """A checked request."""
    limit = math.inf if time_limit is None else as_number("time_limit", time_limit, above=0.0)
    return Request(as_number("gap", gap, above=0.0), limit, on_update)


def check_memory(needed: float) -> None:
    """Refuse a model for which even the smallest pass does not fit."""
    if needed > memory():
        refuse(
            "model",
            f"a size that needs about {needed / 2**30:.1f} GiB to plan for",
            f"one that fits into {memory() / 2**30:.1f} GiB",
        )


def memory() -> float:
    """Bytes that a plan may take: three quarters of the machine's."""
    try:
        return 0.75 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4.0 * 2**30


def refine(sweeper: Sweeper, wanted: Request) -> tuple[Controller, float, float, PlanInfo]:
    """(policy, lower, upper, info): sweep at growing resolutions."""
    began = time.perf_counter()
    resolution = sweeper.first
    check_memory(sweeper.bytes(resolution))
    rounds: list[Round] = []
    history: list[tuple[int, float, float]] = []
    best: Sweep | None = None
    upper = math.inf
    while True:
        deadline = math.inf if best is None else began + wanted.time_limit
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
        history.append((resolution, now.upper - now.lower, seconds - (rounds[-2].seconds if len(rounds) > 1 else 0.0)))
        stop = _stop(sweeper, now, seconds >= wanted.time_limit, resolution)
        if stop:
            reason = stop
            break
        following = next_resolution(history, wanted.gap, wanted.time_limit - seconds, sweeper.growth)
        resolution = min(_affordable(sweeper, following, resolution), sweeper.largest)
    assert best is not None  # the first sweep has no deadline
    info = PlanInfo(upper - best.lower <= wanted.gap, wanted.gap, reason, tuple(rounds))
    return best.policy(), best.lower, upper, info


def next_resolution(history: list[tuple[int, float, float]], gap: float, seconds: float, growth: int) -> int:
    """The resolution that should meet ``gap``, by the law seen so far; less if the seconds left do not allow it.

    Args:
        history: (resolution, gap, seconds) of each sweep.
        gap: asked for.
        seconds: left.
        growth: the cost of a pass grows as resolution ** growth.
    """
    resolution, found, spent = history[-1]
    power, leap = 2.0, 4.0
    if len(history) > 1:
        before = history[-2]
        power = math.log(before[1] / found) / math.log(resolution / before[0]) if before[1] > found > 0 else 1.0
        power, leap = min(max(power, 1.5), 2.2), LEAP
    factor: float = SAFETY * math.pow(max(found / gap, 1.0), 1.0 / power)
    factor = min(max(factor, 1.25), math.pow(leap, 1.0 / growth), _allowed(seconds / max(spent, 1e-9), growth))
    return math.ceil(resolution * factor)


def _allowed(passes: float, growth: int) -> float:
    """The factor on the resolution that fits into the time of so many passes, with a margin; at least 1.25."""
    return max(1.25, math.pow(0.8 * max(passes, 0.0), 1.0 / growth))


def _stop(sweeper: Sweeper, now: Sweep, late: bool, resolution: int) -> str:
    if now.exact or now.upper - now.lower <= 2 * now.floor:
        return "rounding"
    if late:
        return "time limit"
    if resolution >= sweeper.largest:
        return "finest grid"
    return "memory" if _affordable(sweeper, sweeper.largest, resolution) <= resolution else ""


def _affordable(sweeper: Sweeper, wanted: int, resolution: int) -> int:
    """The largest resolution up to ``wanted`` that fits into memory (``resolution`` does)."""
    while wanted > resolution and sweeper.bytes(wanted) > memory():
        wanted = int(wanted * 0.9)
    return wanted
