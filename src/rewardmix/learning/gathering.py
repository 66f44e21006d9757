"""What learning looks at: episodes of exploration, and then of refinement when that is ready.

Ready is: every action of every state was tried five times, and either pairs (or triples) are covered or nearly all
starts of the likelihood ascent end at one optimum. Rooms that nobody entered and signs that pairs have not settled are
what refinement cannot find out. What is not ready is explored on until they are covered, and refined then.

In a large world, of more than 256 state-actions, a budget is too short for that: there refinement gets its share if all
but one in twenty actions of the states that were acted in were tried three times, and two of five starts end about
equally high. It hopes there for the best of what is hardly known, so it corrects itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewardmix._core.errors import InputError
from rewardmix.episodes import Episodes
from rewardmix.exploration import Exploration, ExplorationError, explore
from rewardmix.learning.learn_settings import LearnSettings
from rewardmix.learning.refinement import refine, stored_batches
from rewardmix.recovery.evidence import Evidence, afford_data, evidence_of, with_following
from rewardmix.recovery.pooling import is_large
from rewardmix.recovery.recovery_result import Estimate

TRIES_TO_REFINE = 5
"""Refinement may begin when every action was tried this often in every state that was acted in. Only states that are
hard to get to have so few: behind a door there that opens every third time is no unknown room but for one time in
eight. To ask for more would spend the episodes that get there on looks at what no good policy does."""

ONE_OPTIMUM = 0.8
"""Share of the starts of recovery that must end at the same optimum. Signs that pairs have not settled leave several,
and refinement would never find out: the policies of a model with wrong signs avoid the pairs that would tell."""

FEW_TRIES, ENTERED = 3, 0.95
"""In a large world: share of the actions of states that were acted in that must have been tried this often."""

SOME_OPTIMA, CLOSE = 0.4, 0.01
"""In a large world: share of the starts (two of five) that must end within so many nats for each state-action of the
best. Where some of very many state-actions are hardly known no two ascents end at the same point."""

LARGEST_REFINED = 1_000_000
"""Larger budgets are explored to the end: rewards are known well by then, and every batch would refit over them."""


@dataclass(frozen=True, eq=False)
class Gathered:
    """What recovery may look at.

    Attributes:
        exploration: episodes whose actions did not follow rewards.
        following: episodes of refinement, if there are any.
        interrupted: whether Ctrl-C ended it.
        blind: evidence of the exploration alone, once recovery has looked at it.
    """

    exploration: Exploration
    following: Episodes | None = None
    interrupted: bool = False
    blind: Evidence | None = None

    def __len__(self) -> int:
        return self.exploration.episodes + (0 if self.following is None else len(self.following))

    @property
    def whole(self) -> Episodes | None:
        """All episodes together, if they were kept."""
        kept = self.exploration.gathered
        return kept if kept is None or self.following is None else kept + self.following

    @property
    def evidence(self) -> Evidence:
        """All that recovery may look at; episodes that follow rewards only beside whole episodes that do not."""
        assert self.blind is not None
        kept = self.exploration.gathered
        return (
            self.blind if kept is None or self.following is None else with_following(self.blind, kept, self.following)
        )


@dataclass(frozen=True, eq=False)
class LearnRound:
    """A part of a run: up to how many episodes it goes, and what it goes on from.

    Attributes:
        total: episodes at its end, with those before.
        until: what may end exploration and begin refinement, an argument of ``explore``; nothing: the whole share of
            refinement is kept back, and exploration goes on if refinement is not ready.
        number: of the round. Each round of a model has a checkpoint of its own, since it plans at other times than
            the one before.
        after: exploration to go on with.
        following: episodes of refinement so far.
    """

    total: int
    until: dict[str, Any]
    number: int = 0
    after: Exploration | None = None
    following: Episodes | None = None

    @property
    def room(self) -> int:
        """Episodes of exploration for which there is room."""
        return self.total - (0 if self.following is None else len(self.following))

    def folder(self, known: bool) -> str:
        """Name of its checkpoint of exploration."""
        return f"exploration-{self.number}" if known and self.number else "exploration"


def explore_round(asked: LearnSettings, part: LearnRound) -> Gathered:
    """Algorithm 2, until refinement may begin if there may be any, otherwise to the end of the round."""
    spent = part.total - part.room
    most = asked.refined_of(part.total) - spent if asked.refines and part.total <= LARGEST_REFINED else 0
    if most > 0 and not part.until:
        found = explore_up_to(asked, part.room - most, {}, part.after, part.folder(asked.known))
    else:
        until = {**part.until, "least": part.room - most} if most > 0 else {}
        found = explore_up_to(asked, part.room, until, part.after, part.folder(asked.known))
    return replace(found, following=part.following)


def explore_on(
    asked: LearnSettings, part: LearnRound, so_far: Gathered, until: dict[str, Any] | None = None
) -> Gathered:
    """Algorithm 2 in a round in which refinement is not ready, to its end or ``until`` it is.

    Ctrl-C keeps the longer of the two.
    """
    after = None if asked.known else so_far.exploration
    found = explore_up_to(asked, part.room, until or {}, after, f"{part.folder(asked.known)}-on")
    whole = replace(found, following=so_far.following)
    return whole if len(whole) >= len(so_far) else replace(so_far, interrupted=True)


def explore_up_to(
    asked: LearnSettings,
    episodes: int,
    until: dict[str, Any],
    after: Exploration | None = None,
    folder: str = "exploration",
) -> Gathered:
    """Algorithm 2, up to ``episodes`` in all."""
    found = explore(
        asked.world,
        episodes=episodes,
        **until,
        failure=asked.failure,
        confidence=asked.confidence,
        seed=asked.seed,
        horizon=asked.horizon,
        reward_values=asked.reward_values,
        after=after,
        on_update=asked.teller("explore"),
        checkpoint=asked.folder(folder),
        order=asked.order,
    )
    return Gathered(found, None, found.info.stopped == "interrupted")


def examined(asked: LearnSettings, gathered: Gathered) -> Gathered:
    """What was gathered, with the evidence of its exploration: its own counts, and whole episodes if they were kept."""
    asked.tell("recover")
    kept, moments = gathered.exploration.gathered, gathered.exploration.moments
    data = moments if kept is None else kept
    afford_data(data, gathered.following, asked.most_contexts)
    if gathered.blind is not None:
        return gathered
    level: Any = {"failure": asked.failure, "accuracy": asked.accuracy, "radius": asked.radius}
    return replace(gathered, blind=evidence_of(data, moments=None if kept is None else moments, **level))


def ready(asked: LearnSettings, so_far: Gathered, recovery: Estimate) -> bool:
    """Whether refinement may begin, every action having been tried where that is asked before."""
    moments = so_far.exploration.moments
    covered = so_far.exploration.uncertainty <= asked.covered
    if is_large(moments.num_states, moments.num_actions):
        settled = covered or some_optima(recovery)
        return entered(so_far.exploration) and settled
    return covered or one_optimum(recovery)


def one_optimum(recovery: Estimate) -> bool:
    """Whether nearly all starts ended at the same optimum; with more contexts only the best are listed."""
    return recovery.model.num_contexts == 2 and recovery.reproduced >= ONE_OPTIMUM * len(recovery.starts)


def entered(exploration: Exploration) -> bool:
    """Whether nearly all actions of the states that were acted in were tried a few times."""
    moments = exploration.moments
    visits = moments.visits.reshape(moments.num_states, -1)
    tried = visits[visits.any(axis=1)] >= FEW_TRIES
    return bool(tried.sum() >= ENTERED * tried.size)


def some_optima(recovery: Estimate) -> bool:
    """Whether many starts ended about as high as the best."""
    heights = np.array([ascent.objective for ascent in recovery.starts])
    slack = CLOSE * recovery.model.num_states * recovery.model.num_actions
    return bool((heights >= heights.max() - slack).mean() >= SOME_OPTIMA)


def refined(asked: LearnSettings, so_far: Gathered, recovery: Estimate, episodes: int) -> Gathered:
    """What was gathered together with so many more episodes, played where plausible models say that it pays."""
    whole = so_far.whole
    assert whole is not None
    played, evidence, question = len(whole), so_far.evidence, asked.question(None)
    assert evidence.bags is not None
    asked.tell("refine", played)
    try:
        new = refine(
            asked.world,
            whole,
            recovery,
            episodes=episodes,
            prior=evidence.strength(question),
            centre=evidence.centre(evidence.bags, question) if evidence.pool else None,
            seed=asked.seed,
            on_update=asked.teller("refine", played),
            checkpoint=asked.folder(f"refinement/{played + episodes:012d}"),
        )
    except InputError as error:  # the environment broke its own rules
        raise ExplorationError(str(error), so_far.exploration) from error
    following = new.episodes if so_far.following is None else so_far.following + new.episodes
    return replace(so_far, following=following, interrupted=new.interrupted)


def refined_before(asked: LearnSettings, total: int) -> Episodes | None:
    """Episodes of refinement that an earlier, interrupted call had played in rounds of fewer episodes."""
    folder = asked.folder("refinement")
    return None if asked.known or folder is None else stored_batches(folder, total)
