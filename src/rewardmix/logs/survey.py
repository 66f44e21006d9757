"""What labels, steps and rewards a log has, where nobody declared them. Surveys of pieces add.

Whole numbers in Parquet are surveyed from the statistics of the row groups, without decoding a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats, refuse
from rewardmix.logs import arrow
from rewardmix.logs.columns import LARGEST, STRANGE, Names, distinct, labels, whole_numbers

EVERY = frozenset[Any]()

MOST_VALUES = 127
"""More that nobody declared are surely measurements."""

DIGITS_BELOW = 1 << 22
"""Above it neighbouring floats are about as far apart as rewards that count as equal."""


@dataclass(frozen=True)
class Survey:
    """What occurs.

    Attributes:
        states: labels, or the largest number alone.
        actions: labels, or the largest number alone.
        rewards: finite values.
        first_step: the smallest step.
    """

    states: frozenset[Any] = EVERY
    actions: frozenset[Any] = EVERY
    rewards: frozenset[float] = frozenset()
    first_step: int | None = None

    def __add__(self, other: Survey) -> Survey:
        rewards = self.rewards | other.rewards
        if len(rewards) > MOST_VALUES:
            refuse(
                "rewards",
                f"more than {MOST_VALUES} different values",
                "a few values; round them, or declare reward_values",
            )
        steps = [step for step in (self.first_step, other.first_step) if step is not None]
        return Survey(
            _largest(self.states | other.states),
            _largest(self.actions | other.actions),
            rewards,
            min(steps, default=None),
        )


@dataclass(frozen=True)
class Wanted:
    """Which columns nobody declared anything about."""

    states: bool
    actions: bool
    rewards: bool
    first_step: bool


def survey(piece: Any, names: Names, texts: frozenset[str], wanted: Wanted) -> Survey:
    """What a piece has of what is wanted."""
    states, left_states = _known(piece, names.state, texts, wanted.states)
    follow, left_follow = _known(piece, names.next_state, texts, wanted.states)
    actions, left_actions = _known(piece, names.action, texts, wanted.actions)
    steps, left_step = _known(piece, names.step, texts, wanted.first_step, lowest=True)
    rewards, left_rewards = _binary(piece, names.reward) if wanted.rewards else (frozenset(), False)
    found = Survey(_largest(states | follow), actions, rewards, min(steps, default=None))
    roles = {
        "states": (names.state, left_states),
        "follow": (names.next_state, left_follow),
        "actions": (names.action, left_actions),
        "rewards": (names.reward, left_rewards),
        "steps": (names.step, left_step),
    }
    columns = {role: str(name) for role, (name, left) in roles.items() if left}
    if columns:
        for table in piece.batches(sorted(set(columns.values())), texts):
            with arrow.reading(piece.name):
                found = found + _of_table(table, columns, texts)
    return found


def _of_table(table: Any, columns: dict[str, str], texts: frozenset[str]) -> Survey:
    def values(role: str, *, lowest: bool = False) -> frozenset[Any]:
        if role not in columns:
            return frozenset()
        column = table.column(columns[role])
        if columns[role] in texts:
            return frozenset(labels(column))
        whole = whole_numbers(column, columns[role])
        whole = whole[whole > STRANGE]
        return frozenset([int(whole.min() if lowest else whole.max())] if whole.size else [])

    rewards: frozenset[float] = frozenset()
    if "rewards" in columns:
        rewards = rounded(distinct(table.column(columns["rewards"]), columns["rewards"]))
    states = values("states") | values("follow")
    return Survey(_largest(states), values("actions"), rewards, min(values("steps", lowest=True), default=None))


def rounded(paid: Floats) -> frozenset[float]:
    """The finite values among these to nine digits after the point, where floats of that size have so many."""
    finite = paid[np.isfinite(paid)]
    small = np.abs(finite) < DIGITS_BELOW
    return frozenset(np.unique(np.where(small, np.round(np.where(small, finite, 0.0), 9), finite) + 0.0).tolist())


def _largest(values: frozenset[Any]) -> frozenset[Any]:
    """Labels as they are; of whole numbers the largest."""
    return frozenset([max(values)]) if values and not any(isinstance(value, str) for value in values) else values


def _known(
    piece: Any, name: str | None, texts: frozenset[str], wanted: bool, *, lowest: bool = False
) -> tuple[frozenset[Any], bool]:
    """(what the statistics tell, whether the column has to be read)."""
    if not wanted or name is None:
        return frozenset(), False
    if name in texts:
        return frozenset(), True
    limits = _statistics(piece, name)
    return (frozenset(), True) if limits is None else (frozenset([limits[0 if lowest else 1]]), False)


def _binary(piece: Any, name: str) -> tuple[frozenset[float], bool]:
    """Whole-number rewards from 0 to 1 need not be read."""
    limits = _statistics(piece, name)
    known = limits is not None and limits[0] >= 0 and limits[1] <= 1
    return (frozenset(float(limit) for limit in limits), False) if known and limits else (frozenset(), True)


def _statistics(piece: Any, name: str) -> tuple[int, int] | None:
    """(smallest, largest) whole number of a column, if every row group says so and both fit."""
    if not isinstance(piece, arrow.ParquetPiece):
        return None
    with arrow.reading(piece.name):
        file = arrow.open_parquet(piece.path)
        column = _place(file, name)
        limits: list[int] = []
        for group in range(piece.first, piece.first + piece.count) if column is not None else ():
            told = file.metadata.row_group(group).column(column).statistics
            if told is None or not told.has_min_max:
                return None
            limits += [told.min, told.max]
    fit = all(type(limit) is int and STRANGE < limit <= LARGEST for limit in limits)
    return (min(limits), max(limits)) if limits and fit else None


def _place(file: Any, name: str) -> int | None:
    """Which of the leaves of a file is a column of whole numbers; parts of nested columns may be called the same."""
    if not arrow.library().types.is_integer(file.schema_arrow.field(name).type):
        return None
    schema = file.schema
    places = [i for i in range(len(schema)) if schema.column(i).path == name]
    return places[0] if len(places) == 1 else None
