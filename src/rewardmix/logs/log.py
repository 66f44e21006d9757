"""A log that was read: checked episodes in parts, and what can be computed from them part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rewardmix._core.streams import Role, generator
from rewardmix.episodes import Episodes
from rewardmix.logs.checking import Checked, Problem
from rewardmix.logs.compact import Compact, joined, loaded
from rewardmix.logs.crew import Crew, Here, Report, added
from rewardmix.logs.world import World
from rewardmix.moments import Moments


@dataclass(frozen=True)
class Notes:
    """What was met on reading.

    Attributes:
        rows: read.
        episodes: read, good and bad.
        kept: good episodes.
        problems: of the ones that were skipped.
        cut: borders between parts that cut an episode, which was put together again.
        name: of the source.
    """

    rows: int
    episodes: int
    kept: int
    problems: tuple[Problem, ...] = ()
    cut: int = 0
    name: str = "episodes in memory"

    @property
    def skipped(self) -> int:
        """Bad episodes that were dropped."""
        return self.episodes - self.kept


@dataclass(frozen=True, eq=False)
class Log:
    """Episodes in parts, wherever they are kept.

    Attributes:
        world: states, actions, horizon, reward values and names.
        parts: compact episodes in memory, on disk, or on workers.
        crew: who can work on the parts.
        notes: what was met on reading.
        shelf: keeps temporary files alive as long as the log.
    """

    world: World
    parts: tuple[Any, ...]
    crew: Crew = field(default_factory=Here)
    notes: Notes = field(default_factory=lambda: Notes(0, 0, 0))
    shelf: Any = None

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __repr__(self) -> str:
        world = self.world
        return (
            f"Log({len(self)} episodes in {len(self.parts)} parts, horizon={world.horizon}, "
            f"states={world.num_states}, actions={world.num_actions}, "
            f"reward_values={tuple(world.reward_values.tolist())})"
        )

    @cached_property
    def moments(self) -> Moments:
        """The counts of all episodes."""
        return self.count()

    def count(self, on_update: Report | None = None) -> Moments:
        """The counts of all episodes, part by part."""
        from rewardmix.logs.counting import moments_of

        counts: Moments = self.total(moments_of, on_update=on_update)
        return counts

    def total(self, function: Callable[..., Any], *common: Any, on_update: Report | None = None) -> Any:
        """Sum over the parts of function(part, world, *common), which must add."""
        results = self.crew.ask(function, self.parts, self.world, *common)
        return added(results, len(self.parts), on_update)

    def each(self, function: Callable[..., Any], *common: Any) -> Iterator[Any]:
        """function(part, world, *common) of every part, in order."""
        return self.crew.ask(function, self.parts, self.world, *common)

    def moved(self, crew: Crew) -> Log:
        """The same log in the hands of another crew."""
        held = crew.hold(_as_held, list(self.each(_whole)))
        return replace(self, parts=tuple(one.part for one in held), crew=crew)

    def sample(self, most: int, seed: int = 0) -> Compact:
        """All episodes if there are at most ``most``, otherwise about that many, chosen at random, in order."""
        share = most / max(len(self), 1)
        if share >= 1.0:
            return joined(list(self.each(_whole)))
        chosen = [
            one
            for number, part in enumerate(self.parts)
            for one in self.crew.ask(_some, [part], self.world, share, seed, number)
        ]
        return joined(chosen)

    def episodes(self) -> Episodes:
        """All of them as padded arrays in memory."""
        return joined(list(self.each(_whole))).episodes(self.world)


def _as_held(part: Compact) -> Checked:
    return Checked(part, episodes=len(part))


def _whole(part: Any, world: World) -> Compact:
    return loaded(part)


def _some(part: Any, world: World, share: float, seed: int, number: int) -> Compact:
    compact = loaded(part)
    return compact.chosen(generator(seed, Role.LOG_SAMPLE, number).random(len(compact)) < share)
