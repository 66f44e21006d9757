"""What the page on scaling shows of its three studies; see ``benchmarks.tables``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.cells import JOINED, bare, counted, grid, many, short, sized, within
from benchmarks.coverage import analysis as coverage
from benchmarks.coverage import settings as covered
from benchmarks.exponents import Estimate
from benchmarks.hardness import analysis as hardness
from benchmarks.hardness import settings as hard
from benchmarks.scaling import analysis as scaling
from benchmarks.scaling import settings
from rewardmix import theory

Results = dict[str, Any]

SIGNS = {"states": "S", "actions": "A", "horizon": "H", "accuracy": "ε", "separation": "δ", "failure": "η"}
SIZES = ("states", "actions", "horizon")
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
    ("pairs only", ""): "logarithms and bonuses of moves: pairs alone",
    ("moves only", ""): "logarithms and bonuses of pairs: moves alone",
    ("no logarithm", ", equal moves"): "logarithms, in worlds where all moves are equal",
    ("theory", ""): "explicit radii, `theory`",
}
"""(setting, end of the sweep's name) -> what is left out or changed."""

CHANGED = ("states", "actions", "horizon", "accuracy")


def upward(found: Estimate, factor: str) -> Estimate:
    """Exponent of a size, or of one over what is not a size."""
    return found if factor.split(",")[0] in SIZES else found.inverse


def plain(value: float) -> str:
    """A slope of a formula without its sign; nothing where there is none."""
    return "" if np.isnan(value) else short(abs(value), 2)


def ends(results: Results) -> list[str]:
    """Exponents of Algorithm 2 beside the printed ones, and how long the runs were."""
    found = {end.sweep: end for end in scaling.ends_of(results) if end.setting == "paper"}
    lines = [
        [name, f"{bare(end.values[0])} to {bare(end.values[-1])}", end.worlds, within(upward(end.found, sweep)),
         scaling.PRINTED[sweep].lstrip("-"), plain(end.theorem), plain(end.lemma)]
        for sweep, name in SWEEPS.items() if (end := found.get(sweep))
    ]  # fmt: skip
    columns = ["factor", "from, to", "worlds", "measured", "printed", "theorem, same grid"]
    lengths = [episodes for row in results["rows"] if row["setting"] == "paper" for episodes in row["episodes"]]
    said = f"The runs of this table are {many(min(lengths))} to {many(max(lengths))} episodes long."
    return [grid([*columns, "`eq:required_episodes`, same grid"], lines), said]


def changes(results: Results) -> list[str]:
    """Exponents with parts of the bonuses left out, and what the logarithm adds."""
    found = {(end.setting, end.sweep): end for end in scaling.ends_of(results)}
    lines = []
    for (setting, rest), name in CHANGES.items():
        mine = {factor: found[setting, factor + rest] for factor in CHANGED if (setting, factor + rest) in found}
        cells = [within(upward(mine[factor].found, factor)) if factor in mine else "" for factor in CHANGED]
        lines.append([name, max(end.worlds for end in mine.values()), *cells])
    added = [
        f"{short(abs(found['paper', factor].found.value) - abs(found['no logarithm', factor].found.value), 2)} "
        f"to that of {SWEEPS[factor]}"
        for factor in CHANGED
    ]
    said = f"So the logarithm of KSA/η adds {', '.join(added[:-1])} and {added[-1]}."
    return [grid(["left out or changed", "worlds", *(SWEEPS[factor] for factor in CHANGED)], lines), said]


def worlds(results: Results) -> list[str]:
    """Other worlds than random ones, beside the bound."""
    lines = [
        [row["world"].replace("1 next states", "1 next state"), sized(row["size"]).replace(" ", JOINED),
         many(row["episodes"]), f"{scaling.over_bound(row):.1f}"]
        for row in results["worlds"]
    ]  # fmt: skip
    return [grid(["world", "S, A, H", "episodes", "episodes / `eq:required_episodes`, C = 1"], lines)]


def needed(results: Results) -> list[str]:
    """Episodes to the accuracy, and their exponents."""
    lines = []
    for factor in settings.Point._fields:
        if curves := scaling.of(results["curves"], factor):
            found = scaling.needed(curves)
            values = f"{SIGNS[factor]} = {', '.join(map(bare, found.values))}"
            budgets = ", ".join(f"{budget:,.0f}" for budget in found.budgets)
            printed = scaling.PRINTED[factor].lstrip("-")
            lines.append([SWEEPS[factor], values, budgets, within(upward(found.found, factor)), printed])
    return [grid(["factor", "values", "needed", "measured", "theorem"], lines)]


def questions(results: Results, pairs: Results) -> list[str]:
    """Exponents if something else is asked of the same runs, or of runs with one pair an episode."""
    curves, factors = results["curves"], [*SIZES, "accuracy", "separation"]
    sweeps = {factor: scaling.of(curves, factor) for factor in factors}
    others = {factor: found for factor in SIZES if (found := scaling.of(pairs["curves"], factor))}
    amount = len(pairs["curves"][0]["gain"])
    same = {
        factor: scaling.of(curves, factor, [curve["point"][factor] for curve in found])
        for factor, found in others.items()
    }
    shares = f"{100 * settings.OTHER_SHARE:g} % (δ: {100 * settings.SHARE:g} %)"
    rows = {
        "mean regret ≤ ε": {factor: scaling.needed(mine) for factor, mine in sweeps.items()},
        "error of the policy's own value ≤ ε": {"accuracy": scaling.needed(sweeps["accuracy"], "value error")},
        f"mean regret ≤ {shares} of what adapting gains": {
            factor: scaling.needed(mine, "share", scaling.share_of(factor))
            for factor, mine in sweeps.items()
            if factor != "accuracy"
        },
        f"mean regret ≤ ε, first {amount} worlds, smaller sizes": {
            factor: scaling.needed(mine, worlds=amount) for factor, mine in same.items()
        },
        "the same from one pair of each episode, weights told": {
            factor: scaling.needed(mine) for factor, mine in others.items()
        },
    }
    lines = [
        [name, *(within(upward(row[factor].found, factor)) if factor in row else "" for factor in factors)]
        for name, row in rows.items()
    ]
    values = {factor: ", ".join(str(curve["point"][factor]) for curve in mine) for factor, mine in same.items()}
    sizes = " and ".join(f"{SIGNS[factor]} = {shown}" for factor, shown in values.items())
    return [grid(["the question", *(SWEEPS[factor] for factor in factors)], lines), f"The smaller sizes are {sizes}."]


def sharing(results: Results, pairs: Results, factor: str) -> list[float]:
    """How many times as many episodes one pair an episode needs, in the same worlds, along a factor."""
    alone = scaling.of(pairs["curves"], factor)
    whole = scaling.of(results["curves"], factor, [curve["point"][factor] for curve in alone])
    few, many = (scaling.needed(curves, worlds=len(alone[0]["gain"]), draws=2) for curves in (whole, alone))
    return [more / less for more, less in zip(many.budgets, few.budgets, strict=True)]


def stakes(results: Results, pairs: Results) -> list[str]:
    """What lies behind the exponents: stakes, second order, one pair an episode, and the theorem's number."""
    curves, point, first = results["curves"], settings.LEARNED, settings.BUDGETS[0]
    base = scaling.needed(scaling.of(curves, "accuracy"), draws=2)
    mean = dict(zip(base.values, base.budgets, strict=True))[point.accuracy]
    bound = theory.upper_bound(*point, constant=1.0)
    lines = [
        ["episodes needed at the base, and by the theorem's formula with C = 1", f"{mean:,.0f} and {many(bound)}"],
        [f"regret as a power of the error of rewards, from {settings.MANY} episodes on",
         short(scaling.second_order(scaling.of(curves, "accuracy")[0]), 2)],
    ]  # fmt: skip
    for factor in ("actions", "horizon", "separation"):
        name = f"{SIGNS[factor]} = {', '.join(bare(at) for at in scaling.gains(curves, factor))}"
        gains = scaling.gains(curves, factor).values()
        lines.append([f"gain of adapting at {name}", ", ".join(short(gain, 3) for gain in gains)])
    early = [short(np.mean(curve["regret"][0]), 2) for curve in scaling.of(curves, "actions")]
    lines.append([f"regret after {first} episodes at the same A", ", ".join(early)])
    for factor in settings.PAIR_FACTORS:
        name = f"{SIGNS[factor]} = {', '.join(bare(at) for at in settings.PAIR_FACTORS[factor])}"
        ratios = ", ".join(f"{ratio:.1f}" for ratio in sharing(results, pairs, factor))
        lines.append([f"times as many episodes with one pair of each, at {name}", ratios])
    return [grid(["behind the exponents", ""], lines)]


def points(results: Results, ideals: Results) -> list[str]:
    """The hard family: optimal runs, episodes for 90 %, and the constant."""
    found = sorted(hardness.points_of(results["rows"], ideals["rows"]), key=lambda row: (row.actions, -row.accuracy))
    seeds = len(results["rows"][0]["optimal"][0])
    lines = [
        [row.actions, bare(row.accuracy), ", ".join(map(str, row.optimal)), counted(row.episodes),
         within(row.constant, 3), short(row.told_constant)]
        for row in found
    ]  # fmt: skip
    share = f"episodes for {100 * hard.WITHIN:g} %"
    return [grid(["A", "e", f"optimal runs of {seeds}", share, "c in c (SA/e)²", "c of the ideal test"], lines)]


def growths(results: Results, ideals: Results) -> list[str]:
    """The hard family: exponents."""
    names = {"accuracy": "1/e, e", "actions": "A"}
    lines = []
    for row in hardness.growths(results["rows"], ideals["rows"]):
        first, last = row.values[0], row.values[-1]
        lines.append(
            [f"{names[row.factor]} from {bare(first)} to {bare(last)}", within(row.found), 2, short(row.told, 2)]
        )
    for fewer, more in pairwise(sorted(hard.IDEAL_ACTIONS)[-3:]):
        told = hardness.told_slope(ideals["rows"], fewer, more)
        lines.append([f"A from {fewer} to {more}", "", 2, short(told, 2)])
    return [grid(["factor", "measured", "theorem", "ideal test"], lines)]


def radii(results: Results) -> list[str]:
    """How often all radii hold, and how slack they are."""
    found = coverage.radii_of(results["rows"])
    held = [[bare(row.failure), bare(1 - row.failure), told(row.held, 4), told(row.contained, 4)] for row in found]
    slack = [[bare(row.failure), *(short(row.slack[name], 2) for name in coverage.FAMILIES)] for row in found]
    return [
        grid(["failure", "promised", "all radii hold", "the feasible set holds the true world"], held),
        "How slack they are: the factor by which radii could shrink and still hold in 1 - failure of the runs.",
        grid(["failure", *(f"{name}s" for name in coverage.FAMILIES)], slack),
    ]


def pairs(results: Results) -> list[str]:
    """Claimed and true standard errors of a pair."""
    lines = []
    for row in coverage.pairs_of(results["rows"]):
        claimed = f"{row.least:.2f} to {row.most:.2f}"
        null = "{:.2f} to {:.2f}".format(*row.independent)
        lines.append([bare(row.w), f"{row.samples:,}", claimed, null, told(row.missed, 4)])
    columns = ["w", "samples", "claimed / true", "if rewards were independent", "three deviations miss, worst world"]
    return [grid(columns, lines)]


def told(share: coverage.Share, digits: int = 3) -> str:
    """How many of how many, and the limits of the share."""
    low, high = (short(limit, digits) for limit in share.limits)
    return f"{share.successes:,} of {share.trials:,}, [{low},{JOINED}{high}]"


def rewards(results: Results) -> list[str]:
    """Intervals of rewards by kind of world, and one interval of every run."""
    found = coverage.rewards_of(results["rows"])
    lines = []
    for episodes in covered.BUDGETS:
        mine = {row.kind: row for row in found if row.episodes == episodes}
        width = np.mean([row.width for row in mine.values()])
        lines.append([f"{episodes:,}", *(within(mine[kind].inside, 3) for kind in covered.REWARDS), short(width, 2)])
    kinds = [name if apart is None else f"δ = {bare(apart)} everywhere" for name, apart in covered.REWARDS.items()]
    one = coverage.Share(*(sum(row.one[i] for row in found) for i in (0, 1)))
    share = within(Estimate(one.value, *one.limits), 3)
    said = f"One interval drawn from each of the {one.trials} runs: {one.successes} hold, a share of {share}."
    return [grid(["episodes", *kinds, "mean width"], lines), said]


def validation(results: Results) -> list[str]:
    """Intervals of fresh episodes."""
    lines = [
        [f"{played:,}", told(share), short(share.value)]
        for played, share in coverage.validation_of(results["rows"]).items()
    ]
    return [grid(["fresh episodes", "intervals that hold the value", "share"], lines)]


def regret(results: Results) -> list[str]:
    """The bootstrap's regret beside the true one."""
    found = coverage.regret_of(results["rows"])
    lines = [
        [f"{row.episodes:,}", short(row.true, 4), short(row.estimated, 4), within(row.ratio), within(row.rank),
         told(row.above)]
        for row in found
    ]  # fmt: skip
    columns = ["episodes", "true regret", "estimated", "ratio of means", "rank correlation", "largest resample ≥ true"]
    return [grid(columns, lines)]


TABLES: dict[str, Callable[..., list[str]]] = {
    "scaling.ends": ends,
    "scaling.changes": changes,
    "scaling.worlds": worlds,
    "scaling.needed": needed,
    "scaling.questions": questions,
    "scaling.stakes": stakes,
    "hardness.points": points,
    "hardness.growths": growths,
    "coverage.radii": radii,
    "coverage.pairs": pairs,
    "coverage.rewards": rewards,
    "coverage.validation": validation,
    "coverage.regret": regret,
}
