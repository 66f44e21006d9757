"""What an agent costs to run: CPU time with the number of episodes, of one event, and memory of a million episodes.

python -m benchmarks.online.cost [--quick] [--parts "time,events,memory"]

Times are CPU times, the least of some repeats, beside a loop of plain Python in the same run: machines differ, and so
does one machine from hour to hour. An event is ``visit.observe`` and reading ``visit.action``, beside an empty method.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import resource
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import rewardmix as rm
from benchmarks.cells import show
from benchmarks.online import analysis, settings
from benchmarks.record import Rows, cpu_seconds, run

WORLD = "random 5x3x6"
LENGTHS = (2_500, 5_000, 10_000, 20_000)
SEEDS = 2
MANY = 1_000_000
EVENTS = 100
"""Events of a visit: few begin and end."""

VISITS = 500


def plain_loop() -> int:
    """A loop that everybody knows, for comparison."""
    total = 0
    for number in range(2_000_000):
        total += number & 3
    return total


def times(quick: bool) -> Iterator[dict[str, Any]]:
    """CPU seconds of a run, least of the repeats of each seed, beside the loop."""
    rm.learn_online(settings.WORLDS[WORLD](0), num_episodes=300, seed=0)  # compiled before the clock runs
    for seed in range(1 if quick else SEEDS):
        model = settings.WORLDS[WORLD](seed)
        for episodes in LENGTHS[:2] if quick else LENGTHS:
            loop = cpu_seconds(plain_loop, 3)
            seconds = cpu_seconds(partial(rm.learn_online, model, num_episodes=episodes, seed=seed), 1 if quick else 2)
            yield {"seed": seed, "episodes": episodes, "cpu_seconds": seconds, "loop_seconds": loop}


class Empty:
    """What an event costs if nothing is done about it."""

    def __init__(self) -> None:
        self.action = 0

    def observe(self, reward: float, next_state: int) -> None:
        """Nothing."""


def events(quick: bool) -> Iterator[dict[str, Any]]:
    """Microseconds of an event, of an empty method beside it, and of beginning and ending a visit."""
    states = settings.WORLDS[WORLD](0).num_states
    next_states = [(7 * k) % states for k in range(EVENTS)]
    agent = rm.PosteriorSamplingAgent(num_states=states, num_actions=3, horizon=EVENTS, seed=0)

    def fed() -> float:
        spent = 0.0
        for _ in range(VISITS):
            episode = agent.start_episode(0)
            begin = time.process_time()
            for next_state in next_states:
                episode.observe(1.0, next_state)
                episode.action  # reading it is what is timed  # noqa: B018
            spent += time.process_time() - begin
        agent._pending.clear()
        return spent

    def empty() -> float:
        spent = 0.0
        for _ in range(VISITS):
            episode = Empty()
            begin = time.process_time()
            for next_state in next_states:
                episode.observe(1.0, next_state)
                episode.action  # likewise  # noqa: B018
            spent += time.process_time() - begin
        return spent

    for repeat in range(2 if quick else 10):
        scale = 1e6 / (VISITS * EVENTS)
        yield {"repeat": repeat, "event_us": fed() * scale, "empty_us": empty() * scale}


def memory(quick: bool) -> Iterator[dict[str, Any]]:
    """Memory that a run takes beyond that of a short one, and its CPU time."""
    model = settings.WORLDS[WORLD](0)
    rm.learn_online(model, num_episodes=2_000, seed=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begin = time.process_time()
    result = rm.learn_online(model, num_episodes=20_000 if quick else MANY, seed=0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    distinct = int(result.agent._record.patterns.counts.size)
    yield {
        "episodes": int(result.episode_returns.size),
        "cpu_seconds": time.process_time() - begin,
        "mb_before": before,
        "mb_peak": peak,
        "distinct": distinct,
        "regret": float(result.cumulative_regret[-1]),
    }


def print_rows(part: str, rows: Rows, quick: bool) -> None:
    """The table of a part."""
    show(analysis.TABLES[part](rows))


PARTS = {"time": times, "events": events, "memory": memory}

if __name__ == "__main__":
    run(__doc__, "online", PARTS, print_rows, program="cost")
