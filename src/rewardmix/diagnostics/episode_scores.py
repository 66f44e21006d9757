"""Prepare episodes and models for the score kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.int_dtypes import symbol_dtype
from rewardmix.diagnostics import score_kernels
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP, state_action_index
from rewardmix.recovery.reward_patterns import RewardPatterns

MIN_PROBABILITY = 1e-6
"""Lower bound of reward probabilities: one impossible reward must not decide a test."""


@dataclass(frozen=True, eq=False)
class CheckedEpisodes:
    """Episodes as arrays for the kernels.

    Attributes:
        state_actions: State-action of each step, 0 after the end, shape (K, H).
        reward_indices: Reward index of each step, shape (K, H).
        lengths: Number of steps, shape (K,).
        reward_values: Reward values, shape (Z,).
        episodes: Original episodes.
    """

    state_actions: NDArray[np.int64]
    reward_indices: NDArray[np.int8]
    lengths: NDArray[np.int32]
    reward_values: Floats
    episodes: Episodes

    @staticmethod
    def of(episodes: Episodes) -> CheckedEpisodes:
        """Convert episodes to arrays."""
        state_actions = state_action_index(
            episodes.states[:, :-1].astype(np.int64), episodes.actions, episodes.num_actions
        )
        state_actions = np.where(episodes.actions >= 0, state_actions, 0)
        return CheckedEpisodes(
            state_actions, episodes.reward_indices, episodes.lengths, episodes.reward_values, episodes
        )

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int32]]:
        """Return the first three arguments of every kernel."""
        return self.state_actions, self.reward_indices, self.lengths

    def __getitem__(self, selection: NDArray[Any]) -> CheckedEpisodes:
        """Select episodes by a mask or an index array."""
        arrays = self.state_actions[selection], self.reward_indices[selection], self.lengths[selection]
        return CheckedEpisodes(*arrays, self.reward_values, self.episodes[selection])

    def with_reward_indices(self, reward_indices: NDArray[np.int8]) -> CheckedEpisodes:
        """Replace the rewards."""
        return replace(self, reward_indices=reward_indices)

    @property
    def patterns(self) -> RewardPatterns:
        """Return the reward patterns, one per episode, in order."""
        step_mask = self.step_mask
        num_state_actions = self.episodes.num_states * self.episodes.num_actions
        symbols = self.state_actions[step_mask] * self.reward_values.size + self.reward_indices[step_mask]
        offsets = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        width = symbol_dtype(num_state_actions * self.reward_values.size)
        return RewardPatterns(
            symbols.astype(width), offsets, np.ones(len(self)), num_state_actions, self.reward_values.size
        )

    def __len__(self) -> int:
        return int(self.lengths.size)

    @property
    def step_mask(self) -> NDArray[np.bool_]:
        """Return which entries are steps, shape (K, H)."""
        return np.arange(self.state_actions.shape[1]) < self.lengths[:, None]


@dataclass(frozen=True, eq=False)
class EpisodeScores:
    """Results of ``score_kernels.fill_scores``.

    Attributes:
        scores: Scores of the episodes, shape (K, 4).
        posteriors: Type posteriors of the episodes, shape (K, M).
        residuals: Rewards minus predictions, shape (K, H).
        variances: Variances of the residuals, shape (K, H).
        beliefs: Beliefs after each step, shape (K, H, M).
    """

    scores: Floats
    posteriors: Floats
    residuals: Floats
    variances: Floats
    beliefs: Floats


Params = tuple[Floats, Floats]
"""(weights (M,), reward probabilities (X, Z, M)) of a model."""


def compute_scores(data: CheckedEpisodes, params: Params, rival: Params) -> EpisodeScores:
    """Compute the scores of episodes under a model, with a rival for the test of one more type."""
    (count, steps), num_types = data.state_actions.shape, params[0].size
    out = (
        np.empty((count, score_kernels.NUM_SCORES)),
        np.empty((count, num_types)),
        np.zeros((count, steps)),
        np.zeros((count, steps)),
        np.zeros((count, steps, num_types)),
    )
    score_kernels.fill_scores(*data.arrays, params, rival, data.reward_values, out)
    return EpisodeScores(*out)


def model_params(model: RewardMixingMDP, data: CheckedEpisodes) -> Params:
    """Convert the weights and reward probabilities of a model, for the states and rewards of the episodes."""
    # The model may have more states and reward values than these episodes; the kernels index by those of the
    # episodes.
    value_indices = np.searchsorted(model.reward_values, data.reward_values)
    probs = model.reward_probs[:, : data.episodes.num_states][..., value_indices]
    probs = probs.reshape(model.num_types, -1, data.reward_values.size)
    return np.ascontiguousarray(model.weights), floor_probs(np.ascontiguousarray(np.moveaxis(probs, 0, 2)))


def floor_probs(table: Floats) -> Floats:
    """Raise reward probabilities (X, Z, M) to at least ``MIN_PROBABILITY`` and normalize."""
    # A probability of 0 would make the log-likelihood of one episode infinite and decide every test.
    table = np.maximum(table, MIN_PROBABILITY)
    return np.asarray(table / table.sum(axis=1, keepdims=True))
