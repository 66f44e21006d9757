"""What a call of ``learn`` runs through: functions, files, calls, depth and CPU seconds of the package.

    python -m benchmarks.learning.profile
    PYTHONPATH=other/src python -m benchmarks.learning.profile          the same of another tree

The time is measured without a profiler, after a call that compiles. Calls inside compiled kernels are not seen.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import time
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import rewardmix
from rewardmix import learn

ROOT = str(Path(rewardmix.__file__).parent)


def main() -> None:
    """Print the profile of one call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", default="shop")
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5, help="calls that are timed; the fastest counts")
    parser.add_argument("--top", type=int, default=15)
    asked = parser.parse_args()
    learn(asked.problem, episodes=asked.episodes)
    seconds = min(cpu_seconds(asked.problem, asked.episodes) for _ in range(asked.repeats))
    calls, depth = traced(asked.problem, asked.episodes)
    files = {code.co_filename for code in calls}
    print(f"learn({asked.problem!r}, episodes={asked.episodes}) in {ROOT}")
    print(f"{seconds:.3f} CPU seconds, fastest of {asked.repeats}")
    print(f"{len(calls)} functions in {len(files)} files of the package, {calls.total()} calls, depth {depth}")
    profiler = cProfile.Profile()
    profiler.runcall(learn, asked.problem, episodes=asked.episodes)
    own = sorted(own_times(profiler).items(), key=lambda row: -row[1][1])
    for name, (count, time_, whole) in own[: asked.top]:
        print(f"{count:7d} calls  {time_:6.3f} s own  {whole:6.3f} s in all  {name}")


def cpu_seconds(problem: str, episodes: int) -> float:
    """CPU time of one call."""
    began = time.process_time()
    learn(problem, episodes=episodes)
    return time.process_time() - began


def traced(problem: str, episodes: int) -> tuple[Counter[CodeType], int]:
    """Calls of each function of the package, and how deep they were nested within it."""
    calls: Counter[CodeType] = Counter()
    depth = deepest = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth, deepest
        if event not in ("call", "return") or not frame.f_code.co_filename.startswith(ROOT):
            return
        depth += 1 if event == "call" else -1
        deepest = max(deepest, depth)
        if event == "call":
            calls[frame.f_code] += 1

    sys.setprofile(note)
    try:
        learn(problem, episodes=episodes)
    finally:
        sys.setprofile(None)
    return calls, deepest


def own_times(profiler: cProfile.Profile) -> dict[str, tuple[int, float, float]]:
    """Function -> calls, seconds in it alone, seconds with what it calls; of the package."""
    stats: Any = pstats.Stats(profiler)
    return {
        f"{file.removeprefix(ROOT)[1:]}:{name}": (count, alone, whole)
        for (file, _, name), (_, count, alone, whole, _) in stats.stats.items()
        if file.startswith(ROOT)
    }


if __name__ == "__main__":
    main()
