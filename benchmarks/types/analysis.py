"""Tables of the study of the number of types."""

from __future__ import annotations

import numpy as np

from benchmarks.cells import error_of, grid, short, show
from benchmarks.record import Rows
from benchmarks.types import settings


def torn(rows: Rows) -> list[str]:
    """A line for each kind of log without types: how often more than one was said, by three rules."""
    lines = []
    for kind in settings.KINDS:
        group = [row for row in rows if row["kind"] == kind]
        gains = np.array([row["gain"] * row["sessions"] for row in group])
        errors = np.array([row["error"] * row["sessions"] for row in group])
        taken = np.array([row["found"] > 1 for row in group])
        text = [short(np.mean(more), 2) for more in (gains > -errors, gains > 1.0, taken)]
        largest = [f"{value:.1f}" for value in (np.quantile(gains, 0.95), gains.max())]
        lines.append([kind, len(group), *text, *largest])
    columns = ["log", "logs", *settings.RULES, "95 % of gains, total nats", "largest"]
    return [grid(columns, lines)]


def shares(rows: Rows) -> list[float]:
    """What auto loses against the true number in each log, as a share of the gain."""
    return [(row["known"] - row["auto"]) / (row["best"] - row["least"]) for row in rows]


def cost(rows: Rows) -> list[str]:
    """A line for each number of types: which were found, and what that cost."""
    lines = []
    for size in settings.SIZES:
        for types in settings.TRUE_TYPES:
            group = [row for row in rows if (row["types"], row["episodes"]) == (types, size)]
            if not group:
                continue
            cells = []
            for name in ("shop", "random"):
                ones = [row for row in group if row["world"] == name]
                cells += [" ".join(str(row["found"]) for row in ones), short(np.mean(shares(ones)))]
            lines.append([f"{size:,}", types, *cells])
    lost = shares(rows)
    mean, max_lost = short(np.mean(lost), 4), short(max(lost))
    text = f"On average over all {len(rows)} logs {mean} of the adaptivity gain is lost, at most {max_lost}."
    columns = ["episodes", "types", "selected in the shop", "lost", "selected in random models", "lost"]
    return [grid(columns, lines), text]


def households(rows: Rows) -> list[str]:
    """A line for each product: hits with every number, and what auto is behind the best of them."""
    lines, numbers = [], [*map(str, settings.FIXED), "auto"]
    for product in settings.PRODUCTS:
        group = [row for row in rows if row["product"] == product]
        means = {number: float(np.mean([row[number] for row in group])) for number in numbers}
        best = max(numbers[:-1], key=lambda number: means[number])
        error = error_of([row["auto"] - row[best] for row in group])
        cells = [short(means[number], 2) for number in numbers]
        lines.append([product, *cells, f"{means['auto'] - means[best]:+.3f}", short(error)])
    return [grid(["product", *numbers, "auto minus the best", "standard error"], lines)]


def print_rows(part: str, rows: Rows, quick: bool) -> None:
    """Print what the rows of a part tell."""
    show({"torn": torn, "worlds": cost, "coupons": households}[part](rows))


TABLES = {"torn": torn, "cost": cost, "households": households}
"""Name -> what it makes of rows."""
