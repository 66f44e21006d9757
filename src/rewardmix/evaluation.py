"""What a policy earns: exactly in a model where its form allows, by playing otherwise.

Markov table: state paths do not depend on the context, so it earns the mean reward along its state law.
Controller: in each context m, backwards,

    V_m[t, s, k] = sum_z R_m(z | s, a) (v_z + sum_s' T(s' | s, a) V_m[t+1, s', successor(t, s, k, z)])

with a = action(t, s, k). That is linear in the number of nodes, and exact in any model, whichever model the controller
was made for. Where state-actions have few next states, most nodes of a large controller belong to histories that cannot
be: then only those are valued that a path enters. The value has the same bits either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewardmix import problems
from rewardmix._core.algebra import dot, product
from rewardmix._core.checks import Floats, Ints, as_count, as_number, as_seed, check_callback
from rewardmix._core.streams import Role, seed_for
from rewardmix.bounded_mean import ReturnBounds, mean_interval, return_bounds
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP, mixed, state_action
from rewardmix.policy import Controller, MarkovPolicy, Policy
from rewardmix.simulation import simulate

MANY_NODES, THIN = 20_000, 0.5
"""Nodes in all states and steps, and share of the next states, from and up to which only entered nodes are valued."""


@dataclass(frozen=True)
class Evaluation:
    """The value of a policy.

    Attributes:
        value: expected sum of rewards of an episode.
        lower: lower end of its interval (``value`` itself if exact).
        upper: upper end.
        exact: computed, not simulated.
        episodes: how many were played (0 if exact).
        approximate: whether the interval had to do without bounds of a return.
    """

    value: float
    lower: float
    upper: float
    exact: bool
    episodes: int = 0
    approximate: bool = False


def evaluate(
    policy: Policy,
    model_or_env: Any,
    *,
    episodes: int = 10_000,
    failure: float = 0.05,
    seed: int = 0,
    on_update: Callable[[int], None] | None = None,
) -> Evaluation:
    """Value of ``policy``: exact for a Markov table or a controller in a model, otherwise Monte Carlo.

    Args:
        policy: any policy.
        model_or_env: a model, a problem's name, or a Gymnasium environment with Discrete spaces.
        episodes: how many to play where the value is not exact.
        failure: the interval misses the value with about this probability (``rewardmix.bounded_mean``). Where neither
            the environment nor the policy says which rewards there are, it is approximate; the whole line if nothing
            was paid.
        seed: of the played episodes.
        on_update: called with the number of episodes played so far.
    """
    as_count("episodes", episodes, least=0)
    as_number("failure", failure, above=0.0, below=1.0)
    as_seed("seed", seed)
    check_callback("on_update", on_update)
    if isinstance(model_or_env, RewardMixingMDP):
        if isinstance(policy, MarkovPolicy):
            return _exactly(markov_value(policy, model_or_env))
        if isinstance(policy, Controller):
            return _exactly(controller_value(policy, model_or_env))
    count = as_count("episodes", episodes, least=2)
    world = problems.as_world("model_or_env", model_or_env)
    returns, bounds = _play_returns(policy, world, count, seed_for(seed, Role.EVALUATION), on_update)
    return interval(returns, failure, bounds)


def _play_returns(
    policy: Policy, world: Any, count: int, seed: int, on_update: Callable[[int], None] | None
) -> tuple[Floats, ReturnBounds | None]:
    """What each of so many episodes earns, in rewards as they are paid, and what a return cannot leave.

    There are no bounds where nobody says which rewards there are, or where they are known by bins only.
    """
    if isinstance(world, RewardMixingMDP):
        returns = simulate(policy, world, count, seed, on_update=on_update).returns
        return returns, return_bounds(world.reward_values, world.horizon, may_end=False)
    from rewardmix import environments  # a quarter of a second that models do not need

    played = environments.play_returns(world, policy, count, seed, on_update)
    values = played.reward_values
    return played.returns, None if values is None else return_bounds(values, played.horizon)


def interval(returns: Floats, failure: float = 0.05, bounds: ReturnBounds | None = None) -> Evaluation:
    """Mean of independent returns with the interval of ``bounded_mean``; approximate without bounds of a return."""
    value = float(returns.mean())
    lower, upper = mean_interval(returns, failure, bounds)
    ends = min(lower, value), max(upper, value)  # which rounding may have passed
    return Evaluation(value, *ends, exact=False, episodes=returns.size, approximate=bounds is None)


def bounds_of(played: Episodes, policy: Policy, world: Any) -> ReturnBounds | None:
    """What a return of these episodes cannot leave; None where nobody says which rewards there are."""
    if isinstance(world, RewardMixingMDP):
        return return_bounds(world.reward_values, world.horizon, may_end=False)
    from rewardmix.environments.playing import reward_values_of

    declared = reward_values_of(world)
    values = getattr(policy, "reward_values", None) if declared is None else declared
    return None if values is None else return_bounds(values, played.horizon)


def markov_value(policy: MarkovPolicy, model: RewardMixingMDP) -> float:
    """Exact value of a Markov table."""
    policy.check_fits(model)
    law = model.initial
    total = 0.0
    for t in range(model.horizon):
        joint = law[:, None] * policy.table[t]
        total += float((joint * model.mean).sum())
        law = carried(joint.reshape(1, -1), model.transition_rows)[0]
    return total


def controller_value(policy: Controller, model: RewardMixingMDP) -> float:
    """Exact value of a controller."""
    policy.check_fits(model)
    values = entered_value(policy, model) if _is_thin(policy, model) else _every_value(policy, model)
    return float(dot(mixed(model.weights, values), model.initial))


def _every_value(policy: Controller, model: RewardMixingMDP) -> Floats:
    """(M, S): what the policy earns from its first node on, from all nodes."""
    *_, first = node_values(policy, model)
    return np.ascontiguousarray(first[np.arange(model.num_states), policy.first].T)


def _is_thin(policy: Controller, model: RewardMixingMDP) -> bool:
    """Whether it pays to value only the nodes that are entered: there are many, and few next states."""
    rows = model.transition_rows
    possible = rows.nnz if model.is_sparse else np.count_nonzero(rows)
    nodes = sum(part.shape[1] for part in policy.actions) * model.num_states
    return nodes >= MANY_NODES and bool(possible <= THIN * rows.shape[0] * rows.shape[1])


def entered_value(policy: Controller, model: RewardMixingMDP) -> Floats:
    """(M, S): what the policy earns from its first node on, from those nodes alone that a path enters; else 0."""
    from rewardmix.evaluation_kernels import earn_ahead

    moves = _entries(model)
    steps = list(entered_nodes(policy, model, moves))
    laws, means = _outcome_tables(model)
    contexts = tuple(range(model.num_contexts))
    nodes, rows, _ = steps[-1]
    place, later = rows, means  # what the last step earns is that of its state-action
    for actions, (before, played, following) in zip(policy.actions[:0:-1], steps[-2::-1], strict=True):
        value = np.empty((before.size, model.num_contexts))
        places = np.zeros(actions.shape, dtype=np.int32)  # half the memory; more nodes would not fit into it
        places.reshape(-1)[nodes] = place
        earn_ahead(played, following, laws, means, *moves, places, later, contexts, value)
        nodes, place, later = before, np.arange(before.size), value
    first = np.zeros((model.num_contexts, model.num_states))
    first[:, nodes // policy.actions[0].shape[1]] = later[place].T
    return first


def entered_nodes(
    policy: Controller, model: RewardMixingMDP, moves: tuple[Ints, Ints, Floats]
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Of each step, the nodes that a path enters: places (E,) in (S, K), state-actions (E,) and next nodes (E, Z)."""
    from rewardmix.evaluation_kernels import enter_nodes

    entered = np.zeros(policy.actions[0].shape, dtype=np.bool_)
    entered[np.arange(model.num_states), policy.first] = model.initial > 0
    for t, (actions, successors) in enumerate(zip(policy.actions, policy.successors, strict=True)):
        nodes = np.flatnonzero(entered)
        played = actions.reshape(-1)[nodes].astype(np.int64)
        rows = state_action(nodes // actions.shape[1], played, model.num_actions)
        following = successors.reshape(-1, model.num_values)[nodes].astype(np.int64)
        yield nodes, rows, following
        if t + 1 < model.horizon:
            entered = np.zeros(policy.actions[t + 1].shape, dtype=np.bool_)
            enter_nodes(rows, following, *moves[:2], entered)


def _entries(model: RewardMixingMDP) -> tuple[Ints, Ints, Floats]:
    """Transition rows as (first entry of each, next states, chances), next states in order."""
    rows = model.transition_rows
    if model.is_sparse:
        return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), np.array(rows.data)
    owner, columns = np.nonzero(rows)
    return np.searchsorted(owner, np.arange(rows.shape[0] + 1)), columns, rows[owner, columns]


