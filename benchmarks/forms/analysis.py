"""Table of the study of the form of the model."""

from __future__ import annotations

from benchmarks.cells import grid, short, show
from benchmarks.record import Rows


def found(*parts: Rows) -> list[str]:
    """A line for each model and size."""
    lines = [
        [
            row["world"],
            row["planted"] or "nothing",
            f"{row['episodes']:,}",
            row["logs"],
            *(short(row["broken"][name]) for name in ("transition types", "next state")),
        ]
        for rows in parts
        for row in rows
    ]
    return [grid(["problem", "violation", "episodes", "logs", "transition types", "next state"], lines)]


def print_rows(part: str, rows: Rows, quick: bool) -> None:
    """Print what the rows of a part tell."""
    show(found(rows))


TABLES = {"found": found}
"""Name -> what it makes of rows."""
