"""How often live comparisons and played values are wrong where rewards are rare, and what it costs to be right.

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
from benchmarks.ab_test.settings import Floats, Law
from benchmarks.cells import show
from benchmarks.record import Rows, run
from rewardmix.bounded_mean import ReturnBounds, mean_interval
from rewardmix.service.comparison import BettingSequence

KINDS = ("before", "now")


def signs(law: Law, lift: float, holdout: float, seed: int, sessions: int, check: bool) -> tuple[Floats, ...]:
    """At each look of a test, what both intervals say of adapting: 1 it pays, -1 it loses, 0 not decided."""
    rng = np.random.default_rng(seed)
    adaptive = (rng.random(sessions) >= holdout).astype(np.float64)
    earned = law.draw(rng, law.chance * (1.0 + lift * adaptive))
    looks = np.arange(settings.EVERY, sessions + 1, settings.EVERY)
    now = rivals.betting_signs(adaptive, earned, looks, holdout, law.bound)
    if check:
        check_service(adaptive, earned, holdout, law.bound, now)
    return rivals.old_signs(adaptive, earned, looks), now


def check_service(adaptive: Floats, earned: Floats, holdout: float, bound: float, expected: Floats) -> None:
    """The service itself, session by session, says the same at every look."""
    sequence = BettingSequence(ReturnBounds(0.0, bound))
    for number in range(adaptive.size):
        sequence.add(bool(adaptive[number]), holdout, float(earned[number]))
        if (number + 1) % settings.EVERY == 0:
            said = sequence.comparison()
            sign = 0 if said is None else (said.lower > 0) - (said.upper < 0)
            if sign != expected[(number + 1) // settings.EVERY - 1]:
                raise AssertionError(f"the service says {sign} after {number + 1} sessions: {said}")


def first(found: Floats) -> int:
    """Sessions at the first look that decides; 0 if none does."""
    decided = np.flatnonzero(found)
    return settings.EVERY * (int(decided[0]) + 1) if decided.size else 0


def equal(quick: bool) -> Iterator[dict[str, Any]]:
    """Tests of equal arms: how many were ever decided, and for which arm first."""
    tests, sessions = (20, 4000) if quick else (settings.TESTS, settings.SESSIONS)
    for law in settings.EQUAL:
        for holdout in settings.HOLDOUTS:
            wrong = {kind: [0, 0] for kind in KINDS}
            for seed in range(tests):
                for kind, found in zip(KINDS, signs(law, 0.0, holdout, seed, sessions, seed == 0), strict=True):
                    if decided := first(found):
                        wrong[kind][int(found[decided // settings.EVERY - 1] > 0)] += 1
            row = {"law": law.name, "holdout": holdout, "tests": tests, "sessions": sessions}
            yield row | {kind: {"loses": wrong[kind][0], "pays": wrong[kind][1]} for kind in KINDS}


def power(quick: bool) -> Iterator[dict[str, Any]]:
    """Tests of a better arm: after how many sessions each was decided, 0 where it was not, and how many wrongly."""
    tests, sessions = (6, 20_000) if quick else (settings.POWER_TESTS, settings.POWER_SESSIONS)
    for law, lift in settings.POWERS:
        for holdout in settings.HOLDOUTS:
            row: dict[str, Any] = {"law": law.name, "lift": lift, "holdout": holdout, "tests": tests}
            decided: dict[str, list[int]] = {kind: [] for kind in KINDS}
            opposite = dict.fromkeys(KINDS, 0)
            for seed in range(tests):
                for kind, found in zip(KINDS, signs(law, lift, holdout, seed, sessions, False), strict=True):
                    decided[kind].append(first(found > 0))
                    opposite[kind] += bool((found < 0).any())
            yield row | {"sessions": sessions, **decided, "opposite": opposite}


def means(quick: bool) -> Iterator[dict[str, Any]]:
    """How often the interval of a mean holds it, which share of them has no width, and which share there is none of."""
    for law in settings.MEANS:
        for episodes in settings.EPISODES[:1] if quick else settings.EPISODES:
            samples = amounts(law, episodes, 50 if quick else settings.SAMPLES) if law.spread else counts(law, episodes)
            ways: dict[str, Callable[[Floats], tuple[float, float]]] = {
                "before": rivals.student,
                "now": lambda returns, law=law: mean_interval(returns, 0.05, ReturnBounds(0.0, law.bound)),
                "without bounds": lambda returns: mean_interval(returns, 0.05),
            }
            shares = {way: np.zeros(3) for way in ways}
            for likely, returns in samples:
                for way, interval in ways.items():
                    low, high = interval(returns)
                    shares[way] += likely * np.array([low <= law.mean() <= high, low == high, high == np.inf])
            row = {"law": law.name, "episodes": episodes, "exact": not law.spread}
            parts = ("holds", "no_width", "none")
            yield row | {way: dict(zip(parts, share.tolist(), strict=True)) for way, share in shares.items()}


def counts(law: Law, episodes: int) -> Iterator[tuple[float, Floats]]:
    """(chance, returns) of every number of paid episodes that can be."""
    for paid in range(episodes + 1):
        if (likely := float(binom.pmf(paid, episodes, law.chance))) > 1e-9:
            yield likely, np.repeat([0.0, 1.0], [episodes - paid, paid])


def amounts(law: Law, episodes: int, samples: int) -> Iterator[tuple[float, Floats]]:
    """(share, returns) of samples."""
    rng = np.random.default_rng(episodes)
    for _ in range(samples):
        yield 1.0 / samples, np.minimum(law.draw(rng, np.full(episodes, law.chance)), law.bound)


def told(part: str, rows: Rows, quick: bool) -> None:
    """The table of a part."""
    show(analysis.TABLES[part](rows))


if __name__ == "__main__":
    run(__doc__, "ab_test", {"equal": equal, "power": power, "means": means}, told)
