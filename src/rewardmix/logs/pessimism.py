"""Plan pessimistically: lower rewards by their standard errors and stay within the support of the log.

``pessimism`` is the number of standard errors and controls both parts:

    rewards     the mean reward of each type and state-action is lowered by ``pessimism`` standard errors, but not below
    the lowest reward value; untried state-actions get the lowest value. Standard errors that are not finite
    (probabilities at 0 or 1, rare rewards, many reward values) are replaced by ones from expected counts
    support     a behavior policy that depends on rewards confounds types and actions: an action it never took after a
    low reward was never observed after one, and no standard error shows that. So the plan stays within the actions that
    the log takes in comparable situations (``behavior_policy``)

If the plan for the lowered rewards stays within the support by itself, it is the result, as for logs of exploratory
policies. Otherwise the best policy within the support, with rewards lowered four times as much, is computed by a
backward pass over (state, belief, last step). A small log of a deterministic policy cannot improve on that policy: if
the policy was given, it is the result; otherwise the result is the plan restricted to the support of the log.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.random_streams import Role, derive_seed
from rewardmix._core.short_repr import use_short_repr
from rewardmix.episodes import Episodes
from rewardmix.evaluation import controller_value
from rewardmix.logs.behavior_policy import (
    BehaviorPolicy,
    HistoryFeatures,
    estimate_behavior_policy,
    history_features,
    is_history_deterministic,
    took_every_action,
)
from rewardmix.logs.belief_q_values import compute_q_values
from rewardmix.logs.off_policy import MAX_OFF_SUPPORT_FRACTION
from rewardmix.model import RewardMixingMDP, weighted_sum
from rewardmix.planning import Plan, PlanInfo, default_max_operations, plan
from rewardmix.planning.backward_induction import NextStateExpectation, make_compact_controller
from rewardmix.planning.baselines import make_belief_nodes
from rewardmix.planning.plan_result import max_rounding_error
from rewardmix.policy import Controller
from rewardmix.recovery.bootstrap import model_to_mixture
from rewardmix.recovery.likelihood import e_step
from rewardmix.recovery.reward_patterns import patterns_from_episodes
from rewardmix.simulation import simulate

DEFAULT_PESSIMISM = 0.5
"""Default number of standard errors; chosen by the study ``benchmarks/safety``."""

RESTRICTED_PESSIMISM_FACTOR = 4.0
"""Factor on ``pessimism`` for plans that have to be restricted to the support of the log."""

ERROR_PSEUDOCOUNT = 2.0
"""Pseudocounts of the lowest and of the highest reward in standard errors from counts.

Two each, as in the Agresti-Coull interval of a probability; with more reward values, four in total, spread evenly.
"""

MIN_EXPECTED_VISITS = 1e-6
"""Smallest expected number of visits per type, to avoid division by zero."""

FEW_VISITS = 20
"""State-actions with fewer visits count as thinly supported."""

SMALL_LOG = 500
"""A deterministic policy is not improved by a log with at most so many of its episodes; see ``benchmarks/safety``."""

NUM_SIMULATED_EPISODES = 2000
"""Number of episodes simulated in the fitted model to measure where a plan goes."""

STEPS_AT_ONCE = 1 << 20
"""Simulated steps whose features are in memory at a time, at some hundred bytes each."""

MAX_BELIEFS = 256
"""Largest number of belief points per step."""
MIN_BELIEFS = 16
"""Smallest number of belief points per step."""
MAX_CELLS = 2e7
"""Largest number of cells (step, state, belief, last step, action) of the backward pass.

``MIN_BELIEFS`` takes precedence.
"""


@dataclass(frozen=True)
class SupportReport:
    """How far a plan stays within the data of the log.

    Attributes:
        pessimism: number of standard errors by which rewards were lowered.
        pessimistic_value: expected return of the policy with lowered rewards.
        model_value: expected return of the policy in the fitted model.
        off_support_fraction: fraction of its steps, in the fitted model, with an action outside the support.
        low_count_fraction: fraction of its steps at state-actions with fewer than ``FEW_VISITS`` visits.
        restricted: whether the policy was restricted to the support of the log.
    """

    pessimism: float
    pessimistic_value: float
    model_value: float
    off_support_fraction: float
    low_count_fraction: float
    restricted: bool

    @property
    def text(self) -> str:
        """Support and values as a sentence."""
        percent = f"{100 * self.low_count_fraction:.1f} %"
        visits = f"{percent} of the plan's steps are at state-actions with fewer than {FEW_VISITS} visits."
        actions = self._describe_actions()
        if not self.pessimism:
            return f"{visits} {actions} The plan uses the fitted rewards and all actions (pessimism 0)."
        value = f"{self.pessimistic_value:.4f} with rewards lowered by {self.pessimism:g} standard errors"
        return f"{visits} {actions} Value of the plan: {self.model_value:.4f} in the fitted model, {value}."

    def _describe_actions(self) -> str:
        """Describe whether the plan's actions are within the support of the log."""
        if self.off_support_fraction > MAX_OFF_SUPPORT_FRACTION:
            fraction = f"{100 * self.off_support_fraction:.1f} %"
            return f"{fraction} of its steps take actions that the log rarely takes in comparable situations."
        if self.restricted:
            return "The plan is restricted to actions that the log takes in comparable situations."
        return "The plan takes actions that the log takes in comparable situations."


