"""The convex hull of ``exact``."""

from __future__ import annotations

from typing import Any

from rewardmix._core.jit import kernel


@kernel
def outer_chain(points: Any, tolerance: float, out: Any) -> int:
    """Vertices of the upper right hull of ``points`` (n, 2), sorted by falling first then falling second coordinate.

    Fills ``out`` (n, 2) and returns how many: first coordinates fall, second ones rise, and edges turn one way.
    Points within ``tolerance`` of a line, or of another point, are not vertices.
    """
    size = 0
    for i in range(points.shape[0]):
        x, y = points[i, 0], points[i, 1]
        if size > 0 and y <= out[size - 1, 1] + tolerance:
            continue
        while size > 1:
            ax, ay = out[size - 1, 0] - out[size - 2, 0], out[size - 1, 1] - out[size - 2, 1]
            bx, by = x - out[size - 1, 0], y - out[size - 1, 1]
            if ax * by - ay * bx > tolerance * tolerance:
                break
            size -= 1
        if size == 1 and x >= out[0, 0] - tolerance:
            size = 0
        out[size, 0], out[size, 1] = x, y
        size += 1
    return size
