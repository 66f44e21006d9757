"""CPU seconds, one thread, warm, to a certified gap; how they grow; and other ways to plan beside it.

python -m benchmarks.planning.run [--quick] [--parts to_a_gap,growth,many_contexts,beside_others,beside_sarsop,memory]
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import argparse
import resource
import time
from typing import Any

import numpy as np

from benchmarks.cells import show
from benchmarks.planning import analysis, rivals
from benchmarks.planning import settings as chosen
from benchmarks.record import Rows, cpu_seconds, record
from rewardmix import RewardMixingMDP, problems
from rewardmix.planning import plan, plan_exact
from rewardmix.planning.belief_grid import GridPlanner
from rewardmix.planning.plan_result import PlanProgress


def to_a_gap(quick: bool) -> Rows:
    """Seconds to a gap, beside the targets."""
    several = chosen.QUICK if quick else None
    rows = []
    for case in [*chosen.TARGETS[:several], *chosen.OTHERS[:several]]:
        model = case.model()
        result = plan(model, gap=case.gap)
        few = 3 if result.info.rounds[-1].seconds > 1 else 9
        rows.append({
            "case": case.name,
            "seconds": cpu_seconds(lambda m=model, g=case.gap: plan(m, gap=g), few),
            "target": case.target,
            "gap": result.gap,
            "converged": result.info.converged,
            "points": result.info.rounds[-1].num_points,
            "sweeps": len(result.info.rounds),
            "controller_bytes": result.nbytes,
        })  # fmt: skip
    return rows


def one_sweep(model: RewardMixingMDP, resolution: int = 256, repeats: int = 9) -> float:
    """CPU seconds of one pass with every action in play."""

    def sweep() -> None:
        GridPlanner(model).sweep(resolution, float("inf"))

    return cpu_seconds(sweep, repeats)


def growth(_: bool) -> Rows:
    """The cost against the gap (a whole plan), and the horizon, the actions and the entries of T (one pass)."""
    model = chosen.dense(50, 5, 10, 2, 0)
    gaps = [cpu_seconds(lambda g=gap: plan(model, gap=g), 3) for gap in chosen.GAPS]
    horizons = [one_sweep(chosen.dense(50, 5, horizon, 2, 0)) for horizon in chosen.HORIZONS]
    actions = [one_sweep(chosen.dense(50, action, 10, 2, 0)) for action in chosen.ACTIONS]
    size = {"states": 200, "actions": 10, "horizon": 6}
    entries = [one_sweep(problems.make_model("random", **size, next_states=n), 512, 5) for n in chosen.ENTRIES]
    return [
        {"factor": "gap", "sizes": chosen.GAPS, "seconds": gaps, "expected": "-1/2"},
        {"factor": "horizon", "sizes": chosen.HORIZONS, "seconds": horizons, "expected": "1"},
        {"factor": "actions", "sizes": chosen.ACTIONS, "seconds": actions, "expected": "1"},
        {"factor": "entries of T", "sizes": chosen.ENTRIES, "seconds": entries, "expected": "constant + 1"},
    ]


def many_contexts(quick: bool) -> Rows:
    """The bracket after every pass, for three and more types, within a limit on the work."""
    rows = []
    for case in chosen.MANY[: 2 if quick else None]:
        model = case.model()
        plan(model, gap=1.0)
        began, passes = time.process_time(), Rows()

        def append_pass(done: PlanProgress, began: float = began, passes: Rows = passes) -> None:
            passes.append({"seconds": time.process_time() - began, "lower": done.lower, "upper": done.upper})

        result = plan(model, gap=case.gap, max_operations=chosen.MANY_WORK / (10 if quick else 1), callback=append_pass)
        rows.append({"case": case.name, "passes": passes, "bytes": result.nbytes, "reason": result.info.stop_reason})
    return rows


def beside_others(quick: bool) -> Rows:
    """The gap that others reach in their time, and how long the planner takes to the same gap."""
    seconds = 3.0 if quick else chosen.RIVAL_SECONDS
    rows = []
    for case in chosen.RIVALS:
        model = case.model()
        for name, solver in (("SARSOP", rivals.sarsop), ("general HSVI in NumPy", rivals.general)):
            result = solver(model, case.gap, seconds)
            if result is not None:
                gap = max(result[1] - result[0], 1e-12)
                ours = cpu_seconds(lambda m=model, g=gap: plan(m, gap=g), 5)
                rows.append(_beside(name, case.name, gap, result[2], ours))
    model, grid = chosen.dense(50, 5, 10, 2, 0), np.sin(np.linspace(0, np.pi / 2, 257)) ** 2
    spent = cpu_seconds(lambda: rivals.numpy_sweep(model, grid), 3)
    label = "dense M=2 S=50 A=5 H=10, 257 beliefs"
    rows.append(_beside("the same sweep in NumPy", label, None, spent, one_sweep(model)))
    model = chosen.sparse(10, 3, 6, 2, 0)
    spent, ours = cpu_seconds(lambda: plan_exact(model), 3), cpu_seconds(lambda: plan(model, gap=1e-9), 3)
    rows.append(_beside("exact polygons", "sparse M=2 S=10 A=3 H=6 gap 1e-9", 1e-9, spent, ours))
    return rows


def beside_sarsop(quick: bool) -> Rows:
    """The models of three to eight types: the bracket of SARSOP, and the time of the planner to one as narrow."""
    rows = []
    for case in chosen.MANY[: 2 if quick else None]:
        model = case.model()
        result = rivals.sarsop(model, case.gap, 3.0 if quick else chosen.RIVAL_SECONDS)
        if result is not None:
            gap = max(result[1] - result[0], 1e-12)
            rows.append(
                _beside("SARSOP", case.name, gap, result[2], cpu_seconds(lambda m=model, g=gap: plan(m, gap=g), 1))
            )
    return rows


def _beside(solver: str, case: str, gap: float | None, seconds: float, ours: float) -> dict[str, Any]:
    return {"case": case, "solver": solver, "gap": gap, "seconds": seconds, "ours": ours, "ratio": seconds / ours}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", default=",".join(PARTS))
    args = parser.parse_args()
    for num_types in (2, 3, 4):  # compiled code of every kind in place before time is taken
        for family in ("dense", "sparse"):
            plan(chosen.Case(family, 12, 2, 4, 1e-2, num_types=num_types).model(), gap=1e-2, max_seconds=1.0)
    for part in args.parts.split(","):
        rows = PARTS[part](args.quick)
        show(analysis.TABLES[part](rows))
        if rows and not args.quick:
            record("planning", part, rows)


PARTS = {
    "to_a_gap": to_a_gap,
    "growth": growth,
    "many_contexts": many_contexts,
    "beside_others": beside_others,
    "beside_sarsop": beside_sarsop,
    "memory": lambda _: [{"peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}],
}

if __name__ == "__main__":
    main()
