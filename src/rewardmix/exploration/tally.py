"""Which steps are counted together, and the running counts: arrays that engines add to in place, to become Moments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from rewardmix._core.checks import Floats, refuse
from rewardmix._core.pair_counting import DIRTY, EPISODES, NEVER, USED
from rewardmix._core.pair_table import Counts, PairTable, unordered
from rewardmix._core.triple_counting import TripleCounts, triples_of
from rewardmix._core.widths import state_width
from rewardmix.exploration.exploration_kernels import TallyArrays, count_played
from rewardmix.exploration.triple_kernels import count_played_triples
from rewardmix.moments import Moments


@dataclass(frozen=True)
class Counting:
    """``ordered``: one picked pair of steps an episode, in its order. Otherwise all unordered pairs of first visits.

    With order 3 all unordered triples are counted besides, and explored.
    """

    name: str
    ordered: bool
    order: int = 2


all_pairs = Counting("all pairs", ordered=False)
"""Every pair of first visits of an episode: its path does not depend on its rewards, so each is an unbiased sample.

Departure 8 of docs/paper.md.
"""

selected = Counting("selected", ordered=True)
"""The paper's counts: the two steps that the plan picked."""

all_triples = Counting("all triples", ordered=False, order=3)
"""Every triple of an episode, beside every pair: ``explore(order=3)``."""


