"""Kernels that count first visits, pairs and moves of episodes given as symbols x*Z + z."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.jit import kernel
from rewardmix._core.pair_counting import add_visits, first_visits


@kernel
def count_dense(symbols: Any, lengths: Any, point: Any, met: Any, visits: Any, singles: Any, pairs: Any) -> None:
    """Ordered pairs of symbols at first visits (N*N,), and first visits (N,). ``point``: symbol -> x.

    ``met`` (X,) is the last episode that x was met in, ``visits`` how often there. The only pairs with the same x are
    its first two visits.
    """
    num_symbols = singles.size
    seen = np.empty(max(1, lengths.max() if lengths.size else 1), np.int64)
    begin = 0
    for k in range(lengths.size):
        count = 0
        for i in range(begin, begin + lengths[k]):
            symbol = np.int64(symbols[i])
            x = point[symbol]
            if met[x] != k:
                met[x] = k
                visits[x] = 1
                singles[symbol] += 1
                for j in range(count):
                    pairs[seen[j] + symbol] += 1
                seen[count] = symbol * num_symbols
                count += 1
            elif visits[x] == 1:
                visits[x] = 2
                for j in range(count):
                    if point[seen[j] // num_symbols] == x:
                        pairs[seen[j] + symbol] += 1
                        break
        begin += lengths[k]


@kernel
def count_hashed(
    symbols: Any,
    offsets: Any,
    begin: Any,
    num_values: Any,
    longest: Any,
    multiplier: Any,
    shift: Any,
    room: Any,
    mark: Any,
    records: Any,
    singles: Any,
) -> Any:
    """First visits and pairs of the episodes from ``begin`` on; (episodes done, records newly used).

    Stops before an episode that might need more than ``room`` new records in all.
    """
    xs, seen = np.empty(longest, np.int64), np.empty(longest, np.int64)
    zs, once, twice = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest, np.int64)
    used = 0
    for k in range(begin, offsets.size - 1):
        steps = offsets[k + 1] - offsets[k]
        most = min(steps, singles.shape[0])
        if used + most * (most + 1) // 2 > room:
            return k, used
        for t in range(steps):
            symbol = symbols[offsets[k] + t]
            xs[t] = symbol // num_values
            zs[t] = symbol - xs[t] * num_values
        count = first_visits(xs, zs, steps, mark, k + 1, seen, once, twice)
        used += add_visits(count, seen, once, twice, multiplier, shift, records, singles)
    return offsets.size - 1, used


@kernel
def count_moves(
    symbols: Any,
    lengths: Any,
    last: Any,
    point: Any,
    num_actions: Any,
    horizon: Any,
    width: Any,
    starts: Any,
    counts: Any,
    codes: Any,
) -> Any:
    """Starts (S,), and moves x * width + next state: added up in ``counts``, or listed in ``codes`` if that has room.

    The last step of an episode that ended before its horizon leads to the end, column width - 1.
    """
    used = 0
    begin = 0
    listing = codes.size > 0
    for k in range(lengths.size):
        end = begin + lengths[k]
        x = point[symbols[begin]]
        starts[x // num_actions] += 1
        for i in range(begin + 1, end):
            after = point[symbols[i]]
            code = x * width + after // num_actions
            if listing:
                codes[used] = code
                used += 1
            else:
                counts[code] += 1
            x = after
        following = last[k] if lengths[k] == horizon else width - 1
        if following >= 0:
            if listing:
                codes[used] = x * width + following
                used += 1
            else:
                counts[x * width + following] += 1
        begin = end
    return used
