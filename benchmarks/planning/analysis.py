"""Tables and the figure of the study of planning: python -m benchmarks.planning.analysis."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cells import grid, show
from benchmarks.exponents import slope
from benchmarks.record import Rows, rows_of


def speed(rows: Rows) -> list[str]:
    """CPU time to a certified gap."""
    lines = [
        [row["case"], f"{row['seconds']:.3g}", f"{row['target']:g}" if row["target"] else "", f"{row['gap']:.1e}",
         row["points"]]
        for row in rows
    ]  # fmt: skip
    return [grid(["model and requested gap", "CPU-seconds", "goal", "gap reached", "beliefs"], lines)]


def missed(rows: Rows) -> str:
    """Cases that took longer than their target, or did not reach their gap."""
    aimed = [row for row in rows if row["target"]]
    late = [row["case"] for row in aimed if row["seconds"] > row["target"] or not row["converged"]]
    return f"targets missed: {', '.join(late) or 'none'}"


def growth(rows: Rows) -> list[str]:
    """Exponents of the cost in what it grows with."""
    lines = [
        [row["factor"], f"{slope(row['sizes'], row['seconds']):.3g}", row["expected"],
         *(" ".join(f"{value:.3g}" for value in row[key]) for key in ("sizes", "seconds"))]
        for row in rows
    ]  # fmt: skip
    return [grid(["growth with", "exponent", "expected", "sizes", "CPU-seconds"], lines)]


def many_contexts(rows: Rows) -> list[str]:
    """The bracket for three and more types, in percent of the value, after so many CPU-seconds."""
    lines = [[row["case"], *(_percent(row["passes"], seconds) for seconds in WITHIN), row["reason"]] for row in rows]
    return [grid(["model", *(f"gap after {seconds:g} CPU-s" for seconds in WITHIN), "stopped by"], lines)]


WITHIN = (0.1, 1.0, 10.0)


def _percent(passes: Rows, seconds: float) -> str:
    """The narrowest bracket so far."""
    done = [progress for progress in passes if progress["seconds"] <= seconds]
    return f"{(1.0 - done[-1]['lower'] / done[-1]['upper']):.2%}" if done else ""


def memory(rows: Rows) -> list[str]:
    """What the run took."""
    return [f"peak memory: {rows[0]['peak_gib']:.2f} GiB (target: below 4 GiB)"]


def beside_others(rows: Rows) -> list[str]:
    """Other solvers, and the planner to the same gap."""
    lines = [
        [row["solver"], row["case"], *("" if row[key] is None else f"{row[key]:.4g}" for key in OTHERS)] for row in rows
    ]
    texts = [grid(["beside", "case", "gap", "its CPU-seconds", "CPU-seconds of plan", "ratio"], lines)]
    ran = any(row["solver"] == "SARSOP" for row in rows)
    return texts if ran else [*texts, "SARSOP (pomdpsol) is not on the PATH: not run."]


OTHERS = ("gap", "seconds", "ours", "ratio")


def everything(result: dict[str, Rows]) -> list[str]:
    """All tables, of a run or of the committed results."""
    tables = [text for name, table in TABLES.items() for text in table(result[name])]
    return [*tables, missed(result["to_a_gap"])]


def seconds(plt: Any) -> Any:
    """CPU time to a certified gap."""
    rows = sorted(rows_of("planning", "to_a_gap"), key=lambda row: row["seconds"])
    figure, axes = plt.subplots(figsize=(8.2, 0.34 * len(rows) + 1.0), layout="constrained")
    positions = np.arange(len(rows))
    axes.barh(positions, [row["seconds"] for row in rows], height=0.62)
    for position, row in zip(positions, rows, strict=True):
        axes.text(row["seconds"] * 1.12, position, f"{row['seconds']:.2g} s", va="center", fontsize=9)
    axes.set(xscale="log", xlabel="CPU-seconds until the gap is certified", xlim=(0.006, 40))
    axes.set_yticks(positions, [row["case"] for row in rows], fontsize=9)
    return figure


TABLES = {
    "to_a_gap": speed,
    "growth": growth,
    "many_contexts": many_contexts,
    "beside_sarsop": beside_others,
    "beside_others": beside_others,
    "memory": memory,
}
"""By the part that they show."""

FIGURES = {"seconds": seconds}

if __name__ == "__main__":
    show(everything({piece: rows_of("planning", piece) for piece in TABLES}))
