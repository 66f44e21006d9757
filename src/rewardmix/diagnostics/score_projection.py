"""Remove the effect of estimated parameters from scores.

With estimated parameters, a score is shifted by its derivative times their error, which is as large as its noise. Each
score is therefore replaced by its residual after regression, over the episodes, on the derivatives of the
log-likelihood (Neyman's C(alpha) test), which does not depend on the error to first order. Conjugate gradients solve
the regression; each step is one pass over the episodes, so the memory does not grow with the number of parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix.diagnostics import score_kernels

_MAX_CG_STEPS = 200
"""Maximum number of conjugate gradient steps."""

_CG_TOLERANCE = 1e-6
"""Ratio of the gradient norm to its initial value at which the regression counts as solved."""


MIN_EXPECTED_COUNT = 1.0
"""Expected count from which a reward probability counts as an estimated parameter.

Below it, a type almost never (or almost always) has this reward and the episodes contain no information about it. With
this value, p-values of logs with binned rewards are uniform (study ``benchmarks/checkup``); a larger one would omit
parameters that are estimated.
"""

EpisodeArrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""State-actions (K, H), reward indices (K, H) and lengths (K,) of episodes."""


def project_scores(
    data: EpisodeArrays, model: tuple[Floats, Floats], posteriors: Floats, scores: Floats
) -> tuple[Floats, int]:
    """Project scores (K, D) and return the residuals and the number of parameters."""
    gradient = LikelihoodJacobian(data, model, posteriors)
    residuals = np.empty_like(scores)
    for column in range(scores.shape[1]):
        residuals[:, column] = gradient.residual(np.ascontiguousarray(scores[:, column]))
    return residuals, gradient.rank


class LikelihoodJacobian:
    """Matrix (K, P) of the derivatives of each episode's log-likelihood, accessed by products only."""

    def __init__(self, data: EpisodeArrays, model: tuple[Floats, Floats], posteriors: Floats) -> None:
        """Compute the scale of each parameter and select the estimated ones."""
        self.data, self.model, self.posteriors = data, model, posteriors
        weights, table = model
        ones = np.ones(data[2].size)
        visits = self._weighted_gradient(ones)[0].sum(axis=1, keepdims=True)  # (X, 1, M)
        # The expected information of each logit. Scaling by its root makes conjugate gradients converge in few
        # steps.
        expected = visits * table * (1.0 - table)
        is_estimated = self._is_estimated(expected, table)
        self.scale = (
            np.where(is_estimated, 1.0 / np.sqrt(np.maximum(expected, 1.0)), 0.0),
            1.0 / np.sqrt(np.maximum(ones.size * weights * (1.0 - weights), 1.0)),
        )
        self.rank = int(is_estimated.sum() + weights.size - 1)

    @staticmethod
    def _is_estimated(expected: Floats, table: Floats) -> NDArray[np.bool_]:
        """Return for which logits of reward probabilities the episodes contain information, shape (X, Z, M).

        Where a type almost never has a reward, the derivative is nearly constant over visits. Regression takes it for
        an intercept and removes the mean of the score, which is the tested quantity. The maximum lies on the boundary
        there, so the derivatives do not sum to zero either. These directions are omitted, and so is the most probable
        reward of each distribution: the other logits are relative to it, and with it they would span the rare one
        again.
        """
        is_estimated = expected >= MIN_EXPECTED_COUNT
        np.put_along_axis(is_estimated, table.argmax(axis=1)[:, None], False, axis=1)
        return is_estimated

    def _weighted_gradient(self, amounts: Floats) -> tuple[Floats, Floats]:
        """Compute the weighted sum of gradients before centering."""
        weights, table = self.model
        out = np.empty_like(table), np.empty_like(weights)
        score_kernels.fill_weighted_gradient(*self.data, self.model, self.posteriors, amounts, out)
        return out

    def matvec(self, direction: tuple[Floats, Floats]) -> Floats:
        """Multiply the matrix by a direction in scaled parameters, giving (K,)."""
        probs, shares = direction[0] * self.scale[0], direction[1] * self.scale[1]
        # A constant added to all logits of a distribution changes nothing, so directions are centered.
        probs = probs - (probs * self.model[1]).sum(axis=1, keepdims=True)
        out = np.empty(self.data[2].size)
        score_kernels.fill_directional_derivative(*self.data, self.model, self.posteriors, (probs, shares), out)
        return out

    def rmatvec(self, amounts: Floats) -> tuple[Floats, Floats]:
        """Multiply the transposed matrix by amounts (K,)."""
        probs, shares = self._weighted_gradient(amounts)
        probs = probs - probs.sum(axis=1, keepdims=True) * self.model[1]
        return probs * self.scale[0], shares * self.scale[1]

    def residual(self, score: Floats) -> Floats:
        """Compute the residual of a score (K,) after regression on the derivatives."""
        residual = score.copy()
        gradient = self.rmatvec(residual)
        direction = gradient
        size = first = _squared_norm(gradient)
        for _ in range(_MAX_CG_STEPS):
            if size <= _CG_TOLERANCE**2 * first or size == 0.0:
                break
            image = self.matvec(direction)
            step = size / float((image**2).sum())
            residual -= step * image
            gradient = self.rmatvec(residual)
            before, size = size, _squared_norm(gradient)
            # Fletcher-Reeves update, which is exact for linear least squares.
            direction = tuple(g + size / before * d for g, d in zip(gradient, direction, strict=True))  # type: ignore[assignment]
        return residual


def _squared_norm(direction: tuple[Floats, Floats]) -> float:
    """Compute the squared norm of a direction."""
    return float((direction[0] ** 2).sum() + (direction[1] ** 2).sum())
