"""Test whether the actions of a log depended on rewards (adaptively collected data).

If actions do not depend on rewards, the reward at an earlier step is independent of the later path given its
state-action x. The tables (reward then, action now), one for each x then and state now, then have no association. The
Cochran-Mantel-Haenszel test of mean rewards checks this for each (state now, action then), pooled over the state then.

    D[a] = sum over x of sum_z v_z (n[z, a] - n[z] n[a] / n)
    C[a, b] = sum over x of variance of v * (n n[a] [a = b] - n[a] n[b]) / (n - 1)
    statistic = sum over (state now, action then) of D C^+ D,     chi-squared with sum of rank(C) degrees of freedom

Steps of one episode share the hidden type and are dependent. So each episode contributes one pair of adjacent steps and
one pair at any lag, selected independently of its content. This gives two tests, combined by Bonferroni.

Reference: Landis, Heyman and Koch (1978), Average partial association in three-way contingency tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.budget import check_budget
from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel
from rewardmix._core.linear_algebra import eigenpairs, product
from rewardmix.logs.log import load_partition
from rewardmix.logs.log_schema import LogSchema

SIGNIFICANCE_LEVEL = 1e-3
"""Significance level of the test: below it the log counts as adaptively collected."""

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AdaptivityCounts:
    """Counts of (state now, x then, reward then, action now) that occur; counts add.

    Attributes:
        adjacent_codes: (N,) codes ((s * X + x) * Z + z) * A + a, increasing, for adjacent steps.
        adjacent_counts: (N,) counts.
        any_lag_codes: (F,) codes for pairs of steps at any lag.
        any_lag_counts: (F,) counts.
    """

    adjacent_codes: Codes
    adjacent_counts: Codes
    any_lag_codes: Codes
    any_lag_counts: Codes

    def __add__(self, other: AdaptivityCounts) -> AdaptivityCounts:
        near = _merge_codes(self.adjacent_codes, self.adjacent_counts, other.adjacent_codes, other.adjacent_counts)
        return AdaptivityCounts(
            *near, *_merge_codes(self.any_lag_codes, self.any_lag_counts, other.any_lag_codes, other.any_lag_counts)
        )


@dataclass(frozen=True)
class AdaptivityTest:
    """Result of the adaptivity test.

    Attributes:
        p_value: p-value of the null hypothesis of nonadaptive data; NaN without any pair of steps.
        is_adaptive: whether the p-value is below ``SIGNIFICANCE_LEVEL``.
        text: result as a sentence.
    """

    p_value: float
    is_adaptive: bool
    text: str


def count_reward_action_pairs(partition: Any, schema: LogSchema) -> AdaptivityCounts:
    """Count the sampled pairs of steps of one partition."""
    compact = load_partition(partition)
    near, far = np.empty(len(compact), np.int64), np.empty(len(compact), np.int64)
    used = _sample_step_pairs(
        compact.symbols, compact.offsets, schema.num_actions, schema.num_values, schema.num_state_actions, near, far
    )
    return AdaptivityCounts(*_count_codes(near[:used]), *_count_codes(far[:used]))


def run_adaptivity_test(counts: AdaptivityCounts, schema: LogSchema) -> AdaptivityTest:
    """Test the counts of a whole log."""
    near, near_sign = _cmh_statistic(counts.adjacent_codes, counts.adjacent_counts, schema)
    far, far_sign = _cmh_statistic(counts.any_lag_codes, counts.any_lag_counts, schema)
    if np.isnan(near) and np.isnan(far):
        return AdaptivityTest(
            float("nan"),
            False,
            "Adaptivity was not tested: no episode has two steps with a choice of actions.",
        )
    # Bonferroni over the two tests; a test without any pair of steps is NaN and does not count.
    p_value = min(1.0, 2.0 * float(np.nanmin([near, far])))
    if p_value >= SIGNIFICANCE_LEVEL:
        text = (
            f"No evidence that the log's actions depend on rewards of the episode (p = {p_value:.2g}): "
            "pair moments and likelihood are both unbiased."
        )
        return AdaptivityTest(p_value, False, text)
    state, action, last_state, last_action, high, low = near_sign if not near > far else far_sign
    old_step = f"action {schema.action_label(last_action)} in state {schema.state_label(last_state)}"
    new_step = f"action {schema.action_label(action)} is taken in state {schema.state_label(state)}"
    text = (
        f"The log's actions depend on rewards of the episode (p = {p_value:.2g}). For example, after {old_step}, "
        f"{new_step} {100 * high:.0f} % of the time if the reward was the highest and {100 * low:.0f} % if it was the "
        "lowest. Marginal rewards and pair moments are biased, and so are the confidence set and its certificate. The "
        "likelihood is not biased, and the model is fitted by likelihood."
    )
    return AdaptivityTest(p_value, True, text)


StrongestAssociation = tuple[int, int, int, int, float, float]
"""(state now, action now, state then, action then, share after the highest reward, share after the lowest)."""


def _cmh_statistic(codes: Codes, counts: Codes, schema: LogSchema) -> tuple[float, StrongestAssociation]:
    """Compute the p-value and find the strongest association."""
    from scipy.special import chdtrc

    cells, action_codes = np.divmod(codes, schema.num_actions)
    actions, action = np.unique(action_codes, return_inverse=True)
    strata, reward_index = np.divmod(cells, schema.num_values)
    reward = schema.reward_values[reward_index]
    stratum, row = np.unique(strata, return_inverse=True)
    total = _sum_by_group(row, counts, stratum.size)
    mean = _sum_by_group(row, counts * reward, stratum.size) / np.maximum(total, 1)
    variance = _sum_by_group(row, counts * (reward - mean[row]) ** 2, stratum.size) / np.maximum(total, 1)
    # A stratum with one row or with constant rewards has no variance under the null hypothesis and is left out.
    scale = np.where((variance > 0) & (total > 1), variance / np.maximum(total - 1, 1), 0.0)
    _check_budget(stratum, actions.size, schema)
    taken = np.zeros((stratum.size, actions.size))
    np.add.at(taken, (row, action), counts)
    reward_sums = np.zeros_like(taken)
    np.add.at(reward_sums, (row, action), counts * reward)
    excess = np.where(scale[:, None] > 0, reward_sums - taken * mean[:, None], 0.0)
    diagonal = (scale * total)[:, None] * taken
    states, earlier = np.divmod(stratum, schema.num_state_actions)
    statistic, freedom = _quadratic_form_sum(
        states * schema.num_actions + earlier % schema.num_actions, excess, diagonal, scale, taken
    )
    if not freedom:
        return float("nan"), (0, 0, 0, 0, 0.0, 0.0)
    variances = diagonal - scale[:, None] * taken**2
    size = np.abs(excess) / np.sqrt(np.where(variances > 0, variances, np.inf))
    best_row, best_column = (int(i) for i in np.unravel_index(int(size.argmax()), size.shape))
    shares = _action_shares(row == best_row, action == best_column, reward_index, counts)
    indices = int(states[best_row]), int(actions[best_column]), *divmod(int(earlier[best_row]), schema.num_actions)
    # The last bits of SciPy's distribution functions differ between builds; twelve digits are portable.
    return float(f"{chdtrc(freedom, statistic):.12g}"), (*indices, *shares)


def _check_budget(stratum: Codes, actions: int, schema: LogSchema) -> None:
    """Raise an error if the tables of actions exceed the memory or time limit."""
    groups = min(stratum.size, schema.num_state_actions)
    check_budget(
        "actions",
        memory=16 * groups * actions**2 + 64 * stratum.size * actions,
        operations=100 * groups * actions**3,
        remedy="fewer actions",
    )


def _quadratic_form_sum(
    group: Any, excess: Floats, diagonal: Floats, scale: Floats, taken: Floats
) -> tuple[float, int]:
    """Sum D C^+ D over groups of strata and count the degrees of freedom."""
    groups, group_of = np.unique(group, return_inverse=True)
    actions = excess.shape[1]
    difference, variance = np.zeros((groups.size, actions)), np.zeros((groups.size, actions, actions))
    np.add.at(difference, group_of, excess)
    np.add.at(variance, group_of, -scale[:, None, None] * taken[:, :, None] * taken[:, None, :])
    diagonal_index = np.arange(actions)
    extra = np.zeros_like(difference)
    np.add.at(extra, group_of, diagonal)
    variance[:, diagonal_index, diagonal_index] += extra
    statistic, freedom = 0.0, 0
    for d, c in zip(difference, variance, strict=True):
        values, vectors = eigenpairs(c)
        # Rows of C sum to 0, so at least one eigenvalue is 0. A threshold relative to the largest entry separates rank
        # from rounding.
        is_positive = values > 1e-9 * max(float(c.max(initial=0.0)), 1e-300)
        statistic += float((product(d, vectors)[is_positive] ** 2 / values[is_positive]).sum())
        freedom += int(is_positive.sum())
    return statistic, freedom


def _action_shares(in_stratum: Any, is_action: Any, reward_index: Any, counts: Codes) -> tuple[float, float]:
    """Return the share of an action in a stratum after the highest and after the lowest observed reward."""
    shares = []
    for value in (reward_index[in_stratum].max(), reward_index[in_stratum].min()):
        rows = in_stratum & (reward_index == value)
        shares.append(float(counts[rows & is_action].sum() / counts[rows].sum()))
    return shares[0], shares[1]


def _sum_by_group(group: Any, values: Any, size: int) -> Floats:
    return np.bincount(group, weights=values, minlength=size).astype(np.float64)


def _count_codes(codes: Codes) -> tuple[Codes, Codes]:
    unique_codes, counts = np.unique(codes, return_counts=True)
    return unique_codes, counts.astype(np.int64)


def _merge_codes(codes: Codes, counts: Codes, more: Codes, more_counts: Codes) -> tuple[Codes, Codes]:
    unique_codes, group = np.unique(np.concatenate([codes, more]), return_inverse=True)
    total = np.zeros(unique_codes.size, np.int64)
    np.add.at(total, group, np.concatenate([counts, more_counts]))
    return unique_codes, total


@kernel
def _sample_step_pairs(
    symbols: Any, offsets: Any, num_actions: Any, num_values: Any, num_state_actions: Any, near: Any, far: Any
) -> int:
    """Write the codes of one adjacent pair and of one pair at any lag for each episode with at least two steps."""
    num_pairs = 0
    for k in range(offsets.size - 1):
        steps = offsets[k + 1] - offsets[k]
        if steps < 2:
            continue
        # The steps come from a hash of the episode's index (the finalizer of splitmix64). So they are independent of
        # the content and need no random stream.
        mixed = (np.uint64(k) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        later_step = 1 + np.int64((mixed >> np.uint64(8)) % np.uint64(steps - 1))
        earlier_step = np.int64((mixed >> np.uint64(36)) % np.uint64(later_step))
        x = symbols[offsets[k] + later_step] // num_values
        s, a = x // num_actions, x % num_actions
        for i in range(2):
            symbol = np.int64(symbols[offsets[k] + (later_step - 1 if i == 0 else earlier_step)])
            code = (np.int64(s) * num_state_actions * num_values + symbol) * num_actions + a
            if i == 0:
                near[num_pairs] = code
            else:
                far[num_pairs] = code
        num_pairs += 1
    return num_pairs
