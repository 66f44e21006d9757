"""Estimate the value of a policy from episodes of another one (off-policy evaluation).

For a controller with deterministic actions a_t, propensity b_t of the logged action, V_t the controller's value in the
fitted model at the state, node and belief of step t, and w_t = product up to t of [actions agree] / b_t:

    estimate of an episode = V_0 + sum_t w_t (reward_t + V_{t+1} - V_t)

This is the doubly robust estimator (Jiang and Li, 2016): unbiased if b is correct, whatever V is, and of small variance
if V is accurate. b comes from the log (propensities), or is estimated from other episodes (``behavior_policy``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewardmix import belief as bayes
from rewardmix._core.checks import Floats
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan
from rewardmix.recovery.standard_errors import NORMAL_95

MIN_EFFECTIVE_SAMPLES = 30.0
"""Smallest effective sample size that supports an estimate."""

MIN_RARE_REWARDS = 10
"""Smallest number of episodes in which an action of the policy received another reward than the most common one."""

PSEUDO_ESTIMATES = 2.0
"""Pseudo-episodes in the standard error, each as far from the mean as the most extreme one."""

MAX_OFF_SUPPORT_FRACTION = 0.01
"""Largest fraction of steps outside the support of the log at which a policy still counts as supported."""


@dataclass(frozen=True)
class OffPolicyEstimate:
    """Off-policy estimate of a policy's value.

    Attributes:
        is_supported: whether the log supports an estimate.
        value: estimated expected return, NaN if not supported.
        lower: lower end of the 95 % interval.
        upper: upper end of the 95 % interval.
        effective_sample_size: (sum w)^2 / sum w^2 of the final importance weights.
        num_matched: number of episodes whose actions all agree with the policy.
        num_episodes: number of held-out episodes.
        text: result as a sentence.
    """

    is_supported: bool
    value: float
    lower: float
    upper: float
    effective_sample_size: float
    num_matched: int
    num_episodes: int
    text: str


def estimate_off_policy(
    plan: Plan,
    held_out: Episodes,
    propensities: Floats,
    *,
    off_support_fraction: float = 0.0,
    num_propensity_episodes: int = 0,
) -> OffPolicyEstimate:
    """Estimate the value of ``plan.policy`` from held-out episodes.

    Args:
        plan: Policy, and the model whose values reduce the variance.
        held_out: Episodes that were not used for the plan.
        propensities: (K, H) probability of each logged action, known or estimated from other episodes.
        off_support_fraction: Fraction of the plan's steps outside the support of the log.
        num_propensity_episodes: Number of episodes from which propensities were estimated, whose error is added; 0:
            known.
    """
    estimates, weights, has_rare_reward = _doubly_robust_estimates(plan, held_out, propensities)
    squared_sum = float((weights**2).sum())
    effective = float(weights.sum()) ** 2 / squared_sum if squared_sum > 0 else 0.0
    num_matched = int((weights > 0).sum())
    count, num_rare = len(held_out), int(has_rare_reward.sum())
    if (
        off_support_fraction > MAX_OFF_SUPPORT_FRACTION
        or effective < MIN_EFFECTIVE_SAMPLES
        or count < 2
        or num_rare < MIN_RARE_REWARDS
    ):
        empty = float("nan")
        text = _explain_no_estimate(off_support_fraction, num_matched, count, effective, num_rare)
        return OffPolicyEstimate(False, empty, empty, empty, effective, num_matched, count, text)
    min_return, max_return = _return_range(plan.model)
    # The doubly robust estimate can leave the range of possible returns; clipping to the range reduces its error.
    value = float(np.clip(estimates.mean(), min_return, max_return))
    # Estimated propensities add variance of the order of 1 / (number of episodes they were estimated from).
    error = _robust_std(estimates) * math.sqrt(
        1 / count + (1 / num_propensity_episodes if num_propensity_episodes else 0.0)
    )
    radius = NORMAL_95 * error
    lower, upper = max(value - radius, min_return), min(value + radius, max_return)
    source_note = "" if num_propensity_episodes else ", with logged propensities"
    text = (
        f"Off-policy estimate on {count} held-out episodes, for the policy planned without them: {value:.4f} per "
        f"episode ({lower:.4f} .. {upper:.4f}){source_note}."
    )
    return OffPolicyEstimate(True, value, lower, upper, effective, num_matched, count, text)


def _robust_std(estimates: Floats) -> float:
    """Compute the standard deviation with ``PSEUDO_ESTIMATES`` copies of the most extreme estimate added.

    If few episodes have rewards, the unobserved estimates are the largest, and the plain deviation is too small.
    """
    squares = (estimates - estimates.mean()) ** 2
    return math.sqrt(float(squares.sum() + PSEUDO_ESTIMATES * squares.max()) / (estimates.size - 1))


def _return_range(model: RewardMixingMDP) -> tuple[float, float]:
    """Return the lowest and the highest possible return of an episode."""
    return model.horizon * float(model.reward_values[0]), model.horizon * float(model.reward_values[-1])


def _explain_no_estimate(off_support_fraction: float, matched: int, count: int, effective: float, rare: int) -> str:
    if off_support_fraction > MAX_OFF_SUPPORT_FRACTION:
        return (
            f"No off-policy estimate: in {100 * off_support_fraction:.1f} % of its steps the policy takes actions that "
            "the log rarely takes in comparable situations."
        )
    if effective >= MIN_EFFECTIVE_SAMPLES:
        return (
            f"No off-policy estimate: in {rare} of {count} held-out episodes actions that agree with the policy "
            f"received a reward other than the most common one; at least {MIN_RARE_REWARDS} are needed."
        )
    return (
        f"No off-policy estimate: {matched} of {count} held-out episodes agree with the policy in all actions "
        f"(effective sample size {effective:.1f}); at least {MIN_EFFECTIVE_SAMPLES:.0f} are needed."
    )


def _doubly_robust_estimates(
    plan: Plan, held_out: Episodes, propensities: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Compute estimates, final weights and whether a matched step had a rare reward, each (K,).

    A rare reward is any but the most common one of the held-out episodes.
    """
    model, policy, values = plan.model, plan.policy, plan.alpha_vectors.values
    value_index = np.searchsorted(model.reward_values, held_out.reward_values)
    count = len(held_out)
    state = held_out.states[:, 0].astype(np.int64)
    node = policy.initial_nodes[state].astype(np.int64)
    belief = np.broadcast_to(model.weights, (count, model.num_types))
    weight = np.ones(count)
    value = (values[0][state, node] * belief).sum(axis=1)
    estimate, has_rare_reward = value.copy(), np.zeros(count, np.bool_)
    common_reward = int(np.bincount(value_index[held_out.reward_indices[held_out.step_mask]], minlength=1).argmax())
    for t in range(held_out.horizon):
        is_step = held_out.step_mask[:, t]
        reward_index = value_index[np.maximum(held_out.reward_indices[:, t], 0)]
        action = policy.actions[t][state, node]
        agrees = is_step & (held_out.actions[:, t] == action) & (propensities[:, t] > 0)
        # The policy is deterministic: its ratio is 1 / propensity if the actions agree and 0 otherwise. After the end
        # of an episode the weight stays.
        weight = np.where(is_step, np.where(agrees, weight / np.where(agrees, propensities[:, t], 1.0), 0.0), weight)
        has_rare_reward |= is_step & (weight > 0) & (reward_index != common_reward)
        likelihood = np.moveaxis(model.reward_probs[:, state, action, reward_index], 0, -1)
        belief = np.where(agrees[:, None], bayes.update(belief, likelihood), belief)
        node = policy.next_nodes[t][state, node, reward_index].astype(np.int64)
        state = _next_state(held_out, t, model, state)
        next_value = np.zeros(count)
        if t + 1 < held_out.horizon:
            # Episodes with weight 0 may be at a node that does not exist in the next step. Their values do not count.
            node = np.minimum(node, values[t + 1].shape[1] - 1)
            next_value = (values[t + 1][state, node] * belief).sum(axis=1)
        reward = np.where(is_step, model.reward_values[reward_index], 0.0)
        estimate += np.where(is_step, weight * (reward + next_value - value), 0.0)
        value = next_value
    return estimate, weight, has_rare_reward


def _next_state(episodes: Episodes, t: int, model: RewardMixingMDP, state: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the state of each episode after step t; the end state, if it is over and the model has one."""
    continues = t + 1 < episodes.lengths
    final = model.num_states - 1 if model.num_states > episodes.num_states else state
    return np.where(continues, np.maximum(episodes.states[:, t + 1], 0), final)
