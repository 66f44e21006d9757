"""Which state-actions one episode can visit together: sets of states as bits, so that very many states fit.

    ball_k(s)   states at most k moves from s: s itself, and ball_k-1 of its next states
    after(x)    states in which an episode can act after it played x

An episode is in s after early(s) moves at the earliest, plays x = (s, a) with the next one and acts for the last time
after H - 1, so after(x) is the union of ball_k over the next states of x with k = H - 2 - early(s). A set takes S / 8
bytes, and all of them (S + X) S / 8; a union is an "or" of whole words, one for each move that is possible.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Bits = NDArray[np.uint8]
"""(rows, bytes) sets of states, 8 states in a byte, whole words of 8 bytes."""

_WORDS = 1 << 21
"""Words gathered at once."""

_BLOCK = 512
"""States looked at at once, a multiple of 8."""


class Companions:
    """What can be visited together.

    Attributes:
        after: (X, bytes) sets of states in which an episode can act after it played x.
        num_states: S.
        num_actions: A.
    """

    def __init__(self, rows: csr_array, starts: NDArray[np.bool_], num_actions: int, horizon: int) -> None:
        """Of an (X, S) table of moves that are possible where it is not 0, and the states in which episodes start."""
        self.num_states, self.num_actions = starts.size, num_actions
        entries = rows.tocoo()
        some = entries.data > 0
        row, column = entries.coords[0][some].astype(np.int64), entries.coords[1][some].astype(np.int64)
        budget = horizon - 2 - _early(row // num_actions, column, starts, horizon)
        ball = _alone(starts.size)
        self.after = np.zeros((starts.size * num_actions, ball.shape[1]), np.uint8)
        grows = True
        for k in range(max(horizon - 1, 0)):
            if k and grows:
                before = ball.copy()
                _unite(ball, before, row // num_actions, column)
                grows = bool((ball != before).any())
            mine = budget[row // num_actions] == k
            _unite(self.after, ball, row[mine], column[mine])

    @property
    def possible(self) -> int:
        """How many unordered pairs (x, y), x = y among them, one episode can visit.

        Ordered pairs in which y can be after x, twice, less those in which x can be after y as well: with C(s, s') the
        number of actions of s after which s' can be, sum C(s, s') C(s', s).
        """
        one_way = both = own = 0
        for begin in range(0, self.num_states, _BLOCK):
            states = np.arange(begin, min(begin + _BLOCK, self.num_states))
            of = self._members(self.after[self._played(states)]).reshape(states.size, self.num_actions, -1)
            to = _unpacked(self.after[:, begin // 8 : -(-(begin + _BLOCK) // 8)])[:, : states.size]
            out, back = of.sum(axis=1), to.reshape(self.num_states, self.num_actions, -1).sum(axis=1)
            one_way += int(out.sum())
            both += int((out * back.T).sum())
            own += int(of[np.arange(states.size), :, states].sum())
        return (2 * self.num_actions * one_way - both + own) // 2

    def possible_with(self, block: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(B, X): whether one episode can visit both x of ``block`` and y, in either order."""
        after = np.repeat(self._members(self.after[block]), self.num_actions, axis=1)
        states = block // self.num_actions
        before = self.holds(np.arange(len(self.after))[None], states[:, None])
        return np.asarray(after | before, dtype=bool)

    def together(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the pairs (first, second) one episode can visit, in either order."""
        return self.holds(first, second // self.num_actions) | self.holds(second, first // self.num_actions)

    def holds(self, x: NDArray[np.int64], states: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether an episode can act in each of ``states`` after the x of the same place."""
        return np.asarray(self.after[x, states >> 3] >> (states & 7).astype(np.uint8) & 1, dtype=bool)

    def _played(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        return (states[:, None] * self.num_actions + np.arange(self.num_actions)).ravel()

    def _members(self, sets: Bits) -> NDArray[np.uint8]:
        return _unpacked(sets)[:, : self.num_states]


def _early(
    states: NDArray[np.int64], following: NDArray[np.int64], starts: NDArray[np.bool_], horizon: int
) -> NDArray[np.int64]:
    """(S,) fewest moves from a start to each state; ``horizon`` if that many or more."""
    steps = np.where(starts, 0, horizon)
    for step in range(1, horizon):
        reached = following[steps[states] == step - 1]
        steps[reached] = np.minimum(steps[reached], step)
    return steps


def _alone(count: int) -> Bits:
    """(S, bytes) sets of one state each."""
    states = np.arange(count)
    sets = np.zeros((count, 8 * -(-count // 64)), np.uint8)
    sets[states, states >> 3] = (1 << (states & 7)).astype(np.uint8)
    return sets


def _unite(into: Bits, sets: Bits, rows: NDArray[np.int64], members: NDArray[np.int64]) -> None:
    """into[r] |= sets[m] for every r of ``rows``, which increase, with m of ``members`` at the same place."""
    whole, parts = into.view(np.uint64), sets.view(np.uint64)
    begins = np.flatnonzero(np.diff(rows, prepend=-1))
    many = max(1, _WORDS // max(whole.shape[1], 1))
    first = 0
    while first < begins.size:
        last = max(int(np.searchsorted(begins, begins[first] + many)), first + 1)
        end = begins[last] if last < begins.size else rows.size
        gathered = np.bitwise_or.reduceat(parts[members[begins[first] : end]], begins[first:last] - begins[first])
        whole[rows[begins[first:last]]] |= gathered
        first = last


def _unpacked(sets: Bits) -> NDArray[np.uint8]:
    """(rows, 8 * bytes), 1 where a state is in the set."""
    return np.unpackbits(sets, axis=1, bitorder="little")
