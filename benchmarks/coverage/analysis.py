"""Tables and the figure of the study of coverage: python -m benchmarks.coverage.analysis."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from benchmarks.coverage import settings
from benchmarks.exponents import Estimate, drawn, resampled
from benchmarks.exponents import limits as percentiles
from benchmarks.pac.analysis import limits
from benchmarks.record import HERE, pyplot, rows_of, table

FOLDER = HERE / "coverage"
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
        return limits(self.successes, self.trials)

    def __str__(self) -> str:
        return "{:.4f} [{:.4f}, {:.4f}]".format(self.value, *self.limits)


class Radii(NamedTuple):
    """One failure: runs in which all hold, those whose feasible set holds the truth, and how far radii could shrink."""

    failure: float
    held: Share
    contained: Share
    slack: dict[str, float]
    largest: float


def radii_of(rows: list[dict[str, Any]]) -> list[Radii]:
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


def show_radii(rows: list[dict[str, Any]]) -> None:
    """Two tables."""
    found = radii_of(rows)
    print(f"all radii at {', '.join(map(str, settings.CHECKPOINTS))} episodes: share of runs in which every one holds")
    table(
        ["failure", "promise", "runs", "all radii hold", "feasible set holds the truth"],
        [[f"{r.failure:g}", f"{1 - r.failure:g}", len(rows), str(r.held), str(r.contained)] for r in found],
    )
    print("factor by which radii could shrink and still hold in 1 - failure of the runs; last: the largest ratio seen")
    table(
        ["failure", *FAMILIES, "all", "largest"],
        [[f"{r.failure:g}", *(f"{value:.3f}" for value in (*r.slack.values(), r.largest))] for r in found],
    )
    print()


class Pair(NamedTuple):
    """One weight and number of samples: range of claimed over true standard error, and the worst share of misses."""

    w: float
    samples: int
    worlds: int
    least: float
    most: float
    independent: tuple[float, float]
    missed: Share


def pairs_of(rows: list[dict[str, Any]]) -> list[Pair]:
    """The worst over gaps, levels and directions."""
    out = []
    for w, samples in product(settings.PAIR_WEIGHTS, settings.PAIR_SAMPLES):
        chosen = [row for row in rows if (row["w"], row["samples"]) == (w, samples)]
        ratios, null = ([row[key] for row in chosen] for key in ("ratio", "independent"))
        worst = max(chosen, key=lambda row: row["missed"] / row["runs"])
        missed = Share(worst["missed"], worst["runs"])
        out.append(Pair(w, samples, len(chosen), min(ratios), max(ratios), (min(null), max(null)), missed))
    return out


def show_pairs(rows: list[dict[str, Any]]) -> None:
    """One line for each weight and number of samples, and whether it is as it should be."""
    found = pairs_of(rows)
    print(f"standard error of a pair: claimed / true; gaps {', '.join(f'{gap:g}' for gap in settings.PAIR_GAPS)}")
    table(
        ["w", "samples", "worlds", "claimed / true", "if independent", "worst misses of three deviations"],
        [
            [f"{r.w:g}", r.samples, r.worlds, f"{r.least:.3f} .. {r.most:.3f}",
             "{:.2f} .. {:.2f}".format(*r.independent), str(r.missed)]
            for r in found
        ],
    )  # fmt: skip
    enough = [r for r in found if r.samples >= settings.PAIR_ENOUGH]
    off = max(abs(ratio - 1.0) for r in enough for ratio in (r.least, r.most))
    missed = max(r.missed.value for r in found)
    print(f"from {settings.PAIR_ENOUGH} samples: off by at most {off:.3f} (bound {settings.PAIR_RATIO:g})")
    print(f"misses: at most {missed:.4f} (bound {settings.PAIR_MISSES:g})")
    print()


def show_program(rows: list[dict[str, Any]]) -> None:
    """How many of the sets leave the program feasible."""
    print("the program on sets that hold the true rewards, weights known")
    table(
        ["sets", "w", "feasible", "largest kappa"],
        [
            [row["made"], f"{row['from']:g} .. {row['to']:g}", f"{row['feasible']} of {row['sets']}", row["kappa"]]
            for row in rows
        ],
    )
    print(f"feasible: {sum(row['feasible'] for row in rows)} of {sum(row['sets'] for row in rows)}")
    print()


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


def rewards_of(rows: list[dict[str, Any]]) -> list[Intervals]:
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


def show_rewards(rows: list[dict[str, Any]]) -> None:
    """One line for each kind and budget."""
    print("95 % intervals of rewards; limits: bootstrap over worlds, and exact for one interval of each world")
    table(
        ["worlds", "episodes", "n", "inside", "one of each", "p in .1 to .9", "p outside", "width", "inf", "score"],
        [
            [r.kind, r.episodes, r.worlds, "{:.3f} [{:.3f}, {:.3f}]".format(*r.inside), str(r.one), f"{r.middle:.3f}",
             f"{r.edge:.3f}", f"{r.width:.3f}", r.unknown, f"{r.score:.2f}"]
            for r in rewards_of(rows)
        ],
    )  # fmt: skip
    print()


def validation_of(rows: list[dict[str, Any]]) -> dict[int, Share]:
    """Episodes played -> how many validation intervals hold the value."""
    out = {}
    for played in settings.PLAYED:
        chosen = [row for row in rows if row["played"] == played]
        out[played] = Share(*(sum(row[key] for row in chosen) for key in ("inside", "intervals")))
    return out


def show_validation(rows: list[dict[str, Any]]) -> None:
    """Coverage of validation intervals by the number of episodes played."""
    print("95 % validation intervals")
    found = validation_of(rows)
    table(
        ["episodes played", "intervals", "hold the value"],
        [[played, share.trials, str(share)] for played, share in found.items()],
    )
    print()


class Regret(NamedTuple):
    """One budget: means, ratio, rank correlation, and how often the largest resample is not below the truth."""

    episodes: int
    worlds: int
    true: float
    estimated: float
    ratio: Estimate
    rank: Estimate
    above: Share


def regret_of(rows: list[dict[str, Any]]) -> list[Regret]:
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


def show_regret(rows: list[dict[str, Any]]) -> None:
    """Ratio of means, rank correlation, and how often the largest resample is above the truth."""
    print("the bootstrap's regret beside the true one; limits: bootstrap over worlds, last column exact")
    table(
        ["episodes", "worlds", "true", "estimated", "ratio of means", "rank correlation", "largest >= true"],
        [
            [r.episodes, r.worlds, f"{r.true:.4f}", f"{r.estimated:.4f}", str(r.ratio), str(r.rank), str(r.above)]
            for r in regret_of(rows)
        ],
    )
    print()


SHOW = {
    "radii": show_radii,
    "pairs": show_pairs,
    "program": show_program,
    "rewards": show_rewards,
    "validation": show_validation,
    "regret": show_regret,
}


def stored(part: str) -> Any:
    """Rows of a part, or None if it was not run."""
    return rows_of("coverage", part)


def draw() -> None:
    """Left: largest error over its radius. Middle: intervals of rewards. Right: estimated and true regret."""
    plt = pyplot()

    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    if rows := stored("radii"):
        name = f"{settings.FAILURES[0]:g}"
        for family in FAMILIES:
            worst = np.sort([row["ratios"][name][family] for row in rows])
            axes[0].step(worst, np.arange(1, worst.size + 1) / worst.size, where="post", label=family)
        axes[0].axvline(1.0, color="0.4", ls=":")
        axes[0].set(xlabel=f"largest error / radius, failure {name}", ylabel="share of runs", xlim=(0, 1.05))
        axes[0].legend(frameon=False)
    if rows := stored("rewards"):
        for kind in settings.REWARDS:
            share = [
                np.mean([row["inside"] for row in rows if (row["kind"], row["episodes"]) == (kind, episodes)])
                for episodes in settings.BUDGETS
            ]
            axes[1].semilogx(settings.BUDGETS, share, "o-", label=kind)
        axes[1].axhline(settings.LEVEL, color="0.4", ls=":")
        axes[1].set(xlabel="episodes", ylabel="95 % intervals that hold the reward", ylim=(0.85, 1.0))
        axes[1].legend(frameon=False)
    if rows := stored("regret"):
        for episodes in settings.REGRET_BUDGETS:
            true, estimated = (
                [max(row[key], 1e-4) for row in rows if row["episodes"] == episodes] for key in ("true", "estimated")
            )
            axes[2].loglog(true, estimated, ".", label=f"{episodes} episodes")
        axes[2].plot([1e-4, 0.5], [1e-4, 0.5], color="0.4", ls=":")
        axes[2].set(xlabel="true regret", ylabel="regret by the bootstrap")
        axes[2].legend(frameon=False)
    figure.savefig(FOLDER / "coverage.svg", metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Print and draw all that there is."""
    for part, show in SHOW.items():
        if rows := stored(part):
            show(rows)
    draw()


if __name__ == "__main__":
    main()