@dataclass
class Tally:
    """Counts so far. ``ordered``: pairs are the paper's, x1 before x2; otherwise unordered pairs of first visits.

    The moves are lists of next states (column S is the end). In a model the lists are known and only the counts grow.
    In an environment moves are counted in a table (``seen_moves``), from which the lists are made when needed.

    With ``triples`` these are what is watched: they alone say which rows of the plan are outdated (``triples_dirty``).
    """

    num_states: int
    num_actions: int
    horizon: int
    reward_values: Floats
    ordered: bool
    begins: NDArray[np.int64]
    successors: NDArray[np.int32]
    moves: Counts
    seen_moves: PairTable | None
    visits: Counts
    visit_limits: Counts
    starts: Counts
    outcomes: Counts
    pairs: PairTable
    dirty: NDArray[np.bool_]
    mark: Counts
    progress: Counts = field(default_factory=lambda: np.zeros(4, np.int64))
    joined: TallyArrays | None = None
    triples: PairTable | None = None
    triples_dirty: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), bool))
    triples_progress: Counts = field(default_factory=lambda: np.zeros(4, np.int64))

    @staticmethod
    def fresh(
        sizes: tuple[int, int, int],
        reward_values: Floats,
        ordered: bool,
        successor_lists: tuple[Any, Any] | None = None,
    ) -> Tally:
        """Nothing counted yet. ``successor_lists``: (begins, successors) if they are known."""
        num_states, num_actions, horizon = sizes
        num_x = num_states * num_actions
        no_moves = np.zeros(num_x + 1, np.int64), np.empty(0, state_width(num_states + 1))
        begins, successors = successor_lists or no_moves
        return Tally(
            num_states,
            num_actions,
            horizon,
            reward_values,
            ordered,
            begins,
            successors,
            np.zeros(successors.size, np.int64),
            PairTable.keyed(num_x * (num_states + 1)) if successor_lists is None else None,
            np.zeros(num_x, np.int64),
            np.ones(num_x, np.int64),
            np.zeros(num_states, np.int64),
            np.zeros((num_x, reward_values.size), np.int64),
            PairTable.fresh(num_x, reward_values.size),
            np.zeros(num_x, bool),
            np.zeros(num_x, np.int64),
        )

    def watch_triples(self) -> None:
        """Count triples too, from here on."""
        self.triples = PairTable.of_triples(self.num_x, self.reward_values.size)
        self.triples_dirty = np.zeros((self.num_x, self.num_x), bool)

    @property
    def outdated(self) -> int:
        """Pairs, or triples where these are watched, that have grown to their limit since the last plan."""
        return int((self.progress if self.triples is None else self.triples_progress)[DIRTY])

    @property
    def triple_counts(self) -> TripleCounts:
        """What kernels add triples to."""
        assert self.triples is not None
        return TripleCounts(self.triples.records, *self.triples.hashing, self.triples_dirty, self.triples_progress)

    @property
    def num_x(self) -> int:
        """X = S*A."""
        return self.num_states * self.num_actions

    @property
    def episodes(self) -> int:
        """Episodes counted."""
        return int(self.progress[EPISODES])

    @property
    def ended_early(self) -> bool:
        """Whether any episode ended before its horizon, by the lists."""
        return bool((self.moves[self.successors == self.num_states] > 0).any())

    @property
    def arrays(self) -> TallyArrays:
        """The arrays that kernels add to, put together anew only when the pair table has grown."""
        if self.joined is None or self.joined.records is not self.pairs.records:
            own = (self.starts, self.moves, self.visits, self.visit_limits, self.outcomes)
            kept = (self.pairs.records, self.dirty, self.mark, self.progress)
            self.joined = TallyArrays._make((*own, *kept, *self.pairs.hashing))
        return self.joined

    @property
    def pairs_an_episode(self) -> int:
        """The most different pairs that one episode can have."""
        return self.horizon * (self.horizon + 1) // 2

    def make_room(self, episodes: int) -> None:
        """Let the tables have room for the pairs, and the triples, of so many new episodes."""
        self.pairs.used = int(self.progress[USED])
        self.pairs.make_room(episodes * self.pairs_an_episode)
        if self.triples is not None:
            self.triples.used = int(self.triples_progress[USED])
            self.triples.make_room(episodes * triples_of(self.horizon))

    def count(self, played: tuple[Any, Any, Any, Any], picks: Counts, growth: float, limit: int) -> None:
        """Count (states, actions, outcomes, lengths) of episodes of an environment; see ``count_played``."""
        moves = self.seen_moves
        assert moves is not None  # where moves lead is not known beforehand
        number, length = played[1].shape
        self.make_room(number)
        moves.make_room(number * length)
        watched = (growth, limit) if self.triples is None else (1.0, NEVER)
        moves.used += count_played(self.arrays, *played, picks, self.ordered, *watched, moves.records, *moves.hashing)
        if self.triples is not None:
            count_played_triples(self.triple_counts, self.num_states, self.outcomes, *played, growth, limit)

    def list_moves(self) -> None:
        """Bring the lists of next states up to date with the moves that were seen."""
        if self.seen_moves is None:
            return
        keys, counts = self.seen_moves.sorted_tables()
        row, following = np.divmod(keys, self.num_states + 1)
        self.begins = np.searchsorted(row, np.arange(self.num_x + 1)).astype(np.int64)
        self.successors, self.moves = following.astype(state_width(self.num_states + 1)), counts.ravel()

    def moves_matrix(self) -> csr_array:
        """(X, S + 1) counts of moves."""
        self.list_moves()
        rows = np.repeat(np.arange(self.num_x), np.diff(self.begins))
        some = self.moves > 0
        entries = (self.moves[some], (rows[some], self.successors[some]))
        return csr_array(coo_array(entries, shape=(self.num_x, self.num_states + 1)))

    def moments(self) -> Moments:
        """The counts as Moments."""
        keys, tables = self.pairs.sorted_tables()
        selected = {"selected_keys": keys, "selected_tables": tables} if self.ordered else {}
        if self.ordered:
            keys, tables = unordered(keys, tables, self.num_x)
        triples = {}
        if self.triples is not None:
            triples["triple_keys"], triples["triple_tables"] = self.triples.sorted_tables()
        return Moments.trusted(
            num_states=self.num_states,
            num_actions=self.num_actions,
            horizon=self.horizon,
            reward_values=self.reward_values,
            episodes=self.episodes,
            starts=self.starts.copy(),
            moves=self.moves_matrix(),
            outcomes=self.outcomes.copy(),
            pair_keys=keys,
            pair_tables=tables,
            **selected,
            **triples,
        )

    def add(self, moments: Moments) -> None:
        """Add what an earlier exploration counted."""
        mine = self.num_states, self.num_actions, self.horizon, tuple(self.reward_values.tolist())
        if mine != moments.world:
            refuse("after", f"(states, actions, horizon, reward values) = {moments.world}", f"{mine}, as in this world")
        if self.ordered and moments.episodes and not moments.selected_keys.size and moments.pair_keys.size:
            refuse("after", "moments without selected pairs", "an exploration made with the same counts")
        possible = moments.pair_keys.size and self.horizon >= 3
        if self.triples is not None and possible and not moments.triple_keys.size:
            refuse("after", "moments without triples", "an exploration of the same order")
        self.starts += moments.starts
        self.outcomes += moments.outcomes
        self.visits += moments.visits
        self._add_moves(moments.moves)
        keys, tables = (
            (moments.selected_keys, moments.selected_tables)
            if self.ordered
            else (moments.pair_keys, moments.pair_tables)
        )
        self.pairs.add(keys, tables)
        self.progress[EPISODES] += moments.episodes
        self.progress[USED] = self.pairs.used
        if self.triples is not None:
            self.triples.add(moments.triple_keys, moments.triple_tables)
            self.triples_progress[USED] = self.triples.used

    def _add_moves(self, more: csr_array) -> None:
        coo = more.tocoo()
        keys = coo.coords[0].astype(np.int64) * (self.num_states + 1) + coo.coords[1]
        if self.seen_moves is not None:
            self.seen_moves.add(keys, coo.data.reshape(-1, 1, 1))
            return
        mine = np.repeat(np.arange(self.num_x), np.diff(self.begins)) * (self.num_states + 1) + self.successors
        place = np.minimum(np.searchsorted(mine, keys), mine.size - 1)
        if (mine[place] != keys).any():
            x, s = divmod(int(keys[(mine[place] != keys).argmax()]), self.num_states + 1)
            refuse("after", f"a move from x = {x} to {s}", "only moves that are possible in this model")
        np.add.at(self.moves, place, coo.data)
