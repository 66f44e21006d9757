"""Other ways to learn from the same number of episodes; each returns the exact value of its policy in the model."""

from __future__ import annotations

import numpy as np

from rewardmix._core.jit import kernel
from rewardmix.evaluation import controller_value, markov_value
from rewardmix.exploration import explore, uniform_strategy
from rewardmix.learning import learn
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import plan, plan_markov
from rewardmix.policy import Controller
from rewardmix.recovery import algorithm_3, normal_rule, recover

GAP = 1e-3


def ours(env: RewardMixingMDP, episodes: int, seed: int) -> float:
    """``learn`` as it is."""
    return controller_value(learn(env, num_episodes=episodes, seed=seed, num_resamples=0).policy, env)


def exploration_only(env: RewardMixingMDP, episodes: int, seed: int) -> float:
    """``learn`` without refinement: Algorithm 1's stages alone."""
    return controller_value(
        learn(env, num_episodes=episodes, seed=seed, num_resamples=0, refinement_fraction=0).policy, env
    )


def papers_recovery(env: RewardMixingMDP, episodes: int, seed: int) -> float:
    """The same exploration, then Algorithm 3 as printed; it is told the weights, which it cannot estimate."""
    learned = learn(env, num_episodes=episodes, seed=seed, num_resamples=0, method=algorithm_3, weights=env.weights)
    return controller_value(learned.policy, env)


def papers_recovery_narrow(env: RewardMixingMDP, episodes: int, seed: int) -> float:
    """The same with radii of three standard errors instead of Hoeffding's, which are far too wide at such budgets."""
    explored = explore(env, num_episodes=episodes, seed=seed)
    recovered = recover(
        explored.episodes, seed=seed, method=algorithm_3, weights=env.weights, radius_rule=normal_rule(3.0)
    )
    return controller_value(plan(recovered.model, gap=GAP).policy, env)


def uniform_exploration(env: RewardMixingMDP, episodes: int, seed: int) -> float:
    """Actions at random, then the same recovery (EM) and the same planning."""
    explored = explore(env, num_episodes=episodes, strategy=uniform_strategy, seed=seed)
    return controller_value(plan(recover(explored.episodes, seed=seed).model, gap=GAP).policy, env)


def average_reward(env: RewardMixingMDP, episodes: int, seed: int) -> float:
    """The same exploration, then the best policy for the average reward: types are ignored."""
    learned = learn(env, num_episodes=episodes, seed=seed, num_resamples=0, refinement_fraction=0)
    return markov_value(plan_markov(learned.model).policy, env)


def q_learning(env: RewardMixingMDP, episodes: int, seed: int) -> float:
    """Tabular Q-learning on (step, state, last reward), half of the actions at random at first and fewer later."""
    horizon, states, actions, values = env.horizon, env.num_states, env.num_actions, env.num_values
    quality = np.zeros((horizon, states, values + 1, actions))
    rows = env.transition_rows
    transitions = np.cumsum(rows.toarray() if env.is_sparse else rows, axis=1)
    draws = np.random.default_rng([seed, 7]).random((episodes, 2 + 4 * horizon))
    _q_learn(
        draws,
        np.cumsum(env.initial),
        np.cumsum(env.weights),
        transitions,
        np.cumsum(env.reward_probs, axis=-1),
        env.reward_values,
        np.zeros(quality.shape),
        quality,
    )
    best = quality.argmax(axis=-1)
    next_nodes = np.broadcast_to(np.arange(1, values + 1), (states, values + 1, values)).copy()
    memory = Controller(tuple(best), (next_nodes,) * horizon, np.zeros(states, np.int64), env.reward_values)
    return controller_value(memory, env)


@kernel
def _q_learn(draws, initial, weights, transitions, probs, reward_values, visits, quality):  # type: ignore[no-untyped-def]
    episodes, horizon, actions = draws.shape[0], quality.shape[0], quality.shape[3]
    for k in range(episodes):
        state = np.searchsorted(initial, draws[k, 0] * initial[-1], "right")
        m = np.searchsorted(weights, draws[k, 1] * weights[-1], "right")
        memory = 0
        random = max(0.05, 0.5 * (1.0 - k / episodes))
        for t in range(horizon):
            u = draws[k, 2 + 4 * t : 6 + 4 * t]
            action = int(u[1] * actions) if u[0] < random else np.argmax(quality[t, state, memory])
            cumulative = probs[m, state, action]
            reward_index = np.searchsorted(cumulative, u[2] * cumulative[-1], "right")
            row = transitions[state * actions + action]
            next_state = np.searchsorted(row, u[3] * row[-1], "right")
            target = reward_values[reward_index]
            if t + 1 < horizon:
                target += np.max(quality[t + 1, next_state, reward_index + 1])
            visits[t, state, memory, action] += 1.0
            step = visits[t, state, memory, action] ** -0.7
            quality[t, state, memory, action] += step * (target - quality[t, state, memory, action])
            state, memory = next_state, reward_index + 1


METHODS = {
    "learn": ours,
    "without refinement": exploration_only,
    "paper's recovery": papers_recovery,
    "paper's, 3 sd": papers_recovery_narrow,
    "EM, uniform exploration": uniform_exploration,
    "average-reward MDP": average_reward,
    "Q-learning": q_learning,
}
