"""The compiled backward step for any number of contexts; see ``many`` for the bounds and ``kernels`` for the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.jit import kernel


@kernel
def sawtooth(joint: Any, corner_value: Any, drop: Any, inverse: Any, ratio: Any) -> float:
    """Upper bound at an unnormalised belief: the corners' mean, less the deepest tooth.

    Args:
        joint: (M,) b * q.
        corner_value: (M,) upper bound at each corner.
        drop: (L,) upper bound at a point, less the corners' mean there.
        inverse: (M, L) 1 / point, infinite where the point is 0.
        ratio: (L,) room to work in.
    """
    total = 0.0
    for m in range(joint.size):
        total += joint[m] * corner_value[m]
    for j in range(drop.size):
        ratio[j] = np.inf
    for m in range(joint.size):
        weight = joint[m]
        row = inverse[m]
        for j in range(drop.size):
            share = weight * row[j]  # 0 * inf is not a number, and not less
            ratio[j] = share if share < ratio[j] else ratio[j]
    deepest = 0.0
    for j in range(drop.size):
        tooth = drop[j] * ratio[j]
        deepest = tooth if tooth < deepest else deepest
    return total + deepest


@kernel
def best_node(joint: Any, ahead: Any, room: Any) -> int:
    """The next node that earns most at an unnormalised belief. ahead: (1 + M, L), values in contexts from row 1."""
    room[:] = 0.0
    for m in range(joint.size):
        weight = joint[m]
        row = ahead[1 + m]
        for j in range(room.size):
            room[j] += weight * row[j]
    pick = 0
    for j in range(room.size):
        if room[j] > room[pick]:
            pick = j
    return pick


@kernel
def backup_many(
    laws: Any,  # (R, Z, M)
    means: Any,  # (R, M)
    starts: Any,  # (n + 1,)
    labels: Any,  # (R,)
    ahead: Any,  # (R, 1 + M, L), the first M points are the corners
    points: Any,  # (N, M)
    next_points: Any,  # (L, M)
    inverse: Any,  # (M, L) 1 / next point
    value: Any,  # out (n, 1 + M, N)
    best: Any,  # out (n, N) action of the node
    hope: Any,  # out (n, N) action with the highest upper bound
    moves: Any,  # out (n, N, Z)
) -> None:
    """One backward step on belief points."""
    num_points, num_contexts, num_values = points.shape[0], points.shape[1], laws.shape[1]
    num_next = next_points.shape[0]
    room = np.empty(num_next)
    drop = np.empty(num_next)
    joint = np.empty(num_contexts)
    earned = np.empty(num_contexts)
    jump = np.empty(num_values, np.int32)
    for s in range(starts.size - 1):
        value[s, 0, :] = -np.inf
        lower = np.full(num_points, -np.inf)
        for r in range(starts[s], starts[s + 1]):
            corner_value = ahead[r, 0, :num_contexts]
            for j in range(num_next):
                drop[j] = ahead[r, 0, j]
                for m in range(num_contexts):
                    drop[j] -= next_points[j, m] * corner_value[m]
            for k in range(num_points):
                high = 0.0
                for m in range(num_contexts):
                    earned[m] = means[r, m]
                    high += points[k, m] * means[r, m]
                for z in range(num_values):
                    for m in range(num_contexts):
                        joint[m] = points[k, m] * laws[r, z, m]
                    high += sawtooth(joint, corner_value, drop, inverse, room)
                    possible = joint.sum() > 0.0
                    # an outcome that this belief excludes still needs a continuation in the contexts it excludes
                    jump[z] = best_node(joint if possible else laws[r, z], ahead[r], room)
                    for m in range(num_contexts):
                        earned[m] += laws[r, z, m] * ahead[r, 1 + m, jump[z]]
                low = 0.0
                for m in range(num_contexts):
                    low += points[k, m] * earned[m]
                if high > value[s, 0, k]:
                    value[s, 0, k] = high
                    hope[s, k] = labels[r]
                if low > lower[k]:
                    lower[k] = low
                    best[s, k] = labels[r]
                    for m in range(num_contexts):
                        value[s, 1 + m, k] = earned[m]
                    for z in range(num_values):
                        moves[s, k, z] = jump[z]
