"""Belief points, common to all states: which beliefs can be reached, and samples of them that are spread out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewardmix import belief as bayes
from rewardmix._core.algebra import product
from rewardmix._core.checks import Floats, Ints
from rewardmix.model import RewardMixingMDP, mixed, state_action

BELIEF_DIGITS = 12
"""Beliefs that agree to so many decimals are one point."""
TRIED_FOR_ONE = 64
"""Sets are followed while a belief and an outcome can be paired in so many ways for each belief that a set may have."""
UNFOLDED_ENTRIES = 1 << 22
"""Largest number of entries of transition rows that are unfolded at once."""


@dataclass(frozen=True, eq=False)
class Reached:
    """Every belief that can occur at a step.

    Attributes:
        beliefs: (N, M).
        after: (N, K) place among the next beliefs after each of K distinct laws; empty if those are not followed.
    """

    beliefs: Floats
    after: Ints

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.beliefs)


def reached_beliefs(model: RewardMixingMDP, cap: int) -> tuple[list[Reached], Ints]:
    """All beliefs that can occur at the first steps, while at most ``cap``, and which law (S * A, Z) an outcome has.

    Laws that are proportional are one, for they lead to the same beliefs.
    """
    laws = np.moveaxis(model.laws, 0, -1).reshape(-1, model.num_contexts)
    total = laws.sum(axis=1, keepdims=True)
    shapes = np.divide(laws, total, out=np.zeros_like(laws), where=total > 0)
    kept, kinds = one_of_each(shapes)
    directions = shapes[kept]
    beliefs = model.weights[None] / model.weights.sum()
    nowhere = np.zeros((0, kept.size), dtype=np.int32)
    found: list[Reached] = []
    while True:
        follow = beliefs.shape[0] * kept.size <= TRIED_FOR_ONE * cap and len(found) + 1 < model.horizon
        moved = _followed(beliefs, directions, cap) if follow else None
        found.append(Reached(beliefs, nowhere if moved is None else moved[1]))
        if moved is None:
            break
        beliefs = moved[0]
    return found, kinds.reshape(-1, model.num_values).astype(np.int32)


def _followed(beliefs: Floats, directions: Floats, cap: int) -> tuple[Floats, Ints] | None:
    """``_moved``, or None if there are more than ``cap``."""
    some = directions[: 2 * cap // len(beliefs) + 1]
    if len(some) < len(directions) and len(_moved(beliefs, some)[0]) > cap:
        return None  # after some laws there are too many already
    moved = _moved(beliefs, directions)
    return moved if len(moved[0]) <= cap else None


def _moved(beliefs: Floats, directions: Floats) -> tuple[Floats, Ints]:
    """(distinct posteriors (L, M) of beliefs (N, M) after laws (K, M), place of each among them (N, K))."""
    later = bayes.update(beliefs[:, None], directions).reshape(-1, beliefs.shape[1])
    possible = ((beliefs[:, None] * directions).sum(axis=-1) > 0).ravel()
    chosen, places = one_of_each(later[possible])
    after = np.zeros(possible.size, dtype=np.int32)  # after what cannot happen: any node
    after[possible] = places
    return later[possible][chosen], after.reshape(-1, len(directions))


def one_of_each(rows: Floats) -> tuple[Ints, Ints]:
    """(index of the first row of each group that agrees to ``BELIEF_DIGITS`` decimals, in order; group of each row)."""
    _, first, group = np.unique(np.round(rows, BELIEF_DIGITS), axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[group.ravel()]


def reachable_beliefs(model: RewardMixingMDP, cap: int) -> list[Floats] | None:
    """H arrays (N_t, M) of all beliefs that can occur at each step, or None if a step has more than ``cap``."""
    found, _ = reached_beliefs(model, cap)
    return [step.beliefs for step in found] if len(found) == model.horizon else None


def sampled_beliefs(model: RewardMixingMDP, count: int, rng: np.random.Generator) -> list[Floats]:
    """H arrays (count, M): beliefs on sampled paths that play anything."""
    states: Ints = rng.choice(model.num_states, size=count, p=model.initial / model.initial.sum())
    beliefs = np.tile(model.weights / model.weights.sum(), (count, 1))
    found = []
    for _ in range(model.horizon):
        found.append(beliefs)
        actions = rng.integers(model.num_actions, size=count)
        laws = model.laws[:, states, actions].transpose(1, 2, 0)  # (count, Z, M)
        outcomes = _draw(mixed(beliefs.T[:, :, None], np.moveaxis(laws, -1, 0)), rng)
        beliefs = bayes.update(beliefs, laws[np.arange(count), outcomes])
        states = _next_states(model, state_action(states, actions, model.num_actions), rng)
    return found


def nearest_point(beliefs: Floats, points: Floats) -> Ints:
    """Index of the point (K, M) at the least Hellinger distance from each belief (..., M)."""
    return np.asarray(np.argmax(product(np.sqrt(beliefs), np.sqrt(points).T), axis=-1))


def spread_beliefs(points: Floats, candidates: Floats, count: int) -> Floats:
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
    """One next state for each state-action."""
    step = max(1, UNFOLDED_ENTRIES // model.num_states)
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
