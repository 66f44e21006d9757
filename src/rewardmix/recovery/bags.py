"""What episodes say about rewards: multisets of (x, z), each with how often it was seen.

Given the hidden context the rewards of an episode are independent, so for the likelihood an episode is the bag of its
symbols x*Z + z (state-action x paid reward value z); the order does not matter, nor do states and actions beyond x.
Equal bags are merged. The pair tables of moments are bags of two symbols and their triple tables bags of three, so the
composite likelihood of pairs, or of triples, is the same sum over the same form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.brevity import short
from rewardmix._core.checks import Floats
from rewardmix._core.jit import deferred, kernel
from rewardmix._core.widths import symbol_width
from rewardmix.episodes import Episodes

LONGEST_SORTED = 128
"""Bags longer than this are not sorted (and so not merged): long episodes hardly ever repeat."""


@short
@dataclass(frozen=True, eq=False)
class Bags:
    """Bags of symbols.

    Attributes:
        symbols: (N,) x*Z + z, bag after bag.
        offsets: (P + 1,) int64, where each bag begins.
        counts: (P,) how often each bag was seen.
        num_points: X = S*A.
        num_values: Z.
    """

    symbols: NDArray[Any]
    offsets: NDArray[np.int64]
    counts: Floats
    num_points: int
    num_values: int

    @property
    def total(self) -> float:
        """Number of bags, each counted as often as it was seen."""
        return float(self.counts.sum())

    @property
    def has_triples(self) -> bool:
        """Whether any bag has three rewards; with fewer, weights cannot be told."""
        return bool((np.diff(self.offsets) >= 3).any())

    @cached_property
    def occurrences(self) -> Floats:
        """(X, Z): how often x paid value z."""
        out = np.zeros(self.num_points * self.num_values)
        _occurrences(self.symbols, self.offsets, self.counts, out)
        return out.reshape(self.num_points, self.num_values)

    @cached_property
    def average(self) -> Floats:
        """(X, Z): law of the reward at x over all visits; see ``with_guesses`` where there were none."""
        return shares(self.occurrences)

    def reweighted(self, counts: Floats) -> Bags:
        """The same bags with other counts, without those of count 0."""
        kept = counts > 0
        lengths = np.diff(self.offsets)
        return Bags(
            self.symbols[np.repeat(kept, lengths)],
            _offsets(lengths[kept]),
            np.ascontiguousarray(counts[kept], dtype=np.float64),
            self.num_points,
            self.num_values,
        )


def shares(occurrences: Floats) -> Floats:
    """(X, Z): law of the reward at x from how often x paid z."""
    visits = occurrences.sum(axis=1)
    return with_guesses(occurrences / np.maximum(visits, 1e-300)[:, None], visits > 0)


def with_guesses(laws: Floats, visited: NDArray[np.bool_]) -> Floats:
    """(X, Z) laws where x was visited and, for want of anything better, the mean law of these everywhere else."""
    size = laws.shape[1]
    return np.where(visited[:, None], laws, laws[visited].mean(axis=0) if visited.any() else np.full(size, 1.0 / size))


def bags_of(episodes: Episodes) -> Bags:
    """The bags of episodes, one for each, in order."""
    num_points, num_values = episodes.num_states * episodes.num_actions, int(episodes.reward_values.size)
    return Bags(episodes.symbols, _offsets(episodes.lengths), np.ones(len(episodes)), num_points, num_values)


def merge_bags(bags: Bags) -> Bags:
    """Equal bags counted together, symbols in order: the same likelihood from fewer bags."""
    lengths = np.diff(bags.offsets)
    if lengths.size == 0 or lengths.max() > LONGEST_SORTED:
        return bags
    symbols = bags.symbols.copy()
    hashes = np.empty(lengths.size, np.uint64)
    _sort_bags(symbols, bags.offsets, hashes)
    order = np.argsort(hashes, kind="stable")
    leader = np.empty(lengths.size, np.int64)
    found = _group_bags(symbols, bags.offsets, hashes, order, leader)
    counts: Floats = np.bincount(leader, weights=bags.counts, minlength=found).astype(np.float64)
    chosen = order[np.unique(leader[order], return_index=True)[1]]
    return Bags(
        symbols[_spans(bags.offsets[chosen], lengths[chosen])],
        _offsets(lengths[chosen]),
        counts,
        bags.num_points,
        bags.num_values,
    )


def pair_bags(pair_keys: NDArray[np.int64], pair_tables: Any, num_points: int) -> Bags:
    """Bags of two symbols from pair tables: their log-likelihood is the composite likelihood of the pairs."""
    num_values = int(pair_tables.shape[1])
    pair, z, y = np.nonzero(pair_tables)
    first, second = np.divmod(np.asarray(pair_keys)[pair], num_points)
    symbols = np.stack([first * num_values + z, second * num_values + y], axis=1)
    symbols = symbols.astype(symbol_width(num_points * num_values))
    return Bags(
        symbols.ravel(),
        _offsets(np.full(pair.size, 2)),
        np.asarray(pair_tables)[pair, z, y].astype(np.float64),
        num_points,
        num_values,
    )


def triple_bags(triple_keys: NDArray[np.int64], triple_tables: Any, num_points: int) -> Bags:
    """Bags of three symbols from triple tables, likewise."""
    num_values = int(triple_tables.shape[1])
    triple, *values = np.nonzero(triple_tables)
    front, third = np.divmod(np.asarray(triple_keys)[triple], num_points)
    points = *np.divmod(front, num_points), third
    symbols = np.stack([x * num_values + z for x, z in zip(points, values, strict=True)], axis=1)
    return Bags(
        symbols.astype(symbol_width(num_points * num_values)).ravel(),
        _offsets(np.full(triple.size, 3)),
        np.asarray(triple_tables)[triple, *values].astype(np.float64),
        num_points,
        num_values,
    )


def _offsets(lengths: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _spans(starts: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.int64]:
    """All indices starts[i] .. starts[i] + lengths[i] - 1, one span after the other."""
    behind = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(int(lengths.sum())) + np.repeat(starts - behind, lengths))


@deferred(lambda symbols, offsets, counts, out: symbols.size // 5)
def _occurrences(symbols: Any, offsets: Any, counts: Any, out: Any) -> None:
    for bag in range(counts.size):
        for i in range(offsets[bag], offsets[bag + 1]):
            out[symbols[i]] += counts[bag]


@kernel
def _sort_bags(symbols: Any, offsets: Any, hashes: Any) -> None:
    """Insertion sort within each bag, and a hash of what results."""
    for bag in range(hashes.size):
        low, high = offsets[bag], offsets[bag + 1]
        for i in range(low + 1, high):
            value = symbols[i]
            j = i
            while j > low and symbols[j - 1] > value:
                symbols[j] = symbols[j - 1]
                j -= 1
            symbols[j] = value
        mixed = np.uint64(0x9E3779B97F4A7C15)
        for i in range(low, high):
            mixed = (mixed ^ np.uint64(symbols[i])) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(29)
        hashes[bag] = mixed


def _group_by_hash(symbols: Any, offsets: Any, hashes: Any, order: Any, leader: Any) -> int:
    """``_group_bags`` by NumPy; only neighbours with one hash and one length are looked into."""
    lengths = np.diff(offsets)[order]
    same = np.zeros(order.size, bool)
    same[1:] = (hashes[order[1:]] == hashes[order[:-1]]) & (lengths[1:] == lengths[:-1])
    for place in np.flatnonzero(same):
        one, other, length = offsets[order[place - 1]], offsets[order[place]], lengths[place]
        same[place] = np.array_equal(symbols[one : one + length], symbols[other : other + length])
    found = np.cumsum(~same)
    leader[order] = found - 1
    return int(found[-1]) if found.size else 0


@deferred(lambda symbols, offsets, hashes, order, leader: 10 + order.size // 2, play=_group_by_hash)
def _group_bags(symbols: Any, offsets: Any, hashes: Any, order: Any, leader: Any) -> int:
    """Number the groups of equal neighbours in hash order; unequal bags with one hash stay apart."""
    found = -1
    for place in range(order.size):
        bag = order[place]
        same = False
        if place > 0:
            last = order[place - 1]
            length = offsets[bag + 1] - offsets[bag]
            same = hashes[last] == hashes[bag] and offsets[last + 1] - offsets[last] == length
            for i in range(length if same else 0):
                if symbols[offsets[last] + i] != symbols[offsets[bag] + i]:
                    same = False
                    break
        if not same:
            found += 1
        leader[bag] = found
    return found + 1
