"""Numbers that the prose of the page on scaling derives from its three studies; see ``benchmarks.facts``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.coverage import analysis as coverage
from benchmarks.coverage import settings as covered
from benchmarks.exponents import slope
from benchmarks.hardness import analysis as hardness
from benchmarks.hardness import settings as hard
from benchmarks.scaling import analysis as scaling
from benchmarks.scaling import settings
from rewardmix import theory

Results = dict[str, Any]
CONSTANT = 1.0
"""C of the bounds."""


def base(_: Results) -> list[float]:
    """Where the sweeps of Algorithm 2 meet."""
    return list(settings.BASE)


def parts(_: Results) -> list[float]:
    """The theorem's exponent of S, and the slope of the squared sum of three parts on the same grid."""
    sizes = settings.ENDS["states"]
    squared = [theory_sum(int(states)) ** 2 for states in sizes]
    return [float(scaling.PRINTED["states"]), float(slope(sizes, squared))]


def theory_sum(states: int) -> float:
    """sqrt(S) + S sqrt(H A) + S A at the base; see ``theory.fluid_episodes``."""
    actions, horizon = settings.BASE.actions, settings.BASE.horizon
    return math.sqrt(states) + states * math.sqrt(horizon * actions) + states * actions


def stop(_: Results) -> list[float]:
    """The threshold of other worlds."""
    return [settings.STOP]


def at_base(results: Results) -> float:
    """Episodes that learning needs at the base."""
    found = scaling.needed(scaling.of(results["curves"], "accuracy"), draws=2)
    return dict(zip(found.values, found.budgets, strict=True))[settings.LEARNED.accuracy]


def promised() -> float:
    """What the theorem says there."""
    point = settings.LEARNED
    return float(
        theory.upper_bound(
            point.states, point.actions, point.horizon, point.accuracy, point.separation, point.failure, CONSTANT
        )
    )


def learned(results: Results) -> list[float]:
    """Budgets, worlds, the base of learning, and what is needed there by learning and by the theorem."""
    budgets, worlds = settings.BUDGETS, len(results["curves"][0]["gain"])
    return [budgets[0], budgets[-1], worlds, *settings.LEARNED, at_base(results), promised(), CONSTANT]


def second_order(results: Results) -> list[float]:
    """Exponents of the error of a value and of the regret in the error of rewards, and from which budget on."""
    curves = scaling.of(results["curves"], "accuracy")
    value = scaling.needed(curves, "value error", draws=2).found.inverse.value
    return [value, scaling.second_order(curves[0]), settings.MANY]


def sharing(results: Results, pairs: Results) -> dict[str, list[float]]:
    """Factor -> how many times as many episodes one pair an episode needs, in the same worlds."""
    out = {}
    for factor in settings.PAIR_FACTORS:
        alone = scaling.of(pairs["curves"], factor)
        whole = scaling.of(results["curves"], factor, [curve["point"][factor] for curve in alone])
        few, many = (scaling.needed(curves, worlds=len(alone[0]["gain"]), draws=2) for curves in (whole, alone))
        out[factor] = (np.array(many.budgets) / np.array(few.budgets)).tolist()
    return out


def states(results: Results, pairs: Results) -> list[float]:
    """Exponent of S, that of A at equal stakes, and what one pair an episode costs."""
    curves = results["curves"]
    stakes = scaling.needed(scaling.of(curves, "actions"), "share", settings.OTHER_SHARE, draws=2).found.value
    ratios = sharing(results, pairs)["states"]
    return [scaling.needed(scaling.of(curves, "states"), draws=2).found.value, stakes, min(ratios), max(ratios)]


def actions(results: Results) -> list[float]:
    """Least and most actions with the gain of adapting, the regret after the first budget, and two exponents."""
    curves = scaling.of(results["curves"], "actions")
    found = scaling.gains(results["curves"], "actions")
    early = [float(np.mean(curve["regret"][0])) for curve in (curves[0], curves[-1])]
    asked = (("regret", None), ("share", settings.OTHER_SHARE))
    exponents = [scaling.needed(curves, key, level, draws=2).found.value for key, level in asked]
    return [min(found), max(found), *ends_of(found), settings.BUDGETS[0], *early, *exponents]


def ends_of(found: dict[float, float]) -> list[float]:
    """Values at the two ends of a sweep."""
    return [found[min(found)], found[max(found)]]


