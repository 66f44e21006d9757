"""Evaluate a policy: exactly in a model if its form allows, by simulation otherwise.

Markov policy: state distributions do not depend on the type, so the value is the sum of mean rewards under the state
distribution of each step. Controller: for each type m, backwards,

    V_m[t, s, k] = sum_z p_m(z | s, a) (v_z + sum_s' T(s' | s, a) V_m[t+1, s', next_node(t, s, k, z)])

with a = action(t, s, k). The cost is linear in the number of nodes, and the value is exact in any model, also in one
that the controller was not made for. If state-actions have few next states, most nodes of a large controller belong to
histories of probability 0, and only reachable nodes are evaluated. Both ways give equal bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewardmix import problems
from rewardmix._core.checks import Floats, Ints, as_count, as_number, as_seed, check_callback
from rewardmix._core.linear_algebra import dot, product
from rewardmix._core.random_streams import Role, derive_seed
from rewardmix.bounded_mean import ReturnBounds, mean_interval, return_bounds
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP, state_action_index, weighted_sum
from rewardmix.policy import Controller, MarkovPolicy, Policy
from rewardmix.simulation import simulate

MIN_NODES_SPARSE, MAX_DENSITY_SPARSE = 20_000, 0.5
"""Smallest number of (step, state, node), and largest density of transitions, for evaluating reachable nodes only."""


@dataclass(frozen=True)
class Evaluation:
    """Value of a policy, with a confidence interval if it was estimated.

    Attributes:
        value: expected return of an episode.
        lower: lower end of the interval; ``value`` if exact.
        upper: upper end of the interval; ``value`` if exact.
        is_exact: whether the value was computed and not simulated.
        num_episodes: number of simulated episodes, 0 if exact.
        approximate: whether the interval was made without bounds of a return.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> evaluation = rm.evaluate(rm.uniform_policy(model), model)
        >>> round(evaluation.value, 3), evaluation.is_exact, evaluation.num_episodes
        (3.552, True, 0)
    """

    value: float
    lower: float
    upper: float
    is_exact: bool
    num_episodes: int = 0
    approximate: bool = False


def evaluate(
    policy: Policy,
    model_or_env: Any,
    *,
    num_episodes: int = 10_000,
    failure_prob: float = 0.05,
    seed: int = 0,
    callback: Callable[[int], None] | None = None,
) -> Evaluation:
    """Evaluate a policy: exactly for a Markov policy or a controller in a model, by Monte Carlo otherwise.

    Args:
        policy: Any policy.
        model_or_env: A model, the name of a problem, or a Gymnasium environment with Discrete spaces.
        num_episodes: Number of episodes to simulate if the value is not exact.
        failure_prob: Approximate probability that the interval misses the value (``rewardmix.bounded_mean``). If
            neither the environment nor the policy states the reward values, the interval is approximate, and the whole
            line if all returns are 0.
        seed: Seed of the simulated episodes.
        callback: Called with the number of episodes simulated so far.

    Returns:
        Expected return per episode with its interval, which is a single point if the value is exact.

    Raises:
        InputError: If the policy does not fit the model or environment, or an argument is out of range.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> round(rm.evaluate(rm.uniform_policy(model), model).value, 3)
        3.552
        >>> estimate = rm.evaluate(rm.uniform_policy(model), rm.make_env(model), num_episodes=2000)
        >>> estimate.lower < 3.552 < estimate.upper
        True
    """
    as_count("num_episodes", num_episodes, min_value=0)
    as_number("failure_prob", failure_prob, above=0.0, below=1.0)
    as_seed("seed", seed)
    check_callback("callback", callback)
    if isinstance(model_or_env, RewardMixingMDP):
        if isinstance(policy, MarkovPolicy):
            return _exact_result(markov_value(policy, model_or_env))
        if isinstance(policy, Controller):
            return _exact_result(controller_value(policy, model_or_env))
    # An interval needs two episodes. Exact values above need none, hence the weaker check at the beginning.
    count = as_count("num_episodes", num_episodes, min_value=2)
    env = problems.resolve_env_or_model("model_or_env", model_or_env)
    returns, bounds = _play_returns(policy, env, count, derive_seed(seed, Role.EVALUATION), callback)
    return confidence_interval(returns, failure_prob, bounds)


def _play_returns(
    policy: Policy, env: Any, count: int, seed: int, callback: Callable[[int], None] | None
) -> tuple[Floats, ReturnBounds | None]:
    """Simulate episodes and return their returns, with bounds of a return.

    There are no bounds if the reward values are unknown, or known only as bins.
    """
    if isinstance(env, RewardMixingMDP):
        returns = simulate(policy, env, count, seed, callback=callback).returns
        return returns, return_bounds(env.reward_values, env.horizon, may_end=False)
    from rewardmix import environments  # takes a quarter of a second, which models do not need

    simulated = environments.play_returns(env, policy, count, seed, callback)
    values = simulated.reward_values
    return simulated.returns, None if values is None else return_bounds(values, simulated.horizon)


def confidence_interval(returns: Floats, failure_prob: float = 0.05, bounds: ReturnBounds | None = None) -> Evaluation:
    """Make an evaluation from independent returns, with the interval of ``bounded_mean``."""
    value = float(returns.mean())
    lower, upper = mean_interval(returns, failure_prob, bounds)
    # Bisection and rounding may move an end past the mean by an ulp.
    ends = min(lower, value), max(upper, value)
    return Evaluation(value, *ends, is_exact=False, num_episodes=returns.size, approximate=bounds is None)


def bounds_of(episodes: Episodes, policy: Policy, env: Any) -> ReturnBounds | None:
    """Bound the return of these episodes; None if the reward values are unknown."""
    if isinstance(env, RewardMixingMDP):
        return return_bounds(env.reward_values, env.horizon, may_end=False)
    from rewardmix.environments.rollouts import get_reward_values

    env_values = get_reward_values(env)
    values = getattr(policy, "reward_values", None) if env_values is None else env_values
    return None if values is None else return_bounds(values, episodes.horizon)


def markov_value(policy: MarkovPolicy, model: RewardMixingMDP) -> float:
    """Compute the exact value of a Markov policy."""
    policy.check_fits(model)
    state_probs = model.initial
    total = 0.0
    for t in range(model.horizon):
        joint = state_probs[:, None] * policy.table[t]
        total += float((joint * model.mean_rewards).sum())
        state_probs = multiply_transition(joint.reshape(1, -1), model.transition_rows)[0]
    return total


def controller_value(policy: Controller, model: RewardMixingMDP) -> float:
    """Compute the exact value of a controller."""
    policy.check_fits(model)
    values = (
        evaluate_reachable_nodes(policy, model)
        if _prefers_sparse(policy, model)
        else _evaluate_all_nodes(policy, model)
    )
    return float(dot(weighted_sum(model.weights, values), model.initial))


def _evaluate_all_nodes(policy: Controller, model: RewardMixingMDP) -> Floats:
    """Evaluate all nodes and return the value (M, S) of the initial node of each state."""
    *_, first = node_values(policy, model)
    return np.ascontiguousarray(first[np.arange(model.num_states), policy.initial_nodes].T)


def _prefers_sparse(policy: Controller, model: RewardMixingMDP) -> bool:
    """Return whether evaluating reachable nodes only is faster: many nodes, and few next states."""
    rows = model.transition_rows
    possible = rows.nnz if model.is_sparse else np.count_nonzero(rows)
    nodes = sum(actions.shape[1] for actions in policy.actions) * model.num_states
    return nodes >= MIN_NODES_SPARSE and bool(possible <= MAX_DENSITY_SPARSE * rows.shape[0] * rows.shape[1])


def evaluate_reachable_nodes(policy: Controller, model: RewardMixingMDP) -> Floats:
    """Evaluate the reachable nodes only and return the value (M, S) of the initial nodes; 0 for other states."""
    from rewardmix.evaluation_kernels import backup_node_values

    transitions = _transition_entries(model)
    steps = list(iter_reachable_nodes(policy, model, transitions))
    probs, means = _reward_tables(model)
    types = tuple(range(model.num_types))
    nodes, rows, _ = steps[-1]
    # At the last step the value of a node is the mean reward of its state-action, so rows of ``means`` serve as values.
    node_rows, next_values = rows, means
    for actions, (previous_nodes, previous_rows, next_nodes) in zip(policy.actions[:0:-1], steps[-2::-1], strict=True):
        value = np.empty((previous_nodes.size, model.num_types))
        # Four bytes halve the memory of this table. A controller with more nodes than int32 can index would not fit
        # into memory.
        row_table = np.zeros(actions.shape, dtype=np.int32)
        row_table.reshape(-1)[nodes] = node_rows
        backup_node_values(previous_rows, next_nodes, probs, means, *transitions, row_table, next_values, types, value)
        nodes, node_rows, next_values = previous_nodes, np.arange(previous_nodes.size), value
    initial_values = np.zeros((model.num_types, model.num_states))
    initial_values[:, nodes // policy.actions[0].shape[1]] = next_values[node_rows].T
    return initial_values


def iter_reachable_nodes(
    policy: Controller, model: RewardMixingMDP, transitions: tuple[Ints, Ints, Floats]
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Iterate over the reachable nodes of each step.

    Yields (E,) flat indices into (S, K), (E,) state-actions and (E, Z) next nodes.
    """
    from rewardmix.evaluation_kernels import mark_reachable_nodes

    reachable = np.zeros(policy.actions[0].shape, dtype=np.bool_)
    reachable[np.arange(model.num_states), policy.initial_nodes] = model.initial > 0
    for t, (actions, node_table) in enumerate(zip(policy.actions, policy.next_nodes, strict=True)):
        nodes = np.flatnonzero(reachable)
        node_actions = actions.reshape(-1)[nodes].astype(np.int64)
        rows = state_action_index(nodes // actions.shape[1], node_actions, model.num_actions)
        next_nodes = node_table.reshape(-1, model.num_values)[nodes].astype(np.int64)
        yield nodes, rows, next_nodes
        if t + 1 < model.horizon:
            reachable = np.zeros(policy.actions[t + 1].shape, dtype=np.bool_)
            mark_reachable_nodes(rows, next_nodes, *transitions[:2], reachable)


def _transition_entries(model: RewardMixingMDP) -> tuple[Ints, Ints, Floats]:
    """Return transitions as compressed rows: row offsets, next states in increasing order, probabilities."""
    rows = model.transition_rows
    if model.is_sparse:
        return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), np.array(rows.data)
    owner, columns = np.nonzero(rows)
    return np.searchsorted(owner, np.arange(rows.shape[0] + 1)), columns, rows[owner, columns]