@dataclass(frozen=True)
class SmallLogSupport(SupportReport):
    """How much of a plan rests on a log that is too small to improve on the policy that wrote it.

    Attributes:
        keeps_given_policy: whether the plan is the given policy, which took every action of the log.
    """

    keeps_given_policy: bool

    def _describe_actions(self) -> str:
        """Describe what the plan does instead of improving on the policy that wrote the log."""
        if self.keeps_given_policy:
            text = "The plan is the given policy, which took all actions of the log."
            return f"{text} The log is too small to improve on it."
        return (
            f"{super()._describe_actions()} The log is too small to improve on the policy that wrote it; pass the run "
            "of that policy as init_model to keep it."
        )


@use_short_repr
@dataclass(frozen=True, eq=False)
class FittedLog:
    """Inputs of pessimistic planning.

    Attributes:
        episodes: the log, or a sample of it.
        model: model fitted to it.
        reward_errors: standard errors of ``model.rewards``.
        visits: (S, A) visit counts of the whole log.
        propensities: (K, H) probabilities of the logged actions, if the log has them.
        policy: policy that wrote the log, if it was given and the log is too small to improve on it.
    """

    episodes: Episodes
    model: RewardMixingMDP
    reward_errors: Floats
    visits: NDArray[np.int64]
    propensities: Floats | None = None
    policy: Controller | None = None


def policy_to_keep(start: Any, episodes: Episodes, model: RewardMixingMDP) -> Controller | None:
    """Return the policy of ``start`` if it took every action of a small log, otherwise None.

    Args:
        start: a plan, or a result that has one; anything else gives None.
        episodes: the log.
        model: the fitted model, which the policy has to fit.
    """
    kept_plan = start if isinstance(start, Plan) else getattr(start, "plan", None)
    if not isinstance(kept_plan, Plan) or len(episodes) > SMALL_LOG:
        return None
    policy = kept_plan.policy
    sizes = policy.num_states, policy.horizon, policy.reward_values.tolist()
    fits = sizes == (model.num_states, model.horizon, model.reward_values.tolist())
    return policy if fits and policy.max_action < model.num_actions and took_every_action(policy, episodes) else None


def plan_pessimistically(
    trusting_plan: Plan, fitted_log: FittedLog, pessimism: float, gap: float, seed: int
) -> tuple[Plan, SupportReport, BehaviorPolicy]:
    """Compute the pessimistic plan, with its support and the estimated behavior policy.

    ``trusting_plan`` is the plan that trusts the model; its upper bound stays valid for the pessimistic plan.
    """
    behavior_policy = estimate_behavior_policy(fitted_log.episodes, fitted_log.model)
    if not pessimism:
        return (
            trusting_plan,
            _measure_support(trusting_plan.policy, fitted_log, behavior_policy, fitted_log.model, 0.0, False, seed),
            behavior_policy,
        )
    pessimistic_model = make_pessimistic_model(fitted_log, pessimism)
    if fitted_log.policy is not None:
        support = _measure_support(fitted_log.policy, fitted_log, None, pessimistic_model, pessimism, True, seed)
        return _make_plan(trusting_plan, fitted_log.policy, gap, True), _as_small_log(support, True), behavior_policy
    policy = plan(pessimistic_model, gap=gap, max_operations=default_max_operations(pessimistic_model)).policy
    support = _measure_support(policy, fitted_log, behavior_policy, pessimistic_model, pessimism, False, seed)
    if support.off_support_fraction > MAX_OFF_SUPPORT_FRACTION:
        # A restricted plan gets a larger penalty: the restriction itself shows that the log is not exploratory, and
        # then standard errors understate the uncertainty.
        policy = plan_within_support(
            behavior_policy,
            fitted_log.model,
            make_pessimistic_model(fitted_log, RESTRICTED_PESSIMISM_FACTOR * pessimism),
        )
        support = _measure_support(policy, fitted_log, behavior_policy, pessimistic_model, pessimism, True, seed)
        if len(fitted_log.episodes) <= SMALL_LOG and is_history_deterministic(fitted_log.episodes):
            support = _as_small_log(support, False)
    return _make_plan(trusting_plan, policy, gap, support.restricted), support, behavior_policy


