"""Which pairs of steps of an episode are counted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Counting:
    """``ordered``: one picked pair of steps an episode, in its order. Otherwise all unordered pairs of first visits."""

    name: str
    ordered: bool


all_pairs = Counting("all pairs", ordered=False)
"""Every pair of first visits of an episode: its path does not depend on its rewards, so each is an unbiased sample.

Departure 8 of docs/paper.md.
"""

selected = Counting("selected", ordered=True)
"""The paper's counts: the two steps that the plan picked."""
