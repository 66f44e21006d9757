"""What state-actions say of each other: in a large world, how far a law that was seen a few times may be believed.

The law of context m at x is that of the world, plus what all contexts have in common at x, plus what is its own. Best
linear prediction then shrinks rewards twice. With n visits of x

    centre(x) = world + r n / (n + b) (average(x) - world)     b = noise / signal of averages
    p_m(x)    = (n_m observed_m(x) + a centre(x)) / (n_m + a)  a = noise / signal of what is a context's own

where r is the share of the variance of averages that is of what contexts have in common. An average of M contexts also
holds 1 / M of the variance of their own parts, and these say nothing of the other contexts: where contexts have nothing
in common, r = 0, and a law that is hardly known is taken for that of the world. All three are learned from counts
alone, without a fit, by sums that are unbiased however thin the counts are:

    square   = E |average(x)|^2          from pairs of visits of one x:  sum_z n_z (n_z - 1) / (n (n - 1))
    distance = E sum_m w_m |p_m(x) - average(x)|^2
    distance^2 / (M - 1) = E |covariance(x, y)|^2    from pairs of samples k, l of one pair (x, y), u_k the indicator of
                                                     the k-th reward at x minus the average, v_k that at y:
                                                     (u_k . u_l) (v_k . v_l)

The last equation takes distances at x and y for independent, and for M > 2 contexts for directions that are. Then

    b = (1 - square) / (square - |world|^2)              a = (1 - 1 / M) (1 - square - distance) / distance
    r = 1 - distance / ((M - 1) (square - |world|^2))    at least 0

In a small world there is too little to learn any of them from; there a is 1, b is 0 and r is 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix.moments import Moments
from rewardmix.recovery.bags import shares

LARGE = 256
"""A world of more state-actions than this is large."""

LEAST, MOST = 0.5, 5.0
"""What a learned pseudo-count may be. It speaks of all state-actions, and a few that differ much must be heard."""


ALIKE, MOST_ALIKE = 10.0, 1000.0
"""Pseudo-count of averages from which on state-actions are taken for alike, and the largest."""


def is_large(states: int, actions: int) -> bool:
    """Whether a world is large."""
    return states * actions > LARGE


def world_law(outcomes: NDArray[np.int64]) -> tuple[Floats, float, float]:
    """((Z,) world, square, b) from (X, Z) how often x paid z."""
    visits = outcomes.sum(axis=1)
    counts, n = outcomes[visits > 1].astype(np.float64), visits[visits > 1].astype(np.float64)[:, None]
    if not counts.size:
        values = outcomes.shape[1]
        return np.full(values, 1.0 / values), 1.0 / values, MOST
    pairs = float((n - 1.0).sum())
    world = (counts * (n - 1.0) / n).sum(axis=0) / pairs
    square = float((counts * (counts - 1.0) / n).sum()) / pairs
    return world, square, _ratio(1.0 - square, square - float((world * world).sum()))


def mean_square_covariance(moments: Moments) -> float:
    """E |covariance(x, y)|^2 over pairs of samples; NaN where no pair was seen twice.

    An average takes its own samples along, which makes two deviations from it correlate by minus variance over visits;
    what that leaves of the product of two is taken off.
    """
    x, y = moments.pairs
    kept = (x != y) & (moments.pair_samples > 1)
    if not kept.any():
        return math.nan
    x, y, tables = x[kept], y[kept], moments.pair_tables[kept].astype(np.float64)
    visits = np.maximum(moments.samples, 1)[:, None]
    average = moments.outcomes / visits
    length = (average * average).sum(axis=1)
    spare = (1.0 - length) / np.maximum(visits[:, 0] - 1.0, 1.0)  # variance over visits
    mine, theirs, n = tables.sum(axis=2), tables.sum(axis=1), tables.sum(axis=(1, 2))
    one, two = average[x], average[y]
    centred = tables - mine[:, :, None] * two[:, None, :] - one[:, :, None] * theirs[:, None, :]
    centred += n[:, None, None] * one[:, :, None] * two[:, None, :]
    far_one = 1.0 - 2.0 * one + length[x][:, None]  # |indicator of z - average|^2
    far_two = 1.0 - 2.0 * two + length[y][:, None]
    each = (tables * far_one[:, :, None] * far_two[:, None, :]).sum(axis=(1, 2))
    pairs = n * (n - 1.0)
    found = (centred * centred).sum(axis=(1, 2)) - each - pairs * spare[x] * spare[y]
    return float(found.sum() / pairs.sum())


@dataclass(frozen=True, eq=False)
class Pool:
    """What the state-actions of a large world say of each other; the sums over its counts are taken once.

    Attributes:
        moments: the counts.
    """

    moments: Moments

    @cached_property
    def law(self) -> tuple[Floats, float, float]:
        """((Z,) world, square, b)."""
        return world_law(self.moments.outcomes)

    @cached_property
    def square_covariance(self) -> float:
        """E |covariance(x, y)|^2, NaN where no pair was seen twice."""
        return mean_square_covariance(self.moments)

    def strength(self, contexts: int) -> float:
        """a: the pseudo-count of each law at its centre."""
        if math.isnan(self.square_covariance):
            return 1.0
        _, square, _ = self.law
        distance = self.distance(contexts)
        return _ratio((1.0 - 1.0 / contexts) * (1.0 - square - distance), distance)

    def distance(self, contexts: int) -> float:
        """E sum_m w_m |p_m(x) - average(x)|^2 if there are so many contexts; NaN where no pair was seen twice."""
        return math.sqrt(max(self.square_covariance, 0.0) * (contexts - 1))

    def common(self, contexts: int) -> float:
        """r: share of the variance of averages that is of what contexts have in common; 1 where nothing tells."""
        world, square, _ = self.law
        spread = square - float((world * world).sum())
        if contexts < 2 or math.isnan(self.square_covariance) or spread <= 0.0:
            return 1.0
        return max(1.0 - self.distance(contexts) / ((contexts - 1) * spread), 0.0)

    def centre(self, average: Floats, visits: Floats, contexts: int) -> Floats:
        """(X, Z) averages over (X,) visits, pulled to the law of the world, as the prior of so many contexts asks."""
        world, _, pull = self.law
        n, common = visits[:, None], self.common(contexts)
        return np.asarray((common * n * average + (pull + (1.0 - common) * n) * world) / (n + pull))


def pooled_alike(outcomes: Floats) -> Floats:
    """(X, Z) averages of ``outcomes``, pulled to the law of the world where all state-actions seem to be alike.

    Unlike in ``world_law`` every state-action that was visited twice counts the same: who earns is often at a few. Of
    the pseudo-count ``ALIKE`` is taken off: where state-actions differ that much, each had better be taken by itself.
    """
    visits = outcomes.sum(axis=1, keepdims=True)
    several = visits[:, 0] > 1
    if several.sum() < 2:
        return shares(outcomes)
    counts, n = outcomes[several], visits[several]
    world = (counts / n).mean(axis=0)
    square = float((counts * (counts - 1.0) / (n * (n - 1.0))).sum(axis=1).mean())
    pull = max(_ratio(1.0 - square, square - float((world * world).sum()), MOST_ALIKE) - ALIKE, 0.0)
    return np.asarray(
        np.where(visits > 0, (outcomes + pull * world) / np.maximum(visits + pull, 1.0), shares(outcomes))
    )


def _ratio(noise: float, signal: float, most: float = MOST) -> float:
    return min(max(noise / signal, LEAST), most) if signal > 0.0 else most
