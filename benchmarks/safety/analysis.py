"""Tables of the study of safe improvement: python -m benchmarks.safety.analysis."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.cells import grid, short, show
from benchmarks.record import Rows, rows_of
from benchmarks.safety import settings

BAND = 0.99
"""Of the number of intervals that hold the value, if they do at their level."""


def by(rows: Rows, *keys: str) -> dict[tuple[Any, ...], Rows]:
    """Rows by what they have in common."""
    groups: dict[tuple[Any, ...], Rows] = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    return groups


def not_worse(rows: Rows) -> int:
    """Fits whose policy is not worse than the one that wrote the log."""
    return sum(row["value"] >= row["logged"] - settings.TOLERANCE * row["best"] for row in rows)


def loss_on_uniform(rows: Rows) -> float:
    """Mean over worlds of what caution loses on uniform logs, as a share of the gain over them."""
    losses = []
    for group in by([row for row in rows if row["log"] == "uniform"], "world").values():
        value, bold, logged = (np.mean([row[key] for row in group]) for key in ("value", "bold", "logged"))
        losses.append((bold - value) / (bold - logged))
    return float(np.mean(losses))


def safe(*parts: Rows) -> list[str]:
    """For each model and logging policy the fits that are not worse, for one size after the other."""
    groups = [by(rows, "world", "log") for rows in parts]
    envs = dict.fromkeys(env for group in groups for env, _ in group)
    lines = [
        [
            env,
            *(", ".join(str(not_worse(group.get((env, log), []))) for group in groups) for log in settings.POLICIES),
        ]
        for env in envs
    ]
    cells = [cell for group in groups for cell in group.values()]
    short_of = sum(not_worse(cell) < settings.WITHIN * len(cell) for cell in cells)
    sizes = ", ".join(f"{rows[0]['episodes']:,}" for rows in parts)
    losses = ", ".join(f"{100 * loss_on_uniform(rows):.2f} %" for rows in parts)
    worst = min((row["value"] - row["logged"]) / row["best"] for rows in parts for row in rows)
    text = (
        f"Fits of {len(cells[0])} logs of {sizes} episodes each that are not worse than the behavior policy of the log "
        f"by more than {100 * settings.TOLERANCE:g} % of the optimum: in {len(cells) - short_of} of {len(cells)} "
        f"cells at least {100 * settings.WITHIN:g} %. The worst of {sum(map(len, parts)):,} fits loses "
        f"{short(-worst)} of the optimum. On uniform logs pessimism costs {losses} of "
        "the gain over the uniform policy, on average."
    )
    return [grid(["problem", *settings.POLICIES], lines), text]


def given(rows: Rows) -> list[str]:
    """For each model, small logs of a deployed policy that was given to the fit, and that was not."""
    lines = []
    for (env,), group in by(rows, "world").items():
        without = [{**row, "value": row["without"]} for row in group]
        lines.append([env, *(cell for fits in (group, without) for cell in (not_worse(fits), _largest_loss(fits)))])
    columns = ["environment", "policy given", "largest loss", "not given", "largest loss"]
    return [grid(columns, lines)]


def _largest_loss(rows: Rows) -> str:
    """The largest loss against the policy that wrote the log, as a share of the best value."""
    return short(max(0.0, *((row["logged"] - row["value"]) / row["best"] for row in rows)))


def chain(rows: Rows) -> list[str]:
    """The least share of the best value in each week."""
    weeks = by(rows, "week")
    cells = [short(min_share(group)) for group in weeks.values()]
    count = len(rows) // len(weeks)
    return [grid([f"minimum of {count} chains", *(f"week {week}" for (week,) in weeks)], [["value / optimum", *cells]])]


def calibration(rows: Rows) -> list[str]:
    """How many of the intervals that were printed hold the true value, and how many have to."""
    lines = []
    for (log,), group in by(rows, "log").items():
        supported = [row for row in group if row["supported"]]
        covered = sum(row["lower"] <= row["value"] <= row["upper"] for row in supported)
        boot = sum(row["boot_lower"] <= row["value"] <= row["boot_upper"] for row in group)
        lines.append([log, len(group), *_format_covered(covered, len(supported)), *_format_covered(boot, len(group))])
    columns = ["log", "logs", "off-policy estimate", "at least", "bootstrap of the planned value", "at least"]
    return [grid(columns, lines)]


def _format_covered(count: int, total: int) -> tuple[str, int]:
    """(so many of so many, the fewest that are within the band at 95 %)."""
    return f"{count} of {total}", int(binom.ppf((1 - BAND) / 2, total, 0.95))


def min_share(rows: Rows) -> float:
    """The smallest share of the best value."""
    return min(row["value"] / row["best"] for row in rows)


def print_rows(part: str, rows: Rows, quick: bool) -> None:
    """Print what the rows of a part tell."""
    show({"given": given, "chain": chain, "calibration": calibration}.get(part, safe)(rows))


TABLES = {"safe": safe, "given": given, "chain": chain, "calibration": calibration}
"""Name -> what it makes of rows."""

if __name__ == "__main__":
    for name in (*map(str, settings.SIZES), "given", "chain", "calibration"):
        if part_rows := rows_of("safety", name):
            print_rows(name, part_rows, False)
