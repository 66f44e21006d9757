"""Choose labels for drawings: names where they fit, otherwise numbers that a legend of the page explains."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rewardmix.report.svg import WIDTH

LETTER_WIDTH = 6.4
"""Width of a letter below a drawing, in units of the drawing."""

JOINT_LABEL_LENGTHS = (9, 8)
"""Largest lengths of a state label and an action label that share a row."""

SINGLE_LABEL_LENGTH = 17
"""Largest length of an action label that has a row to itself."""


def label_lengths(summary: Mapping[str, Any]) -> tuple[int, int]:
    """Return the largest lengths of state labels and action labels in the drawings of a page."""
    env, rows, coverage = summary["environment"], summary["rewards"]["rows"], summary["coverage"]
    is_single_label = env["num_states"] == 1 or len(rows) >= 2 * len({row["state"] for row in rows})
    state_length, action_length = (SINGLE_LABEL_LENGTH, SINGLE_LABEL_LENGTH) if is_single_label else JOINT_LABEL_LENGTHS
    if coverage is not None:
        num_rows = len(coverage["cells"])
        has_names = coverage["block"] == 1 and num_rows <= 24
        side = min((WIDTH - 120.0) / num_rows, 26.0)
        # Below the heat map a state has the width of its actions; at least three letters, so that numbers always fit.
        state_length = min(state_length, max(3, int(env["num_actions"] * side / LETTER_WIDTH)) if has_names else 10)
    return state_length, action_length


def fit_labels(names: Sequence[str], max_length: int) -> list[str]:
    """Return the names if all have at most ``max_length`` letters, otherwise numbers from 1."""
    if all(len(name) <= max_length for name in names):
        return list(names)
    # Default names such as "state 3" contain a number already; counting anew would give a second one.
    if all(re.fullmatch(r"(state|action) \d+", name) for name in names):
        return [name.split()[1] for name in names]
    return [str(i + 1) for i in range(len(names))]