def make_pessimistic_model(fitted_log: FittedLog, pessimism: float) -> RewardMixingMDP:
    """Return the model with lower mean rewards.

    Each state-action keeps its reward probabilities with probability 1 - share and gives the lowest reward otherwise,
    so the result is a valid model. The share lowers the mean by the requested number of standard errors.
    """
    model = fitted_log.model
    values = model.reward_values - model.reward_values[0]
    errors = _mean_errors(fitted_log, values)
    above = model.mean_rewards_by_type - model.reward_values[0]
    # Where the mean is the lowest reward already, nothing is left to take off, and the division is skipped.
    share = np.where(above > 0, np.minimum(pessimism * errors / np.where(above > 0, above, 1.0), 1.0), 0.0)
    is_tried = np.ones(share.shape[1:], np.bool_)
    # Visits have no row for the end state of the model; it counts as visited, since its reward is known to be 0.
    is_tried[: fitted_log.visits.shape[0]] = fitted_log.visits > 0
    share = np.where(is_tried, share, 1.0)[..., None]
    lowest = np.zeros(model.num_values)
    lowest[0] = 1.0
    return replace(model, rewards=(1.0 - share) * model.reward_probs + share * lowest)


def _mean_errors(fitted_log: FittedLog, values: Floats) -> Floats:
    """Compute the standard error (M, S, A) of each mean reward.

    Where a probability has no finite standard error, the error comes from counts.
    """
    finite, is_binary = np.isfinite(fitted_log.reward_errors), fitted_log.model.num_values == 2
    errors = np.where(finite, fitted_log.reward_errors, 0.0)
    mean_errors: Floats = errors * values[1] if is_binary else np.sqrt(((errors * values) ** 2).sum(axis=-1))
    is_complete = finite if is_binary else finite.all(axis=-1)
    # Components that are not finite entered as 0, so ``mean_errors`` is a lower bound there. The larger of both
    # estimates is used.
    return (
        mean_errors
        if is_complete.all()
        else np.where(is_complete, mean_errors, np.maximum(mean_errors, count_based_errors(fitted_log, values)))
    )


def count_based_errors(fitted_log: FittedLog, values: Floats) -> Floats:
    """Compute the standard error (M, S, A) of each mean reward from the expected number of visits n of each type.

    With p the probabilities of the Z reward values v and q = p + 2 ``ERROR_PSEUDOCOUNT`` / (Z n), the squared error is

        (sum(q) sum(q v^2) - sum(q v)^2) / n            Z = 2:  (p + a / n) (1 - p + a / n) (v_1 - v_0)^2 / n

    This is the multinomial variance var(v) / n plus a term that keeps it positive if p is 0 or 1. It decreases in n.
    """
    model, episodes = fitted_log.model, fitted_log.episodes
    counts = e_step(patterns_from_episodes(episodes), model_to_mixture(model, episodes)).reward_counts.sum(axis=-1)
    visits = np.zeros(model.mean_rewards_by_type.shape)
    visits[:, : episodes.num_states] = counts.reshape(model.num_types, episodes.num_states, -1)
    visits = np.maximum(visits, MIN_EXPECTED_VISITS)
    reward_probs = np.moveaxis(model.reward_probs, -1, 0) + 2.0 * ERROR_PSEUDOCOUNT / (model.num_values * visits)
    squares = (
        weighted_sum(np.ones(values.size), reward_probs) * weighted_sum(values**2, reward_probs)
        - weighted_sum(values, reward_probs) ** 2
    )
    # The difference of two nearly equal products can round to a negative number.
    return np.asarray(np.sqrt(np.maximum(squares, 0.0) / visits))


