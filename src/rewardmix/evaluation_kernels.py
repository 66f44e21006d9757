"""Compiled kernels that evaluate the reachable nodes of a controller in a model with sparse transitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.jit import kernel


@kernel
def mark_reachable_nodes(
    rows: Any,  # (E,) state-action of each reachable node
    next_nodes: Any,  # (E, Z) next node
    pointers: Any,  # (X + 1,) first entry of each state-action
    columns: Any,  # (N,) next states
    out: Any,  # out (S, L) whether a node of the next step is reachable
) -> None:
    """Mark every next state and node of the reachable nodes."""
    for i in range(rows.size):
        for z in range(next_nodes.shape[1]):
            for entry in range(pointers[rows[i]], pointers[rows[i] + 1]):
                out[columns[entry], next_nodes[i, z]] = True


@kernel
def backup_node_values(
    rows: Any,  # (E,)
    next_nodes: Any,  # (E, Z)
    probs: Any,  # (X, Z, M) reward probabilities by type
    means: Any,  # (X, M) mean rewards by type
    pointers: Any,  # (X + 1,)
    columns: Any,  # (N,)
    transition_probs: Any,  # (N,) their probabilities
    row_table: Any,  # (S, L) row of each next node in ``next_values``
    next_values: Any,  # (F, M)
    types: Any,  # (0, .. , M - 1), a tuple: its length is a compile-time constant
    out: Any,  # out (E, M) values of the nodes
) -> None:
    """Back up values by one step: out = mean reward + sum_z p(z) sum_s' T(s') value(s' and next node after z).

    Both sums run from left to right, which gives the bits of the dense evaluation.
    """
    # Sums over next states are finished before they are multiplied by p(z): the order of the dense path.
    sums = np.empty(len(types))
    for i in range(rows.size):
        x, row_value = rows[i], out[i]
        for m in range(len(types)):
            row_value[m] = means[x, m]
        for z in range(next_nodes.shape[1]):
            for m in range(len(types)):
                sums[m] = 0.0
            for entry in range(pointers[x], pointers[x + 1]):
                prob, next_value = transition_probs[entry], next_values[row_table[columns[entry], next_nodes[i, z]]]
                for m in range(len(types)):
                    sums[m] += prob * next_value[m]
            for m in range(len(types)):
                row_value[m] += probs[x, z, m] * sums[m]