def _outcome_tables(model: RewardMixingMDP) -> tuple[Floats, Floats]:
    """(X, Z, M) laws of the outcome, and (X, M) expected rewards."""
    laws = np.ascontiguousarray(np.moveaxis(model.laws, 0, -1)).reshape(-1, model.num_values, model.num_contexts)
    return laws, np.ascontiguousarray(np.moveaxis(model.means, 0, -1)).reshape(-1, model.num_contexts)


def node_values(policy: Controller, model: RewardMixingMDP) -> Iterator[Floats]:
    """(S, K_t, M) for t = H .. 1: what each node earns in each context from there on, by the recursion above."""
    policy.check_fits(model)
    laws, means = _outcome_tables(model)
    states = np.arange(model.num_states)[:, None]
    later: Floats | None = None
    for actions, successors in zip(reversed(policy.actions), reversed(policy.successors), strict=True):
        rows = state_action(states, actions.astype(np.int64), model.num_actions)
        now = means[rows]
        if later is not None:
            played = np.zeros(means.shape[0], dtype=np.bool_)  # few state-actions are, at most steps
            played[rows] = True
            onward = carried(model.transition_rows[np.flatnonzero(played)], later.reshape(model.num_states, -1))
            onward = onward.reshape(-1, *later.shape[1:])
            place = (np.cumsum(played) - 1)[rows]
            for z in range(model.num_values):
                now += laws[rows, z] * onward[place, successors[:, :, z]]
        yield now
        later = now


