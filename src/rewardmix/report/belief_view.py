"""Compute the action and the value of the policy at each belief, for the belief figures.

Two types: a belief is one number, the probability of type 1. After t rewards the log-odds have changed by at most t
times the largest log-likelihood ratio, and only some states can occur; action and value are shown only there. More
types: beliefs along the straight lines from the weights to certainty of one type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.linear_algebra import product
from rewardmix._core.portable_math import exp_array, log, log_array
from rewardmix.evaluation import node_occupancy
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan
from rewardmix.type_profiles import find_absorbing_states

NUM_POINTS = 121
"""Number of beliefs along an axis."""
MAX_STATES = 4
"""Largest number of states with an action map."""
MAX_STEPS = 60
"""Largest number of rows of an action map."""
MIN_REWARD_PROB = 1e-6
"""Smallest probability in an odds ratio: a reward that is impossible for one type has this probability."""


def make_belief_view(plan: Plan) -> dict[str, Any]:
    """Compute actions and values over beliefs in the states that the policy visits most."""
    step, occupancy = curve_step(plan.model.horizon), occupancy_before_absorption(plan)
    if plan.model.num_types == 2:
        return {"kind": "two", "step": step, **_view_two_types(plan, step, occupancy)}
    order = np.argsort(-occupancy[step], kind="stable")[:MAX_STATES]
    state, *others = (int(s) for s in order if occupancy[step, s] > 0)
    more = [{"state": s, "rays": _view_rays(plan, step, s)["rays"]} for s in sorted(others)]
    return {"kind": "rays", "step": step, "state": state, **_view_rays(plan, step, state), "more": more}


def occupancy_before_absorption(plan: Plan) -> Floats:
    """Return the state occupancy (H, S) without absorbing end states, unless all mass is there."""
    occupancy = state_occupancy(plan)
    # In an end state no decision is left, but late in an episode it has most of the mass and would hide other states.
    before_end = np.where(find_absorbing_states(plan.model), 0.0, occupancy)
    return np.where((before_end.sum(axis=1) > 0)[:, None], before_end, occupancy)


def curve_step(horizon: int) -> int:
    """Return the step of the value curve: a third of the horizon.

    Earlier steps have little spread of beliefs; later ones have little reward to come.
    """
    return min(horizon - 1, max(1, horizon // 3))


def state_occupancy(plan: Plan) -> Floats:
    """Compute the probability (H, S) of each state at each step under the policy in its own model."""
    return np.stack([node_probs.sum(axis=(0, 2)) for node_probs in node_occupancy(plan.policy, plan.model)])


def _view_two_types(plan: Plan, step: int, occupancy: Floats) -> dict[str, Any]:
    """Return the value curve and the action maps for two types."""
    model = plan.model
    axis = np.linspace(0.0, 1.0, NUM_POINTS)
    beliefs = np.stack([axis, 1.0 - axis], axis=1)
    low, high = reachable_range(model)
    steps = np.unique(np.linspace(0, model.horizon - 1, min(model.horizon, MAX_STEPS)).astype(int))
    tables = {int(t): _decisions(plan, int(t), beliefs) for t in {*steps.tolist(), step}}
    intervals = {
        (t, s): _action_intervals(actions[s], axis, low[t], high[t])
        for t, (_, actions) in tables.items()
        for s in np.flatnonzero(occupancy[t] > 0).tolist()
    }
    # The state of the curve is one that is visited often and in which the action depends on the belief.
    state = max(range(model.num_states), key=lambda s: occupancy[step, s] * len(intervals.get((step, s), ())))
    # The tolerance keeps a grid point that equals an end of the range up to rounding.
    inside = (axis >= low[step] - 1e-12) & (axis <= high[step] + 1e-12)
    return {
        "state": state,
        "curve": {
            "belief": axis[inside].tolist(),
            "value": tables[step][0][state][inside].tolist(),
            "intervals": intervals[step, state],
        },
        "maps": [
            {"state": s, "rows": [{"step": int(t), "intervals": intervals.get((int(t), s), [])} for t in steps]}
            for s in _select_states(intervals, occupancy, steps)
        ],
    }


def _view_rays(plan: Plan, step: int, state: int) -> dict[str, Any]:
    """Return value and action along the line from the weights to certainty of each type."""
    model = plan.model
    axis = np.linspace(0.0, 1.0, NUM_POINTS)
    rays = []
    for m in range(model.num_types):
        beliefs = (1.0 - axis)[:, None] * model.weights + axis[:, None] * np.eye(model.num_types)[m]
        values, actions = _decisions(plan, step, beliefs)
        rays.append(
            {"type": m, "value": values[state].tolist(), "intervals": _action_intervals(actions[state], axis, 0.0, 1.0)}
        )
    return {"belief": axis.tolist(), "rays": rays}


def _decisions(plan: Plan, step: int, beliefs: Floats) -> tuple[Floats, Any]:
    """Return value and action, each (S, B), of the controller node for each state and belief."""
    nodes = plan.belief_decision_rule.find_nodes(step, beliefs)
    scores = product(plan.alpha_vectors.values[step], beliefs.T)
    actions = np.take_along_axis(np.asarray(plan.policy.actions[step]), nodes, axis=1)
    return np.take_along_axis(scores, nodes[:, None], axis=1)[:, 0], actions


def reachable_range(model: RewardMixingMDP) -> tuple[Floats, Floats]:
    """Return the smallest and the largest probability of type 1, each (H,), that a belief can have at each step."""
    first, second = model.reward_probs[0].ravel(), model.reward_probs[1].ravel()
    possible = (first > 0) | (second > 0)
    odds = np.clip(first[possible], MIN_REWARD_PROB, None) / np.clip(second[possible], MIN_REWARD_PROB, None)
    steps = np.arange(model.horizon)
    initial_log_odds = log(model.weights[0] / model.weights[1])
    # In log-odds each reward adds a constant, so the range after t rewards is the prior plus t times the extreme
    # ratios. A ratio on one side of zero only cannot move the belief the other way, hence the bounds at 0.
    log_odds = log_array(odds)
    ends = [initial_log_odds + steps * min(log_odds.min(), 0.0), initial_log_odds + steps * max(log_odds.max(), 0.0)]
    # Clipping at 700 avoids an overflow of exp; the belief is 0 or 1 in double precision far earlier.
    low, high = (1.0 / (1.0 + exp_array(-np.clip(end, -700, 700))) for end in ends)
    return low, high


def _action_intervals(actions: Any, axis: Floats, low: float, high: float) -> list[list[float]]:
    """Return [from, to, action] for each interval of the axis inside [low, high] with one action."""
    # The action is known at grid points only; a change is placed halfway between two of them.
    middles = np.concatenate([[0.0], (axis[1:] + axis[:-1]) / 2, [1.0]])
    changes = np.flatnonzero(np.diff(actions)) + 1
    starts, ends = np.concatenate([[0], changes]), np.concatenate([changes, [axis.size]])
    intervals = []
    for start, end in zip(starts, ends, strict=True):
        left, right = max(middles[start], low), min(middles[end], high)
        # A range of one belief (before the first reward) has no length but is kept.
        if right > left or (left == right and low == high):
            intervals.append([float(left), float(right), int(actions[start])])
    return intervals


def _select_states(intervals: dict[tuple[int, int], list[list[float]]], occupancy: Floats, steps: Any) -> list[int]:
    """Select the states of the action maps: visited often, with an action that depends on the belief."""
    score = np.zeros(occupancy.shape[1])
    for (t, s), state_intervals in intervals.items():
        score[s] += occupancy[t, s] * (len(state_intervals) > 1)
    order = np.argsort(-score, kind="stable")[:MAX_STATES]
    states = [int(s) for s in order if score[s] > 0]
    return sorted(states) or [int(np.argmax(occupancy[steps].sum(axis=0)))]
