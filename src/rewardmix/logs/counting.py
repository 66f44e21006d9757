"""Moments of a part of a log, at one pass over its symbols.

Pairs are counted as ordered pairs of symbols in a dense table while that fits the cache, and folded into outcome tables
of unordered pairs at the end; with more state-actions they go through the hashed table of ``moments``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from rewardmix._core.pair_table import Counts, in_table
from rewardmix.logs.compact import Compact, loaded
from rewardmix.logs.counting_kernels import count_dense, count_hashed, count_moves
from rewardmix.logs.world import World
from rewardmix.moments import Moments

DENSE_SYMBOLS = 2048
"""Up to this many symbols (16 MB of counters; a part has fewer episodes than 2^31) the pair table is dense."""

DENSE_MOVES = 1 << 22
"""Up to this many cells the table of moves is dense."""


def moments_of(part: Any, world: World) -> Moments:
    """Count one part of a log; the same whole numbers as ``Moments.of`` of its episodes."""
    compact = loaded(part)
    pairs = _dense_pairs if world.num_state_actions * world.num_values <= DENSE_SYMBOLS else _hashed_pairs
    starts, moves = _moves(compact, world)
    outcomes, keys, tables = pairs(compact, world)
    return Moments(
        world.num_states,
        world.num_actions,
        world.horizon,
        world.reward_values,
        len(compact),
        starts,
        moves,
        outcomes,
        keys,
        tables,
    )


def _dense_pairs(compact: Compact, world: World) -> tuple[Counts, Counts, Counts]:
    num_x, num_values = world.num_state_actions, world.num_values
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


def _hashed_pairs(compact: Compact, world: World) -> tuple[Counts, Counts, Counts]:
    offsets, longest = compact.offsets, int(compact.lengths.max(initial=0))
    return in_table(
        (world.num_state_actions, world.num_values),
        len(compact),
        longest,
        lambda begin, *table: count_hashed(compact.symbols, offsets, begin, world.num_values, longest, *table),
    )


def _moves(compact: Compact, world: World) -> tuple[Counts, csr_array]:
    """Starts (S,) and moves (X, S + 1)."""
    shape = world.num_state_actions, world.num_states + 1
    starts = np.zeros(world.num_states, np.int64)
    dense = shape[0] * shape[1] <= DENSE_MOVES
    point = np.repeat(np.arange(shape[0], dtype=np.int64), world.num_values)
    codes = np.zeros(0 if dense else compact.rows, np.int64)
    counts = np.zeros(shape[0] * shape[1] if dense else 0, np.int64)
    used = count_moves(
        compact.symbols,
        compact.lengths,
        compact.last,
        point,
        world.num_actions,
        world.horizon,
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
