"""Throughput, the paper's algorithm to its end, budgets, and what low switching costs.

python -m benchmarks.exploration.run [--quick] [throughput] [to_the_end] [low_switching] [budgets] [exponents]
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import itertools
import sys
import time

import numpy as np

from benchmarks.cells import show
from benchmarks.exploration import analysis, literal
from benchmarks.exploration import settings as chosen
from benchmarks.record import record
from rewardmix import problems, theory
from rewardmix.exploration import all_pairs, batched, explore, paper, practical, selected, uniformly
from rewardmix.policy import markov
from rewardmix.simulation import simulate


def seconds(call, repeats=1):
    best, result = np.inf, None
    for _ in range(repeats):
        begin = time.process_time()
        result = call()
        best = min(best, time.process_time() - begin)
    return best, result


def warm():
    model = problems.make("random", states=2, actions=2, horizon=2)
    for counts in (selected, all_pairs):
        explore(model, episodes=50, counts=counts, keep=False)
        explore(model, episodes=50, counts=counts, keep=False, strategy=uniformly)
    explore(model, threshold=0.5, confidence=paper(), counts=selected, engine=batched)
    simulate(markov(np.zeros(2, int), model), model, 100)


def throughput(quick):
    rows = []
    for size in chosen.SIZES[: 3 if quick else None]:
        model = problems.make("random", states=size.states, actions=size.actions, horizon=size.horizon)
        number = size.episodes // (10 if quick else 1)
        row = {"size": size[:3], "episodes": number, "target": size.target}
        literal_seconds = seconds(lambda m=model, n=size.literal: literal.run(m, n, 0))[0]
        row["numpy literal"] = size.literal / literal_seconds
        for counts, growth in itertools.product((selected, all_pairs), (1.5, 1.05)):
            saturated = paper() if size.states == 100 else practical  # large worlds: while all is new
            spent, found = seconds(
                lambda m=model, c=counts, g=growth, n=number, s=saturated: explore(
                    m, episodes=n, counts=c, growth=g, keep=False, confidence=s
                ),
                1,
            )
            row[f"{counts.name} {growth}"] = number / spent
            row[f"{counts.name} {growth} V_0"] = found.uncertainty
        policy = markov(np.zeros(size.states, int), model)
        bare = min(number, 200_000)
        row["bare simulator"] = bare / seconds(lambda m=model, p=policy, n=bare: simulate(p, m, n), 2)[0]
        rows.append(row)
        print(row, flush=True, file=sys.stderr)
    return rows


def to_the_end(quick):
    rows = []
    for s, a, h, allowed in chosen.ENDS[: 2 if quick else None]:
        model = problems.make("random", states=s, actions=a, horizon=h)
        stop = theory.threshold(chosen.ACCURACY, chosen.SEPARATION, h)
        for growth in (1.5, 2.0) if s == 10 else (1.1, 1.5, 2.0):
            spent, found = seconds(
                lambda m=model, t=stop, g=growth: explore(
                    m, threshold=t, failure=0.1, confidence=paper(), counts=selected, growth=g, engine=batched
                ),
                3 if s == 3 else 1,
            )
            fluid = theory.fluid_episodes(s, a, h, stop, chosen.FAILURE)
            rows.append(
                {
                    "size": (s, a, h),
                    "growth": growth,
                    "episodes": found.episodes,
                    "seconds": spent,
                    "allowed": allowed,
                    "fluid": fluid,
                    "ratio": found.episodes / fluid,
                }
            )
    return rows


def needed(model, least, seed, most, begin=256, share=50, **options):
    """Fewest episodes after which every possible pair was seen ``least`` times (a longer run begins like a shorter)."""
    low, high = 0, begin
    while explore(model, episodes=high, seed=seed, keep=False, **options).info.coverage.least < least:
        low, high = high, 2 * high
        if high > most:
            return None
    while high - low > max(1, high // share):
        middle = (low + high) // 2
        enough = explore(model, episodes=middle, seed=seed, keep=False, **options).info.coverage.least >= least
        low, high = (low, middle) if enough else (middle, high)
    return high


def budgets(quick):
    rows = []
    for name, options, allowed, most in (
        ("lock", {"actions": 3, "steps": 8}, 5000, 4_000_000),
        ("riverswim", {"states": 8}, 2500, 4_000_000),
    ):
        model = problems.make(name, **options)
        ours = [needed(model, 20, seed, 100_000) for seed in range(3 if quick else 5)]
        blind = None if quick else needed(model, 20, 0, most, 1 << 18, 1, strategy=uniformly)
        rows.append({"problem": name, "allowed": allowed, "ours": ours, "uniform": blind})
    return rows


def low_switching(quick):
    rows = []
    for s, a, h, episodes in ((3, 2, 4, 1000), (5, 3, 6, 2000), (10, 3, 8, 2000))[: 2 if quick else None]:
        model = problems.make("random", states=s, actions=a, horizon=h)
        values = {
            growth: [explore(model, episodes=episodes, growth=growth, seed=i, keep=False).uncertainty for i in range(5)]
            for growth in (1.0, 1.05)
        }
        often, rarely = (float(np.mean(values[g])) for g in (1.0, 1.05))
        rows.append(
            {"size": (s, a, h), "episodes": episodes, "literal": often, "default": rarely, "loss": rarely / often - 1}
        )
    return rows


def exponents(quick):
    """Episodes to the end over accuracy and size, for the exponents and the figure."""
    rows = []
    for s, a, h in ((2, 2, 3), (3, 2, 4), (5, 2, 4), (5, 3, 6)):
        for stop in (1e-2, 3e-3, 1e-3, 3e-4):
            model = problems.make("random", states=s, actions=a, horizon=h)
            found = explore(
                model,
                threshold=stop,
                failure=chosen.FAILURE,
                confidence=paper(),
                counts=selected,
                engine=batched,
                growth=1.3,
            )
            fluid = theory.fluid_episodes(s, a, h, stop, chosen.FAILURE)
            rows.append({"size": (s, a, h), "threshold": stop, "episodes": found.episodes, "fluid": fluid})
    return rows


SECTIONS = (throughput, to_the_end, low_switching, budgets, exponents)


def main():
    quick = "--quick" in sys.argv
    asked = [section for section in SECTIONS if section.__name__ in sys.argv] or SECTIONS
    warm()
    for section in asked:
        rows = section(quick)
        show(analysis.TABLES[section.__name__](rows))
        sys.stdout.flush()
        if not quick:
            record("exploration", section.__name__, rows)


if __name__ == "__main__":
    main()
