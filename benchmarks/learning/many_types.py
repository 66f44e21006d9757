"""Learning four and five types in 2,000 episodes: the normalized score, and CPU seconds beside an older version.

python -m benchmarks.learning.many_types [--quick] [--before CHECKOUT]

``CHECKOUT`` is a folder with the source of another version; both learn the same models by turns, each in a process of
its own that has learned one before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import show
from benchmarks.learning import analysis, settings
from benchmarks.record import record
from benchmarks.types.run import shop_of
from rewardmix import learn, problems
from rewardmix.model import RewardMixingMDP

HERE = Path(__file__).parents[2]


def goals(types: int) -> RewardMixingMDP:
    """The grid, from its middle: a goal for each type, in the corners and in the middle of the top."""
    model, cells = problems.make_model("grid"), [0, 2, 6, 8, 1][:types]
    rewards = np.zeros((types, 9, 4))
    rewards[:, cells] = 0.1
    rewards[np.arange(types), cells] = 0.9
    return replace(model, rewards=rewards, weights=np.full(types, 1.0 / types), initial=np.eye(9)[4])


def world_of(name: str, types: int, seed: int) -> RewardMixingMDP:
    """A model by its name in tables; random ones are drawn anew for each seed."""
    if name == "grid":
        return goals(types)
    if name == "shop":
        return shop_of(types)
    return problems.make_model("random", **settings.MANY_TYPES[name], num_types=types, seed=seed)


def learned(name: str, types: int, seeds: int) -> dict[str, list[float]]:
    """Share and CPU seconds of each seed, in this process."""
    learn(world_of(name, types, 0), num_episodes=settings.MANY_EPISODES, num_types=types)
    runs: dict[str, list[float]] = {"share": [], "cpu_seconds": []}
    for seed in range(seeds):
        env = world_of(name, types, seed)
        begin = time.process_time()
        truth = learn(env, num_episodes=settings.MANY_EPISODES, num_types=types, seed=seed).certificate.true_model
        runs["cpu_seconds"].append(round(time.process_time() - begin, 3))
        runs["share"].append(round(truth.normalized_score, 6))
    return runs


def elsewhere(source: Path, name: str, types: int, seeds: int) -> dict[str, Any]:
    """The same by the version in a folder."""
    path = os.pathsep.join([str(source / "src"), str(HERE)])
    command = [sys.executable, "-m", "benchmarks.learning.many_types", "--one", name, str(types), str(seeds)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    runs: dict[str, Any] = json.loads(done.stdout)
    return runs


def cells(quick: bool, before: Path | None) -> Iterator[dict[str, Any]]:
    """Every model and number of types, of this version and the older one."""
    seeds = 1 if quick else settings.MANY_SEEDS
    for types in (4, 5):
        for name in [*settings.MANY_TYPES, "grid", *(["shop"] if types == 4 else [])]:
            row = {"problem": name, "types": types, "episodes": settings.MANY_EPISODES}
            old = {} if before is None else {"before": elsewhere(before, name, types, seeds)}
            yield {**row, **elsewhere(HERE, name, types, seeds), **old}


def main() -> None:
    """All cells, kept as they come; or one cell in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--one", nargs=3)
    args = parser.parse_args()
    if args.one is not None:
        print(json.dumps(learned(args.one[0], *map(int, args.one[1:]))))
        return
    if args.before:
        sys.argv[sys.argv.index(str(args.before))] = "CHECKOUT"  # how it is told what was run
    rows = []
    for row in cells(args.quick, args.before and args.before.resolve()):
        rows.append(row)
        args.quick or record("learning", "many_types", rows, program="many_types")
    show(analysis.many_types(rows))


if __name__ == "__main__":
    main()
