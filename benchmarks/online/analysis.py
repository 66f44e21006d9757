"""Tables of the study of earning: python -m benchmarks.online.analysis."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.online import settings
from benchmarks.record import rows_of, table


def regrets(rows: list[dict[str, Any]], world: str, method: str) -> np.ndarray:
    """(runs,) of a method in a world."""
    return np.array([row["regret"] for row in rows if (row["world"], row["method"]) == (world, method)])


def show(rows: list[dict[str, Any]]) -> None:
    """What every method cost, world by world."""
    out = []
    for world, method in dict.fromkeys((row["world"], row["method"]) for row in rows):
        mine = [row for row in rows if (row["world"], row["method"]) == (world, method)]
        cost = np.array([row["regret"] for row in mine])
        error = cost.std(ddof=1) / np.sqrt(cost.size) if cost.size > 1 else float("nan")
        growth = np.median([row["regret"] / max(row["early"], 1e-9) for row in mine])
        switches, seconds = (np.mean([row[key] for row in mine]) for key in ("switches", "cpu_seconds"))
        out.append(
            [
                world,
                method,
                len(mine),
                f"{cost.mean():.0f} +- {error:.0f}",
                f"{np.median(cost):.0f}",
                f"{cost.min():.0f} .. {cost.max():.0f}",
                f"{growth:.2f}",
                f"{switches:.0f}",
                f"{seconds:.2f}",
            ]
        )
    names = ["world", "method", "runs", "regret", "median", "range", "growth", "switches", "CPU s"]
    table(names, out)
    print()


def judge(rows: list[dict[str, Any]]) -> None:
    """The agent beside what was asked for and beside the best rival of the same run."""
    out, bad, runs = [], 0, 0
    for world in dict.fromkeys(row["world"] for row in rows):
        methods = dict.fromkeys(row["method"] for row in rows if row["world"] == world)
        mine = regrets(rows, world, "agent")
        if not mine.size:
            continue
        others = {method: regrets(rows, world, method) for method in methods if not method.startswith("agent")}
        best = min(others, key=lambda method: float(others[method].mean())) if others else ""
        least = min([float(np.median(mine)), *(float(np.median(other)) for other in others.values())])
        bad, runs = bad + int((mine > settings.TAIL * least).sum()), runs + mine.size
        whole = all(row["episodes"] == settings.EPISODES for row in rows)
        target = settings.TARGETS.get(world)
        verdict = ("met" if mine.mean() <= target else "MISSED") if whole and target is not None else ""
        rival = f"{best}: {others[best].mean():.0f}" if best else ""
        out.append([world, f"{mine.mean():.0f}", "" if target is None else target, verdict, rival])
    table(["world", "agent", "target", "verdict", "best rival"], out)
    if runs:
        rare = f"asked for: 1 in {1 / settings.RARE:g}"
        print(f"runs above {settings.TAIL:g} times the best median: {bad} of {runs} ({rare})")


def judge_numbers(rows: list[dict[str, Any]]) -> None:
    """What it costs not to be told how many types there are, or one too many, beside an agent that knows."""
    out = []
    for world in dict.fromkeys(row["world"] for row in rows):
        knows = regrets(rows, world, "agent")
        for method, limit in (
            ("agent not told", settings.UNTOLD),
            ("agent told one more", settings.TOO_MANY),
        ):
            mine = regrets(rows, world, method)
            if knows.size and mine.size:
                out.append([world, method, f"{mine.mean() / knows.mean():.2f}", f"{limit:g}"])
    if out:
        table(["world", "method", "times the regret", "asked for"], out)


def main() -> None:
    """Print all that there is."""
    if rows := rows_of("online", "runs"):
        show(rows)
        judge(rows)
        judge_numbers(rows)


if __name__ == "__main__":
    main()
