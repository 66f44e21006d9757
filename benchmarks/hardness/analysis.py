"""Table and figure of the study of the hard family: python -m benchmarks.hardness.analysis.

The episodes at which 90 % of the runs are optimal come from a logistic curve in log episodes, fitted to each point.
Runs of one seed are drawn together for the intervals. The *ideal test* is told that the model is of this family and
sees one normal estimate of each of the A^2 covariances, from K / A^2 samples: it takes the row with the largest
difference between its largest and smallest entry. What it needs is what the union over A^2 pairs alone costs.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.cells import bare, counted, grid, short, show, within
from benchmarks.exponents import Estimate, draw_replicates, limits, over_replicates, slope
from benchmarks.hardness import settings
from benchmarks.record import Rows, rows_of

STATES = 2
LITTLE = 0.2
"""Added to successes and to failures, so that a curve without any of one kind has a fit."""


def reaches(budgets: NDArray[np.float64], successes: NDArray[np.float64], trials: float) -> Any:
    """Episodes at which a logistic curve in log episodes reaches ``settings.WITHIN``; NaN if it does not rise.

    Successes are (..., budgets): one fit for each of the rest.
    """
    x = np.log(budgets)
    middle, x = x.mean(), x - x.mean()
    good, total = successes + LITTLE, trials + 2 * LITTLE
    line, design = np.zeros((*good.shape[:-1], 2)), np.column_stack([np.ones_like(x), x])
    for _ in range(50):
        prob = 1.0 / (1.0 + np.exp(-np.clip(line @ design.T, -30, 30)))
        weight = total * prob * (1 - prob) + 1e-9
        curvature = np.einsum("...k,ki,kj->...ij", weight, design, design)
        step = np.linalg.solve(curvature, ((good - total * prob) @ design)[..., None])[..., 0]
        line = line + np.clip(step, -3, 3)
        if np.abs(step).max() < 1e-8:
            break
    rise = np.where(line[..., 1] > 0, line[..., 1], np.nan)
    result = np.exp(middle + (np.log(settings.WITHIN / (1 - settings.WITHIN)) - line[..., 0]) / rise)
    return result if result.ndim else float(result)


def needed(rows: Rows, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Episodes that each point needs (..., points), from the chosen seeds (..., seeds)."""
    out = []
    for row in rows:
        optimal = np.moveaxis(np.array(row["optimal"])[:, chosen].sum(axis=-1), 0, -1).astype(float)
        out.append(reaches(np.array(row["budgets"], float), optimal, float(chosen.shape[-1])))
    return np.stack(out, axis=-1)


