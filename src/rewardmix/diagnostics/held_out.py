"""Compare two models of whole episodes on held-out episodes.

Given the type, the likelihood of an episode is a product over its steps. An episode is therefore a pattern of symbols
for EM (``recovery.likelihood``): row * width + value, where a row is anything that has a distribution in a model. All
models have two types.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.int_dtypes import symbol_dtype
from rewardmix._core.portable_math import exp_array
from rewardmix.diagnostics.episode_scores import MIN_PROBABILITY
from rewardmix.episodes import Episodes
from rewardmix.model import state_action_index
from rewardmix.recovery.likelihood import EMFit, Mixture, e_step, log_likelihoods, run_em
from rewardmix.recovery.reward_patterns import RewardPatterns, merge_patterns

_MAX_FITTED_EPISODES = 5_000
"""Maximum number of episodes to which a model is fitted."""

MAX_FITTED_STEPS = 100_000
"""Maximum number of steps to which a model is fitted; with long episodes it sees fewer of them."""

MAX_HELD_OUT_EPISODES = 20_000
"""Maximum number of episodes on which models are compared."""

MAX_CROSS_VALIDATED = 2_500
"""Number of episodes up to which cross-validation is used; more are split once into fitted and held-out episodes."""

NUM_FOLDS = 5

MIN_HELD_OUT_GAIN = 7.0
"""Gain in total held-out log-likelihood below which a difference is ignored, whatever its standard error.

