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
    estimates, weights = _estimates(plan, fresh, chance)
    square = float((weights**2).sum())
    effective = float(weights.sum()) ** 2 / square if square > 0 else 0.0
    agreed = int((weights > 0).sum())
    count = len(fresh)
    if left > LEAVES or effective < LEAST_EFFECTIVE or count < 2:
        nothing = float("nan")
        text = _unsupported(left, agreed, count, effective)
        return OffPolicy(False, nothing, nothing, nothing, effective, agreed, count, text)
    value = float(estimates.mean())
    error = float(estimates.std(ddof=1)) * math.sqrt(1 / count + (1 / others if others else 0.0))
    radius = NORMAL_95 * error
    known = "" if others else ", by the propensities that it keeps"
    text = (
        f"Estimated from {count} held-out episodes of the log, the policy planned without them earns {value:.4f} "
        f"({value - radius:.4f} .. {value + radius:.4f}){known}."
    )
    return OffPolicy(True, value, value - radius, value + radius, effective, agreed, count, text)


def _unsupported(left: float, agreed: int, count: int, effective: float) -> str:
    if left > LEAVES:
        return (
            f"What the policy earns cannot be estimated from the log: in {100 * left:.1f} % of its steps it takes "
            "actions that the log hardly ever took in such a situation."
        )
    return (
        f"The log cannot support an estimate of the policy's value: {agreed} of {count} held-out episodes "
        f"played its actions throughout, worth {effective:.1f} episodes, and {LEAST_EFFECTIVE:.0f} are needed."
    )


def _estimates(plan: Plan, fresh: Episodes, chance: Floats) -> tuple[Floats, Floats]:
    """(K,) estimate of each episode and (K,) final weights."""
    model, policy, values = plan.model, plan.policy, plan.alpha_vectors.values
    codes = np.searchsorted(model.reward_values, fresh.reward_values)
    count = len(fresh)
    state = fresh.states[:, 0].astype(np.int64)
    node = policy.first[state].astype(np.int64)
    belief = np.broadcast_to(model.weights, (count, model.num_contexts))
    weight = np.ones(count)
    now = (values[0][state, node] * belief).sum(axis=1)
    estimate = now.copy()
    for t in range(fresh.horizon):
        here = fresh.present[:, t]
        outcome = codes[np.maximum(fresh.outcomes[:, t], 0)]
        action = policy.actions[t][state, node]
        agrees = here & (fresh.actions[:, t] == action) & (chance[:, t] > 0)
        weight = np.where(here, np.where(agrees, weight / np.where(agrees, chance[:, t], 1.0), 0.0), weight)
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
    return estimate, weight


def _next_state(fresh: Episodes, t: int, model: RewardMixingMDP, state: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each episode is after step t; the end, if it is over and the model has one."""
    going = t + 1 < fresh.lengths
    end = model.num_states - 1 if model.num_states > fresh.num_states else 0
    return np.where(going, np.maximum(fresh.states[:, t + 1], 0), end if model.num_states > fresh.num_states else state)
