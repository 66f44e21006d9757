"""What learning looks at: episodes of exploration, and then of refinement when that is ready.

Ready is: every action of every state was tried ten times, and either pairs are covered (V_0 <= 1/2) or the likelihood
has one hill. Rooms that nobody entered and signs that pairs have not settled are what refinement cannot find out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from rewardmix import environments
from rewardmix._core.errors import InputError
from rewardmix.episodes import Episodes
from rewardmix.exploration import Exploration, ExplorationError, explore, practical
from rewardmix.exploration.bonuses import Confidence
from rewardmix.exploration.exploration_result import Update
from rewardmix.learning.refinement import refine, stored_batches
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.plans import Round
from rewardmix.recovery import Recovery, best
from rewardmix.recovery.recovery_result import Method

COVERED = 0.5
"""V_0 at which the practical setting may stop."""

TRIED = 10
"""Refinement may begin when every action was tried this often in every state that was acted in: behind a door that
opens every third time there is then no unknown room left, but for one time in sixty."""

ONE_HILL = 0.8
"""Share of the starts of recovery that must climb to the same optimum. Signs that pairs have not settled leave several,
and refinement would never find out: the policies of a model with wrong signs avoid the pairs that would tell."""

REFINED = 1_000_000
"""Larger budgets are explored to the end: rewards are known well by then, and every batch would climb over them."""


@dataclass(frozen=True)
class Stage:
    """Progress, for ``on_update``: which stage is under way, and what it says of itself.

    Attributes:
        name: "forecast", "explore", "refine", "recover", "plan", "bootstrap" or "validate".
        detail: episodes that the rule may take (forecast), an exploration's Update, episodes so far (refine), a
            planner's Round, resamples done (bootstrap), episodes played (validate), or None where a stage begins.
    """

    name: str
    detail: Update | Round | float | None = None


@dataclass(frozen=True, eq=False)
class Gathered:
    """What recovery may look at.

    Attributes:
        exploration: episodes whose actions did not follow rewards.
        following: episodes of refinement, if there are any.
        interrupted: whether Ctrl-C ended it.
    """

    exploration: Exploration
    following: Episodes | None = None
    interrupted: bool = False

    def __len__(self) -> int:
        return self.exploration.episodes + (0 if self.following is None else len(self.following))

    @property
    def whole(self) -> Episodes | None:
        """All episodes together, if they were kept."""
        blind = self.exploration.gathered
        return blind if blind is None or self.following is None else blind + self.following


@dataclass
class Gatherer:
    """Gathers episodes for ``learn``.

    Attributes:
        world: a model or an environment.
        confidence: setting of exploration.
        failure: of its levels.
        seed: of everything.
        horizon: H of an environment that does not tell its own.
        reward_values: of an environment that does not declare them.
        share: largest share of refinement.
        method: of recovery.
        recover: a recovery from what was gathered so far.
        tell: is told every ``Stage``.
        checkpoint: a folder, or None.
    """

    world: Any
    confidence: Confidence
    failure: float
    seed: int
    horizon: int | None
    reward_values: ArrayLike | None
    share: float
    method: Method
    recover: Callable[[Gathered], Recovery]
    tell: Callable[[Stage], None]
    checkpoint: Path | None

    def up_to(
        self,
        total: int,
        until: dict[str, Any],
        after: Exploration | None = None,
        following: Episodes | None = None,
        number: int = 0,
    ) -> Gathered:
        """Exploration ``until`` something is reached, then refinement, up to ``total`` episodes with those before.

        ``number`` is that of the round. Each round of a model has a checkpoint of its own, since it plans at other
        times than the one before.
        """
        spent = 0 if following is None else len(following)
        most = 0 if not self._refines or total > REFINED else max(0, int(self.share * total) - spent)
        room = total - spent
        folder = f"exploration-{number}" if self.known and number else "exploration"
        found = self.explored(room, {**until, "least": room - most} if most else {}, after, folder)
        left = room - found.episodes
        so_far = Gathered(found, following, interrupted(found))
        if not left or so_far.interrupted:
            return so_far
        try:
            recovery = None if found.gathered is None else self.recover(so_far)  # None: they did not fit into memory
        except KeyboardInterrupt:
            return replace(so_far, interrupted=True)
        if recovery is not None and (found.uncertainty <= COVERED or one_hill(recovery)):
            return self.refined(so_far, recovery, left)
        longer = self.explored(room, {}, None if self.known else found, f"{folder}-on")
        whole = Gathered(longer, following, interrupted(longer))
        return whole if len(whole) >= len(so_far) else replace(so_far, interrupted=True)

    def refined(self, so_far: Gathered, recovery: Recovery, episodes: int) -> Gathered:
        """The same with more episodes of refinement."""
        whole = so_far.whole
        assert whole is not None
        played = len(whole)
        self.tell(Stage("refine", played))
        try:
            new = refine(
                self.world,
                whole,
                recovery,
                episodes=episodes,
                seed=self.seed,
                on_update=lambda done: self.tell(Stage("refine", played + done)),
                checkpoint=self._refinement and self._refinement / f"{played + episodes:012d}",
            )
        except InputError as error:  # the environment broke its own rules
            raise ExplorationError(str(error), so_far.exploration) from error
        following = new.episodes if so_far.following is None else so_far.following + new.episodes
        return Gathered(so_far.exploration, following, new.interrupted)

    def explored(
        self,
        episodes: int | None,
        until: dict[str, Any],
        after: Exploration | None = None,
        folder: str = "exploration",
    ) -> Exploration:
        """Algorithm 2, up to ``episodes`` in all."""
        return explore(
            self.world,
            episodes=episodes,
            **until,
            failure=self.failure,
            confidence=self.confidence,
            seed=self.seed,
            horizon=self.horizon,
            reward_values=self.reward_values,
            after=after,
            on_update=lambda update: self.tell(Stage("explore", update)),
            checkpoint=None if self.checkpoint is None else self.checkpoint / folder,
        )

    def refined_before(self, total: int) -> Episodes | None:
        """Episodes of refinement that an earlier, interrupted call had played in rounds of fewer episodes."""
        return None if self.known or self._refinement is None else stored_batches(self._refinement, total)

    @property
    def known(self) -> bool:
        """Whether it is a model. Those are played anew in each round, so a run that was killed makes the same again."""
        return isinstance(self.world, RewardMixingMDP)

    @property
    def _refinement(self) -> Path | None:
        return None if self.checkpoint is None else self.checkpoint / "refinement"

    @property
    def _refines(self) -> bool:
        usual = self.method is best and self.confidence.name == practical.name
        return self.share > 0 and usual and not environments.is_vector(self.world)


def one_hill(recovery: Recovery) -> bool:
    """Whether nearly all starts of the climb ended at the same optimum; with more contexts only the best are listed."""
    return recovery.model.num_contexts == 2 and recovery.info.reproduced >= ONE_HILL * len(recovery.info.starts)


def interrupted(exploration: Exploration) -> bool:
    """Whether Ctrl-C ended it."""
    return exploration.info.stopped == "interrupted"
