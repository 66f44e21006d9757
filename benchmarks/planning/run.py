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
from rewardmix.planning.grid import GridSweeper
from rewardmix.planning.plans import Round


def to_a_gap(quick: bool) -> Rows:
    """Seconds to a gap, beside the targets."""
    several = chosen.QUICK if quick else None
    rows = []
    for case in [*chosen.TARGETS[:several], *chosen.OTHERS[:several]]:
        model = case.model()
        found = plan(model, gap=case.gap)
        few = 3 if found.info.rounds[-1].seconds > 1 else 9
        rows.append({
            "case": case.name,
            "seconds": cpu_seconds(lambda m=model, g=case.gap: plan(m, gap=g), few),
            "target": case.target,
            "gap": found.gap,
            "converged": found.info.converged,
            "points": found.info.rounds[-1].points,
            "sweeps": len(found.info.rounds),
            "controller_bytes": found.nbytes,
        })  # fmt: skip
    return rows


def one_sweep(model: RewardMixingMDP, resolution: int = 256, repeats: int = 9) -> float:
    """CPU seconds of one pass with every action in play."""

    def sweep() -> None:
        GridSweeper(model).sweep(resolution, float("inf"))

    return cpu_seconds(sweep, repeats)


def growth(_: bool) -> Rows:
    """The cost against the gap (a whole plan), and the horizon, the actions and the entries of T (one pass)."""
    model = chosen.dense(50, 5, 10, 2, 0)
    gaps = [cpu_seconds(lambda g=gap: plan(model, gap=g), 3) for gap in chosen.GAPS]
    horizons = [one_sweep(chosen.dense(50, 5, horizon, 2, 0)) for horizon in chosen.HORIZONS]
    actions = [one_sweep(chosen.dense(50, action, 10, 2, 0)) for action in chosen.ACTIONS]
    size = {"states": 200, "actions": 10, "horizon": 6}
    entries = [one_sweep(problems.make("random", **size, successors=n), 512, 5) for n in chosen.ENTRIES]
    return [
        {"factor": "gap", "sizes": chosen.GAPS, "seconds": gaps, "expected": "-1/2"},
        {"factor": "horizon", "sizes": chosen.HORIZONS, "seconds": horizons, "expected": "1"},
        {"factor": "actions", "sizes": chosen.ACTIONS, "seconds": actions, "expected": "1"},
        {"factor": "entries of T", "sizes": chosen.ENTRIES, "seconds": entries, "expected": "constant + 1"},
    ]


def many_contexts(quick: bool) -> Rows:
    """The bracket after every pass, for three and more contexts, within a limit on the work."""
    rows = []
    for case in chosen.MANY[: 2 if quick else None]:
        model = case.model()
        plan(model, gap=1.0)
        began, passes = time.process_time(), Rows()

        def told(done: Round, began: float = began, passes: Rows = passes) -> None:
            passes.append({"seconds": time.process_time() - began, "lower": done.lower, "upper": done.upper})

        found = plan(model, gap=case.gap, work_limit=chosen.MANY_WORK / (10 if quick else 1), on_update=told)
        rows.append({"case": case.name, "passes": passes, "bytes": found.nbytes, "reason": found.info.reason})
    return rows


def beside_others(quick: bool) -> Rows:
    """The gap that others reach in their time, and how long the planner takes to the same gap."""
    seconds = 3.0 if quick else chosen.RIVAL_SECONDS
    rows = []
    for case in chosen.RIVALS:
        model = case.model()
        for name, solver in (("SARSOP", rivals.sarsop), ("general HSVI in NumPy", rivals.general)):
            found = solver(model, case.gap, seconds)
            if found is not None:
                gap = max(found[1] - found[0], 1e-12)
                ours = cpu_seconds(lambda m=model, g=gap: plan(m, gap=g), 5)
                rows.append(_beside(name, case.name, gap, found[2], ours))
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
        found = rivals.sarsop(model, case.gap, 3.0 if quick else chosen.RIVAL_SECONDS)
        if found is not None:
            gap = max(found[1] - found[0], 1e-12)
            rows.append(
                _beside("SARSOP", case.name, gap, found[2], cpu_seconds(lambda m=model, g=gap: plan(m, gap=g), 1))
            )
    return rows


def _beside(solver: str, case: str, gap: float | None, seconds: float, ours: float) -> dict[str, Any]:
    return {"case": case, "solver": solver, "gap": gap, "seconds": seconds, "ours": ours, "ratio": seconds / ours}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--quick", action="store_true")
    asked.add_argument("--parts", default=",".join(PARTS))
    given = asked.parse_args()
    for contexts in (2, 3, 4):  # compiled code of every kind in place before time is taken
        for family in ("dense", "sparse"):
            plan(chosen.Case(family, 12, 2, 4, 1e-2, contexts=contexts).model(), gap=1e-2, time_limit=1.0)
    for part in given.parts.split(","):
        rows = PARTS[part](given.quick)
        show(analysis.TABLES[part](rows))
        if rows and not given.quick:
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
