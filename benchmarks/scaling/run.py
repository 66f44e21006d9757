"""How the number of episodes grows with S, A, H, accuracy, separation and failure, beside theorem:upper_bound.

python -m benchmarks.scaling.run [--quick] [--parts ends,needed,pairs]

``ends``: Algorithm 2 as printed, to the threshold of the theorem. ``needed``: the smallest budget at which what
``learn`` finds has a mean regret of at most the accuracy. ``pairs``: the same if only one pair of each episode is used.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import argparse

from benchmarks.cells import show
from benchmarks.record import Rows, record
from benchmarks.scaling import analysis, ends, needed, settings


def algorithm(quick: bool) -> None:
    """The first part; written again after every row."""
    rows: Rows = []
    for row in ends.rows_of(quick):
        rows.append(row)
        if not quick:
            record("scaling", "ends", rows)
    show(analysis.sweeps(rows))
    if not quick:
        record("scaling", "worlds", ends.other_worlds())


def learning(part: str, quick: bool) -> None:
    """The second and third part; written again after every point."""
    curves: Rows = []
    for curve in {"needed": needed.curves, "pairs": needed.pair_curves}[part](quick):
        curves.append(curve)
        if not quick:
            record("scaling", part, curves)
    show(analysis.learning(curves, 100 if quick else settings.DRAWS))


def main() -> None:
    """The parts asked for."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--quick", action="store_true")
    asked.add_argument("--parts", default="ends,needed,pairs")
    given = asked.parse_args()
    for part in given.parts.split(","):
        algorithm(given.quick) if part == "ends" else learning(part, given.quick)


if __name__ == "__main__":
    main()
