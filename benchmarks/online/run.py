"""Exact expected regret of everything that is played, for an agent and its rivals.

python -m benchmarks.online.run [--quick] [--worlds "lock 8,shop"] [--methods agent,context-blind] [--seeds 20]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import rewardmix as rm
from benchmarks.online import analysis, settings
from benchmarks.record import record


def cost(world: str, method: str, seed: int, episodes: int) -> dict[str, Any]:
    """One run."""
    model = settings.WORLDS[world](seed)
    begin = time.process_time()
    told = {"num_contexts": model.num_contexts, "seed": seed, "method": settings.METHODS[method]}
    earned = rm.earn(model, episodes=episodes, **told)
    seconds = time.process_time() - begin
    return {
        "world": world,
        "method": method,
        "seed": seed,
        "episodes": episodes,
        "regret": float(earned.regret[-1]),
        "early": float(earned.regret[min(settings.EARLY, episodes) - 1]),
        "switches": earned.switches,
        "cpu_seconds": seconds,
    }


def main() -> None:
    """The worlds and methods asked for; the file is written after each world. Quick: 2 seeds, 2,000 episodes."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--quick", action="store_true")
    asked.add_argument("--worlds", default=",".join(settings.WORLDS))
    asked.add_argument("--methods", default=",".join(settings.METHODS))
    asked.add_argument("--seeds", type=int, default=settings.SEEDS)
    given = asked.parse_args()
    seeds, episodes = (2, 2_000) if given.quick else (given.seeds, settings.EPISODES)
    rows: list[dict[str, Any]] = []
    for world in given.worlds.split(","):
        for method in given.methods.split(","):
            rows += [cost(world, method, seed, episodes) for seed in range(seeds)]
        if not given.quick:
            record("online", "runs", rows)
        analysis.show([row for row in rows if row["world"] == world])
    analysis.judge(rows)
    analysis.judge_numbers(rows)


if __name__ == "__main__":
    main()
