"""How much of the adaptivity gain ``learn`` captures: problems x budgets x seeds, exact values throughout.

python -m benchmarks.learning.run [--quick] [--parts hard,grid,long,deep,large,others]

``python -m benchmarks.learning.analysis`` prints the tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from benchmarks.cells import show
from benchmarks.learning import analysis, settings
from benchmarks.learning.deep import falling_lock
from benchmarks.learning.others import METHODS
from benchmarks.record import run
from rewardmix import problems
from rewardmix.learning import learn
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import plan, plan_markov


def world_of(name: str) -> RewardMixingMDP:
    """The problem by its name in tables."""
    problem, options = {**settings.PROBLEMS, **settings.DEEP}[name]
    return falling_lock(**options) if problem == "falling lock" else problems.make_model(problem, **options)


def one(env: RewardMixingMDP, episodes: int, seed: int, **options: Any) -> dict[str, float]:
    """One run of ``learn``, judged in the true model."""
    begin = time.process_time()
    truth = learn(env, num_episodes=episodes, seed=seed, num_resamples=0, **options).certificate.true_model
    return {
        "share": truth.normalized_score,
        "regret": truth.regret,
        "value": truth.policy_value,
        "best": truth.optimal_upper,
        "markov": truth.markov_value,
        "cpu_seconds": time.process_time() - begin,
    }


def row_of(name: str, episodes: int, runs: list[dict[str, float]]) -> dict[str, Any]:
    """What is kept of the runs of one cell."""
    row: dict[str, Any] = {"problem": name, "episodes": episodes, "seeds": len(runs)}
    for key in ("share", "regret", "value"):
        row[key] = [round(run[key], 6) for run in runs]
    seconds = sorted(run["cpu_seconds"] for run in runs)[len(runs) // 2]
    return {**row, "best": runs[0]["best"], "markov": runs[0]["markov"], "cpu_seconds": seconds}


def grid(quick: bool) -> Iterator[dict[str, Any]]:
    """The main table: small budgets first, so that an interrupted run has whole columns."""
    return cells(settings.BUDGETS[: 2 if quick else None], 2 if quick else settings.SEEDS)


def long(quick: bool) -> Iterator[dict[str, Any]]:
    """The last column of the main table."""
    return cells((5000 if quick else settings.LONG_BUDGET,), 1 if quick else settings.LONG_SEEDS)


def cells(budgets: Sequence[int], seeds: int) -> Iterator[dict[str, Any]]:
    """Every problem at every budget."""
    for episodes, name in product(budgets, settings.PROBLEMS):
        env = world_of(name)
        yield row_of(name, episodes, [one(env, episodes, seed) for seed in range(seeds)])


def deep(quick: bool) -> Iterator[dict[str, Any]]:
    """Deeper models."""
    for episodes, name in product(settings.DEEP_BUDGETS, settings.DEEP):
        env, seeds = world_of(name), 2 if quick else settings.SEEDS
        yield row_of(name, episodes, [one(env, episodes, seed) for seed in range(seeds)])


def large(quick: bool) -> Iterator[dict[str, Any]]:
    """Models of many states, with refinement and, for a few seeds, without."""
    for states, seeds in settings.LARGE_SEEDS.items():
        runs: dict[str, list[dict[str, float]]] = {"learn": [], "without refinement": []}
        for seed in range(1 if quick else seeds):
            options = {"states": states, "actions": 4, "horizon": 10, "next_states": 2, "seed": seed}
            env = problems.make_model("random", **options)
            runs["learn"].append(one(env, settings.LARGE_BUDGET, seed))
            if seed < settings.FEW:
                runs["without refinement"].append(one(env, settings.LARGE_BUDGET, seed, refinement_fraction=0))
        for way, way_runs in runs.items():
            bounds = {key: [round(run[key], 6) for run in way_runs] for key in ("best", "markov")}
            row = row_of(f"S = {states:,}", settings.LARGE_BUDGET, way_runs)
            yield {**row, **bounds, "states": states, "way": way}


def hard(quick: bool) -> Iterator[dict[str, Any]]:
    """The hard family at the number of episodes that its lower bound asks for."""
    for name in ("hard e=.04", "hard e=.01"):
        env, epsilon = world_of(name), settings.PROBLEMS[name][1]["epsilon"]
        points = env.num_states * env.num_actions
        episodes = round(settings.HARD_FACTOR * points**2 / epsilon**2)
        yield row_of(name, episodes, [one(env, episodes, seed) for seed in range(3 if quick else settings.HARD_SEEDS)])


def others(quick: bool) -> Iterator[dict[str, Any]]:
    """Every other way to learn, on some of the problems."""
    few = 1 if quick else None
    for name in settings.OTHERS_PROBLEMS[:few]:
        env = world_of(name)
        best, markov = plan(env, gap=1e-4).lower, plan_markov(env).value
        row = {"problem": name, "best": best, "markov": markov}
        for episodes, (method, call) in product(settings.OTHERS_BUDGETS[:few], METHODS.items()):
            values = [call(env, episodes, seed) for seed in range(2 if quick else settings.OTHERS_SEEDS)]
            share = [(value - markov) / (best - markov) for value in values]
            yield {**row, "episodes": episodes, "method": method, "value": values, "share": share}


PARTS = {"hard": hard, "grid": grid, "long": long, "deep": deep, "large": large, "others": others}
SHOWN = {
    "grid": analysis.share,
    "long": analysis.share,
    "deep": analysis.deep,
    "large": analysis.large,
    "hard": analysis.hard,
    "others": analysis.others,
}

if __name__ == "__main__":
    run(__doc__, "learning", PARTS, lambda part, rows, quick: show(SHOWN[part](rows)))
