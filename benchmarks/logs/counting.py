"""What one way to count pairs would cost: CPU-seconds in the growing table over CPU-seconds in a plain array.

python -m benchmarks.logs.counting
"""

from __future__ import annotations

from benchmarks.record import cpu_seconds, table
from rewardmix import problems, simulate, uniform_policy
from rewardmix._core import count_tables
from rewardmix.moments import Moments

SIZES = ((4, 2, 10), (10, 4, 8), (60, 4, 8))
"""States, actions, horizon."""

STEPS = 1_000_000


def seconds(size: tuple[int, int, int], dense_symbols: int) -> float:
    """Of counting a million steps, where plain arrays may have this many symbols."""
    model = problems.make_model("random", states=size[0], actions=size[1], horizon=size[2])
    episodes = simulate(uniform_policy(model), model, STEPS // size[2])
    usual, count_tables.MAX_DENSE_SYMBOLS = count_tables.MAX_DENSE_SYMBOLS, dense_symbols
    try:
        Moments.from_episodes(episodes)
        return cpu_seconds(lambda: Moments.from_episodes(episodes), 5)
    finally:
        count_tables.MAX_DENSE_SYMBOLS = usual


def main() -> None:
    rows = []
    for size in SIZES:
        plain, growing = seconds(size, count_tables.MAX_DENSE_SYMBOLS), seconds(size, 0)
        rows.append([*size, plain, growing, growing / plain])
    table(["states", "actions", "horizon", "plain array", "growing table", "ratio"], rows)


if __name__ == "__main__":
    main()
