"""Tables and the figure of the study of recovery: python -m benchmarks.recovery.analysis."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cells import grid, short, show
from benchmarks.record import Rows, rows_of
from benchmarks.recovery.settings import SHORT, TARGETS

QUALITIES = ("best", "EM from the truth", "best, from moments", "paper, 3 deviations", "paper, guaranteed radii")
"""Methods, in the order in which the page shows them."""


def measured(programs: Rows, qualities: Rows, answers: Rows) -> list[str]:
    """The program against all rows at once, the likelihood against EM from the truth and against StepMix."""
    return [
        *program(programs),
        "Root mean square error of the rewards:",
        *quality(qualities),
        "Real survey answers, M types:",
        *real(answers),
    ]


def program(rows: Rows) -> list[str]:
    """The linear program, beside linprog with all rows."""
    lines = [
        [row["case"], f"{row['pairs']:,}", f"{row['seconds']:.2f}", f"{row['linprog_seconds']:.1f}",
         f"{row['ratio']:.0f}"]
        for row in rows
    ]  # fmt: skip
    return [grid(["linear program", "pairs", "CPU-seconds", "all rows at once", "times faster"], lines)]


def quality(rows: Rows) -> list[str]:
    """Root mean square error of the rewards."""
    lines = [[row["coverage"], row["seeds"], *(f"{row['rmse'][name]:.4f}" for name in QUALITIES)] for row in rows]
    return [grid(["coverage", "seeds", *QUALITIES], lines)]


def real(rows: Rows) -> list[str]:
    """Log-likelihood and time beside StepMix."""
    lines = [
        [row["answers"], f"{row['better_by']:.1e}", f"{row['seconds']:.2f}", f"{row['stepmix_seconds']:.1f}",
         f"{row['ratio']:.0f}"]
        for row in rows
    ]  # fmt: skip
    columns = ["answers", "log-likelihood above StepMix's", "CPU-seconds", "StepMix", "times faster"]
    return [grid(columns, lines)] if rows else ["StepMix is not installed: pip install rewardmix[bench]"]


def rare(rows: Rows) -> list[str]:
    """Objectives against EM from the truth where one type is rare."""
    lines = [
        [row["world"], row["contexts"], f"{row['weight']:g}", row["runs"], row["below_without"],
         f"{row['worst_without']:.1f}", row["below"], f"{row['worst']:.2f}", row["above"]]
        for row in rows
    ]  # fmt: skip
    columns = ["model", "types", "weight of one", "runs", "below without", "worst", "below", "worst", "above"]
    total, below = sum(row["runs"] for row in rows), sum(row["below"] for row in rows)
    text = (
        f"Differences to EM from the truth in nats: {below} of {total} runs end more than {SHORT:g} below it. *Above*: "
        "runs at an optimum above that of the truth. *Without*: without initial values from third moments."
    )
    return [grid(columns, lines), text]


def gross(rows: Rows) -> list[str]:
    """Error with some pairs grossly wrong, over that with clean ones."""
    shares = list(rows[0]["ratio"])
    lines = [[row["coverage"], *map(short, row["ratio"].values())] for row in rows]
    return [grid(["error by the share of gross pairs", *shares], lines)]


def plain(rows: Rows) -> list[str]:
    """Every number as it is."""
    lines = [[f"{value:.4g}" if isinstance(value, float) else value for value in row.values()] for row in rows]
    return [grid([key.replace("_", " ") for key in rows[0]], lines)]


def error(plt: Any) -> Any:
    """Error of the recovered rewards by method."""
    rows = {row["coverage"]: row["rmse"] for row in rows_of("recovery", "quality")}
    names = list(rows["complete"])
    figure, axes = plt.subplots(figsize=(8.2, 3.4), layout="constrained")
    positions = np.arange(len(names))
    for shift, (coverage, words) in enumerate(
        (("complete", "every pair seen"), ("regional", "only neighbours seen together"))
    ):
        values = [rows[coverage][name] for name in names]
        axes.barh(positions + 0.2 - 0.4 * shift, values, height=0.36, label=words)
        for position, value in zip(positions, values, strict=True):
            axes.text(value + 0.002, position + 0.2 - 0.4 * shift, f"{value:.3f}", va="center", fontsize=8.5)
    axes.set_yticks(positions, names)
    axes.invert_yaxis()
    axes.set(xlabel="root mean square error of the reward probabilities", xlim=(0, 0.18))
    axes.legend(loc="lower right")
    return figure


SHOWN = {"program": program, "quality": quality, "gross": gross, "rare": rare, "real": real}
"""Part -> its table; other parts are shown as they are."""

TABLES = {"measured": measured, "rare": rare}
FIGURES = {"error": error}


def make_texts(part: str, rows: Rows) -> list[str]:
    """The table of a part, and what was aimed at."""
    return [*SHOWN.get(part, plain)(rows), *([f"aimed at: {TARGETS[part]}"] if part in TARGETS else [])]


if __name__ == "__main__":
    for name in ("program", "start", "quality", "gross", "weights", "rare", "sweep", "intervals", "real"):
        show(make_texts(name, rows_of("recovery", name)))
