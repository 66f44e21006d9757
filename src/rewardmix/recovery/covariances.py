"""Covariances of pairs of rewards: centre, standard error and radius of each.

For two value indicators i = (x, z) and j = (y, z') at two steps of one episode, from the n samples of the pair (x, y):

    centre     mean of (1[r_x = z] - average_i) (1[r_y = z'] - average_j)       averages from all episodes
    deviation  sqrt(v(centre) / n),   v(c) = a_i (1 - a_i) a_j (1 - a_j) + (1 - 2 a_i) (1 - 2 a_j) c - c^2
    radius     rho(n) + delta_i |m_j| + delta_j |m_i| + delta_i delta_j + epsilon_0^2

with delta the radius of an average and m_i the mean of 1[r_x = z] - average_i over the samples of the pair: because
mean (r_x - a_x)(r_y - a_y) falls by exactly (a_x - â_x) m_y + (a_y - â_y) m_x - (a_x - â_x)(a_y - â_y) when the true
averages a are put for the estimates â, the radius covers the error of the averages without any further assumption.
The range of a centred product is at most 1, so Hoeffding's rho(n) is that of a coin. The paper centres at mu-hat - â â
(printed with a plus in eq:lp_variables: departures 10 and 11 of docs/paper.md).

v(c) is the variance of the centred product u w in a world where its mean is c: an indicator with average a has
u^2 = a (1 - a) + (1 - 2a) u, so the mean of u^2 w^2 follows from c, and with it all that the table of the pair says of
the variance. Where rewards rarely pay and contexts differ much it is many times that of independent rewards, v(0). The
error of the averages enters ``centre`` only as a product with m, of the order 1/n, so it adds nothing here. Rare events
make the plain estimate of v too small just where ``centre`` is: averages are pulled half a count towards the middle,
c one count towards 0, and a radius that depends on the deviation is that of the largest v within the interval itself
(for a share this is Wilson's interval).
``null_deviation`` = sqrt(v(0) / n) is for the question whether a pair is correlated at all, and for weights of a fit: a
weight that followed ``centre`` would favour the pairs that err towards a small v.

With two reward values one indicator says it all, so a *coordinate* is i = x; otherwise i = x*Z + z.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix.moments import Moments

GROWTHS = 30
"""How often a radius that depends on the deviation may grow; each step all but closes what is left."""

Radius = Callable[[Any, Any, int, float], Any]
"""(counts, deviations of one sample, number of events, failure) -> half-width."""


def product_variance(one: Floats, other: Floats, covariance: Floats | float) -> Floats:
    """v: variance of (1[r_x = z] - one)(1[r_y = z'] - other) where its mean is ``covariance``."""
    slope = (1.0 - 2.0 * one) * (1.0 - 2.0 * other)
    return np.asarray(one * (1.0 - one) * other * (1.0 - other) + covariance * (slope - covariance))


def covariances(
    moments: Moments, average: Floats, delta: Any, smooth: Floats, radius: Radius, share: float, tolerance: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats, Floats, Floats, Floats]:
    """(first, second, centre, radius, deviation, null deviation, counts) of every pair of coordinates that was seen."""
    points, values = average.shape
    x, y = moments.pairs
    tables = moments.pair_tables.astype(np.float64)
    tables[x == y] = (tables[x == y] + tables[x == y].transpose(0, 2, 1)) / 2.0
    n = moments.pair_samples.astype(np.float64)
    tables /= n[:, None, None]
    mine, theirs = tables.sum(axis=2), tables.sum(axis=1)
    kept = np.arange(1, 2) if values == 2 else np.arange(values)
    delta = np.broadcast_to(delta, average.shape)
    events = points * (points + 1) // 2 * kept.size**2
    parts = []
    for place, z in enumerate(kept.tolist()):
        chosen = (x < y)[:, None] | (z <= kept)  # the two orders of a diagonal block are the same coordinates
        pair, column = np.nonzero(chosen)
        other, i, j, count = kept[column], x[pair], y[pair], n[pair]
        off_i = mine[pair, z] - average[i, z]
        off_j = theirs[pair, other] - average[j, other]
        centre = (
            tables[pair, z, other]
            - average[i, z] * average[j, other]
            - average[i, z] * off_j
            - average[j, other] * off_i
        )
        one, two = smooth[i, z], smooth[j, other]
        variance, null = _variances(one, two, centre, count)
        own = (i == j) & (other != z)
        if own.any():
            joint = _joint(tables, mine, pair[own], z, other[own], one[own], two[own])
            variance[own] = (variance[own] + np.maximum(joint - centre[own] ** 2, 0.0)) / 2.0
            null[own] = (null[own] + (one[own] * two[own]) ** 2) / 2.0
        half = _consistent(radius, count, events, share, centre, variance, one, two) + tolerance * tolerance
        half = half + delta[i, z] * np.abs(off_j) + delta[j, other] * np.abs(off_i) + delta[i, z] * delta[j, other]
        errors = np.sqrt(variance / count), np.sqrt(null / count)
        parts.append((i * kept.size + place, j * kept.size + column, centre, half, *errors, count))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    first, second, centre, half, deviation, null, counts = (column[order] for column in columns)
    return first, second, centre, half, deviation, null, counts


def smoothed(average: Floats, visits: NDArray[Any]) -> Floats:
    """(X, Z) averages pulled half a count towards the middle."""
    n = visits[:, None]
    return np.asarray((np.nan_to_num(average, nan=0.5) * n + 0.5) / (n + 1.0))


def _variances(one: Floats, two: Floats, centre: Floats, count: Floats) -> tuple[Floats, Floats]:
    """v at the centre, pulled one count towards 0 and into what two such rewards can have, and v(0)."""
    least = -np.minimum(one * two, (1.0 - one) * (1.0 - two))
    most = np.minimum(one * (1.0 - two), two * (1.0 - one))
    pulled = np.clip(centre, least, most) * count / (count + 1.0)
    return product_variance(one, two, pulled), product_variance(one, two, 0.0)


def _joint(
    tables: Floats, margins: Floats, pair: NDArray[Any], z: int, other: NDArray[Any], one: Floats, two: Floats
) -> Floats:
    """Mean of h(r) h(r') over the two rewards of a pair of x with itself, h = u_z u_z'.

    Both u_z w_z' and u_z' w_z are counted there, and v of their mean is half of v plus half of their covariance, which
    this gives. h is one * two, less ``two`` at r = z and less ``one`` at r = z', so few cells of the table say it all.
    """
    base = one * two
    square = two * two * tables[pair, z, z] + one * one * tables[pair, other, other]
    square = square + 2.0 * base * tables[pair, z, other]
    return np.asarray(square + base * (base - 2.0 * (two * margins[pair, z] + one * margins[pair, other])))


def _consistent(
    radius: Radius, count: Floats, events: int, share: float, centre: Floats, variance: Floats, one: Floats, two: Floats
) -> Floats:
    """The radius for the largest v of any covariance within it: grown from that of ``variance`` until it holds."""
    peak = (1.0 - 2.0 * one) * (1.0 - 2.0 * two) / 2.0
    half = np.asarray(radius(count, np.sqrt(variance), events, share), dtype=np.float64)
    for _ in range(GROWTHS):
        largest = product_variance(one, two, np.clip(peak, centre - half, centre + half))
        wider = radius(count, np.sqrt(np.maximum(largest, variance)), events, share)
        if not (wider > half).any():
            break
        half = np.maximum(half, wider)
    return half
