"""Measure how often comparisons of arms and intervals of mean returns are wrong with rare rewards, and their power.

python -m benchmarks.ab_test.run [--quick] [--parts equal,power,means]

Before: the interval that took each arm's own variance for known, and Student's for played values. Now: the betting
sequence of the service, and intervals by what an episode can earn at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.ab_test import analysis, rivals, settings
from benchmarks.ab_test.settings import Floats, ReturnDistribution
from benchmarks.cells import show
from benchmarks.record import Rows, run
from rewardmix.bounded_mean import ReturnBounds, mean_interval
from rewardmix.service.ab_test import BettingSequence

KINDS = ("before", "now")


def signs(
    dist: ReturnDistribution, lift: float, holdout: float, seed: int, sessions: int, check: bool
) -> tuple[Floats, ...]:
    """Compute the decisions of both intervals at each look of a test: 1 adaptive arm better, -1 worse, 0 undecided."""
    rng = np.random.default_rng(seed)
    adaptive = (rng.random(sessions) >= holdout).astype(np.float64)
    returns = dist.draw(rng, dist.prob * (1.0 + lift * adaptive))
    looks = np.arange(settings.LOOK_INTERVAL, sessions + 1, settings.LOOK_INTERVAL)
    now = rivals.betting_signs(adaptive, returns, looks, holdout, dist.bound)
    if check:
        check_service(adaptive, returns, holdout, dist.bound, now)
    return rivals.old_signs(adaptive, returns, looks), now


def check_service(adaptive: Floats, returns: Floats, holdout: float, bound: float, expected: Floats) -> None:
    """Check that the service, session by session, makes identical decisions at every look."""
    sequence = BettingSequence(ReturnBounds(0.0, bound))
    for number in range(adaptive.size):
        sequence.add(bool(adaptive[number]), holdout, float(returns[number]))
        if (number + 1) % settings.LOOK_INTERVAL == 0:
            comparison = sequence.comparison()
            sign = 0 if comparison is None else (comparison.lower > 0) - (comparison.upper < 0)
            if sign != expected[(number + 1) // settings.LOOK_INTERVAL - 1]:
                raise AssertionError(f"the service decides {sign} after {number + 1} sessions: {comparison}")


def first(decisions: Floats) -> int:
    """Return the number of sessions at the first look that decides; 0 if none does."""
    decided = np.flatnonzero(decisions)
    return settings.LOOK_INTERVAL * (int(decided[0]) + 1) if decided.size else 0


def equal(quick: bool) -> Iterator[dict[str, Any]]:
    """Run tests of equal arms: how many were ever decided, and for which arm first."""
    tests, sessions = (20, 4000) if quick else (settings.TESTS, settings.SESSIONS)
    for dist in settings.EQUAL:
        for holdout in settings.HOLDOUTS:
            wrong = {kind: [0, 0] for kind in KINDS}
            for seed in range(tests):
                for kind, decisions in zip(KINDS, signs(dist, 0.0, holdout, seed, sessions, seed == 0), strict=True):
                    if decided := first(decisions):
                        wrong[kind][int(decisions[decided // settings.LOOK_INTERVAL - 1] > 0)] += 1
            row = {"distribution": dist.name, "holdout": holdout, "tests": tests, "sessions": sessions}
            yield row | {kind: {"worse": wrong[kind][0], "better": wrong[kind][1]} for kind in KINDS}


def power(quick: bool) -> Iterator[dict[str, Any]]:
    """Run tests of a better arm: sessions until each was decided (0: never), and how many were decided wrongly."""
    tests, sessions = (6, 20_000) if quick else (settings.POWER_TESTS, settings.POWER_SESSIONS)
    for dist, lift in settings.POWERS:
        for holdout in settings.HOLDOUTS:
            row: dict[str, Any] = {"distribution": dist.name, "lift": lift, "holdout": holdout, "tests": tests}
            decided: dict[str, list[int]] = {kind: [] for kind in KINDS}
            opposite = dict.fromkeys(KINDS, 0)
            for seed in range(tests):
                for kind, decisions in zip(KINDS, signs(dist, lift, holdout, seed, sessions, False), strict=True):
                    decided[kind].append(first(decisions > 0))
                    opposite[kind] += bool((decisions < 0).any())
            yield row | {"sessions": sessions, **decided, "opposite": opposite}


def means(quick: bool) -> Iterator[dict[str, Any]]:
    """Measure how often intervals contain the mean, and how many have width zero or are infinite."""
    for dist in settings.MEANS:
        for episodes in settings.EPISODES[:1] if quick else settings.EPISODES:
            samples = (
                amounts(dist, episodes, 50 if quick else settings.SAMPLES) if dist.spread else counts(dist, episodes)
            )
            intervals: dict[str, Callable[[Floats], tuple[float, float]]] = {
                "before": rivals.student,
                "now": lambda returns, dist=dist: mean_interval(returns, 0.05, ReturnBounds(0.0, dist.bound)),
                "without bounds": lambda returns: mean_interval(returns, 0.05),
            }
            shares = {way: np.zeros(3) for way in intervals}
            for prob, returns in samples:
                for way, interval in intervals.items():
                    low, high = interval(returns)
                    shares[way] += prob * np.array([low <= dist.mean() <= high, low == high, high == np.inf])
            row = {"distribution": dist.name, "episodes": episodes, "exact": not dist.spread}
            names = ("contains_mean", "width_zero", "infinite")
            yield row | {way: dict(zip(names, share.tolist(), strict=True)) for way, share in shares.items()}


def counts(dist: ReturnDistribution, episodes: int) -> Iterator[tuple[float, Floats]]:
    """Yield (probability, returns) for every possible number of rewarded episodes."""
    for num_rewarded in range(episodes + 1):
        if (prob := float(binom.pmf(num_rewarded, episodes, dist.prob))) > 1e-9:
            yield prob, np.repeat([0.0, 1.0], [episodes - num_rewarded, num_rewarded])


def amounts(dist: ReturnDistribution, episodes: int, samples: int) -> Iterator[tuple[float, Floats]]:
    """Yield (weight, returns) of simulated samples."""
    rng = np.random.default_rng(episodes)
    for _ in range(samples):
        yield 1.0 / samples, np.minimum(dist.draw(rng, np.full(episodes, dist.prob)), dist.bound)


def print_table(part: str, rows: Rows, quick: bool) -> None:
    """Print the table of a part."""
    show(analysis.TABLES[part](rows))


if __name__ == "__main__":
    run(__doc__, "ab_test", {"equal": equal, "power": power, "means": means}, print_table)
