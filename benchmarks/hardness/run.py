"""Episodes until 90 % of the runs are optimal in the family of the lower bound, over A and e.

python -m benchmarks.hardness.run [--quick] [--parts ideal,runs]

``runs``: learning. ``ideal``: what the test that knows the form of the world needs, also with more actions.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

from collections.abc import Iterator
from typing import Any

from benchmarks.cells import show
from benchmarks.hardness import analysis, settings
from benchmarks.record import Rows, rows_of, run, table
from rewardmix import problems
from rewardmix.evaluation import controller_value
from rewardmix.exploration import explore
from rewardmix.planning import plan
from rewardmix.recovery import recover


def share(actions: int, accuracy: float, episodes: int, seed: int) -> float:
    """Share of the gain 2 e after so many episodes; the seed also says which actions are the special ones."""
    world = problems.make("hard", actions=actions, accuracy=accuracy, seed=seed)
    found = recover(explore(world, episodes=episodes, seed=seed).gathered, seed=seed)
    policy = plan(found.model, gap=accuracy / 100).policy
    return (controller_value(policy, world) - 1.0) / (2 * accuracy)


def point(actions: int, accuracy: float, seeds: int) -> dict[str, Any]:
    """Which runs are optimal, at each number of episodes."""
    budgets = [round(factor * analysis.unit(actions, accuracy)) for factor in settings.FACTORS]
    optimal = [
        [int(share(actions, accuracy, episodes, seed) >= settings.OPTIMAL) for seed in range(seeds)]
        for episodes in budgets
    ]
    return {"actions": actions, "accuracy": accuracy, "budgets": budgets, "optimal": optimal}


def points(actions: tuple[int, ...], quick: bool) -> list[tuple[int, float]]:
    """(actions, accuracy) of the two sweeps; they share one."""
    if quick:
        return [(3, 0.04), (3, 0.08), (4, 0.04)]
    return sorted(
        {(settings.FIXED_ACTIONS, e) for e in settings.ACCURACIES} | {(a, settings.ACCURACY) for a in actions}
    )


def runs(quick: bool) -> Iterator[dict[str, Any]]:
    """Learning at every point."""
    for actions, accuracy in points(settings.ACTIONS, quick):
        yield point(actions, accuracy, 5 if quick else settings.SEEDS)


def ideal(quick: bool) -> Iterator[dict[str, Any]]:
    """Episodes that the ideal test needs."""
    for actions, accuracy in points(settings.IDEAL_ACTIONS, quick):
        yield {"actions": actions, "accuracy": accuracy, "episodes": analysis.ideal(actions, accuracy)}


def told(part: str, rows: Rows, quick: bool) -> None:
    """What the ideal test needs; and what learning needs, beside the committed numbers of that test."""
    if part == "ideal":
        table(["A", "e", "episodes of the ideal test"], [list(row.values()) for row in rows])
        return
    for made in analysis.TABLES.values():
        show(made(rows, rows_of("hardness", "ideal"), draws=100 if quick else settings.DRAWS))


if __name__ == "__main__":
    run(__doc__, "hardness", {"ideal": ideal, "runs": runs}, told)
