"""Estimate a hierarchical prior for large models: how strongly sparse counts at one state-action are shrunk to the
others.

The reward distribution of type m at x is the pooled distribution of the model, plus a part that all types share at x,
plus a part of its own. Best linear prediction then shrinks twice. With n visits of x

    prior_mean(x) = pooled + r n / (n + b) (marginal(x) - pooled)          b = noise / signal of marginals
    p_m(x)        = (n_m observed_m(x) + a prior_mean(x)) / (n_m + a)      a = noise / signal of a type's own part

where r is the fraction of the variance of marginals that the shared part has. A marginal of M types also holds 1 / M of
the variance of their own parts, which carry no information about the other types: where types share nothing, r = 0, and
a sparsely observed distribution is shrunk to the pooled one. All three are estimated from counts alone, without a fit,
by sums that are unbiased however sparse the counts are:

    square   = E |marginal(x)|^2         from pairs of visits of one x:  sum_z n_z (n_z - 1) / (n (n - 1))
    distance = E sum_m w_m |p_m(x) - marginal(x)|^2
    distance^2 / (M - 1) = E |covariance(x, y)|^2    from pairs of samples k, l of one pair (x, y), u_k the indicator of
                                                     the k-th reward at x minus the marginal, v_k that at y:
                                                     (u_k . u_l) (v_k . v_l)

The last equation assumes that distances at x and y are independent, and for M > 2 types that directions are. Then

    b = (1 - square) / (square - |pooled|^2)             a = (1 - 1 / M) (1 - square - distance) / distance
    r = 1 - distance / ((M - 1) (square - |pooled|^2))   at least 0

A small model has too little data to estimate any of them; there a is 1, b is 0 and r is 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix.moments import Moments
from rewardmix.recovery.reward_patterns import normalize_counts

MIN_LARGE_SIZE = 256
"""A model with more state-actions than this is large."""

MIN_PSEUDOCOUNT, MAX_PSEUDOCOUNT = 0.5, 5.0
"""Limits of an estimated pseudocount. One number serves all state-actions, and a few that differ much must keep their
data.
"""


SIMILARITY_COUNT, MAX_SIMILARITY_COUNT = 10.0, 1000.0
"""Pseudocount of marginals above which state-actions count as similar, and its largest value."""


def uses_hierarchical_prior(states: int, actions: int) -> bool:
    """Return whether a model is large, so that the hierarchical prior is used."""
    return states * actions > MIN_LARGE_SIZE


def pooled_distribution(reward_counts: NDArray[np.int64]) -> tuple[Floats, float, float]:
    """Estimate (pooled distribution (Z,), square, b) from (X, Z) reward counts."""
    visits = reward_counts.sum(axis=1)
    counts, n = reward_counts[visits > 1].astype(np.float64), visits[visits > 1].astype(np.float64)[:, None]
    if not counts.size:
        values = reward_counts.shape[1]
        return np.full(values, 1.0 / values), 1.0 / values, MAX_PSEUDOCOUNT
    # Each x weighs n - 1: a state-action with one visit has no pair of visits and would bias the square by its noise.
    pairs = float((n - 1.0).sum())
    pooled = (counts * (n - 1.0) / n).sum(axis=0) / pairs
    square = float((counts * (counts - 1.0) / n).sum()) / pairs
    return pooled, square, _clip_ratio(1.0 - square, square - float((pooled * pooled).sum()))


def mean_square_covariance(moments: Moments) -> float:
    """Estimate E |covariance(x, y)|^2 over pairs of samples; NaN if no pair was observed twice.

    A marginal contains its own samples, which correlates two deviations from it by minus variance over visits. What
    that adds to the product of two is subtracted.
    """
    x, y = moments.pairs
    is_usable = (x != y) & (moments.pair_samples > 1)
    if not is_usable.any():
        return math.nan
    x, y, tables = x[is_usable], y[is_usable], moments.pair_tables[is_usable].astype(np.float64)
    visits = np.maximum(moments.num_samples, 1)[:, None]
    marginal_probs = moments.reward_counts / visits
    length = (marginal_probs * marginal_probs).sum(axis=1)
    noise = (1.0 - length) / np.maximum(visits[:, 0] - 1.0, 1.0)  # variance over visits
    counts_i, counts_j, n = tables.sum(axis=2), tables.sum(axis=1), tables.sum(axis=(1, 2))
    p_x, p_y = marginal_probs[x], marginal_probs[y]
    centered = tables - counts_i[:, :, None] * p_y[:, None, :] - p_x[:, :, None] * counts_j[:, None, :]
    centered += n[:, None, None] * p_x[:, :, None] * p_y[:, None, :]
    distance_x = 1.0 - 2.0 * p_x + length[x][:, None]  # |indicator of z - marginal|^2
    distance_y = 1.0 - 2.0 * p_y + length[y][:, None]
    # Products of a sample with itself are removed, so that only pairs of different samples are left and noise cancels.
    same_sample = (tables * distance_x[:, :, None] * distance_y[:, None, :]).sum(axis=(1, 2))
    pairs = n * (n - 1.0)
    corrected = (centered * centered).sum(axis=(1, 2)) - same_sample - pairs * noise[x] * noise[y]
    return float(corrected.sum() / pairs.sum())


@dataclass(frozen=True, eq=False)
class HierarchicalPrior:
    """Hierarchical prior of a large model; the sums over its counts are computed once.

    Attributes:
        moments: Counts of the model.
    """

    moments: Moments

    @cached_property
    def pooled(self) -> tuple[Floats, float, float]:
        """(pooled distribution (Z,), square, b)."""
        return pooled_distribution(self.moments.reward_counts)

    @cached_property
    def square_covariance(self) -> float:
        """E |covariance(x, y)|^2; NaN if no pair was observed twice."""
        return mean_square_covariance(self.moments)

    def pseudocount(self, num_types: int) -> float:
        """Compute a, the pseudocount of each reward distribution at its prior mean."""
        if math.isnan(self.square_covariance):
            return 1.0
        _, square, _ = self.pooled
        distance = self.type_distance(num_types)
        return _clip_ratio((1.0 - 1.0 / num_types) * (1.0 - square - distance), distance)

    def type_distance(self, num_types: int) -> float:
        """Compute E sum_m w_m |p_m(x) - marginal(x)|^2 for M types; NaN if no pair was observed twice."""
        return math.sqrt(max(self.square_covariance, 0.0) * (num_types - 1))

    def shared_variance(self, num_types: int) -> float:
        """Compute r, the fraction of the variance of marginals that all types share; 1 without usable pairs."""
        pooled, square, _ = self.pooled
        variance = square - float((pooled * pooled).sum())
        if num_types < 2 or math.isnan(self.square_covariance) or variance <= 0.0:
            return 1.0
        return max(1.0 - self.type_distance(num_types) / ((num_types - 1) * variance), 0.0)

    def prior_mean(self, marginal_probs: Floats, visits: Floats, num_types: int) -> Floats:
        """Compute the (X, Z) prior mean: marginals over (X,) visits, shrunk to the pooled distribution for M types."""
        pooled, _, b = self.pooled
        n, r = visits[:, None], self.shared_variance(num_types)
        return np.asarray((r * n * marginal_probs + (b + (1.0 - r) * n) * pooled) / (n + b))


def shrink_to_pooled(reward_counts: Floats) -> Floats:
    """Shrink (X, Z) marginals of reward counts to their pooled distribution if all state-actions seem similar.

    Unlike in ``pooled_distribution``, every state-action with two visits weighs equally, because rewards are often at a
    few of them. ``SIMILARITY_COUNT`` is subtracted from the pseudocount: where state-actions differ much, each keeps
    its own estimate.
    """
    visits = reward_counts.sum(axis=1, keepdims=True)
    is_repeated = visits[:, 0] > 1
    if is_repeated.sum() < 2:
        return normalize_counts(reward_counts)
    counts, n = reward_counts[is_repeated], visits[is_repeated]
    pooled = (counts / n).mean(axis=0)
    square = float((counts * (counts - 1.0) / (n * (n - 1.0))).sum(axis=1).mean())
    pseudocount = max(
        _clip_ratio(1.0 - square, square - float((pooled * pooled).sum()), MAX_SIMILARITY_COUNT) - SIMILARITY_COUNT, 0.0
    )
    return np.asarray(
        np.where(
            visits > 0,
            (reward_counts + pseudocount * pooled) / np.maximum(visits + pseudocount, 1.0),
            normalize_counts(reward_counts),
        )
    )


def _clip_ratio(noise: float, signal: float, max_value: float = MAX_PSEUDOCOUNT) -> float:
    """Compute noise / signal within the limits of a pseudocount; the largest value if there is no signal."""
    return min(max(noise / signal, MIN_PSEUDOCOUNT), max_value) if signal > 0.0 else max_value
