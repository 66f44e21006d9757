"""Episodes until 90 % of the runs are optimal in the family of the lower bound, over A and e.

python -m benchmarks.hardness.run [--quick] [--parts runs,ideal]

``runs``: learning. ``ideal``: what the test that knows the form of the world needs, also with more actions.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import argparse
from typing import Any

from benchmarks.cells import show
from benchmarks.hardness import analysis, settings
from benchmarks.record import Rows, record, rows_of
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


def runs(quick: bool) -> Rows:
    """Learning at every point; written again after each."""
    rows = []
    for actions, accuracy in points(settings.ACTIONS, quick):
        rows.append(point(actions, accuracy, 5 if quick else settings.SEEDS))
        if not quick:
            record("hardness", "runs", rows)
    return rows


def ideal(quick: bool) -> Rows:
    """Episodes that the ideal test needs."""
    rows = [
        {"actions": actions, "accuracy": accuracy, "episodes": analysis.ideal(actions, accuracy)}
        for actions, accuracy in points(settings.IDEAL_ACTIONS, quick)
    ]
    if not quick:
        record("hardness", "ideal", rows)
    return rows


PARTS = {"runs": runs, "ideal": ideal}


def main() -> None:
    """The parts asked for; tables take the other part from what is committed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--quick", action="store_true")
    asked.add_argument("--parts", default=",".join(PARTS))
    given = asked.parse_args()
    found = {part: PARTS[part](given.quick) for part in given.parts.split(",")}
    both = [found.get(part) or rows_of("hardness", part) for part in PARTS]
    for made in analysis.TABLES.values():
        show(made(*both, draws=100 if given.quick else settings.DRAWS))


if __name__ == "__main__":
    main()
