"""Does the recent past contradict the rest? Asked whenever recent episodes begin anew (``Record.turn``).

    rewards   derivatives of the log-likelihood at the mixture of all episodes, summed over the recent ones: D, of
              variance V_recent V_rest / (V_recent + V_rest) if nothing has changed; one for each (x, z)
    types     the same for the weights of the contexts
    moves     chi-squared of the next states of each x, recent against the rest

They hold whatever chose the actions, so that a policy that changes is not taken for a world that does. The smallest
p-value counts, times their number (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix.online import posterior_kernels as kernels
from rewardmix.online.posterior_kernels import BagArrays
from rewardmix.online.record import Record
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.likelihood import Mixture

ALARM = 1e-3
"""Chance of a false alarm at one turn, at most; there is one whenever the episodes double."""

LEAST_VARIANCE = 5.0
"""Sums of less variance than this, that of twenty coins, are not asked about."""

LEAST_MOVES = 10
"""Next states that were seen less often, recently and before together, are counted as one."""

_Asked = tuple[str, int, float]
"""(what, index of it, p-value)."""


@dataclass(frozen=True)
class Alarm:
    """The recent past contradicts the rest.

    Attributes:
        episodes: after how many it was noticed.
        what: "rewards" or "moves" of a state and action, or "types" (how frequent they are).
        place: state * num_actions + action; for types which one.
        p_value: chance of so much contradiction, anywhere, if nothing has changed.
    """

    episodes: int
    what: str
    place: int
    p_value: float


def alarm_of(record: Record, mixture: Mixture, episodes: int) -> Alarm | None:
    """What is contradicted most, if it is enough for an alarm; ``mixture`` is the most likely one of all episodes."""
    asked = [*_rewards(record, mixture), *_moves(record)]
    if not asked:
        return None
    what, place, least = min(asked, key=lambda one: one[2])
    p_value = float(f"{min(1.0, len(asked) * least):.9g}")  # the last digits differ between C libraries
    return Alarm(episodes, what, place, p_value) if p_value < ALARM else None


def _rewards(record: Record, mixture: Mixture) -> Iterator[_Asked]:
    values = record.bags.num_values
    table = np.ascontiguousarray(np.moveaxis(mixture.laws, 0, -1).reshape(-1, mixture.num_contexts))
    table = np.maximum(table, kernels.LEAST_LAW)
    (all_sums, all_squares), (sums, squares) = (
        _residuals(bags, mixture.weights, table) for bags in (record.bags, record.recent)
    )
    part = squares / np.maximum(all_squares, 1e-300)
    variance = squares * (1.0 - part)
    for i in np.flatnonzero(variance >= LEAST_VARIANCE):
        context = i - table.shape[0]
        if context < 0 and i % values == 0 and values == 2:  # the other value says the same
            continue
        p_value = math.erfc(abs(sums[i] - part[i] * all_sums[i]) / math.sqrt(2.0 * variance[i]))
        yield ("rewards", int(i // values), p_value) if context < 0 else ("types", int(context), p_value)


def _residuals(bags: Bags, weights: Floats, table: Floats) -> tuple[Floats, Floats]:
    size = table.shape[0] + weights.size
    sums, squares = np.zeros(size), np.zeros(size)
    arrays = BagArrays(bags.symbols, bags.offsets, bags.counts)
    kernels.add_residuals(arrays, weights, table, bags.num_values, sums, squares)
    return sums, squares


def _moves(record: Record) -> Iterator[_Asked]:
    from scipy.special import chdtrc

    now, before = record.moves(), record.moves_before
    for x in np.flatnonzero((now.sum(axis=1) > before.sum(axis=1)) & (before.sum(axis=1) > 0)):
        table = _together(np.stack([now[x] - before[x], before[x]]))
        if table.shape[1] < 2 or table.sum(axis=1).min() < LEAST_MOVES:
            continue
        expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
        square = float(((table - expected) ** 2 / expected).sum())
        yield "moves", int(x), float(chdtrc(table.shape[1] - 1, square))


def _together(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """(2, S') counts with the columns that are rare counted as one, or left out if they are rare together."""
    rare = table.sum(axis=0) < LEAST_MOVES
    others = table[:, rare].sum(axis=1, keepdims=True)
    kept = [table[:, ~rare]] + ([others] if others.sum() >= LEAST_MOVES else [])
    return np.concatenate(kept, axis=1)
