"""Tables and the figure of the study of coverage: python -m benchmarks.coverage.analysis."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from benchmarks.cells import JOINED, bare, grid, short, show, within
from benchmarks.coverage import settings
from benchmarks.exponents import Estimate, drawn, exact_limits, resampled
from benchmarks.exponents import limits as percentiles
from benchmarks.record import Rows, rows_of

FAMILIES = ("average", "pair", "move", "start")


class Share(NamedTuple):
    """How many of how many, with exact 95 % binomial limits."""

    successes: int
    trials: int

    @property
    def value(self) -> float:
        """The share."""
        return self.successes / self.trials

    @property
    def limits(self) -> tuple[float, float]:
        """Low and high."""
        return exact_limits(self.successes, self.trials)

    def __str__(self) -> str:
        return "{:.4f} [{:.4f}, {:.4f}]".format(self.value, *self.limits)


def told(share: Share, digits: int = 3) -> str:
    """How many of how many, and the limits of the share."""
    low, high = (short(limit, digits) for limit in share.limits)
    return f"{share.successes:,} of {share.trials:,}, [{low},{JOINED}{high}]"


class Radii(NamedTuple):
    """One failure: runs in which all hold, those whose feasible set holds the truth, and how far radii could shrink."""

    failure: float
    held: Share
    contained: Share
    slack: dict[str, float]
    largest: float


def radii_of(rows: Rows) -> list[Radii]:
    """How often all radii hold at all checkpoints, and how much smaller they might have been."""
    out = []
    for failure in settings.FAILURES:
        name = f"{failure:g}"
        worst = np.array([[row["ratios"][name][family] for family in FAMILIES] for row in rows])
        every = np.column_stack([worst, worst.max(axis=1)])
        slack = dict(zip((*FAMILIES, "all"), np.quantile(every, 1 - failure, axis=0).tolist(), strict=True))
        held = Share(int((worst <= 1.0).all(axis=1).sum()), len(rows))
        contained = Share(sum(row["contained"][name] for row in rows), len(rows))
        out.append(Radii(failure, held, contained, slack, float(worst.max())))
    return out


def radii(rows: Rows) -> list[str]:
    """How often all radii hold, and how slack they are."""
    found = radii_of(rows)
    held = [[bare(row.failure), bare(1 - row.failure), told(row.held, 4), told(row.contained, 4)] for row in found]
    slack = [[bare(row.failure), *(short(row.slack[name], 2) for name in FAMILIES)] for row in found]
    return [
        grid(["failure", "promised", "all radii hold", "the feasible set holds the true world"], held),
        "How slack they are: the factor by which radii could shrink and still hold in 1 - failure of the runs.",
        grid(["failure", *(f"{name}s" for name in FAMILIES)], slack),
    ]


class Pair(NamedTuple):
    """One weight and number of samples: range of claimed over true standard error, and the worst share of misses."""

    w: float
    samples: int
    worlds: int
    least: float
    most: float
    independent: tuple[float, float]
    missed: Share


def pairs_of(rows: Rows) -> list[Pair]:
    """The worst over gaps, levels and directions."""
    out = []
    for w, samples in product(settings.PAIR_WEIGHTS, settings.PAIR_SAMPLES):
        chosen = [row for row in rows if (row["w"], row["samples"]) == (w, samples)]
        ratios, null = ([row[key] for row in chosen] for key in ("ratio", "independent"))
        worst = max(chosen, key=lambda row: row["missed"] / row["runs"])
        missed = Share(worst["missed"], worst["runs"])
        out.append(Pair(w, samples, len(chosen), min(ratios), max(ratios), (min(null), max(null)), missed))
    return out


def pairs(rows: Rows) -> list[str]:
    """Claimed and true standard errors of a pair."""
    lines = []
    for row in pairs_of(rows):
        claimed = f"{row.least:.2f} to {row.most:.2f}"
        null = "{:.2f} to {:.2f}".format(*row.independent)
        lines.append([bare(row.w), f"{row.samples:,}", claimed, null, told(row.missed, 4)])
    columns = ["w", "samples", "claimed / true", "if rewards were independent", "three deviations miss, worst world"]
    return [grid(columns, lines)]


def program(rows: Rows) -> list[str]:
    """How many of the sets that hold the true rewards leave the program feasible, weights known."""
    lines = [
        [row["made"], f"{bare(row['from'])} to {bare(row['to'])}", f"{row['feasible']} of {row['sets']}",
         f"{row['kappa']:.4g}"]
        for row in rows
    ]  # fmt: skip
    return [grid(["sets that hold the truth", "w", "program feasible", "largest kappa"], lines)]


class Intervals(NamedTuple):
    """One kind of world and budget: the share that holds by bootstrap over worlds, and of one interval of each."""

    kind: str
    episodes: int
    worlds: int
    inside: Estimate
    one: Share
    middle: float
    edge: float
    width: float
    unknown: int
    score: float


def rewards_of(rows: Rows) -> list[Intervals]:
    """Coverage of the intervals by kind of world and budget."""
    out = []
    for kind, episodes in product(settings.REWARDS, settings.BUDGETS):
        chosen = [row for row in rows if (row["kind"], row["episodes"]) == (kind, episodes)]
        if not chosen:
            continue
        inside, edge = (np.array([row[key] for row in chosen]) for key in ("inside", "edge"))
        share, worlds = inside.mean(axis=1), len(chosen)
        low, high = percentiles(share[drawn(worlds)].mean(axis=-1))
        one = inside[np.arange(worlds), np.random.default_rng(0).integers(inside.shape[1], size=worlds)]
        out.append(
            Intervals(
                kind,
                episodes,
                worlds,
                Estimate(float(share.mean()), float(low), float(high)),
                Share(int(one.sum()), worlds),
                float(inside[edge == 0].mean()),
                float(inside[edge == 1].mean()) if edge.any() else math.nan,
                float(np.mean([row["width"] for row in chosen])),
                sum(row["unknown"] for row in chosen),
                float(np.median([row["score"] for row in chosen])),
            )
        )
    return out


def rewards(rows: Rows) -> list[str]:
    """Intervals of rewards by kind of world, and one interval of every run."""
    found = rewards_of(rows)
    lines = []
    for episodes in settings.BUDGETS:
        mine = {row.kind: row for row in found if row.episodes == episodes}
        width = np.mean([row.width for row in mine.values()])
        lines.append([f"{episodes:,}", *(within(mine[kind].inside, 3) for kind in settings.REWARDS), short(width, 2)])
    kinds = [name if apart is None else f"δ = {bare(apart)} everywhere" for name, apart in settings.REWARDS.items()]
    one = Share(*(sum(row.one[i] for row in found) for i in (0, 1)))
    share = within(Estimate(one.value, *one.limits), 3)
    said = f"One interval drawn from each of the {one.trials} runs: {one.successes} hold, a share of {share}."
    return [grid(["episodes", *kinds, "mean width"], lines), said]


def validation_of(rows: Rows) -> dict[int, Share]:
    """Episodes played -> how many validation intervals hold the value."""
    out = {}
    for played in settings.PLAYED:
        chosen = [row for row in rows if row["played"] == played]
        out[played] = Share(*(sum(row[key] for row in chosen) for key in ("inside", "intervals")))
    return out


def validation(rows: Rows) -> list[str]:
    """Intervals of fresh episodes."""
    lines = [[f"{played:,}", told(share), short(share.value)] for played, share in validation_of(rows).items()]
    return [grid(["fresh episodes", "intervals that hold the value", "share"], lines)]


class Regret(NamedTuple):
    """One budget: means, ratio, rank correlation, and how often the largest resample is not below the truth."""

    episodes: int
    worlds: int
    true: float
    estimated: float
    ratio: Estimate
    rank: Estimate
    above: Share


def regret_of(rows: Rows) -> list[Regret]:
    """The bootstrap's regret beside the true one."""
    from scipy.stats import spearmanr

    out = []
    for episodes in settings.REGRET_BUDGETS:
        chosen = [row for row in rows if row["episodes"] == episodes]
        if not chosen:
            continue
        true, estimated, largest = (np.array([row[key] for row in chosen]) for key in ("true", "estimated", "largest"))
        statistics = (
            lambda i, t=true, e=estimated: e[i].mean() / t[i].mean(),
            lambda i, t=true, e=estimated: spearmanr(t[i], e[i]).statistic,
        )
        worlds = len(chosen)
        shown = []
        for statistic in statistics:
            low, high = resampled(statistic, worlds, settings.REGRET_DRAWS)
            shown.append(Estimate(float(statistic(np.arange(worlds))), float(low), float(high)))
        above = Share(int((largest >= true).sum()), worlds)
        out.append(Regret(episodes, worlds, float(true.mean()), float(estimated.mean()), shown[0], shown[1], above))
    return out


