"""What a log is about: how many states and actions, their names, the horizon, and the values a reward can take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewardmix._check import Floats, as_count, as_floats, refuse

MOST_VALUES = 127
"""Outcomes are stored as one byte."""

MOST_STATE_ACTIONS = 1 << 24
"""More are surely labels that were meant as names; and x*Z + z has to fit into four bytes."""


@dataclass(frozen=True, eq=False)
class World:
    """The fixed facts about a log.

    Attributes:
        num_states: S.
        num_actions: A.
        horizon: H, the most steps that an episode can have.
        reward_values: (Z,), increasing.
        state_names: S labels in the order of the indices, or empty if states were whole numbers already.
        action_names: A labels, or empty.
    """

    num_states: int
    num_actions: int
    horizon: int
    reward_values: Floats
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        as_count("num_states", self.num_states)
        as_count("num_actions", self.num_actions)
        as_count("horizon", self.horizon)
        values = as_floats("reward_values", self.reward_values, (None,))
        if values.size < 2 or values.size > MOST_VALUES or (np.diff(values) <= 0).any():
            refuse("reward_values", values.tolist(), f"2 to {MOST_VALUES} different values in increasing order")
        if self.num_state_actions * values.size > MOST_STATE_ACTIONS:
            found = f"{self.num_states} states x {self.num_actions} actions x {values.size} reward values"
            refuse(
                "log", found, f"at most {MOST_STATE_ACTIONS} in all (labels such as user ids belong into a text column)"
            )
        object.__setattr__(self, "reward_values", values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, World) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        values = tuple(self.reward_values.tolist())
        return self.num_states, self.num_actions, self.horizon, values, self.state_names, self.action_names

    @property
    def num_values(self) -> int:
        """Z."""
        return int(self.reward_values.size)

    @property
    def num_state_actions(self) -> int:
        """X = S*A."""
        return self.num_states * self.num_actions

    def state(self, index: int) -> str:
        """What to call a state."""
        return repr(self.state_names[index]) if self.state_names else str(int(index))

    def action(self, index: int) -> str:
        """What to call an action."""
        return repr(self.action_names[index]) if self.action_names else str(int(index))
