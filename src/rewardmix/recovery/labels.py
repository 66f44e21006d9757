"""The order of contexts, which the data do not know and people need.

At the state-action where expected rewards differ most between contexts, the context with the higher one comes first.
Weights that were given keep their places: only contexts of equal given weight are ordered.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix.model import RewardMixingMDP, mixed

MOST_TRIED = 6
"""Up to so many contexts all orders are tried."""


def canonical(weights: Floats, laws: Floats, reward_values: Floats, given: bool) -> NDArray[np.int64]:
    """(M,) order of the contexts: new context m is old context order[m].

    Args:
        weights: (M,).
        laws: (M, X, Z).
        reward_values: (Z,).
        given: whether the weights were given, so that their order has a meaning.
    """
    means = mixed(reward_values, np.moveaxis(laws, -1, 0))
    centred = means - mixed(weights, means)
    anchor = int(np.argmax(mixed(weights, centred**2)))
    order = np.argsort(-means[:, anchor], kind="stable")
    if not given:
        return order.astype(np.int64)
    out = np.empty(order.size, np.int64)
    for weight in np.unique(np.round(weights, 12)):
        places = np.flatnonzero(np.isclose(weights, weight, rtol=0, atol=1e-12))
        out[places] = [m for m in order if m in places]
    return out


def alignment(laws: Floats, reference: Floats) -> NDArray[np.int64]:
    """(M,) order of the contexts of ``laws`` that brings them nearest to ``reference`` (squared distance)."""
    contexts = laws.shape[0]
    distance = ((laws[:, None] - reference[None]) ** 2).reshape(contexts, contexts, -1).sum(axis=2)
    if contexts <= MOST_TRIED:
        best = min(permutations(range(contexts)), key=lambda order: distance[order, np.arange(contexts)].sum())
        return np.asarray(best, np.int64)
    order = np.arange(contexts)
    while True:  # swap pairs as long as that helps, which for few contexts in well-parted places is the optimum
        here = distance[order, np.arange(contexts)]
        swapped = distance[order][:, np.arange(contexts)]
        gain = here[:, None] + here[None, :] - swapped - swapped.T
        i, j = np.unravel_index(int(np.argmax(gain)), gain.shape)
        if gain[i, j] <= 1e-12:
            return order.astype(np.int64)
        order[[i, j]] = order[[j, i]]


def aligned(model: RewardMixingMDP, reference: RewardMixingMDP) -> RewardMixingMDP:
    """The model with its contexts in the order that is nearest to those of another."""
    order = alignment(model.laws, reference.laws)
    return replace(model, weights=model.weights[order], rewards=model.rewards[order])
