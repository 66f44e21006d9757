"""Tables and the figure of the study of scaling: python -m benchmarks.scaling.analysis."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.exponents import Exponent, between, crossing, over_replicates, slope
from benchmarks.record import HERE, table
from benchmarks.scaling import ends, settings

FOLDER = HERE / "scaling"
PRINTED = {
    "states": "2",
    "actions": "1 to 2",
    "horizon": "6 to 7",
    "accuracy": "-2",
    "separation": "-2",
    "failure": "log",
    "accuracy, separation 0": "-4",
    "horizon, threshold fixed": "0 to 1",
    "states, equal moves": "2",
}
"""Exponents of theorem:upper_bound: A (H + A) lies between A and A^2; the threshold is the theorem's H^-3."""

NEEDED = {"states": "2", "actions": "1 to 2", "horizon": "6 to 7", "separation": "-2"}


def show_ends(results: dict[str, Any]) -> None:
    """Exponents of Algorithm 2, with t-intervals over worlds, beside the printed forms on the same grid."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in results["rows"]:
        groups.setdefault((row["setting"], row["sweep"]), []).append(row)
    out = []
    for (setting, sweep), rows in groups.items():
        values = tuple(rows[0]["values"])
        found = between([slope(values, row["episodes"]) for row in rows])
        forms = [slope(values, ends.printed(sweep, values, form)) for form in ("theorem", "lemma", "fluid")]
        if sweep.endswith("fixed"):
            forms[0] = float("nan")
        out.append([setting, sweep, len(rows), str(found), PRINTED[sweep], *(f"{form:.2f}" for form in forms)])
    print("Algorithm 2 to the threshold: exponent of the episodes, 95 % t-interval over worlds")
    print("right of it: the exponent as printed, and slopes of three formulas (with logarithms) on the same grid")
    table(["setting", "factor", "worlds", "measured", "printed", "theorem", "lemma", "fluid"], out)
    print()
    if results.get("worlds"):
        print("other worlds, V_0 <= 1e-3: episodes over eq:required_episodes with C = 1")
        rows = [[row["world"], str(tuple(row["size"])), f"{row['episodes']:.3g}"] for row in results["worlds"]]
        ratios = [row["episodes"] / row["bound"] for row in results["worlds"]]
        table(
            ["world", "(S, A, H)", "episodes", "ratio"], [[*r, f"{q:.2f}"] for r, q in zip(rows, ratios, strict=True)]
        )
        print()


def mean_curve(curve: dict[str, Any], key: str, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over the chosen worlds at each budget; "share" is the mean regret over the mean gain."""
    values = np.array(curve["regret" if key == "share" else key])[:, chosen].mean(axis=1)
    return values / np.array(curve["gain"])[chosen].mean() if key == "share" else values


