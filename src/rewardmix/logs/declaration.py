"""What somebody says about a log before it is read: columns, sizes, names, and what may be done to the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewardmix._core.checks import as_count, refuse
from rewardmix.logs.columns import Folding, Names
from rewardmix.logs.left_out import as_skipped_share
from rewardmix.logs.log_schema import MOST_VALUES, as_distinct_rewards, as_horizon, as_names
from rewardmix.logs.times import Pause, as_pause
from rewardmix.reward_scale import RewardScale

VISITOR = "visitor"
"""A role in the place of the episode: visitors whose sessions end where they pause."""

OPTIONAL = ("step", "next_state", "propensity", "time", VISITOR)
"""Roles that no column needs to play."""


@dataclass(frozen=True)
class Declared:
    """What the caller (or the file) says about the log; None where nobody does."""

    num_states: int | None = None
    num_actions: int | None = None
    horizon: int | None = None
    reward_values: tuple[float, ...] | None = None
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    reward_cuts: tuple[float, ...] | None = None

    @property
    def reward_scale(self) -> RewardScale | None:
        """Which of the declared values a reward counts as."""
        if self.reward_values is None:
            return None
        return RewardScale(
            np.asarray(self.reward_values), None if self.reward_cuts is None else np.asarray(self.reward_cuts)
        )

    def completed(self, metadata: Mapping[str, Any]) -> Declared:
        """Where nothing is said, what the files say about themselves."""
        if not metadata:
            return self
        filled = {
            name: value if (value := getattr(self, name)) not in (None, ()) else metadata.get(name, value)
            for name in Declared.__dataclass_fields__
        }
        if self.reward_values is not None:  # which are cut as the caller says, or not at all
            filled["reward_cuts"] = self.reward_cuts
        return as_declared(**filled)

    def coarsened(self, bins: RewardScale | None, folding: Folding | None) -> Declared:
        """With the bins of rewards, and the states that folding leaves."""
        found = self if bins is None else _on_scale(self, bins)
        if folding is None:
            return found
        return replace(found, num_states=len(folding.names), state_names=folding.names)


def _on_scale(declared: Declared, scale: RewardScale) -> Declared:
    cuts = None if scale.cuts is None else tuple(scale.cuts.tolist())
    return replace(declared, reward_values=tuple(scale.values.tolist()), reward_cuts=cuts)


def as_declared(
    horizon: Any,
    reward_values: Any,
    num_states: Any,
    num_actions: Any,
    state_names: Any,
    action_names: Any,
    reward_cuts: Any = None,
) -> Declared:
    """What somebody says about a log, checked; ``reward_values`` may be a whole scale."""
    if not isinstance(reward_values, RewardScale) and reward_values is not None:
        reward_values = RewardScale(as_distinct_rewards(reward_values), reward_cuts)
    states = None if num_states is None else as_count("num_states", num_states)
    actions = None if num_actions is None else as_count("num_actions", num_actions)
    declared = Declared(
        states,
        actions,
        None if horizon is None else as_horizon(horizon),
        state_names=as_names("state_names", state_names, states),
        action_names=as_names("action_names", action_names, actions),
    )
    return declared if reward_values is None else _on_scale(declared, reward_values)


@dataclass(frozen=True)
class Wishes:
    """What may be done to the rows.

    Attributes:
        pause: that ends a session of a visitor; None: episodes are known.
        bins: for rewards; None: they stay as they are.
        fold: how often a state has to be seen to stay; None: all do.
        most_left_out: share of the episodes that may be left out because of problems; None: a problem is an error.
    """

    pause: Pause | None
    bins: int | None
    fold: int | None
    most_left_out: float | None

    def check(self, declared: Declared, *, table: bool) -> None:
        """Refuse what contradicts what was declared, or what needs the rows of a table."""
        asked = {"session_gap": self.pause, "bins": self.bins, "fold": self.fold}
        for name, value in asked.items():
            if value is not None and not table:
                refuse(name, "episodes that are cut already", f"rows of a table; leave {name} out")
        if self.bins is not None and declared.reward_values is not None:
            refuse("bins", "reward_values too", "one of the two")
        if self.fold is not None and (declared.state_names or declared.num_states is not None):
            refuse("fold", "state_names or num_states too", "one of the two")

    def of(self, declared: Declared) -> Declared:
        """What was declared, without what bins and folding find anew."""
        found = declared if self.bins is None else replace(declared, reward_values=None, reward_cuts=None)
        return found if self.fold is None else replace(found, num_states=None, state_names=())


def as_wishes(pause: Pause | None, bins: object, fold: object, skip_bad: object) -> Wishes:
    """What may be done to the rows, checked."""
    if bins is not None and as_count("bins", bins, least=2) > MOST_VALUES:
        refuse("bins", bins, f"from 2 to {MOST_VALUES}")
    number = None if bins is None else as_count("bins", bins)
    return Wishes(pause, number, None if fold is None else as_count("fold", fold), as_skipped_share(skip_bad))


def labelled(names: Names, declared: Declared) -> frozenset[str]:
    """Columns whose labels were declared: text, even if all of it looks like numbers."""
    states = (names.state, names.next_state) if declared.state_names else ()
    actions = (names.action,) if declared.action_names else ()
    return frozenset(name for name in (*states, *actions) if name is not None)


def as_names_and_pause(columns: Any, session_gap: Any) -> tuple[Names, Pause | None]:
    """How columns are called, a visitor in the place of the episode; and the pause that ends a session."""
    roles = _checked_roles({} if columns is None else columns)
    pause = None if session_gap is None else as_pause("session_gap", session_gap)
    visitor = roles.pop(VISITOR, None)
    if visitor is not None and "episode" in roles:
        refuse("columns", "a visitor and an episode", "one of the two")
    if visitor is not None and roles.get("time") is None:
        refuse("columns", "a visitor without a time", "'time' too, the column that says when it happened")
    if (visitor is None) != (pause is None):
        found = "None for visitors" if pause is None else f"{pause.text} without a visitor"
        refuse("session_gap", found, "the longest pause in a session of columns['visitor'], such as '30m'")
    if visitor is not None:
        roles["episode"] = visitor
    if roles.get("time") is not None:
        if roles.get("step") is not None:
            refuse("columns", "a step and a time", "one of the two to order the rows of an episode")
        roles["step"] = None
    return Names(**roles), pause


def _checked_roles(columns: Any) -> dict[str, Any]:
    known = {**{field: getattr(Names, field) for field in Names.__dataclass_fields__}, VISITOR: None}
    if not isinstance(columns, Mapping):
        refuse("columns", type(columns).__name__, "a mapping such as {'state': 'page', 'step': None}")
    for role, name in columns.items():
        if role not in known:
            refuse("columns", repr(role), f"one of {', '.join(known)}")
        if name is None and role not in OPTIONAL:
            refuse(f"columns[{role!r}]", None, "the name of a column")
        if name is not None and not isinstance(name, str):
            refuse(f"columns[{role!r}]", repr(name), "the name of a column, or None")
    taken: dict[str, str] = {}
    unused = {"episode"} if columns.get(VISITOR) and "episode" not in columns else set()
    unused |= {"step"} if columns.get("time") and "step" not in columns else set()
    for role, name in {**known, **columns}.items():
        if name is not None and role not in unused and taken.setdefault(name, role) != role:
            refuse("columns", f"{name!r} for {taken[name]} and for {role}", "a column for each role")
    return dict(columns)
