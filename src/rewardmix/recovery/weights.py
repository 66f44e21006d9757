"""The weights of two contexts, and which way round each group of signs goes, from third-order information.

With a_t = spread(z_t | x_t) / average(z_t | x_t) (for two values: (r_t - average) spread / (average (1 - average))) and
b_t = sum_z spread(z | x_t)^2 / average(z | x_t), the rewards of context m have E[a_t] = c_m b_t with
c = (sqrt(w_2 / w_1), -sqrt(w_1 / w_2)). Steps are independent given m, so over all triples of steps of an episode

    E[e3(a)] = E[c^3] e3(b),     e3(a) = (S1^3 - 3 S1 S2 + 2 S3) / 6,     E[c^3] = (1 - 2 w) / sqrt(w (1 - w)) = slope

Pairs cannot tell the sign of a spread, triples can: flipping it flips the slope. Unless w = 1/2, where both are the
same model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel
from rewardmix.recovery.patterns import Patterns

DECIDED = 2.0
"""A slope this many standard errors from 0 orients its group."""

LEAST = 0.02
"""A closed-form weight is kept this far from 0 and 1: it is a start, and EM has to be able to leave it."""


@dataclass(frozen=True, eq=False)
class Orientation:
    """Which way round each group goes.

    Attributes:
        slope: (G,) third-order slope of each group as it stands, NaN without triples.
        error: (G,) its standard error.
    """

    slope: Floats
    error: Floats

    @property
    def decided(self) -> NDArray[np.bool_]:
        """(G,): groups whose orientation the triples tell."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(self.slope) > DECIDED * self.error)


def orientation(bags: Patterns, average: Floats, spread: Floats, groups: NDArray[np.int64]) -> Orientation:
    """Slopes of all groups of state-actions.

    Args:
        bags: the episodes.
        average: (X, Z) laws.
        spread: (X, Z), signed consistently within each group.
        groups: (X,) number of the group of each x.
    """
    score, size = _scores(average, spread)
    sums = np.zeros((int(groups.max(initial=-1)) + 1, 6))
    _third_order(bags.symbols, bags.offsets, bags.counts, score, size, groups, bags.num_values, sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = sums[:, 0] / sums[:, 1]
        squares = sums[:, 2] - 2 * slope * sums[:, 3] + slope**2 * sums[:, 4]
        small_sample = np.sqrt(sums[:, 5] / np.maximum(sums[:, 5] - 1.0, 0.0))  # infinite for a single episode
        return Orientation(slope, small_sample * np.sqrt(np.maximum(squares, 1e-300)) / np.abs(sums[:, 1]))


def weight_of(slope: float) -> float:
    """w of the first context in closed form: (1 - slope / sqrt(4 + slope^2)) / 2."""
    return float((1.0 - slope / math.sqrt(4.0 + slope * slope)) / 2.0)


def closed_form(bags: Patterns, average: Floats, spread: Floats) -> tuple[Floats, float, float]:
    """((w, 1 - w), slope, standard error of the slope) from all triples pooled; (1/2, 1/2) if they do not decide."""
    pooled = orientation(bags, average, spread, np.zeros(average.shape[0], np.int64))
    slope, error = float(pooled.slope[0]), float(pooled.error[0])
    if not pooled.decided[0]:  # no triples, or too few to tell the slope from 0
        return np.array([0.5, 0.5]), slope, error
    w = min(max(weight_of(slope), LEAST), 1.0 - LEAST)
    return np.array([w, 1.0 - w]), slope, error


def _scores(average: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """(X*Z,) a of each symbol and (X,) b of each x; an outcome that hardly ever happens tells nothing."""
    common = average > 1e-9
    ratio = np.where(common, spread / np.where(common, average, 1.0), 0.0)
    return np.ascontiguousarray(ratio.ravel()), np.ascontiguousarray((ratio * spread).sum(axis=1))


@kernel
def _third_order(
    symbols: Any, offsets: Any, counts: Any, score: Any, size: Any, groups: Any, num_values: Any, sums: Any
) -> None:
    """For each group: sums over bags of e3(a), e3(b), e3(a)^2, e3(a) e3(b), e3(b)^2, and 1."""
    for bag in range(counts.size):
        low, high = offsets[bag], offsets[bag + 1]
        for i in range(low, high):
            group = groups[symbols[i] // num_values]
            done = False
            for j in range(low, i):
                done = done or groups[symbols[j] // num_values] == group
            if done:
                continue
            steps = 0
            a1 = a2 = a3 = b1 = b2 = b3 = 0.0
            for j in range(i, high):
                x = symbols[j] // num_values
                if groups[x] == group:
                    steps += 1
                    a, b = score[symbols[j]], size[x]
                    a1 += a
                    a2 += a * a
                    a3 += a * a * a
                    b1 += b
                    b2 += b * b
                    b3 += b * b * b
            if steps < 3:  # no triple; rounding would leave something that is not 0
                continue
            left = (a1 * a1 * a1 - 3.0 * a1 * a2 + 2.0 * a3) / 6.0
            right = (b1 * b1 * b1 - 3.0 * b1 * b2 + 2.0 * b3) / 6.0
            sums[group, 0] += counts[bag] * left
            sums[group, 1] += counts[bag] * right
            sums[group, 2] += counts[bag] * left * left
            sums[group, 3] += counts[bag] * left * right
            sums[group, 4] += counts[bag] * right * right
            sums[group, 5] += counts[bag]
