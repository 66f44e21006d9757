"""Schema of a log: sizes, names, horizon and reward values, declared or scanned from the rows.

Scanned values of chunks add. The range of integer columns in Parquet files comes from the statistics of the row groups,
without decoding a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import Floats, as_count, as_reward_values, first_index, format_index, raise_input_error
from rewardmix.logs import arrow_io
from rewardmix.logs.columns import (
    INVALID_INDEX,
    MAX_INDEX,
    ColumnNames,
    distinct_labels,
    distinct_numbers,
    encode_ints,
)
from rewardmix.reward_scale import REWARD_TOLERANCE, RewardScale, round_nine_decimals

MAX_SYMBOLS = 1 << 24
"""Largest number of symbols S * A * Z: more are probably identifiers, and x * Z + z has to fit into four bytes."""

MAX_HORIZON = (1 << 31) - 1
"""Largest horizon: lengths of episodes are stored in four bytes."""


@dataclass(frozen=True, eq=False)
class LogSchema:
    """Sizes, names and reward values of a log.

    Attributes:
        num_states: number of states S.
        num_actions: number of actions A.
        horizon: maximum number of steps H of an episode.
        reward_values: (Z,) reward values, increasing.
        state_names: S labels in the order of the indices, or empty if states are integers.
        action_names: A labels in the order of the indices, or empty if actions are integers.
        reward_cuts: (Z - 1,) lower edges of all reward bins but the first; None if rewards are not binned.

    Examples:
        >>> from rewardmix.logs import LogSchema
        >>> LogSchema(num_states=2, num_actions=3, horizon=5, reward_values=(0, 1)).num_state_actions
        6
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
        if self.num_state_actions * values.size > MAX_SYMBOLS:
            actual = f"{self.num_states} states x {self.num_actions} actions x {values.size} reward values"
            advice = "check that states and actions are not identifiers, and round or bin measured rewards"
            raise_input_error("log", actual, f"at most {MAX_SYMBOLS} in total; {advice}")
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
        """Map from rewards to reward values."""
        return RewardScale(self.reward_values, vars(self)["reward_cuts"])

    @property
    def num_values(self) -> int:
        """Number of reward values Z."""
        return int(self.reward_values.size)

    @property
    def num_state_actions(self) -> int:
        """Number of state-actions X = S * A."""
        return self.num_states * self.num_actions

    def state_label(self, index: int) -> str:
        """Return the label of a state."""
        return repr(self.state_names[index]) if self.state_names else str(int(index))

    def action_label(self, index: int) -> str:
        """Return the label of an action."""
        return repr(self.action_names[index]) if self.action_names else str(int(index))


def as_horizon(horizon: object) -> int:
    """Check a horizon, the maximum number of steps of an episode."""
    steps = as_count("horizon", horizon)
    if steps > MAX_HORIZON:
        raise_input_error("horizon", steps, f"at most {MAX_HORIZON} steps")
    return steps


def as_distinct_rewards(values: ArrayLike) -> Floats:
    """Check increasing reward values, so far apart that a reward matches only one of them."""
    array = as_reward_values(values)
    too_close = np.diff(array) <= 2 * REWARD_TOLERANCE
    if too_close.any():
        index = first_index(too_close)[0]
        actual = f"{array[index].item()!r} and {array[index + 1].item()!r}"
        raise_input_error(
            format_index("reward_values", (index,)),
            actual,
            f"values more than {2 * REWARD_TOLERANCE:g} apart; round the rewards",
        )
    return array


def as_names(argument: str, names: Iterable[object], count: int | None = None) -> tuple[str, ...]:
    """Check labels: text, distinct, and as many as expected if that is known."""
    if not isinstance(names, Iterable) or isinstance(names, Mapping | bytes):
        raise_input_error(argument, type(names).__name__, "a sequence of labels")
    # A dictionary finds repeats in constant time and keeps the order of the labels.
    labels: dict[str, None] = {}
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise_input_error(format_index(argument, (index,)), f"{type(name).__name__} {name!r}", "text")
        # Lone surrogates cannot be encoded in UTF-8, so a name with one could not be saved.
        if not name.isascii() and name.encode(errors="replace") != name.encode(errors="surrogatepass"):
            raise_input_error(format_index(argument, (index,)), ascii(name), "text that can be encoded in UTF-8")
        if name in labels:
            raise_input_error(format_index(argument, (index,)), f"{name!r} twice", "unique labels")
        labels[name] = None
    if labels and count is not None and len(labels) != count:
        raise_input_error(argument, f"{len(labels)} labels", f"{count}, one for each")
    return tuple(labels)


MAX_REWARD_VALUES = 127
"""Largest number of undeclared reward values: more are probably measurements."""


