"""Other ways to learn from the same number of episodes; each returns the exact value of its policy in the world."""

from __future__ import annotations

import numpy as np

from rewardmix._core.jit import kernel
from rewardmix.evaluation import controller_value, markov_value
from rewardmix.exploration import explore, uniformly
from rewardmix.learning import learn
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import plan, plan_markov
from rewardmix.policy import Controller
from rewardmix.recovery import algorithm_3, normal, recover

GAP = 1e-3


def ours(world: RewardMixingMDP, episodes: int, seed: int) -> float:
    """``learn`` as it is."""
    return controller_value(learn(world, episodes=episodes, seed=seed, resamples=0).policy, world)


def exploration_only(world: RewardMixingMDP, episodes: int, seed: int) -> float:
    """``learn`` without refinement: Algorithm 1's stages alone."""
    return controller_value(learn(world, episodes=episodes, seed=seed, resamples=0, refine=0).policy, world)


def papers_recovery(world: RewardMixingMDP, episodes: int, seed: int) -> float:
    """The same exploration, then Algorithm 3 as printed; it is told the weights, which it cannot estimate."""
    found = learn(world, episodes=episodes, seed=seed, resamples=0, method=algorithm_3, weights=world.weights)
    return controller_value(found.policy, world)


def papers_recovery_narrow(world: RewardMixingMDP, episodes: int, seed: int) -> float:
    """The same with radii of three standard errors instead of Hoeffding's, which are far too wide at such budgets."""
    seen = explore(world, episodes=episodes, seed=seed)
    found = recover(seen.gathered, seed=seed, method=algorithm_3, weights=world.weights, radius=normal(3.0))
    return controller_value(plan(found.model, gap=GAP).policy, world)


def uniform_exploration(world: RewardMixingMDP, episodes: int, seed: int) -> float:
    """Actions at random, then the same recovery (EM) and the same planning."""
    seen = explore(world, episodes=episodes, strategy=uniformly, seed=seed)
    return controller_value(plan(recover(seen.gathered, seed=seed).model, gap=GAP).policy, world)


def average_reward(world: RewardMixingMDP, episodes: int, seed: int) -> float:
    """The same exploration, then the best policy for the average reward: contexts are ignored."""
    found = learn(world, episodes=episodes, seed=seed, resamples=0, refine=0)
    return markov_value(plan_markov(found.model).policy, world)


def q_learning(world: RewardMixingMDP, episodes: int, seed: int) -> float:
    """Tabular Q-learning on (step, state, last reward), half of the actions at random at first and fewer later."""
    horizon, states, actions, values = world.horizon, world.num_states, world.num_actions, world.num_values
    quality = np.zeros((horizon, states, values + 1, actions))
    rows = world.transition_rows
    moves = np.cumsum(rows.toarray() if world.is_sparse else rows, axis=1)
    draws = np.random.default_rng([seed, 7]).random((episodes, 2 + 4 * horizon))
    _q_learn(
        draws,
        np.cumsum(world.initial),
        np.cumsum(world.weights),
        moves,
        np.cumsum(world.laws, axis=-1),
        world.reward_values,
        np.zeros(quality.shape),
        quality,
    )
    best = quality.argmax(axis=-1)
    successors = np.broadcast_to(np.arange(1, values + 1), (states, values + 1, values)).copy()
    memory = Controller(tuple(best), (successors,) * horizon, np.zeros(states, np.int64), world.reward_values)
    return controller_value(memory, world)


@kernel
def _q_learn(draws, initial, weights, moves, laws, reward_values, visits, quality):  # type: ignore[no-untyped-def]
    episodes, horizon, actions = draws.shape[0], quality.shape[0], quality.shape[3]
    for k in range(episodes):
        state = np.searchsorted(initial, draws[k, 0] * initial[-1], "right")
        context = np.searchsorted(weights, draws[k, 1] * weights[-1], "right")
        memory = 0
        random = max(0.05, 0.5 * (1.0 - k / episodes))
        for t in range(horizon):
            u = draws[k, 2 + 4 * t : 6 + 4 * t]
            action = int(u[1] * actions) if u[0] < random else np.argmax(quality[t, state, memory])
            law = laws[context, state, action]
            outcome = np.searchsorted(law, u[2] * law[-1], "right")
            row = moves[state * actions + action]
            following = np.searchsorted(row, u[3] * row[-1], "right")
            target = reward_values[outcome]
            if t + 1 < horizon:
                target += np.max(quality[t + 1, following, outcome + 1])
            visits[t, state, memory, action] += 1.0
            step = visits[t, state, memory, action] ** -0.7
            quality[t, state, memory, action] += step * (target - quality[t, state, memory, action])
            state, memory = following, outcome + 1


METHODS = {
    "learn": ours,
    "without refinement": exploration_only,
    "paper's recovery": papers_recovery,
    "paper's, 3 sd": papers_recovery_narrow,
    "EM, uniform exploration": uniform_exploration,
    "average-reward MDP": average_reward,
    "Q-learning": q_learning,
}
