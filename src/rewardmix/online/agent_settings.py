"""What a learner is told of its world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rewardmix._core.checks import as_count, as_reward_values, as_seed, refuse
from rewardmix._core.limits import afford
from rewardmix.model import BINARY

SHORTEST_MEMORY = 64
"""Episodes that an agent cannot forget sooner."""

TABLES = 8 * 4
"""Bytes that a learner has for the law of a reward in a context: three chains, and counts."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AgentSettings:
    """What a learner is told of its world: the arguments of ``Agent``, checked, and those of its rivals."""

    num_states: int
    num_actions: int
    horizon: int
    num_contexts: int | str = 2
    reward_values: Any = BINARY
    weights: Any = None
    memory: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = ("num_states", "num_actions", "horizon")
        checked: dict[str, Any] = {name: as_count(name, getattr(self, name)) for name in sizes}
        checked["num_contexts"] = "auto" if self.auto else as_count("num_contexts", self.num_contexts)
        checked["reward_values"] = as_reward_values(self.reward_values)
        if not self.auto:
            cells = checked["num_states"] * checked["num_actions"] * checked["reward_values"].size + 1
            afford("num_contexts", memory=TABLES * cells * checked["num_contexts"], change="fewer contexts")
        from rewardmix.recovery.recover import as_weights  # with kernels, which take a while to import

        if self.auto and self.weights is not None:
            refuse("weights", "known weights with num_contexts='auto'", "none, or their number in num_contexts")
        checked["weights"] = as_weights(self.weights, checked["num_contexts"])
        checked["memory"] = None if self.memory is None else as_count("memory", self.memory, least=SHORTEST_MEMORY)
        checked["seed"] = as_seed("seed", self.seed)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def auto(self) -> bool:
        """Whether the number of contexts is to be found out."""
        return isinstance(self.num_contexts, str) and self.num_contexts == "auto"

    @property
    def told_contexts(self) -> int:
        """M, for a learner that must be told."""
        if isinstance(self.num_contexts, str):
            refuse("num_contexts", repr(self.num_contexts), "a number: only an Agent finds it out")
        return self.num_contexts

    @property
    def num_state_actions(self) -> int:
        """X = S A."""
        return self.num_states * self.num_actions
