"""CPU seconds, one thread, warm, to a certified gap; how they grow; and other ways to plan beside it.

python -m benchmarks.planning.run [--quick]
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import resource
import sys
import time

import numpy as np

from benchmarks.planning import rivals
from benchmarks.planning import settings as chosen
from benchmarks.record import cpu_seconds, record, table
from rewardmix.planning import plan, plan_exact
from rewardmix.planning.sweeps import GridSweeper
from rewardmix.planning.two import Segment


def timed(case: chosen.Case, repeats: int) -> dict:
    model = case.model()
    found = plan(model, gap=case.gap)
    seconds = cpu_seconds(lambda: plan(model, gap=case.gap), repeats)
    return {
        "case": case.name,
        "seconds": seconds,
        "target": case.target,
        "gap": found.gap,
        "converged": found.info.converged,
        "points": found.info.rounds[-1].points,
        "sweeps": len(found.info.rounds),
        "controller_bytes": found.nbytes,
    }


def to_a_gap(quick: bool) -> list[dict]:
    """Seconds to a gap, beside the targets."""
    cases = [*chosen.TARGETS[: chosen.QUICK], *chosen.OTHERS[: chosen.QUICK]] if quick else None
    found = [timed(case, 3) for case in cases or [*chosen.TARGETS, *chosen.OTHERS]]
    rows = [[row["case"], row["seconds"], row["target"] or "-",
             row["target"] / row["seconds"] if row["target"] else "-", row["gap"], row["points"]]
            for row in found]  # fmt: skip
    table(["to a gap", "CPU s", "target", "target / CPU s", "gap reached", "beliefs"], rows)
    return found


def slope(sizes, seconds) -> float:
    """Exponent of the growth, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def one_sweep(model, resolution: int = 256, repeats: int = 3) -> float:
    """CPU seconds of one pass with every action in play."""

    def sweep() -> None:
        GridSweeper(model, Segment(model)).sweep(resolution, float("inf"))

    return cpu_seconds(sweep, repeats)  # fmt: skip


def growth() -> dict:
    """Exponents of the cost in the gap, the horizon, the actions and the entries of T."""
    base = {"dense": chosen.dense, "sparse": chosen.sparse}
    model = base["dense"](50, 5, 10, 2, 0)
    gaps = [cpu_seconds(lambda g=gap: plan(model, gap=g), 3) for gap in chosen.GAPS]
    horizons = [one_sweep(base["dense"](50, 5, horizon, 2, 0)) for horizon in chosen.HORIZONS]
    actions = [one_sweep(base["dense"](50, action, 10, 2, 0)) for action in chosen.ACTIONS]
    entries = []
    for count in chosen.ENTRIES:
        from rewardmix import problems

        entries.append(one_sweep(problems.make("random", states=200, actions=10, horizon=6, successors=count), 512))
    results = {
        "gap": {"sizes": chosen.GAPS, "seconds": gaps, "exponent": slope(chosen.GAPS, gaps), "expected": -0.5},
        "horizon": {"sizes": chosen.HORIZONS, "seconds": horizons, "exponent": slope(chosen.HORIZONS, horizons),
                    "expected": 1},
        "actions": {"sizes": chosen.ACTIONS, "seconds": actions, "exponent": slope(chosen.ACTIONS, actions),
                    "expected": 1},
        "entries of T": {"sizes": chosen.ENTRIES, "seconds": entries, "expected": "at most 1, plus a constant",
                         "exponent": slope(chosen.ENTRIES, entries)},
    }  # fmt: skip
    print()
    table(["growth with", "exponent", "expected", "seconds"],
          [[name, row["exponent"], row["expected"], " ".join(f"{s:.3g}" for s in row["seconds"])]
           for name, row in results.items()])  # fmt: skip
    return results


def many_contexts(quick: bool) -> list[dict]:
    """The best bracket within a time limit, for more than three contexts."""
    seconds = 2.0 if quick else chosen.MANY_SECONDS
    results = []
    for case in chosen.MANY[: 1 if quick else None]:
        plan(case.model(), gap=1.0, time_limit=1e-3)
        began = time.process_time()
        found = plan(case.model(), gap=case.gap, time_limit=seconds)
        results.append({"case": case.name, "seconds": time.process_time() - began, "lower": found.lower,
                        "upper": found.upper, "gap": found.gap, "reason": found.info.reason})  # fmt: skip
    print()
    table([f"within {seconds:g} s (wall)", "CPU s", "lower", "upper", "gap"],
          [[row["case"], row["seconds"], row["lower"], row["upper"], row["gap"]] for row in results])  # fmt: skip
    return results


def beside_others(quick: bool) -> list[dict]:
    """The gap that others reach, and how long the planner takes to it."""
    seconds = 3.0 if quick else chosen.RIVAL_SECONDS
    results = []
    for case in chosen.RIVALS:
        model = case.model()
        for name, solver in (("SARSOP", rivals.sarsop), ("general HSVI in NumPy", rivals.general)):
            found = solver(model, case.gap, seconds)
            if found is None:
                continue
            lower, upper, spent = found
            ours = cpu_seconds(lambda m=model, g=upper - lower: plan(m, gap=max(g, 1e-12)), 3)
            results.append({"case": case.name, "solver": name, "gap": upper - lower, "seconds": spent,
                            "ours": ours, "ratio": spent / ours})  # fmt: skip
    model = chosen.dense(50, 5, 10, 2, 0)
    grid = np.sin(np.linspace(0, np.pi / 2, 257)) ** 2
    spent, ours = cpu_seconds(lambda: rivals.numpy_sweep(model, grid), 2), one_sweep(model)
    results.append({"case": "dense M=2 S=50 A=5 H=10, 257 beliefs", "solver": "the same sweep in NumPy", "gap": None,
                    "seconds": spent, "ours": ours, "ratio": spent / ours})  # fmt: skip
    model = chosen.sparse(10, 3, 6, 2, 0)
    spent = cpu_seconds(lambda: plan_exact(model), 2)
    ours = cpu_seconds(lambda: plan(model, gap=1e-9), 2)
    results.append({"case": "sparse M=2 S=10 A=3 H=6 gap 1e-9", "solver": "exact polygons", "gap": 1e-9,
                    "seconds": spent, "ours": ours, "ratio": spent / ours})  # fmt: skip
    print()
    if not any(row["solver"] == "SARSOP" for row in results):
        print("SARSOP (pomdpsol) is not on the PATH: not run")
    table(["beside", "case", "gap", "its CPU s", "plan, CPU s", "ratio"],
          [[row["solver"], row["case"], row["gap"] if row["gap"] is not None else "-", row["seconds"], row["ours"],
            row["ratio"]] for row in results])  # fmt: skip
    return results


def main() -> None:
    quick = "--quick" in sys.argv
    for contexts in (2, 3, 4):  # compiled code of every kind in place before time is taken
        for family in ("dense", "sparse"):
            plan(chosen.Case(family, 12, 2, 4, 1e-2, contexts=contexts).model(), gap=1e-2, time_limit=1.0)
    results = {"to_a_gap": to_a_gap(quick), "growth": growth(), "many_contexts": many_contexts(quick),
               "beside_others": beside_others(quick)}  # fmt: skip
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    results["peak_gib"] = peak
    print(f"\npeak memory of this process: {peak:.2f} GiB (target: below 4 GiB)")
    missed = [row["case"] for row in results["to_a_gap"] if row["target"] and row["seconds"] > row["target"]]
    print(f"targets missed: {', '.join(missed) or 'none'}")
    if not quick:
        print("written:", record("planning", results))


if __name__ == "__main__":
    main()
