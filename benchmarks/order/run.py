"""What exploring triples instead of pairs is worth, and what tables of triples hold.

python -m benchmarks.order.run [--quick] [--parts parity,alone,tables]

``parity``: ``learn`` with both orders. ``alone``: the same without refinement. ``tables``: types from tables of triples
beside types from the episodes.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import time
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np

from benchmarks.cells import show
from benchmarks.order import analysis, settings
from benchmarks.record import run
from rewardmix import problems
from rewardmix.episodes import Episodes
from rewardmix.exploration import explore
from rewardmix.learning import learn
from rewardmix.model import RewardMixingMDP
from rewardmix.recovery import recover


def together(env: RewardMixingMDP, episodes: Episodes) -> int:
    """Episodes that show three of the state-actions whose rewards depend on the type."""
    informative = np.flatnonzero(np.ptp(env.rewards, axis=0).ravel() > 1e-9)
    x = episodes.states[:, :-1].astype(int) * env.num_actions + episodes.actions
    return int((np.isin(x, informative).sum(axis=1) == 3).sum())


def one(env: RewardMixingMDP, episodes: int, order: int, seed: int, refine: float) -> dict[str, Any]:
    """One run of ``learn``, judged in the true model."""
    begin = time.process_time()
    options = {"num_types": 4, "moment_order": order, "refinement_fraction": refine, "num_resamples": 0}
    learned = learn(env, num_episodes=episodes, seed=seed, **options)
    seconds = time.process_time() - begin
    explored = learned.exploration.episodes
    return {
        "share": round(learned.certificate.true_model.normalized_score, 6),
        "together": together(env, explored),
        "explored": learned.exploration.num_episodes,
        "cpu_seconds": round(seconds, 3),
    }


def parity(quick: bool) -> Iterator[dict[str, Any]]:
    """``learn`` in models that pairs do not show."""
    return cells(settings.BUDGETS[-1:] if quick else settings.BUDGETS, 0.5, quick)


def alone(quick: bool) -> Iterator[dict[str, Any]]:
    """The largest budget spent on exploration alone."""
    return cells(settings.BUDGETS[-1:], 0.0, quick)


def cells(budgets: Sequence[int], refine: float, quick: bool) -> Iterator[dict[str, Any]]:
    """Every model with both orders; the seed also says which actions are the special ones."""
    for episodes, name, order in product(budgets, settings.WORLDS, settings.ORDERS):
        runs = [
            one(problems.make_model("parity", **settings.WORLDS[name], seed=seed), episodes, order, seed, refine)
            for seed in range(2 if quick else settings.SEEDS)
        ]
        row = {key: [run[key] for run in runs] for key in ("share", "together", "explored")}
        seconds = sorted(run["cpu_seconds"] for run in runs)[len(runs) // 2]
        yield {"problem": name, "episodes": episodes, "order": order, **row, "cpu_seconds": seconds}


def error(env: RewardMixingMDP, model: RewardMixingMDP) -> float:
    """Root mean square error of the rewards, types matched in the best way."""
    orders = permutations(range(env.num_types))
    return min(float(np.sqrt(((model.rewards[list(order)] - env.rewards) ** 2).mean())) for order in orders)


def tables(quick: bool) -> Iterator[dict[str, Any]]:
    """Recovery from tables of triples, and from the episodes that they count; the seed also draws the model."""
    for name, (problem, options, types) in settings.TABLED.items():
        from_tables, from_episodes = [], []
        for seed in range(2 if quick else settings.SEEDS):
            env = problems.make_model(problem, **options, seed=seed)
            explored = explore(env, num_episodes=settings.TABLED_BUDGET, moment_order=3, seed=seed)
            moments, episodes = explored.moments, explored.episodes
            from_tables.append(round(error(env, recover(moments, num_types=types, seed=seed).model), 5))
            both = recover(episodes, moments=moments, num_types=types, seed=seed)
            from_episodes.append(round(error(env, both.model), 5))
        row = {"problem": name, "episodes": settings.TABLED_BUDGET, "types": types}
        yield {**row, "from_tables": from_tables, "from_episodes": from_episodes}


PARTS = {"parity": parity, "alone": alone, "tables": tables}

if __name__ == "__main__":
    run(__doc__, "order", PARTS, lambda part, rows, quick: show(analysis.TABLES[part](rows)))
