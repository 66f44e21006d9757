"""Which pairs of state-actions were seen together in an episode, which never, and which cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from rewardmix.exploration.exploration_result import possible_pairs, second_steps
from rewardmix.moments import Moments

MOST_ROWS = 40
"""A heat map has at most so many rows; larger ones show blocks of state-actions."""
LARGEST = 2_000
"""With more state-actions than this there is no heat map."""

IMPOSSIBLE = -1
"""Written in place of a count."""


def pair_coverage(moments: Moments) -> dict[str, Any] | None:
    """The lower triangle of pair counts, in blocks of ``block`` state-actions if there are many.

    What can happen is judged by the moves that were seen. A block shows its least-seen pair that can happen, so that a
    gap is never hidden by its neighbours.
    """
    size = moments.num_state_actions
    if size > LARGEST:
        return None
    counts = moments.pair_counts()
    rows = csr_array(moments.moves[:, : moments.num_states])
    when = second_steps(rows, moments.starts > 0, moments.num_actions, moments.horizon)
    possible = possible_pairs(when, np.arange(size), moments.num_actions, moments.horizon).T | (counts > 0)
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
