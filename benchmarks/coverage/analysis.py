"""Tables and the figure of the study of coverage: python -m benchmarks.coverage.analysis."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from benchmarks.coverage import settings
from benchmarks.exponents import resampled
from benchmarks.record import HERE, table

FOLDER = HERE / "coverage"
FAMILIES = ("average", "pair", "move", "start")


def limits(successes: int, trials: int) -> str:
    """A share with its exact 95 % binomial limits."""
    from scipy.stats import binomtest

    found = binomtest(successes, trials).proportion_ci(0.95, "exact")
    return f"{successes / trials:.4f} [{found.low:.4f}, {found.high:.4f}]"


def show_radii(rows: list[dict[str, Any]]) -> None:
    """How often all radii hold at all checkpoints, and how much smaller they might have been."""
    out, slack = [], []
    for failure in settings.FAILURES:
        name = f"{failure:g}"
        worst = np.array([[row["ratios"][name][family] for family in FAMILIES] for row in rows])
        held = int((worst <= 1.0).all(axis=1).sum())
        contained = sum(row["contained"][name] for row in rows)
        out.append([name, f"{1 - failure:g}", len(rows), limits(held, len(rows)), limits(contained, len(rows))])
        every = np.column_stack([worst, worst.max(axis=1)])
        needed = np.quantile(every, 1 - failure, axis=0)
        slack.append([name, *(f"{value:.3f}" for value in needed), f"{every[:, -1].max():.3f}"])
    print(f"all radii at {', '.join(map(str, settings.CHECKPOINTS))} episodes: share of runs in which every one holds")
    table(["failure", "promise", "runs", "all radii hold", "feasible set holds the truth"], out)
    print("factor by which radii could shrink and still hold in 1 - failure of the runs; last: the largest ratio seen")
    table(["failure", *FAMILIES, "all", "largest"], slack)
    print()


def show_rewards(rows: list[dict[str, Any]]) -> None:
    """Coverage of the intervals by kind of world and budget."""
    out = []
    for kind in settings.REWARDS:
        for episodes in settings.BUDGETS:
            chosen = [row for row in rows if (row["kind"], row["episodes"]) == (kind, episodes)]
            if not chosen:
                continue
            inside, edge = (np.array([row[key] for row in chosen]) for key in ("inside", "edge"))
            share = inside.mean(axis=1)
            low, high = resampled(lambda worlds, share=share: share[worlds].mean(), len(chosen))
            one = inside[np.arange(len(chosen)), np.random.default_rng(0).integers(inside.shape[1], size=len(chosen))]
            out.append(
                [
                    kind,
                    episodes,
                    len(chosen),
                    f"{share.mean():.3f} [{low:.3f}, {high:.3f}]",
                    limits(int(one.sum()), len(chosen)),
                    f"{inside[edge == 0].mean():.3f}",
                    f"{inside[edge == 1].mean():.3f}" if edge.any() else "-",
                    f"{np.mean([row['width'] for row in chosen]):.3f}",
                    sum(row["unknown"] for row in chosen),
                    f"{np.median([row['score'] for row in chosen]):.2f}",
                ]
            )
    print("95 % intervals of rewards; limits: bootstrap over worlds, and exact for one interval of each world")
    table(
        ["worlds", "episodes", "n", "inside", "one of each", "p in .1 to .9", "p outside", "width", "inf", "score"], out
    )
    print()


def show_validation(rows: list[dict[str, Any]]) -> None:
    """Coverage of validation intervals by the number of episodes played."""
    out = []
    for played in settings.PLAYED:
        chosen = [row for row in rows if row["played"] == played]
        trials, inside = (sum(row[key] for row in chosen) for key in ("intervals", "inside"))
        out.append([played, trials, limits(inside, trials)])
    print("95 % validation intervals")
    table(["episodes played", "intervals", "hold the value"], out)
    print()


def show_regret(rows: list[dict[str, Any]]) -> None:
    """Ratio of means, rank correlation, and how often the largest resample is above the truth."""
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
        everyone = np.arange(len(chosen))
        shown = []
        for statistic in statistics:
            low, high = resampled(statistic, len(chosen), 500)
            shown.append(f"{statistic(everyone):.2f} [{low:.2f}, {high:.2f}]")
        above = limits(int((largest >= true).sum()), len(chosen))
        out.append([episodes, len(chosen), f"{true.mean():.4f}", f"{estimated.mean():.4f}", *shown, above])
    print("the bootstrap's regret beside the true one; limits: bootstrap over worlds, last column exact")
    table(["episodes", "worlds", "true", "estimated", "ratio of means", "rank correlation", "largest >= true"], out)
    print()


SHOW = {"radii": show_radii, "rewards": show_rewards, "validation": show_validation, "regret": show_regret}


def stored(part: str) -> Any:
    """Rows of a part, or None if it was not run."""
    path = FOLDER / f"{part}.json"
    return json.loads(path.read_text(encoding="utf-8"))["results"]["rows"] if path.is_file() else None


def draw() -> None:
    """Left: largest error over its radius. Middle: intervals of rewards. Right: estimated and true regret."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "rewardmix"  # the same results give the same file
    import matplotlib.pyplot as plt

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
        axes[1].axhline(0.95, color="0.4", ls=":")
        axes[1].set(xlabel="episodes", ylabel="95 % intervals that hold the reward", ylim=(0.6, 1.0))
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
