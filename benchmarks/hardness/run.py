"""Episodes until 90 % of the runs are optimal in the family of the lower bound, over A and e.

python -m benchmarks.hardness.run [--quick] [--parts ideal,runs]

``runs``: learning. ``ideal``: what the test that knows the form of the model needs, also with more actions.
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


def share(actions: int, epsilon: float, episodes: int, seed: int) -> float:
    """Share of the gain 2 e after so many episodes; the seed also says which actions are the special ones."""
    env = problems.make_model("hard", actions=actions, epsilon=epsilon, seed=seed)
    result = recover(explore(env, num_episodes=episodes, seed=seed).episodes, seed=seed)
    policy = plan(result.model, gap=epsilon / 100).policy
    return (controller_value(policy, env) - 1.0) / (2 * epsilon)


def point(actions: int, epsilon: float, seeds: int) -> dict[str, Any]:
    """Which runs are optimal, at each number of episodes."""
    budgets = [round(factor * analysis.unit(actions, epsilon)) for factor in settings.FACTORS]
    optimal = [
        [int(share(actions, epsilon, episodes, seed) >= settings.OPTIMAL) for seed in range(seeds)]
        for episodes in budgets
    ]
    return {"actions": actions, "accuracy": epsilon, "budgets": budgets, "optimal": optimal}


def points(actions: tuple[int, ...], quick: bool) -> list[tuple[int, float]]:
    """(actions, accuracy) of the two sweeps; they share one."""
    if quick:
        return [(3, 0.04), (3, 0.08), (4, 0.04)]
    return sorted(
        {(settings.FIXED_ACTIONS, e) for e in settings.ACCURACIES} | {(a, settings.ACCURACY) for a in actions}
    )


def runs(quick: bool) -> Iterator[dict[str, Any]]:
    """Learning at every point."""
    for actions, epsilon in points(settings.ACTIONS, quick):
        yield point(actions, epsilon, 5 if quick else settings.SEEDS)


def ideal(quick: bool) -> Iterator[dict[str, Any]]:
    """Episodes that the ideal test needs."""
    for actions, epsilon in points(settings.IDEAL_ACTIONS, quick):
        yield {"actions": actions, "accuracy": epsilon, "episodes": analysis.ideal(actions, epsilon)}


def print_rows(part: str, rows: Rows, quick: bool) -> None:
    """What the ideal test needs; and what learning needs, beside the committed numbers of that test."""
    if part == "ideal":
        table(["A", "e", "episodes of the ideal test"], [list(row.values()) for row in rows])
        return
    for make_table in analysis.TABLES.values():
        show(make_table(rows, rows_of("hardness", "ideal"), draws=100 if quick else settings.DRAWS))


if __name__ == "__main__":
    run(__doc__, "hardness", {"ideal": ideal, "runs": runs}, print_rows)
