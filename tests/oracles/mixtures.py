"""Compute quantities of mixtures of reward distributions by enumeration, and draw episodes from them."""

from __future__ import annotations

from itertools import product

import numpy as np

from rewardmix.episodes import Episodes
from rewardmix.recovery.likelihood import Mixture
from rewardmix.recovery.reward_patterns import RewardPatterns


def joint_probs(pattern, mixture):
    """Return the joint probability (M,) of each type and one pattern of (x, z)."""
    return np.array(
        [
            w * np.prod([probs[x, z] for x, z in pattern])
            for w, probs in zip(mixture.weights, mixture.probs, strict=True)
        ]
    )


def list_patterns(patterns):
    """Return the patterns as [(count, [(x, z), ...]), ...]."""
    return [
        (count, [divmod(int(s), patterns.num_reward_values) for s in patterns.symbols[low:high]])
        for count, low, high in zip(patterns.counts, patterns.offsets[:-1], patterns.offsets[1:], strict=True)
    ]


def random_mixture(rng, num_types, points, values=2, weights=None):
    weights = rng.dirichlet(np.full(num_types, 5.0)) if weights is None else np.asarray(weights, float)
    return Mixture(weights, rng.dirichlet(np.ones(values), (num_types, points)))


def enumerate_patterns(mixture, paths, share=None):
    """Return all reward patterns over the given paths (lists of x), with probabilities as their counts."""
    points, values = mixture.probs.shape[1:]
    symbols, lengths, counts = [], [], []
    for k, path in enumerate(paths):
        for reward_index in product(range(values), repeat=len(path)):
            pattern = list(zip(path, reward_index, strict=True))
            symbols += [x * values + z for x, z in pattern]
            lengths.append(len(path))
            counts.append(joint_probs(pattern, mixture).sum() * (1.0 / len(paths) if share is None else share[k]))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return RewardPatterns(np.array(symbols, np.int32), offsets, np.array(counts), points, values)


def draw_episodes(rng, mixture, paths):
    """Draw episodes whose states are the x of ``paths`` (K, H), with one action and rewards of the mixture."""
    paths = np.asarray(paths)
    types = rng.choice(mixture.weights.size, size=len(paths), p=mixture.weights)
    sums = mixture.probs.cumsum(axis=2)[types[:, None], paths]
    reward_indices = (rng.random((*paths.shape, 1)) > sums).sum(axis=2).clip(max=mixture.probs.shape[2] - 1)
    values = tuple(float(z) for z in range(mixture.probs.shape[2]))
    return Episodes.from_arrays(
        paths,
        np.zeros_like(paths),
        reward_indices,
        num_states=mixture.probs.shape[1],
        num_actions=1,
        reward_values=values,
    )
