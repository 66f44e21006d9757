"""How much of the gain of adapting ``learn`` captures: problems x budgets x seeds, exact values throughout.

python -m benchmarks.learning.run [--quick] [--parts hard,grid,long,others]

Every part is written again whenever a row is finished. ``python -m benchmarks.learning.analysis`` prints the tables.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.learning import analysis, settings
from benchmarks.learning.others import METHODS
from benchmarks.record import record
from rewardmix import problems
from rewardmix.learning import learn
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import plan, plan_markov


def world_of(name: str) -> RewardMixingMDP:
    """The problem by its name in tables."""
    known, options = settings.PROBLEMS[name]
    return problems.make(known, **options)


def one(world: RewardMixingMDP, episodes: int, seed: int) -> dict[str, float]:
    """One run of ``learn``, judged in the true world."""
    begin = time.process_time()
    truth = learn(world, episodes=episodes, seed=seed, resamples=0).certificate.truth
    return {
        "share": truth.share,
        "regret": truth.regret,
        "value": truth.value,
        "best": truth.best_upper,
        "markov": truth.markov,
        "cpu_seconds": time.process_time() - begin,
    }


def row_of(name: str, episodes: int, runs: list[dict[str, float]]) -> dict[str, Any]:
    """What is kept of the runs of one cell."""
    row: dict[str, Any] = {"problem": name, "episodes": episodes, "seeds": len(runs)}
    for key in ("share", "regret", "value"):
        row[key] = [round(run[key], 6) for run in runs]
    seconds = sorted(run["cpu_seconds"] for run in runs)[len(runs) // 2]
    return {**row, "best": runs[0]["best"], "markov": runs[0]["markov"], "cpu_seconds": seconds}


def grid(quick: bool) -> None:
    """The main table: small budgets first, so that an interrupted run has whole columns."""
    cells(settings.BUDGETS[: 2 if quick else None], 2 if quick else settings.SEEDS, None if quick else "grid")


def long(quick: bool) -> None:
    """The last column of the main table."""
    cells((5000 if quick else settings.LONG_BUDGET,), 1 if quick else settings.LONG_SEEDS, None if quick else "long")


def cells(budgets: Sequence[int], seeds: int, part: str | None) -> None:
    """Run every problem at every budget."""
    rows = []
    for episodes in budgets:
        for name in settings.PROBLEMS:
            world = world_of(name)
            rows.append(row_of(name, episodes, [one(world, episodes, seed) for seed in range(seeds)]))
            print(analysis.line(rows[-1]), flush=True)
            if part is not None:
                record("learning", part, rows)


def hard(quick: bool) -> None:
    """The hard family at the number of episodes that its lower bound asks for."""
    rows = []
    for name in ("hard e=.04", "hard e=.01"):
        world, accuracy = world_of(name), settings.PROBLEMS[name][1]["accuracy"]
        points = world.num_states * world.num_actions
        episodes = round(settings.HARD_FACTOR * points**2 / accuracy**2)
        seeds = 3 if quick else settings.HARD_SEEDS
        rows.append(row_of(name, episodes, [one(world, episodes, seed) for seed in range(seeds)]))
        print(analysis.line(rows[-1]), flush=True)
    if not quick:
        record("learning", "hard", rows)


def others(quick: bool) -> None:
    """Every other way to learn, on some of the problems."""
    rows = []
    for name in settings.OTHERS_PROBLEMS[: 1 if quick else None]:
        world = world_of(name)
        best, markov = plan(world, gap=1e-4).lower, plan_markov(world).value
        for episodes in settings.OTHERS_BUDGETS[: 1 if quick else None]:
            for method, call in METHODS.items():
                values = [call(world, episodes, seed) for seed in range(2 if quick else settings.OTHERS_SEEDS)]
                rows.append(
                    {
                        "problem": name,
                        "episodes": episodes,
                        "method": method,
                        "best": best,
                        "markov": markov,
                        "value": values,
                        "share": [(v - markov) / (best - markov) for v in values],
                    }
                )
                print(analysis.line(rows[-1]), flush=True)
            if not quick:
                record("learning", "others", rows)


def main() -> None:
    """The parts asked for."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--quick", action="store_true")
    asked.add_argument("--parts", default="hard,grid,long,others")
    given = asked.parse_args()
    for part in given.parts.split(","):
        {"grid": grid, "long": long, "hard": hard, "others": others}[part](given.quick)
    if not given.quick:
        analysis.main()


if __name__ == "__main__":
    main()
