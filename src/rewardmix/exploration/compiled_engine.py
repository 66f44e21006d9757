"""Engine (b): a model played by compiled code, episode by episode."""

from __future__ import annotations

import numpy as np

from rewardmix._core.streams import Role, stream
from rewardmix._core.widths import length_width, place_width
from rewardmix._core.xoshiro import cumulative
from rewardmix.episodes import Episodes, room_for
from rewardmix.exploration import exploration_kernels as kernels
from rewardmix.exploration.augmented import Plan
from rewardmix.exploration.exploration_kernels import Choices, Counts, Kept, World
from rewardmix.exploration.tally import Tally
from rewardmix.model import RewardMixingMDP
from rewardmix.simulation_kernels import fill_aliases, successor_lists

CHUNK_STEPS = 1 << 21
"""Steps between two moments at which an interrupt is heard (some tens of milliseconds)."""

MEMORY = 1 << 29
"""Bytes that kept episodes may take; beyond, none are kept."""


class CompiledEngine:
    """Plays a model. Where its stream stands is plain data, so a run can be resumed bit for bit."""

    exact_resume = True

    def __init__(self, model: RewardMixingMDP, seed: int, keep: bool) -> None:
        self.world = world_of(model)
        self.sizes = model.num_states, model.num_actions, model.horizon
        self.reward_values = model.reward_values
        self.stream = stream(seed, Role.EXPLORATION)
        self.keep, self.kept = keep, self._room(1024 if keep else 0)

    def fresh_tally(self, ordered: bool) -> Tally:
        """An empty tally over the model's own lists of next states."""
        return Tally.fresh(self.sizes, self.reward_values, ordered, (self.world.begins, self.world.successors))

    def play(self, plan: Plan, choices: Choices, tally: Tally, until: int, patience: int, growth: float) -> None:
        """Play until ``until`` episodes in all, or until a row is outdated after ``patience`` episodes."""
        chunk = max(1, CHUNK_STEPS // self.sizes[2])
        until = min(until, tally.episodes + chunk)
        tally.make_room()
        if self.keep:
            self._make_room_for(until)
        limit = max(1, int(np.ceil(growth * plan.known)))
        kernels.play(
            self.world,
            choices,
            counts_of(tally),
            self.kept,
            self.stream,
            until,
            patience,
            tally.ordered,
            *tally.pairs.hashing,
            tally.pairs.capacity,
            growth,
            limit,
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
        if larger * sum(part.itemsize * part.shape[1] for part in self.kept) > MEMORY:
            self.keep, self.kept = False, self._room(0)
            return
        old, self.kept = self.kept, self._room(larger)
        _copy(self.kept, old, room)

    def _room(self, episodes: int) -> Kept:
        num_states, num_actions, horizon = self.sizes
        return Kept(*room_for(episodes, horizon, num_states, num_actions, self.reward_values.size))


def world_of(model: RewardMixingMDP) -> World:
    """A model in the form that ``kernels.play`` draws from."""
    begins, successors, probabilities = successor_lists(model)
    place = place_width(successors.size)
    keep, aliases = np.empty(successors.size), np.empty(successors.size, place)
    fill_aliases(begins, np.arange(successors.size, dtype=place), probabilities, keep, aliases)
    rewards = cumulative(model.laws).reshape(model.num_contexts, -1, model.num_values)
    return World(cumulative(model.weights), cumulative(model.initial), rewards, begins, successors, keep, aliases)


def counts_of(tally: Tally) -> Counts:
    """The arrays of a tally that kernels add to."""
    return Counts(
        tally.starts,
        tally.moves,
        tally.visits,
        tally.visit_limits,
        tally.outcomes,
        tally.pairs.records,
        tally.dirty,
        tally.mark,
        tally.progress,
    )


def _copy(into: Kept, given: Kept, number: int) -> None:
    into.states[:number], into.actions[:number], into.outcomes[:number] = given
