"""Tables and the figure of the study of scaling: python -m benchmarks.scaling.analysis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.cells import NO_BREAK_SPACE, bare, grid, many, short, show, sized, within
from benchmarks.exponents import Estimate, between, crossing, over_replicates, slope
from benchmarks.record import Rows, rows_of
from benchmarks.scaling import ends, settings
from benchmarks.scaling.cost import STAGES
from benchmarks.scaling.ends import SIZES
from rewardmix import theory

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

LOOKS: dict[str, dict[str, Any]] = {
    "states": {"marker": "o"},
    "actions": {"marker": "^"},
    "horizon": {"marker": "s"},
    "accuracy": {"marker": "o", "markersize": 10, "markerfacecolor": "none"},
    "separation": {"marker": "x"},
}
"""Marks of the factors in the figure; accuracy and separation lie on each other."""


class End(NamedTuple):
    """A sweep of Algorithm 2: its exponent, and slopes of two formulas (with logarithms) on the same grid."""

    setting: str
    sweep: str
    values: tuple[float, ...]
    worlds: int
    found: Estimate
    theorem: float
    lemma: float


def ends_of(rows: Rows) -> list[End]:
    """Every sweep, with t-intervals over models, beside the printed forms."""
    groups: dict[tuple[str, str], Rows] = {}
    for row in rows:
        groups.setdefault((row["setting"], row["sweep"]), []).append(row)
    out = []
    for (setting, sweep), group in groups.items():
        values = tuple(group[0]["values"])
        result = between([slope(values, row["episodes"]) for row in group])
        forms = [slope(values, ends.printed(sweep, values, form)) for form in ("theorem", "lemma")]
        if sweep.endswith("fixed"):
            forms[0] = float("nan")
        out.append(End(setting, sweep, values, len(group), result, *forms))
    return out


class Needed(NamedTuple):
    """The budgets that a sweep needs until a measure is at its level, and their exponent."""

    values: tuple[float, ...]
    budgets: list[float]
    found: Estimate


def mean_curve(curve: dict[str, Any], key: str, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over the chosen models (..., models) at each budget; "share" is the mean regret over the mean gain."""
    values = np.array(curve["regret" if key == "share" else key])[:, chosen].mean(axis=-1)
    return values / np.array(curve["gain"])[chosen].mean(axis=-1) if key == "share" else values


def of(curves: Rows, factor: str, among: Sequence[float] | None = None) -> Rows:
    """The curves of one sweep, or those of them at some values of the factor."""
    result = [curve for curve in curves if curve["factor"] == factor]
    return result if among is None else [curve for curve in result if curve["point"][factor] in among]


