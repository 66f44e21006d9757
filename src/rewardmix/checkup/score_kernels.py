"""One walk over the episodes that leaves everything the tests of assumptions need.

At step t of an episode the model predicts the outcome from what was seen before, with the belief b over contexts:

    P(z) = sum_m b[m] p_m(z | x).

A *tilt* g is any function of the outcome that sums to zero, chosen from what was seen before step t. Then g(z) / P(z)
has mean zero at the true model, whatever wrote the log: actions may follow rewards as they like. Each assumption has
the tilt that its violation would give; what is kept of an episode is the sum over its steps (``SWITCHED`` ...).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.jit import kernel

SWITCHED, COPIED, REPEATED, JOINED = 0, 1, 2, 3
"""Columns of the scores: a context that changes, a reward that copies the one before, one that copies the last reward
of the same state-action, one more context."""

NUM_SCORES = 4

LARGEST_TILT = 3.0
"""No tilt is larger than this multiple of the prediction: rare outcomes must not decide a test."""


@kernel
def walk(points: Any, outcomes: Any, lengths: Any, model: Any, rival: Any, values: Any, out: Any) -> None:
    """Scores (K, 4) and posteriors (K, M) of the episodes, and of each step: (K, H) the reward minus its prediction,
    the variance of that, and (K, H, M) the belief after it.

    ``points`` (K, H) are the state-actions; ``model`` is (weights (M,), table (X, Z, M) of the laws of the outcomes);
    ``rival`` another model, with one context more; ``values`` (Z,) the rewards; ``out`` the five arrays.
    """
    weights, table = model
    other_weights, other_table = rival
    scores, posteriors, residuals, variances, beliefs = out
    contexts, num_values = weights.size, values.size
    belief, change = np.empty(contexts), np.empty(contexts)
    other = np.empty(other_weights.size)
    predicted, tilt = np.empty(num_values), np.empty(num_values)
    for k in range(lengths.size):
        belief[:] = weights
        change[:] = 0.0
        other[:] = other_weights
        scores[k] = 0.0
        for t in range(lengths[k]):
            x, z = points[k, t], outcomes[k, t]
            predict(belief, table[x], predicted)
            if t > 0:
                change += weights - belief
                predict(change, table[x], tilt)
                limit = limited(tilt, predicted)
                change *= limit
                scores[k, SWITCHED] += limit * tilt[z] / predicted[z]
                before = outcomes[k, t - 1]
                scores[k, COPIED] += (z == before) - predicted[before]
                for u in range(t - 1, -1, -1):
                    if points[k, u] == x:
                        scores[k, REPEATED] += (z == outcomes[k, u]) - predicted[outcomes[k, u]]
                        break
            predict(other, other_table[x], tilt)
            tilt -= predicted
            scores[k, JOINED] += limited(tilt, predicted) * tilt[z] / predicted[z]
            mean = 0.0
            for i in range(num_values):
                mean += predicted[i] * values[i]
            variance = 0.0
            for i in range(num_values):
                variance += predicted[i] * (values[i] - mean) ** 2
            residuals[k, t], variances[k, t] = values[z] - mean, variance
            total = 0.0
            for m in range(contexts):
                change[m] *= table[x, z, m] / predicted[z]
                belief[m] *= table[x, z, m] / predicted[z]
                total += change[m]
            change -= belief * total
            renew(other, other_table[x, z])
            beliefs[k, t] = belief
        posteriors[k] = belief


@kernel
def predict(belief: Any, laws: Any, out: Any) -> None:
    """out[z] = sum_m belief[m] laws[z, m]."""
    for z in range(out.size):
        total = 0.0
        for m in range(belief.size):
            total += belief[m] * laws[z, m]
        out[z] = total


@kernel
def limited(tilt: Any, predicted: Any) -> Any:
    """The factor, at most 1, that keeps a tilt within ``LARGEST_TILT`` times the prediction."""
    largest = LARGEST_TILT
    for z in range(tilt.size):
        largest = max(largest, abs(tilt[z]) / predicted[z])
    return LARGEST_TILT / largest


@kernel
def renew(belief: Any, likelihood: Any) -> None:
    """Bayes, in place."""
    total = 0.0
    for m in range(belief.size):
        belief[m] *= likelihood[m]
        total += belief[m]
    belief /= total


@kernel
def along(points: Any, outcomes: Any, lengths: Any, model: Any, posteriors: Any, direction: Any, out: Any) -> None:
    """out[k] = derivative of the log-likelihood of episode k along ``direction``, in logits of the laws and weights.

    ``direction`` is (laws (X, Z, M), weights (M,)); its mean under each law is taken off.
    """
    weights, _ = model
    laws, shares = direction
    for k in range(lengths.size):
        total = 0.0
        for m in range(weights.size):
            total += shares[m] * (posteriors[k, m] - weights[m])
        for t in range(lengths[k]):
            for m in range(weights.size):
                total += posteriors[k, m] * laws[points[k, t], outcomes[k, t], m]
        out[k] = total


@kernel
def across(points: Any, outcomes: Any, lengths: Any, model: Any, posteriors: Any, amounts: Any, out: Any) -> None:
    """The transpose of ``along``: out = sum over episodes of amounts[k] times the gradient, before centring of laws."""
    weights, _ = model
    laws, shares = out
    laws[:] = 0.0
    shares[:] = 0.0
    for k in range(lengths.size):
        for m in range(weights.size):
            shares[m] += amounts[k] * (posteriors[k, m] - weights[m])
        for t in range(lengths[k]):
            for m in range(weights.size):
                laws[points[k, t], outcomes[k, t], m] += amounts[k] * posteriors[k, m]
