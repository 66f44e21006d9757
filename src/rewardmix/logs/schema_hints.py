"""Schema hints and read options: what the caller declares about a log before it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewardmix._core.checks import as_count, raise_input_error
from rewardmix.logs.columns import ColumnNames, StateMerge
from rewardmix.logs.left_out import as_skipped_share
from rewardmix.logs.log_schema import MAX_REWARD_VALUES, as_distinct_rewards, as_horizon, as_names
from rewardmix.logs.timestamps import SessionGap, parse_session_gap
from rewardmix.reward_scale import RewardScale

USER_ROLE = "user"
"""Role that replaces the episode: users whose rows are split into sessions at long pauses."""

OPTIONAL_ROLES = ("step", "next_state", "propensity", "time", USER_ROLE)
"""Roles that may have no column."""


@dataclass(frozen=True)
class SchemaHints:
    """Declared sizes, names and reward values of a log; None where nothing is declared."""

    num_states: int | None = None
    num_actions: int | None = None
    horizon: int | None = None
    reward_values: tuple[float, ...] | None = None
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    reward_cuts: tuple[float, ...] | None = None

    @property
    def reward_scale(self) -> RewardScale | None:
        """Map from rewards to the declared reward values."""
        if self.reward_values is None:
            return None
        return RewardScale(
            np.asarray(self.reward_values), None if self.reward_cuts is None else np.asarray(self.reward_cuts)
        )

    def fill_from_metadata(self, metadata: Mapping[str, Any]) -> SchemaHints:
        """Fill what is not declared from the description stored in the files."""
        if not metadata:
            return self
        filled = {
            name: value if (value := getattr(self, name)) not in (None, ()) else metadata.get(name, value)
            for name in SchemaHints.__dataclass_fields__
        }
        # Bins belong to their reward values, so bins of the file do not apply to declared values.
        if self.reward_values is not None:
            filled["reward_cuts"] = self.reward_cuts
        return make_schema_hints(**filled)

    def apply_binning(self, bins: RewardScale | None, state_merge: StateMerge | None) -> SchemaHints:
        """Apply the bins of rewards and the merge of states."""
        hints = self if bins is None else _on_scale(self, bins)
        if state_merge is None:
            return hints
        return replace(hints, num_states=len(state_merge.state_names), state_names=state_merge.state_names)


def _on_scale(schema_hints: SchemaHints, scale: RewardScale) -> SchemaHints:
    cuts = None if scale.cuts is None else tuple(scale.cuts.tolist())
    return replace(schema_hints, reward_values=tuple(scale.values.tolist()), reward_cuts=cuts)


def make_schema_hints(
    horizon: Any,
    reward_values: Any,
    num_states: Any,
    num_actions: Any,
    state_names: Any,
    action_names: Any,
    reward_cuts: Any = None,
) -> SchemaHints:
    """Check declarations and make the schema hints; ``reward_values`` may be a ``RewardScale`` with bins."""
    if not isinstance(reward_values, RewardScale) and reward_values is not None:
        # A ``RewardScale`` was validated when it was made; plain values are validated here.
        reward_values = RewardScale(as_distinct_rewards(reward_values), reward_cuts)
    states = None if num_states is None else as_count("num_states", num_states)
    actions = None if num_actions is None else as_count("num_actions", num_actions)
    schema_hints = SchemaHints(
        states,
        actions,
        None if horizon is None else as_horizon(horizon),
        state_names=as_names("state_names", state_names, states),
        action_names=as_names("action_names", action_names, actions),
    )
    return schema_hints if reward_values is None else _on_scale(schema_hints, reward_values)


@dataclass(frozen=True)
class ReadOptions:
    """Changes to the rows that the caller allows.

    Attributes:
        session_gap: pause that ends a session of a user; None: episodes are known.
        num_reward_bins: number of bins for rewards; None: no binning.
        min_state_count: visits below which a state is merged; None: no merging.
        max_left_out: fraction of episodes that may be dropped because of problems; None: a problem is an error.
    """

    session_gap: SessionGap | None
    num_reward_bins: int | None
    min_state_count: int | None
    max_left_out: float | None

    def check(self, schema_hints: SchemaHints, *, table: bool) -> None:
        """Raise an error if options contradict the schema hints or need the rows of a table."""
        row_options = {
            "session_gap": self.session_gap,
            "num_reward_bins": self.num_reward_bins,
            "min_state_count": self.min_state_count,
        }
        for name, value in row_options.items():
            if value is not None and not table:
                raise_input_error(name, "it for Episodes", f"the rows of a table; omit {name}")
        if self.num_reward_bins is not None and schema_hints.reward_values is not None:
            raise_input_error("num_reward_bins", "it together with reward_values", "one of the two")
        if self.min_state_count is not None and (schema_hints.state_names or schema_hints.num_states is not None):
            raise_input_error("min_state_count", "it together with state_names or num_states", "one of the two")

    def without_derived_fields(self, schema_hints: SchemaHints) -> SchemaHints:
        """Remove the hints that binning and merging compute anew."""
        hints = (
            schema_hints
            if self.num_reward_bins is None
            else replace(schema_hints, reward_values=None, reward_cuts=None)
        )
        return hints if self.min_state_count is None else replace(hints, num_states=None, state_names=())


def make_read_options(
    pause: SessionGap | None, num_reward_bins: object, min_state_count: object, drop_invalid: object
) -> ReadOptions:
    """Check the options and make the read options."""
    bins = None if num_reward_bins is None else as_count("num_reward_bins", num_reward_bins, min_value=2)
    if bins is not None and bins > MAX_REWARD_VALUES:
        raise_input_error("num_reward_bins", bins, f"from 2 to {MAX_REWARD_VALUES}")
    return ReadOptions(
        pause,
        bins,
        None if min_state_count is None else as_count("min_state_count", min_state_count),
        as_skipped_share(drop_invalid),
    )


def label_columns(names: ColumnNames, schema_hints: SchemaHints) -> frozenset[str]:
    """List the columns with declared labels: text, even if all values look like numbers."""
    states = (names.state, names.next_state) if schema_hints.state_names else ()
    actions = (names.action,) if schema_hints.action_names else ()
    return frozenset(name for name in (*states, *actions) if name is not None)


def parse_columns(columns: Any, session_gap: Any) -> tuple[ColumnNames, SessionGap | None]:
    """Check the column roles and the session gap; a user column takes the role of the episode."""
    roles = _check_roles({} if columns is None else columns)
    pause = None if session_gap is None else parse_session_gap("session_gap", session_gap)
    user = roles.pop(USER_ROLE, None)
    if user is not None and "episode" in roles:
        raise_input_error("columns", "the roles 'user' and 'episode'", "one of the two")
    if user is not None and roles.get("time") is None:
        raise_input_error(
            "columns", "the role 'user' without 'time'", "'time' too: the column with the time of each row"
        )
    if user is not None and pause is None:
        raise_input_error(
            "session_gap", "None with columns['user']", "the longest pause within a session, such as '30m'"
        )
    if user is None and pause is not None:
        raise_input_error(
            "session_gap", f"{pause.label} without columns['user']", "the column of users in columns['user']"
        )
    if user is not None:
        roles["episode"] = user
    # Times order the rows, so a step column would be a second, possibly contradicting order.
    if roles.get("time") is not None:
        if roles.get("step") is not None:
            raise_input_error(
                "columns", "the roles 'step' and 'time'", "one of the two to order the rows of an episode"
            )
        roles["step"] = None
    return ColumnNames(**roles), pause


def _check_roles(columns: Any) -> dict[str, Any]:
    default_roles = {
        **{field: getattr(ColumnNames, field) for field in ColumnNames.__dataclass_fields__},
        USER_ROLE: None,
    }
    if not isinstance(columns, Mapping):
        raise_input_error("columns", type(columns).__name__, "a mapping such as {'state': 'page', 'step': None}")
    for role, name in columns.items():
        if role not in default_roles:
            raise_input_error("columns", repr(role), f"one of {', '.join(default_roles)}")
        if name is None and role not in OPTIONAL_ROLES:
            raise_input_error(f"columns[{role!r}]", None, "the name of a column")
        if name is not None and not isinstance(name, str):
            raise_input_error(f"columns[{role!r}]", repr(name), "the name of a column, or None")
    role_of: dict[str, str] = {}
    unused = {"episode"} if columns.get(USER_ROLE) and "episode" not in columns else set()
    unused |= {"step"} if columns.get("time") and "step" not in columns else set()
    for role, name in {**default_roles, **columns}.items():
        if name is not None and role not in unused and role_of.setdefault(name, role) != role:
            raise_input_error(
                "columns", f"{name!r} for {role_of[name]} and for {role}", "a different column for each role"
            )
    return dict(columns)
