"""Kernels that value a controller where each state-action has few next states: only the nodes that a path enters."""

from __future__ import annotations

from typing import Any

from rewardmix._core.jit import kernel


@kernel
def enter_nodes(
    rows: Any,  # (S, K) state-action of each node
    following: Any,  # (S, K, Z) next node
    pointers: Any,  # (X + 1,) first entry of each state-action
    columns: Any,  # (E,) next states
    entered: Any,  # (S, K) nodes that a path enters
    out: Any,  # out (S, L) those of the next step
) -> None:
    """Every next state and node of the nodes that are entered."""
    for s in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            if entered[s, k]:
                x = rows[s, k]
                for z in range(following.shape[2]):
                    for entry in range(pointers[x], pointers[x + 1]):
                        out[columns[entry], following[s, k, z]] = True


@kernel
def earn_ahead(
    rows: Any,  # (S, K)
    following: Any,  # (S, K, Z)
    laws: Any,  # (X, Z, M) of outcomes in each context
    pointers: Any,  # (X + 1,)
    columns: Any,  # (E,)
    entries: Any,  # (E,) their chances
    entered: Any,  # (S, K)
    later: Any,  # (S, L, M) what the next nodes earn
    sums: Any,  # room (M,)
    out: Any,  # (S, K, M) what the nodes earn at once; out: with what comes later, where they are entered
) -> None:
    """out += sum_z law(z) sum_s' T(s') later(s', next node after z), both sums from left to right."""
    for s in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            if entered[s, k]:
                x = rows[s, k]
                for z in range(following.shape[2]):
                    sums[:] = 0.0
                    for entry in range(pointers[x], pointers[x + 1]):
                        onward = later[columns[entry], following[s, k, z]]
                        for m in range(sums.size):
                            sums[m] += entries[entry] * onward[m]
                    for m in range(sums.size):
                        out[s, k, m] += laws[x, z, m] * sums[m]
