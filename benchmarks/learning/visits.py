"""Models of many states: what more episodes give, where visits go, and what an agent learns that is told the types.

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
from rewardmix.learning.certificate import TrueModelComparison
from rewardmix.planning.baselines import compute_q_values_mdp
from rewardmix.policy import MarkovPolicy, one_hot_actions

BUDGETS = (20_000, 40_000)
STATES, WORLDS = (300, 1000), 3
BATCHES, DEVIATIONS = 200, 3.0
"""Of the agent that is told; one and two deviations are worse, and so are 50 batches."""


def best_arms(env: RewardMixingMDP) -> np.ndarray:
    """(X,): whether a state-action is best for a type or for nobody in particular, in the middle of an episode."""
    values = [
        compute_q_values_mdp(env, means)[env.horizon // 2] for means in (*env.mean_rewards_by_type, env.mean_rewards)
    ]
    return np.any([value >= value.max(axis=1, keepdims=True) for value in values], axis=0).ravel()


def visited(episodes: Episodes, arms: np.ndarray) -> float:
    """Share of the visits that go to some of the state-actions."""
    return float(arms[episodes.symbols // episodes.reward_values.size].mean())


def score_agent(env: RewardMixingMDP, truth: TrueModelComparison, episodes: int, seed: int) -> float:
    """The share of the best policy for those who are not told, with what an agent that is told learns of rewards."""
    belief = Belief(env.num_types, env.num_states * env.num_actions)
    for batch in range(BATCHES):
        for m in range(env.num_types):
            mean = belief.mean[m]
            hoped = mean + DEVIATIONS * np.sqrt(mean * (1.0 - mean) / (belief.visits[m] + 3.0))
            quality = compute_q_values_mdp(env, np.minimum(hoped, 1.0).reshape(env.num_states, -1))
            policy = MarkovPolicy(one_hot_actions(quality.argmax(axis=2), env.num_actions))
            number = round(episodes * env.weights[m] / BATCHES)
            belief.play(env, policy, m, number, (seed * BATCHES + batch) * env.num_types + m)
    return share_of(env, truth, belief)


def row_of(states: int, envs: int, budgets: tuple[int, ...]) -> dict[str, Any]:
    """All that is asked of models of one size."""
    row: dict[str, Any] = {"states": states, "budgets": budgets, "share": [], "explored": [], "refined": [], "told": []}
    for seed in range(envs):
        options = {"states": states, "actions": 4, "horizon": 10, "next_states": 2, "seed": seed}
        env = problems.make_model("random", **options)
        runs = [learn(env, num_episodes=episodes, seed=seed, num_resamples=0) for episodes in budgets]
        arms, explored = best_arms(env), runs[0].exploration.episodes
        assert explored is not None
        assert runs[0].refinement_episodes is not None
        row["share"].append(
            [round(run.certificate.true_model.normalized_score, 6) for run in runs if run.certificate.true_model]
        )
        row["explored"].append(round(visited(explored, arms), 4))
        row["refined"].append(round(visited(runs[0].refinement_episodes, arms), 4))
        assert runs[0].certificate.true_model is not None
        row["told"].append(score_agent(env, runs[0].certificate.true_model, budgets[0], seed))
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
