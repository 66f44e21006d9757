"""Policy and world in, episodes out.

Models are simulated by compiled kernels for Markov tables and controllers; any other policy, and any Gymnasium
environment, is played step by step through the environment's own interface.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rewardmix import problems
from rewardmix._core.checks import Floats, as_count, as_number, as_seed, check_callback, refuse
from rewardmix._core.limits import afford_episodes
from rewardmix._core.streams import Role, stream
from rewardmix._core.widths import action_width, length_width, node_width
from rewardmix.episodes import Episodes, room_for
from rewardmix.model import RewardMixingMDP
from rewardmix.policy import Controller, Exploring, MarkovPolicy, Policy, exploring

CHUNK_EPISODES = 1 << 16
"""Episodes simulated between two calls of ``on_update``. Part of what a seed means, as each chunk has its stream."""


def simulate(
    policy: Policy,
    model_or_env: Any,
    episodes: int,
    seed: int = 0,
    *,
    explore: float = 0.0,
    on_update: Callable[[int], None] | None = None,
) -> Episodes:
    """Play ``episodes`` episodes.

    Args:
        policy: any policy.
        model_or_env: a model, a problem's name, or a Gymnasium environment with Discrete spaces.
        episodes: how many.
        seed: the same seed gives the same episodes.
        explore: chance of every step to play any action instead, so that a log of these episodes has support.
        on_update: called with the number of episodes played so far.
    """
    count = as_count("episodes", episodes, least=0)
    as_seed("seed", seed)
    check_callback("on_update", on_update)
    world = problems.as_world("model_or_env", model_or_env)
    if as_number("explore", explore) != 0.0:
        policy = exploring(policy, explore, _actions_of(world))
    if isinstance(world, RewardMixingMDP) and isinstance(_inner(policy), MarkovPolicy | Controller):
        return _simulate_model(policy, world, count, seed, on_update)
    from rewardmix import environments  # a quarter of a second that compiled simulation does not need

    if isinstance(world, RewardMixingMDP):
        world = environments.RewardMixingEnv(world)
    return environments.play(world, policy, count, seed, on_update=on_update)


def propensities(policy: Policy, episodes: Episodes) -> Floats:
    """(K, H): the chance with which a policy took each action of episodes that it played; NaN where there was none.

    Known for Markov tables and controllers, exploring or not.
    """
    floor, inner = (policy.explore, policy.policy) if isinstance(policy, Exploring) else (0.0, policy)
    states, actions = np.maximum(episodes.states[:, :-1], 0), np.maximum(episodes.actions, 0).astype(np.int64)
    steps = np.arange(episodes.horizon)
    if isinstance(inner, MarkovPolicy):
        chance = inner.table[steps, states, actions]
    elif isinstance(inner, Controller):
        codes = np.searchsorted(inner.reward_values, episodes.reward_values)[np.maximum(episodes.outcomes, 0)]
        node, own = inner.first[states[:, 0]], np.empty(actions.shape, np.bool_)
        for t in steps:
            own[:, t] = inner.actions[t][states[:, t], node] == actions[:, t]
            node = inner.successors[t][states[:, t], node, codes[:, t]]
        chance = own.astype(np.float64)
    else:
        refuse("policy", type(inner).__name__, "a Markov table or a controller, whose chances are known")
    chance = (1.0 - floor) * chance + floor / episodes.num_actions
    return np.where(episodes.present, chance, np.nan)


def _actions_of(world: Any) -> int:
    """A of a model or an environment."""
    return world.num_actions if isinstance(world, RewardMixingMDP) else int(world.action_space.n)


def _inner(policy: Any) -> Any:
    """The policy that explores, or the policy itself."""
    return policy.policy if isinstance(policy, Exploring) else policy


def _simulate_model(
    policy: Any,
    model: RewardMixingMDP,
    count: int,
    seed: int,
    on_update: Callable[[int], None] | None,
) -> Episodes:
    from rewardmix.simulation_kernels import Tables

    afford_episodes(count, model.horizon)
    tables = Tables.of(model)
    states, actions, outcomes = room_for(count, model.horizon, model.num_states, model.num_actions, model.num_values)
    run, played_policy = prepared(policy, model)
    for number, begin in enumerate(range(0, count, CHUNK_EPISODES)):
        part = slice(begin, min(begin + CHUNK_EPISODES, count))
        run(tables, played_policy, stream(seed, Role.SIMULATION, number), states[part], actions[part], outcomes[part])
        if on_update:
            on_update(part.stop)
    lengths = np.full(count, model.horizon, length_width(model.horizon))
    played = {"states": states, "actions": actions, "outcomes": outcomes, "lengths": lengths}
    return Episodes.trusted(played, model.num_states, model.num_actions, model.reward_values)


def prepared(policy: Any, model: RewardMixingMDP) -> tuple[Any, Any]:
    """The kernel that plays a policy, and the policy in the form that it wants."""
    from rewardmix._core.xoshiro import cumulative
    from rewardmix.simulation_kernels import FlatController, run_controller, run_markov

    explore, policy = (policy.explore if isinstance(policy, Exploring) else 0.0), _inner(policy)
    policy.check_fits(model)
    if isinstance(policy, MarkovPolicy):
        return run_markov, cumulative(policy.table)
    nodes = np.array([actions.shape[1] for actions in policy.actions], np.int64)
    offsets = np.concatenate([[0], np.cumsum(nodes * model.num_states)[:-1]])
    actions = np.concatenate([part.ravel() for part in policy.actions]).astype(action_width(model.num_actions))
    links = np.concatenate([part.reshape(-1, model.num_values) for part in policy.successors])
    links = links.astype(node_width(int(nodes.max())))
    first = np.ascontiguousarray(policy.first, np.int64)
    return run_controller, FlatController(nodes, offsets, actions, links, first, explore)
