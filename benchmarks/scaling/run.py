"""How the number of episodes grows with S, A, H, accuracy, separation and failure, beside theorem:upper_bound.

python -m benchmarks.scaling.run [--quick] [--parts ends,worlds,needed,pairs,growth,large,turns]

``ends``: Algorithm 2 as printed, to the threshold of the theorem; ``worlds``: the same in other worlds. ``needed``: the
smallest budget at which what ``learn`` finds has a mean regret of at most the accuracy. ``pairs``: the same if only one
pair of each episode is used. ``growth``: CPU time and peak memory of each stage; ``large``: of ``learn`` with very many
states; ``turns``: exploration beside that of a checkout of an earlier version, the environment's REWARDMIX_BEFORE.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.cells import show
from benchmarks.record import Rows, run
from benchmarks.scaling import analysis, cost, ends, needed, settings

PARTS: dict[str, Callable[[bool], Iterable[dict[str, Any]]]] = {
    "ends": ends.rows_of,
    "worlds": lambda quick: () if quick else ends.other_worlds(),
    "needed": needed.curves,
    "pairs": needed.pair_curves,
    "growth": cost.growth,
    "large": cost.large,
    "turns": cost.turns,
}


def print_rows(part: str, rows: Rows, quick: bool) -> None:
    """The table of a part."""
    if part in ("needed", "pairs"):
        show(analysis.learning(rows, 100 if quick else settings.DRAWS))
    else:
        show(analysis.TABLES[part](rows))


if __name__ == "__main__":
    run(__doc__, "scaling", PARTS, print_rows)
