"""Use triples of rewards: third moments, the composite likelihood of their tables, and initial values for EM.

With c_x the reward at x less its mean, E[c_x c_y c_w] = sum_m w_m d_m(x) d_m(y) d_m(w), where d_m(x) is the mean of
type m less that of all. Four types can be invisible in pairs (E[c_x c_y] = 0 for all x, y) and visible in triples. Each
of the strongest triples gives one initial value: four types that differ only at its three state-actions, each by the
cube root of their correlation, with signs

    +++  +--  -+-  --+        (reversed for a negative correlation)

so that pairs are uncorrelated and the triple is not. EM finds the rest from there.
"""

from __future__ import annotations

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.portable_math import power
from rewardmix.model import weighted_sum
from rewardmix.moments import Moments
from rewardmix.recovery.likelihood import Mixture
from rewardmix.recovery.reward_patterns import RewardPatterns, fill_unvisited, patterns_from_triples

NUM_TRIPLE_INITS = 4
"""Number of triples that give an initial value."""

MIN_TRIPLE_SAMPLES = 20
"""Triples with fewer samples are ignored: their standard error is not known well enough."""

TRIPLE_SIGN_PATTERNS = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
"""(4, 3): signs of four types at the three state-actions."""

MAX_TILT_SHARE = 0.9
"""Largest change of a type's mean reward, as a share of one standard deviation."""


def patterns_from_triple_counts(moments: Moments) -> RewardPatterns:
    """Make patterns of three symbols from the triple tables of moments.

    Marginals are those of first visits, which have more samples than the triples.
    """
    patterns = patterns_from_triples(moments.triple_keys, moments.triple_tables, moments.num_state_actions)
    patterns.__dict__["marginal_probs"] = fill_unvisited(moments.reward_frequencies, moments.num_samples > 0)
    return patterns


def estimate_third_moments(moments: Moments) -> tuple[Floats, Floats]:
    """Estimate standardized third moments (P3,) of all triples, and their z-scores (P3,).

    The z-score uses the standard error of independent rewards. Triples with fewer than ``MIN_TRIPLE_SAMPLES`` samples,
    and those of a reward without variance, have 0 in both.
    """
    probs = fill_unvisited(moments.reward_frequencies, moments.num_samples > 0)
    standardized, deviation = standardize_rewards(probs, moments.reward_values)
    x, y, w = moments.triples
    samples = moments.triple_samples
    total = np.zeros(x.size)
    for z in np.ndindex((moments.num_values,) * 3):  # a fixed order of summation; BLAS has none
        total += moments.triple_tables[:, *z] * standardized[x, z[0]] * standardized[y, z[1]] * standardized[w, z[2]]
    is_usable = (deviation[x] > 0) & (deviation[y] > 0) & (deviation[w] > 0) & (samples >= MIN_TRIPLE_SAMPLES)
    correlation = np.where(is_usable, total / np.maximum(samples, 1), 0.0)
    return correlation, correlation * np.sqrt(samples)


def standardize_rewards(probs: Floats, reward_values: Floats) -> tuple[Floats, Floats]:
    """Compute (X, Z) standardized reward values and their (X,) standard deviations; 0 where nothing varies."""
    values = range(reward_values.size)
    mean = weighted_sum(reward_values, [probs[:, z] for z in values])
    centered = reward_values[None] - mean[:, None]
    variance = weighted_sum(np.ones(reward_values.size), [probs[:, z] * centered[:, z] ** 2 for z in values])
    deviation = np.sqrt(np.where(variance > 1e-12, variance, 0.0))
    return np.where(deviation[:, None] > 0, centered / np.where(deviation > 0, deviation, 1.0)[:, None], 0.0), deviation


def make_triple_inits(moments: Moments, num_types: int) -> list[tuple[str, Mixture]]:
    """Make one initial value from each of the strongest triples; none without triples."""
    if not moments.triple_keys.size:
        return []
    correlation, scores = estimate_third_moments(moments)
    probs = fill_unvisited(moments.reward_frequencies, moments.num_samples > 0)
    standardized, _ = standardize_rewards(probs, moments.reward_values)
    x, y, w = moments.triples
    # A state-action repeated within a triple gives no sign pattern of three, so such triples are left out.
    scores = np.where((x < y) & (y < w), scores, 0.0)
    order = np.argsort(-np.abs(scores), kind="stable")[:NUM_TRIPLE_INITS]
    inits = []
    for number, k in enumerate(order[scores[order] != 0]):
        triple = np.array([int(x[k]), int(y[k]), int(w[k])])
        tilt = min(MAX_TILT_SHARE, float(power(abs(float(correlation[k])), 1.0 / 3.0)))
        signs = np.zeros((num_types, 3))
        signs[: min(num_types, 4)] = TRIPLE_SIGN_PATTERNS[:num_types] * np.sign(correlation[k])
        tilted = np.repeat(probs[None], num_types, axis=0)
        # The factor tilts probabilities so that the mean shifts by ``tilt`` standard deviations; the floor keeps them
        # positive.
        tilted[:, triple] *= np.maximum(
            1.0 + tilt * signs[:, :, None] * standardized[triple][None], 1.0 - MAX_TILT_SHARE
        )
        weights = np.full(num_types, 1.0 / num_types)
        inits.append((f"triple {number + 1}", Mixture(weights, tilted / tilted.sum(axis=2, keepdims=True))))
    return inits
