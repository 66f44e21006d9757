"""Compute simple policies to compare a plan with; each function takes a model and returns a policy and its exact value.

    plan_markov    MDP of the mean rewards. State paths do not depend on the type, so a policy that ignores rewards has
                   the mean reward as its value: the optimum is the best Markov policy, exactly
    plan_qmdp      plays argmax_a sum_m b_m Q_m(s, a), as if the type were revealed after this step: it does not value
                   information (Littman, Cassandra and Kaelbling, 1995)
    plan_greedy    plays the action with the largest expected reward of this step under the belief
    plan_oracle    knows the type from the start: an upper bound of every policy, not a policy
    plan_uniform   plays all actions with equal probability

Belief policies become controllers with nodes at belief points (all reachable ones if they are few), so that their
values are computed and not simulated. ``compare_planners`` lists a plan with all of them: the value of adapting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewardmix import belief as bayes
from rewardmix._core.budget import check_budget_table
from rewardmix._core.checks import Floats, Ints, as_instance
from rewardmix._core.linear_algebra import dot
from rewardmix._core.portable_math import atan2_array
from rewardmix._core.random_streams import Role, make_generator
from rewardmix._core.short_repr import use_short_repr
from rewardmix.evaluation import controller_value, markov_value
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_induction import NextStateExpectation, make_compact_controller
from rewardmix.planning.belief_grid import ReachableLogOdds, log_likelihood_ratios
from rewardmix.planning.belief_points import (
    farthest_point_subset,
    nearest_point,
    reachable_beliefs_per_step,
    sample_beliefs,
)
from rewardmix.planning.plan_result import AlphaVectors, Plan
from rewardmix.planning.planner import plan
from rewardmix.policy import Controller, MarkovPolicy, one_hot_actions, uniform_policy

NUM_BELIEF_NODES = 256
"""Number of belief points of a belief policy that becomes a controller."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """Simple policy and its value.

    Attributes:
        name: Name in tables.
        policy: The policy; None where the value is only a bound.
        value: Exact value of ``policy`` in the model that was planned for, or the bound.
        decision_rule: (step, state, belief) -> action, for policies that follow a belief.
    """

    name: str
    policy: MarkovPolicy | Controller | None
    value: float
    decision_rule: AlphaVectors | None = None


def plan_markov(model: RewardMixingMDP) -> Baseline:
    """Compute the best Markov policy, which depends on step and state only.

    Args:
        model: Model to plan in.

    Returns:
        Policy with its exact value.

    Raises:
        InputError: If ``model`` is not a model or the table of values exceeds the memory limit.

    Examples:
        >>> import rewardmix as rm
        >>> round(rm.plan_markov(rm.make_model("probe")).value, 2)
        3.8
    """
    as_instance("model", model, RewardMixingMDP)
    q_values = compute_q_values_mdp(model, model.mean_rewards)
    policy = MarkovPolicy(one_hot_actions(q_values.argmax(axis=2), model.num_actions))
    return Baseline("Markov", policy, markov_value(policy, model))


def plan_uniform(model: RewardMixingMDP) -> Baseline:
    """Compute the value of playing all actions with equal probability."""
    as_instance("model", model, RewardMixingMDP)
    policy = uniform_policy(model)
    return Baseline("uniform", policy, markov_value(policy, model))


def plan_oracle(model: RewardMixingMDP) -> Baseline:
    """Compute the expected value of an oracle that knows the type from the start.

    No history-dependent policy exceeds this value; in general no policy attains it.

    Args:
        model: Model to plan in.

    Returns:
        Bound without a policy.

    Raises:
        InputError: If ``model`` is not a model or the table of values exceeds the memory limit.

    Examples:
        >>> import rewardmix as rm
        >>> round(rm.plan_oracle(rm.make_model("probe")).value, 2)
        6.6
    """
    as_instance("model", model, RewardMixingMDP)
    values = [
        float(dot(model.initial, compute_q_values_mdp(model, means)[0].max(axis=1)))
        for means in model.mean_rewards_by_type
    ]
    return Baseline("oracle", None, float(dot(model.weights, np.array(values))))


def plan_qmdp(model: RewardMixingMDP) -> Baseline:
    """Compute the QMDP policy, which acts as if the type were revealed after this step."""
    as_instance("model", model, RewardMixingMDP)
    q_values = np.stack([compute_q_values_mdp(model, means) for means in model.mean_rewards_by_type], axis=-1)
    return _make_belief_baseline("QMDP", q_values, model)


def plan_greedy(model: RewardMixingMDP) -> Baseline:
    """Compute the policy with the largest expected reward of each step under the belief."""
    as_instance("model", model, RewardMixingMDP)
    means = np.moveaxis(model.mean_rewards_by_type, 0, -1)
    return _make_belief_baseline("greedy Bayes", np.broadcast_to(means, (model.horizon, *means.shape)), model)


def compute_q_values_mdp(model: RewardMixingMDP, means: Floats) -> Floats:
    """Compute (H, S, A) optimal action values of the MDP with mean rewards ``means`` (S, A)."""
    check_budget_table(model.horizon, *means.shape)
    q_values = np.empty((model.horizon, *means.shape))
    next_value = np.zeros(model.num_states)
    expect, rows = NextStateExpectation(model), np.arange(means.size)
    for t in reversed(range(model.horizon)):
        q_values[t] = means + expect(rows, next_value[:, None]).reshape(means.shape)
        next_value = q_values[t].max(axis=1)
    return q_values


def discretize_policy(decision_rule: AlphaVectors, model: RewardMixingMDP, nodes: list[Floats]) -> Controller:
    """Make the controller that rounds the belief to the nearest node after every step.

    Args:
        decision_rule: Action at a belief.
        model: Model that updates the belief.
        nodes: For each step the beliefs (K_t, M) of its nodes; the first of step 0 is the initial one.

    Returns:
        Controller with one node per belief and state.
    """
    states = np.arange(model.num_states)
    actions, node_tables = [], []
    for t, beliefs in enumerate(nodes):
        step_actions = decision_rule.actions_at(t, beliefs)
        actions.append(step_actions)
        next_nodes = np.zeros((*step_actions.shape, model.num_values), dtype=np.int64)
        if t + 1 < len(nodes):
            for z in range(model.num_values):
                likelihood = np.moveaxis(model.reward_probs[:, states[:, None], step_actions, z], 0, -1)
                next_nodes[:, :, z] = nearest_node(bayes.update(beliefs, likelihood), nodes[t + 1])
        node_tables.append(next_nodes)
    return make_compact_controller(actions, node_tables, model)


def nearest_node(beliefs: Floats, nodes: Floats) -> Ints:
    """Find the node (K, M) at the smallest Hellinger distance from each belief (..., M).

    With two types a belief is an angle, arctan sqrt(b_0 / b_1), and the nodes are sorted by it.
    """
    if nodes.shape[1] != 2:
        return nearest_point(beliefs, nodes)
    # Between neighboring nodes the nearer one changes at the middle angle, so a binary search replaces all distances.
    angles = atan2_array(*np.sqrt(nodes).T)
    middles, belief_angles = (angles[1:] + angles[:-1]) / 2, atan2_array(*np.moveaxis(np.sqrt(beliefs), -1, 0))
    return np.asarray(np.searchsorted(middles, belief_angles))


def make_belief_nodes(model: RewardMixingMDP, count: int = NUM_BELIEF_NODES) -> list[Floats]:
    """Make the belief nodes of each step: all reachable beliefs if few, else a grid or well-separated samples."""
    start = model.weights[None] / model.weights.sum()
    if model.num_types == 2:
        reach = ReachableLogOdds(
            model.weights, log_likelihood_ratios(*model.reward_probs.reshape(2, -1)), model.horizon
        )
        grids = [reach.grid(t, count) for t in range(model.horizon)]
        return [np.stack([grid, 1.0 - grid], axis=1) for grid in grids]
    # Exact nodes are preferred even if twice as many: the baseline is then the belief policy itself, not an
    # approximation.
    reachable = reachable_beliefs_per_step(model, 2 * count)
    if reachable is not None:
        return reachable
    samples = sample_beliefs(model, 8 * count, make_generator(0, Role.BASELINE_BELIEFS))
    return [start, *(farthest_point_subset(start, candidates, count) for candidates in samples[1:])]


def _make_belief_baseline(name: str, vectors: Floats, model: RewardMixingMDP) -> Baseline:
    """Make the baseline that plays the best of one vector per action; ``vectors`` is (H, S, A, M)."""
    labels = np.broadcast_to(np.arange(model.num_actions), vectors.shape[1:3])
    decision_rule = AlphaVectors(tuple(vectors), (labels,) * model.horizon)
    policy = discretize_policy(decision_rule, model, make_belief_nodes(model))
    return Baseline(name, policy, controller_value(policy, model), decision_rule)


BASELINES = plan_uniform, plan_markov, plan_greedy, plan_qmdp, plan_oracle


@dataclass(frozen=True)
class ComparisonRow:
    """Row of a comparison.

    Attributes:
        name: Name of the policy.
        value: Its value, or a bound.
        normalized_score: (value - Markov) / (adaptive - Markov); NaN where adapting gains nothing.
    """

    name: str
    value: float
    normalized_score: float


@use_short_repr
@dataclass(frozen=True)
class PlannerComparison:
    """Values of the adaptive plan, of simpler policies and of the oracle in one model.

    Attributes:
        markov_value: Value of the best Markov policy.
        optimal_lower: Lower bound of the best history-dependent policy, the value of the plan.
        optimal_upper: Upper bound of the best history-dependent policy.
        oracle: Value if the type is known from the start.
        table: Rows of all policies, sorted by value.

    Examples:
        >>> import rewardmix as rm
        >>> comparison = rm.compare_planners(rm.make_model("probe"))
        >>> [round(row.value, 2) for row in comparison.table]
        [2.4, 2.6, 3.55, 3.8, 4.58, 4.58, 6.6]
    """

    markov_value: float
    optimal_lower: float
    optimal_upper: float
    oracle: float
    table: tuple[ComparisonRow, ...]

    @property
    def adaptivity_gain(self) -> float:
        """Adaptivity gain, the certified gain of the plan over the best Markov policy."""
        return self.optimal_lower - self.markov_value


def compare_planners(
    model: RewardMixingMDP, *, gap: float = 1e-3, max_operations: float | None = None, max_seconds: float | None = None
) -> PlannerComparison:
    """Compare the adaptive plan of a model with simpler policies and with the oracle.

    All values are exact expected returns per episode. The difference between the plan and the best Markov policy is the
    adaptivity gain: the value of using observed rewards.

    Args:
        model: Model to plan in.
        gap: Largest difference between the certified bounds of the optimal value.
        max_operations: Budget of elementary operations, about 1e9 per second. ``None`` means no limit.
        max_seconds: Time limit. Results then depend on the machine.

    Returns:
        Table of values with ``markov_value``, ``optimal_lower``, ``optimal_upper``, ``oracle`` and ``adaptivity_gain``.

    Raises:
        InputError: If the model has more states, types or steps than the memory limit allows.

    Examples:
        >>> import rewardmix as rm
        >>> comparison = rm.compare_planners(rm.make_model("probe"))
        >>> round(comparison.markov_value, 2), round(comparison.optimal_lower, 2), round(comparison.adaptivity_gain, 2)
        (3.8, 4.58, 0.78)
    """
    return compare_with_baselines(plan(model, gap=gap, max_operations=max_operations, max_seconds=max_seconds))


def compare_with_baselines(result: Plan) -> PlannerComparison:
    """Compare an existing plan with every baseline in its model."""
    as_instance("result", result, Plan)
    baseline_values = {baseline.name: baseline.value for baseline in (make(result.model) for make in BASELINES)}
    markov, oracle = baseline_values["Markov"], baseline_values["oracle"]
    gain = result.lower - markov
    values = {**baseline_values, "adaptive, lower bound": result.lower, "adaptive, upper bound": result.upper}
    # Below this the gain is rounding, and a score relative to it would be meaningless.
    gains = gain > 1e-9 * max(1.0, abs(markov))
    table = [
        ComparisonRow(name, value, (value - markov) / gain if gains else float("nan")) for name, value in values.items()
    ]
    table.sort(key=lambda row: row.value)
    return PlannerComparison(markov, result.lower, result.upper, oracle, tuple(table))
