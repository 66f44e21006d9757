"""Engine (b): a model played by compiled code, episode by episode."""

from __future__ import annotations

import numpy as np

from rewardmix._core.streams import Role, stream
from rewardmix._core.widths import length_width
from rewardmix.episodes import Episodes, room_for
from rewardmix.exploration import exploration_kernels as kernels
from rewardmix.exploration.augmented import PairPlan
from rewardmix.exploration.exploration_kernels import Choices, Kept
from rewardmix.exploration.tally import Tally
from rewardmix.model import RewardMixingMDP
from rewardmix.simulation_kernels import Tables

CHUNK_STEPS = 1 << 21
"""Steps between two moments at which an interrupt is heard (some tens of milliseconds)."""

KEPT_BYTES = 1 << 29
"""Bytes that kept episodes may take; beyond, none are kept."""


class CompiledEngine:
    """Plays a model. Where its stream stands is plain data, so a run can be resumed bit for bit."""

    exact_resume = True

    def __init__(self, model: RewardMixingMDP, seed: int, keep: bool) -> None:
        self.tables = Tables.of(model)
        self.sizes = model.num_states, model.num_actions, model.horizon
        self.reward_values = model.reward_values
        self.stream = stream(seed, Role.EXPLORATION)
        self.keep, self.kept = keep, self._room(1024 if keep else 0)

    def fresh_tally(self, ordered: bool) -> Tally:
        """An empty tally over the model's own lists of next states."""
        return Tally.fresh(self.sizes, self.reward_values, ordered, (self.tables.begins, self.tables.successors))

    def play(self, plan: PairPlan, choices: Choices, tally: Tally, until: int, patience: int, growth: float) -> None:
        """Play until ``until`` episodes in all, or until a row is outdated after ``patience`` episodes."""
        chunk = max(1, CHUNK_STEPS // self.sizes[2])
        until = min(until, tally.episodes + chunk)
        tally.make_room(tally.pairs_an_episode)
        if self.keep:
            self._make_room_for(until)
        table_room, limit = tally.pairs.capacity, plan.first_limit(growth)
        kept, counts = self.kept, tally.arrays
        kernels.play_choices(
            self.tables, choices, counts, kept, self.stream, until, patience, tally.ordered, table_room, growth, limit
        )

    def gathered(self, episodes: int) -> Episodes | None:
        """The episodes themselves, if they were kept."""
        if not self.keep:
            return None
        parts = {name: part[:episodes].copy() for name, part in self.kept._asdict().items()}
        parts["lengths"] = np.full(episodes, self.sizes[2], length_width(self.sizes[2]))
        return Episodes.trusted(parts, self.sizes[0], self.sizes[1], self.reward_values)

    def restore(self, episodes: Episodes | None) -> None:
        """Go on after these episodes (None: they were not kept)."""
        self.keep = episodes is not None
        self.kept = self._room(len(episodes) if episodes is not None else 0)
        if episodes is not None:
            _copy(self.kept, Kept(episodes.states, episodes.actions, episodes.outcomes), len(episodes))

    def _make_room_for(self, until: int) -> None:
        room = self.kept.states.shape[0]
        if until <= room:
            return
        larger = max(until, 2 * room)
        if larger * sum(part.itemsize * part.shape[1] for part in self.kept) > KEPT_BYTES:
            self.keep, self.kept = False, self._room(0)
            return
        old, self.kept = self.kept, self._room(larger)
        _copy(self.kept, old, room)

    def _room(self, episodes: int) -> Kept:
        num_states, num_actions, horizon = self.sizes
        return Kept(*room_for(episodes, horizon, num_states, num_actions, self.reward_values.size))


def _copy(into: Kept, given: Kept, number: int) -> None:
    into.states[:number], into.actions[:number], into.outcomes[:number] = given
