"""Kernels that value a controller where each state-action has few next states: only the nodes that a path enters."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.jit import kernel


@kernel
def enter_nodes(
    rows: Any,  # (E,) state-action of each node that a path enters
    following: Any,  # (E, Z) next node
    pointers: Any,  # (X + 1,) first entry of each state-action
    columns: Any,  # (N,) next states
    out: Any,  # out (S, L) whether a path enters the nodes of the next step
) -> None:
    """Every next state and node of the nodes that are entered."""
    for i in range(rows.size):
        for z in range(following.shape[1]):
            for entry in range(pointers[rows[i]], pointers[rows[i] + 1]):
                out[columns[entry], following[i, z]] = True


@kernel
def earn_ahead(
    rows: Any,  # (E,)
    following: Any,  # (E, Z)
    laws: Any,  # (X, Z, M) of outcomes in each context
    means: Any,  # (X, M) expected rewards
    pointers: Any,  # (X + 1,)
    columns: Any,  # (N,)
    entries: Any,  # (N,) their chances
    places: Any,  # (S, L) where the next nodes are in ``later``
    later: Any,  # (F, M) what they earn
    contexts: Any,  # (0, .. , M - 1), a tuple: machine code is made for their number
    out: Any,  # out (E, M) what the nodes earn
) -> None:
    """out = means + sum_z law(z) sum_s' T(s') later(s' and the next node after z), both sums from left to right."""
    sums = np.empty(len(contexts))
    for i in range(rows.size):
        x, earned = rows[i], out[i]
        for m in range(len(contexts)):
            earned[m] = means[x, m]
        for z in range(following.shape[1]):
            for m in range(len(contexts)):
                sums[m] = 0.0
            for entry in range(pointers[x], pointers[x + 1]):
                chance, onward = entries[entry], later[places[columns[entry], following[i, z]]]
                for m in range(len(contexts)):
                    sums[m] += chance * onward[m]
            for m in range(len(contexts)):
                earned[m] += laws[x, z, m] * sums[m]
