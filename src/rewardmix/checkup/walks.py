"""Episodes as the kernels of the check-up take them, and what a walk over them with a model leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.widths import symbol_width
from rewardmix.checkup import score_kernels
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP, state_action
from rewardmix.recovery.bags import Bags

LEAST_PROBABILITY = 1e-6
"""No outcome is taken for less probable: one impossible reward must not decide."""


@dataclass(frozen=True, eq=False)
class CheckedEpisodes:
    """Episodes as the kernels take them.

    Attributes:
        points: (K, H) state-actions, 0 where there was no step.
        outcomes: (K, H).
        lengths: (K,).
        values: (Z,) rewards.
        episodes: where they are from.
    """

    points: NDArray[np.int64]
    outcomes: NDArray[np.int8]
    lengths: NDArray[np.int32]
    values: Floats
    episodes: Episodes

    @staticmethod
    def of(episodes: Episodes) -> CheckedEpisodes:
        """From episodes."""
        points = state_action(episodes.states[:, :-1].astype(np.int64), episodes.actions, episodes.num_actions)
        points = np.where(episodes.actions >= 0, points, 0)
        return CheckedEpisodes(points, episodes.outcomes, episodes.lengths, episodes.reward_values, episodes)

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int32]]:
        """What every kernel begins with."""
        return self.points, self.outcomes, self.lengths

    def __getitem__(self, chosen: NDArray[Any]) -> CheckedEpisodes:
        """The episodes of a mask or an index array."""
        parts = self.points[chosen], self.outcomes[chosen], self.lengths[chosen]
        return CheckedEpisodes(*parts, self.values, self.episodes[chosen])

    def with_outcomes(self, outcomes: NDArray[np.int8]) -> CheckedEpisodes:
        """The same states and actions with other rewards."""
        return replace(self, outcomes=outcomes)

    @property
    def bags(self) -> Bags:
        """The bags of their rewards, one for each, in order."""
        live = self.live
        points = self.episodes.num_states * self.episodes.num_actions
        symbols = self.points[live] * self.values.size + self.outcomes[live]
        offsets = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        width = symbol_width(points * self.values.size)
        return Bags(symbols.astype(width), offsets, np.ones(len(self)), points, self.values.size)

    def __len__(self) -> int:
        return int(self.lengths.size)

    @property
    def live(self) -> NDArray[np.bool_]:
        """(K, H) whether there was a step."""
        return np.arange(self.points.shape[1]) < self.lengths[:, None]


@dataclass(frozen=True, eq=False)
class Walked:
    """What a walk over the episodes leaves: see ``score_kernels.walk``."""

    scores: Floats
    posteriors: Floats
    residuals: Floats
    variances: Floats
    beliefs: Floats


Parts = tuple[Floats, Floats]
"""(weights (M,), laws (X, Z, M)) of a model."""


def walk_over(data: CheckedEpisodes, parts: Parts, rival: Parts) -> Walked:
    """Walk over the episodes with a model, and another one to compare its predictions with."""
    (count, steps), contexts = data.points.shape, parts[0].size
    out = (
        np.empty((count, score_kernels.NUM_SCORES)),
        np.empty((count, contexts)),
        np.zeros((count, steps)),
        np.zeros((count, steps)),
        np.zeros((count, steps, contexts)),
    )
    score_kernels.walk(*data.arrays, parts, rival, data.values, out)
    return Walked(*out)


def parts_of_model(model: RewardMixingMDP, data: CheckedEpisodes) -> Parts:
    """The model's weights and laws as the kernels take them, for the states and rewards that episodes have."""
    places = np.searchsorted(model.reward_values, data.values)
    laws = model.laws[:, : data.episodes.num_states][..., places]
    laws = laws.reshape(model.num_contexts, -1, data.values.size)
    return np.ascontiguousarray(model.weights), floored(np.ascontiguousarray(np.moveaxis(laws, 0, 2)))


def floored(table: Floats) -> Floats:
    """(X, Z, M) laws of which no outcome is less probable than ``LEAST_PROBABILITY``."""
    table = np.maximum(table, LEAST_PROBABILITY)
    return np.asarray(table / table.sum(axis=1, keepdims=True))
