"""Which pairs of state-actions were seen together in an episode, which never, and which cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments

MOST_ROWS = 40
"""A heat map has at most so many rows; larger ones show blocks of state-actions."""
LARGEST = 2_000
"""With more state-actions than this there is no heat map."""

IMPOSSIBLE = -1
"""Written in place of a count."""


def pair_coverage(model: RewardMixingMDP, moments: Moments) -> dict[str, Any] | None:
    """The lower triangle of pair counts, in blocks of ``block`` state-actions if there are many.

    A block shows its least-seen pair that can happen, so that a gap is never hidden by its neighbours.
    """
    size = moments.num_state_actions
    if size > LARGEST:
        return None
    counts = moments.pair_counts()
    possible = possible_pairs(model)[:size, :size] | (counts > 0)
    lower = np.tril(np.ones((size, size), bool))
    block = -(-size // MOST_ROWS)
    edges = np.arange(0, size, block)
    large = np.iinfo(np.int64).max
    least = np.where(possible & lower, counts, large)
    least = np.minimum.reduceat(np.minimum.reduceat(least, edges, axis=0), edges, axis=1)
    cells = np.where(least == large, IMPOSSIBLE, least)
    return {
        "seen": int(((counts > 0) & lower).sum()),
        "never": int((possible & lower & (counts == 0)).sum()),
        "impossible": int((~possible & lower).sum()),
        "size": size,
        "block": block,
        "cells": [cells[i, : i + 1].tolist() for i in range(edges.size)],
    }


def possible_pairs(model: RewardMixingMDP) -> NDArray[np.bool_]:
    """(X, X): whether some episode can visit x and y at two steps, by the moves that the model allows."""
    rows = csr_array(model.transition_rows)
    states, actions = model.num_states, model.num_actions
    moves = csr_array((rows.data > 0, rows.indices, rows.indptr), shape=rows.shape)
    owner = csr_array((np.ones(states * actions, bool), (np.repeat(np.arange(states), actions), np.arange(states * actions))))
    steps = shortest_path(csr_array(owner @ moves, dtype=float), unweighted=True)
    arrival = steps[model.initial > 0].min(axis=0)
    onward = np.full((states * actions, states), np.inf)
    for x in range(states * actions):
        following = rows.indices[rows.indptr[x] : rows.indptr[x + 1]][rows.data[rows.indptr[x] : rows.indptr[x + 1]] > 0]
        onward[x] = 1 + steps[following].min(axis=0, initial=np.inf)
    in_time = np.repeat(arrival, actions)[:, None] + onward <= model.horizon - 1
    ordered = np.repeat(in_time, actions, axis=1)
    return np.asarray(ordered | ordered.T)
