"""Slow truths about mixtures of reward laws."""

from __future__ import annotations

from itertools import product

import numpy as np

from rewardmix.episodes import Episodes
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.likelihood import Mixture


def joint_table(bag, mixture):
    """(M,) joint probability of a context and of one bag of (x, z), by multiplication."""
    return np.array(
        [w * np.prod([laws[x, z] for x, z in bag]) for w, laws in zip(mixture.weights, mixture.laws, strict=True)]
    )


def listed(bags):
    """[(count, [(x, z), ...]), ...]."""
    return [
        (count, [divmod(int(s), bags.num_values) for s in bags.symbols[low:high]])
        for count, low, high in zip(bags.counts, bags.offsets[:-1], bags.offsets[1:], strict=True)
    ]


def random_mixture(rng, contexts, points, values=2, weights=None):
    weights = rng.dirichlet(np.full(contexts, 5.0)) if weights is None else np.asarray(weights, float)
    return Mixture(weights, rng.dirichlet(np.ones(values), (contexts, points)))


def every_outcome(mixture, paths, share=None):
    """The exact law of bags over the given paths (lists of x): each outcome with its probability as its count."""
    points, values = mixture.laws.shape[1:]
    symbols, lengths, counts = [], [], []
    for k, path in enumerate(paths):
        for outcome in product(range(values), repeat=len(path)):
            bag = list(zip(path, outcome, strict=True))
            symbols += [x * values + z for x, z in bag]
            lengths.append(len(path))
            counts.append(joint_table(bag, mixture).sum() * (1.0 / len(paths) if share is None else share[k]))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Bags(np.array(symbols, np.int32), offsets, np.array(counts), points, values)


def drawn(rng, mixture, paths):
    """Episodes whose states are the x of ``paths`` (K, H), one action, rewards from the mixture."""
    paths = np.asarray(paths)
    contexts = rng.choice(mixture.weights.size, size=len(paths), p=mixture.weights)
    sums = mixture.laws.cumsum(axis=2)[contexts[:, None], paths]
    outcomes = (rng.random((*paths.shape, 1)) > sums).sum(axis=2).clip(max=mixture.laws.shape[2] - 1)
    values = tuple(float(z) for z in range(mixture.laws.shape[2]))
    return Episodes.from_arrays(
        paths, np.zeros_like(paths), outcomes, num_states=mixture.laws.shape[1], num_actions=1, reward_values=values
    )
