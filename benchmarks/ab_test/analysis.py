"""Make the tables of the study of A/B tests: python -m benchmarks.ab_test.analysis."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from benchmarks.cells import bare, grid, short, show
from benchmarks.record import Rows, rows_of


def equal(rows: Rows) -> list[str]:
    """Make the table of false decisions: fraction of tests of equal arms that were ever decided, and for which arm."""
    lines = []
    for row in rows:
        cells = [row["distribution"], bare(row["holdout"])]
        for kind in ("before", "now"):
            wrong = row[kind]["worse"] + row[kind]["better"]
            cells += [short(wrong / row["tests"]), f"{row[kind]['better']} of {wrong}"]
        lines.append(cells)
    tests, sessions = rows[0]["tests"], rows[0]["sessions"]
    max_false = int(binom.ppf(0.99, tests, 0.05))
    text = (
        f"{tests:,} tests per row of {sessions:,} sessions, examined every 100; the fraction ever decided, and of "
        f"these how many favored the adaptive arm. If the fraction is .05, more than {max_false} false decisions have "
        "a probability of .01. Amounts are lognormal with median 1, and a return is clipped at 100."
    )
    return [grid(["return", "holdout share", "false before", "for adaptive", "false now", "for adaptive"], lines), text]


def power(rows: Rows) -> list[str]:
    """Make the table of the median number of sessions until a decision."""
    lines = []
    for row in rows:
        cells = [row["distribution"], f"+{100 * row['lift']:.0f} %", bare(row["holdout"])]
        lines.append([*cells, *(_median(row, kind) for kind in ("before", "now"))])
    text = (
        f"Median over {rows[0]['tests']:,} tests, examined every 100 sessions until {rows[0]['sessions']:,}, of the "
        "sessions until the interval favors the adaptive arm. Before: the interval with too many false decisions, for "
        f"comparison. It favored the holdout arm in {_opposite(rows, 'before')} of all tests, and now "
        f"in {_opposite(rows, 'now')}."
    )
    return [grid(["return in the holdout arm", "adaptive arm", "holdout share", "before", "now"], lines), text]


def _median(row: dict[str, object], kind: str) -> str:
    sessions = np.array([count or np.inf for count in row[kind]])  # type: ignore[attr-defined]
    median = float(np.median(sessions))
    return f"{median:,.0f}" if np.isfinite(median) else f"more ({np.isfinite(sessions).mean():.0%} decided)"


def _opposite(rows: Rows, kind: str) -> str:
    return f"{sum(row['opposite'][kind] for row in rows):,} of {sum(row['tests'] for row in rows):,}"


def means(rows: Rows) -> list[str]:
    """Make the table of the coverage of intervals of a mean return."""
    lines = [
        [
            row["distribution"],
            f"{row['episodes']:,}",
            short(row["before"]["contains_mean"]),
            short(row["before"]["width_zero"]),
            short(row["now"]["contains_mean"]),
            short(row["without bounds"]["contains_mean"]),
            short(row["without bounds"]["infinite"]),
        ]
        for row in rows
    ]
    text = (
        "Fraction of 95 % intervals that contain the mean: Student's (before), and how many of these have width zero; "
        "those of `evaluate` for returns with known bounds; and those without bounds, of which some are infinite "
        "because all rewards are 0. Returns of 0 and 1 are computed exactly, amounts simulated."
    )
    columns = ["return", "episodes", "before", "width zero", "now", "without bounds", "infinite"]
    return [grid(columns, lines), text]


TABLES = {"equal": equal, "power": power, "means": means}

if __name__ == "__main__":
    for name, make_table in TABLES.items():
        show(make_table(rows_of("ab_test", name)))
