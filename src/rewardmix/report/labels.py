"""Labels for drawings: names where they fit, otherwise numbers, which a legend of the page explains."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rewardmix.report.svg import WIDTH

LETTER = 6.4
"""Width of a letter below a drawing."""

BESIDE = (9, 8)
"""Letters of a state and of an action that stand beside a row together."""

BY_ITSELF = 17
"""Letters of an action that stands there alone."""


def rooms(summary: Mapping[str, Any]) -> tuple[int, int]:
    """Letters that the drawings of a page have for a state, and for an action."""
    world, rows, coverage = summary["world"], summary["rewards"]["rows"], summary["coverage"]
    alone = world["states"] == 1 or len(rows) >= 2 * len({row["state"] for row in rows})
    states, actions = (BY_ITSELF, BY_ITSELF) if alone else BESIDE
    if coverage is not None:
        cells = len(coverage["cells"])
        named = coverage["block"] == 1 and cells <= 24
        side = min((WIDTH - 120.0) / cells, 26.0)
        states = min(states, max(3, int(world["actions"] * side / LETTER)) if named else 10)
    return states, actions


def fitting(names: Sequence[str], room: int) -> list[str]:
    """Labels of at most ``room`` letters: the names if all of them fit, otherwise numbers from 1."""
    if all(len(name) <= room for name in names):
        return list(names)
    if all(re.fullmatch(r"(state|action) \d+", name) for name in names):  # a name that is its number
        return [name.split()[1] for name in names]
    return [str(i + 1) for i in range(len(names))]
