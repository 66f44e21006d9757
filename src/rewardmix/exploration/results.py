"""What an exploration gives back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, InputError, as_array, as_count, as_instance, as_number, refuse
from rewardmix.episodes import Episodes
from rewardmix.exploration.coverage import Coverage, coverage
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments


@dataclass(frozen=True, eq=False)
class Info:
    """How it went.

    Attributes:
        stopped: "budget", "threshold", "tried" or "interrupted" ("error" inside an ExplorationError).
        confidence: name of the confidence setting.
        guarantee: what that setting promises.
        counts: name of the counting rule.
        growth: counts grow by this factor between two plans.
        curve: (n, 2) episodes and V_0 at each time that everything was planned.
        refreshes: how often everything was planned.
        rows_planned: plans made for single first picks.
        moments: what was counted.
        model: the world, if it was a model.
    """

    stopped: str
    confidence: str
    guarantee: str
    counts: str
    growth: float
    curve: Floats
    refreshes: int
    rows_planned: int
    moments: Moments
    model: RewardMixingMDP | None

    @cached_property
    def coverage(self) -> Coverage:
        """Pairs seen, possible but never seen, and impossible."""
        return coverage(self.moments, self.model)

    def __repr__(self) -> str:
        return (
            f"Info(stopped={self.stopped!r}, confidence={self.confidence!r}, counts={self.counts!r}, "
            f"growth={self.growth:g}, refreshes={self.refreshes}, rows_planned={self.rows_planned})"
        )


def check_stream(stream: NDArray[np.uint64]) -> None:
    """Refuse what cannot be the place where random numbers stand."""
    array = as_array("stream", stream)
    if array.shape != (4,) or array.dtype != np.uint64:
        refuse("stream", f"shape {array.shape} of {array.dtype}", "4 numbers of 64 bits")


def check_gathered(moments: Moments, episodes: Episodes | None) -> None:
    """Refuse episodes that these moments cannot be the counts of."""
    as_instance("moments", moments, Moments)
    if episodes is not None:
        as_instance("episodes", episodes, Episodes)
    if episodes is not None and (len(episodes) != moments.episodes or episodes.world != moments.world):
        expected = f"{moments.episodes} of {moments.world}, as were counted"
        refuse("episodes", f"{len(episodes)} episodes of {episodes.world}", expected)


@dataclass(frozen=True, eq=False)
class Exploration:
    """What was learnt.

    Attributes:
        moments: the counts of all episodes.
        episodes: how many there were.
        uncertainty: V_0 of the final counts, between 0 (all known) and 1 (nothing known).
        gathered: the episodes themselves, or None if they were not kept (on request, or because of their size).
        stream: where the random numbers stand, so that the exploration can go on.
        info: how it went.
    """

    moments: Moments
    episodes: int
    uncertainty: float
    gathered: Episodes | None
    stream: NDArray[np.uint64]
    info: Info

    def __post_init__(self) -> None:
        as_instance("moments", self.moments, Moments)
        as_instance("info", self.info, Info)
        check_stream(self.stream)
        as_number("uncertainty", self.uncertainty)
        if as_count("episodes", self.episodes, least=0) != self.moments.episodes:
            refuse("episodes", self.episodes, f"{self.moments.episodes}, as were counted")
        check_gathered(self.moments, self.gathered)

    def __repr__(self) -> str:
        return (
            f"Exploration(episodes={self.episodes}, uncertainty={self.uncertainty:.4g}, "
            f"pairs seen={self.moments.pair_keys.size}, stopped={self.info.stopped!r})"
        )


@dataclass(frozen=True)
class Update:
    """Progress, for ``on_update``.

    Attributes:
        episodes: played so far.
        uncertainty: V_0 as last planned.
        budget: episodes to play, if there is a budget.
        threshold: V_0 to reach, if there is one.
        pairs: different pairs of state-actions seen so far.
    """

    episodes: int
    uncertainty: float
    budget: int | None
    threshold: float | None
    pairs: int = 0


class ExplorationError(InputError):
    """The environment did something that it must not do; ``exploration`` is what was gathered before."""

    def __init__(self, message: str, exploration: Exploration) -> None:
        super().__init__(message)
        self.exploration = exploration
