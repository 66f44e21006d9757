"""Test whether a reward depends on the next state, given state and action.

There are two tests: the first misses types with opposite preferences among next states, the second misses rare rewards.

By tables: in a reward-mixing MDP, reward and next state are drawn independently. At one state-action every matching of
rewards with next states is therefore equally likely, whatever chose the action. Pearson's statistic of the table of
rewards by next states has a known mean and variance over all matchings (Kazi-Aoual, Hitier, Sabatier and Lebreton,
1995, for traces of two centered projections), so rare rewards need no minimum count. Both are summed over
state-actions, and a gamma distribution with that mean and variance gives the p-value.

With the (N, N) matrix K of "equal reward", rows divided by their sums, and L of "equal next state", both centered: K
has rank r - 1, L rank c - 1, and X^2 = N trace(K L).

By prediction: whether two types with rewards by state-action and next state predict the rewards of held-out episodes
better than two types with rewards by state-action.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.random_streams import Role, make_generator
from rewardmix.diagnostics.held_out import (
    MIN_VISITS,
    REWARD_PSEUDOCOUNT,
    Halves,
    HeldOutGain,
    Indices,
    Symbols,
    VisitedSteps,
    best_gain,
    fit_best_start,
    held_out_logliks,
    random_starts,
    sample_splits,
)
from rewardmix.episodes import Episodes
from rewardmix.model import state_action_index
from rewardmix.recovery.likelihood import Mixture

_MIN_TABLE_VISITS = 4
"""Minimum number of visits; the variance over all matchings is defined from four visits on."""

MAX_TABLE_STEPS = 1_000_000
"""Maximum number of steps in the tables; of more data, episodes are subsampled at equal distance."""

NEXT_STATE_PSEUDOCOUNT = 5.0
"""Pseudocounts that shrink the rewards of a state-action and next state towards those of the state-action."""

MatchingStatistic = tuple[float, float, float]
"""(statistic, its mean, its variance over all matchings)."""


def next_state_p_value(episodes: Episodes, *, seed: int = 0) -> float:
    """Compute the p-value of both tests together (Bonferroni); NaN without sufficient data.

    Args:
        episodes: Episodes to test.
        seed: Seed of the split and of the initial values.
    """
    sample = episodes[:: max(1, -(-int(episodes.lengths.sum(dtype=np.int64)) // MAX_TABLE_STEPS))]
    step_mask = sample.step_mask
    state_actions = state_action_index(sample.states[:, :-1].astype(np.int64), sample.actions, sample.num_actions)[
        step_mask
    ]
    next_states = sample.states[:, 1:][step_mask].astype(np.int64)
    is_known = next_states >= 0
    table_p_value = next_state_test(
        state_actions[is_known], sample.reward_indices[step_mask][is_known].astype(np.int64), next_states[is_known]
    )
    if math.isnan(table_p_value):
        return table_p_value
    gain = next_state_gain(episodes, seed=seed)
    # Two tests: twice the smaller p-value is valid whatever their dependence.
    return min(2.0 * min(table_p_value, 1.0 if gain is None else gain.p_value), 1.0)


def next_state_gain(episodes: Episodes, *, seed: int = 0) -> HeldOutGain | None:
    """Compute the gain in predicting rewards that the next state gives; None without sufficient data."""
    rng = make_generator(seed, Role.NEXT_STATE)
    sample, splits = sample_splits(episodes, rng)
    steps = VisitedSteps.of(sample)
    if not splits or not steps.state_actions.size:
        return None
    edges, parents = edge_rows(steps)
    by_edge = Symbols.of(steps.episode, edges, steps.reward_indices, len(sample))
    by_parent = Symbols.of(steps.episode, parents[edges], steps.reward_indices, len(sample))
    gains = np.concatenate([_gains(by_parent, by_edge, parents, split, rng) for split in splits], axis=1)
    return max((best_gain(row[None]) for row in gains), key=lambda gain: gain.p_value)


def edge_rows(steps: VisitedSteps) -> tuple[Indices, Indices]:
    """Number the rows (state-action, next state) of all steps, shape (N,), and return the state-action of each row.

    Next states that follow a state-action too rarely share a row.
    """
    size = int(steps.next_states.max(initial=0)) + 2
    _, edge, counts = np.unique(
        steps.state_actions * size + steps.next_states + 1, return_inverse=True, return_counts=True
    )
    rare = counts[edge.ravel()] < MIN_VISITS
    keys, row = np.unique(steps.state_actions * size + np.where(rare, 0, steps.next_states + 1), return_inverse=True)
    return row.ravel(), np.unique(keys // size, return_inverse=True)[1].ravel()


def _gains(by_parent: Symbols, by_edge: Symbols, parents: Indices, split: Halves, rng: np.random.Generator) -> Floats:
    """Compute the gain in log-likelihood by the next state, shape (pseudocounts, held-out episodes).

    Rewards by state-action are shrunk by the usual pseudocount and, separately, by that of the rival. Stronger
    shrinkage may be a gain by itself; the gain of the next state has to exceed both.
    """
    fitted, held_out = split
    coarse, fine = by_parent.patterns(fitted), by_edge.patterns(fitted)
    average = coarse.marginal_probs
    starts = list(random_starts(average, rng))
    fits = {
        prior: fit_best_start(coarse, starts, average, _priors(by_parent, prior))
        for prior in (REWARD_PSEUDOCOUNT, NEXT_STATE_PSEUDOCOUNT)
    }
    rival_starts = [
        Mixture(start.weights, start.probs[:, parents]) for start in [*starts, fits[NEXT_STATE_PSEUDOCOUNT].mixture]
    ]
    rival_starts += random_starts(fine.marginal_probs, rng)
    rival = fit_best_start(fine, rival_starts, average[parents], _priors(by_edge, NEXT_STATE_PSEUDOCOUNT)).mixture
    # The rival's rows are merged by their visits; the small constant keeps rows without visits defined.
    visits = fine.reward_counts.sum(axis=1)[:, None] + 1e-9
    probs = np.zeros((2, *average.shape))
    for m in range(2):
        np.add.at(probs[m], parents, visits * rival.probs[m])
    probs /= probs.sum(axis=2, keepdims=True)
    logliks, rest, gains = held_out_logliks(by_edge.patterns(held_out), rival), by_parent.patterns(held_out), []
    # The smaller model also starts where the rival ended, so that a gain is not due to a worse local maximum.
    for prior, smaller_fit in fits.items():
        refit = fit_best_start(coarse, [Mixture(rival.weights, probs)], average, _priors(by_parent, prior))
        gains.append(logliks - held_out_logliks(rest, max(smaller_fit, refit, key=lambda fit: fit.objective).mixture))
    return np.stack(gains)


def _priors(symbols: Symbols, strength: float) -> Floats:
    """Return one pseudocount for each row, shape (rows, 1)."""
    return np.full((symbols.size, 1), strength)


def next_state_test(strata: NDArray[Any], rewards: NDArray[Any], next_states: NDArray[Any]) -> float:
    """Compute the p-value of the table test; NaN if no state-action has two rewards and two next states.

    All arguments are codes of shape (N,), one for each step.
    """
    from scipy.special import gammaincc

    total, mean, variance = matching_statistic(strata, rewards, next_states)
    if variance <= 0.0:
        return math.nan
    return float(gammaincc(mean**2 / variance, total * mean / variance))


def matching_statistic(strata: NDArray[Any], rewards: NDArray[Any], next_states: NDArray[Any]) -> MatchingStatistic:
    """Sum Pearson's statistic over strata, with the mean and variance of the sum over all matchings."""
    size = int(strata.max(initial=-1)) + 1
    visits = np.bincount(strata, minlength=size)
    reward_stratum, reward_pair, reward_counts = _cells(strata, rewards)
    next_stratum, next_pair, next_counts = _cells(strata, next_states)
    cells, cell_counts = np.unique(reward_pair * np.int64(max(next_stratum.size, 1)) + next_pair, return_counts=True)
    row, column = np.divmod(cells, max(next_stratum.size, 1))
    squares = np.bincount(
        reward_stratum[row], weights=cell_counts**2 / (reward_counts[row] * next_counts[column]), minlength=size
    )
    reward_side, next_side = _Side.of(reward_stratum, reward_counts, size), _Side.of(next_stratum, next_counts, size)
    selected = (visits >= _MIN_TABLE_VISITS) & reward_side.varies(visits) & next_side.varies(visits)
    n = visits[selected].astype(np.float64)
    first, second = reward_side.where(selected), next_side.where(selected)
    # Pearson's statistic as n (sum of n_ij^2 / (n_i n_j) - 1), which needs only the cells that occur.
    statistic = n * (squares[selected] - 1.0)
    mean = n * first.rank * second.rank / (n - 1.0)
    factor = 2.0 * (n - 1.0 - first.rank) * (n - 1.0 - second.rank) / ((n + 1.0) * (n - 1.0) ** 2 * (n - 2.0))
    correction = (n - 3.0) / (2.0 * n * (n - 1.0)) * first.peakedness(n) * second.peakedness(n)
    variance = n**2 * first.rank * second.rank * factor * (1.0 + correction)
    return float(statistic.sum()), float(mean.sum()), float(variance.sum())


