"""Are there types in a model that episodes held out say nothing for?

The laws of a type too many follow chance, and scores at such laws do not have the mean zero that tests rely on.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix.checkup.walks import CheckedEpisodes, Parts, floored
from rewardmix.recovery.bags import Bags, merge_bags
from rewardmix.recovery.likelihood import Mixture, ascend, e_step, logliks, one_context

MOST_FITTED = 5000
"""Episodes that a rival is fitted to at most: it has to see a type of a few per cent, and as many more find no more."""

_SURE = 1.64
"""Standard errors that the gain of a type has to exceed: one in twenty."""

_LEAST_GAIN = 3.0
"""Gain of a type, in nats over all episodes held out: where rewards are rare, standard errors are too small."""

_STEPS = 300
"""E-steps of an ascent from laws that were fitted before; on flat likelihoods it ends there."""

_INWARD = 0.01
"""Share of the average in the laws where an ascent begins: off the boundary, where EM would stay."""


def fitted_episodes(count: int) -> NDArray[np.bool_]:
    """(count,) which episodes a rival is fitted to, evenly spread: every other one, or ``MOST_FITTED``."""
    chosen = np.zeros(count, bool)
    chosen[:: max(2, -(-count // MOST_FITTED))] = True
    return chosen


def fewer_types(data: CheckedEpisodes, parts: Parts) -> Parts | None:
    """The model with as many types as episodes held out speak for, fitted to all; None if that is all of its types.

    Types are joined one by one, the most alike first, as long as that costs the episodes held out next to nothing.
    """
    fitted = fitted_episodes(len(data))
    rest = data[~fitted].bags
    bags = merge_bags(data[fitted].bags)
    mixture = ascend_from(bags, mixture_of_parts(parts))
    scores = logliks(rest, mixture)
    while mixture.num_contexts > 1:
        fewer = _one_fewer(bags, mixture)
        others = logliks(rest, fewer)
        if _is_sure(scores - others):
            break
        mixture, scores = fewer, others
    if mixture.num_contexts == parts[0].size:
        return None
    return parts_of_mixture(ascend_from(merge_bags(data.bags), mixture))


def _is_sure(gains: Floats) -> bool:
    """Whether gains in log-likelihood, one for each episode, are more than chance."""
    count = gains.size
    return bool(count > 1 and gains.sum() > max(_SURE * math.sqrt(count) * gains.std(ddof=1), _LEAST_GAIN))


def _one_fewer(bags: Bags, mixture: Mixture) -> Mixture:
    """The best mixture with one type less, from the pair of types that is joined at the least cost."""
    if mixture.num_contexts == 2:
        return one_context(bags)
    joined = [_join(mixture, *pair) for pair in combinations(range(mixture.num_contexts), 2)]
    return ascend_from(bags, max(joined, key=lambda one: e_step(bags, one).loglik))


def _join(mixture: Mixture, first: int, second: int) -> Mixture:
    """Two types as one, with the average of their laws."""
    pair = [first, second]
    weight = mixture.weights[pair].sum()
    law = (mixture.weights[pair, None, None] * mixture.laws[pair]).sum(axis=0) / weight
    weights, laws = (np.delete(array, second, axis=0) for array in (mixture.weights, mixture.laws))
    weights[first], laws[first] = weight, law
    return Mixture(weights, laws)


def ascend_from(bags: Bags, start: Mixture) -> Mixture:
    """The most likely mixture of bags that EM comes to from laws that were fitted to others."""
    if start.num_contexts == 1:
        return one_context(bags)
    average = bags.average
    inside = Mixture(start.weights, (1.0 - _INWARD) * start.laws + _INWARD * average)
    settings: dict[str, Any] = {"average": average, "tolerance": 1e-8, "max_iterations": _STEPS}
    return ascend(partial(e_step, bags), inside, **settings).mixture


def mixture_of_parts(parts: Parts) -> Mixture:
    """Weights and laws as EM takes them."""
    return Mixture(parts[0], np.ascontiguousarray(np.moveaxis(parts[1], 2, 0)))


def parts_of_mixture(mixture: Mixture) -> Parts:
    """Weights and laws as the kernels take them."""
    return mixture.weights, floored(np.ascontiguousarray(np.moveaxis(mixture.laws, 0, 2)))