@dataclass(frozen=True)
class ColumnValues:
    """Values that occur, by role: labels, finite rewards, or the smallest and the largest integer."""

    values: dict[str, frozenset[Any]] = field(default_factory=dict)

    def __getitem__(self, role: str) -> frozenset[Any]:
        return self.values.get(role, frozenset())

    def __add__(self, other: ColumnValues) -> ColumnValues:
        # The limit is checked after every addition, so a column of measurements fails early and not after the whole
        # log.
        merged = {role: self[role] | other[role] for role in self.values | other.values}
        if len(merged.get("reward", ())) > MAX_REWARD_VALUES:
            advice = (
                "num_reward_bins=20 (--num-reward-bins 20) keeps every row and counts each reward as the mean of its "
            )
            advice += "bin; or round the rewards, or declare reward_values"
            raise_input_error(
                "rewards", f"more than {MAX_REWARD_VALUES} distinct values", f"at most {MAX_REWARD_VALUES}; {advice}"
            )
        return ColumnValues(
            {role: values if role == "reward" else _min_and_max(values) for role, values in merged.items()}
        )


def scan_values(chunk: Any, names: ColumnNames, labeled: frozenset[str], roles: frozenset[str]) -> ColumnValues:
    """Scan a chunk for the values of the wanted roles."""
    columns = {role: name for role, name in names.roles.items() if role in roles}
    from_metadata = {role: _from_statistics(chunk, role, name) for role, name in columns.items() if name not in labeled}
    column_values = ColumnValues({role: values for role, values in from_metadata.items() if values})
    columns = {role: name for role, name in columns.items() if role not in column_values.values}
    if columns:
        for table in chunk.batches(sorted(set(columns.values())), labeled):
            with arrow_io.raise_read_errors(chunk.name):
                chunk_values = {
                    role: _from_column(table.column(name), role, name, labeled) for role, name in columns.items()
                }
                column_values = column_values + ColumnValues(chunk_values)
    return column_values


def _from_column(column: Any, role: str, name: str, labeled: frozenset[str]) -> frozenset[Any]:
    if role == "reward":
        return distinct_rewards(distinct_numbers(column, name))
    if name in labeled:
        return frozenset(distinct_labels(column))
    integers = encode_ints(column, name)
    integers = integers[integers > INVALID_INDEX]
    return frozenset([int(integers.min()), int(integers.max())] if integers.size else [])


def distinct_rewards(rewards: Floats) -> frozenset[float]:
    """Return the distinct finite rewards, rounded to nine digits."""
    return frozenset(np.unique(round_nine_decimals(rewards[np.isfinite(rewards)])).tolist())


def _min_and_max(values: frozenset[Any]) -> frozenset[Any]:
    """Reduce integers to the smallest and the largest; keep labels."""
    numbers = values and not any(isinstance(value, str) for value in values)
    return frozenset([min(values), max(values)]) if numbers else values


def _from_statistics(chunk: Any, role: str, name: str) -> frozenset[Any]:
    """Read the values of a column from the statistics of the row groups; return nothing if they do not suffice."""
    limits = _statistics(chunk, name)
    # Statistics give the range only. For integer rewards within 0 and 1 the range contains all values.
    if limits is None or (role == "reward" and not 0 <= limits[0] <= limits[1] <= 1):
        return frozenset()
    return frozenset(map(float, limits) if role == "reward" else limits)


def _statistics(chunk: Any, name: str) -> tuple[int, int] | None:
    """Return (smallest, largest) integer of a column, if every row group states both and they fit."""
    if not isinstance(chunk, arrow_io.ParquetChunk):
        return None
    with arrow_io.raise_read_errors(chunk.name):
        file = arrow_io.open_parquet(chunk.path)
        column = _leaf_index(file, name)
        limits: list[int] = []
        for group in (
            range(chunk.first_row_group, chunk.first_row_group + chunk.num_row_groups) if column is not None else ()
        ):
            statistics = file.metadata.row_group(group).column(column).statistics
            if statistics is None or not statistics.has_min_max:
                return None
            limits += [statistics.min, statistics.max]
    all_fit = all(type(limit) is int and INVALID_INDEX < limit <= MAX_INDEX for limit in limits)
    return (min(limits), max(limits)) if limits and all_fit else None


def _leaf_index(file: Any, name: str) -> int | None:
    """Return the leaf index of an integer column; None if a nested column has a leaf of that name."""
    if not arrow_io.import_pyarrow().types.is_integer(file.schema_arrow.field(name).type):
        return None
    schema = file.schema
    # Statistics are stored by leaf. Nested columns have several leaves, so the column's index is not the leaf's.
    indices = [i for i in range(len(schema)) if schema.column(i).path == name]
    return indices[0] if len(indices) == 1 else None