def regret(rows: Rows) -> list[str]:
    """The bootstrap's regret beside the true one."""
    found = regret_of(rows)
    lines = [
        [f"{row.episodes:,}", short(row.true, 4), short(row.estimated, 4), within(row.ratio), within(row.rank),
         told(row.above)]
        for row in found
    ]  # fmt: skip
    columns = ["episodes", "true regret", "estimated", "ratio of means", "rank correlation", "largest resample ≥ true"]
    return [grid(columns, lines)]


def draw(plt: Any) -> Any:
    """Left: largest error over its radius. Middle: intervals of rewards. Right: estimated and true regret."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    rows = rows_of("coverage", "radii")
    name = f"{settings.FAILURES[0]:g}"
    for family in FAMILIES:
        worst = np.sort([row["ratios"][name][family] for row in rows])
        axes[0].step(worst, np.arange(1, worst.size + 1) / worst.size, where="post", label=family)
    axes[0].axvline(1.0, color="0.4", ls=":")
    axes[0].set(xlabel=f"largest error / radius, failure {name}", ylabel="share of runs", xlim=(0, 1.05))
    axes[0].legend(frameon=False)
    rows = rows_of("coverage", "rewards")
    for kind in settings.REWARDS:
        share = [
            np.mean([row["inside"] for row in rows if (row["kind"], row["episodes"]) == (kind, episodes)])
            for episodes in settings.BUDGETS
        ]
        axes[1].semilogx(settings.BUDGETS, share, "o-", label=kind)
    axes[1].axhline(settings.LEVEL, color="0.4", ls=":")
    axes[1].set(xlabel="episodes", ylabel="95 % intervals that hold the reward", ylim=(0.85, 1.0))
    axes[1].legend(frameon=False)
    rows = rows_of("coverage", "regret")
    for episodes in settings.REGRET_BUDGETS:
        true, estimated = (
            [max(row[key], 1e-4) for row in rows if row["episodes"] == episodes] for key in ("true", "estimated")
        )
        axes[2].loglog(true, estimated, ".", label=f"{episodes} episodes")
    axes[2].plot([1e-4, 0.5], [1e-4, 0.5], color="0.4", ls=":")
    axes[2].set(xlabel="true regret", ylabel="regret by the bootstrap")
    axes[2].legend(frameon=False)
    return figure


TABLES = {
    "radii": radii,
    "pairs": pairs,
    "program": program,
    "rewards": rewards,
    "validation": validation,
    "regret": regret,
}
"""By the part that they show."""

FIGURES = {"coverage": draw}

if __name__ == "__main__":
    for part, made in TABLES.items():
        show(made(rows_of("coverage", part)))
