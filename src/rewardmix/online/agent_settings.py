"""Check the arguments of online learners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rewardmix._core.budget import check_budget
from rewardmix._core.checks import as_count, as_reward_values, as_seed, raise_input_error
from rewardmix.model import BERNOULLI_VALUES

MIN_WINDOW = 64
"""Smallest window of an agent, in episodes."""

BYTES_PER_CELL = 8 * 4
"""Bytes per entry of a reward table and type: three chains and the counts, in float64."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AgentSettings:
    """Hold the checked arguments of ``PosteriorSamplingAgent`` and of the baselines.

    Attributes:
        num_states: Number of states S.
        num_actions: Number of actions A.
        horizon: Largest number of steps H of an episode.
        num_types: Number of types M, or "auto".
        reward_values: Increasing reward values (Z,).
        weights: Probabilities of the types (M,), or ``None``.
        window: Number of episodes after which one is forgotten, or ``None``.
        seed: Seed.
    """

    num_states: int
    num_actions: int
    horizon: int
    num_types: int | str = 2
    reward_values: Any = BERNOULLI_VALUES
    weights: Any = None
    window: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = ("num_states", "num_actions", "horizon")
        checked: dict[str, Any] = {name: as_count(name, getattr(self, name)) for name in sizes}
        checked["num_types"] = "auto" if self.selects_num_types else as_count("num_types", self.num_types)
        checked["reward_values"] = as_reward_values(self.reward_values)
        if not self.selects_num_types:
            cells = checked["num_states"] * checked["num_actions"] * checked["reward_values"].size + 1
            check_budget("num_types", memory=BYTES_PER_CELL * cells * checked["num_types"], remedy="fewer types")
        from rewardmix.recovery.ml_recovery import check_weights  # slow to import, because of its kernels

        if self.selects_num_types and self.weights is not None:
            raise_input_error("weights", "weights with num_types='auto'", "None, or a number of types")
        checked["weights"] = check_weights(self.weights, checked["num_types"])
        checked["window"] = None if self.window is None else as_count("window", self.window, min_value=MIN_WINDOW)
        checked["seed"] = as_seed("seed", self.seed)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def selects_num_types(self) -> bool:
        """Whether the number of types is selected by the agent."""
        return isinstance(self.num_types, str) and self.num_types == "auto"

    @property
    def fixed_num_types(self) -> int:
        """Number of types M, for a learner that cannot select it; raises ``InputError`` for "auto"."""
        if isinstance(self.num_types, str):
            raise_input_error("num_types", repr(self.num_types), "a number; only PosteriorSamplingAgent selects it")
        return self.num_types

    @property
    def num_state_actions(self) -> int:
        """X = S A."""
        return self.num_states * self.num_actions
