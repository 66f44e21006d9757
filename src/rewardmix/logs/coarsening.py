"""Fewer values, on request: rewards in bins, rare states as one.

Bins hold about equally many rewards each, and a reward counts as the mean of its bin, so that the average reward of the
log stays what it is. Equal rewards are never parted: one that fills several bins has one for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, refuse
from rewardmix.logs import arrow
from rewardmix.logs.columns import Folding, Names, label_counts, numbers
from rewardmix.logs.log import Repair
from rewardmix.logs.sources import Source
from rewardmix.logs.workers import Workers
from rewardmix.reward_scale import RewardScale, to_nine_digits

MOST_DISTINCT = 1 << 20
"""Different rewards that are counted one by one; of more, those that agree in four digits are counted together."""

COARSE = np.uint64((1 << 64) - (1 << 38))
"""Sign, exponent and fourteen binary digits of a float."""

OTHER = "other"
"""What rare states are called together."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """How often each reward was paid; adds.

    Attributes:
        values: (V,), increasing; the smallest of the rewards that are counted together.
        counts: (V,).
        sums: (V,) of the rewards themselves.
        together: whether rewards that agree in four digits are counted together.
    """

    values: Floats
    counts: NDArray[np.int64]
    sums: Floats
    together: bool = False

    @staticmethod
    def of(values: Floats, counts: NDArray[np.int64], sums: Floats, together: bool = False) -> Histogram:
        """From rewards with their counts, in any order."""
        order = np.argsort(values, kind="stable")
        values = values[order] + 0.0
        fresh = np.append(True, values[1:] != values[:-1])[: values.size]
        together = together or bool(fresh.sum() > MOST_DISTINCT)
        if together:
            keys = values.view(np.uint64) & COARSE
            fresh = np.append(True, keys[1:] != keys[:-1])[: values.size]
        place, size = np.cumsum(fresh) - 1, int(fresh.sum())
        total = np.bincount(place, weights=counts[order], minlength=size).astype(np.int64)
        added = np.bincount(place, weights=sums[order], minlength=size).astype(np.float64)
        return Histogram(values[fresh], total, added, together)

    def __add__(self, other: Histogram) -> Histogram:
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("values", "counts", "sums"))
        values, counts, sums = (np.concatenate(pair) for pair in pairs)
        return Histogram.of(values, counts, sums, self.together or other.together)

    def bins(self, most: int) -> RewardScale:
        """At most so many bins of about equal counts: a reward is in bin floor(most * rank / total), by middle rank."""
        middle = 2 * np.cumsum(self.counts) - self.counts
        number = middle * most // (2 * int(self.counts.sum()))
        begin = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
        ends = np.append(begin[1:], self.counts.size)
        means = [float(self.sums[a:b].sum() / self.counts[a:b].sum()) for a, b in zip(begin, ends, strict=True)]
        return RewardScale(np.array(means), self.values[begin[1:]])


def paid(piece: Any, names: Names) -> Histogram:
    """The finite rewards of a piece."""
    none = np.empty(0)
    found = Histogram(none, np.empty(0, np.int64), none)
    for table in piece.batches([names.reward], frozenset()):
        with arrow.reading(piece.name):
            rewards = numbers(table.column(names.reward), names.reward)
        rewards = to_nine_digits(rewards[np.isfinite(rewards)])
        found = found + Histogram.of(rewards, np.ones(rewards.size, np.int64), rewards)
    return found


def bins_for(source: Source, most: int | None, workers: Workers) -> tuple[RewardScale | None, tuple[Repair, ...]]:
    """Bins for the rewards of a log, if there are more different ones than that; and what it does to them."""
    if most is None:
        return None, ()
    first, *others = workers.map(paid, source.pieces, common=(source.names,))
    found = sum(others, start=first)
    if found.values.size <= most:
        return None, ()
    bins = found.bins(most)
    many = f"more than {MOST_DISTINCT}" if found.together else str(found.values.size)
    text = (
        f"{found.counts.sum()} rewards of {many} different values were put into {len(bins.values)} bins of about equal "
        f"counts, and count as the mean of their bin: {_listed(bins.values)}."
    )
    return bins, (Repair("rewards", int(found.counts.sum()), text),)


def _listed(values: Sequence[float], most: int = 10) -> str:
    shown = [f"{value:.6g}" for value in values]
    return ", ".join(shown if len(shown) <= most else [*shown[: most - 1], "...", shown[-1]])


def visited(piece: Any, names: Names, texts: frozenset[str]) -> dict[str, Counter[Any]]:
    """How often each state of a piece is a state and a next state."""
    roles = {role: name for role, name in names.roles.items() if role in ("state", "next_state")}
    found: dict[str, Counter[Any]] = {role: Counter() for role in roles}
    for table in piece.batches(list(roles.values()), texts):
        with arrow.reading(piece.name):
            for role, name in roles.items():
                found[role].update(label_counts(table.column(name), name, texts))
    return found


def folding_for(source: Source, least: int | None, workers: Workers) -> tuple[Folding | None, tuple[Repair, ...]]:
    """The states that were seen so often; the others, if there are any, become one; and what it does to rows."""
    if least is None:
        return None, ()
    counts: dict[str, Counter[Any]] = {}
    for part in workers.map(visited, source.pieces, common=(source.names, source.texts)):
        for role, found in part.items():
            counts.setdefault(role, Counter()).update(found)
    seen = {state: max(found[state] for found in counts.values()) for found in counts.values() for state in found}
    kept = sorted(state for state, count in seen.items() if count >= least)
    if len(kept) == len(seen):
        return None, ()
    if not kept:
        refuse("fold", least, f"at most {max(seen.values())}, as often as the most frequent state was seen")
    rare = [state for state in seen if seen[state] < least and state != OTHER]
    rows = sum(counts["state"][state] for state in rare)
    text = f"{len(rare)} states that were seen fewer than {least} times, in {rows} rows, count as one: {OTHER!r}."
    labels = tuple(label for label in kept if label != OTHER)
    return Folding(labels, (*map(str, labels), OTHER)), (Repair("states", len(rare), text),)
