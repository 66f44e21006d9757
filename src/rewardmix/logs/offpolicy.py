"""What a policy would have earned, from episodes that another one played; or that they cannot tell.

For a controller that plays action a_t for sure, with b the chance that the log took it, V the controller's value in the
fitted model at the step, state, node and belief of the episode, and w_t = product up to t of [action agrees] / b:

    estimate of an episode = V_0 + sum_t w_t (reward_t + V_{t+1} - V_t)

Unbiased if b is right, whatever V; of small variance if V is good (doubly robust; Jiang and Li 2016). b is what the
log says of itself (propensities), or else estimated from other episodes (``habits``).
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

LEAST_EFFECTIVE = 30.0
"""Fewer effective episodes than this support no estimate."""

LEAST_REWARDED = 10
"""Nor do fewer episodes than this in which an action of the policy was paid anything but the commonest reward."""

MADE_UP_ESTIMATES = 2.0
"""Episodes that the standard error adds, as far off as the one that is furthest off."""

LEAVES = 0.01
"""A policy that takes actions which are not the log's in more than this share of its steps has no support there."""


@dataclass(frozen=True)
class OffPolicy:
    """An estimate of what a policy earns, from episodes of another.

    Attributes:
        supported: whether the log can support one.
        value: the estimate, NaN if not.
        lower: of the 95 % interval.
        upper: of it.
        effective: number of episodes that the weights are worth.
        agreed: episodes whose actions are all those of the policy.
        episodes: that were used.
        sentence: the answer in words.
    """

    supported: bool
    value: float
    lower: float
    upper: float
    effective: float
    agreed: int
    episodes: int
    sentence: str


def off_policy(plan: Plan, fresh: Episodes, chance: Floats, *, left: float = 0.0, others: int = 0) -> OffPolicy:
    """Value of ``plan.policy`` from ``fresh`` episodes.

    Args:
        plan: the policy, and the model whose values make the estimate steadier.
        fresh: episodes that had no part in the plan.
        chance: (K, H) that the log took the action it took: known, or estimated from other episodes.
        left: share of the plan's steps that take actions which are not the log's.
        others: episodes that the chances were estimated from, whose errors add to those of ``fresh``; 0: known.
    """
    estimates, weights, rewarded = _estimates(plan, fresh, chance)
    square = float((weights**2).sum())
    effective = float(weights.sum()) ** 2 / square if square > 0 else 0.0
    agreed = int((weights > 0).sum())
    count, rare = len(fresh), int(rewarded.sum())
    if left > LEAVES or effective < LEAST_EFFECTIVE or count < 2 or rare < LEAST_REWARDED:
        nothing = float("nan")
        text = _unsupported(left, agreed, count, effective, rare)
        return OffPolicy(False, nothing, nothing, nothing, effective, agreed, count, text)
    lowest, highest = _range(plan.model)
    value = float(np.clip(estimates.mean(), lowest, highest))
    error = _spread(estimates) * math.sqrt(1 / count + (1 / others if others else 0.0))
    radius = NORMAL_95 * error
    lower, upper = max(value - radius, lowest), min(value + radius, highest)
    known = "" if others else ", by the propensities that it keeps"
    text = (
        f"Estimated from {count} held-out episodes of the log, the policy planned without them earns {value:.4f} "
        f"({lower:.4f} .. {upper:.4f}){known}."
    )
    return OffPolicy(True, value, lower, upper, effective, agreed, count, text)


def _spread(estimates: Floats) -> float:
    """Standard deviation, as if the estimate that is furthest off had come ``MADE_UP_ESTIMATES`` times more.

    Where few episodes are rewarded, those that are not seen are the largest.
    """
    squares = (estimates - estimates.mean()) ** 2
    return math.sqrt(float(squares.sum() + MADE_UP_ESTIMATES * squares.max()) / (estimates.size - 1))


def _range(model: RewardMixingMDP) -> tuple[float, float]:
    """The least and the most that an episode can earn."""
    return model.horizon * float(model.reward_values[0]), model.horizon * float(model.reward_values[-1])


def _unsupported(left: float, agreed: int, count: int, effective: float, rewarded: int) -> str:
    if left > LEAVES:
        return (
            f"What the policy earns cannot be estimated from the log: in {100 * left:.1f} % of its steps it takes "
            "actions that the log hardly ever took in such a situation."
        )
    if effective >= LEAST_EFFECTIVE:
        return (
            f"The log cannot support an estimate of the policy's value: {rewarded} of {count} held-out episodes were "
            f"paid anything but the commonest reward while they played its actions, and {LEAST_REWARDED} are needed."
        )
    return (
        f"The log cannot support an estimate of the policy's value: {agreed} of {count} held-out episodes "
        f"played its actions throughout, worth {effective:.1f} episodes, and {LEAST_EFFECTIVE:.0f} are needed."
    )


def _estimates(plan: Plan, fresh: Episodes, chance: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """(K,) estimate of each episode, (K,) final weights, and (K,) whether its weights were paid a rarer reward."""
    model, policy, values = plan.model, plan.policy, plan.alpha_vectors.values
    codes = np.searchsorted(model.reward_values, fresh.reward_values)
    count = len(fresh)
    state = fresh.states[:, 0].astype(np.int64)
    node = policy.first[state].astype(np.int64)
    belief = np.broadcast_to(model.weights, (count, model.num_contexts))
    weight = np.ones(count)
    now = (values[0][state, node] * belief).sum(axis=1)
    estimate, rewarded = now.copy(), np.zeros(count, np.bool_)
    commonest = int(np.bincount(codes[fresh.outcomes[fresh.present]], minlength=1).argmax())
    for t in range(fresh.horizon):
        here = fresh.present[:, t]
        outcome = codes[np.maximum(fresh.outcomes[:, t], 0)]
        action = policy.actions[t][state, node]
        agrees = here & (fresh.actions[:, t] == action) & (chance[:, t] > 0)
        weight = np.where(here, np.where(agrees, weight / np.where(agrees, chance[:, t], 1.0), 0.0), weight)
        rewarded |= here & (weight > 0) & (outcome != commonest)
        likelihood = np.moveaxis(model.laws[:, state, action, outcome], 0, -1)
        belief = np.where(agrees[:, None], bayes.update(belief, likelihood), belief)
        node = policy.successors[t][state, node, outcome].astype(np.int64)
        state = _next_state(fresh, t, model, state)
        later = np.zeros(count)
        if t + 1 < fresh.horizon:
            node = np.minimum(node, values[t + 1].shape[1] - 1)
            later = (values[t + 1][state, node] * belief).sum(axis=1)
        reward = np.where(here, model.reward_values[outcome], 0.0)
        estimate += np.where(here, weight * (reward + later - now), 0.0)
        now = later
    return estimate, weight, rewarded


def _next_state(fresh: Episodes, t: int, model: RewardMixingMDP, state: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each episode is after step t; the end, if it is over and the model has one."""
    going = t + 1 < fresh.lengths
    end = model.num_states - 1 if model.num_states > fresh.num_states else 0
    return np.where(going, np.maximum(fresh.states[:, t + 1], 0), end if model.num_states > fresh.num_states else state)
