"""Numbers that prose derives from committed results: functions from results to the numbers that may be written.

The name of a function in ``FACTS`` is what a page writes behind the files of its mark; see ``benchmarks.claims``.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

from benchmarks import facts_scaling
from benchmarks.coupons import settings as coupons
from benchmarks.pac import settings as pac
from rewardmix.problems.coupons import coupons as problem


def worlds(budget: dict[str, Any], rule: dict[str, Any]) -> list[float]:
    """How many worlds there are, and between which sizes."""
    sizes = np.array(pac.SIZES)
    return [len(budget["rows"]), len(rule["rows"]), *sizes.min(axis=0), *sizes.max(axis=0)]


def larger(strict: dict[str, Any]) -> list[float]:
    """The same for the larger worlds, and the accuracy asked for there."""
    sizes = np.array(pac.LARGER)
    return [len(strict["rows"]), pac.STRICT, *sizes.min(axis=0), *sizes.max(axis=0)]


def households(found: dict[str, Any]) -> list[float]:
    """Splits of a product, share held out, episodes, goal."""
    splits = {row["split"] for row in found["rows"]}
    held_out = signature(problem).parameters["test_share"].default
    return [len(splits), held_out, coupons.EPISODES, coupons.GOAL]


def loss(found: dict[str, Any]) -> list[float]:
    """The largest loss in V_0 by planning less often."""
    return [max(row["loss"] for row in found["low_switching"])]


FACTS: dict[str, Callable[..., list[float]]] = {
    "pac.worlds": worlds,
    "pac.larger": larger,
    "coupons.households": households,
    "exploration.loss": loss,
    **facts_scaling.FACTS,
}
