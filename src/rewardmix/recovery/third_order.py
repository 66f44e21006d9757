"""What triples of rewards say: third moments, the likelihood of their tables, and where an ascent may begin.

With c_x the reward at x less its mean, E[c_x c_y c_w] = sum_m w_m d_m(x) d_m(y) d_m(w), d_m(x) the mean of type m
less that of all. Four types can hide in the pairs (E[c_x c_y] = 0 for all x, y) and show here. The strongest triples
are each a start: four types that differ at its three state-actions alone, each by the cube root of their correlation,
with signs

    +++  +--  -+-  --+        (the other way round for a negative one)

so that pairs are independent and the triple is not. Likelihood finds the rest from there.
"""

from __future__ import annotations

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.portable import power
from rewardmix.model import mixed
from rewardmix.moments import Moments
from rewardmix.recovery.bags import Bags, triple_bags, with_guesses
from rewardmix.recovery.likelihood import Mixture

STRONGEST = 4
"""Triples that a start is made of."""

LOOKED_AT = 20
"""A triple of fewer samples is not looked at: its deviation is not known."""

SIGNS = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
"""(4, 3): of four types at the three state-actions."""

MOST_DEVIATION = 0.9
"""A type's mean reward is moved by no more than this share of a standard deviation."""


def bags_of_triples(moments: Moments) -> Bags:
    """Bags of three from the triple tables; the averages are those of first visits, which know them better."""
    bags = triple_bags(moments.triple_keys, moments.triple_tables, moments.num_state_actions)
    bags.__dict__["average"] = with_guesses(moments.frequencies, moments.samples > 0)
    return bags


def third_moments(moments: Moments) -> tuple[Floats, Floats]:
    """(P3,) and (P3,): E[c_x c_y c_w] of each triple by the standard deviations, and by its own deviation.

    Its own is that of independent rewards. Triples with fewer than ``LOOKED_AT`` samples, and those of a reward that
    never varies, have 0 of both.
    """
    laws = with_guesses(moments.frequencies, moments.samples > 0)
    centred, deviation = standardised(laws, moments.reward_values)
    x, y, w = moments.triples
    samples = moments.triple_samples
    total = np.zeros(x.size)
    for z in np.ndindex((moments.num_values,) * 3):  # in a fixed order: products of BLAS have none
        total += moments.triple_tables[:, *z] * centred[x, z[0]] * centred[y, z[1]] * centred[w, z[2]]
    varied = (deviation[x] > 0) & (deviation[y] > 0) & (deviation[w] > 0) & (samples >= LOOKED_AT)
    correlation = np.where(varied, total / np.maximum(samples, 1), 0.0)
    return correlation, correlation * np.sqrt(samples)


def standardised(laws: Floats, reward_values: Floats) -> tuple[Floats, Floats]:
    """(X, Z) reward values less the mean, by standard deviations, and these (X,); 0 where nothing varies."""
    values = range(reward_values.size)
    mean = mixed(reward_values, [laws[:, z] for z in values])
    off = reward_values[None] - mean[:, None]
    variance = mixed(np.ones(reward_values.size), [laws[:, z] * off[:, z] ** 2 for z in values])
    deviation = np.sqrt(np.where(variance > 1e-12, variance, 0.0))
    return np.where(deviation[:, None] > 0, off / np.where(deviation > 0, deviation, 1.0)[:, None], 0.0), deviation


def triple_starts(moments: Moments, num_contexts: int) -> list[tuple[str, Mixture]]:
    """A start for each of the strongest triples; none without triples."""
    if not moments.triple_keys.size:
        return []
    correlation, scores = third_moments(moments)
    laws = with_guesses(moments.frequencies, moments.samples > 0)
    centred, _ = standardised(laws, moments.reward_values)
    x, y, w = moments.triples
    scores = np.where((x < y) & (y < w), scores, 0.0)
    order = np.argsort(-np.abs(scores), kind="stable")[:STRONGEST]
    out = []
    for number, place in enumerate(order[scores[order] != 0]):
        triple = np.array([int(x[place]), int(y[place]), int(w[place])])
        tilt = min(MOST_DEVIATION, float(power(abs(float(correlation[place])), 1.0 / 3.0)))
        signs = np.zeros((num_contexts, 3))
        signs[: min(num_contexts, 4)] = SIGNS[:num_contexts] * np.sign(correlation[place])
        moved = np.repeat(laws[None], num_contexts, axis=0)
        moved[:, triple] *= np.maximum(1.0 + tilt * signs[:, :, None] * centred[triple][None], 1.0 - MOST_DEVIATION)
        weights = np.full(num_contexts, 1.0 / num_contexts)
        out.append((f"triple {number + 1}", Mixture(weights, moved / moved.sum(axis=2, keepdims=True))))
    return out