def _cells(strata: NDArray[Any], codes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the stratum of each occurring pair (stratum, code), the pair of each step, and the count of each pair."""
    size = int(codes.max(initial=0)) + 1
    pairs, pair_of, counts = np.unique(strata.astype(np.int64) * size + codes, return_inverse=True, return_counts=True)
    return pairs // size, pair_of.ravel(), counts


class _Side:
    """Centered projection on the groups of one side, in each stratum.

    Attributes:
        rank: Number of groups minus 1.
        squares: Sum of squared diagonal entries.
    """

    def __init__(self, rank: Floats, squares: Floats) -> None:
        """Store rank and squares."""
        self.rank, self.squares = rank, squares

    @staticmethod
    def of(stratum: NDArray[Any], counts: NDArray[Any], size: int) -> _Side:
        """Compute the projection from the sizes of the groups."""
        groups = np.bincount(stratum, minlength=size).astype(np.float64)
        visits = np.maximum(np.bincount(stratum, weights=counts, minlength=size), 1.0)
        inverse = np.bincount(stratum, weights=1.0 / counts, minlength=size)
        return _Side(groups - 1.0, inverse - (2.0 * groups - 1.0) / visits)

    def varies(self, visits: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether there are at least two groups and not only groups of one visit."""
        varies: NDArray[np.bool_] = (self.rank >= 1.0) & (self.rank < visits - 1.0)
        return varies

    def where(self, selected: NDArray[np.bool_]) -> _Side:
        """Select strata."""
        return _Side(self.rank[selected], self.squares[selected])

    def peakedness(self, n: Floats) -> Floats:
        """Compute the excess kurtosis of the projection's diagonal; 0 on average over rotations."""
        scaled = n * (n + 1.0) * self.squares / self.rank - (n - 1.0) * (self.rank + 2.0)
        peaked: Floats = (n - 1.0) / ((n - 3.0) * (n - 1.0 - self.rank)) * scaled
        return peaked
