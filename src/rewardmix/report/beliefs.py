"""What the policy does at each belief, and what it expects there: the data of the belief figures.

Two contexts: a belief is one number, the share of context 1. At every step only some beliefs can occur (after t
rewards the odds have moved at most t times), and only there the action and the value mean something.
More contexts: along the straight lines from the weights to being sure of one context.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._check import Floats
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan

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
    model = plan.model
    state, step = int(np.argmax(model.initial)), looked_at(model.horizon)
    view = _between_two(plan, step) if model.num_contexts == 2 else _towards_each(plan, step)
    return {"kind": "two" if model.num_contexts == 2 else "rays", "state": state, "step": step, **view}


def looked_at(horizon: int) -> int:
    """The step of the value curve: early enough to have a future, late enough for beliefs to differ."""
    return min(horizon - 1, max(1, horizon // 3))


def _between_two(plan: Plan, step: int) -> dict[str, Any]:
    model = plan.model
    axis = np.linspace(0.0, 1.0, POINTS)
    beliefs = np.stack([axis, 1.0 - axis], axis=1)
    state = int(np.argmax(model.initial))
    low, high = reach(model)
    steps = np.unique(np.linspace(0, model.horizon - 1, min(model.horizon, MOST_STEPS)).astype(int))
    tables = {t: _decisions(plan, int(t), beliefs) for t in steps}
    maps = [
        {"state": s, "rows": [{"step": int(t), "runs": _runs(tables[t][1][s], axis, low[t], high[t])} for t in steps]}
        for s in _shown(model, [table[1] for table in tables.values()])
    ]
    values, actions = _decisions(plan, step, beliefs)
    inside = (axis >= low[step] - 1e-12) & (axis <= high[step] + 1e-12)
    return {
        "low": low.tolist(),
        "high": high.tolist(),
        "curve": {
            "belief": axis[inside].tolist(),
            "value": values[state][inside].tolist(),
            "runs": _runs(actions[state], axis, low[step], high[step]),
        },
        "maps": maps,
    }


def _towards_each(plan: Plan, step: int) -> dict[str, Any]:
    model, state = plan.model, int(np.argmax(plan.model.initial))
    axis = np.linspace(0.0, 1.0, POINTS)
    rays = []
    for m in range(model.num_contexts):
        beliefs = (1.0 - axis)[:, None] * model.weights + axis[:, None] * np.eye(model.num_contexts)[m]
        values, actions = _decisions(plan, step, beliefs)
        rays.append({"context": m, "value": values[state].tolist(), "runs": _runs(actions[state], axis, 0.0, 1.0)})
    return {"belief": axis.tolist(), "rays": rays}


def _decisions(plan: Plan, step: int, beliefs: Floats) -> tuple[Floats, Any]:
    """(S, B) and (S, B): value and action of the best node of each state at each belief."""
    scores = plan.alpha_vectors.values[step] @ beliefs.T
    best = scores.argmax(axis=1)
    actions = np.take_along_axis(np.asarray(plan.alpha_vectors.actions[step]), best, axis=1)
    return np.asarray(scores.max(axis=1)), actions


def reach(model: RewardMixingMDP) -> tuple[Floats, Floats]:
    """(H,) and (H,): least and greatest share of context 1 that a belief can have after 0, 1, ... rewards."""
    first, second = model.laws[0].ravel(), model.laws[1].ravel()
    seen = (first > 0) | (second > 0)
    odds = np.clip(first[seen], SMALLEST_ODDS, None) / np.clip(second[seen], SMALLEST_ODDS, None)
    steps = np.arange(model.horizon)
    prior = np.log(model.weights[0] / model.weights[1])
    ends = [prior + steps * min(np.log(odds).min(), 0.0), prior + steps * max(np.log(odds).max(), 0.0)]
    low, high = (1.0 / (1.0 + np.exp(-np.clip(end, -700, 700))) for end in ends)
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


def _shown(model: RewardMixingMDP, tables: list[Any]) -> list[int]:
    """The states whose maps are worth a look: where the action depends on the belief, most first; then by number."""
    varied = sum((np.diff(table, axis=1) != 0).sum(axis=1) for table in tables)
    order = np.argsort(-varied, kind="stable")[:MOST_STATES]
    kept = [int(s) for s in order if varied[s] > 0]
    return sorted(kept) or [int(np.argmax(model.initial))]
