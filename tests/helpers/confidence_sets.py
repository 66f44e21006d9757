"""Confidence sets made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import eye_array

from rewardmix.moments import Moments
from rewardmix.recovery import ConfidenceSet, exact_confidence_set


def random_confidence_set(size, *, seed, share=1.0, noise=1.0, radius=4.0, zero=0.2, count=2000.0):
    """(set, spread): covariances of a random spread with normal noise; radius in deviations, noise in deviations."""
    rng = np.random.default_rng(seed)
    average = rng.uniform(0.3, 0.7, size)
    spread = rng.uniform(0.05, 1.0, size) * rng.choice([-1, 1], size) * np.minimum(average, 1 - average)
    spread[rng.random(size) < zero] = 0.0
    first, second = np.triu_indices(size)
    mask = (rng.random(first.size) < share) | (first == second - 1)
    first, second = first[mask], second[mask]
    sd = np.sqrt(average * (1 - average))
    deviation = sd[first] * sd[second] / np.sqrt(count)
    center = spread[first] * spread[second] + noise * deviation * rng.normal(size=first.size)
    half = radius * deviation if radius else np.zeros(first.size)
    box = ConfidenceSet(
        size, 1, 10, np.array([0.0, 1.0]), average, np.full(size, 0.01), first, second, center, half,
        *(deviation if noise else np.zeros(first.size),) * 2, np.full(first.size, count), np.full(size, 1.0 / size),
        0.0, eye_array(size).tocsr(), np.zeros(size), 0.001, 0.05,
    )  # fmt: skip
    return box, spread


def replace_centers(box, center):
    return replace(box, center=center)


def moments_from_pair_tables(tables, more=None, own=False):
    """Moments in which table k is that of state-actions 2k and 2k + 1 (``own``: of k with itself), seen nowhere else.

    ``more``: further outcomes (X, Z) at first visits.
    """
    tables = np.asarray(tables)
    runs, values = tables.shape[:2]
    first = np.arange(runs) if own else 2 * np.arange(runs)
    second = first if own else first + 1
    size = int(second[-1]) + 1
    reward_indices = np.zeros((size, values), np.int64)
    np.add.at(reward_indices, first, tables.sum(axis=2))
    if not own:
        np.add.at(reward_indices, second, tables.sum(axis=1))
    total = int(tables.sum())
    return replace(
        Moments.empty(size, 1, 2, np.arange(values)), num_episodes=total,
        initial_counts=np.bincount([0], [total], size).astype(int),
        reward_counts=reward_indices if more is None else reward_indices + more,
        pair_keys=first * size + second, pair_tables=tables,
    )  # fmt: skip


def confidence_set_around(model, rng):
    """A set that holds the model by construction: random widths, some 0, the truth anywhere in it or at an end."""
    box = exact_confidence_set(model, epsilon=1e-9)

    def off(size, scale):
        radius = scale * rng.random(size) ** 3 * (rng.random(size) < 0.8)
        return radius * np.clip(rng.uniform(-2.0, 2.0, size), -0.999999, 0.999999), radius

    shift, average_radius = off(box.marginals.size, 0.5)
    mask = rng.random(box.pair_first.size) < rng.uniform(0.2, 1.0)
    moved, radius = off(int(mask.sum()), 0.1)
    pairwise = {
        name: getattr(box, name)[mask]
        for name in ("pair_first", "pair_second", "standard_error", "null_standard_error", "pair_samples")
    }
    average = np.clip(box.marginals + shift, 0.0, 1.0)
    center = box.center[mask] + moved
    return replace(box, marginals=average, marginal_radius=average_radius, center=center, radius=radius, **pairwise)
