"""Tables of the study of safe improvement: python -m benchmarks.safety.analysis."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from benchmarks.record import Rows, rows_of, table
from benchmarks.safety import settings


def by(rows: Rows, *keys: str) -> dict[tuple[str, ...], Rows]:
    """Rows by what they have in common."""
    groups: dict[tuple[str, ...], Rows] = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    return groups


def not_worse(rows: Rows, key: str = "value") -> int:
    """Fits whose policy is not worse than the one that wrote the log."""
    return sum(row[key] >= row["logged"] - settings.TOLERANCE * row["best"] for row in rows)


def cell_rows(rows: Rows) -> list[list[object]]:
    """A line for each world and logging policy."""
    lines = []
    for (world, log), group in by(rows, "world", "log").items():
        gain = np.mean([(row["value"] - row["logged"]) / row["best"] for row in group])
        least = min((row["value"] - row["logged"]) / row["best"] for row in group)
        safe, bold = not_worse(group), not_worse(group, "bold")
        lines.append([world, log, f"{safe} of {len(group)}", f"{bold} of {len(group)}", float(gain), float(least)])
    return lines


def loss_on_uniform(rows: Rows) -> float:
    """Mean over worlds of what caution loses on uniform logs, as a share of the gain over them."""
    losses = []
    for group in by([row for row in rows if row["log"] == "uniform"], "world").values():
        value, bold, logged = (np.mean([row[key] for row in group]) for key in ("value", "bold", "logged"))
        losses.append((bold - value) / (bold - logged))
    return float(np.mean(losses))


def told(part: str, rows: Rows, quick: bool) -> None:
    """Print what the rows of a part tell."""
    if part == "chain":
        weeks = by(rows, "week")
        table(["week", "least share of the best"], [[week, least(group)] for (week,), group in weeks.items()])
    elif part == "calibration":
        lines = []
        for (world, log), group in by(rows, "world", "log").items():
            known = [row for row in group if row["supported"]]
            held = sum(row["lower"] <= row["value"] <= row["upper"] for row in known)
            boot = sum(row["boot_lower"] <= row["value"] <= row["boot_upper"] for row in group)
            lines.append([world, log, f"{held} of {len(known)}", f"{boot} of {len(group)}"])
        table(["world", "log", "estimated from the log", "resamples"], lines)
    else:
        table(["world", "log", "not worse", "not worse, bold", "mean gain", "least gain"], cell_rows(rows))
        cells = by(rows, "world", "log").values()
        short = sum(not_worse(group) < settings.WITHIN * len(group) for group in cells)
        print(f"{part} episodes: {short} of {len(cells)} cells below {settings.WITHIN:.0%}", end="; ")
        print(f"loss on uniform logs {100 * loss_on_uniform(rows):.2f} % of the gain")


def least(rows: Rows) -> float:
    """The smallest share of the best value."""
    return min(row["value"] / row["best"] for row in rows)


if __name__ == "__main__":
    for one in (*map(str, settings.SIZES), "chain", "calibration"):
        if found := rows_of("safety", one):
            told(one, found, False)