def node_chances(policy: Controller, model: RewardMixingMDP) -> Iterator[Floats]:
    """(M, S, K_t) for t = 1 .. H: how likely the policy is to be in each context, state and node."""
    policy.check_fits(model)
    states = np.arange(model.num_states)
    law = np.zeros((model.num_contexts, *policy.actions[0].shape))
    law[:, states, policy.first] = model.weights[:, None] * model.initial
    for t in range(model.horizon):
        yield law
        if t + 1 == model.horizon:
            return
        actions = policy.actions[t].astype(np.int64)
        rows = state_action(states[:, None], actions, model.num_actions)
        onward = np.zeros((model.num_contexts, model.num_states * model.num_actions, policy.actions[t + 1].shape[1]))
        for m in range(model.num_contexts):
            for z in range(model.num_values):
                chance = law[m] * model.laws[m, states[:, None], actions, z]
                np.add.at(onward[m], (rows, policy.successors[t][:, :, z]), chance)
        law = np.stack([carried(model.transition_rows.T, part) for part in onward])


def carried(left: Any, right: Any) -> Floats:
    """left right, one of them a transition, dense or sparse."""
    return np.asarray(
        product(left, right) if isinstance(left, np.ndarray) and isinstance(right, np.ndarray) else left @ right
    )


def _exactly(value: float) -> Evaluation:
    return Evaluation(value, value, value, exact=True)
