"""Which beliefs can be reached: all of them where they are few, otherwise well-spread ones on likely paths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rewardmix import belief as bayes
from rewardmix._core.algebra import product
from rewardmix._core.checks import Floats, Ints
from rewardmix.model import RewardMixingMDP, mixed, state_action

DIGITS = 12
"""Beliefs that agree to so many decimals are one point."""
CHUNK = 1 << 22
"""Largest number of entries of transition rows that are unfolded at once."""


def reachable_beliefs(model: RewardMixingMDP, cap: int) -> list[Floats] | None:
    """H arrays (N_t, M) of all beliefs that can occur at each step, or None if a step has more than ``cap``."""
    laws = np.moveaxis(model.laws, 0, -1).reshape(-1, model.num_contexts)
    laws = laws[laws.sum(axis=1) > 0]
    laws = distinct(laws / laws.sum(axis=1, keepdims=True))
    sets = [model.weights[None] / model.weights.sum()]
    for _ in range(1, model.horizon):
        if sets[-1].shape[0] * laws.shape[0] > 64 * cap:
            return None
        joint = (sets[-1][:, None] * laws).reshape(-1, model.num_contexts)
        total = joint.sum(axis=1)
        sets.append(distinct(joint[total > 0] / total[total > 0, None]))
        if sets[-1].shape[0] > cap:
            return None
    return sets


def distinct(beliefs: Floats) -> Floats:
    """One of each group of beliefs that agree to ``DIGITS`` decimals."""
    _, kept = np.unique(np.round(beliefs, DIGITS), axis=0, return_index=True)
    return beliefs[np.sort(kept)]


def with_corners(points: Floats) -> Floats:
    """The corners of the simplex first, then the points that are not corners."""
    inside = points[points.max(axis=1) < 1.0]
    return np.concatenate([np.eye(points.shape[1]), inside])


def sampled_beliefs(
    model: RewardMixingMDP, points: Sequence[Floats], hope: Sequence[Ints] | None, count: int, rng: np.random.Generator
) -> list[Floats]:
    """H arrays (count, M): beliefs on sampled paths that play ``hope`` of the nearest point, or anything."""
    states: Ints = rng.choice(model.num_states, size=count, p=model.initial / model.initial.sum())
    beliefs = np.tile(model.weights / model.weights.sum(), (count, 1))
    found = []
    for t in range(model.horizon):
        found.append(beliefs)
        actions = rng.integers(model.num_actions, size=count)
        if hope is not None:
            greedy = rng.random(count) < 0.7
            nearest = np.argmax(product(np.sqrt(beliefs[greedy]), np.sqrt(points[t]).T), axis=1)
            actions[greedy] = hope[t][states[greedy], nearest]
        laws = model.laws[:, states, actions].transpose(1, 2, 0)  # (count, Z, M)
        outcomes = _draw(mixed(beliefs.T[:, :, None], np.moveaxis(laws, -1, 0)), rng)
        beliefs = bayes.update(beliefs, laws[np.arange(count), outcomes])
        states = _next_states(model, state_action(states, actions, model.num_actions), rng)
    return found


def spread_out(points: Floats, candidates: Floats, count: int) -> Floats:
    """``points`` and up to ``count`` candidates, each the farthest (Hellinger) from all before it."""
    roots, chosen = np.sqrt(candidates), []
    affinity = np.max(product(roots, np.sqrt(points).T), axis=1)
    for _ in range(count):
        farthest = int(np.argmin(affinity))
        if affinity[farthest] > 1.0 - 1e-13:
            break
        chosen.append(farthest)
        affinity = np.maximum(affinity, product(roots, roots[farthest]))
    return np.concatenate([points, candidates[chosen]])


def _next_states(model: RewardMixingMDP, rows: Ints, rng: np.random.Generator) -> Ints:
    step = max(1, CHUNK // model.num_states)
    parts = []
    for low in range(0, rows.size, step):
        laws = model.transition_rows[rows[low : low + step]]
        parts.append(_draw(laws.toarray() if model.is_sparse else laws, rng))
    return np.concatenate(parts)


def _draw(laws: Floats, rng: np.random.Generator) -> Ints:
    """One index from each row."""
    levels = np.cumsum(laws, axis=1)
    drawn = (levels < rng.random((laws.shape[0], 1)) * levels[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(drawn, laws.shape[1] - 1))
