"""Where climbing begins: spreads to reward laws, and laws drawn at random."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.portable import exps
from rewardmix.recovery.likelihood import Mixture

INWARD = 0.02
"""Share of the average mixed into a start, so that no probability begins at 0, where EM would leave it."""

MOST_FLIPS = 3
"""Up to this many undecided groups are tried in all combinations; more are flipped one at a time."""


def spread_laws(spread: Floats, num_points: int) -> Floats:
    """(X, Z) spread of the law at each x from its coordinates, summing to zero over the values."""
    table = spread.reshape(num_points, -1)
    if table.shape[1] == 1:
        return np.concatenate([-table, table], axis=1)
    return np.asarray(table - table.mean(axis=1, keepdims=True))


def mixture_of(average: Floats, spread: Floats, weights: Floats) -> Mixture:
    """Two contexts with this average and spread (both (X, Z)); a spread that leaves [0, 1] is shortened, x by x.

    The paper's clip; it can take a model out of its confidence set (departure 14 of docs/paper.md).

    p_1 = average + sqrt(w_2 / w_1) spread,  p_2 = average - sqrt(w_1 / w_2) spread
    """
    ratio = float(np.sqrt(weights[1] / weights[0]))
    moves = np.stack([ratio * spread, -spread / ratio])
    room = np.where(moves > 0, 1.0 - average, average)
    size = np.abs(moves)
    share = np.where(size > room, room / np.where(size > 0, size, 1.0), 1.0).min(axis=(0, 2))
    return Mixture(np.asarray(weights, dtype=np.float64), np.clip(average + share[:, None] * moves, 0.0, 1.0))


def inward(mixture: Mixture, average: Floats) -> Mixture:
    """A start that EM can leave in every direction."""
    safe = (1.0 - INWARD) * average + INWARD / average.shape[1]
    return Mixture(mixture.weights, (1.0 - INWARD) * mixture.laws + INWARD * safe)


def random_mixture(average: Floats, weights: Floats, free: NDArray[np.bool_], rng: np.random.Generator) -> Mixture:
    """Laws tilted at random from the average, where the data can tell (``free``: (X,))."""
    safe = (1.0 - INWARD) * average + INWARD / average.shape[1]
    nearly_normal = rng.random((12, weights.size, *average.shape)).sum(axis=0) - 6.0
    tilt = exps(nearly_normal)
    laws = safe * np.where(free[:, None], tilt, 1.0)
    return Mixture(weights, laws / laws.sum(axis=2, keepdims=True))


def flips(groups: NDArray[np.int64], undecided: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Sign patterns (X,) over the undecided groups, other than leaving everything as it is."""
    if undecided.size == 0:
        return []
    if undecided.size <= MOST_FLIPS:
        chosen = [np.asarray(bits, bool) for bits in product((False, True), repeat=undecided.size) if any(bits)]
    else:
        chosen = list(np.eye(undecided.size, dtype=bool))
    return [np.where(np.isin(groups, undecided[mask]), -1, 1) for mask in chosen]
