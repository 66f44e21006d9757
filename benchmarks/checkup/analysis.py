"""Tables of the study of the check-up."""

from __future__ import annotations

from benchmarks.cells import grid, short
from benchmarks.record import Rows
from rewardmix.checkup import ASSUMPTIONS


def calibration(rows: Rows) -> list[str]:
    """Kolmogorov's distance of the p-values from the uniform law, and how many are small."""
    lines = [
        [
            row["world"],
            row["assumption"],
            str(row["logs"]),
            short(row["distance"]),
            short(row["bound"]),
            short(row["below .05"]),
            short(row["below .01"]),
        ]
        for row in rows
    ]
    return [grid(["world", "question", "logs", "distance", "99 % bound", "below .05", "below .01"], lines)]


def power(*parts: Rows) -> list[str]:
    """Share of the logs in which each assumption was called broken, by what was broken."""
    rows = [row for part in parts for row in part]
    names = [name for name in ASSUMPTIONS if all(name in row["named"] for row in rows)]
    lines = [[row["broken"], *(short(row["named"][name]) for name in names)] for row in rows]
    return [grid(["broken", *names], lines)]


TABLES = {"calibration": calibration, "power": power}
"""Name -> what it makes of rows."""
