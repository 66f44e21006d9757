"""Two models of whole episodes, compared on episodes that neither has seen.

Given the type, what a model says of an episode is a product over its steps, so an episode is a bag of symbols for EM
(``recovery.likelihood``): row * width + value, where a row is whatever a model has a law for. All models have two
types.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.portable import exps
from rewardmix._core.widths import symbol_width
from rewardmix.checkup.walks import LEAST_PROBABILITY
from rewardmix.episodes import Episodes
from rewardmix.model import state_action
from rewardmix.recovery.bags import Bags, merge_bags
from rewardmix.recovery.likelihood import Fit, Mixture, ascend, e_step, logliks

_MOST_FITTED = 5_000
"""Episodes that a model is fitted to."""

MOST_FITTED_STEPS = 100_000
"""VisitedSteps that a model is fitted to; of long episodes it sees fewer."""

MOST_JUDGED = 20_000
"""Episodes that models are compared on."""

FOLDED = 2_500
"""Of at most so many episodes each is held out once; more are split into those to fit and those to judge."""

FOLDS = 5

LEAST_TOTAL_GAIN = 7.0
"""Held-out log-likelihood, over all episodes judged, below which no gain is believed, whatever its standard error, as
that is too small where few episodes decide: were the smaller model the truth, a likelihood ratio would exceed exp(7)
once in 1,100 (Markov's inequality; ``benchmarks.forms``)."""

FEWEST_VISITS = 10
"""State-actions that were visited less often are left out: they cost more than they tell."""

ROW_WIDTH = 8
"""Values of a row that are told apart."""

_RANDOM_STARTS = 2

SPREAD = 0.5
"""Standard deviation of the logarithms of random laws about the average."""

REWARD_PRIOR = 1.0
"""Pseudo-counts at the average of a law of rewards."""

_TOLERANCE = 1e-6
"""Gain an episode below which an ascent ends."""

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class HeldOutGain:
    """What one model adds to another.

    Attributes:
        gain: in the log-likelihood of a held-out episode.
        error: its standard error.
        episodes: held-out ones.
        p_value: chance of so much gain if the larger model is no better; 1 where it is too small to be believed.
    """

    gain: float
    error: float
    episodes: int
    p_value: float


@dataclass(frozen=True, eq=False)
class VisitedSteps:
    """The steps of some episodes, as far as their state-actions were visited often enough.

    Attributes:
        episode: (N,) whose step it is.
        points: (N,) state-actions.
        paid: (N,) rewards; of more than ``ROW_WIDTH`` values neighbors are one.
        following: (N,) next states, -1 where nobody knows.
        first: (K,) where each episode begins.
    """

    episode: Indices
    points: Indices
    paid: Indices
    following: Indices
    first: Indices

    @staticmethod
    def of(episodes: Episodes) -> VisitedSteps:
        """From episodes."""
        live = episodes.present
        owner = np.nonzero(live)[0]
        points = state_action(episodes.states[:, :-1].astype(np.int64), episodes.actions, episodes.num_actions)[live]
        size = max(int(episodes.reward_values.size), ROW_WIDTH)
        paid = episodes.outcomes[live].astype(np.int64) * ROW_WIDTH // size
        visits = np.bincount(points, minlength=episodes.num_states * episodes.num_actions)
        often = visits[points] >= FEWEST_VISITS
        after = episodes.states[:, 1:][live].astype(np.int64)
        first = episodes.states[:, 0].astype(np.int64)
        return VisitedSteps(owner[often], points[often], paid[often], after[often], first)


@dataclass(frozen=True, eq=False)
class Symbols:
    """The symbols of episodes.

    Attributes:
        episode: (N,) whose symbol it is, increasing.
        rows: (N,)
        values: (N,)
        size: number of rows.
        episodes: their number.
    """

    episode: Indices
    rows: Indices
    values: Indices
    size: int
    episodes: int

    @staticmethod
    def of(episode: Indices, rows: Indices, values: Indices, episodes: int) -> Symbols:
        """In any order."""
        order = np.argsort(episode, kind="stable")
        return Symbols(episode[order], rows[order], values[order], int(rows.max(initial=-1)) + 1, episodes)

    def bags(self, chosen: NDArray[np.bool_], rows: int | None = None) -> Bags:
        """The bags of some of the episodes, of all rows or the first so many."""
        kept = chosen[self.episode]
        if rows is not None:
            kept &= self.rows < rows
        sizes = np.bincount(self.episode[kept], minlength=self.episodes)[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        codes = (self.rows * ROW_WIDTH + self.values)[kept].astype(symbol_width(self.size * ROW_WIDTH))
        return Bags(codes, offsets, np.ones(sizes.size), self.size, ROW_WIDTH)


Halves = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""Which episodes a model is fitted to, and which judge it."""


def sample_of(episodes: Episodes, rng: np.random.Generator) -> tuple[Episodes, list[Halves]]:
    """Episodes to work with, and how they are split: once, or, if they are few, so that each is held out once."""
    length = max(float(episodes.lengths.mean()), 1.0) if len(episodes) else 1.0
    fitted = max(min(_MOST_FITTED, int(MOST_FITTED_STEPS / length)), FOLDS)
    folded = len(episodes) <= min(FOLDED, fitted)
    order = rng.permutation(len(episodes))
    chosen = order if folded else order[: fitted + MOST_JUDGED]
    place = rng.permutation(chosen.size)
    if folded:
        splits = [(place % FOLDS != fold, place % FOLDS == fold) for fold in range(FOLDS)]
    else:
        within = place < min(fitted, chosen.size // 2)
        splits = [(within, ~within)]
    return episodes[np.sort(chosen)], splits if chosen.size >= 2 * FOLDS else []


def judged(gains: Floats) -> HeldOutGain:
    """The best of rivals, from their (rivals, episodes) gains; its p-value is corrected for their number."""
    count = gains.shape[1]
    rivals = []
    for row in gains:
        mean = float(row.sum()) / count
        error = math.sqrt(float(((row - mean) ** 2).sum())) / count
        believed = mean * count > LEAST_TOTAL_GAIN and error > 0.0
        p_value = 0.5 * math.erfc(mean / error / math.sqrt(2.0)) if believed else 1.0
        rivals.append(HeldOutGain(mean, error, count, min(len(gains) * p_value, 1.0)))
    return min(rivals, key=lambda rival: (rival.p_value, -rival.gain))


def random_starts(average: Floats, rng: np.random.Generator) -> Iterator[Mixture]:
    """Two types with laws about the average, now and again."""
    for _ in range(_RANDOM_STARTS):
        laws = average * exps(SPREAD * rng.standard_normal((2, *average.shape)))
        yield Mixture(np.full(2, 0.5), laws / laws.sum(axis=2, keepdims=True))


def likeliest(bags: Bags, starts: list[Mixture], average: Floats, prior: Floats) -> Fit:
    """The best of the ascents from some starts; ``prior`` (X, 1) is the number of pseudo-counts at the average."""
    merged = merge_bags(bags)
    fits = [
        ascend(lambda one: e_step(merged, one), start, average=average, prior=prior, tolerance=_TOLERANCE)
        for start in starts
    ]
    return max(fits, key=lambda fit: fit.objective)


def held_out_logliks(bags: Bags, mixture: Mixture) -> Floats:
    """(P,) log-likelihood of each episode; nothing that happens is taken for impossible."""
    return logliks(bags, Mixture(mixture.weights, np.maximum(mixture.laws, LEAST_PROBABILITY)))
