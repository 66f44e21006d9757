"""Episodes until 90 % of the runs are optimal in the family of the lower bound, over A and e.

python -m benchmarks.hardness.run [--quick]
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import argparse
from typing import Any

from benchmarks.hardness import analysis, settings
from benchmarks.record import record
from rewardmix import problems
from rewardmix.evaluation import controller_value
from rewardmix.exploration import explore
from rewardmix.planning import plan
from rewardmix.recovery import recover

STATES = 2


def share(actions: int, accuracy: float, episodes: int, seed: int) -> float:
    """Share of the gain 2 e after so many episodes; the seed also says which actions are the special ones."""
    world = problems.make("hard", actions=actions, accuracy=accuracy, seed=seed)
    found = recover(explore(world, episodes=episodes, seed=seed).gathered, seed=seed)
    policy = plan(found.model, gap=accuracy / 100).policy
    return (controller_value(policy, world) - 1.0) / (2 * accuracy)


def point(actions: int, accuracy: float, seeds: int) -> dict[str, Any]:
    """Which runs are optimal, at each number of episodes."""
    unit = (STATES * actions / accuracy) ** 2
    budgets = [round(factor * unit) for factor in settings.FACTORS]
    optimal = [
        [int(share(actions, accuracy, episodes, seed) >= settings.OPTIMAL) for seed in range(seeds)]
        for episodes in budgets
    ]
    return {"actions": actions, "accuracy": accuracy, "budgets": budgets, "optimal": optimal}


def main() -> None:
    """Every point of the two sweeps; they share one."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--quick", action="store_true")
    quick = asked.parse_args().quick
    points = {(settings.FIXED_ACTIONS, e) for e in settings.ACCURACIES}
    points |= {(a, settings.ACCURACY) for a in settings.ACTIONS}
    if quick:
        points = {(3, 0.08), (3, 0.04), (4, 0.04)}
    rows = []
    for actions, accuracy in sorted(points):
        rows.append(point(actions, accuracy, 5 if quick else settings.SEEDS))
        if not quick:
            record("hardness", {"rows": rows})
    analysis.show(rows)
    if not quick:
        analysis.draw()


if __name__ == "__main__":
    main()
