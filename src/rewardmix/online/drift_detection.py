"""Detect drift (change points): test whether recent episodes contradict the earlier ones, at each end of a window.

    rewards      score of the mixture of all episodes, summed over the recent ones: D, of variance
                 V_recent V_rest / (V_recent + V_rest) if nothing has changed; one test for each (x, z)
    types        score of the type weights, with a variance of that form
    transitions  chi-squared of the next states of each x, recent against earlier

The tests are valid whatever policy chose the actions, so that a change of policy is not mistaken for drift. The
smallest p-value counts, multiplied by the number of tests (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix.online import mcmc_kernels as kernels
from rewardmix.online.experience import Experience
from rewardmix.online.mcmc_kernels import PatternArrays
from rewardmix.recovery.likelihood import Mixture
from rewardmix.recovery.reward_patterns import RewardPatterns

ALARM_LEVEL = 1e-3
"""Largest probability of a false alarm at the end of a window. Windows end whenever the number of episodes has
doubled.
"""

MIN_VARIANCE = 5.0
"""Smallest variance of a tested sum, that of twenty fair coins; the normal approximation needs it."""

MIN_TRANSITIONS = 10
"""Next states with fewer observations in total are pooled, because chi-squared is inaccurate for small expected
counts.
"""

_TestResult = tuple[str, int, float]
"""(kind, index, p-value) of one test."""


@dataclass(frozen=True)
class DriftAlarm:
    """Report that recent episodes contradict the earlier ones.

    Attributes:
        num_episodes: Number of episodes at the time of the alarm.
        kind: "rewards" or "transitions" of a state-action, or "types" (their weights).
        index: State * num_actions + action, or the type.
        p_value: Probability of so large a contradiction in any test if nothing has changed.
    """

    num_episodes: int
    kind: str
    index: int
    p_value: float


def detect_drift(record: Experience, mixture: Mixture, episodes: int) -> DriftAlarm | None:
    """Return the most significant drift if it warrants an alarm; ``mixture`` is the most likely one of all episodes."""
    tests = [*_reward_tests(record, mixture), *_transition_tests(record)]
    if not tests:
        return None
    kind, index, min_p_value = min(tests, key=lambda test: test[2])
    # Rounded to nine digits, as the last digits of erfc differ between C libraries.
    p_value = float(f"{min(1.0, len(tests) * min_p_value):.9g}")
    return DriftAlarm(episodes, kind, index, p_value) if p_value < ALARM_LEVEL else None


def _reward_tests(record: Experience, mixture: Mixture) -> Iterator[_TestResult]:
    """Test the reward probabilities of each state-action and the type weights."""
    values = record.patterns.num_reward_values
    table = np.ascontiguousarray(np.moveaxis(mixture.probs, 0, -1).reshape(-1, mixture.num_types))
    table = np.maximum(table, kernels.MIN_TABLE_PROB)
    (all_sums, all_squares), (sums, squares) = (
        _score_sums(patterns, mixture.weights, table) for patterns in (record.patterns, record.window_patterns)
    )
    # The mixture was fitted to all episodes, recent ones included. Subtracting the recent part of the total score and
    # the factor (1 - recent_share) in the variance correct for that.
    recent_share = squares / np.maximum(all_squares, 1e-300)
    variance = squares * (1.0 - recent_share)
    for i in np.flatnonzero(variance >= MIN_VARIANCE):
        type_index = i - table.shape[0]
        # With two reward values both tests are equal; only the larger value is tested.
        if type_index < 0 and i % values == 0 and values == 2:
            continue
        p_value = math.erfc(abs(sums[i] - recent_share[i] * all_sums[i]) / math.sqrt(2.0 * variance[i]))
        yield ("rewards", int(i // values), p_value) if type_index < 0 else ("types", int(type_index), p_value)


def _score_sums(patterns: RewardPatterns, weights: Floats, table: Floats) -> tuple[Floats, Floats]:
    """Return sums and sums of squares of the score residuals over reward patterns."""
    size = table.shape[0] + weights.size
    sums, squares = np.zeros(size), np.zeros(size)
    arrays = PatternArrays(patterns.symbols, patterns.offsets, patterns.counts)
    kernels.add_residuals(arrays, weights, table, patterns.num_reward_values, sums, squares)
    return sums, squares


def _transition_tests(record: Experience) -> Iterator[_TestResult]:
    """Test the next states of each state-action by chi-squared."""
    from scipy.special import chdtrc

    total, before = record.transition_counts(), record.transitions_before_window
    for x in np.flatnonzero((total.sum(axis=1) > before.sum(axis=1)) & (before.sum(axis=1) > 0)):
        table = _pool_rare_columns(np.stack([total[x] - before[x], before[x]]))
        if table.shape[1] < 2 or table.sum(axis=1).min() < MIN_TRANSITIONS:
            continue
        expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
        statistic = float(((table - expected) ** 2 / expected).sum())
        yield "transitions", int(x), float(chdtrc(table.shape[1] - 1, statistic))


def _pool_rare_columns(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pool rare columns of counts (2, S'), or drop them if they are rare together, too."""
    rare = table.sum(axis=0) < MIN_TRANSITIONS
    pooled = table[:, rare].sum(axis=1, keepdims=True)
    columns = [table[:, ~rare]] + ([pooled] if pooled.sum() >= MIN_TRANSITIONS else [])
    return np.concatenate(columns, axis=1)
