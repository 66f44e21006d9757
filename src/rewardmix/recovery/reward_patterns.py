"""Store the rewards of episodes as reward patterns: multisets of (x, z), each with the number of its occurrences.

Given the hidden type the rewards of an episode are independent, so for the likelihood an episode is the multiset of its
symbols x*Z + z (state-action x, reward index z). Order does not matter, nor do states and actions beyond x. Equal
patterns are merged. The pair tables of moments are patterns of two symbols and their triple tables patterns of three,
so the composite likelihood of pairs, or of triples, has this form too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.int_dtypes import symbol_dtype
from rewardmix._core.jit import kernel, lazy_jit
from rewardmix._core.short_repr import use_short_repr
from rewardmix.episodes import Episodes

MAX_SORTED_LENGTH = 128
"""Longer patterns are not sorted (and so not merged): long episodes hardly ever repeat, and insertion sort is
quadratic.
"""


@use_short_repr
@dataclass(frozen=True, eq=False)
class RewardPatterns:
    """Reward patterns in CSR form.

    Attributes:
        symbols: (N,) symbols x*Z + z, pattern after pattern.
        offsets: (P + 1,) int64, index of the first symbol of each pattern.
        counts: (P,) number of occurrences of each pattern.
        num_state_actions: X = S*A.
        num_reward_values: Z.
    """

    symbols: NDArray[Any]
    offsets: NDArray[np.int64]
    counts: Floats
    num_state_actions: int
    num_reward_values: int

    @property
    def num_episodes(self) -> float:
        """Number of episodes, the sum of the counts of the patterns."""
        return float(self.counts.sum())

    @property
    def has_triples(self) -> bool:
        """Whether any pattern has three rewards; with fewer, weights are not identified."""
        return bool((np.diff(self.offsets) >= 3).any())

    @cached_property
    def reward_counts(self) -> Floats:
        """(X, Z) counts of reward z at state-action x."""
        out = np.zeros(self.num_state_actions * self.num_reward_values)
        _add_reward_counts(self.symbols, self.offsets, self.counts, out)
        return out.reshape(self.num_state_actions, self.num_reward_values)

    @cached_property
    def marginal_probs(self) -> Floats:
        """(X, Z) marginal reward probabilities over all visits; ``fill_unvisited`` fills the rows without visits."""
        return normalize_counts(self.reward_counts)

    def with_counts(self, counts: Floats) -> RewardPatterns:
        """Return these patterns with other counts, without those of count 0."""
        is_positive = counts > 0
        lengths = np.diff(self.offsets)
        return RewardPatterns(
            self.symbols[np.repeat(is_positive, lengths)],
            _offsets(lengths[is_positive]),
            np.ascontiguousarray(counts[is_positive], dtype=np.float64),
            self.num_state_actions,
            self.num_reward_values,
        )


def normalize_counts(reward_counts: Floats) -> Floats:
    """Normalize (X, Z) reward counts to marginal probabilities; rows without visits get the mean of the others."""
    visits = reward_counts.sum(axis=1)
    return fill_unvisited(reward_counts / np.maximum(visits, 1e-300)[:, None], visits > 0)


def fill_unvisited(probs: Floats, visited: NDArray[np.bool_]) -> Floats:
    """Replace rows (Z,) of unvisited state-actions by the mean row of the visited ones, or by uniform probabilities."""
    size = probs.shape[1]
    return np.where(
        visited[:, None], probs, probs[visited].mean(axis=0) if visited.any() else np.full(size, 1.0 / size)
    )


def patterns_from_episodes(episodes: Episodes) -> RewardPatterns:
    """Make reward patterns from episodes, one per episode, in order."""
    num_points, num_values = episodes.num_states * episodes.num_actions, int(episodes.reward_values.size)
    return RewardPatterns(episodes.symbols, _offsets(episodes.lengths), np.ones(len(episodes)), num_points, num_values)


def merge_patterns(patterns: RewardPatterns) -> RewardPatterns:
    """Merge equal patterns; symbols are sorted. The likelihood is unchanged and has fewer terms."""
    lengths = np.diff(patterns.offsets)
    if lengths.size == 0 or lengths.max() > MAX_SORTED_LENGTH:
        return patterns
    symbols = patterns.symbols.copy()
    hashes = np.empty(lengths.size, np.uint64)
    _sort_and_hash(symbols, patterns.offsets, hashes)
    # Merged patterns end up in the order of their hashes, which is as good as random: later code takes the first ones
    # as a sample. A stable sort makes the result independent of the sorting algorithm.
    order = np.argsort(hashes, kind="stable")
    leader = np.empty(lengths.size, np.int64)
    num_groups = _group_equal(symbols, patterns.offsets, hashes, order, leader)
    counts: Floats = np.bincount(leader, weights=patterns.counts, minlength=num_groups).astype(np.float64)
    representatives = order[np.unique(leader[order], return_index=True)[1]]
    return RewardPatterns(
        symbols[_concat_ranges(patterns.offsets[representatives], lengths[representatives])],
        _offsets(lengths[representatives]),
        counts,
        patterns.num_state_actions,
        patterns.num_reward_values,
    )


def patterns_from_pairs(pair_keys: NDArray[np.int64], pair_tables: Any, num_points: int) -> RewardPatterns:
    """Make patterns of two symbols from pair tables; their log-likelihood is the composite likelihood of the pairs."""
    num_values = int(pair_tables.shape[1])
    pair, z, z2 = np.nonzero(pair_tables)
    first, second = np.divmod(np.asarray(pair_keys)[pair], num_points)
    symbols = np.stack([first * num_values + z, second * num_values + z2], axis=1)
    symbols = symbols.astype(symbol_dtype(num_points * num_values))
    return RewardPatterns(
        symbols.ravel(),
        _offsets(np.full(pair.size, 2)),
        np.asarray(pair_tables)[pair, z, z2].astype(np.float64),
        num_points,
        num_values,
    )


def patterns_from_triples(triple_keys: NDArray[np.int64], triple_tables: Any, num_points: int) -> RewardPatterns:
    """Make patterns of three symbols from triple tables; their log-likelihood is that of the triples."""
    num_values = int(triple_tables.shape[1])
    triple, *values = np.nonzero(triple_tables)
    first_two, third = np.divmod(np.asarray(triple_keys)[triple], num_points)
    points = *np.divmod(first_two, num_points), third
    symbols = np.stack([x * num_values + z for x, z in zip(points, values, strict=True)], axis=1)
    return RewardPatterns(
        symbols.astype(symbol_dtype(num_points * num_values)).ravel(),
        _offsets(np.full(triple.size, 3)),
        np.asarray(triple_tables)[triple, *values].astype(np.float64),
        num_points,
        num_values,
    )


def _offsets(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Compute CSR offsets from lengths."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _concat_ranges(starts: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Concatenate the ranges starts[i] .. starts[i] + lengths[i] - 1."""
    offsets = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(int(lengths.sum())) + np.repeat(starts - offsets, lengths))


