"""Filter beliefs over types by Bayes' rule (a Bayes filter whose hidden state does not move).

    b'(m) = b(m) p_m(z | s, a) / sum_k b(k) p_k(z | s, a)

Rewards alone change a belief: transitions do not depend on the type. Compiled loops contain this update inline and are
tested against this module.
"""

from __future__ import annotations

import numpy as np

from rewardmix._core.checks import Floats


def update(belief: Floats, likelihood: Floats) -> Floats:
    """Update a belief by the likelihood of an observed reward: b * q / (b . q).

    Args:
        belief: (..., M) current belief.
        likelihood: (..., M) probability of the observed reward under each type.

    Returns:
        (..., M) posterior. Where the reward is impossible under the belief (b . q = 0), the belief is returned
        unchanged, because Bayes' rule is undefined there.

    Examples:
        >>> import numpy as np
        >>> import rewardmix as rm
        >>> rm.belief.update(np.array([0.5, 0.5]), np.array([0.9, 0.3])).round(2).tolist()
        [0.75, 0.25]
    """
    joint = belief * likelihood
    total = joint.sum(axis=-1, keepdims=True)
    possible = total > 0
    # The inner ``where`` avoids division by zero, which NumPy would warn about even for entries that are not used.
    return np.where(possible, joint / np.where(possible, total, 1.0), belief)


def filter_beliefs(weights: Floats, likelihoods: Floats) -> Floats:
    """Compute the beliefs along a sequence of rewards.

    Args:
        weights: (M,) prior probabilities of the types.
        likelihoods: (..., T, M) probability of each observed reward under each type.

    Returns:
        (..., T + 1, M) belief before the first reward and after each.

    Examples:
        >>> import numpy as np
        >>> import rewardmix as rm
        >>> likelihoods = np.array([[0.9, 0.3], [0.9, 0.3]])
        >>> rm.belief.filter_beliefs(np.array([0.5, 0.5]), likelihoods).round(2).tolist()
        [[0.5, 0.5], [0.75, 0.25], [0.9, 0.1]]
    """
    beliefs = [np.broadcast_to(weights, (*likelihoods.shape[:-2], weights.size))]
    for t in range(likelihoods.shape[-2]):
        beliefs.append(update(beliefs[-1], likelihoods[..., t, :]))
    return np.stack(beliefs, axis=-2)
