"""Compute belief points, common to all states: reachable beliefs, and well-separated samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewardmix import belief as bayes
from rewardmix._core.checks import Floats, Ints
from rewardmix._core.linear_algebra import product
from rewardmix.model import RewardMixingMDP, state_action_index, weighted_sum

BELIEF_DIGITS = 12
"""Beliefs that agree to this many decimals count as one point."""
MAX_PAIRS_PER_BELIEF = 64
"""Largest number of (belief, reward) pairs per admissible belief for which sets are enumerated."""
MAX_DENSE_ENTRIES = 1 << 22
"""Largest number of entries of transition rows that are made dense at once."""


@dataclass(frozen=True, eq=False)
class ReachableBeliefs:
    """All reachable beliefs of a step.

    Attributes:
        beliefs: (N, M) beliefs.
        successors: (N, K) index among the next beliefs after each of K distinct likelihood vectors; empty if they are
            not enumerated.
    """

    beliefs: Floats
    successors: Ints

    @property
    def size(self) -> int:
        """Number of beliefs."""
        return len(self.beliefs)


def enumerate_reachable(model: RewardMixingMDP, cap: int) -> tuple[list[ReachableBeliefs], Ints]:
    """Enumerate the reachable beliefs of the first steps, while there are at most ``cap``.

    Also return the index (S * A, Z) of the likelihood vector of each reward. Proportional vectors count as one, because
    they lead to equal posteriors.
    """
    probs = np.moveaxis(model.reward_probs, 0, -1).reshape(-1, model.num_types)
    total = probs.sum(axis=1, keepdims=True)
    shapes = np.divide(probs, total, out=np.zeros_like(probs), where=total > 0)
    first_indices, vector_indices = unique_rows(shapes)
    directions = shapes[first_indices]
    beliefs = model.weights[None] / model.weights.sum()
    no_successors = np.zeros((0, first_indices.size), dtype=np.int32)
    steps: list[ReachableBeliefs] = []
    while True:
        fits = beliefs.shape[0] * first_indices.size <= MAX_PAIRS_PER_BELIEF * cap and len(steps) + 1 < model.horizon
        successors = _successors_if_few(beliefs, directions, cap) if fits else None
        steps.append(ReachableBeliefs(beliefs, no_successors if successors is None else successors[1]))
        if successors is None:
            break
        beliefs = successors[0]
    return steps, vector_indices.reshape(-1, model.num_values).astype(np.int32)


def _successors_if_few(beliefs: Floats, directions: Floats, cap: int) -> tuple[Floats, Ints] | None:
    """Compute the successors, or None if there are more than ``cap``."""
    # A few likelihood vectors usually decide, at a fraction of the cost of all.
    first_directions = directions[: 2 * cap // len(beliefs) + 1]
    if len(first_directions) < len(directions) and len(_successor_beliefs(beliefs, first_directions)[0]) > cap:
        return None  # a subset of the vectors gives too many already
    successors = _successor_beliefs(beliefs, directions)
    return successors if len(successors[0]) <= cap else None


def _successor_beliefs(beliefs: Floats, directions: Floats) -> tuple[Floats, Ints]:
    """Compute distinct posteriors (L, M) of beliefs (N, M) after likelihoods (K, M), and indices (N, K) into them."""
    posteriors = bayes.update(beliefs[:, None], directions).reshape(-1, beliefs.shape[1])
    # A reward of probability 0 has no posterior; it must not add a point.
    possible = ((beliefs[:, None] * directions).sum(axis=-1) > 0).ravel()
    first_rows, groups = unique_rows(posteriors[possible])
    after = np.zeros(possible.size, dtype=np.int32)  # after an impossible reward any node will do
    after[possible] = groups
    return posteriors[possible][first_rows], after.reshape(-1, len(directions))


def unique_rows(rows: Floats) -> tuple[Ints, Ints]:
    """Find unique rows up to ``BELIEF_DIGITS`` decimals.

    Returns (index of the first row of each group, in order of appearance; group of each row).
    """
    _, first, group = np.unique(np.round(rows, BELIEF_DIGITS), axis=0, return_index=True, return_inverse=True)
    # ``np.unique`` sorts by value; groups are renumbered by first appearance, so the initial belief stays first.
    order = np.argsort(first)
    return first[order], np.argsort(order)[group.ravel()]


def reachable_beliefs_per_step(model: RewardMixingMDP, cap: int) -> list[Floats] | None:
    """List all reachable beliefs (N_t, M) of each step, or return None if a step has more than ``cap``."""
    steps, _ = enumerate_reachable(model, cap)
    return [step.beliefs for step in steps] if len(steps) == model.horizon else None


def sample_beliefs(model: RewardMixingMDP, count: int, rng: np.random.Generator) -> list[Floats]:
    """Sample beliefs (count, M) of each step on paths with uniformly random actions."""
    states: Ints = rng.choice(model.num_states, size=count, p=model.initial / model.initial.sum())
    beliefs = np.tile(model.weights / model.weights.sum(), (count, 1))
    samples = []
    for _ in range(model.horizon):
        samples.append(beliefs)
        actions = rng.integers(model.num_actions, size=count)
        probs = model.reward_probs[:, states, actions].transpose(1, 2, 0)  # (count, Z, M)
        reward_indices = _sample_rows(weighted_sum(beliefs.T[:, :, None], np.moveaxis(probs, -1, 0)), rng)
        beliefs = bayes.update(beliefs, probs[np.arange(count), reward_indices])
        states = _sample_next_states(model, state_action_index(states, actions, model.num_actions), rng)
    return samples


def nearest_point(beliefs: Floats, points: Floats) -> Ints:
    """Find the point (K, M) at the smallest Hellinger distance from each belief (..., M)."""
    # The squared Hellinger distance is 1 minus this inner product (the Bhattacharyya coefficient).
    return np.asarray(np.argmax(product(np.sqrt(beliefs), np.sqrt(points).T), axis=-1))


def farthest_point_subset(points: Floats, candidates: Floats, count: int) -> Floats:
    """Append to ``points`` up to ``count`` candidates, each the farthest (Hellinger) from all points before it."""
    roots, selected = np.sqrt(candidates), []
    affinity = np.max(product(roots, np.sqrt(points).T), axis=1)
    for _ in range(count):
        farthest = int(np.argmin(affinity))
        # All remaining candidates coincide with selected points up to rounding.
        if affinity[farthest] > 1.0 - 1e-13:
            break
        selected.append(farthest)
        affinity = np.maximum(affinity, product(roots, roots[farthest]))
    return np.concatenate([points, candidates[selected]])


def _sample_next_states(model: RewardMixingMDP, rows: Ints, rng: np.random.Generator) -> Ints:
    """Draw one next state for each state-action."""
    step = max(1, MAX_DENSE_ENTRIES // model.num_states)
    next_states = []
    for low in range(0, rows.size, step):
        probs = model.transition_rows[rows[low : low + step]]
        next_states.append(_sample_rows(probs.toarray() if model.is_sparse else probs, rng))
    return np.concatenate(next_states)


def _sample_rows(probs: Floats, rng: np.random.Generator) -> Ints:
    """Draw one index from each row of probabilities by inversion."""
    levels = np.cumsum(probs, axis=1)
    indices = (levels < rng.random((probs.shape[0], 1)) * levels[:, -1:]).sum(axis=1)
    # The cumulative sum can stay below the draw by rounding; the last index is then meant.
    return np.asarray(np.minimum(indices, probs.shape[1] - 1))
