"""Tables of the study of the diagnostics."""

from __future__ import annotations

from benchmarks.cells import grid, short
from benchmarks.record import Rows
from rewardmix.diagnostics import ASSUMPTIONS


def alarms(*parts: Rows) -> list[str]:
    """Logs in which everything holds, and in how many of them something is called broken."""
    lines = [
        [row["world"], row["checked"], row["broken"], f"{row['seconds']:.2f}"]
        for rows in parts
        for row in rows
        if row["assumption"] == "drift"  # one of the questions that every log has a row of
    ]
    return [grid(["problem", "logs", "any rejection", "CPU s per log"], lines)]


def calibration(*parts: Rows) -> list[str]:
    """Kolmogorov's distance of the p-values from the uniform distribution, and how many are small."""
    columns = ("distance", "bound", "below .05", "below .01")
    lines = [
        [
            row["world"],
            row["assumption"],
            row["logs"] or "not asked",
            *(short(row[column]) if row["logs"] else "" for column in columns),
        ]
        for rows in parts
        for row in rows
    ]
    return [grid(["problem", "test", "logs", "distance", "99 % bound", "below .05", "below .01"], lines)]


STORED = {"more types needed": "one type short", "reward copying": "copying", "transitions": "moves"}
"""Key of an assumption -> its key in stored results, where they differ."""


def power(*parts: Rows) -> list[str]:
    """Fraction of the logs in which each assumption was rejected, by violation."""
    rows = [row for part in parts for row in part]
    # a new run writes the present key, which replaces the stored one
    keys = {
        name: key
        for name in ASSUMPTIONS
        for key in (STORED.get(name, name), name)
        if all(key in row["named"] for row in rows)
    }
    lines = [[row["broken"], row["logs"], *(short(row["named"][key]) for key in keys.values())] for row in rows]
    return [grid(["violation", "logs", *keys], lines)]


def rival(rows: Rows) -> list[str]:
    """The p-values of the question whether a type is missing, smallest first."""
    lines = [
        [row["case"], f"{row['episodes']:,}", ", ".join(f"{value:.2g}" for value in sorted(row["p_values"]))]
        for row in rows
    ]
    return [grid(["log", "episodes", "p-values of more types needed"], lines)]


def cost(rows: Rows) -> list[str]:
    """CPU seconds with a rival fitted to few episodes, and to half of them."""
    lines = [
        [f"{row['rows']:,}", what, *(f"{row[name + suffix]:.1f}" for name in ("every other", "limited")),
         f"{row['every other' + suffix] / row['limited' + suffix]:.1f}"]
        for row in rows
        for what, suffix in {"`fit`": "", "its check-up": ", check-up"}.items()
    ]  # fmt: skip
    return [grid(["rows", "CPU s of", "fitted to every other episode", "to at most 5,000", "ratio"], lines)]


TABLES = {"alarms": alarms, "calibration": calibration, "power": power, "rival": rival, "cost": cost}
"""Name -> what it makes of rows."""

SHOWN = {"power": (power,), "short": (power,), "rival": (rival,), "cost": (cost,)}
"""Part -> the tables that a run of it prints; of the others alarms and calibration."""
