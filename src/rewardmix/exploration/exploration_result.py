"""What an exploration gives back, and how well it covered the pairs that an episode can visit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from rewardmix._core.checks import Floats, InputError, as_array, as_count, as_instance, as_number, refuse
from rewardmix.episodes import Episodes
from rewardmix.exploration.companions import Companions
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments


@dataclass(frozen=True)
class Coverage:
    """Unordered pairs (x, y), x = y among them.

    Attributes:
        seen: pairs with a sample.
        never_seen: pairs that an episode can visit, without a sample.
        impossible: pairs that no episode can visit.
        least: samples of the possible pair that has fewest.
        known_world: True if what is possible was read off the model, False if off the moves that were seen.
    """

    seen: int
    never_seen: int
    impossible: int
    least: int
    known_world: bool


@dataclass(frozen=True, eq=False)
class ExplorationInfo:
    """How an exploration went.

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
            f"ExplorationInfo(stopped={self.stopped!r}, confidence={self.confidence!r}, counts={self.counts!r}, "
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
    if episodes is None:
        return
    every = kept_every(moments.episodes, len(episodes))
    if len(episodes) != -(-moments.episodes // every) or episodes.world != moments.world:
        expected = f"{moments.episodes} of {moments.world}, as were counted, or every 2nd, 4th, ... of them"
        refuse("episodes", f"{len(episodes)} episodes of {episodes.world}", expected)


def kept_every(total: int, kept: int) -> int:
    """1, 2, 4, ...: which of ``total`` episodes were kept, if so many were: all, every other, every fourth ..."""
    every = 1
    while kept > 0 and -(-total // every) > kept:
        every *= 2
    return every


@dataclass(frozen=True, eq=False)
class Exploration:
    """Everything that an exploration found out, and what it needs to go on.

    Attributes:
        moments: the counts of all episodes.
        episodes: how many there were.
        uncertainty: V_0 of the final counts, between 0 (all known) and 1 (nothing known).
        gathered: the episodes themselves; every other, every fourth, ... where all do not fit into half a gigabyte;
            None if they were not kept.
        stream: where the random numbers stand, so that the exploration can go on.
        info: how it went.
    """

    moments: Moments
    episodes: int
    uncertainty: float
    gathered: Episodes | None
    stream: NDArray[np.uint64]
    info: ExplorationInfo

    def __post_init__(self) -> None:
        as_instance("moments", self.moments, Moments)
        as_instance("info", self.info, ExplorationInfo)
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


def coverage(moments: Moments, model: RewardMixingMDP | None = None) -> Coverage:
    """How well the pairs that an episode can visit were covered; without a model, by the moves that were seen."""
    if model is not None:
        rows, starts = csr_array(model.transition_rows), model.initial > 0
    else:
        rows, starts = csr_array(moments.moves[:, : moments.num_states]), moments.starts > 0
    num_x = moments.num_state_actions
    companions = Companions(rows, starts, moments.num_actions, moments.horizon)
    possible, total = companions.possible, num_x * (num_x + 1) // 2
    samples = moments.pair_samples[companions.together(*moments.pairs)]
    least = min(int(samples.min()), moments.episodes) if samples.size == possible > 0 else 0
    return Coverage(moments.pair_keys.size, possible - samples.size, total - possible, least, model is not None)