def horizon(results: Results, pairs: Results) -> list[float]:
    """The gain of adapting at both ends, and the exponents of H with one pair an episode and with all."""
    alone = scaling.of(pairs["curves"], "horizon")
    whole = scaling.of(results["curves"], "horizon", [curve["point"]["horizon"] for curve in alone])
    worlds = len(alone[0]["gain"])
    exponents = [scaling.needed(curves, worlds=worlds, draws=2).found.value for curves in (alone, whole)]
    return [*ends_of(scaling.gains(results["curves"], "horizon")), *exponents, worlds]


def separation(results: Results) -> list[float]:
    """Gains of adapting, where the number of episodes is largest, where the theorem lets go, and an exponent."""
    curves = scaling.of(results["curves"], "separation")
    found = scaling.gains(results["curves"], "separation")
    budgets = scaling.needed(curves, draws=2)
    peak = budgets.values[int(np.argmax(budgets.budgets))]
    point = settings.LEARNED
    share = scaling.needed(curves, "share", settings.SHARE, draws=2).found.inverse.value
    lets_go = point.accuracy / point.horizon**2
    return [min(found), max(found), *ends_of(found), peak, found[peak], lets_go, share]


def constant(results: Results, pairs: Results) -> list[float]:
    """Orders of magnitude to the theorem, and what one pair an episode is of it."""
    ratios = [ratio for mine in sharing(results, pairs).values() for ratio in mine]
    return [math.floor(math.log10(promised() / at_base(results))), min(ratios), max(ratios)]


def asked(results: Results) -> list[float]:
    """Sizes of the hard family, seeds, budgets, and the share of runs."""
    seeds = len(results["rows"][0]["optimal"][0])
    return [hardness.STATES, min(hard.ACTIONS), seeds, *hard.FACTORS, hard.WITHIN]


def ideal(results: Results, ideals: Results) -> list[float]:
    """The theorem's exponent, those of the ideal test with more actions, and what learning needs beside it."""
    fewer, more, most = sorted(hard.IDEAL_ACTIONS)[-3:]
    told = [hardness.told_slope(ideals["rows"], *pair) for pair in ((fewer, more), (more, most))]
    whole = hardness.growths(results["rows"], ideals["rows"], draws=2)[1]
    ratios = [row.episodes.value / row.told for row in hardness.points_of(results["rows"], ideals["rows"], draws=2)]
    ends = [whole.values[0], whole.values[-1]]
    return [hardness.STATES, *ends, whole.told, fewer, more, most, *told, min(ratios), max(ratios)]


def radii(results: Results) -> list[float]:
    """Runs, sizes and checkpoints."""
    return [len(results["rows"]), *(value for size in covered.SIZES for value in size), *covered.CHECKPOINTS]


def rewards(results: Results) -> list[float]:
    """The level, the size, worlds of each kind, and intervals of a world."""
    rows = results["rows"]
    worlds = len({row["world"] for row in rows})
    return [covered.LEVEL, *covered.REWARD_SIZE, worlds, len(rows[0]["inside"])]


def early(results: Results) -> list[float]:
    """Budgets with too few episodes, the next one, and how often intervals hold there."""
    budgets = covered.BUDGETS
    short = [row.inside.value for row in coverage.rewards_of(results["rows"]) if row.episodes in budgets[:2]]
    return [*budgets[:3], *(value for value in (min(short), float(np.mean(short))))]


def regret(results: Results) -> list[float]:
    """Resamples, worlds, and the runs in which the largest resample is below the truth."""
    rows = results["rows"]
    below = sum(row["largest"] < row["true"] for row in rows)
    return [covered.RESAMPLES, len({row["world"] for row in rows}), below, len(rows)]


FACTS: dict[str, Callable[..., list[float]]] = {
    "scaling.base": base,
    "scaling.parts": parts,
    "scaling.stop": stop,
    "scaling.learned": learned,
    "scaling.second_order": second_order,
    "scaling.states": states,
    "scaling.actions": actions,
    "scaling.horizon": horizon,
    "scaling.separation": separation,
    "scaling.constant": constant,
    "hardness.asked": asked,
    "hardness.ideal": ideal,
    "coverage.radii": radii,
    "coverage.rewards": rewards,
    "coverage.early": early,
    "coverage.regret": regret,
}
