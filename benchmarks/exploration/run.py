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
from rewardmix.exploration import (
    all_pairs,
    explore,
    make_batched_engine,
    paper_bonus,
    practical_bonus,
    selected_pairs,
    uniform_strategy,
)
from rewardmix.policy import markov_policy
from rewardmix.simulation import simulate


def seconds(call, repeats=1):
    best, result = np.inf, None
    for _ in range(repeats):
        begin = time.process_time()
        result = call()
        best = min(best, time.process_time() - begin)
    return best, result


def warm():
    model = problems.make_model("random", states=2, actions=2, horizon=2)
    for counts in (selected_pairs, all_pairs):
        explore(model, num_episodes=50, counting=counts, keep_episodes=False)
        explore(model, num_episodes=50, counting=counts, keep_episodes=False, strategy=uniform_strategy)
    explore(model, uncertainty_threshold=0.5, bonus=paper_bonus(), counting=selected_pairs, engine=make_batched_engine)
    simulate(markov_policy(np.zeros(2, int), model), model, 100)


def throughput(quick):
    rows = []
    for size in chosen.SIZES[: 3 if quick else None]:
        model = problems.make_model("random", states=size.states, actions=size.actions, horizon=size.horizon)
        number = size.episodes // (10 if quick else 1)
        row = {"size": size[:3], "episodes": number, "target": size.target}
        literal_seconds = seconds(lambda m=model, n=size.literal: literal.run(m, n, 0))[0]
        row["numpy literal"] = size.literal / literal_seconds
        for counts, growth in itertools.product((selected_pairs, all_pairs), (1.5, 1.05)):
            saturated = paper_bonus() if size.states == 100 else practical_bonus  # large worlds: while all is new
            spent, result = seconds(
                lambda m=model, c=counts, g=growth, n=number, s=saturated: explore(
                    m, num_episodes=n, counting=c, replan_growth=g, keep_episodes=False, bonus=s
                ),
                1,
            )
            row[f"{counts.name} {growth}"] = number / spent
            row[f"{counts.name} {growth} V_0"] = result.uncertainty
        policy = markov_policy(np.zeros(size.states, int), model)
        bare = min(number, 200_000)
        row["bare simulator"] = bare / seconds(lambda m=model, p=policy, n=bare: simulate(p, m, n), 2)[0]
        rows.append(row)
        print(row, flush=True, file=sys.stderr)
    return rows


def to_the_end(quick):
    rows = []
    for s, a, h, allowed in chosen.ENDS[: 2 if quick else None]:
        model = problems.make_model("random", states=s, actions=a, horizon=h)
        stop = theory.uncertainty_threshold(chosen.ACCURACY, chosen.SEPARATION, h)
        for growth in (1.5, 2.0) if s == 10 else (1.1, 1.5, 2.0):
            spent, result = seconds(
                lambda m=model, t=stop, g=growth: explore(
                    m,
                    uncertainty_threshold=t,
                    failure_prob=0.1,
                    bonus=paper_bonus(),
                    counting=selected_pairs,
                    replan_growth=g,
                    engine=make_batched_engine,
                ),
                3 if s == 3 else 1,
            )
            fluid = theory.estimate_paper_episodes(s, a, h, stop, chosen.FAILURE)
            rows.append(
                {
                    "size": (s, a, h),
                    "growth": growth,
                    "episodes": result.num_episodes,
                    "seconds": spent,
                    "allowed": allowed,
                    "fluid": fluid,
                    "ratio": result.num_episodes / fluid,
                }
            )
    return rows


def needed(model, min_samples, seed, max_episodes, begin=256, share=50, **options):
    """Return the fewest episodes after which every possible pair has ``min_samples`` samples, or None."""
    low, high = 0, begin
    while (
        explore(model, num_episodes=high, seed=seed, keep_episodes=False, **options).info.coverage.min_samples
        < min_samples
    ):
        low, high = high, 2 * high
        if high > max_episodes:
            return None
    while high - low > max(1, high // share):
        middle = (low + high) // 2
        enough = (
            explore(model, num_episodes=middle, seed=seed, keep_episodes=False, **options).info.coverage.min_samples
            >= min_samples
        )
        low, high = (low, middle) if enough else (middle, high)
    return high


def budgets(quick):
    rows = []
    for name, options, allowed, max_episodes in (
        ("lock", {"actions": 3, "steps": 8}, 5000, 4_000_000),
        ("riverswim", {"states": 8}, 2500, 4_000_000),
    ):
        model = problems.make_model(name, **options)
        ours = [needed(model, 20, seed, 100_000) for seed in range(3 if quick else 5)]
        nonadaptive = None if quick else needed(model, 20, 0, max_episodes, 1 << 18, 1, strategy=uniform_strategy)
        rows.append({"problem": name, "allowed": allowed, "ours": ours, "uniform": nonadaptive})
    return rows


def low_switching(quick):
    rows = []
    for s, a, h, episodes in ((3, 2, 4, 1000), (5, 3, 6, 2000), (10, 3, 8, 2000))[: 2 if quick else None]:
        model = problems.make_model("random", states=s, actions=a, horizon=h)
        values = {
            growth: [
                explore(model, num_episodes=episodes, replan_growth=growth, seed=i, keep_episodes=False).uncertainty
                for i in range(5)
            ]
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
            model = problems.make_model("random", states=s, actions=a, horizon=h)
            result = explore(
                model,
                uncertainty_threshold=stop,
                failure_prob=chosen.FAILURE,
                bonus=paper_bonus(),
                counting=selected_pairs,
                engine=make_batched_engine,
                replan_growth=1.3,
            )
            fluid = theory.estimate_paper_episodes(s, a, h, stop, chosen.FAILURE)
            rows.append({"size": (s, a, h), "threshold": stop, "episodes": result.num_episodes, "fluid": fluid})
    return rows


SECTIONS = (throughput, to_the_end, low_switching, budgets, exponents)


def main():
    quick = "--quick" in sys.argv
    sections = [section for section in SECTIONS if section.__name__ in sys.argv] or SECTIONS
    warm()
    for section in sections:
        rows = section(quick)
        show(analysis.TABLES[section.__name__](rows))
        sys.stdout.flush()
        if not quick:
            record("exploration", section.__name__, rows)


if __name__ == "__main__":
    main()