def needed(
    curves: Rows, key: str = "regret", level: float | None = None, envs: int | None = None,
    draws: int = settings.DRAWS,
) -> Needed:  # fmt: skip
    """What the curves of one sweep need, of all or the first models; the interval is the bootstrap's over models.

    The accuracy has one curve, and a level for each of its values.
    """
    factor = curves[0]["factor"]
    envs = envs or len(curves[0]["gain"])
    if factor == "accuracy":
        values = settings.ACCURACIES
        meetings = [(curves[0], epsilon) for epsilon in values]
    else:
        values = tuple(curve["point"][factor] for curve in curves)
        level = settings.LEARNED.accuracy if level is None else level
        meetings = [(curve, level) for curve in curves]

    def at(chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        met = [crossing(curve["budgets"], mean_curve(curve, key, chosen), value) for curve, value in meetings]
        return np.stack(met, axis=-1)

    result = over_replicates(values, at, envs, draws)
    return Needed(values, at(np.arange(envs)).tolist(), result)


def share_of(factor: str) -> float:
    """The target as a share of what adapting gains."""
    return settings.SHARE if factor == "separation" else settings.OTHER_SHARE


def second_order(base: dict[str, Any]) -> float:
    """Estimate of the regret in the error of the rewards, from ``settings.MANY`` episodes on."""
    rmse, regret = (np.mean(base[key], axis=1) for key in ("rmse", "regret"))
    is_late = np.array(base["budgets"]) >= settings.MANY
    return float(slope(rmse[is_late], regret[is_late]))


def gains(curves: Rows, factor: str) -> dict[float, float]:
    """Value of a factor -> what adapting gains there, the mean over models."""
    return {curve["point"][factor]: float(np.mean(curve["gain"])) for curve in of(curves, factor)}


SIGNS = {"states": "S", "actions": "A", "horizon": "H", "accuracy": "ε", "separation": "δ", "failure": "η"}
SWEEPS = {
    "states": "S",
    "actions": "A",
    "horizon": "H",
    "accuracy": "1/ε",
    "accuracy, separation 0": "1/ε, δ = 0",
    "separation": "1/δ",
    "failure": "1/η",
    "horizon, threshold fixed": "H, ε_pe fixed",
}
"""Sweeps of Algorithm 2 as printed, in the order of the page."""

CHANGES = {
    ("paper", ""): "nothing",
    ("no logarithm", ""): "logarithms: a constant for log(KSA/η)",
    ("pairs only", ""): "logarithms and bonuses of transitions: pairs alone",
    ("moves only", ""): "logarithms and bonuses of pairs: transitions alone",
    ("no logarithm", ", equal moves"): "logarithms, in models with equal transitions",
    ("theory", ""): "explicit radii, `theory_bonus`",
}
"""(setting, end of the sweep's name) -> what is left out or changed."""

CHANGED = ("states", "actions", "horizon", "accuracy")


def upward(result: Estimate, factor: str) -> Estimate:
    """Exponent of a size, or of one over what is not a size."""
    return result if factor.split(",")[0] in SIZES else result.inverse


def plain(value: float) -> str:
    """A slope of a formula without its sign; nothing where there is none."""
    return "" if np.isnan(value) else short(abs(value), 2)


def sweeps(rows: Rows) -> list[str]:
    """Exponents of Algorithm 2 beside the printed ones, and how long the runs were."""
    result = {end.sweep: end for end in ends_of(rows) if end.setting == "paper"}
    lines = [
        [name, f"{bare(end.values[0])} to {bare(end.values[-1])}", end.worlds, within(upward(end.found, sweep)),
         PRINTED[sweep].lstrip("-"), plain(end.theorem), plain(end.lemma)]
        for sweep, name in SWEEPS.items() if (end := result.get(sweep))
    ]  # fmt: skip
    columns = ["factor", "from, to", "models", "measured", "printed", "theorem, same grid"]
    lengths = [episodes for row in rows if row["setting"] == "paper" for episodes in row["episodes"]]
    text = f"The runs of this table are {many(min(lengths))} to {many(max(lengths))} episodes long."
    return [grid([*columns, "`eq:required_episodes`, same grid"], lines), text]


def changes(rows: Rows) -> list[str]:
    """Exponents with parts of the bonuses left out, and what the logarithm adds."""
    result = {(end.setting, end.sweep): end for end in ends_of(rows)}
    lines = []
    for (setting, rest), name in CHANGES.items():
        group = {factor: result[setting, factor + rest] for factor in CHANGED if (setting, factor + rest) in result}
        cells = [within(upward(group[factor].found, factor)) if factor in group else "" for factor in CHANGED]
        lines.append([name, max(end.worlds for end in group.values()), *cells])
    added = [
        f"{short(abs(result['paper', factor].found.value) - abs(result['no logarithm', factor].found.value), 2)} "
        f"to that of {SWEEPS[factor]}"
        for factor in CHANGED
    ]
    text = f"So the logarithm of KSA/η adds {', '.join(added[:-1])} and {added[-1]}."
    return [grid(["omitted or changed", "models", *(SWEEPS[factor] for factor in CHANGED)], lines), text]


def worlds(rows: Rows) -> list[str]:
    """Other models than random ones, beside the bound."""
    lines = [
        [row["world"].replace("1 next states", "1 next state"), sized(row["size"]).replace(" ", NO_BREAK_SPACE),
         many(row["episodes"]), f"{row['episodes'] / row['bound']:.1f}"]
        for row in rows
    ]  # fmt: skip
    return [grid(["model", "S, A, H", "episodes", "episodes / `eq:required_episodes`, C = 1"], lines)]


def learning(curves: Rows, draws: int = settings.DRAWS) -> list[str]:
    """Episodes to the accuracy, and their exponents."""
    lines = []
    for factor in settings.Point._fields:
        if group := of(curves, factor):
            result = needed(group, draws=draws)
            values = f"{SIGNS[factor]} = {', '.join(map(bare, result.values))}"
            budgets = ", ".join(f"{budget:,.0f}" for budget in result.budgets)
            printed = PRINTED[factor].lstrip("-")
            lines.append([SWEEPS[factor], values, budgets, within(upward(result.found, factor)), printed])
    return [grid(["factor", "values", "needed", "measured", "theorem"], lines)]


def questions(curves: Rows, pairs: Rows) -> list[str]:
    """Exponents if something else is asked of the same runs, or of runs with one pair an episode."""
    factors = [*SIZES, "accuracy", "separation"]
    sweeps = {factor: of(curves, factor) for factor in factors}
    others = {factor: result for factor in SIZES if (result := of(pairs, factor))}
    amount = len(pairs[0]["gain"])
    same = {
        factor: of(curves, factor, [curve["point"][factor] for curve in result]) for factor, result in others.items()
    }
    shares = f"{100 * settings.OTHER_SHARE:g} % (δ: {100 * settings.SHARE:g} %)"
    rows = {
        "mean regret ≤ ε": {factor: needed(group) for factor, group in sweeps.items()},
        "error of the policy's own value ≤ ε": {"accuracy": needed(sweeps["accuracy"], "value error")},
        f"mean regret ≤ {shares} of the adaptivity gain": {
            factor: needed(group, "share", share_of(factor)) for factor, group in sweeps.items() if factor != "accuracy"
        },
        f"mean regret ≤ ε, first {amount} models, smaller sizes": {
            factor: needed(group, envs=amount) for factor, group in same.items()
        },
        "mean regret ≤ ε from one pair of each episode, weights given": {
            factor: needed(group) for factor, group in others.items()
        },
    }
    lines = [
        [name, *(within(upward(row[factor].found, factor)) if factor in row else "" for factor in factors)]
        for name, row in rows.items()
    ]
    values = {factor: ", ".join(str(curve["point"][factor]) for curve in group) for factor, group in same.items()}
    sizes = " and ".join(f"{SIGNS[factor]} = {shown}" for factor, shown in values.items())
    return [grid(["the question", *(SWEEPS[factor] for factor in factors)], lines), f"The smaller sizes are {sizes}."]


def sharing(curves: Rows, pairs: Rows, factor: str) -> list[float]:
    """How many times as many episodes one pair an episode needs, in the same models, along a factor."""
    alone = of(pairs, factor)
    all_pairs = of(curves, factor, [curve["point"][factor] for curve in alone])
    from_all, from_one = (needed(group, envs=len(alone[0]["gain"]), draws=2) for group in (all_pairs, alone))
    return [more / less for more, less in zip(from_one.budgets, from_all.budgets, strict=True)]


def stakes(curves: Rows, pairs: Rows) -> list[str]:
    """What lies behind the exponents: stakes, second order, one pair an episode, and the theorem's number."""
    point, first = settings.LEARNED, settings.BUDGETS[0]
    base = needed(of(curves, "accuracy"), draws=2)
    mean = dict(zip(base.values, base.budgets, strict=True))[point.accuracy]
    bound = theory.upper_bound(*point, scale=1.0)
    lines = [
        ["episodes needed at the base, and by the theorem's formula with C = 1", f"{mean:,.0f} and {many(bound)}"],
        [f"regret as a power of the error of rewards, from {settings.MANY} episodes on",
         short(second_order(of(curves, "accuracy")[0]), 2)],
    ]  # fmt: skip
    for factor in ("actions", "horizon", "separation"):
        result = gains(curves, factor)
        name = f"{SIGNS[factor]} = {', '.join(map(bare, result))}"
        lines.append([f"adaptivity gain at {name}", ", ".join(map(short, result.values()))])
    early = [short(np.mean(curve["regret"][0]), 2) for curve in of(curves, "actions")]
    lines.append([f"regret after {first} episodes at these A", ", ".join(early)])
    for factor in settings.PAIR_FACTORS:
        name = f"{SIGNS[factor]} = {', '.join(bare(at) for at in settings.PAIR_FACTORS[factor])}"
        ratios = ", ".join(f"{ratio:.1f}" for ratio in sharing(curves, pairs, factor))
        lines.append([f"times as many episodes with one pair of each, at {name}", ratios])
    return [grid(["behind the exponents", ""], lines)]


COST_SIGNS = {"states": "S", "actions": "A", "horizon": "H", "contexts": "M", "episodes": "K"}


def growth(rows: Rows) -> list[str]:
    """Exponents of CPU time and of peak memory of each stage, and what the base costs."""
    base = settings.COST_BASE
    sizes = ", ".join(f"{sign} = {base[name]:,}" for name, sign in COST_SIGNS.items())
    envs = 1 + max(row["seed"] for row in rows)
    text = {"cpu": "CPU time", "memory": "peak memory beyond that of an idle process"}
    out = []
    for key, name in text.items():
        lines = [
            [f"{COST_SIGNS[factor]} = {', '.join(f'{value:,}' for value in values)}", *(cost_slope(rows, factor, stage,
             key) for stage in STAGES)] for factor in COST_SIGNS if len(values := values_of(rows, factor)) > 1
        ]  # fmt: skip
        middle = [cost_of(rows, "states", base["states"], stage, key) for stage in STAGES]
        lines.append(["at the base", *(f"{result:.3g} {UNITS[key]}" for result in middle)])
        out += [f"Exponents of **{name}**:", grid(["factor", *STAGES], lines)]
    count = "one of them" if envs == 1 else f"means over {envs} of them"
    brackets = "In brackets: the factor by which the value that is farthest from the power is off."
    return [*out, f"{brackets} Base: {sizes}; random models with two next states, {count}.", *no_power(rows)]


def no_power(rows: Rows) -> list[str]:
    """What each number of types costs: they are recovered and planned in other ways, so this is no power."""
    lines = [
        [f"M = {value}", *(f"{cost_of(rows, 'contexts', value, stage, 'cpu'):.3g} s, "
         f"{cost_of(rows, 'contexts', value, stage, 'memory'):.0f} MiB" for stage in STAGES)]
        for value in values_of(rows, "contexts")
    ]  # fmt: skip
    return ["What each **number of types** costs:", grid(["types", *STAGES], lines)]


UNITS = {"cpu": "s", "memory": "MiB"}


def values_of(rows: Rows, factor: str) -> list[int]:
    """The values of a factor that there are rows of."""
    return sorted({row[factor] for row in rows if row["factor"] == factor})


def cost_of(rows: Rows, factor: str, value: int, stage: str, key: str) -> float:
    """Mean over models."""
    costs = [row["stages"][stage][key] for row in rows if row["factor"] == factor and row[factor] == value]
    return float(np.mean(costs)) if costs else float("nan")


def cost_slope(rows: Rows, factor: str, stage: str, key: str) -> str:
    """Exponent of one stage in one factor, and the factor by which the value farthest from its power is off."""
    values = values_of(rows, factor)
    costs = [max(cost_of(rows, factor, value, stage, key), 1e-3) for value in values]
    power = slope(values, costs)
    rest = np.log(costs) - power * np.log(values)
    off = float(np.exp(np.abs(rest - rest.mean()).max()))
    return f"{power:.2f} ({off:.2g})" if len(values) > 2 else f"{power:.2f}"


def large(rows: Rows) -> list[str]:
    """The whole of learning in models of very many states."""
    lines = [
        [f"{row['states']:,}", f"{row['episodes']:,}", f"{result['cpu']:.0f} s", f"{result['memory'] / 1024:.2f} GiB",
         short(result["share"]), short(result["floor"])] for row in rows for result in [row["stages"]["learn"]]
    ]  # fmt: skip
    text = (
        "`learn` with the evaluation of its policy in the true model; score is the normalized score of the policy, "
        "floor that of the best Markov policy of the learned model."
    )
    return [grid(["states", "episodes", "CPU time", "peak memory", "score", "floor"], lines), text]


def turns(rows: Rows) -> list[str]:
    """Exploration by two versions, in turns."""
    lines = []
    for row in rows:
        fastest = {name: min(seconds) for name, seconds in row["cpu"].items()}
        before = fastest.get("before", float("nan"))
        cells = [f"{before:.1f} s", f"{fastest['after']:.1f} s", f"{fastest['after'] / before:.2f}"]
        lines.append([f"{row['states']:,}", f"{row['episodes']:,}", *cells])
    text = f"CPU time of `explore`, least of {max(len(row['cpu']['after']) for row in rows)} turns."
    columns = ["states", "episodes", "every first pick planned in all states", "as it is", "ratio"]
    return [grid(columns, lines), text]


def episodes(plt: Any) -> Any:
    """Left: Algorithm 2, episodes over those of the base. Right: what learning needs, likewise."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    rows, curves = rows_of("scaling", "ends"), rows_of("scaling", "needed")
    for factor, look in LOOKS.items():
        group = [row for row in rows if (row["setting"], row["sweep"]) == ("paper", factor)]
        values = np.array(group[0]["values"])
        mean = np.exp(np.log([row["episodes"] for row in group]).mean(axis=0))
        (line,) = axes[0].loglog(values / values[0], mean / mean[0], ls="", label=factor, **look)
        theorem = np.array(ends.printed(factor, tuple(values), "lemma"))
        axes[0].loglog(values / values[0], theorem / theorem[0], color=line.get_color(), lw=1)
        result = needed(of(curves, factor), draws=2)
        values, budgets = np.array(result.values), np.array(result.budgets)
        axes[1].loglog(values / values[0], budgets / budgets[0], label=factor, **look)
    axes[0].set(title="Algorithm 2 (lines: eq:required_episodes)")
    axes[1].set(title=f"learning to a mean regret of {settings.LEARNED.accuracy:g}")
    for axis in axes:
        axis.set(xlabel="factor / its first value", ylabel="episodes / those at the first value")
        axis.legend(frameon=False, fontsize="small")
    return figure


TABLES = {
    "ends": sweeps,
    "changes": changes,
    "worlds": worlds,
    "needed": learning,
    "questions": questions,
    "stakes": stakes,
    "growth": growth,
    "large": large,
    "turns": turns,
}
FIGURES = {"episodes": episodes}

if __name__ == "__main__":
    runs, both = rows_of("scaling", "ends"), [rows_of("scaling", piece) for piece in ("needed", "pairs")]
    show([*sweeps(runs), *changes(runs), *worlds(rows_of("scaling", "worlds"))])
    show([*learning(both[0]), *questions(*both), *stakes(*both)])
