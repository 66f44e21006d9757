"""Hold the result of an exploration, and measure how well it covered the pairs that an episode can visit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from rewardmix._core.checks import Floats, InputError, as_array, as_count, as_instance, as_number, raise_input_error
from rewardmix.episodes import Episodes
from rewardmix.exploration.joint_reachability import JointReachability
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments


@dataclass(frozen=True)
class Coverage:
    """Count unordered pairs (x, y) of state-actions by coverage; x = y is included.

    Attributes:
        num_observed: Pairs with at least one sample.
        num_missing: Pairs that an episode can visit, but without a sample.
        num_impossible: Pairs that no episode can visit.
        min_samples: Smallest number of samples of a pair that an episode can visit.
        from_model: True if reachability was computed from the model, False if from observed transitions.
    """

    num_observed: int
    num_missing: int
    num_impossible: int
    min_samples: int
    from_model: bool


@dataclass(frozen=True, eq=False)
class ExplorationInfo:
    """Describe how an exploration ran.

    Attributes:
        stop_reason: "budget", "threshold", "tried" or "interrupted" ("error" inside an ExplorationError).
        bonus: Name of the bonus.
        guarantee_text: What the bonus guarantees, as a sentence.
        counting: Name of the counting rule.
        replan_growth: Factor by which counts grow between two plans.
        uncertainty_curve: (n, 2) number of episodes and V_0 at each full replan.
        num_replans: Number of full replans.
        num_rows_planned: Number of value iterations for single first picks.
        moments: Counts of all episodes.
        model: The model that was explored; None for an environment.
    """

    stop_reason: str
    bonus: str
    guarantee_text: str
    counting: str
    replan_growth: float
    uncertainty_curve: Floats
    num_replans: int
    num_rows_planned: int
    moments: Moments
    model: RewardMixingMDP | None

    @cached_property
    def coverage(self) -> Coverage:
        """Count observed, missing and impossible pairs; computed at first use."""
        return pair_coverage_stats(self.moments, self.model)

    def __repr__(self) -> str:
        return (
            f"ExplorationInfo(stop_reason={self.stop_reason!r}, bonus={self.bonus!r}, counting={self.counting!r}, "
            f"replan_growth={self.replan_growth:g}, num_replans={self.num_replans}, "
            f"num_rows_planned={self.num_rows_planned})"
        )


def check_rng_state(rng_state: NDArray[np.uint64]) -> None:
    """Raise InputError unless this is a state of the xoshiro256 generator: 4 words of 64 bits."""
    array = as_array("rng_state", rng_state)
    if array.shape != (4,) or array.dtype != np.uint64:
        raise_input_error("rng_state", f"shape {array.shape} of {array.dtype}", "4 numbers of 64 bits")


def check_episodes_match(moments: Moments, episodes: Episodes | None) -> None:
    """Raise InputError if the moments cannot be the counts of these episodes."""
    as_instance("moments", moments, Moments)
    if episodes is not None:
        as_instance("episodes", episodes, Episodes)
    if episodes is None:
        return
    every = infer_keep_every(moments.num_episodes, len(episodes))
    if len(episodes) != -(-moments.num_episodes // every) or episodes.spec != moments.spec:
        expected = f"{moments.num_episodes} of {moments.spec}, as were counted, or every 2nd, 4th, ... of them"
        raise_input_error("episodes", f"{len(episodes)} episodes of {episodes.spec}", expected)


def infer_keep_every(total: int, num_stored: int) -> int:
    """Return n = 1, 2, 4, ... such that every n-th of ``total`` episodes makes at most ``num_stored`` of them."""
    every = 1
    while num_stored > 0 and -(-total // every) > num_stored:
        every *= 2
    return every


@dataclass(frozen=True, eq=False)
class ExplorationResult:
    """Hold the result of ``explore``, including what a later run needs to continue.

    Attributes:
        moments: Counts of all episodes.
        num_episodes: Number of episodes.
        uncertainty: V_0 of the final counts, between 0 (every reachable pair is covered) and 1 (no pair is).
        episodes: The episodes; every second, fourth, ... of them if all would take more than half a gigabyte; None if
            they were not stored.
        rng_state: (4,) state of the random generator, from which ``resume_from`` continues.
        info: Stop reason, settings, uncertainty curve and coverage.

    Examples:
        >>> import rewardmix as rm
        >>> result = rm.explore("probe", num_episodes=2000, seed=1)
        >>> len(result.episodes), result.moments.num_episodes
        (2000, 2000)
        >>> rm.explore("probe", num_episodes=3000, seed=1, resume_from=result).num_episodes
        3000
    """

    moments: Moments
    num_episodes: int
    uncertainty: float
    episodes: Episodes | None
    rng_state: NDArray[np.uint64]
    info: ExplorationInfo

    def __post_init__(self) -> None:
        as_instance("moments", self.moments, Moments)
        as_instance("info", self.info, ExplorationInfo)
        check_rng_state(self.rng_state)
        as_number("uncertainty", self.uncertainty)
        if as_count("num_episodes", self.num_episodes, min_value=0) != self.moments.num_episodes:
            raise_input_error("num_episodes", self.num_episodes, f"{self.moments.num_episodes}, the number in moments")
        check_episodes_match(self.moments, self.episodes)

    def __repr__(self) -> str:
        return (
            f"ExplorationResult(num_episodes={self.num_episodes}, uncertainty={self.uncertainty:.4g}, "
            f"num_pairs={self.moments.pair_keys.size}, stop_reason={self.info.stop_reason!r})"
        )


@dataclass(frozen=True)
class ExplorationProgress:
    """Report progress to ``callback``.

    Attributes:
        num_episodes: Episodes played so far.
        uncertainty: V_0 of the latest plan.
        max_episodes: Number of episodes to play, or None.
        threshold: V_0 at which to stop, or None.
        num_pairs: Number of different pairs of state-actions observed so far.
    """

    num_episodes: int
    uncertainty: float
    max_episodes: int | None
    threshold: float | None
    num_pairs: int = 0


class ExplorationError(InputError):
    """Report an environment that broke its declared rules.

    Attributes:
        exploration: Result of the episodes before the error.
    """

    def __init__(self, message: str, exploration: ExplorationResult) -> None:
        super().__init__(message)
        self.exploration = exploration


def pair_coverage_stats(moments: Moments, model: RewardMixingMDP | None = None) -> Coverage:
    """Count observed, missing and impossible pairs of state-actions.

    Reachability comes from the model, or, without one, from the transitions that were observed.
    """
    if model is not None:
        rows, starts = csr_array(model.transition_rows), model.initial > 0
    else:
        rows, starts = csr_array(moments.transition_counts[:, : moments.num_states]), moments.initial_counts > 0
    num_state_actions = moments.num_state_actions
    reachability = JointReachability(rows, starts, moments.num_actions, moments.horizon)
    possible, total = reachability.num_pairs, num_state_actions * (num_state_actions + 1) // 2
    samples = moments.pair_samples[reachability.can_meet(*moments.pairs)]
    # If a reachable pair has no sample, the minimum over the stored pairs would overlook it: the minimum is 0 then.
    min_samples = min(int(samples.min()), moments.num_episodes) if samples.size == possible > 0 else 0
    return Coverage(moments.pair_keys.size, possible - samples.size, total - possible, min_samples, model is not None)
