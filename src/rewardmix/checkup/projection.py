"""Scores with the effect of estimated parameters taken out.

At estimated parameters a score is off by its derivative times their error, which is as large as its noise. So each
score is replaced by what is left of it after regression, over the episodes, on the derivatives of the log-likelihood
(Neyman's C(alpha)): to first order that does not see the error. The regression is solved by conjugate gradients, each
step one walk over the episodes, so that any number of parameters fits into memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix.checkup import score_kernels

_MOST_STEPS = 200
"""Of conjugate gradients, at most."""

_SOLVED = 1e-6
"""The regression is solved when its gradient has fallen to this share."""


LEAST_EXPECTED = 1.0
"""An outcome that a type is expected to pay (or not to pay) less often is no parameter that the episodes know: p-values
of logs with binned rewards are uniform with it (``benchmarks/checkup``), more would leave known ones in."""

EpisodeArrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""Points (K, H), outcomes (K, H) and lengths (K,) of episodes."""


def projected(
    data: EpisodeArrays, model: tuple[Floats, Floats], posteriors: Floats, scores: Floats
) -> tuple[Floats, int]:
    """(K, D) what is left of the scores, and how many parameters were taken out."""
    gradient = Gradient(data, model, posteriors)
    left = np.empty_like(scores)
    for column in range(scores.shape[1]):
        left[:, column] = gradient.residual(np.ascontiguousarray(scores[:, column]))
    return left, gradient.rank


class Gradient:
    """The (K, P) matrix of derivatives of each episode's log-likelihood, as products."""

    def __init__(self, data: EpisodeArrays, model: tuple[Floats, Floats], posteriors: Floats) -> None:
        self.data, self.model, self.posteriors = data, model, posteriors
        weights, table = model
        ones = np.ones(data[2].size)
        visits = self._across(ones)[0].sum(axis=1, keepdims=True)  # (X, 1, M)
        expected = visits * table * (1.0 - table)
        known = self._known(expected, table)
        self.scale = (
            np.where(known, 1.0 / np.sqrt(np.maximum(expected, 1.0)), 0.0),
            1.0 / np.sqrt(np.maximum(ones.size * weights * (1.0 - weights), 1.0)),
        )
        self.rank = int(known.sum() + weights.size - 1)

    @staticmethod
    def _known(expected: Floats, table: Floats) -> NDArray[np.bool_]:
        """(X, Z, M) which logits of the laws the episodes tell something about.

        Where a type hardly ever pays an outcome, the derivative is next to the same number at every visit: regression
        on it takes it for an intercept and removes the mean of the score, which is what is asked about. The maximum
        lies on the boundary there, so the derivatives do not sum to zero either. These directions are left out, and so
        is the most probable outcome of each law: the other logits are relative to it, and with it they would span the
        rare one again.
        """
        known = expected >= LEAST_EXPECTED
        np.put_along_axis(known, table.argmax(axis=1)[:, None], False, axis=1)
        return known

    def _across(self, amounts: Floats) -> tuple[Floats, Floats]:
        weights, table = self.model
        out = np.empty_like(table), np.empty_like(weights)
        score_kernels.across(*self.data, self.model, self.posteriors, amounts, out)
        return out

    def times(self, direction: tuple[Floats, Floats]) -> Floats:
        """(K,) the matrix times a direction in the scaled parameters."""
        laws, shares = direction[0] * self.scale[0], direction[1] * self.scale[1]
        laws = laws - (laws * self.model[1]).sum(axis=1, keepdims=True)
        out = np.empty(self.data[2].size)
        score_kernels.along(*self.data, self.model, self.posteriors, (laws, shares), out)
        return out

    def transposed(self, amounts: Floats) -> tuple[Floats, Floats]:
        """Its transpose times (K,) amounts."""
        laws, shares = self._across(amounts)
        laws = laws - laws.sum(axis=1, keepdims=True) * self.model[1]
        return laws * self.scale[0], shares * self.scale[1]

    def residual(self, score: Floats) -> Floats:
        """What regression on the derivatives leaves of a (K,) score."""
        left = score.copy()
        gradient = self.transposed(left)
        direction = gradient
        size = first = _square(gradient)
        for _ in range(_MOST_STEPS):
            if size <= _SOLVED**2 * first or size == 0.0:
                break
            image = self.times(direction)
            step = size / float((image**2).sum())
            left -= step * image
            gradient = self.transposed(left)
            before, size = size, _square(gradient)
            direction = tuple(g + size / before * d for g, d in zip(gradient, direction, strict=True))  # type: ignore[assignment]
        return left


def _square(direction: tuple[Floats, Floats]) -> float:
    return float((direction[0] ** 2).sum() + (direction[1] ** 2).sum())
