"""Simple planners to compare with, behind the same verb: each takes a model and returns a policy and its exact value.

    plan_markov    average-reward MDP. State paths do not depend on the context, so a policy that does not look at
                   rewards earns the average reward: its optimum is the best Markov policy, exactly
    plan_qmdp      plays sum_m b_m Q_m(s, a), as if the context were told after this step: never pays for information
    plan_greedy    plays the best expected reward of this step under the posterior
    plan_told      is told the context at the start: an upper bound of every policy, not a policy
    plan_uniform   plays any action

The belief policies are made into controllers with nodes at belief points (all reachable ones if they are few), so that
their values are computed and not simulated. ``compare`` sets a plan beside all of them: what adapting is worth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewardmix import belief as bayes
from rewardmix._core.algebra import dot
from rewardmix._core.brevity import short
from rewardmix._core.checks import Floats, Ints, as_instance
from rewardmix._core.limits import afford_table
from rewardmix._core.portable import angles
from rewardmix._core.streams import Role, generator
from rewardmix.evaluation import controller_value, markov_value
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_pass import Expectation, compact_controller
from rewardmix.planning.grid import Reach, log_ratios
from rewardmix.planning.planner import plan
from rewardmix.planning.plans import AlphaVectors, Plan
from rewardmix.planning.points import nearest_point, reachable_beliefs, sampled_beliefs, spread_beliefs
from rewardmix.policy import Controller, MarkovPolicy, certain, uniform

NODES = 256
"""Belief points of a belief policy that is made into a controller."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """A simple policy and what it earns.

    Attributes:
        name: for tables.
        policy: None where the value is only a bound.
        value: exact value of ``policy`` in the model that was planned for, or the bound.
        decide: (step, state, belief) -> action, for policies that follow a belief.
    """

    name: str
    policy: MarkovPolicy | Controller | None
    value: float
    decide: AlphaVectors | None = None


def plan_markov(model: RewardMixingMDP) -> Baseline:
    """The best policy that looks at the step and the state only."""
    as_instance("model", model, RewardMixingMDP)
    quality = action_values(model, model.mean)
    policy = MarkovPolicy(certain(quality.argmax(axis=2), model.num_actions))
    return Baseline("Markov", policy, markov_value(policy, model))


def plan_uniform(model: RewardMixingMDP) -> Baseline:
    """Every action equally likely."""
    as_instance("model", model, RewardMixingMDP)
    policy = uniform(model)
    return Baseline("uniform", policy, markov_value(policy, model))


def plan_told(model: RewardMixingMDP) -> Baseline:
    """What could be earned if the context were told at the start."""
    as_instance("model", model, RewardMixingMDP)
    values = [float(dot(model.initial, action_values(model, means)[0].max(axis=1))) for means in model.means]
    return Baseline("told the type", None, float(dot(model.weights, np.array(values))))


def plan_qmdp(model: RewardMixingMDP) -> Baseline:
    """Plays as if the context were told after this step."""
    as_instance("model", model, RewardMixingMDP)
    quality = np.stack([action_values(model, means) for means in model.means], axis=-1)
    return _belief_baseline("QMDP", quality, model)


def plan_greedy(model: RewardMixingMDP) -> Baseline:
    """Plays the best expected reward of this step under the posterior."""
    as_instance("model", model, RewardMixingMDP)
    means = np.moveaxis(model.means, 0, -1)
    return _belief_baseline("greedy Bayes", np.broadcast_to(means, (model.horizon, *means.shape)), model)


def action_values(model: RewardMixingMDP, means: Floats) -> Floats:
    """(H, S, A): value of each action, played optimally afterwards, when the expected rewards are ``means`` (S, A)."""
    afford_table(model.horizon, *means.shape)
    quality = np.empty((model.horizon, *means.shape))
    later = np.zeros(model.num_states)
    expect, rows = Expectation(model), np.arange(means.size)
    for t in reversed(range(model.horizon)):
        quality[t] = means + expect(rows, later[:, None]).reshape(means.shape)
        later = quality[t].max(axis=1)
    return quality


def as_controller(decide: AlphaVectors, model: RewardMixingMDP, nodes: list[Floats]) -> Controller:
    """The controller that rounds the belief to the nearest node after every step.

    Args:
        decide: the action at a belief.
        model: by which the belief moves.
        nodes: for each step the beliefs (K_t, M) of its nodes; the first of step 0 is the start.
    """
    states = np.arange(model.num_states)
    actions, successors = [], []
    for t, beliefs in enumerate(nodes):
        plays = decide.everywhere(t, beliefs)
        actions.append(plays)
        moves = np.zeros((*plays.shape, model.num_values), dtype=np.int64)
        if t + 1 < len(nodes):
            for z in range(model.num_values):
                likelihood = np.moveaxis(model.laws[:, states[:, None], plays, z], 0, -1)
                moves[:, :, z] = nearest(bayes.update(beliefs, likelihood), nodes[t + 1])
        successors.append(moves)
    return compact_controller(actions, successors, model)


def nearest(beliefs: Floats, nodes: Floats) -> Ints:
    """Index of the node (K, M) at the least Hellinger distance from each belief (..., M).

    Of two contexts a belief is an angle, arctan sqrt(b_0 / b_1), and the nodes come in increasing order of it.
    """
    if nodes.shape[1] != 2:
        return nearest_point(beliefs, nodes)
    own = angles(*np.sqrt(nodes).T)
    middles, sought = (own[1:] + own[:-1]) / 2, angles(*np.moveaxis(np.sqrt(beliefs), -1, 0))
    return np.asarray(np.searchsorted(middles, sought))


def belief_nodes(model: RewardMixingMDP, count: int = NODES) -> list[Floats]:
    """For each step, beliefs to round to: all reachable ones if few, else a grid or spread-out samples."""
    start = model.weights[None] / model.weights.sum()
    if model.num_contexts == 2:
        reach = Reach(model.weights, log_ratios(*model.laws.reshape(2, -1)), model.horizon)
        grids = [reach.grid(t, count) for t in range(model.horizon)]
        return [np.stack([grid, 1.0 - grid], axis=1) for grid in grids]
    reachable = reachable_beliefs(model, 2 * count)
    if reachable is not None:
        return reachable
    sampled = sampled_beliefs(model, 8 * count, generator(0, Role.BASELINE_BELIEFS))
    return [start, *(spread_beliefs(start, found, count) for found in sampled[1:])]


def _belief_baseline(name: str, vectors: Floats, model: RewardMixingMDP) -> Baseline:
    """Decide by the best of one vector for each action; vectors: (H, S, A, M)."""
    labels = np.broadcast_to(np.arange(model.num_actions), vectors.shape[1:3])
    decide = AlphaVectors(tuple(vectors), (labels,) * model.horizon)
    policy = as_controller(decide, model, belief_nodes(model))
    return Baseline(name, policy, controller_value(policy, model), decide)


BASELINES = plan_uniform, plan_markov, plan_greedy, plan_qmdp, plan_told


@dataclass(frozen=True)
class Standing:
    """One line of a comparison.

    Attributes:
        name: of the policy.
        value: what it earns, or a bound.
        share: of the gain of adapting, (value - Markov) / (best - Markov); NaN where adapting gains nothing.
    """

    name: str
    value: float
    share: float


@short
@dataclass(frozen=True)
class Comparison:
    """What adapting is worth in a model.

    Attributes:
        markov: value of the best Markov policy.
        adaptive_lower: lower bound of the best history-dependent policy, earned by the plan.
        adaptive_upper: upper bound of it.
        told: value if the context were told at the start.
        table: every policy, by value.
    """

    markov: float
    adaptive_lower: float
    adaptive_upper: float
    told: float
    table: tuple[Standing, ...]

    @property
    def gain(self) -> float:
        """What adapting is known to add to the best Markov policy."""
        return self.adaptive_lower - self.markov


def compare(
    model: RewardMixingMDP, *, gap: float = 1e-3, work_limit: float | None = None, time_limit: float | None = None
) -> Comparison:
    """Plan, and set the plan beside every baseline."""
    return compare_plan(plan(model, gap=gap, work_limit=work_limit, time_limit=time_limit))


def compare_plan(found: Plan) -> Comparison:
    """Set a plan beside every baseline in its model."""
    as_instance("found", found, Plan)
    others = {baseline.name: baseline.value for baseline in (make(found.model) for make in BASELINES)}
    markov, told = others["Markov"], others["told the type"]
    gain = found.lower - markov
    values = {**others, "adaptive, lower bound": found.lower, "adaptive, upper bound": found.upper}
    worth = gain > 1e-9 * max(1.0, abs(markov))
    table = [
        Standing(name, value, (value - markov) / gain if worth else float("nan")) for name, value in values.items()
    ]
    table.sort(key=lambda standing: standing.value)
    return Comparison(markov, found.lower, found.upper, told, tuple(table))
