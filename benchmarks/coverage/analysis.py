"""Tables and the figure of the study of coverage: python -m benchmarks.coverage.analysis."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from benchmarks.cells import NO_BREAK_SPACE, bare, grid, short, show, within
from benchmarks.coverage import settings
from benchmarks.exponents import Estimate, draw_replicates, exact_limits, resampled
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


def format_share(share: Share, digits: int = 3) -> str:
    """How many of how many, and the limits of the share."""
    low, high = (short(limit, digits) for limit in share.limits)
    return f"{share.successes:,} of {share.trials:,}, [{low},{NO_BREAK_SPACE}{high}]"


def select_rows(rows: Rows, **values: Any) -> Rows:
    """The rows that have these values."""
    return [row for row in rows if all(row[key] == value for key, value in values.items())]


def radii(rows: Rows) -> list[str]:
    """How often all radii hold at all checkpoints, and how much smaller they might have been."""
    holds, slack = [], []
    for failure_prob in settings.FAILURES:
        name = f"{failure_prob:g}"
        worst = np.array([[row["ratios"][name][family] for family in FAMILIES] for row in rows])
        every = Share(int((worst <= 1.0).all(axis=1).sum()), len(rows))
        contained = Share(sum(row["contained"][name] for row in rows), len(rows))
        holds.append([bare(failure_prob), bare(1 - failure_prob), format_share(every, 4), format_share(contained, 4)])
        slack.append([bare(failure_prob), *(short(value, 2) for value in np.quantile(worst, 1 - failure_prob, axis=0))])
    return [
        grid(
            ["failure probability", "guaranteed", "all radii hold", "the feasible set contains the true model"], holds
        ),
        "Slack: the factor by which radii could shrink and still hold in 1 - failure probability of the runs.",
        grid(["failure probability", *(f"{name}s" for name in FAMILIES)], slack),
    ]


def pairs(rows: Rows) -> list[str]:
    """Claimed and true standard errors of a pair, and misses: the worst over gaps, levels and directions."""
    lines = []
    for w, samples in product(settings.PAIR_WEIGHTS, settings.PAIR_SAMPLES):
        group = select_rows(rows, w=w, samples=samples)
        ranges = [[row[key] for row in group] for key in ("ratio", "independent")]
        worst = max(group, key=lambda row: row["missed"] / row["runs"])
        missed = format_share(Share(worst["missed"], worst["runs"]), 4)
        lines.append([bare(w), f"{samples:,}", *(f"{min(each):.2f} to {max(each):.2f}" for each in ranges), missed])
    misses = "outside three standard errors, worst model"
    return [grid(["w", "samples", "claimed / true", "if rewards were independent", misses], lines)]


def program(rows: Rows) -> list[str]:
    """How many of the sets that hold the true rewards leave the program feasible, weights known."""
    lines = [
        [row["made"], f"{bare(row['from'])} to {bare(row['to'])}", f"{row['feasible']} of {row['sets']}",
         f"{row['kappa']:.4g}"]
        for row in rows
    ]  # fmt: skip
    return [grid(["sets that hold the truth", "w", "program feasible", "largest kappa"], lines)]


def rewards(rows: Rows) -> list[str]:
    """Share of the intervals that hold by kind of model, by bootstrap over models, and of one interval of every run."""
    lines, ones = [], []
    for episodes in dict.fromkeys(row["episodes"] for row in rows):
        cells = []
        for kind in settings.REWARDS:
            inside = np.array([row["inside"] for row in select_rows(rows, kind=kind, episodes=episodes)])
            share, envs = inside.mean(axis=1), len(inside)
            low, high = percentiles(share[draw_replicates(envs)].mean(axis=-1))
            cells.append(within(Estimate(float(share.mean()), float(low), float(high)), 3))
            ones.append(inside[np.arange(envs), np.random.default_rng(0).integers(inside.shape[1], size=envs)])
        width = np.mean([row["width"] for row in select_rows(rows, episodes=episodes)])
        lines.append([f"{episodes:,}", *cells, short(width, 2)])
    kinds = [name if apart is None else f"δ = {bare(apart)} everywhere" for name, apart in settings.REWARDS.items()]
    one_each = Share(int(np.concatenate(ones).sum()), sum(map(len, ones)))
    share = within(Estimate(one_each.value, *one_each.limits), 3)
    text = (
        f"One interval drawn from each of the {one_each.trials} runs: {one_each.successes} hold, a fraction of {share}."
    )
    return [grid(["episodes", *kinds, "mean width"], lines), text]


def validation(rows: Rows) -> list[str]:
    """Intervals of fresh episodes."""
    lines = []
    for played in settings.PLAYED:
        group = select_rows(rows, played=played)
        share = Share(*(sum(row[key] for row in group) for key in ("inside", "intervals")))
        lines.append([f"{played:,}", format_share(share), short(share.value)])
    return [grid(["fresh episodes", "intervals that contain the value", "fraction"], lines)]


def regret(rows: Rows) -> list[str]:
    """The bootstrap's regret beside the true one."""
    from scipy.stats import spearmanr

    lines = []
    for episodes in dict.fromkeys(row["episodes"] for row in rows):
        group = select_rows(rows, episodes=episodes)
        true, estimated, largest = (np.array([row[key] for row in group]) for key in ("true", "estimated", "largest"))
        statistics = (
            lambda i, t=true, e=estimated: e[i].mean() / t[i].mean(),
            lambda i, t=true, e=estimated: spearmanr(t[i], e[i]).statistic,
        )
        cells = []
        for statistic in statistics:
            low, high = resampled(statistic, len(group), settings.REGRET_DRAWS)
            cells.append(within(Estimate(float(statistic(np.arange(len(group)))), float(low), float(high))))
        above = format_share(Share(int((largest >= true).sum()), len(group)))
        lines.append([f"{episodes:,}", short(true.mean(), 4), short(estimated.mean(), 4), *cells, above])
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
            np.mean([row["inside"] for row in select_rows(rows, kind=kind, episodes=episodes)])
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
    for part, make_table in TABLES.items():
        show(make_table(rows_of("coverage", part)))
