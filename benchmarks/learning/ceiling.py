"""Models of many states: how far the same episodes go for agents that are told the type of every episode and the moves.

python -m benchmarks.learning.ceiling [--quick]

Nothing of them is the product's, and nothing is left to learn for them but the expected rewards. These are drawn
uniformly in the models of the study, which the agents know too, so what they believe after any episodes is a beta law
for each type and state-action. Once their episodes are spent they play the best policy of the model with the means of
these laws, for those who are not told the type: on average nobody does better with the same visits, but for what
planning leaves open and for episodes that come to a state-action twice. What is left to choose is where to look, and
that is what the agents differ in. No upper limit follows: others may look at better places.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.cells import show
from benchmarks.learning import analysis
from benchmarks.record import record
from rewardmix import RewardMixingMDP, evaluate, plan, problems
from rewardmix._core.checks import Floats
from rewardmix.learning import learn
from rewardmix.learning.certificate import TrueModelComparison
from rewardmix.learning.refinement import NUM_BATCHES_LARGE, draw_optimism, shift_means
from rewardmix.planning import default_max_operations
from rewardmix.policy import Controller, Policy
from rewardmix.simulation import simulate

BUDGETS = (5000, 10_000, 20_000, 40_000)
STATES, WORLDS = (300, 1000), 5
BEST_OF = 3
MILD, BOLD = (2.0, 1.0), (3.0, 0.5)
"""Hope at first and at the end; chosen on eight models of other seeds, like the other ways to look."""

Look = Callable[["Belief", float, int], Floats]
"""What is believed, the share of the episodes that is spent, a seed -> (M, X) rewards whose best policy is played."""


class Belief:
    """The laws (M, X) of expected rewards, whose prior is uniform.

    Attributes:
        visits: how often each type visited each state-action.
        paid: how often that paid.
    """

    def __init__(self, types: int, points: int) -> None:
        self.visits, self.paid = np.zeros((types, points)), np.zeros((types, points))

    @property
    def mean(self) -> Floats:
        """Means of the laws."""
        return np.asarray((self.paid + 1.0) / (self.visits + 2.0))

    def draw(self, number: int, seed: int) -> Floats:
        """(number, M, X) means drawn from the laws."""
        size = (number, *self.paid.shape)
        return np.random.default_rng(seed).beta(self.paid + 1.0, self.visits - self.paid + 1.0, size)

    def lifted(self, deviations: Floats) -> Floats:
        """Means that are better by some standard deviations."""
        probs = np.stack([1.0 - self.mean, self.mean], axis=2)
        return shift_means(probs, self.visits + 2.0, np.array([0.0, 1.0]), deviations)[..., 1]

    def play(self, env: RewardMixingMDP, policy: Policy, m: int, number: int, seed: int) -> None:
        """See so many episodes of type m."""
        alone = replace(env, rewards=np.stack([env.rewards[m]] * env.num_types))
        self.see(m, simulate(policy, alone, number, seed=seed).symbols)

    def see(self, m: int, symbols: np.ndarray) -> None:
        """Count the rewards of episodes of type m."""
        points, reward_index = np.divmod(symbols.astype(np.int64), 2)
        self.visits[m] += np.bincount(points, minlength=self.visits.shape[1])
        self.paid[m] += np.bincount(points, weights=reward_index, minlength=self.visits.shape[1])


LOOKS: dict[str, Look] = {
    "posterior sampling": lambda belief, spent, seed: belief.draw(1, seed)[0],
    "by turns the likeliest world and a draw": lambda belief, spent, seed: (
        belief.draw(1, seed)[0] if seed % 2 else belief.mean
    ),
    f"the best of {BEST_OF} draws of each reward": lambda belief, spent, seed: belief.draw(BEST_OF, seed).max(axis=0),
    "hope of two deviations, no chance": lambda belief, spent, seed: belief.lifted(np.full_like(belief.mean, 2.0)),
    "hope and chance, from 2 to 1 deviations": lambda belief, spent, seed: belief.lifted(
        draw_optimism(belief.mean.shape, spent, seed, MILD)
    ),
    "hope and chance, from 3 to .5 deviations": lambda belief, spent, seed: belief.lifted(
        draw_optimism(belief.mean.shape, spent, seed, BOLD)
    ),
}


def policy_of(env: RewardMixingMDP, means: Floats, gap: float, num_plans: int = 1) -> Controller:
    """The best policy for those who are not told the type, if these (M, X) were the rewards."""
    model = replace(env, rewards=means.reshape(env.rewards.shape))
    return plan(model, gap=gap, max_operations=default_max_operations(model) / num_plans).policy


def score_agent(env: RewardMixingMDP, truth: TrueModelComparison, look: Look, episodes: int, seed: int) -> float:
    """The normalized score of an agent that looks in one way."""
    belief = Belief(env.num_types, env.num_states * env.num_actions)
    ends = np.linspace(0, episodes, NUM_BATCHES_LARGE + 1).astype(int)
    for batch, number in enumerate(np.diff(ends).tolist()):
        drawing = seed * NUM_BATCHES_LARGE + batch
        policy = policy_of(env, look(belief, batch / NUM_BATCHES_LARGE, drawing), 1e-2, NUM_BATCHES_LARGE)
        types = np.random.default_rng([seed, batch]).multinomial(number, env.weights)
        for m, count in enumerate(types.tolist()):
            belief.play(env, policy, m, count, drawing * env.num_types + m)
    return share_of(env, truth, belief)


def share_of(env: RewardMixingMDP, truth: TrueModelComparison, belief: Belief) -> float:
    """The normalized score of the best policy for those who are not told, by what is believed."""
    value = evaluate(policy_of(env, belief.mean, 5e-3), env).value
    return round(replace(truth, policy_value=value).normalized_score, 6)


def rows_of(states: int, envs: int, budgets: tuple[int, ...]) -> list[dict[str, Any]]:
    """A row for each agent and budget; the first agent is ``learn``, which is told nothing."""
    shares: dict[tuple[str, int], list[float]] = {(name, n): [] for name in ("learn", *LOOKS) for n in budgets}
    for seed in range(envs):
        env = problems.make_model("random", states=states, actions=4, horizon=10, next_states=2, seed=seed)
        for episodes in budgets:
            truth = learn(env, num_episodes=episodes, seed=seed, num_resamples=0).certificate.true_model
            assert truth is not None
            shares["learn", episodes].append(round(truth.normalized_score, 6))
            for name, look in LOOKS.items():
                shares[name, episodes].append(score_agent(env, truth, look, episodes, seed))
    return [{"states": states, "agent": name, "episodes": n, "share": scores} for (name, n), scores in shares.items()]


def main() -> None:
    """All sizes."""
    quick = "--quick" in sys.argv
    rows = []
    for states in (100,) if quick else STATES:
        rows += rows_of(states, 1 if quick else WORLDS, (2000,) if quick else BUDGETS)
    show(analysis.ceiling(rows))
    if not quick:
        record("learning", "ceiling", rows, program="ceiling")


if __name__ == "__main__":
    main()
