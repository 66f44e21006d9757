"""What ``learn`` was asked to do: one object, made at the front door, that every stage gets whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rewardmix import environments
from rewardmix._core.checks import Floats
from rewardmix._core.limits import PLAYED_STEP, RESAMPLE, afford, afford_episodes, afford_recovery
from rewardmix.exploration.bonuses import Confidence, Practical
from rewardmix.exploration.exploration_result import Update
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.plans import Round
from rewardmix.recovery import best, hoeffding
from rewardmix.recovery.confidence_set import Radius
from rewardmix.recovery.evidence import Evidence, Question
from rewardmix.recovery.number_of_contexts import MOST_CONTEXTS, Choice, choose
from rewardmix.recovery.pooling import is_large
from rewardmix.recovery.recovery_result import Method

FIRST_ROUND = 1000
"""Episodes of the first round, without a budget."""

COVERED_V0, COVERED_TRIPLES = 0.5, 0.15
"""V_0 at which the practical setting may stop, with pairs and with triples. What three rewards share is the product of
three deviations, not of two, so a triple says less than a pair that was seen as often."""

REFINED, MOST_REFINED = 0.5, 0.75
"""Largest share of the episodes that refinement gets if nobody asked for one. In a large world it is up to the second,
as long as exploration could try every state-action ``LOOKS`` times: refinement looks where it counts, and with fewer
it cannot tell where that is."""
LOOKS = 12
"""So many looks at each; six or fewer, or twenty-five, are worse with 1,000 states."""

KEPT_STEPS = 1 << 27
"""More steps than this are not kept as episodes by exploration, and no likelihood is maximised over them."""


@dataclass(frozen=True)
class Stage:
    """Progress, for ``on_update``: which stage is under way, and what it says of itself.

    Attributes:
        name: "forecast", "explore", "refine", "recover", "plan", "bootstrap", "check" or "validate".
        detail: episodes that the rule may take (forecast), an exploration's Update, episodes so far (refine), a
            planner's Round, resamples done (bootstrap), episodes played (validate), or None where a stage begins.
    """

    name: str
    detail: Update | Round | float | None = None


@dataclass(frozen=True, eq=False)
class LearnSettings:
    """The arguments of ``learn`` under their own names, checked; ``world`` is the model or the environment.

    ``num_contexts`` is None where the episodes are to say how many there are.

    Attributes that are no arguments:
        radius: of the confidence set.
    """

    world: Any
    accuracy: float
    failure: float
    episodes: int | None
    num_contexts: int | None
    weights: Floats | None
    seed: int
    confidence: Confidence
    method: Method
    refine: float | None
    separation: float
    resamples: int
    validate: int
    horizon: int | None
    reward_values: Floats | None
    on_update: Callable[[Stage], None] | None
    checkpoint: Path | None
    order: int = 2
    radius: Radius = hoeffding

    @property
    def known(self) -> bool:
        """Whether the world is a model, which each round then plays anew, so that a killed run makes the same again."""
        return isinstance(self.world, RewardMixingMDP)

    @property
    def gap(self) -> float:
        """Of the plans."""
        return min(1e-3, self.accuracy / 20)

    @property
    def covered(self) -> float:
        """V_0 at which the practical setting may stop."""
        return COVERED_V0 if self.order == 2 else COVERED_TRIPLES

    @property
    def most_contexts(self) -> int:
        """The most that recovery may be asked for."""
        return MOST_CONTEXTS if self.num_contexts is None else self.num_contexts

    def choice(self, evidence: Evidence) -> Choice | None:
        """How many contexts the evidence shows, if that is for it to say; counts alone cannot."""
        if self.num_contexts is not None or evidence.bags is None:
            return None
        return choose(evidence, MOST_CONTEXTS, seed=self.seed)

    def question(self, choice: Choice | None, least: int = 2) -> Question:
        """What recovery is asked; of at least so many contexts where the episodes are to say it."""
        contexts = self.num_contexts or (2 if choice is None else max(least, choice.num_contexts))
        return Question(contexts, self.weights, seed=self.seed)

    @property
    def refines(self) -> bool:
        """Whether episodes of refinement may be played at all."""
        usual = self.method is best and isinstance(self.confidence, Practical)
        return self.refine != 0 and usual and (self.known or not environments.is_vector(self.world))

    def refined_of(self, total: int) -> int:
        """How many of so many episodes refinement gets at most."""
        if self.refine is not None:
            return int(self.refine * total)
        states, actions, length = self.sizes
        if not is_large(states, actions):
            return int(REFINED * total)
        looked = LOOKS * states * actions / length
        return int(min(max(total - looked, REFINED * total), MOST_REFINED * total))

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """S, A and H."""
        if self.known:
            return self.world.num_states, self.world.num_actions, self.world.horizon
        length = environments.horizon_of(self.world) if self.horizon is None else self.horizon
        return (*environments.sizes_of(self.world), length)

    @property
    def num_values(self) -> int:
        """Z, as far as it is known before anything is played."""
        values = self.world.reward_values if self.known else self.reward_values
        if values is None:
            values = environments.reward_values_of(self.world)
        return 2 if values is None else len(values)

    def folder(self, name: str) -> Path | None:
        """Where a stage keeps what it needs to go on."""
        return None if self.checkpoint is None else self.checkpoint / name

    def tell(self, name: str, detail: Update | Round | float | None = None) -> None:
        """Call back with a stage."""
        if self.on_update is not None:
            self.on_update(Stage(name, detail))

    def teller(self, name: str, begun: int = 0) -> Callable[[Any], None] | None:
        """What a stage calls back with its own details, counted from ``begun``; None if nobody listens."""
        if self.on_update is None:
            return None
        return lambda detail: self.tell(name, detail + begun if begun else detail)

    def afford(self) -> None:
        """Refuse what needs more memory or time than there is, before anything is played."""
        states, actions, length = self.sizes
        played = FIRST_ROUND if self.episodes is None else self.episodes
        points, steps = states * actions, played * length
        pairs = min(points * (points + 1) // 2, steps * (length + 1) // 2)
        afford_recovery(points, self.num_values, self.most_contexts, pairs, min(steps, KEPT_STEPS))
        afford_episodes(self.validate, length, PLAYED_STEP)
        each = 100 * self.most_contexts * min(steps, KEPT_STEPS) + RESAMPLE
        afford("resamples", operations=self.resamples * each, change="fewer resamples, or fewer episodes")
