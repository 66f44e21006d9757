"""Tables of the study of live comparisons: python -m benchmarks.ab_test.analysis."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from benchmarks.cells import bare, grid, short, show
from benchmarks.record import Rows, rows_of


def equal(rows: Rows) -> list[str]:
    """Share of tests of equal arms that were ever decided, and how many of them for adapting."""
    lines = []
    for row in rows:
        cells = [row["law"], bare(row["holdout"])]
        for kind in ("before", "now"):
            wrong = row[kind]["loses"] + row[kind]["pays"]
            cells += [short(wrong / row["tests"]), f"{row[kind]['pays']} of {wrong}"]
        lines.append(cells)
    tests, sessions = rows[0]["tests"], rows[0]["sessions"]
    most = int(binom.ppf(0.99, tests, 0.05))
    said = (
        f"{tests:,} tests a row of {sessions:,} sessions, looked at every 100; the share that was ever decided, and of "
        f"these how many said that adapting pays. Where the share is .05, more than {most} wrong ones have a chance of "
        ".01. Amounts are lognormal with median 1, and a session counts 100 at most."
    )
    return [grid(["session", "holdout", "wrong before", "for adapting", "wrong now", "for adapting"], lines), said]


def power(rows: Rows) -> list[str]:
    """Median sessions to a decision."""
    lines = []
    for row in rows:
        cells = [row["law"], f"+{100 * row['lift']:.0f} %", bare(row["holdout"])]
        lines.append([*cells, *(_median(row, kind) for kind in ("before", "now"))])
    said = (
        f"Median over {rows[0]['tests']:,} tests, looked at every 100 sessions until {rows[0]['sessions']:,}, of the "
        "sessions until the interval says that adapting pays. Before: the interval that is wrong too often, for what "
        f"being right costs. It said that adapting loses in {_opposite(rows, 'before')} of all tests, and says so now "
        f"in {_opposite(rows, 'now')}."
    )
    return [grid(["session of the holdout", "adaptive", "holdout", "before", "now"], lines), said]


def _median(row: dict[str, object], kind: str) -> str:
    sessions = np.array([one or np.inf for one in row[kind]])  # type: ignore[attr-defined]
    median = float(np.median(sessions))
    return f"{median:,.0f}" if np.isfinite(median) else f"more ({np.isfinite(sessions).mean():.0%} decided)"


def _opposite(rows: Rows, kind: str) -> str:
    return f"{sum(row['opposite'][kind] for row in rows):,} of {sum(row['tests'] for row in rows):,}"


def means(rows: Rows) -> list[str]:
    """How often intervals of played values hold."""
    lines = [
        [
            row["law"],
            f"{row['episodes']:,}",
            short(row["before"]["holds"]),
            short(row["before"]["no_width"]),
            short(row["now"]["holds"]),
            short(row["without bounds"]["holds"]),
            short(row["without bounds"]["none"]),
        ]
        for row in rows
    ]
    said = (
        "Share of 95 % intervals that hold the mean: Student's, as before, and how many of these had no width; those of"
        " `evaluate` where a return has known bounds; and those where it has none, of which some are the whole line "
        "because nothing was paid. Returns of 0 and 1 are added up, amounts simulated."
    )
    columns = ["episode", "episodes", "before", "of no width", "now", "without bounds", "none"]
    return [grid(columns, lines), said]


TABLES = {"equal": equal, "power": power, "means": means}

if __name__ == "__main__":
    for name, made in TABLES.items():
        show(made(rows_of("ab_test", name)))