The standard error is too small where few episodes decide. If the smaller model is true, a likelihood ratio exceeds
exp(7) with probability at most 1 in 1,100 (Markov's inequality; study ``benchmarks.forms``).
"""

MIN_VISITS = 10
"""State-actions with fewer visits are omitted: they add more noise than information."""

ROW_WIDTH = 8
"""Number of distinct values of a row."""

_RANDOM_STARTS = 2

LOG_PROB_STD = 0.5
"""Standard deviation of the logarithm of random probabilities around the marginals."""

REWARD_PSEUDOCOUNT = 1.0
"""Pseudocount of reward probabilities at the marginals."""

_TOLERANCE = 1e-6
"""Gain per episode below which EM stops."""

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class HeldOutGain:
    """Gain of one model over another on held-out episodes.

    Attributes:
        gain: Mean gain in log-likelihood per episode.
        error: Standard error of ``gain``.
        episodes: Number of held-out episodes.
        p_value: Probability of this gain if the larger model is no better; 1 if the gain is too small to count.
    """

    gain: float
    error: float
    episodes: int
    p_value: float


@dataclass(frozen=True, eq=False)
class VisitedSteps:
    """Steps of episodes whose state-action was visited often enough.

    Attributes:
        episode: Episode of each step, shape (N,).
        state_actions: State-action of each step, shape (N,).
        reward_indices: Reward index of each step, shape (N,); of more than ``ROW_WIDTH`` values,
            neighbors are merged.
        next_states: Next state of each step, -1 if unknown, shape (N,).
        initial_states: Initial state of each episode, shape (K,).
    """

    episode: Indices
    state_actions: Indices
    reward_indices: Indices
    next_states: Indices
    initial_states: Indices

    @staticmethod
    def of(episodes: Episodes) -> VisitedSteps:
        """Collect the steps of episodes."""
        step_mask = episodes.step_mask
        episode = np.nonzero(step_mask)[0]
        state_actions = state_action_index(
            episodes.states[:, :-1].astype(np.int64), episodes.actions, episodes.num_actions
        )[step_mask]
        size = max(int(episodes.reward_values.size), ROW_WIDTH)
        reward_indices = episodes.reward_indices[step_mask].astype(np.int64) * ROW_WIDTH // size
        visits = np.bincount(state_actions, minlength=episodes.num_states * episodes.num_actions)
        frequent = visits[state_actions] >= MIN_VISITS
        next_states = episodes.states[:, 1:][step_mask].astype(np.int64)
        initial_states = episodes.states[:, 0].astype(np.int64)
        return VisitedSteps(
            episode[frequent], state_actions[frequent], reward_indices[frequent], next_states[frequent], initial_states
        )


@dataclass(frozen=True, eq=False)
class Symbols:
    """Symbols of episodes.

    Attributes:
        episode: Episode of each symbol, increasing, shape (N,).
        rows: Row of each symbol, shape (N,).
        values: Value of each symbol, shape (N,).
        size: Number of rows.
        episodes: Number of episodes.
    """

    episode: Indices
    rows: Indices
    values: Indices
    size: int
    episodes: int

    @staticmethod
    def of(episode: Indices, rows: Indices, values: Indices, episodes: int) -> Symbols:
        """Sort symbols by episode."""
        # A stable sort keeps the symbols of an episode in their order, so results do not depend on the sorting
        # algorithm.
        order = np.argsort(episode, kind="stable")
        return Symbols(episode[order], rows[order], values[order], int(rows.max(initial=-1)) + 1, episodes)

    def patterns(self, episode_mask: NDArray[np.bool_], rows: int | None = None) -> RewardPatterns:
        """Build the patterns of some of the episodes, with all rows or the first ``rows`` ones."""
        symbol_mask = episode_mask[self.episode]
        if rows is not None:
            symbol_mask &= self.rows < rows
        sizes = np.bincount(self.episode[symbol_mask], minlength=self.episodes)[episode_mask]
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        codes = (self.rows * ROW_WIDTH + self.values)[symbol_mask].astype(symbol_dtype(self.size * ROW_WIDTH))
        return RewardPatterns(codes, offsets, np.ones(sizes.size), self.size, ROW_WIDTH)


Halves = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""Masks of the episodes to which a model is fitted, and of those on which it is evaluated."""


def sample_splits(episodes: Episodes, rng: np.random.Generator) -> tuple[Episodes, list[Halves]]:
    """Select episodes and their splits: one split, or cross-validation if there are few."""
    length = max(float(episodes.lengths.mean()), 1.0) if len(episodes) else 1.0
    num_fitted = max(min(_MAX_FITTED_EPISODES, int(MAX_FITTED_STEPS / length)), NUM_FOLDS)
    cross_validates = len(episodes) <= min(MAX_CROSS_VALIDATED, num_fitted)
    order = rng.permutation(len(episodes))
    sampled = order if cross_validates else order[: num_fitted + MAX_HELD_OUT_EPISODES]
    rank = rng.permutation(sampled.size)
    if cross_validates:
        splits = [(rank % NUM_FOLDS != fold_index, rank % NUM_FOLDS == fold_index) for fold_index in range(NUM_FOLDS)]
    else:
        is_fitted = rank < min(num_fitted, sampled.size // 2)
        splits = [(is_fitted, ~is_fitted)]
    return episodes[np.sort(sampled)], splits if sampled.size >= 2 * NUM_FOLDS else []


def best_gain(gains: Floats) -> HeldOutGain:
    """Test the gains (rivals, episodes) and return the best rival, with Bonferroni's correction for their number."""
    count = gains.shape[1]
    rivals = []
    for row in gains:
        mean = float(row.sum()) / count
        # Standard error of a mean, with the variance of paired differences: both models see the same episodes.
        error = math.sqrt(float(((row - mean) ** 2).sum())) / count
        is_large = mean * count > MIN_HELD_OUT_GAIN and error > 0.0
        p_value = 0.5 * math.erfc(mean / error / math.sqrt(2.0)) if is_large else 1.0
        rivals.append(HeldOutGain(mean, error, count, min(len(gains) * p_value, 1.0)))
    return min(rivals, key=lambda rival: (rival.p_value, -rival.gain))


def random_starts(average: Floats, rng: np.random.Generator) -> Iterator[Mixture]:
    """Yield random initial mixtures of two types around the marginals."""
    for _ in range(_RANDOM_STARTS):
        # Equal types are a stationary point of EM, so the initial types have to differ.
        probs = average * exp_array(LOG_PROB_STD * rng.standard_normal((2, *average.shape)))
        yield Mixture(np.full(2, 0.5), probs / probs.sum(axis=2, keepdims=True))


def fit_best_start(patterns: RewardPatterns, starts: list[Mixture], prior_mean: Floats, pseudocount: Floats) -> EMFit:
    """Fit by EM from several initial values and return the best; ``pseudocount`` (X, 1) at ``prior_mean``."""
    merged = merge_patterns(patterns)
    fits = [
        run_em(
            lambda mixture: e_step(merged, mixture),
            start,
            prior_mean=prior_mean,
            pseudocount=pseudocount,
            tolerance=_TOLERANCE,
        )
        for start in starts
    ]
    return max(fits, key=lambda fit: fit.objective)


def held_out_logliks(patterns: RewardPatterns, mixture: Mixture) -> Floats:
    """Compute the log-likelihood of each episode, shape (P,), with a positive lower bound for all probabilities."""
    return log_likelihoods(patterns, Mixture(mixture.weights, np.maximum(mixture.probs, MIN_PROBABILITY)))
