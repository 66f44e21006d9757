"""The only file that knows the solver (HiGHS).

Half a million rows but a thousand unknowns: rows are added as they are violated, the worst at each coordinate, and the
dual simplex goes on from where it stood.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel
from rewardmix.recovery.feasibility import Rows

VIOLATION = 1e-7
"""Rows broken by less than this are satisfied."""

PRICE = 1e3
"""Cost of one unit of broken row in the elastic program, against 1 for a unit of log-magnitude."""


def minimise(rows: Rows, *, elastic: bool) -> tuple[Floats, tuple[tuple[int, int], ...], int, int]:
    """(l, broken pairs, rounds, rows used): row generation around a warm dual simplex."""
    import highspy

    size = rows.floor.size
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    floor = np.minimum(rows.floor, rows.cap)  # bounds that contradict each other give way in the elastic program
    solver.addVars(size, floor, rows.cap)
    solver.changeColsCost(size, np.arange(size, dtype=np.int32), np.ones(size))
    point = floor
    used = np.zeros(rows.first.size, bool)
    rounds = 0
    while True:
        chosen = _worst(rows, point, used)
        if chosen.size == 0:
            break
        rounds += 1
        used[chosen] = True
        _add(solver, rows, chosen, elastic=elastic)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise ArithmeticError(
                f"the linear program ended with {solver.modelStatusToString(solver.getModelStatus())}"
            )
        point = np.asarray(solver.getSolution().col_value)[:size]
    total = point[rows.first] + point[rows.second]
    beyond = (total > rows.high + 1e-6) | (total < rows.low - 1e-6)
    broken = tuple((int(rows.first[k]), int(rows.second[k])) for k in np.flatnonzero(beyond))
    return point, broken, rounds, int(used.sum())


def _worst(rows: Rows, point: Floats, used: Any) -> Any:
    """For each coordinate the unused row at it that is violated most."""
    best = np.full(point.size, -1, np.int64)
    _worst_rows(rows.first, rows.second, rows.low, rows.high, point, used, best, np.full(point.size, VIOLATION))
    return np.unique(best[best >= 0])


def _add(solver: Any, rows: Rows, chosen: Any, *, elastic: bool) -> None:
    count = chosen.size
    if not elastic:
        index = np.stack([rows.first[chosen], rows.second[chosen]], axis=1).astype(np.int32).ravel()
        solver.addRows(
            count,
            rows.low[chosen],
            rows.high[chosen],
            2 * count,
            np.arange(0, 2 * count, 2, dtype=np.int32),
            index,
            np.ones(2 * count),
        )
        return
    begin = solver.getNumCol()
    solver.addVars(2 * count, np.zeros(2 * count), np.full(2 * count, np.inf))
    extra = np.arange(begin, begin + 2 * count, dtype=np.int32)
    solver.changeColsCost(2 * count, extra, np.full(2 * count, PRICE))
    index = np.stack([rows.first[chosen], rows.second[chosen], extra[:count], extra[count:]], axis=1)
    values = np.tile([1.0, 1.0, 1.0, -1.0], count)
    solver.addRows(
        count,
        rows.low[chosen],
        rows.high[chosen],
        4 * count,
        np.arange(0, 4 * count, 4, dtype=np.int32),
        index.astype(np.int32).ravel(),
        values,
    )


@kernel
def _worst_rows(first: Any, second: Any, low: Any, high: Any, point: Any, used: Any, best: Any, worst: Any) -> None:
    for row in range(first.size):
        if used[row]:
            continue
        i, j = first[row], second[row]
        total = point[i] + point[j]
        over = max(total - high[row], low[row] - total)
        if over > worst[i]:
            worst[i] = over
            best[i] = row
        if over > worst[j]:
            worst[j] = over
            best[j] = row