def _reward_tables(model: RewardMixingMDP) -> tuple[Floats, Floats]:
    """Return reward probabilities (X, Z, M) and mean rewards (X, M)."""
    probs = np.ascontiguousarray(np.moveaxis(model.reward_probs, 0, -1)).reshape(-1, model.num_values, model.num_types)
    return probs, np.ascontiguousarray(np.moveaxis(model.mean_rewards_by_type, 0, -1)).reshape(-1, model.num_types)


def node_values(policy: Controller, model: RewardMixingMDP) -> Iterator[Floats]:
    """Iterate over t = H .. 1 and yield the value (S, K_t, M) of each node under each type."""
    policy.check_fits(model)
    probs, means = _reward_tables(model)
    states = np.arange(model.num_states)[:, None]
    next_values: Floats | None = None
    for actions, next_nodes in zip(reversed(policy.actions), reversed(policy.next_nodes), strict=True):
        rows = state_action_index(states, actions.astype(np.int64), model.num_actions)
        values = means[rows]
        if next_values is not None:
            # Only state-actions that the controller takes at this step are multiplied; at most steps these are few.
            is_taken = np.zeros(means.shape[0], dtype=np.bool_)
            is_taken[rows] = True
            expected = multiply_transition(
                model.transition_rows[np.flatnonzero(is_taken)], next_values.reshape(model.num_states, -1)
            )
            expected = expected.reshape(-1, *next_values.shape[1:])
            position = (np.cumsum(is_taken) - 1)[rows]
            # Rewards are summed in a fixed order, from the lowest to the highest, which gives equal bits on both paths.
            for z in range(model.num_values):
                values += probs[rows, z] * expected[position, next_nodes[:, :, z]]
        yield values
        next_values = values


