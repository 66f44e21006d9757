"""What the policy does at each belief, and what it expects there: the data of the belief figures.

Two contexts: a belief is one number, the share of context 1. At every step only some beliefs can occur (after t
rewards the odds have moved at most t times), and only some states; only there the action and the value mean something.
More contexts: along the straight lines from the weights to being sure of one context.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.algebra import product
from rewardmix._core.checks import Floats
from rewardmix._core.portable import exps, log, logs
from rewardmix.evaluation import node_chances
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan
from rewardmix.profiles import ended_states

POINTS = 121
"""Beliefs along an axis."""
MOST_STATES = 4
"""Maps are drawn for so many states."""
MOST_STEPS = 60
"""A map has at most so many rows."""
SMALLEST_ODDS = 1e-6
"""Beliefs nearer than this to certainty are drawn as certain."""


def belief_view(plan: Plan) -> dict[str, Any]:
    """Actions and values over beliefs at the states that matter."""
    step, visits = looked_at(plan.model.horizon), worth_a_look(plan)
    if plan.model.num_contexts == 2:
        return {"kind": "two", "step": step, **_between_two(plan, step, visits)}
    first, *more = (int(s) for s in np.argsort(-visits[step], kind="stable")[:MOST_STATES] if visits[step, s] > 0)
    others = [{"state": state, "rays": _towards_each(plan, step, state)["rays"]} for state in sorted(more)]
    return {"kind": "rays", "step": step, "state": first, **_towards_each(plan, step, first), "more": others}


def worth_a_look(plan: Plan) -> Floats:
    """(H, S): ``occupancy`` without the states in which nothing is decided any more, unless there are no others."""
    visits = occupancy(plan)
    going_on = np.where(ended_states(plan.model), 0.0, visits)
    return np.where((going_on.sum(axis=1) > 0)[:, None], going_on, visits)


def looked_at(horizon: int) -> int:
    """The step of the value curve: early enough to have a future, late enough for beliefs to differ."""
    return min(horizon - 1, max(1, horizon // 3))


def occupancy(plan: Plan) -> Floats:
    """(H, S): how likely the policy is to be in each state at each step, in the model it was made for."""
    return np.stack([law.sum(axis=(0, 2)) for law in node_chances(plan.policy, plan.model)])


def _between_two(plan: Plan, step: int, visits: Floats) -> dict[str, Any]:
    model = plan.model
    axis = np.linspace(0.0, 1.0, POINTS)
    beliefs = np.stack([axis, 1.0 - axis], axis=1)
    low, high = reach(model)
    steps = np.unique(np.linspace(0, model.horizon - 1, min(model.horizon, MOST_STEPS)).astype(int))
    tables = {int(t): _decisions(plan, int(t), beliefs) for t in {*steps.tolist(), step}}
    runs = {
        (t, s): _runs(actions[s], axis, low[t], high[t])
        for t, (_, actions) in tables.items()
        for s in np.flatnonzero(visits[t] > 0).tolist()
    }
    state = max(range(model.num_states), key=lambda s: visits[step, s] * len(runs.get((step, s), ())))
    inside = (axis >= low[step] - 1e-12) & (axis <= high[step] + 1e-12)
    return {
        "state": state,
        "curve": {
            "belief": axis[inside].tolist(),
            "value": tables[step][0][state][inside].tolist(),
            "runs": runs[step, state],
        },
        "maps": [
            {"state": s, "rows": [{"step": int(t), "runs": runs.get((int(t), s), [])} for t in steps]}
            for s in _shown(runs, visits, steps)
        ],
    }


def _towards_each(plan: Plan, step: int, state: int) -> dict[str, Any]:
    model = plan.model
    axis = np.linspace(0.0, 1.0, POINTS)
    rays = []
    for m in range(model.num_contexts):
        beliefs = (1.0 - axis)[:, None] * model.weights + axis[:, None] * np.eye(model.num_contexts)[m]
        values, actions = _decisions(plan, step, beliefs)
        rays.append({"context": m, "value": values[state].tolist(), "runs": _runs(actions[state], axis, 0.0, 1.0)})
    return {"belief": axis.tolist(), "rays": rays}


def _decisions(plan: Plan, step: int, beliefs: Floats) -> tuple[Floats, Any]:
    """(S, B) and (S, B): value and action of the node that is followed in each state at each belief."""
    nodes = plan.decide.nodes(step, beliefs)
    scores = product(plan.alpha_vectors.values[step], beliefs.T)
    actions = np.take_along_axis(np.asarray(plan.policy.actions[step]), nodes, axis=1)
    return np.take_along_axis(scores, nodes[:, None], axis=1)[:, 0], actions


def reach(model: RewardMixingMDP) -> tuple[Floats, Floats]:
    """(H,) and (H,): least and greatest share of context 1 that a belief can have after 0, 1, ... rewards."""
    first, second = model.laws[0].ravel(), model.laws[1].ravel()
    seen = (first > 0) | (second > 0)
    odds = np.clip(first[seen], SMALLEST_ODDS, None) / np.clip(second[seen], SMALLEST_ODDS, None)
    steps = np.arange(model.horizon)
    prior = log(model.weights[0] / model.weights[1])
    moves = logs(odds)
    ends = [prior + steps * min(moves.min(), 0.0), prior + steps * max(moves.max(), 0.0)]
    low, high = (1.0 / (1.0 + exps(-np.clip(end, -700, 700))) for end in ends)
    return low, high


def _runs(actions: Any, axis: Floats, low: float, high: float) -> list[list[float]]:
    """[from, to, action] for each stretch of the axis inside [low, high] with one action."""
    middles = np.concatenate([[0.0], (axis[1:] + axis[:-1]) / 2, [1.0]])
    changes = np.flatnonzero(np.diff(actions)) + 1
    starts, ends = np.concatenate([[0], changes]), np.concatenate([changes, [axis.size]])
    runs = []
    for start, end in zip(starts, ends, strict=True):
        left, right = max(middles[start], low), min(middles[end], high)
        if right > left or (left == right and low == high):
            runs.append([float(left), float(right), int(actions[start])])
    return runs


def _shown(runs: dict[tuple[int, int], list[list[float]]], visits: Floats, steps: Any) -> list[int]:
    """The states whose maps are worth a look: often met, and the action depends on the belief."""
    worth = np.zeros(visits.shape[1])
    for (t, s), parts in runs.items():
        worth[s] += visits[t, s] * (len(parts) > 1)
    order = np.argsort(-worth, kind="stable")[:MOST_STATES]
    kept = [int(s) for s in order if worth[s] > 0]
    return sorted(kept) or [int(np.argmax(visits[steps].sum(axis=0)))]
