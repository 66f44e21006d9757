"""Tables and the figure of the study of scaling: python -m benchmarks.scaling.analysis."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.exponents import Estimate, between, crossing, over_replicates, slope
from benchmarks.record import HERE, pyplot, table
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

SIZES_AND_SEPARATION = ("states", "actions", "horizon", "separation")
"""Factors of learning that have a curve for each value."""

LOOKS: dict[str, dict[str, Any]] = {
    "states": {"marker": "o"},
    "actions": {"marker": "^"},
    "horizon": {"marker": "s"},
    "accuracy": {"marker": "o", "markersize": 10, "markerfacecolor": "none"},
    "separation": {"marker": "x"},
}
"""Marks of the factors in the figure; accuracy and separation lie on each other."""


class End(NamedTuple):
    """A sweep of Algorithm 2: its exponent, and slopes of three formulas (with logarithms) on the same grid."""

    setting: str
    sweep: str
    values: tuple[float, ...]
    worlds: int
    found: Estimate
    theorem: float
    lemma: float
    fluid: float


def ends_of(results: dict[str, Any]) -> list[End]:
    """Every sweep, with t-intervals over worlds, beside the printed forms."""
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
        out.append(End(setting, sweep, values, len(rows), found, *forms))
    return out


def show_ends(results: dict[str, Any]) -> None:
    """Exponents of Algorithm 2 and, if they were run, other worlds."""
    print("Algorithm 2 to the threshold: exponent of the episodes, 95 % t-interval over worlds")
    print("right of it: the exponent as printed, and slopes of three formulas (with logarithms) on the same grid")
    table(
        ["setting", "factor", "worlds", "measured", "printed", "theorem", "lemma", "fluid"],
        [
            [end.setting, end.sweep, end.worlds, str(end.found), PRINTED[end.sweep],
             *(f"{form:.2f}" for form in (end.theorem, end.lemma, end.fluid))]
            for end in ends_of(results)
        ],
    )  # fmt: skip
    print()
    if results.get("worlds"):
        print(f"other worlds, V_0 <= {settings.STOP:g}: episodes over eq:required_episodes with C = 1")
        table(
            ["world", "(S, A, H)", "episodes", "ratio"],
            [
                [row["world"], str(tuple(row["size"])), f"{row['episodes']:.3g}", f"{over_bound(row):.2f}"]
                for row in results["worlds"]
            ],
        )
        print()


def over_bound(row: dict[str, Any]) -> float:
    """Episodes in another world over eq:required_episodes with C = 1."""
    return float(row["episodes"] / row["bound"])


class Needed(NamedTuple):
    """The budgets that a sweep needs until a measure is at its level, and their exponent."""

    way: str
    factor: str
    until: str
    worlds: int
    values: tuple[float, ...]
    budgets: list[float]
    found: Estimate


def mean_curve(curve: dict[str, Any], key: str, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over the chosen worlds (..., worlds) at each budget; "share" is the mean regret over the mean gain."""
    values = np.array(curve["regret" if key == "share" else key])[:, chosen].mean(axis=-1)
    return values / np.array(curve["gain"])[chosen].mean(axis=-1) if key == "share" else values


def of(curves: list[dict[str, Any]], factor: str, among: Sequence[float] | None = None) -> list[dict[str, Any]]:
    """The curves of one sweep, or those of them at some values of the factor."""
    found = [curve for curve in curves if curve["factor"] == factor]
    return found if among is None else [curve for curve in found if curve["point"][factor] in among]


