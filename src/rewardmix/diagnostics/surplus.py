"""Find types of a model that held-out episodes do not support.

The reward probabilities of a superfluous type follow chance, and scores at such values do not have mean zero, on which
the tests rely.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix.diagnostics.episode_scores import CheckedEpisodes, Params, floor_probs
from rewardmix.recovery.likelihood import Mixture, e_step, log_likelihoods, run_em, single_type_mixture
from rewardmix.recovery.reward_patterns import RewardPatterns, merge_patterns

MAX_FITTED_EPISODES = 5000
"""Maximum number of episodes to which a rival is fitted: enough to detect a type with a weight of a few per cent."""

_MIN_Z_SCORE = 1.64
"""Standard errors that the gain of a type has to exceed, for an error of 5 %."""

_MIN_TOTAL_GAIN = 3.0
"""Total held-out gain in nats that a type requires: with rare rewards the standard errors are too small."""

_MAX_EM_STEPS = 300
"""Maximum number of E-steps from fitted initial values; on flat likelihoods EM stops there."""

_MARGINAL_SHARE = 0.01
"""Share of the marginals in initial values, which moves them off the boundary, where EM would stay."""


def fitting_mask(count: int) -> NDArray[np.bool_]:
    """Return which episodes a rival is fitted to, evenly spaced: every other one, at most ``MAX_FITTED_EPISODES``."""
    mask = np.zeros(count, bool)
    mask[:: max(2, -(-count // MAX_FITTED_EPISODES))] = True
    return mask


def drop_unsupported_types(data: CheckedEpisodes, params: Params) -> Params | None:
    """Fit the model with as many types as held-out episodes support; return None if that is all of its types.

    Types are merged one by one, the most similar pair first, as long as the held-out log-likelihood hardly decreases.
    """
    fitted = fitting_mask(len(data))
    held_out = data[~fitted].patterns
    # Equal patterns are merged with a count, so EM processes each of them once.
    patterns = merge_patterns(data[fitted].patterns)
    mixture = fit_from_mixture(patterns, params_to_mixture(params))
    logliks = log_likelihoods(held_out, mixture)
    while mixture.num_types > 1:
        fewer = _drop_one_type(patterns, mixture)
        fewer_logliks = log_likelihoods(held_out, fewer)
        if _is_significant(logliks - fewer_logliks):
            break
        mixture, logliks = fewer, fewer_logliks
    if mixture.num_types == params[0].size:
        return None
    return mixture_to_params(fit_from_mixture(merge_patterns(data.patterns), mixture))


def _is_significant(gains: Floats) -> bool:
    """Return whether gains in log-likelihood, one per episode, are significant."""
    count = gains.size
    return bool(count > 1 and gains.sum() > max(_MIN_Z_SCORE * math.sqrt(count) * gains.std(ddof=1), _MIN_TOTAL_GAIN))


def _drop_one_type(patterns: RewardPatterns, mixture: Mixture) -> Mixture:
    """Fit a mixture with one type less, starting from the pair whose merging costs least."""
    if mixture.num_types == 2:
        return single_type_mixture(patterns)
    # All pairs are compared by one E-step each; only the best one is fitted.
    candidates = [_merge_types(mixture, *pair) for pair in combinations(range(mixture.num_types), 2)]
    return fit_from_mixture(patterns, max(candidates, key=lambda candidate: e_step(patterns, candidate).loglik))


def _merge_types(mixture: Mixture, first: int, second: int) -> Mixture:
    """Merge two types and average their reward probabilities."""
    pair = [first, second]
    weight = mixture.weights[pair].sum()
    merged_probs = (mixture.weights[pair, None, None] * mixture.probs[pair]).sum(axis=0) / weight
    weights, probs = (np.delete(array, second, axis=0) for array in (mixture.weights, mixture.probs))
    weights[first], probs[first] = weight, merged_probs
    return Mixture(weights, probs)


def fit_from_mixture(patterns: RewardPatterns, start: Mixture) -> Mixture:
    """Fit a mixture by EM from initial values that were fitted to other data."""
    if start.num_types == 1:
        return single_type_mixture(patterns)
    average = patterns.marginal_probs
    inside = Mixture(start.weights, (1.0 - _MARGINAL_SHARE) * start.probs + _MARGINAL_SHARE * average)
    settings: dict[str, Any] = {"prior_mean": average, "tolerance": 1e-8, "max_iterations": _MAX_EM_STEPS}
    return run_em(partial(e_step, patterns), inside, **settings).mixture


def params_to_mixture(params: Params) -> Mixture:
    """Convert weights and reward probabilities to a mixture for EM."""
    return Mixture(params[0], np.ascontiguousarray(np.moveaxis(params[1], 2, 0)))


def mixture_to_params(mixture: Mixture) -> Params:
    """Convert a mixture to weights and reward probabilities for the kernels."""
    return mixture.weights, floor_probs(np.ascontiguousarray(np.moveaxis(mixture.probs, 0, 2)))
