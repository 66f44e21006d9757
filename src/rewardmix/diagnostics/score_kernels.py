"""Compute the scores of all assumption tests in one pass over the episodes.

At step t of an episode the model predicts the reward index from the past, with the belief b over types:

    P(z) = sum_m b[m] p_m(z | x).

A *tilt* g is any function of z that sums to zero and depends only on the past of step t. Then g(z) / P(z) has mean zero
under the true model, for any logging policy, also one that reacts to rewards. Each assumption has a tilt in the
direction of its violation; the score of an episode is the sum over its steps (columns ``SWITCHING_COLUMN``, ...).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.jit import kernel

SWITCHING_COLUMN, COPYING_COLUMN, REPETITION_COLUMN, EXTRA_TYPE_COLUMN = 0, 1, 2, 3
"""Columns of the scores.

In order: a type that changes, a reward that copies the previous one, a reward that copies the last one of this
state-action, and one more type.
"""

NUM_SCORES = 4

MAX_TILT = 3.0
"""Maximum ratio of tilt to prediction, so that rare rewards do not dominate a test."""


@kernel
def fill_scores(
    state_actions: Any, reward_indices: Any, lengths: Any, model: Any, rival: Any, values: Any, out: Any
) -> None:
    """Compute the scores of all episodes under a model and fill the arrays of ``out``.

    ``out`` are scores (K, 4) and type posteriors (K, M) of episodes, and residuals (K, H), variances (K, H) and beliefs
    (K, H, M) of steps. Residuals are rewards minus their prediction, and beliefs are those after a step.
    ``state_actions`` is (K, H); ``model`` is (weights (M,), reward probabilities (X, Z, M)); ``rival`` is another model
    with one more type; ``values`` (Z,) the reward values.
    """
    weights, table = model
    other_weights, other_table = rival
    scores, posteriors, residuals, variances, beliefs = out
    num_types, num_values = weights.size, values.size
    belief, change = np.empty(num_types), np.empty(num_types)
    other = np.empty(other_weights.size)
    predicted, tilt = np.empty(num_values), np.empty(num_values)
    for k in range(lengths.size):
        belief[:] = weights
        change[:] = 0.0
        other[:] = other_weights
        scores[k] = 0.0
        for t in range(lengths[k]):
            x, z = state_actions[k, t], reward_indices[k, t]
            predict_outcome(belief, table[x], predicted)
            if t > 0:
                # The derivative of the belief by the switching probability: with it the type is drawn anew from
                # the weights at each step.
                change += weights - belief
                predict_outcome(change, table[x], tilt)
                limit = limit_tilt(tilt, predicted)
                # The limited tilt is a function of the past too, so the score keeps mean zero.
                change *= limit
                scores[k, SWITCHING_COLUMN] += limit * tilt[z] / predicted[z]
                last_index = reward_indices[k, t - 1]
                scores[k, COPYING_COLUMN] += (z == last_index) - predicted[last_index]
                # Only the last visit counts, so a frequent state-action has no more than one term per step.
                for u in range(t - 1, -1, -1):
                    if state_actions[k, u] == x:
                        scores[k, REPETITION_COLUMN] += (z == reward_indices[k, u]) - predicted[reward_indices[k, u]]
                        break
            predict_outcome(other, other_table[x], tilt)
            tilt -= predicted
            scores[k, EXTRA_TYPE_COLUMN] += limit_tilt(tilt, predicted) * tilt[z] / predicted[z]
            mean = 0.0
            for i in range(num_values):
                mean += predicted[i] * values[i]
            variance = 0.0
            for i in range(num_values):
                variance += predicted[i] * (values[i] - mean) ** 2
            residuals[k, t], variances[k, t] = values[z] - mean, variance
            total = 0.0
            for m in range(num_types):
                change[m] *= table[x, z, m] / predicted[z]
                belief[m] *= table[x, z, m] / predicted[z]
                total += change[m]
            # Derivative of the normalization in Bayes' rule: the belief has to sum to 1.
            change -= belief * total
            bayes_update_inplace(other, other_table[x, z])
            beliefs[k, t] = belief
        posteriors[k] = belief


@kernel
def predict_outcome(belief: Any, probs: Any, out: Any) -> None:
    """Fill out[z] = sum_m belief[m] probs[z, m]."""
    for z in range(out.size):
        total = 0.0
        for m in range(belief.size):
            total += belief[m] * probs[z, m]
        out[z] = total


@kernel
def limit_tilt(tilt: Any, predicted: Any) -> Any:
    """Compute the factor, at most 1, that keeps a tilt within ``MAX_TILT`` times the prediction."""
    largest = MAX_TILT
    for z in range(tilt.size):
        largest = max(largest, abs(tilt[z]) / predicted[z])
    return MAX_TILT / largest


@kernel
def bayes_update_inplace(belief: Any, likelihood: Any) -> None:
    """Update a belief in place by Bayes' rule."""
    total = 0.0
    for m in range(belief.size):
        belief[m] *= likelihood[m]
        total += belief[m]
    belief /= total


@kernel
def fill_directional_derivative(
    state_actions: Any, reward_indices: Any, lengths: Any, model: Any, posteriors: Any, direction: Any, out: Any
) -> None:
    """Fill out[k] with the derivative of the log-likelihood of episode k along ``direction``.

    The parameters are logits; ``direction`` is (rewards (X, Z, M), weights (M,)), centered under each reward
    distribution.
    """
    weights, _ = model
    probs, weight_direction = direction
    for k in range(lengths.size):
        total = 0.0
        for m in range(weights.size):
            total += weight_direction[m] * (posteriors[k, m] - weights[m])
        for t in range(lengths[k]):
            for m in range(weights.size):
                total += posteriors[k, m] * probs[state_actions[k, t], reward_indices[k, t], m]
        out[k] = total


@kernel
def fill_weighted_gradient(
    state_actions: Any, reward_indices: Any, lengths: Any, model: Any, posteriors: Any, amounts: Any, out: Any
) -> None:
    """Fill the transpose of ``fill_directional_derivative``: the gradients of episodes, weighted by ``amounts``.

    The reward part is not centered.
    """
    weights, _ = model
    probs, weight_gradient = out
    probs[:] = 0.0
    weight_gradient[:] = 0.0
    for k in range(lengths.size):
        for m in range(weights.size):
            weight_gradient[m] += amounts[k] * (posteriors[k, m] - weights[m])
        for t in range(lengths[k]):
            for m in range(weights.size):
                probs[state_actions[k, t], reward_indices[k, t], m] += amounts[k] * posteriors[k, m]
