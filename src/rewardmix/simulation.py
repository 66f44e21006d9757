"""Simulate episodes of a policy in a model or environment.

Markov policies and controllers in models run in compiled kernels. Other policies, and all Gymnasium environments, are
simulated step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rewardmix import problems
from rewardmix._core.budget import check_budget_episodes
from rewardmix._core.checks import Floats, as_count, as_number, as_seed, check_callback, raise_input_error
from rewardmix._core.int_dtypes import action_dtype, length_dtype, node_dtype
from rewardmix._core.random_streams import Role, kernel_stream
from rewardmix.episodes import Episodes, allocate_episodes
from rewardmix.model import RewardMixingMDP
from rewardmix.policy import Controller, EpsilonGreedyPolicy, MarkovPolicy, Policy, make_epsilon_greedy

CHUNK_EPISODES = 1 << 16
"""Number of episodes between two calls of ``callback``. Each chunk has its own random stream, so seeds depend on it."""


def simulate(
    policy: Policy,
    model_or_env: Any,
    num_episodes: int,
    seed: int = 0,
    *,
    explore_prob: float = 0.0,
    callback: Callable[[int], None] | None = None,
) -> Episodes:
    """Simulate episodes of a policy.

    Args:
        policy: Policy to play.
        model_or_env: Model, name of a built-in problem, or Gymnasium environment with Discrete spaces.
        num_episodes: Number of episodes.
        seed: Seed of all random numbers.
        explore_prob: Probability of a uniformly random action at each step, so that a log of the episodes has support.
        callback: Function that is called with the number of episodes simulated so far.

    Returns:
        Episodes with states, actions and reward indices.

    Raises:
        InputError: If the policy does not fit the model, or an argument is invalid.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> episodes = rm.simulate(rm.plan(model).policy, model, 1000, seed=0)
        >>> episodes.states.shape
        (1000, 9)
        >>> round(float(episodes.returns.mean()), 2)
        4.55
    """
    count = as_count("num_episodes", num_episodes, min_value=0)
    as_seed("seed", seed)
    check_callback("callback", callback)
    env = problems.resolve_env_or_model("model_or_env", model_or_env)
    if as_number("explore_prob", explore_prob) != 0.0:
        policy = make_epsilon_greedy(policy, explore_prob, _num_actions(env))
    if isinstance(env, RewardMixingMDP) and isinstance(_unwrap_policy(policy), MarkovPolicy | Controller):
        return _simulate_model(policy, env, count, seed, callback)
    # Importing it takes a quarter of a second, which compiled simulations do not need.
    from rewardmix import environments

    if isinstance(env, RewardMixingMDP):
        env = environments.RewardMixingEnv(env)
    return environments.rollout(env, policy, count, seed, callback=callback)


def compute_propensities(policy: Policy, episodes: Episodes) -> Floats:
    """Compute the probability with which a policy took each action of its episodes, shape (K, H); NaN after the end.

    The probabilities are known for Markov policies and controllers, with or without exploration.
    """
    explore, inner = (policy.explore_prob, policy.policy) if isinstance(policy, EpsilonGreedyPolicy) else (0.0, policy)
    # Entries after the end of an episode are -1. They are replaced by a valid index here and by NaN at the end.
    states, actions = np.maximum(episodes.states[:, :-1], 0), np.maximum(episodes.actions, 0).astype(np.int64)
    steps = np.arange(episodes.horizon)
    if isinstance(inner, MarkovPolicy):
        prob = inner.table[steps, states, actions]
    elif isinstance(inner, Controller):
        # Episodes may have fewer reward values than the controller, so their indices are translated.
        z = np.searchsorted(inner.reward_values, episodes.reward_values)[np.maximum(episodes.reward_indices, 0)]
        node, matches = inner.initial_nodes[states[:, 0]], np.empty(actions.shape, np.bool_)
        for t in steps:
            matches[:, t] = inner.actions[t][states[:, t], node] == actions[:, t]
            node = inner.next_nodes[t][states[:, t], node, z[:, t]]
        prob = matches.astype(np.float64)
    else:
        raise_input_error(
            "policy", type(inner).__name__, "a MarkovPolicy or a Controller, whose action probabilities are known"
        )
    # Exploration draws from all actions, including the policy's own.
    prob = (1.0 - explore) * prob + explore / episodes.num_actions
    return np.where(episodes.step_mask, prob, np.nan)


def _num_actions(env: Any) -> int:
    """Return the number of actions of a model or an environment."""
    return env.num_actions if isinstance(env, RewardMixingMDP) else int(env.action_space.n)


def _unwrap_policy(policy: Any) -> Any:
    """Return the policy without its exploration wrapper."""
    return policy.policy if isinstance(policy, EpsilonGreedyPolicy) else policy


def _simulate_model(
    policy: Any,
    model: RewardMixingMDP,
    count: int,
    seed: int,
    callback: Callable[[int], None] | None,
) -> Episodes:
    """Simulate a model with a compiled kernel, chunk by chunk."""
    from rewardmix.simulation_kernels import SamplingTables

    check_budget_episodes(count, model.horizon)
    tables = SamplingTables.from_model(model)
    states, actions, reward_indices = allocate_episodes(
        count, model.horizon, model.num_states, model.num_actions, model.num_values
    )
    run, kernel_policy = prepare_kernel(policy, model)
    for number, begin in enumerate(range(0, count, CHUNK_EPISODES)):
        batch = slice(begin, min(begin + CHUNK_EPISODES, count))
        run(
            tables,
            kernel_policy,
            kernel_stream(seed, Role.SIMULATION, number),
            states[batch],
            actions[batch],
            reward_indices[batch],
        )
        if callback:
            callback(batch.stop)
    lengths = np.full(count, model.horizon, length_dtype(model.horizon))
    arrays = {"states": states, "actions": actions, "reward_indices": reward_indices, "lengths": lengths}
    return Episodes.from_valid_arrays(arrays, model.num_states, model.num_actions, model.reward_values)


def prepare_kernel(policy: Any, model: RewardMixingMDP) -> tuple[Any, Any]:
    """Return the kernel that simulates a policy, and the policy in the form that the kernel takes."""
    from rewardmix._core.xoshiro import cumulate_probs
    from rewardmix.simulation_kernels import FlatController, run_controller, run_markov

    explore, policy = (policy.explore_prob if isinstance(policy, EpsilonGreedyPolicy) else 0.0), _unwrap_policy(policy)
    policy.check_fits(model)
    if isinstance(policy, MarkovPolicy):
        return run_markov, cumulate_probs(policy.table)
    # The tables of all steps are concatenated: numba compiles one kernel for flat arrays, but one for each
    # length of a tuple.
    num_nodes = np.array([actions.shape[1] for actions in policy.actions], np.int64)
    offsets = np.concatenate([[0], np.cumsum(num_nodes * model.num_states)[:-1]])
    actions = np.concatenate([table.ravel() for table in policy.actions]).astype(action_dtype(model.num_actions))
    next_nodes = np.concatenate([table.reshape(-1, model.num_values) for table in policy.next_nodes])
    next_nodes = next_nodes.astype(node_dtype(int(num_nodes.max())))
    initial_nodes = np.ascontiguousarray(policy.initial_nodes, np.int64)
    return run_controller, FlatController(num_nodes, offsets, actions, next_nodes, initial_nodes, explore)