def needed(
    curves: list[dict[str, Any]], key: str = "regret", level: float | None = None, worlds: int | None = None,
    draws: int = settings.DRAWS,
) -> Needed:  # fmt: skip
    """What the curves of one sweep need, of all or the first worlds; the interval is the bootstrap's over worlds.

    The accuracy has one curve, and a level for each of its values.
    """
    factor = curves[0]["factor"]
    worlds = worlds or len(curves[0]["gain"])
    if factor == "accuracy":
        values, until = settings.ACCURACIES, key
        meetings = [(curves[0], accuracy) for accuracy in values]
    else:
        values = tuple(curve["point"][factor] for curve in curves)
        level = settings.LEARNED.accuracy if level is None else level
        meetings, until = [(curve, level) for curve in curves], f"{key} <= {level:g}"

    def at(chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        met = [crossing(curve["budgets"], mean_curve(curve, key, chosen), value) for curve, value in meetings]
        return np.stack(met, axis=-1)

    found = over_replicates(values, at, worlds, draws)
    return Needed(curves[0]["way"], factor, until, worlds, values, at(np.arange(worlds)).tolist(), found)


def share_of(factor: str) -> float:
    """The target as a share of what adapting gains."""
    return settings.SHARE if factor == "separation" else settings.OTHER_SHARE


def second_order(base: dict[str, Any]) -> float:
    """Estimate of the regret in the error of the rewards, from ``settings.MANY`` episodes on."""
    rmse, regret = (np.mean(base[key], axis=1) for key in ("rmse", "regret"))
    many = np.array(base["budgets"]) >= settings.MANY
    return float(slope(rmse[many], regret[many]))


def gains(curves: list[dict[str, Any]], factor: str) -> dict[float, float]:
    """Value of a factor -> what adapting gains there, the mean over worlds."""
    return {curve["point"][factor]: float(np.mean(curve["gain"])) for curve in of(curves, factor)}


def show_needed(curves: list[dict[str, Any]], draws: int = settings.DRAWS) -> None:
    """Budgets and exponents, with percentile intervals from worlds drawn with replacement."""
    rows = []
    if base := of(curves, "accuracy"):
        rows += [needed(base, key, draws=draws) for key in ("regret", "value error")]
    for factor in SIZES_AND_SEPARATION:
        if mine := of(curves, factor):
            rows += [needed(mine, draws=draws), needed(mine, "share", share_of(factor), draws=draws)]
    print("what learning needs: episodes, exponent with 95 % bootstrap interval over worlds")
    out = []
    for row in rows:
        shown = ", ".join(f"{value:g}: {budget:.0f}" for value, budget in zip(row.values, row.budgets, strict=True))
        out.append([row.way, row.factor, row.until, row.worlds, shown, str(row.found), PRINTED[row.factor]])
    table(["way", "factor", "until", "worlds", "episodes", "exponent", "theorem"], out)
    for curve in base:
        told = f"from {settings.MANY} episodes on: exponent {second_order(curve):.2f}"
        print(f"regret against the error of the rewards, {told}")
    for factor in SIZES_AND_SEPARATION:
        if found := gains(curves, factor):
            print(f"what adapting gains, {factor} {', '.join(f'{at:g}: {gain:.4f}' for at, gain in found.items())}")
    print()


def stored(part: str) -> Any:
    """Results of a part, or None if it was not run."""
    path = FOLDER / f"{part}.json"
    return json.loads(path.read_text(encoding="utf-8"))["results"] if path.is_file() else None


def draw() -> None:
    """Left: Algorithm 2, episodes over those of the base. Right: what learning needs, likewise."""
    plt = pyplot()

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    if results := stored("ends"):
        for factor, look in LOOKS.items():
            rows = [row for row in results["rows"] if (row["setting"], row["sweep"]) == ("paper", factor)]
            values = np.array(rows[0]["values"])
            mean = np.exp(np.log([row["episodes"] for row in rows]).mean(axis=0))
            (line,) = axes[0].loglog(values / values[0], mean / mean[0], ls="", label=factor, **look)
            theorem = np.array(ends.printed(factor, tuple(values), "lemma"))
            axes[0].loglog(values / values[0], theorem / theorem[0], color=line.get_color(), lw=1)
        axes[0].set(title="Algorithm 2 (lines: eq:required_episodes)", ylabel="episodes / those at the first value")
    if results := stored("needed"):
        for factor, look in LOOKS.items():
            found = needed(of(results["curves"], factor), draws=2)
            values, budgets = np.array(found.values), np.array(found.budgets)
            axes[1].loglog(values / values[0], budgets / budgets[0], label=factor, **look)
        title = f"learning to a mean regret of {settings.LEARNED.accuracy:g}"
        axes[1].set(title=title, ylabel="episodes / those at the first value")
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
