"""Exact expected regret of everything that is played, for an agent and its rivals.

python -m benchmarks.online.run [--quick] [--parts "agent,blind,certainty equivalence"]

A part is a method. Where the problem is no model (real households) what was collected is all that is known. Runs that
``results.jsonl`` has are kept, so that a study that was stopped goes on: take the lines of a part out to run it anew.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import rewardmix as rm
from benchmarks.cells import show
from benchmarks.online import analysis, settings
from benchmarks.record import Rows, rows_of, run


def cost(problem: str, method: str, seed: int, episodes: int) -> dict[str, Any]:
    """One run."""
    env_or_model = settings.WORLDS[problem](seed)
    types = settings.types_told(problem, env_or_model, method)
    options = {"num_types": types, "seed": seed, "agent_factory": settings.METHODS[method]}
    begin = time.process_time()
    result = rm.learn_online(env_or_model, num_episodes=episodes, **options)
    seconds = time.process_time() - begin
    regret = {} if result.cumulative_regret is None else {"regret": float(result.cumulative_regret[-1])}
    if result.cumulative_regret is not None:
        regret["early"] = float(result.cumulative_regret[min(settings.EARLY, episodes) - 1])
    return {
        "world": problem,
        "method": method,
        "seed": seed,
        "episodes": episodes,
        **regret,
        "first": float(result.episode_returns[: settings.FIRST].sum()),
        "total": result.total_reward,
        "switches": result.num_policy_changes,
        "cpu_seconds": seconds,
    }


def costs(method: str, quick: bool) -> Iterator[dict[str, Any]]:
    """All runs of a method, one seed after the other; quick: 2 seeds, 2,000 episodes."""
    seeds, episodes = (2, 2_000) if quick else (settings.seeds_of(method), settings.EPISODES)
    recorded = {} if quick else {(row["world"], row["seed"]): row for row in rows_of("online", method)}
    for seed in range(seeds):
        for problem in settings.worlds_of(method):
            yield recorded.get((problem, seed)) or cost(problem, method, seed, episodes)


def print_rows(part: str, rows: Rows, quick: bool) -> None:
    """What a method cost."""
    show(analysis.runs(rows))


PARTS = {method: partial(costs, method) for method in settings.METHODS}

if __name__ == "__main__":
    run(__doc__, "online", PARTS, print_rows)
