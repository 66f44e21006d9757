"""Tables and figures of the study of learning: python -m benchmarks.learning.analysis."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from benchmarks.learning import settings
from benchmarks.record import HERE, pyplot, table

FOLDER = HERE / "learning"


def line(row: dict[str, Any]) -> str:
    """One row as a line of text, for progress."""
    share = np.array(row["share"])
    return (
        f"{row['problem']:<16} {row['episodes']:>7}  {row.get('method', ''):<24} share {share.mean():.4f}  "
        f"worst {share.min():.4f}  ({share.size} seeds)"
    )


def stored(name: str) -> Any:
    """Results of a part, or None if it was not run."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["results"] if path.is_file() else None


def main() -> None:
    """Print and draw all that there is."""
    if rows := stored("results"):
        together = rows["rows"] + (stored("long") or {"rows": []})["rows"]
        main_table(together)
        draw_grid(together)
    if rows := stored("hard"):
        hard_table(rows["rows"])
    if rows := stored("others"):
        others_table(rows["rows"])
    if found := stored("recurrent_shop"):
        recurrent_table(found)
        draw_others(stored("others"), found)


def main_table(rows: list[dict[str, Any]]) -> None:
    """Share and regret, mean over seeds, and whether the target is met."""
    out = []
    for row in rows:
        share, regret = np.array(row["share"]), np.array(row["regret"])
        error = share.std(ddof=1) / math.sqrt(share.size) if share.size > 1 else math.nan
        target = settings.TARGETS.get(row["episodes"])
        counts = target is not None and not row["problem"].startswith("hard")
        verdict = ("met" if share.mean() >= target else "MISSED") if counts else ""
        out.append(
            [
                row["problem"],
                row["episodes"],
                row["seeds"],
                f"{share.mean():.4f} +- {error:.4f}",
                f"{share.min():.3f}",
                f"{regret.mean():.4f}",
                f"{row['cpu_seconds']:.2f}",
                verdict,
            ]
        )
    table(["problem", "episodes", "seeds", "share of the gain", "worst", "regret", "CPU s", "target"], out)
    print()


def hard_table(rows: list[dict[str, Any]]) -> None:
    """How many seeds found the optimal policy."""
    out = []
    for row in rows:
        optimal = [regret <= 1e-3 for regret in row["regret"]]
        out.append(
            [
                row["problem"],
                row["episodes"],
                len(optimal),
                sum(optimal),
                f"{np.mean(optimal):.3f}",
                "met" if np.mean(optimal) >= 0.9 else "MISSED",
            ]
        )
    table(["hard family", "episodes", "seeds", "optimal", "share", "target .9"], out)
    print()


def others_table(rows: list[dict[str, Any]]) -> None:
    """Ways to learn side by side: share of the gain."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells = {(row["problem"], row["episodes"], row["method"]): np.mean(row["share"]) for row in rows}
    keys = list(dict.fromkeys((row["problem"], row["episodes"]) for row in rows))
    shown = [[*key, *(f"{cells[(*key, m)]:.3f}" if (*key, m) in cells else "" for m in methods)] for key in keys]
    table(["problem", "episodes", *methods], shown)
    print()


def recurrent_table(found: dict[str, Any]) -> None:
    """The curve of RecurrentPPO against what ``learn`` has at 2,000 episodes."""
    rows = stored("results")
    ours = [row for row in rows["rows"] if row["problem"] == "shop" and row["episodes"] == 2000] if rows else []
    reached = float(np.mean(ours[0]["value"])) if ours else math.nan
    for seed, curve in found["curves"].items():
        table(
            [f"RecurrentPPO seed {seed}: episodes", "value", "95 % interval"],
            [
                [point["episodes"], f"{point['value']:.4f}", f"[{point['lower']:.4f}, {point['upper']:.4f}]"]
                for point in curve
            ],
        )
        there = [point["episodes"] for point in curve if point["upper"] >= reached]
        if there:
            print(f"learn at 2,000: {reached:.4f}; within its interval from {there[0]} episodes: {there[0] / 2000:g} x")
        else:
            last = curve[-1]["episodes"]
            print(f"learn at 2,000: {reached:.4f}; not reached in {last} episodes: more than {last / 2000:g} x")
    print()


def draw_grid(rows: list[dict[str, Any]]) -> None:
    """One panel for each problem: the share against the budget, every seed a dot."""
    plt = _pyplot()
    names = list(dict.fromkeys(row["problem"] for row in rows))
    figure, axes = plt.subplots(3, 4, figsize=(9, 7), sharex=True, sharey=True, layout="constrained")
    for name, axis in zip(names, axes.flat, strict=False):
        cells = [row for row in rows if row["problem"] == name]
        for row in cells:
            axis.plot([row["episodes"]] * row["seeds"], np.clip(row["share"], -0.25, None), ".", color="0.65", ms=5)
        means = [np.clip(np.mean(row["share"]), -0.25, None) for row in cells]
        axis.plot([row["episodes"] for row in cells], means, "o-", color="C0")
        axis.axhline(1, color="0.4", lw=0.8)
        axis.axhline(0, color="0.4", lw=0.8, ls=":")
        axis.set(title=name, xscale="log", ylim=(-0.3, 1.08))
    figure.supxlabel("episodes (what is worse than -.25 is drawn there)")
    figure.supylabel("share of the gain of adapting (0: best Markov policy, 1: best policy)")
    _save(figure, "share.svg")


def draw_others(others: Any, recurrent: dict[str, Any]) -> None:
    """All ways to learn on ``shop``."""
    plt = _pyplot()
    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    rows = [row for row in (others or {"rows": []})["rows"] if row["problem"] == "shop"]
    for method in dict.fromkeys(row["method"] for row in rows):
        cells = [row for row in rows if row["method"] == method]
        values = [np.mean(c["value"]) for c in cells]
        ours = {"lw": 4, "ms": 9, "alpha": 0.6} if method == "learn" else {}  # seen where another lies upon it
        axis.plot([c["episodes"] for c in cells], values, "o-", label=method, **ours)
    for seed, curve in recurrent["curves"].items():
        axis.plot(
            [p["episodes"] for p in curve],
            [p["value"] for p in curve],
            "s--",
            color="k",
            label=f"RecurrentPPO, seed {seed}",
        )
    if rows:
        axis.axhline(rows[0]["best"], color="0.4", lw=0.8)
        axis.axhline(rows[0]["markov"], color="0.4", lw=0.8, ls=":")
        axis.text(500, rows[0]["best"], "best policy", va="bottom")
        axis.text(500, rows[0]["markov"], "best Markov policy", va="bottom")
    axis.set(xscale="log", xlabel="episodes", ylabel="expected clicks in a session of shop")
    axis.legend(loc="lower right")
    _save(figure, "others.svg")


def _pyplot() -> Any:
    plt = pyplot()

    return plt


def _save(figure: Any, name: str) -> None:
    figure.savefig(FOLDER / name, metadata={"Date": None})


if __name__ == "__main__":
    main()
