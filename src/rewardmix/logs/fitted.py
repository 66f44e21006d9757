"""What ``fit`` answers: a model, a plan, and everything that the log says about how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewardmix.logs.behaviour import LoggingTest
from rewardmix.logs.log import Notes
from rewardmix.logs.offpolicy import OffPolicy
from rewardmix.logs.world import World
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.planning import Plan
from rewardmix.recovery import Info

MOST_NAMED = 5
"""Offenders that a sentence names."""


@dataclass(frozen=True)
class Coverage:
    """What the log holds, and what it does not.

    Attributes:
        never_visited: states that no episode was in.
        never_tried: (state, action) that were never played though the state was visited.
        together: pairs of visited state-actions that some episode held both of.
        never_together: pairs of visited state-actions that none did.
        sentence: the gist.
    """

    never_visited: tuple[int, ...]
    never_tried: tuple[tuple[int, int], ...]
    together: int
    never_together: int
    sentence: str


def coverage(moments: Moments, world: World) -> Coverage:
    """What the counts say about coverage."""
    tried = np.reshape(moments.samples > 0, (world.num_states, world.num_actions))
    visited = tried.any(axis=1)
    untried = [(int(s), int(a)) for s, a in np.argwhere(np.asarray(visited)[:, None] & ~tried)]
    first, second = moments.pairs
    together = int((first != second).sum())
    points = int(tried.sum())
    missing = points * (points - 1) // 2 - together
    unseen = tuple(np.flatnonzero(~visited).tolist())
    return Coverage(
        unseen, tuple(untried), together, missing, _coverage_sentence(world, unseen, untried, together, missing)
    )


def _coverage_sentence(
    world: World, unseen: tuple[int, ...], untried: list[tuple[int, int]], together: int, missing: int
) -> str:
    parts = []
    if unseen:
        parts.append(f"{len(unseen)} of {world.num_states} states were never visited")
    if untried:
        named = [f"{world.action(a)} in state {world.state(s)}" for s, a in untried[:MOST_NAMED]]
        more = ", ..." if len(untried) > MOST_NAMED else ""
        parts.append(
            f"{len(untried)} actions were never tried where they could have been "
            f"(action {', action '.join(named)}{more})"
        )
    parts.append(f"{together} pairs of state-actions were seen together in an episode, {missing} never")
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."


@dataclass(frozen=True)
class HeldOut:
    """Log-likelihood of episodes that a fit did not see.

    Attributes:
        episodes: how many.
        loglik: a held-out episode's, on average, under contexts as fitted to the others.
        alone: the same with a single context.
        error: standard error of the difference.
    """

    episodes: int
    loglik: float
    alone: float
    error: float

    @property
    def gain(self) -> float:
        """What contexts add, in nats an episode."""
        return self.loglik - self.alone


@dataclass(frozen=True)
class Bootstrap:
    """Resampled episodes, fitted and judged again.

    Attributes:
        resamples: how many.
        value: of the policy in the fitted model: optimistic, it was chosen there.
        lower: of the value, 95 %.
        upper: of it.
        regret: mean of what the policy loses against policies that were planned in the resampled models.
        gap: mean of what better plans may add to that.
        weights_lower: (M,) limits of the weights, 95 %; None where weights were known or assumed, not estimated.
        weights_upper: (M,), or None.
    """

    resamples: int
    value: float
    lower: float
    upper: float
    regret: float
    gap: float
    weights_lower: tuple[float, ...] | None
    weights_upper: tuple[float, ...] | None


@dataclass(frozen=True, eq=False)
class FitInfo:
    """How the fit came about and how far it can be trusted.

    Attributes:
        notes: what was met on reading.
        world: states, actions, horizon, reward values and names.
        moments: the counts.
        recovery: of the model: starts, certificate, standard errors, what is not identified.
        criterion: {number of contexts: Bayesian information criterion}.
        coverage: what the log holds.
        logging: whether its actions followed rewards.
        held_out: log-likelihood of episodes that were left out, if some were.
        bootstrap: intervals by resampling, if asked for.
        off_policy: value of the policy from the log itself, if episodes were left out.
        passes: E-steps over the whole log.
        sentences: everything that a reader should know, in words.
    """

    notes: Notes
    world: World
    moments: Moments
    recovery: Info
    criterion: dict[int, float]
    coverage: Coverage
    logging: LoggingTest
    held_out: HeldOut | None
    bootstrap: Bootstrap | None
    off_policy: OffPolicy | None
    passes: int
    sentences: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model of the log's world, the policy to play in it, and what is known about both.

    Attributes:
        model: as fitted.
        plan: the policy with its bracket in that model.
        info: see there.
    """

    model: RewardMixingMDP
    plan: Plan
    info: FitInfo

    def __repr__(self) -> str:
        return f"Fitted({self.model!r}, value in it {self.plan.lower:.4f}, {self.info.moments.episodes} episodes)"