def needed(curves: list[dict[str, Any]], key: str, level: float, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """The budget that each curve needs."""
    return np.array([crossing(curve["budgets"], mean_curve(curve, key, chosen), level) for curve in curves])


def of(curves: list[dict[str, Any]], factor: str) -> list[dict[str, Any]]:
    """The curves of one sweep."""
    return [curve for curve in curves if curve["factor"] == factor]


def falling(curve: dict[str, Any], key: str, draws: int) -> tuple[Exponent, list[float]]:
    """Exponent of the accuracy, from one curve and several levels, and the budgets needed."""
    levels = list(settings.ACCURACIES)
    worlds = len(curve["gain"])

    def at(chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.array([crossing(curve["budgets"], mean_curve(curve, key, chosen), level) for level in levels])

    return over_replicates(levels, at, worlds, draws), at(np.arange(worlds)).tolist()


def sweep_row(curves: list[dict[str, Any]], factor: str, key: str, level: float, draws: int) -> list[str]:
    """One line of the table."""
    values = [curve["point"][factor] for curve in curves]
    worlds = len(curves[0]["gain"])
    found = over_replicates(values, lambda chosen: needed(curves, key, level, chosen), worlds, draws)
    budgets = needed(curves, key, level, np.arange(worlds))
    shown = ", ".join(f"{value:g}: {budget:.0f}" for value, budget in zip(values, budgets, strict=True))
    what = f"{key} <= {level:g}"
    return [curves[0]["way"], factor, what, str(worlds), shown, str(found), NEEDED[factor]]


def show_needed(curves: list[dict[str, Any]], draws: int = settings.DRAWS) -> None:
    """Budgets and exponents, with percentile intervals from worlds drawn with replacement."""
    out = []
    for base in of(curves, "accuracy"):
        for key in ("regret", "value error"):
            found, budgets = falling(base, key, draws)
            shown = ", ".join(f"{e:g}: {k:.0f}" for e, k in zip(settings.ACCURACIES, budgets, strict=True))
            out.append([base["way"], "accuracy", key, str(len(base["gain"])), shown, str(found), "-2"])
    for factor in NEEDED:
        if not (mine := of(curves, factor)):
            continue
        out.append(sweep_row(mine, factor, "regret", settings.LEARNED.accuracy, draws))
        share = settings.SHARE if factor == "separation" else settings.OTHER_SHARE
        out.append(sweep_row(mine, factor, "share", share, draws))
    print("what learning needs: episodes, exponent with 95 % bootstrap interval over worlds")
    table(["way", "factor", "until", "worlds", "episodes", "exponent", "theorem"], out)
    for base in of(curves, "accuracy"):
        rmse, regret = (np.mean(base[key], axis=1) for key in ("rmse", "regret"))
        many = np.array(base["budgets"]) >= 100
        told = slope(rmse[many], regret[many])
        print(f"regret against the error of the rewards, from 100 episodes on: exponent {told:.2f}")
    for factor in NEEDED:
        gains = [f"{curve['point'][factor]:g}: {np.mean(curve['gain']):.4f}" for curve in of(curves, factor)]
        if gains:
            print(f"what adapting gains, {factor} {', '.join(gains)}")
    print()


def stored(part: str) -> Any:
    """Results of a part, or None if it was not run."""
    path = FOLDER / f"{part}.json"
    return json.loads(path.read_text(encoding="utf-8"))["results"] if path.is_file() else None


def draw() -> None:
    """Left: Algorithm 2, episodes over those of the base. Right: what learning needs, likewise."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "rewardmix"  # the same results give the same file
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    if results := stored("ends"):
        for factor in ("states", "actions", "horizon", "accuracy", "separation"):
            rows = [row for row in results["rows"] if (row["setting"], row["sweep"]) == ("paper", factor)]
            values = np.array(rows[0]["values"])
            mean = np.exp(np.log([row["episodes"] for row in rows]).mean(axis=0))
            (line,) = axes[0].loglog(values / values[0], mean / mean[0], "o", label=factor)
            theorem = np.array(ends.printed(factor, tuple(values), "lemma"))
            axes[0].loglog(values / values[0], theorem / theorem[0], color=line.get_color(), lw=1)
        axes[0].set(title="Algorithm 2 (lines: eq:required_episodes)", ylabel="episodes / those at the first value")
    if results := stored("needed"):
        level = settings.LEARNED.accuracy
        for factor in NEEDED:
            curves = of(results["curves"], factor)
            values = np.array([curve["point"][factor] for curve in curves])
            budgets = needed(curves, "regret", level, np.arange(len(curves[0]["gain"])))
            axes[1].loglog(values / values[0], budgets / budgets[0], "o-", label=factor)
        budgets = np.array(falling(of(results["curves"], "accuracy")[0], "regret", 2)[1])
        levels = np.array(settings.ACCURACIES)
        axes[1].loglog(levels / levels[0], budgets / budgets[0], "o-", label="accuracy")
        axes[1].set(title=f"learning to a mean regret of {level:g}", ylabel="episodes / those at the first value")
    for axis in axes:
        axis.set(xlabel="factor / its first value")
        axis.legend(frameon=False, fontsize="small")
    figure.savefig(FOLDER / "episodes.svg", metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Print and draw all that there is."""
    if results := stored("ends"):
        show_ends(results)
    for part in ("needed", "pairs"):
        if results := stored(part):
            show_needed(results["curves"])
    draw()


if __name__ == "__main__":
    main()
