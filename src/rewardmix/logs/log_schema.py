"""What a log is about: its sizes, names, horizon and reward values; declared, or found in the rows where nobody did.

What is found in pieces adds. Whole numbers in Parquet are found in the statistics of the row groups, without decoding
a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import Floats, as_count, as_reward_values, at, first, refuse
from rewardmix.logs import arrow
from rewardmix.logs.columns import (
    LARGEST_INDEX,
    STRANGE,
    Names,
    distinct_numbers,
    labels,
    whole_numbers,
)
from rewardmix.reward_scale import SAME_REWARD, RewardScale, to_nine_digits

MOST_STATE_ACTIONS = 1 << 24
"""More are surely identifiers that were meant as something else; and x*Z + z has to fit into four bytes."""

LONGEST_HORIZON = (1 << 31) - 1
"""Lengths of episodes are stored as four bytes."""


@dataclass(frozen=True, eq=False)
class LogSchema:
    """The fixed facts about a log.

    Attributes:
        num_states: S.
        num_actions: A.
        horizon: H, the most steps that an episode can have.
        reward_values: (Z,), increasing.
        state_names: S labels in the order of the indices, or empty if states were whole numbers already.
        action_names: A labels, or empty.
        reward_cuts: (Z - 1,) where rewards were put into bins: the smallest of each value but the first; or None.
    """

    num_states: int
    num_actions: int
    horizon: int
    reward_values: Floats
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    reward_cuts: InitVar[Floats | None] = None  # ``reward_scale`` has them

    def __post_init__(self, reward_cuts: Floats | None) -> None:
        as_count("num_states", self.num_states)
        as_count("num_actions", self.num_actions)
        as_horizon(self.horizon)
        values = as_distinct_rewards(self.reward_values)
        if self.num_state_actions * values.size > MOST_STATE_ACTIONS:
            found = f"{self.num_states} states x {self.num_actions} actions x {values.size} reward values"
            advice = "are the columns of states and actions really identifiers of something else, or are rewards "
            advice += "measurements that should be rounded?"
            refuse("log", found, f"at most {MOST_STATE_ACTIONS} in all; {advice}")
        object.__setattr__(self, "reward_values", values)
        object.__setattr__(self, "reward_cuts", RewardScale(values, reward_cuts).cuts)
        object.__setattr__(self, "state_names", as_names("state_names", self.state_names, self.num_states))
        object.__setattr__(self, "action_names", as_names("action_names", self.action_names, self.num_actions))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogSchema) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.num_states, self.num_actions, self.horizon, self.reward_scale, self.state_names, self.action_names

    @cached_property
    def reward_scale(self) -> RewardScale:
        """Which of the values a reward counts as."""
        return RewardScale(self.reward_values, vars(self)["reward_cuts"])

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
    if steps > LONGEST_HORIZON:
        refuse("horizon", steps, f"at most {LONGEST_HORIZON} steps")
    return steps


def as_distinct_rewards(values: ArrayLike) -> Floats:
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


MOST_VALUES = 127
"""More that nobody declared are surely measurements."""


@dataclass(frozen=True)
class FoundValues:
    """What occurs, by role: labels, the finite values of rewards, or the smallest and the largest whole number."""

    values: dict[str, frozenset[Any]] = field(default_factory=dict)

    def __getitem__(self, role: str) -> frozenset[Any]:
        return self.values.get(role, frozenset())

    def __add__(self, other: FoundValues) -> FoundValues:
        every = {role: self[role] | other[role] for role in self.values | other.values}
        if len(every.get("reward", ())) > MOST_VALUES:
            advice = (
                "a few values: bins=20, or --bins 20 when typed, keeps every row and counts each reward as the mean "
            )
            advice += "of its bin, which drops differences within a bin; or round them, or declare reward_values"
            refuse("rewards", f"more than {MOST_VALUES} different values", advice)
        return FoundValues({role: found if role == "reward" else _ends(found) for role, found in every.items()})


def find_values(piece: Any, names: Names, texts: frozenset[str], wanted: frozenset[str]) -> FoundValues:
    """What a piece has in the columns of the wanted roles."""
    columns = {role: name for role, name in names.roles.items() if role in wanted}
    known = {role: _from_statistics(piece, role, name) for role, name in columns.items() if name not in texts}
    found = FoundValues({role: values for role, values in known.items() if values})
    columns = {role: name for role, name in columns.items() if role not in found.values}
    if columns:
        for table in piece.batches(sorted(set(columns.values())), texts):
            with arrow.reading(piece.name):
                read = {role: _from_column(table.column(name), role, name, texts) for role, name in columns.items()}
                found = found + FoundValues(read)
    return found


def _from_column(column: Any, role: str, name: str, texts: frozenset[str]) -> frozenset[Any]:
    if role == "reward":
        return rounded(distinct_numbers(column, name))
    if name in texts:
        return frozenset(labels(column))
    whole = whole_numbers(column, name)
    whole = whole[whole > STRANGE]
    return frozenset([int(whole.min()), int(whole.max())] if whole.size else [])


def rounded(paid: Floats) -> frozenset[float]:
    """The finite values among these to nine digits."""
    return frozenset(np.unique(to_nine_digits(paid[np.isfinite(paid)])).tolist())


def _ends(values: frozenset[Any]) -> frozenset[Any]:
    """Labels as they are; of whole numbers the smallest and the largest."""
    numbers = values and not any(isinstance(value, str) for value in values)
    return frozenset([min(values), max(values)]) if numbers else values


def _from_statistics(piece: Any, role: str, name: str) -> frozenset[Any]:
    """What the statistics of the row groups know; nothing if the column has to be read."""
    limits = _statistics(piece, name)
    if limits is None or (role == "reward" and not 0 <= limits[0] <= limits[1] <= 1):
        return frozenset()
    return frozenset(map(float, limits) if role == "reward" else limits)


def _statistics(piece: Any, name: str) -> tuple[int, int] | None:
    """(smallest, largest) whole number of a column, if every row group says so and both fit."""
    if not isinstance(piece, arrow.ParquetPiece):
        return None
    with arrow.reading(piece.name):
        file = arrow.open_parquet(piece.path)
        column = _place(file, name)
        limits: list[int] = []
        for group in range(piece.first, piece.first + piece.count) if column is not None else ():
            found = file.metadata.row_group(group).column(column).statistics
            if found is None or not found.has_min_max:
                return None
            limits += [found.min, found.max]
    fit = all(type(limit) is int and STRANGE < limit <= LARGEST_INDEX for limit in limits)
    return (min(limits), max(limits)) if limits and fit else None


def _place(file: Any, name: str) -> int | None:
    """Which of the leaves of a file is a column of whole numbers; parts of nested columns may be called the same."""
    if not arrow.library().types.is_integer(file.schema_arrow.field(name).type):
        return None
    schema = file.schema
    places = [i for i in range(len(schema)) if schema.column(i).path == name]
    return places[0] if len(places) == 1 else None
