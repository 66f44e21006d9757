"""Compute which state-actions one episode can visit together, with sets of states as bits.

    ball_k(s)   states at most k transitions from s: s itself, and ball_k-1 of its next states
    after(x)    states in which an episode can act after it played x

An episode is in s after early(s) transitions at the earliest, plays x = (s, a) with the next one and acts for the last
time after H - 1, so after(x) is the union of ball_k over the next states of x with k = H - 2 - early(s). A set takes
S / 8 bytes, and all of them (S + X) S / 8; a union is an "or" of 64-bit words, one for each possible transition.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

BitSets = NDArray[np.uint8]
"""Sets of states (rows, bytes): 8 states per byte, rows padded to a multiple of 8 bytes."""

_WORDS_PER_BATCH = 1 << 21
"""Words gathered at once; limits memory."""

_STATES_PER_BATCH = 512
"""States processed at once, a multiple of 8."""


class JointReachability:
    """Compute what one episode can visit together.

    Attributes:
        after: (X, bytes) sets of states in which an episode can act after it played x.
        num_states: S.
        num_actions: A.
    """

    def __init__(self, rows: csr_array, starts: NDArray[np.bool_], num_actions: int, horizon: int) -> None:
        """Compute the sets from an (X, S) table of transitions (possible if nonzero) and the initial states' mask."""
        self.num_states, self.num_actions = starts.size, num_actions
        entries = rows.tocoo()
        is_possible = entries.data > 0
        row, column = entries.coords[0][is_possible].astype(np.int64), entries.coords[1][is_possible].astype(np.int64)
        budget = horizon - 2 - _earliest_steps(row // num_actions, column, starts, horizon)
        ball = _singleton_sets(starts.size)
        self.after = np.zeros((starts.size * num_actions, ball.shape[1]), np.uint8)
        # Balls grow with k until they are closed under transitions; from then on the union is skipped.
        grows = True
        for k in range(max(horizon - 1, 0)):
            if k and grows:
                before = ball.copy()
                _union_into(ball, before, row // num_actions, column)
                grows = bool((ball != before).any())
            in_step = budget[row // num_actions] == k
            _union_into(self.after, ball, row[in_step], column[in_step])

    @property
    def num_pairs(self) -> int:
        """Number of unordered pairs (x, y), x = y among them, that one episode can visit.

        Twice the ordered pairs in which y can follow x, minus those in which x can follow y as well: with C(s, s') the
        number of actions of s after which s' can follow, the second term is sum C(s, s') C(s', s).
        """
        num_ordered = both = num_same_state = 0
        # A dense (S, S) table of counts would not fit for large S, so rows are unpacked in blocks.
        for begin in range(0, self.num_states, _STATES_PER_BATCH):
            states = np.arange(begin, min(begin + _STATES_PER_BATCH, self.num_states))
            after = self._unpack_members(self.after[self._state_action_indices(states)]).reshape(
                states.size, self.num_actions, -1
            )
            before = _unpack_bits(self.after[:, begin // 8 : -(-(begin + _STATES_PER_BATCH) // 8)])[:, : states.size]
            num_after, num_before = after.sum(axis=1), before.reshape(self.num_states, self.num_actions, -1).sum(axis=1)
            num_ordered += int(num_after.sum())
            both += int((num_after * num_before.T).sum())
            num_same_state += int(after[np.arange(states.size), :, states].sum())
        return (2 * self.num_actions * num_ordered - both + num_same_state) // 2

    def pairs_with(self, block: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return (B, X): whether one episode can visit both x of ``block`` and y, in either order."""
        after = np.repeat(self._unpack_members(self.after[block]), self.num_actions, axis=1)
        states = block // self.num_actions
        before = self.can_follow(np.arange(len(self.after))[None], states[:, None])
        return np.asarray(after | before, dtype=bool)

    def can_meet(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of the pairs (first, second) one episode can visit, in either order."""
        return self.can_follow(first, second // self.num_actions) | self.can_follow(second, first // self.num_actions)

    def can_follow(self, x: NDArray[np.int64], states: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each x whether an episode can act in the corresponding entry of ``states`` after x."""
        # Bit s of a set is bit s mod 8 of byte s div 8.
        return np.asarray(self.after[x, states >> 3] >> (states & 7).astype(np.uint8) & 1, dtype=bool)

    def _state_action_indices(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the state-action indices of all actions in ``states``."""
        return (states[:, None] * self.num_actions + np.arange(self.num_actions)).ravel()

    def _unpack_members(self, sets: BitSets) -> NDArray[np.uint8]:
        """Unpack sets to (rows, S), 1 for members."""
        return _unpack_bits(sets)[:, : self.num_states]


def _earliest_steps(
    states: NDArray[np.int64], next_states: NDArray[np.int64], starts: NDArray[np.bool_], horizon: int
) -> NDArray[np.int64]:
    """Return (S,) the fewest transitions from an initial state to each state; ``horizon`` if that many or more."""
    steps = np.where(starts, 0, horizon)
    for step in range(1, horizon):
        reached = next_states[steps[states] == step - 1]
        steps[reached] = np.minimum(steps[reached], step)
    return steps


def _singleton_sets(count: int) -> BitSets:
    """Return (S, bytes) the sets of one state each."""
    states = np.arange(count)
    sets = np.zeros((count, 8 * -(-count // 64)), np.uint8)
    sets[states, states >> 3] = (1 << (states & 7)).astype(np.uint8)
    return sets


def _union_into(target: BitSets, sets: BitSets, rows: NDArray[np.int64], members: NDArray[np.int64]) -> None:
    """Apply into[r] |= sets[m] for each r of ``rows``, in increasing order, and the corresponding m of ``members``."""
    target_words, set_words = target.view(np.uint64), sets.view(np.uint64)
    row_offsets = np.flatnonzero(np.diff(rows, prepend=-1))
    rows_per_batch = max(1, _WORDS_PER_BATCH // max(target_words.shape[1], 1))
    first = 0
    while first < row_offsets.size:
        last = max(int(np.searchsorted(row_offsets, row_offsets[first] + rows_per_batch)), first + 1)
        end = row_offsets[last] if last < row_offsets.size else rows.size
        # ``rows`` is sorted, so the sets of one row are adjacent and reduceat needs no Python loop over rows.
        gathered = np.bitwise_or.reduceat(
            set_words[members[row_offsets[first] : end]], row_offsets[first:last] - row_offsets[first]
        )
        target_words[rows[row_offsets[first:last]]] |= gathered
        first = last


def _unpack_bits(sets: BitSets) -> NDArray[np.uint8]:
    """Unpack bits to (rows, 8 * bytes), 1 for states in the set."""
    return np.unpackbits(sets, axis=1, bitorder="little")