@lru_cache
def ideal(actions: int, epsilon: float) -> float:
    """Episodes that the ideal test needs."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((settings.IDEAL, actions, actions)) / 4.0
    signal = np.zeros((actions, actions))
    signal[0, 0], signal[0, 1] = epsilon, -epsilon
    budgets = np.array(settings.FACTORS) * unit(actions, epsilon)
    successes = []
    for episodes in budgets:
        estimates = signal + noise / np.sqrt(episodes / actions**2)
        high, low = estimates.max(axis=2), estimates.min(axis=2)
        first = (high - low).argmax(axis=1) == 0
        successes.append(
            float((first & (estimates[:, 0].argmax(axis=1) == 0) & (estimates[:, 0].argmin(axis=1) == 1)).sum())
        )
    return float(reaches(budgets, np.array(successes), float(settings.IDEAL)))


def unit(actions: int, epsilon: float) -> float:
    """(S A / e)^2: the episodes of theorem:lower_bound without its constant."""
    return (STATES * actions / epsilon) ** 2


class PointResult(NamedTuple):
    """A point: optimal runs at each number of episodes, and the episodes for 90 %, here and of the ideal test."""

    actions: int
    accuracy: float
    optimal: list[int]
    episodes: Estimate
    ideal_episodes: float

    @property
    def constant(self) -> Estimate:
        """c in c (S A / e)^2."""
        return Estimate(*(value / unit(self.actions, self.accuracy) for value in self.episodes))

    @property
    def ideal_constant(self) -> float:
        """That of the ideal test."""
        return self.ideal_episodes / unit(self.actions, self.accuracy)


def ideal_episodes_at(ideals: Rows, actions: int, epsilon: float) -> float:
    """What the ideal test needs at a point."""
    return next(row["episodes"] for row in ideals if (row["actions"], row["accuracy"]) == (actions, epsilon))


def points_of(rows: Rows, ideals: Rows, draws: int = settings.DRAWS) -> list[PointResult]:
    """Every point with its limits."""
    seeds = len(rows[0]["optimal"][0])
    low, high = limits(needed(rows, draw_replicates(seeds, draws)))
    return [
        PointResult(
            row["actions"],
            row["accuracy"],
            [sum(runs) for runs in row["optimal"]],
            Estimate(float(episodes), float(lower), float(upper)),
            ideal_episodes_at(ideals, row["actions"], row["accuracy"]),
        )
        for row, episodes, lower, upper in zip(rows, needed(rows, np.arange(seeds)), low, high, strict=True)
    ]


class Growth(NamedTuple):
    """An exponent beside that of the ideal test on the same points."""

    factor: str
    values: list[float]
    measured: Estimate
    ideal: float


def growths_of(rows: Rows, ideals: Rows, draws: int = settings.DRAWS) -> list[Growth]:
    """The two exponents: in 1 / e and in A."""
    out = []
    for key in ("accuracy", "actions"):
        other, value = ("accuracy", settings.ACCURACY) if key == "actions" else ("actions", settings.FIXED_ACTIONS)
        group = sorted((row for row in rows if row[other] == value), key=lambda row, key=key: row[key])
        values = [float(row[key]) for row in group]
        seeds = len(group[0]["optimal"][0])
        exponent = over_replicates(values, lambda chosen, group=group: needed(group, chosen), seeds, draws)
        ideal_exponent = slope(values, [ideal_episodes_at(ideals, row["actions"], row["accuracy"]) for row in group])
        out.append(
            Growth(key, values, exponent, ideal_exponent)
            if key == "actions"
            else Growth(key, values, exponent.inverse, -ideal_exponent)
        )
    return out


def ideal_slope(ideals: Rows, fewer: int, more: int) -> float:
    """Estimate of the ideal test between two numbers of actions."""
    return float(
        slope([fewer, more], [ideal_episodes_at(ideals, actions, settings.ACCURACY) for actions in (fewer, more)])
    )


def points(rows: Rows, ideals: Rows, draws: int = settings.DRAWS) -> list[str]:
    """The hard family: optimal runs, episodes for 90 %, and the constant."""
    points = sorted(points_of(rows, ideals, draws), key=lambda row: (row.actions, -row.accuracy))
    seeds = len(rows[0]["optimal"][0])
    lines = [
        [row.actions, bare(row.accuracy), ", ".join(map(str, row.optimal)), counted(row.episodes),
         within(row.constant, 3), short(row.ideal_constant)]
        for row in points
    ]  # fmt: skip
    share = f"episodes for {100 * settings.WITHIN:g} %"
    return [grid(["A", "e", f"optimal runs of {seeds}", share, "c in c (SA/e)²", "c of the ideal test"], lines)]


def growths(rows: Rows, ideals: Rows, draws: int = settings.DRAWS) -> list[str]:
    """The hard family: exponents."""
    names = {"accuracy": "1/e, e", "actions": "A"}
    lines = []
    for row in growths_of(rows, ideals, draws):
        first, last = row.values[0], row.values[-1]
        lines.append(
            [f"{names[row.factor]} from {bare(first)} to {bare(last)}", within(row.measured), 2, short(row.ideal, 2)]
        )
    for fewer, more in pairwise(sorted({row["actions"] for row in ideals})[-3:]):
        ideal_exponent = ideal_slope(ideals, fewer, more)
        lines.append([f"A from {fewer} to {more}", "", 2, short(ideal_exponent, 2)])
    return [grid(["factor", "measured", "theorem", "ideal test"], lines)]


def optimal(plt: Any) -> Any:
    """Share of optimal runs against episodes over (S A / e)^2: one curve if the theorem's order is right."""
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for row in rows_of("hardness", "runs"):
        share = np.mean(row["optimal"], axis=1)
        axes.semilogx(settings.FACTORS, share, "o-", ms=3, label=f"A = {row['actions']}, e = {row['accuracy']:g}")
    axes.axhline(settings.WITHIN, color="0.4", ls=":")
    axes.set_xticks(settings.FACTORS, [f"{factor:g}" for factor in settings.FACTORS])
    axes.minorticks_off()
    axes.set(xlabel="episodes / (S A / e)^2", ylabel="share of runs that are optimal")
    axes.legend(frameon=False, fontsize="small")
    return figure


TABLES = {"points": points, "growths": growths}
FIGURES = {"optimal": optimal}

if __name__ == "__main__":
    for make_table in TABLES.values():
        show(make_table(rows_of("hardness", "runs"), rows_of("hardness", "ideal")))
