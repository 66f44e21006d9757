"""Does a reward depend on the state that follows, given state and action?

Two ways to ask, since types that like opposite next states hide from the first, and rare rewards from the second.

By tables: in a reward-mixing MDP reward and next state are drawn apart, so at one state-action every matching of
rewards with next states is as likely as the one that was seen, whatever chose the action. Pearson's statistic of the
table of rewards by next states has a known mean and variance over all matchings (Kazi-Aoual, Hitier, Sabatier and
Lebreton 1995, for traces of two centred projections), so that rare rewards need no least count. Both are summed over
state-actions, and a gamma law with that mean and variance says how unlikely the sum is.

With the (N, N) matrix K of "paid the same", each row divided by its sum, and L of "led to the same state" alike, both
centred: K has rank r - 1, L rank c - 1, and X^2 = N trace(K L).

By prediction: whether two types with rewards of state-action and next state together predict the rewards of held-out
episodes better than two types with rewards of state-actions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.streams import Role, generator
from rewardmix.checkup.held_out import (
    FEWEST_VISITS,
    REWARD_PRIOR,
    Halves,
    HeldOutGain,
    Indices,
    Symbols,
    VisitedSteps,
    held_out_logliks,
    judged,
    likeliest,
    random_starts,
    sample_of,
)
from rewardmix.episodes import Episodes
from rewardmix.model import state_action
from rewardmix.recovery.likelihood import Mixture

_LEAST_VISITS = 4
"""The variance over all matchings is known from four visits on."""

MOST_TABLED = 1_000_000
"""VisitedSteps that tables are made of; of more episodes, every so-manieth."""

EDGE_STRENGTH = 5.0
"""Pseudo-counts that pull the rewards of a state-action and next state to those of the state-action."""

Matched = tuple[float, float, float]
"""(statistic, its mean and its variance over all matchings)."""


def next_state_p_value(episodes: Episodes, *, seed: int = 0) -> float:
    """Chance of so much dependence, by either way to ask, if there is none; NaN where nothing can tell.

    Args:
        episodes: whole episodes.
        seed: of the split and the starts.
    """
    tabled = episodes[:: max(1, -(-int(episodes.lengths.sum(dtype=np.int64)) // MOST_TABLED))]
    live = tabled.present
    points = state_action(tabled.states[:, :-1].astype(np.int64), tabled.actions, tabled.num_actions)[live]
    following = tabled.states[:, 1:][live].astype(np.int64)
    there = following >= 0
    by_tables = next_state_test(points[there], tabled.outcomes[live][there].astype(np.int64), following[there])
    if math.isnan(by_tables):
        return by_tables
    predicted = next_state_gain(episodes, seed=seed)
    return min(2.0 * min(by_tables, 1.0 if predicted is None else predicted.p_value), 1.0)


def next_state_gain(episodes: Episodes, *, seed: int = 0) -> HeldOutGain | None:
    """What the next state adds to the prediction of the rewards of an episode; None where nothing can tell."""
    rng = generator(seed, Role.NEXT_STATE)
    sample, splits = sample_of(episodes, rng)
    steps = VisitedSteps.of(sample)
    if not splits or not steps.points.size:
        return None
    edges, point_of = edge_rows(steps)
    by_edge = Symbols.of(steps.episode, edges, steps.paid, len(sample))
    by_point = Symbols.of(steps.episode, point_of[edges], steps.paid, len(sample))
    gains = np.concatenate([_gains(by_point, by_edge, point_of, split, rng) for split in splits], axis=1)
    return max((judged(row[None]) for row in gains), key=lambda gain: gain.p_value)


def edge_rows(steps: VisitedSteps) -> tuple[Indices, Indices]:
    """(N,) a row for each step, by state-action and next state; and the state-action of each row, numbered.

    Next states that follow a state-action too rarely share a row.
    """
    size = int(steps.following.max(initial=0)) + 2
    _, edge, times = np.unique(steps.points * size + steps.following + 1, return_inverse=True, return_counts=True)
    rare = times[edge.ravel()] < FEWEST_VISITS
    keys, row = np.unique(steps.points * size + np.where(rare, 0, steps.following + 1), return_inverse=True)
    return row.ravel(), np.unique(keys // size, return_inverse=True)[1].ravel()


def _gains(by_point: Symbols, by_edge: Symbols, point_of: Indices, split: Halves, rng: np.random.Generator) -> Floats:
    """(priors, held-out episodes): what next states add to the log-likelihood.

    Rewards of state-actions are pulled to the average as usual and as much as those of the rival are: to be pulled
    harder may be a gain by itself, and that of next states has to be beyond both.
    """
    fitted, held_out = split
    coarse, fine = by_point.bags(fitted), by_edge.bags(fitted)
    average = coarse.average
    starts = list(random_starts(average, rng))
    alone = {
        prior: likeliest(coarse, starts, average, _priors(by_point, prior)) for prior in (REWARD_PRIOR, EDGE_STRENGTH)
    }
    spread = [Mixture(start.weights, start.laws[:, point_of]) for start in [*starts, alone[EDGE_STRENGTH].mixture]]
    spread += random_starts(fine.average, rng)
    rival = likeliest(fine, spread, average[point_of], _priors(by_edge, EDGE_STRENGTH)).mixture
    visits = fine.occurrences.sum(axis=1)[:, None] + 1e-9
    laws = np.zeros((2, *average.shape))
    for context in range(2):
        np.add.at(laws[context], point_of, visits * rival.laws[context])
    laws /= laws.sum(axis=2, keepdims=True)
    said, judges, gains = held_out_logliks(by_edge.bags(held_out), rival), by_point.bags(held_out), []
    for prior, base in alone.items():  # and from where the rival ended
        again = likeliest(coarse, [Mixture(rival.weights, laws)], average, _priors(by_point, prior))
        gains.append(said - held_out_logliks(judges, max(base, again, key=lambda fit: fit.objective).mixture))
    return np.stack(gains)


def _priors(symbols: Symbols, strength: float) -> Floats:
    return np.full((symbols.size, 1), strength)


def next_state_test(strata: NDArray[Any], rewards: NDArray[Any], following: NDArray[Any]) -> float:
    """Chance of so much dependence if there is none; NaN where no state-action has two rewards and two next states.

    All are (N,) codes, one for each step.
    """
    from scipy.special import gammaincc

    total, mean, variance = matched_tables(strata, rewards, following)
    if variance <= 0.0:
        return math.nan
    return float(gammaincc(mean**2 / variance, total * mean / variance))


def matched_tables(strata: NDArray[Any], rewards: NDArray[Any], following: NDArray[Any]) -> Matched:
    """Pearson's statistics summed over the strata, with the mean and variance of the sum over all matchings."""
    size = int(strata.max(initial=-1)) + 1
    visits = np.bincount(strata, minlength=size)
    paid, paid_of, paid_times = _cells(strata, rewards)
    led, led_of, led_times = _cells(strata, following)
    both, both_times = np.unique(paid_of * np.int64(max(led.size, 1)) + led_of, return_counts=True)
    row, column = np.divmod(both, max(led.size, 1))
    squares = np.bincount(paid[row], weights=both_times**2 / (paid_times[row] * led_times[column]), minlength=size)
    one, other = _Side.of(paid, paid_times, size), _Side.of(led, led_times, size)
    kept = (visits >= _LEAST_VISITS) & one.varies(visits) & other.varies(visits)
    n = visits[kept].astype(np.float64)
    first, second = one.where(kept), other.where(kept)
    statistic = n * (squares[kept] - 1.0)
    mean = n * first.rank * second.rank / (n - 1.0)
    spread = 2.0 * (n - 1.0 - first.rank) * (n - 1.0 - second.rank) / ((n + 1.0) * (n - 1.0) ** 2 * (n - 2.0))
    peaked = (n - 3.0) / (2.0 * n * (n - 1.0)) * first.peakedness(n) * second.peakedness(n)
    variance = n**2 * first.rank * second.rank * spread * (1.0 + peaked)
    return float(statistic.sum()), float(mean.sum()), float(variance.sum())


