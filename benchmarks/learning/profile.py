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
    settings = parser.parse_args()
    learn(settings.problem, num_episodes=settings.episodes)
    seconds = min(cpu_seconds(settings.problem, settings.episodes) for _ in range(settings.repeats))
    calls, depth = traced(settings.problem, settings.episodes)
    files = {code.co_filename for code in calls}
    print(f"learn({settings.problem!r}, num_episodes={settings.episodes}) in {ROOT}")
    print(f"{seconds:.3f} CPU seconds, fastest of {settings.repeats}")
    print(f"{len(calls)} functions in {len(files)} files of the package, {calls.total()} calls, depth {depth}")
    profiler = cProfile.Profile()
    profiler.runcall(learn, settings.problem, num_episodes=settings.episodes)
    times = sorted(own_times(profiler).items(), key=lambda row: -row[1][1])
    for name, (count, alone, total) in times[: settings.top]:
        print(f"{count:7d} calls  {alone:6.3f} s own  {total:6.3f} s in all  {name}")


def cpu_seconds(problem: str, episodes: int) -> float:
    """CPU time of one call."""
    began = time.process_time()
    learn(problem, num_episodes=episodes)
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
        learn(problem, num_episodes=episodes)
    finally:
        sys.setprofile(None)
    return calls, deepest


def own_times(profiler: cProfile.Profile) -> dict[str, tuple[int, float, float]]:
    """Function -> calls, seconds in it alone, seconds with what it calls; of the package."""
    stats: Any = pstats.Stats(profiler)
    return {
        f"{file.removeprefix(ROOT)[1:]}:{name}": (count, alone, total)
        for (file, _, name), (_, count, alone, total, _) in stats.stats.items()
        if file.startswith(ROOT)
    }


if __name__ == "__main__":
    main()
