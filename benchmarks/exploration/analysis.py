"""Tables and the figure of the study of exploration: python -m benchmarks.exploration.analysis."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cells import grid, many, short, show, sized
from benchmarks.exploration import settings
from benchmarks.record import Rows, rows_of

SPEEDS = {
    "selected 1.5": "selected pairs, growth 1.5",
    "all pairs 1.5": "all pairs, growth 1.5",
    "all pairs 1.05": "all pairs, growth 1.05",
    "numpy literal": "line by line in NumPy",
}
"""Key of a row -> what the page calls it."""

SIZE = "states, actions, steps"


def throughput(rows: Rows) -> list[str]:
    """Episodes explored in a CPU-second."""
    lines = [[sized(row["size"]), *(many(row[key]) for key in SPEEDS)] for row in rows]
    return [grid([SIZE, *SPEEDS.values()], lines)]


def switching(rows: Rows) -> list[str]:
    """V_0 with few plans beside V_0 with a plan after every episode."""
    lines = [
        [sized(row["size"]), f"{row['episodes']:,}", short(row["literal"], 4), short(row["default"], 4),
         f"{100 * row['loss']:.2f} %"]
        for row in rows
    ]  # fmt: skip
    return [grid([SIZE, "episodes", "plan after every episode", "default", "difference"], lines)]


def to_the_end(rows: Rows) -> list[str]:
    """The paper's exploration until it stops."""
    lines = [
        [sized(row["size"]), f"{row['growth']:g}", many(row["episodes"]), f"{row['seconds']:.2g}",
         f"{row['ratio']:.2f}"]
        for row in rows
    ]  # fmt: skip
    text = (
        f"epsilon {settings.ACCURACY:g}, separation {settings.SEPARATION:g}, failure probability {settings.FAILURE:g}."
    )
    return [grid([SIZE, "growth", "episodes", "CPU-seconds", "episodes / fluid estimate"], lines), text]


def budgets(rows: Rows) -> list[str]:
    """Episodes until every reachable pair was seen often enough."""
    lines = [
        [row["problem"], row["allowed"], f"{np.median(row['ours']):g}", max(row["ours"]), row["uniform"] or "> 2e6"]
        for row in rows
    ]
    return [grid(["every pair seen 20 times", "allowed", "median", "most", "actions at random"], lines)]


def exponents(rows: Rows) -> list[str]:
    """K ~ threshold^-p fluid-parts^q by least squares on logarithms, and how far the fluid estimate is off."""
    logs = np.log([[row["threshold"], parts(*row["size"])] for row in rows])
    design = np.column_stack([np.ones(len(rows)), logs])
    (_, slope, size), *_ = np.linalg.lstsq(design, np.log([row["episodes"] for row in rows]), rcond=None)
    ratio = np.array([row["episodes"] / row["fluid"] for row in rows])
    columns = ["exponent of 1 / threshold", "of √S + S√(HA) + SA", "least episodes / fluid", "most episodes / fluid"]
    return [grid(columns, [[f"{value:.3f}" for value in (-slope, size, ratio.min(), ratio.max())]])]


def parts(s: int, a: int, h: int) -> float:
    return s**0.5 + s * (h * a) ** 0.5 + s * a


def episodes(plt: Any) -> Any:
    """Episodes to a threshold, and the fluid estimate."""
    rows = rows_of("exploration", "exponents")
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for size in sorted({tuple(row["size"]) for row in rows}):
        points = sorted((row["threshold"], row["episodes"], row["fluid"]) for row in rows if tuple(row["size"]) == size)
        stop, simulated, fluid = zip(*points, strict=True)
        (line,) = axes.loglog(stop, simulated, "o", label=f"S, A, H = {size}")
        axes.loglog(stop, fluid, "-", color=line.get_color(), linewidth=1)
    axes.set(xlabel="threshold for V_0", ylabel="episodes (dots: simulated, lines: fluid estimate)")
    axes.legend(frameon=False)
    return figure


TABLES = {
    "throughput": throughput,
    "to_the_end": to_the_end,
    "low_switching": switching,
    "budgets": budgets,
    "exponents": exponents,
}
"""By the part that they show."""

FIGURES = {"episodes": episodes}

if __name__ == "__main__":
    for part, make_table in TABLES.items():
        show(make_table(rows_of("exploration", part)))
