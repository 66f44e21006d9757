"""The tables of the study, from a run or from the committed results.

python -m benchmarks.planning.analysis
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import table


def slope(sizes: list[float], seconds: list[float]) -> float:
    """Exponent of the growth, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def missed(results: dict[str, Any]) -> list[str]:
    """Cases that took longer than their target, or did not reach their gap."""
    rows = [row for row in results["to_a_gap"] if row["target"]]
    return [row["case"] for row in rows if row["seconds"] > row["target"] or not row["converged"]]


def show(results: dict[str, Any]) -> None:
    """Print every table."""
    table(
        ["to a gap", "CPU s", "target", "target / CPU s", "gap reached", "beliefs"],
        [
            [row["case"], row["seconds"], row["target"] or "-", _over(row["target"], row["seconds"]), row["gap"],
             row["points"]]
            for row in results["to_a_gap"]
        ],
    )  # fmt: skip
    print()
    table(
        ["growth with", "exponent", "expected", "sizes", "CPU s"],
        [
            [name, slope(row["sizes"], row["seconds"]), row["expected"], _list(row["sizes"]), _list(row["seconds"])]
            for name, row in results["growth"].items()
        ],
    )
    print()
    table(
        ["more contexts, within seconds (wall)", "limit", "CPU s", "lower", "upper", "gap"],
        [
            [row["case"], row["limit"], row["seconds"], row["lower"], row["upper"], row["gap"]]
            for row in results["many_contexts"]
        ],
    )
    print()
    if not any(row["solver"] == "SARSOP" for row in results["beside_others"]):
        print("SARSOP (pomdpsol) is not on the PATH: not run")
    table(
        ["beside", "case", "gap", "its CPU s", "plan, CPU s", "ratio"],
        [
            [row["solver"], row["case"], "-" if row["gap"] is None else row["gap"], row["seconds"], row["ours"],
             row["ratio"]]
            for row in results["beside_others"]
        ],
    )  # fmt: skip
    print(f"\npeak memory: {results['peak_gib']:.2f} GiB (target: below 4 GiB)")
    print(f"targets missed: {', '.join(missed(results)) or 'none'}")


def _over(target: float | None, seconds: float) -> float | str:
    return target / seconds if target else "-"


def _list(values: list[float]) -> str:
    return " ".join(f"{value:.3g}" for value in values)


if __name__ == "__main__":
    show(json.loads(Path(__file__).with_name("results.json").read_text(encoding="utf-8"))["results"])
