"""Sizes, targets and lengths of the exploration study."""

from __future__ import annotations

from typing import NamedTuple


class Size(NamedTuple):
    states: int
    actions: int
    horizon: int
    target: float  # episodes a CPU-second, selected counts, growth 1.5; all pairs: half of it
    episodes: int  # length of the run
    literal: int  # episodes of the NumPy version


SIZES = [
    Size(3, 2, 4, 4e6, 3_000_000, 300),
    Size(10, 4, 8, 3e6, 12_000_000, 60),
    Size(20, 5, 10, 2e6, 12_000_000, 20),
    Size(50, 5, 10, 1e6, 2_000_000, 3),
    Size(100, 10, 20, 5e4, 200_000, 1),
]

ENDS = [  # the paper's algorithm to its end: sizes, CPU-seconds allowed
    (3, 2, 4, 0.1),
    (5, 3, 6, 1.0),
    (10, 4, 8, 15.0),
]
ACCURACY, SEPARATION, FAILURE = 0.1, 0.2, 0.1
