"""What a learner earned, and what it would play from now on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rewardmix._core.checks import Floats, Ints, refuse
from rewardmix.model import RewardMixingMDP, with_type_names
from rewardmix.online.agent import Agent
from rewardmix.planning import Plan
from rewardmix.policy import Controller, MarkovPolicy
from rewardmix.telling import Telling


@dataclass(frozen=True, eq=False)
class Earned(Telling):
    """What came of it.

    Attributes:
        agent: the learner, which can go on.
        policy: what it would play from now on if nothing more were to be learnt.
        curve: (K,) reward of each episode.
        regret: (K,) expected regret of all episodes up to each, exact; None where the world is not a model.
        began: (D,) the episode from which on each set of policies was played.
        values: (D,) what each set earns in an episode, exact; None where the world is not a model.
        best: what the best policy earns; None likewise.
        shares: (D, M) how frequent each context was believed to be, the most frequent first; None for rivals.
        names: of the types, for people, the most frequent first.
    """

    agent: Any
    policy: Controller | MarkovPolicy
    curve: Floats
    regret: Floats | None
    began: Ints
    values: Floats | None
    best: float | None
    shares: Floats | None = None
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        best = "" if self.best is None else f" of {self.best:.4f} possible"
        mean = f"{self.total / max(self.curve.size, 1):.4f} an episode{best}"
        return f"Earned({mean}, {self.curve.size} episodes, {self.switches} switches, {type(self.agent).__name__})"

    @cached_property
    def plan(self) -> Plan:
        """The policy of now, with its bracket in the model of now."""
        if not isinstance(self.agent, Agent):
            refuse("earned", f"what a {type(self.agent).__name__} earned", "an Agent, which has a model and a plan")
        found = self.agent.plan()
        return found.named(self.names) if self.names else found

    @property
    def model(self) -> RewardMixingMDP:
        """The world as the agent takes it to be now."""
        return self.plan.model

    def named(self, names: Sequence[str]) -> Earned:
        """The same with names for its types; none takes them away."""
        return dataclasses.replace(self, names=with_type_names(self.model, names).context_names)

    @property
    def switches(self) -> int:
        """How often other policies began."""
        return int(self.began.size) - 1

    @property
    def total(self) -> float:
        """Reward of all episodes together."""
        return float(self.curve.sum())
