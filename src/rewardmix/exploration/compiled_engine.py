"""Engine (b): a model played by compiled code, episode by episode."""

from __future__ import annotations

import numpy as np

from rewardmix._core.streams import Role, stream
from rewardmix._core.widths import length_width
from rewardmix.episodes import Episodes, room_for
from rewardmix.exploration import exploration_kernels as kernels
from rewardmix.exploration.exploration_kernels import Kept
from rewardmix.exploration.exploration_result import kept_every
from rewardmix.exploration.strategies import AnyChoices
from rewardmix.exploration.tally import Tally
from rewardmix.exploration.triple_kernels import play_triples
from rewardmix.exploration.triples import Planned
from rewardmix.model import RewardMixingMDP
from rewardmix.simulation_kernels import Tables

CHUNK_STEPS = 1 << 21
"""Steps between two moments at which an interrupt is heard (some tens of milliseconds)."""

KEPT_BYTES = 1 << 29
"""Bytes that kept episodes may take; beyond, every other one is dropped, again and again."""


class CompiledEngine:
    """Plays a model. Where its stream stands is plain data, so a run can be resumed bit for bit."""

    exact_resume = True

    def __init__(self, model: RewardMixingMDP, seed: int, keep: bool) -> None:
        self.tables = Tables.of(model)
        self.sizes = model.num_states, model.num_actions, model.horizon
        self.reward_values = model.reward_values
        self.stream = stream(seed, Role.EXPLORATION)
        self.keep, self.kept = keep, self._room(1024 if keep else 0, 1)

    def fresh_tally(self, ordered: bool) -> Tally:
        """An empty tally over the model's own lists of next states."""
        return Tally.fresh(self.sizes, self.reward_values, ordered, (self.tables.begins, self.tables.successors))

    def play(self, plan: Planned, choices: AnyChoices, tally: Tally, until: int, patience: int, growth: float) -> None:
        """Play until ``until`` episodes in all, or until a row is outdated after ``patience`` episodes."""
        chunk = max(1, CHUNK_STEPS // self.sizes[2])
        until = min(until, tally.episodes + chunk)
        tally.make_room(1)
        if self.keep:
            until = self._make_room(tally.episodes, until)
        table_room, limit = tally.pairs.capacity, plan.first_limit(growth)
        kept, counts = self.kept, tally.arrays
        if tally.triples is not None:
            rooms, triples = (table_room, tally.triples.capacity), tally.triple_counts
            playing = self.tables, choices, counts, triples, kept, self.stream, until, patience, *rooms
            play_triples(*playing, growth, limit)
            return
        kernels.play_choices(
            self.tables, choices, counts, kept, self.stream, until, patience, tally.ordered, table_room, growth, limit
        )

    def gathered(self, episodes: int) -> Episodes | None:
        """The episodes themselves, or every so-manieth, if they were kept."""
        if not self.keep:
            return None
        number = -(-episodes // self.kept.every)
        parts = {name: getattr(self.kept, name)[:number].copy() for name in ("states", "actions", "outcomes")}
        parts["lengths"] = np.full(number, self.sizes[2], length_width(self.sizes[2]))
        return Episodes.trusted(parts, self.sizes[0], self.sizes[1], self.reward_values)

    def restore(self, episodes: Episodes | None, total: int) -> None:
        """Go on after ``total`` episodes, of which these were kept (None: none)."""
        self.keep = episodes is not None
        if episodes is None:
            self.kept = self._room(0, 1)
        else:
            every = kept_every(total, len(episodes))
            self.kept = self._room(len(episodes), every)
            _copy(self.kept, Kept(episodes.states, episodes.actions, episodes.outcomes, every), len(episodes))

    def _make_room(self, played: int, until: int) -> int:
        """Up to where there is room for episodes after ``played``; if nowhere, every other kept one makes some first.

        What is kept then depends on how many episodes there were, and not on how they were asked for.
        """
        most = max(1, KEPT_BYTES // sum(part.itemsize * part.shape[1] for part in self.kept[:3]))
        while played >= most * self.kept.every:
            self._thin()
        until = min(until, most * self.kept.every)
        needed, room = -(-until // self.kept.every), self.kept.states.shape[0]
        if needed > room:
            old, self.kept = self.kept, self._room(min(max(needed, 2 * room), most), self.kept.every)
            _copy(self.kept, old, min(room, most))
        return until

    def _thin(self) -> None:
        """Drop every other kept episode. Which is decided by its number alone, so what is left is a fair sample."""
        half = -(-self.kept.states.shape[0] // 2)
        for part in self.kept[:3]:
            part[:half] = part[::2].copy()
        self.kept = self.kept._replace(every=2 * self.kept.every)

    def _room(self, episodes: int, every: int) -> Kept:
        num_states, num_actions, horizon = self.sizes
        return Kept(*room_for(episodes, horizon, num_states, num_actions, self.reward_values.size), every)


def _copy(into: Kept, given: Kept, number: int) -> None:
    for name in ("states", "actions", "outcomes"):
        getattr(into, name)[:number] = getattr(given, name)[:number]
