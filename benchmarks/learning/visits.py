"""Worlds of many states: what more episodes give, where visits go, and what an agent learns that is told the types.

python -m benchmarks.learning.visits [--quick]

The agent is told the moves, and the type of each episode before it starts. It plays the best policy for that type in
which every reward is some standard deviations better than what was seen. Nothing of it is the product's: it says what a
number of visits can be worth where nothing but rewards has to be learned.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from benchmarks.cells import show
from benchmarks.learning import analysis
from benchmarks.learning.ceiling import Belief, share_of
from benchmarks.record import record
from rewardmix import Episodes, RewardMixingMDP, problems
from rewardmix.learning import learn
from rewardmix.learning.certificate import Truth
from rewardmix.planning.baselines import action_values
from rewardmix.policy import MarkovPolicy, certain

BUDGETS = (20_000, 40_000)
STATES, WORLDS = (300, 1000), 3
BATCHES, DEVIATIONS = 200, 3.0
"""Of the agent that is told; one and two deviations are worse, and so are 50 batches."""


def best_arms(world: RewardMixingMDP) -> np.ndarray:
    """(X,): whether a state-action is best for a type or for nobody in particular, in the middle of an episode."""
    values = [action_values(world, means)[world.horizon // 2] for means in (*world.means, world.mean)]
    return np.any([value >= value.max(axis=1, keepdims=True) for value in values], axis=0).ravel()


def visited(episodes: Episodes, arms: np.ndarray) -> float:
    """Share of the visits that go to some of the state-actions."""
    return float(arms[episodes.symbols // episodes.reward_values.size].mean())


def told(world: RewardMixingMDP, truth: Truth, episodes: int, seed: int) -> float:
    """The share of the best policy for those who are not told, with what an agent that is told learns of rewards."""
    belief = Belief(world.num_contexts, world.num_states * world.num_actions)
    for batch in range(BATCHES):
        for m in range(world.num_contexts):
            mean = belief.mean[m]
            hoped = mean + DEVIATIONS * np.sqrt(mean * (1.0 - mean) / (belief.visits[m] + 3.0))
            quality = action_values(world, np.minimum(hoped, 1.0).reshape(world.num_states, -1))
            policy = MarkovPolicy(certain(quality.argmax(axis=2), world.num_actions))
            number = round(episodes * world.weights[m] / BATCHES)
            belief.play(world, policy, m, number, (seed * BATCHES + batch) * world.num_contexts + m)
    return share_of(world, truth, belief)


def row_of(states: int, worlds: int, budgets: tuple[int, ...]) -> dict[str, Any]:
    """All that is asked of worlds of one size."""
    row: dict[str, Any] = {"states": states, "budgets": budgets, "share": [], "explored": [], "refined": [], "told": []}
    for seed in range(worlds):
        options = {"states": states, "actions": 4, "horizon": 10, "successors": 2, "seed": seed}
        world = problems.make("random", **options)
        runs = [learn(world, episodes=episodes, seed=seed, resamples=0) for episodes in budgets]
        arms, explored = best_arms(world), runs[0].exploration.gathered
        assert explored is not None
        assert runs[0].refinement is not None
        row["share"].append([round(run.certificate.truth.share, 6) for run in runs if run.certificate.truth])
        row["explored"].append(round(visited(explored, arms), 4))
        row["refined"].append(round(visited(runs[0].refinement, arms), 4))
        assert runs[0].certificate.truth is not None
        row["told"].append(told(world, runs[0].certificate.truth, budgets[0], seed))
    return row


def main() -> None:
    """All sizes."""
    quick = "--quick" in sys.argv
    sizes = (100,) if quick else STATES
    rows = [row_of(states, 1 if quick else WORLDS, (2000,) if quick else BUDGETS) for states in sizes]
    show(analysis.visits(rows))
    if not quick:
        record("learning", "visits", rows, program="visits")


if __name__ == "__main__":
    main()
