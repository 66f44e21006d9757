"""What ended visits showed, in counts that do not grow with their number beyond the distinct ones.

    counts   of starts, moves, visits and pairs: those of exploration (``Tally``), so that Algorithm 2 can plan on them
    bags     of (state-action, reward value), equal ones counted together: all that the posterior of rewards looks at

Only steps that were seen are counted, in whichever order their visits ended. A visit that was abandoned is shorter,
nothing else; one that the world ended has moved to the end, which is state S.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.pair_counting import DIRTY, FREE, KEY, LIMIT, NEWS, set_limits
from rewardmix._core.widths import symbol_width
from rewardmix.episodes import Episodes
from rewardmix.exploration.tally import Tally
from rewardmix.model import state_action
from rewardmix.online.posterior import RewardEvidence
from rewardmix.recovery.bags import Bags, merge_bags

if TYPE_CHECKING:
    from rewardmix.online.agent_settings import AgentSettings

LOOK_GROWTH = 1.35
"""It is time to look again when some count has grown by a third, or nearly ..."""

LOOK_EPISODES = 0.18
"""... or the episodes by a sixth, or nearly ..."""

FIRST_TURN = 32
"""Episodes after which recent ones are first told from the rest; then whenever they have doubled."""

LOOK_LEAST = 2
"""... where the count of a state-action, or of a pair, of less than this is taken for this."""


@dataclass
class Record:
    """Counts so far, and when they were last looked at.

    Attributes:
        tally: counts of exploration; its limits say when it is time to look again.
        bags: merged bags of all episodes but the ``fresh`` ones.
        fresh: bags that came since.
        looked: number of episodes at the last look.
        recent: merged bags of the episodes since the last turn, but for the ``fresh`` ones.
        turned: number of episodes at the last turn.
        moves_before: (X, S + 1) moves that were seen before it.
    """

    tally: Tally
    bags: Bags
    recent: Bags
    moves_before: NDArray[np.int64]
    fresh: list[Bags] = field(default_factory=list)
    looked: int = 0
    turned: int = 0

    @staticmethod
    def blank(known: AgentSettings) -> Record:
        """Nothing seen yet."""
        sizes = known.num_states, known.num_actions, known.horizon
        tally = Tally.fresh(sizes, known.reward_values, ordered=False)
        nothing = no_bags(tally.num_x, known.reward_values.size)
        return Record(tally, nothing, nothing, np.zeros((tally.num_x, tally.num_states + 1), np.int64))

    @property
    def episodes(self) -> int:
        """Visits counted."""
        return self.tally.episodes

    @property
    def due(self) -> bool:
        """Whether some count has grown enough for another look."""
        grown = self.tally.progress[DIRTY] + self.tally.progress[NEWS] > 0
        return bool(grown) or self.episodes >= self.looked + max(1, int(LOOK_EPISODES * self.looked))

    def turning(self, memory: int | None) -> bool:
        """Whether the episodes have doubled since the last turn, or half of the ``memory`` is new."""
        enough = self.turned if memory is None else min(self.turned, memory // 2)
        return self.episodes - self.turned >= max(FIRST_TURN, enough)

    def turn(self) -> None:
        """From now on other episodes are the recent ones."""
        self.merge()
        self.recent, self.turned = no_bags(self.tally.num_x, self.bags.num_values), self.episodes
        self.moves_before = self.moves()

    def moves(self) -> NDArray[np.int64]:
        """(X, S + 1) moves that were seen; S is the end."""
        return np.asarray(self.tally.moves_matrix().toarray(), np.int64)

    def add(self, states: NDArray[Any], actions: NDArray[Any], outcomes: NDArray[Any]) -> None:
        """Count visits of one length L: states (n, L + 1), where S is the end, actions and outcomes (n, L)."""
        number, length = actions.shape
        if number == 0 or length == 0:
            return
        tally = self.tally
        steps, no_picks = np.full(number, length, np.int32), np.full((number, 2), -1, np.int64)
        path, played, paid = (np.ascontiguousarray(part, np.int32) for part in (states, actions, outcomes))
        tally.mark[:] = 0  # stamps of visits of another length would be read wrongly
        tally.count((path, played, paid, steps), no_picks, LOOK_GROWTH, LOOK_LEAST)
        x = state_action(path[:, :-1].astype(np.int64), played, tally.num_actions)
        symbols = (x * self.bags.num_values + paid).astype(self.bags.symbols.dtype).ravel()
        offsets = np.arange(number + 1, dtype=np.int64) * length
        self.fresh.append(Bags(symbols, offsets, np.ones(number), tally.num_x, self.bags.num_values))

    def add_episodes(self, episodes: Episodes) -> None:
        """Count whole episodes; those that are short ended in the end."""
        for length in np.unique(episodes.lengths):
            same = episodes.lengths == length
            states = episodes.states[same, : length + 1].copy()
            if length < self.tally.horizon:
                states[:, -1] = episodes.num_states
            self.add(states, episodes.actions[same, :length], episodes.outcomes[same, :length])

    def evidence(self) -> RewardEvidence:
        """What the rewards say."""
        self.merge()
        together = np.zeros((self.tally.num_x, self.tally.num_x), np.int64)
        keys, tables = self.tally.pairs.sorted_tables()
        one, other = np.divmod(keys, self.tally.num_x)
        together[one, other] = together[other, one] = tables.sum(axis=(1, 2))
        return RewardEvidence(self.bags, together)

    def merge(self) -> None:
        """Count the fresh bags together with equal ones."""
        if self.fresh:
            self.recent = merge_bags(chained([self.recent, *self.fresh]))
            self.bags, self.fresh = merge_bags(chained([self.bags, *self.fresh])), []

    def look(self) -> None:
        """Note the counts of now: the next look is due when one of them has grown."""
        tally = self.tally
        self.looked = tally.episodes
        tally.visit_limits[:] = np.ceil(LOOK_GROWTH * np.maximum(tally.visits, LOOK_LEAST)).astype(np.int64)
        nothing = np.zeros(tally.num_x, bool)
        set_limits(tally.pairs.records, LOOK_GROWTH, LOOK_LEAST, tally.ordered, tally.num_x, nothing)
        tally.dirty[:] = False
        tally.progress[DIRTY] = tally.progress[NEWS] = 0

    def limits(self) -> NDArray[np.int64]:
        """(P,) limits of the pairs, in the order of their keys."""
        records = self.tally.pairs.records
        return np.ascontiguousarray(records[self._in_order(), LIMIT])

    def set_limits(self, limits: NDArray[np.int64]) -> None:
        """Put back what ``limits`` gave."""
        self.tally.pairs.records[self._in_order(), LIMIT] = limits

    def _in_order(self) -> NDArray[np.int64]:
        """Where the pairs are, in the order of their keys."""
        keys = self.tally.pairs.records[:, KEY]
        used = np.flatnonzero(keys != FREE)
        return np.asarray(used[np.argsort(keys[used])])


def no_bags(num_points: int, num_values: int) -> Bags:
    """No bag at all."""
    return Bags(
        np.empty(0, symbol_width(num_points * num_values)), np.zeros(1, np.int64), np.empty(0), num_points, num_values
    )


def chained(parts: list[Bags]) -> Bags:
    """Bags one after the other."""
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    return Bags(
        np.concatenate([part.symbols for part in parts]),
        np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        np.concatenate([part.counts for part in parts]),
        parts[0].num_points,
        parts[0].num_values,
    )
