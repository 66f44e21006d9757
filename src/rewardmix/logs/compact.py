"""Episodes of one part of a log in the smallest form that everything can be computed from.

One whole number a step, x*Z + z (state-action x paid reward value z), and for each episode its length and where its
last action led. The next state of any other step is the state of the step after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.limits import afford_episodes
from rewardmix.episodes import ABSENT, Episodes, room_for
from rewardmix.logs.world import World
from rewardmix.model import state_action

if TYPE_CHECKING:
    from rewardmix.recovery.patterns import Patterns

Integers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Compact:
    """K episodes of N steps in all.

    Attributes:
        symbols: (N,) x*Z + z, episode after episode.
        lengths: (K,) steps of each.
        last: (K,) the state that the last action led to, ABSENT if nobody kept it.
    """

    symbols: Integers
    lengths: Integers
    last: Integers

    def __len__(self) -> int:
        return int(self.lengths.size)

    @property
    def rows(self) -> int:
        """N."""
        return int(self.symbols.size)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """(K + 1,): where each episode begins."""
        offsets = np.zeros(self.lengths.size + 1, np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        return offsets

    def chosen(self, mask: NDArray[np.bool_]) -> Compact:
        """The episodes of a mask (K,)."""
        return Compact(self.symbols[np.repeat(mask, self.lengths)], self.lengths[mask], self.last[mask])

    def patterns(self, world: World) -> Patterns:
        """The bags of rewards that the likelihood is made of, one for each episode, in order."""
        from rewardmix.recovery.patterns import Patterns

        return Patterns(self.symbols, self.offsets, np.ones(len(self)), world.num_state_actions, world.num_values)

    def episodes(self, world: World) -> Episodes:
        """As padded arrays."""
        afford_episodes(len(self), world.horizon)
        here = np.arange(world.horizon) < self.lengths[:, None]
        x, z = np.divmod(self.symbols, world.num_values)
        state, action = np.divmod(x, world.num_actions)
        states, actions, outcomes = room_for(
            len(self), world.horizon, world.num_states, world.num_actions, world.num_values
        )
        for array in (states, actions, outcomes):
            array.fill(ABSENT)
        states[:, :-1][here], actions[here], outcomes[here] = state, action, z
        states[np.arange(len(self)), self.lengths] = self.last
        return Episodes(
            states, actions, outcomes, self.lengths, world.num_states, world.num_actions, world.reward_values
        )

    @staticmethod
    def of(episodes: Episodes, world: World) -> Compact:
        """From padded arrays."""
        present = episodes.present
        x = state_action(episodes.states[:, :-1].astype(np.int32), episodes.actions.astype(np.int32), world.num_actions)
        symbols = (x * world.num_values + episodes.outcomes)[present].astype(np.int32)
        last = episodes.states[np.arange(len(episodes)), episodes.lengths]
        return Compact(symbols, episodes.lengths.astype(np.int32), last.astype(np.int32))


def joined(parts: Sequence[Compact]) -> Compact:
    """Several parts as one."""
    names = ("symbols", "lengths", "last")
    empty = np.empty(0, np.int32)
    columns = (np.concatenate([empty, *(getattr(part, name) for part in parts)]) for name in names)
    return Compact(*columns)


@dataclass(frozen=True)
class Spilled:
    """A compact part that waits on disk; small to send, cheap to load."""

    path: str
    episodes: int
    rows: int

    def __len__(self) -> int:
        return self.episodes

    def load(self) -> Compact:
        """The part itself."""
        with open(self.path, "rb") as file:
            columns = [np.fromfile(file, np.int32, count) for count in (self.episodes, self.episodes, self.rows)]
        lengths, last, symbols = columns
        return Compact(symbols, lengths, last)


def spill(compact: Compact, path: Path) -> Spilled:
    """Put a part on disk."""
    with open(path, "wb") as file:
        for column in (compact.lengths, compact.last, compact.symbols):
            column.tofile(file)
    return Spilled(str(path), len(compact), compact.rows)


def loaded(part: Any) -> Compact:
    """A part, wherever it was kept."""
    return part.load() if isinstance(part, Spilled) else part