def _cells(strata: NDArray[Any], codes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The stratum of each pair (stratum, code) that occurs, the pair of each step, and how often it occurs."""
    size = int(codes.max(initial=0)) + 1
    pairs, pair_of, times = np.unique(strata.astype(np.int64) * size + codes, return_inverse=True, return_counts=True)
    return pairs // size, pair_of.ravel(), times


class _Side:
    """The centred projection on the groups of one side, in each stratum.

    Attributes:
        rank: groups but one.
        squares: sum of the squares of its diagonal.
    """

    def __init__(self, rank: Floats, squares: Floats) -> None:
        self.rank, self.squares = rank, squares

    @staticmethod
    def of(stratum: NDArray[Any], times: NDArray[Any], size: int) -> _Side:
        """Of groups that occur so often."""
        groups = np.bincount(stratum, minlength=size).astype(np.float64)
        visits = np.maximum(np.bincount(stratum, weights=times, minlength=size), 1.0)
        inverse = np.bincount(stratum, weights=1.0 / times, minlength=size)
        return _Side(groups - 1.0, inverse - (2.0 * groups - 1.0) / visits)

    def varies(self, visits: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether there are two groups, and not every visit is one by itself."""
        varies: NDArray[np.bool_] = (self.rank >= 1.0) & (self.rank < visits - 1.0)
        return varies

    def where(self, kept: NDArray[np.bool_]) -> _Side:
        """In these strata alone."""
        return _Side(self.rank[kept], self.squares[kept])

    def peakedness(self, n: Floats) -> Floats:
        """How much a few visits weigh more than others; 0 for the uniform law, on average over rotations."""
        scaled = n * (n + 1.0) * self.squares / self.rank - (n - 1.0) * (self.rank + 2.0)
        peaked: Floats = (n - 1.0) / ((n - 3.0) * (n - 1.0 - self.rank)) * scaled
        return peaked
