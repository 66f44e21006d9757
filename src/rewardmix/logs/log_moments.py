"""Moments of a part of a log, at one pass over its symbols x*Z + z.

Pairs are counted as ordered pairs of symbols in a dense table while that fits the cache, and folded into outcome tables
of unordered pairs at the end; with more state-actions they go through the hashed table of ``moments``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from rewardmix._core.jit import kernel
from rewardmix._core.pair_counting import add_visits, first_visits
from rewardmix._core.pair_table import Counts, in_table
from rewardmix.logs.log import Compact, loaded
from rewardmix.logs.log_schema import LogSchema
from rewardmix.moments import Moments

DENSE_SYMBOLS = 2048
"""Up to this many symbols (16 MB of counters; a part has fewer episodes than 2^31) the pair table is dense."""

DENSE_MOVES = 1 << 22
"""Up to this many cells the table of moves is dense."""


def moments_of(part: Any, schema: LogSchema) -> Moments:
    """Count one part of a log; the same whole numbers as ``Moments.of`` of its episodes."""
    compact = loaded(part)
    pairs = _dense_pairs if schema.num_state_actions * schema.num_values <= DENSE_SYMBOLS else _hashed_pairs
    starts, moves = _moves(compact, schema)
    outcomes, keys, tables = pairs(compact, schema)
    return Moments(
        schema.num_states,
        schema.num_actions,
        schema.horizon,
        schema.reward_values,
        len(compact),
        starts,
        moves,
        outcomes,
        keys,
        tables,
    )


def _dense_pairs(compact: Compact, schema: LogSchema) -> tuple[Counts, Counts, Counts]:
    num_x, num_values = schema.num_state_actions, schema.num_values
    size = num_x * num_values
    singles, pairs = np.zeros(size, np.int64), np.zeros(size * size, np.int32)
    point = np.repeat(np.arange(num_x, dtype=np.int32), num_values)
    count_dense(
        compact.symbols, compact.lengths, point, np.full(num_x, -1, np.int64), np.zeros(num_x, np.int32), singles, pairs
    )
    return singles.reshape(num_x, num_values), *_folded(pairs, num_x, num_values)


def _folded(pairs: Any, num_x: int, num_values: int) -> tuple[Counts, Counts]:
    """Keys and tables of unordered pairs x <= y from counts of ordered pairs of symbols."""
    ordered = pairs.reshape(num_x, num_values, num_x, num_values).transpose(0, 2, 1, 3)
    both = ordered + ordered.transpose(1, 0, 3, 2)
    same = np.arange(num_x)
    both[same, same] = ordered[same, same]
    seen = np.triu(both.any(axis=(2, 3)))
    first, second = np.nonzero(seen)
    return first * num_x + second, both[first, second].astype(np.int64)


def _hashed_pairs(compact: Compact, schema: LogSchema) -> tuple[Counts, Counts, Counts]:
    offsets, longest = compact.offsets, int(compact.lengths.max(initial=0))
    return in_table(
        (schema.num_state_actions, schema.num_values),
        len(compact),
        longest,
        lambda begin, *table: count_hashed(compact.symbols, offsets, begin, schema.num_values, longest, *table),
    )


def _moves(compact: Compact, schema: LogSchema) -> tuple[Counts, csr_array]:
    """Starts (S,) and moves (X, S + 1)."""
    shape = schema.num_state_actions, schema.num_states + 1
    starts = np.zeros(schema.num_states, np.int64)
    dense = shape[0] * shape[1] <= DENSE_MOVES
    point = np.repeat(np.arange(shape[0], dtype=np.int64), schema.num_values)
    codes = np.zeros(0 if dense else compact.rows, np.int64)
    counts = np.zeros(shape[0] * shape[1] if dense else 0, np.int64)
    used = count_moves(
        compact.symbols,
        compact.lengths,
        compact.last,
        point,
        schema.num_actions,
        schema.horizon,
        shape[1],
        starts,
        counts,
        codes,
    )
    if dense:
        cells = np.flatnonzero(counts)
        values = counts[cells]
    else:
        cells, values = np.unique(codes[:used], return_counts=True)
    rows = coo_array((values.astype(np.int64), np.divmod(cells, shape[1])), shape=shape)
    return starts, csr_array(rows)


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
