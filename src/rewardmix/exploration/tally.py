"""The running counts of an exploration: arrays that engines add to in place, and that become Moments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from rewardmix._check import Floats, refuse
from rewardmix.episodes import Episodes
from rewardmix.moments import Counts, Moments, PairTable, moves_of, unordered


@dataclass
class Tally:
    """Counts so far. ``ordered``: pairs are the paper's, x1 before x2; otherwise unordered pairs of first visits.

    The moves are lists of next states (column S is the end). In a model the lists are known and only the counts grow;
    in an environment they grow with what is seen.
    """

    num_states: int
    num_actions: int
    horizon: int
    reward_values: Floats
    ordered: bool
    begins: NDArray[np.int64]
    successors: NDArray[np.int32]
    moves: Counts
    starts: Counts
    outcomes: Counts
    pairs: PairTable
    dirty: NDArray[np.bool_]
    mark: Counts
    progress: Counts = field(default_factory=lambda: np.zeros(3, np.int64))

    @staticmethod
    def fresh(
        sizes: tuple[int, int, int], reward_values: Floats, ordered: bool, successor_lists: tuple[Any, Any] | None = None
    ) -> Tally:
        """Nothing counted yet. ``successor_lists``: (begins, successors) if they are known."""
        num_states, num_actions, horizon = sizes
        num_x = num_states * num_actions
        begins, successors = successor_lists or (np.zeros(num_x + 1, np.int64), np.empty(0, np.int32))
        return Tally(
            num_states,
            num_actions,
            horizon,
            reward_values,
            ordered,
            begins,
            successors,
            np.zeros(successors.size, np.int64),
            np.zeros(num_states, np.int64),
            np.zeros((num_x, reward_values.size), np.int64),
            PairTable.fresh(num_x, reward_values.size),
            np.zeros(num_x, bool),
            np.zeros(num_x, np.int64),
        )

    @property
    def num_x(self) -> int:
        """X = S*A."""
        return self.num_states * self.num_actions

    @property
    def episodes(self) -> int:
        """Episodes counted."""
        return int(self.progress[0])

    @property
    def ended_early(self) -> bool:
        """Whether any episode ended before its horizon."""
        return bool((self.moves[self.successors == self.num_states] > 0).any())

    @property
    def visits(self) -> Counts:
        """(X,): steps taken from each x."""
        return np.add.reduceat(np.append(self.moves, 0), self.begins[:-1]) * (np.diff(self.begins) > 0)

    def make_room(self) -> None:
        """Let the pair table have room for the pairs of one more episode."""
        self.pairs.used = int(self.progress[1])
        self.pairs.make_room(self.horizon * (self.horizon + 1) // 2)

    def add_moves(self, more: csr_array) -> None:
        """Add (X, S + 1) counts, extending the lists of next states."""
        both = csr_array(self.moves_matrix() + more)
        both.sort_indices()
        self.begins, self.successors = both.indptr.astype(np.int64), both.indices.astype(np.int32)
        self.moves = both.data.astype(np.int64)

    def add_episodes_moves(self, episodes: Episodes) -> None:
        """Add the starts and moves of episodes."""
        self.starts += np.bincount(episodes.states[:, 0], minlength=self.num_states)
        self.add_moves(moves_of(episodes))

    def moves_matrix(self) -> csr_array:
        """(X, S + 1) counts of moves."""
        rows = np.repeat(np.arange(self.num_x), np.diff(self.begins))
        some = self.moves > 0
        entries = (self.moves[some], (rows[some], self.successors[some]))
        return csr_array(coo_array(entries, shape=(self.num_x, self.num_states + 1)))

    def moments(self) -> Moments:
        """The counts as Moments."""
        keys, tables = self.pairs.sorted_tables()
        selected = (keys, tables) if self.ordered else ()
        if self.ordered:
            keys, tables = unordered(keys, tables, self.num_x)
        return Moments(
            self.num_states,
            self.num_actions,
            self.horizon,
            self.reward_values,
            self.episodes,
            self.starts.copy(),
            self.moves_matrix(),
            self.outcomes.copy(),
            keys,
            tables,
            *selected,
        )

    def add(self, moments: Moments) -> None:
        """Add what an earlier exploration counted."""
        mine = self.num_states, self.num_actions, self.horizon, tuple(self.reward_values.tolist())
        if mine != moments.world:
            refuse("after", f"(states, actions, horizon, reward values) = {moments.world}", f"{mine}, as in this world")
        if self.ordered and moments.episodes and not moments.selected_keys.size and moments.pair_keys.size:
            refuse("after", "moments without selected pairs", "an exploration made with the same counts")
        self.starts += moments.starts
        self.outcomes += moments.outcomes
        self._add_known_moves(moments.moves)
        keys, tables = (
            (moments.selected_keys, moments.selected_tables)
            if self.ordered
            else (moments.pair_keys, moments.pair_tables)
        )
        self.pairs.add(keys, tables)
        self.progress[0] += moments.episodes
        self.progress[1] = self.pairs.used

    def _add_known_moves(self, more: csr_array) -> None:
        """Add to the lists as they are where they have a place for every move, so that a model's lists stay whole."""
        rows = np.repeat(np.arange(self.num_x), np.diff(self.begins))
        here = rows * (self.num_states + 1) + self.successors
        coo = more.tocoo()
        codes = coo.coords[0].astype(np.int64) * (self.num_states + 1) + coo.coords[1]
        place = np.searchsorted(here, codes)
        known = (place < here.size) & (here[np.minimum(place, max(here.size - 1, 0))] == codes) if here.size else False
        if np.all(known) and codes.size:
            np.add.at(self.moves, place, coo.data)
        elif codes.size:
            self.add_moves(more)