def node_occupancy(policy: Controller, model: RewardMixingMDP) -> Iterator[Floats]:
    """Iterate over t = 1 .. H and yield the probability (M, S, K_t) of each type, state and node."""
    policy.check_fits(model)
    states = np.arange(model.num_states)
    occupancy = np.zeros((model.num_types, *policy.actions[0].shape))
    occupancy[:, states, policy.initial_nodes] = model.weights[:, None] * model.initial
    for t in range(model.horizon):
        yield occupancy
        if t + 1 == model.horizon:
            return
        actions = policy.actions[t].astype(np.int64)
        rows = state_action_index(states[:, None], actions, model.num_actions)
        joint = np.zeros((model.num_types, model.num_states * model.num_actions, policy.actions[t + 1].shape[1]))
        for m in range(model.num_types):
            for z in range(model.num_values):
                prob = occupancy[m] * model.reward_probs[m, states[:, None], actions, z]
                # Several nodes lead to one pair of state-action and next node; np.add.at sums repeated indices, in a
                # fixed order.
                np.add.at(joint[m], (rows, policy.next_nodes[t][:, :, z]), prob)
        occupancy = np.stack([multiply_transition(model.transition_rows.T, next_probs) for next_probs in joint])


def multiply_transition(left: Any, right: Any) -> Floats:
    """Multiply two matrices, one of them a dense or sparse transition matrix."""
    return np.asarray(
        product(left, right) if isinstance(left, np.ndarray) and isinstance(right, np.ndarray) else left @ right
    )


def _exact_result(value: float) -> Evaluation:
    return Evaluation(value, value, value, is_exact=True)