@lazy_jit(lambda symbols, offsets, counts, out: symbols.size // 5)
def _add_reward_counts(symbols: Any, offsets: Any, counts: Any, out: Any) -> None:
    """Add the reward counts of all patterns to ``out`` (X*Z,)."""
    for pattern in range(counts.size):
        for i in range(offsets[pattern], offsets[pattern + 1]):
            out[symbols[i]] += counts[pattern]


@kernel
def _sort_and_hash(symbols: Any, offsets: Any, hashes: Any) -> None:
    """Sort the symbols of each pattern by insertion and hash the result, both in place."""
    for pattern in range(hashes.size):
        low, high = offsets[pattern], offsets[pattern + 1]
        for i in range(low + 1, high):
            symbol = symbols[i]
            j = i
            while j > low and symbols[j - 1] > symbol:
                symbols[j] = symbols[j - 1]
                j -= 1
            symbols[j] = symbol
        # Multiply and xor-shift as in splitmix64: 64-bit integer arithmetic has equal results on all platforms.
        hash_value = np.uint64(0x9E3779B97F4A7C15)
        for i in range(low, high):
            hash_value = (hash_value ^ np.uint64(symbols[i])) * np.uint64(0xBF58476D1CE4E5B9)
            hash_value ^= hash_value >> np.uint64(29)
        hashes[pattern] = hash_value


def _group_equal_numpy(symbols: Any, offsets: Any, hashes: Any, order: Any, leader: Any) -> int:
    """Number groups of equal neighbors with NumPy; compare symbols only where hash and length are equal."""
    lengths = np.diff(offsets)[order]
    same = np.zeros(order.size, bool)
    same[1:] = (hashes[order[1:]] == hashes[order[:-1]]) & (lengths[1:] == lengths[:-1])
    for k in np.flatnonzero(same):
        previous, begin, length = offsets[order[k - 1]], offsets[order[k]], lengths[k]
        same[k] = np.array_equal(symbols[previous : previous + length], symbols[begin : begin + length])
    group_index = np.cumsum(~same)
    leader[order] = group_index - 1
    return int(group_index[-1]) if group_index.size else 0


@lazy_jit(lambda symbols, offsets, hashes, order, leader: 10 + order.size // 2, numpy_impl=_group_equal_numpy)
def _group_equal(symbols: Any, offsets: Any, hashes: Any, order: Any, leader: Any) -> int:
    """Number groups of equal neighbors in hash order; unequal patterns with one hash stay apart."""
    group_index = -1
    for k in range(order.size):
        pattern = order[k]
        same = False
        if k > 0:
            last = order[k - 1]
            length = offsets[pattern + 1] - offsets[pattern]
            same = hashes[last] == hashes[pattern] and offsets[last + 1] - offsets[last] == length
            for i in range(length if same else 0):
                # A hash collision must not merge two patterns, so symbols are compared as well.
                if symbols[offsets[last] + i] != symbols[offsets[pattern] + i]:
                    same = False
                    break
        if not same:
            group_index += 1
        leader[pattern] = group_index
    return group_index + 1
