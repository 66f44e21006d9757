"""Table and figure of the study of the hard family: python -m benchmarks.hardness.analysis.

The episodes at which 90 % of the runs are optimal come from a logistic curve in log episodes, fitted to each point.
Runs of one seed are drawn together for the intervals. The *ideal test* is told that the world is of this family and
sees one normal estimate of each of the A^2 covariances, from K / A^2 samples: it takes the row with the largest
difference between its largest and smallest entry. What it needs is what the union over A^2 pairs alone costs.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.exponents import over_replicates, resampled, slope
from benchmarks.hardness import settings
from benchmarks.record import HERE, table

FOLDER = HERE / "hardness"
STATES = 2
LITTLE = 0.2
"""Added to successes and to failures, so that a curve without any of one kind has a fit."""


def reaches(budgets: NDArray[np.float64], successes: NDArray[np.float64], trials: float) -> float:
    """Episodes at which a logistic curve in log episodes reaches ``settings.WITHIN``; NaN if it does not rise."""
    x = np.log(budgets)
    middle, x = x.mean(), x - x.mean()
    good, total = successes + LITTLE, trials + 2 * LITTLE
    line, design = np.zeros(2), np.column_stack([np.ones_like(x), x])
    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(-np.clip(design @ line, -30, 30)))
        weight = total * chance * (1 - chance) + 1e-9
        step = np.linalg.solve(design.T @ (design * weight[:, None]), design.T @ (good - total * chance))
        line = line + np.clip(step, -3, 3)
        if np.abs(step).max() < 1e-8:
            break
    if line[1] <= 0:
        return float("nan")
    return float(np.exp(middle + (np.log(settings.WITHIN / (1 - settings.WITHIN)) - line[0]) / line[1]))


def needed(rows: list[dict[str, Any]], chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Episodes that each point needs, from the chosen seeds."""
    out = []
    for row in rows:
        optimal = np.array(row["optimal"])[:, chosen].sum(axis=1).astype(float)
        out.append(reaches(np.array(row["budgets"], float), optimal, float(chosen.size)))
    return np.array(out)


@lru_cache
def ideal(actions: int, accuracy: float) -> float:
    """Episodes that the ideal test needs."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((settings.IDEAL, actions, actions)) / 4.0
    signal = np.zeros((actions, actions))
    signal[0, 0], signal[0, 1] = accuracy, -accuracy
    budgets = np.array(settings.FACTORS) * (STATES * actions / accuracy) ** 2
    right = []
    for episodes in budgets:
        seen = signal + noise / np.sqrt(episodes / actions**2)
        high, low = seen.max(axis=2), seen.min(axis=2)
        first = (high - low).argmax(axis=1) == 0
        right.append(float((first & (seen[:, 0].argmax(axis=1) == 0) & (seen[:, 0].argmin(axis=1) == 1)).sum()))
    return reaches(budgets, np.array(right), float(settings.IDEAL))


def show(rows: list[dict[str, Any]], draws: int = settings.DRAWS) -> None:
    """Episodes, the constant in c (S A)^2 / e^2, and the two exponents."""
    seeds = len(rows[0]["optimal"][0])
    everyone = np.arange(seeds)
    low, high = resampled(lambda chosen: needed(rows, chosen), seeds, draws)
    out = []
    for row, episodes, least, most in zip(rows, needed(rows, everyone), low, high, strict=True):
        unit = (STATES * row["actions"] / row["accuracy"]) ** 2
        found = " ".join(str(sum(runs)) for runs in row["optimal"])
        told = ideal(row["actions"], row["accuracy"])
        out.append(
            [
                row["actions"],
                f"{row['accuracy']:g}",
                found,
                f"{episodes:.0f} [{least:.0f}, {most:.0f}]",
                f"{episodes / unit:.3f} [{least / unit:.3f}, {most / unit:.3f}]",
                f"{told / unit:.3f}",
            ]
        )
    print(
        f"optimal runs of {seeds} at {', '.join(map(str, settings.FACTORS))} times (S A / e)^2; 95 % bootstrap limits"
    )
    table(["A", "e", "optimal runs", "episodes for 90 %", "c", "c of the ideal test"], out)
    exponents = []
    for name, key, sign in (("A", "actions", 1), ("1 / e", "accuracy", -1)):
        other, value = ("accuracy", settings.ACCURACY) if key == "actions" else ("actions", settings.FIXED_ACTIONS)
        mine = [row for row in rows if row[other] == value]
        factor = [float(row[key]) ** sign for row in mine]
        found = over_replicates(factor, lambda chosen, mine=mine: needed(mine, chosen), seeds, draws)
        told = slope(factor, [ideal(row["actions"], row["accuracy"]) for row in mine])
        exponents.append([name, len(mine), str(found), "2", f"{told:.2f}"])
    table(["factor", "points", "exponent", "theorem", "ideal test"], exponents)
    print()


def stored() -> Any:
    """Rows, or None if it was not run."""
    path = FOLDER / "results.json"
    return json.loads(path.read_text(encoding="utf-8"))["results"]["rows"] if path.is_file() else None


def draw() -> None:
    """Share of optimal runs against episodes over (S A / e)^2: one curve if the theorem's order is right."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "rewardmix"  # the same results give the same file
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for row in stored():
        share = np.mean(row["optimal"], axis=1)
        axes.semilogx(settings.FACTORS, share, "o-", ms=3, label=f"A = {row['actions']}, e = {row['accuracy']:g}")
    axes.axhline(settings.WITHIN, color="0.4", ls=":")
    axes.set(xlabel="episodes / (S A / e)^2", ylabel="share of runs that are optimal")
    axes.legend(frameon=False, fontsize="small")
    figure.savefig(FOLDER / "optimal.svg", metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Print and draw."""
    if rows := stored():
        show(rows)
        draw()


if __name__ == "__main__":
    main()
