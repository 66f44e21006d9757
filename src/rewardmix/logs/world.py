"""What a log is about: how many states and actions, their names, the horizon, and the values a reward can take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import Floats, as_count, as_reward_values, at, first, refuse
from rewardmix.belief import SAME_REWARD

MOST_STATE_ACTIONS = 1 << 24
"""More are surely identifiers that were meant as something else; and x*Z + z has to fit into four bytes."""

MOST_STEPS = (1 << 31) - 1
"""Lengths of episodes are stored as four bytes."""


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
        as_horizon(self.horizon)
        values = as_told_apart(self.reward_values)
        if self.num_state_actions * values.size > MOST_STATE_ACTIONS:
            found = f"{self.num_states} states x {self.num_actions} actions x {values.size} reward values"
            refuse(
                "log",
                found,
                f"at most {MOST_STATE_ACTIONS} in all; are the columns of states and actions really identifiers of "
                "something else, or are rewards measurements that should be rounded?",
            )
        object.__setattr__(self, "reward_values", values)
        object.__setattr__(self, "state_names", as_names("state_names", self.state_names, self.num_states))
        object.__setattr__(self, "action_names", as_names("action_names", self.action_names, self.num_actions))

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


def as_horizon(horizon: object) -> int:
    """A horizon: the most steps that an episode can have."""
    steps = as_count("horizon", horizon)
    if steps > MOST_STEPS:
        refuse("horizon", steps, f"at most {MOST_STEPS} steps")
    return steps


def as_told_apart(values: ArrayLike) -> Floats:
    """Increasing reward values, none so close to the next that a reward could count as both."""
    array = as_reward_values(values)
    close = np.diff(array) <= 2 * SAME_REWARD
    if close.any():
        index = first(close)[0]
        found = f"{array[index].item()!r} and {array[index + 1].item()!r}"
        refuse(at("reward_values", (index,)), found, f"values more than {2 * SAME_REWARD:g} apart; round the rewards")
    return array


def as_names(argument: str, names: Iterable[object], count: int | None = None) -> tuple[str, ...]:
    """Labels, all different, or none; ``count`` of them if that is known."""
    if not isinstance(names, Iterable) or isinstance(names, Mapping | bytes):
        refuse(argument, type(names).__name__, "a sequence of labels")
    labels: dict[str, None] = {}
    for index, name in enumerate(names):
        if not isinstance(name, str):
            refuse(at(argument, (index,)), f"{type(name).__name__} {name!r}", "text")
        if not name.isascii() and name.encode(errors="replace") != name.encode(errors="surrogatepass"):
            refuse(at(argument, (index,)), ascii(name), "text that can be stored, without halves of characters")
        if name in labels:
            refuse(at(argument, (index,)), f"{name!r} a second time", "different labels")
        labels[name] = None
    if labels and count is not None and len(labels) != count:
        refuse(argument, f"{len(labels)} labels", f"{count}, one for each")
    return tuple(labels)
