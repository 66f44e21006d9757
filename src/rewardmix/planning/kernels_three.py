"""The compiled backward step for three contexts; see ``three`` for the grid and ``kernels`` for the layout of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._kernels import kernel


@kernel
def cut(
    along: float, across: float, low: float, high: float, near: float, far: float, up: float, cross: float
) -> float:
    """Interpolation in a trapezoid cut from its near low corner to its far high corner.

    Args:
        along: share of the way from the low to the high side.
        across: share of the way from the near to the far side.
        low: width of the low side.
        high: width of the high side.
        near: value at the near low corner.
        far: value at the far low corner.
        up: value at the near high corner.
        cross: value at the far high corner.
    """
    width = (1.0 - along) * low + along * high
    diagonal = along * high / width if width > 0.0 else 1.0
    if across <= diagonal:
        share = across / diagonal if diagonal > 0.0 else 0.0
        return (1.0 - along) * near + along * ((1.0 - share) * up + share * cross)
    share = (across - diagonal) / (1.0 - diagonal)
    return (1.0 - along) * ((1.0 - share) * near + share * far) + along * cross


@kernel
def spread_outcome(
    law: Any,
    ahead: Any,
    grid: Any,
    rays: Any,
    next_grid: Any,
    next_rays: Any,
    inverse_width: Any,
    inverse_ray: Any,
    high: Any,
    earned: Any,
    jump: Any,
    z: int,
) -> None:
    """Add the continuation after outcome z of one state-action to ``high`` (N,) and ``earned`` (3, N)."""
    q0, q1, q2 = law[0], law[1], law[2]
    num_grid, num_next, last_ray = grid.size, next_grid.size, next_rays.size - 1
    ray = 0
    for j in range(rays.size):
        x, y = rays[j] * q1, (1.0 - rays[j]) * q2
        other = x + y  # likelihood when the context is not 0
        while ray + 1 < last_ray and next_rays[ray + 1] * other < x:
            ray += 1
        across = 0.0
        if other > 0.0:
            across = min(max((x / other - next_rays[ray]) * inverse_ray[ray], 0.0), 1.0)
        beside = min(ray + 1, last_ray)
        cell = 0
        for i in range(num_grid):
            k = j * num_grid + i
            b0 = grid[i] * q0
            b1, b2 = (1.0 - grid[i]) * x, (1.0 - grid[i]) * y
            total = b0 + b1 + b2
            while cell + 2 < num_next and next_grid[cell + 1] * total < b0:
                cell += 1
            above = min(cell + 1, num_next - 1)
            near, up = ray * num_next + cell, ray * num_next + above
            far, cross = beside * num_next + cell, beside * num_next + above
            pick = near
            if total > 0.0:
                along = min(max((b0 / total - next_grid[cell]) * inverse_width[cell], 0.0), 1.0)
                low, top = 1.0 - next_grid[cell], 1.0 - next_grid[above]
                u = ahead[0]
                one = cut(along, across, low, top, u[near], u[far], u[up], u[cross])
                two = cut(along, 1.0 - across, low, top, u[far], u[near], u[cross], u[up])
                high[k] += total * min(one, two)
                most = -np.inf
                for corner in (near, up, far, cross):
                    found = b0 * ahead[1, corner] + b1 * ahead[2, corner] + b2 * ahead[3, corner]
                    if found > most:
                        most, pick = found, corner
            elif q0 > 0.0:  # impossible under this belief, yet a continuation in the contexts that it excludes
                pick = up
            earned[0, k] += q0 * ahead[1, pick]
            earned[1, k] += q1 * ahead[2, pick]
            earned[2, k] += q2 * ahead[3, pick]
            jump[k, z] = pick


@kernel
def beaten(high: Any, value: Any, grid: Any, rays: Any, i: int, j: int, slack: float) -> bool:
    """Whether one node at a corner of the cell earns more than ``high`` at all corners, hence all over the cell."""
    columns, lines = min(i + 1, grid.size - 1), min(j + 1, rays.size - 1)
    for node in (j * grid.size + i, j * grid.size + columns, lines * grid.size + i, lines * grid.size + columns):
        holds = True
        for line in (j, lines):
            for column in (i, columns):
                g, r = grid[column], rays[line]
                earned = g * value[1, node] + (1.0 - g) * (r * value[2, node] + (1.0 - r) * value[3, node])
                holds = holds and high[line * grid.size + column] < earned - slack
        if holds:
            return True
    return False


@kernel
def backup_three(
    laws: Any,  # (R, Z, 3)
    means: Any,  # (R, 3)
    starts: Any,  # (n + 1,)
    labels: Any,  # (R,)
    ahead: Any,  # (R, 4, L)
    grid: Any,  # beliefs in context 0
    rays: Any,  # beliefs in context 1 given not 0; point (i, j) has index j * len(grid) + i
    next_grid: Any,
    next_rays: Any,
    inverse_width: Any,
    inverse_ray: Any,
    slack: float,
    value: Any,  # out (n, 4, N)
    best: Any,  # out (n, N)
    moves: Any,  # out (n, N, Z)
    keep: Any,  # out (R,)
) -> None:
    """One backward step on the triangulated grid."""
    num_points, num_values = grid.size * rays.size, laws.shape[1]
    widest = 0
    for s in range(starts.size - 1):
        widest = max(widest, starts[s + 1] - starts[s])
    upper = np.empty((widest, num_points))
    earned = np.empty((3, num_points))
    jump = np.empty((num_points, num_values), np.int32)
    lower = np.empty(num_points)
    for s in range(starts.size - 1):
        lower[:] = -np.inf
        value[s, 0, :] = -np.inf
        for r in range(starts[s], starts[s + 1]):
            high = upper[r - starts[s]]
            for j in range(rays.size):
                rest = rays[j] * means[r, 1] + (1.0 - rays[j]) * means[r, 2]
                for i in range(grid.size):
                    high[j * grid.size + i] = grid[i] * means[r, 0] + (1.0 - grid[i]) * rest
            for m in range(3):
                earned[m, :] = means[r, m]
            for z in range(num_values):
                spread_outcome(
                    laws[r, z],
                    ahead[r],
                    grid,
                    rays,
                    next_grid,
                    next_rays,
                    inverse_width,
                    inverse_ray,
                    high,
                    earned,
                    jump,
                    z,
                )
            for k in range(num_points):
                g, ray = grid[k % grid.size], rays[k // grid.size]
                value[s, 0, k] = max(value[s, 0, k], high[k])
                low = g * earned[0, k] + (1.0 - g) * (ray * earned[1, k] + (1.0 - ray) * earned[2, k])
                if low > lower[k]:
                    lower[k] = low
                    best[s, k] = labels[r]
                    for m in range(3):
                        value[s, 1 + m, k] = earned[m, k]
                    for z in range(num_values):
                        moves[s, k, z] = jump[k, z]
        for r in range(starts[s], starts[s + 1]):
            keep[r] = False
            for j in range(max(rays.size - 1, 1)):
                for i in range(max(grid.size - 1, 1)):
                    if not keep[r]:
                        keep[r] = not beaten(upper[r - starts[s]], value[s], grid, rays, i, j, slack)