def plan_within_support(
    behavior_policy: BehaviorPolicy, model: RewardMixingMDP, lowered: RewardMixingMDP
) -> Controller:
    """Plan the best policy in the pessimistic model that takes only supported actions.

    Beliefs are updated by the fitted ``model``; rewards are those of the pessimistic one.
    """
    states, last_steps = np.arange(model.num_states), np.arange(behavior_policy.num_last_steps)
    cells_per_belief = model.horizon * model.num_states * behavior_policy.num_last_steps * model.num_actions
    # The number of belief points is as large as the budget of cells allows, because the cost is proportional to it.
    nodes = make_belief_nodes(model, int(min(MAX_BELIEFS, max(MIN_BELIEFS, MAX_CELLS / cells_per_belief))))
    expect = NextStateExpectation(lowered)
    actions, next_nodes = [], []
    next_values: Floats | None = None
    for t in reversed(range(model.horizon)):
        q_values, q_nodes = compute_q_values(model, lowered, nodes, t, next_values, expect)
        features = HistoryFeatures(t, states[:, None, None], nodes[t][None, :, None], last_steps)
        expected = (q_values * nodes[t][None, :, None]).sum(axis=-1)
        # Unsupported actions get -inf. At least one action is supported everywhere; ties go to the lowest action index.
        chosen_actions = np.where(behavior_policy.in_support(features), expected[:, :, None], -np.inf).argmax(axis=-1)
        next_values = np.take_along_axis(q_values[:, :, None], chosen_actions[..., None, None], axis=3)[:, :, :, 0]
        nodes_next = np.take_along_axis(q_nodes[:, :, None], chosen_actions[..., None, None], axis=3)[:, :, :, 0]
        last_codes = 1 + chosen_actions[..., None] * model.num_values + np.arange(model.num_values)
        count = nodes[t].shape[0] * behavior_policy.num_last_steps
        actions.append(chosen_actions.reshape(-1, count))
        next_nodes.append(
            (nodes_next * behavior_policy.num_last_steps + last_codes).reshape(-1, count, model.num_values)
        )
    return make_compact_controller(actions[::-1], next_nodes[::-1], model)


def _measure_support(
    policy: Controller,
    fitted_log: FittedLog,
    behavior_policy: BehaviorPolicy | None,
    pessimistic_model: RewardMixingMDP,
    pessimism: float,
    restricted: bool,
    seed: int,
) -> SupportReport:
    """Simulate the policy in the fitted model and measure how far it stays within the log.

    Without ``behavior_policy`` every action is in the support: the policy is the one that wrote the log.
    """
    model = fitted_log.model
    episodes = simulate(policy, model, NUM_SIMULATED_EPISODES, derive_seed(seed, Role.PLANNED_STEPS))
    outside = 0.0 if behavior_policy is None else float((~_steps_in_support(behavior_policy, episodes, model)).mean())
    # The end state has no visits in the log. It gets enough to not count as thinly supported.
    visits = np.full((model.num_states, model.num_actions), FEW_VISITS, np.int64)
    visits[: fitted_log.visits.shape[0]] = fitted_log.visits
    return SupportReport(
        pessimism,
        controller_value(policy, pessimistic_model),
        controller_value(policy, model),
        outside,
        float((visits[episodes.states[:, :-1], episodes.actions] < FEW_VISITS).mean()),
        restricted,
    )


def _as_small_log(support: SupportReport, keeps_given_policy: bool) -> SmallLogSupport:
    values = {field.name: getattr(support, field.name) for field in fields(support)}
    return SmallLogSupport(**values, keeps_given_policy=keeps_given_policy)


def _steps_in_support(behavior_policy: BehaviorPolicy, episodes: Episodes, model: RewardMixingMDP) -> NDArray[np.bool_]:
    """Return (K, H) whether the action of each step is in the support, in blocks of episodes to limit memory."""
    size = max(1, STEPS_AT_ONCE // episodes.horizon)
    in_support = np.empty(episodes.actions.shape, np.bool_)
    for begin in range(0, len(episodes), size):
        block = episodes[begin : begin + size]
        supported = behavior_policy.in_support(history_features(block, model))
        actions = block.actions.astype(np.int64)[..., None]
        in_support[begin : begin + size] = np.take_along_axis(supported, actions, axis=-1)[..., 0]
    return in_support


def _make_plan(trusting_plan: Plan, policy: Controller, gap: float, restricted: bool) -> Plan:
    """Make a plan of this policy with the upper bound of ``trusting_plan``."""
    model = trusting_plan.model
    # The value is exact up to rounding. Subtracting the rounding bound makes it a certified lower bound.
    lower = min(controller_value(policy, model) - max_rounding_error(model, model.num_states), trusting_plan.upper)
    converged = trusting_plan.upper - lower <= gap
    reason = trusting_plan.info.stop_reason if converged else "the plan is restricted to the support of the log"
    return Plan(
        policy,
        lower,
        trusting_plan.upper,
        PlanInfo(converged, trusting_plan.info.requested_gap, reason, trusting_plan.info.rounds),
        model,
        restricted,
    )
