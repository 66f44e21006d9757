"""The posterior over contexts: the one Bayes update outside compiled loops, whose own steps are tested against it.

Only rewards move a belief: states and actions have the same law in every context.
"""

from __future__ import annotations

import numpy as np

from rewardmix._core.checks import Floats


def update(belief: Floats, likelihood: Floats) -> Floats:
    """Posterior after an outcome of the given likelihood in each context: b * q / (b . q).

    Args:
        belief: (..., M) current belief.
        likelihood: (..., M) probability of the observed outcome in each context.

    Returns:
        (..., M): the posterior. Where the outcome is impossible under the belief (b . q = 0) the belief is returned
        unchanged, since there is nothing to learn from what the model says cannot happen.
    """
    joint = belief * likelihood
    total = joint.sum(axis=-1, keepdims=True)
    possible = total > 0
    return np.where(possible, joint / np.where(possible, total, 1.0), belief)


def posterior(weights: Floats, likelihoods: Floats) -> Floats:
    """Belief after a whole sequence: ``update`` along axis -2 of (..., T, M) likelihoods, starting from ``weights``.

    Args:
        weights: (M,) prior.
        likelihoods: (..., T, M).

    Returns:
        (..., T + 1, M): the belief before the first outcome and after each.
    """
    beliefs = [np.broadcast_to(weights, (*likelihoods.shape[:-2], weights.size))]
    for t in range(likelihoods.shape[-2]):
        beliefs.append(update(beliefs[-1], likelihoods[..., t, :]))
    return np.stack(beliefs, axis=-2)
