"""Policies: what to do next, given what was seen in this episode.

A policy is frozen; what it remembers of an episode is a value that its caller carries:

    memory = policy.start(state)
    action = policy.act(memory, rng)
    memory = policy.observe(memory, action, reward, next_state)

States are whole numbers, or names where a policy knows them; others are refused where they come in. After the last step
of its horizon a policy refuses to act and to observe: the next episode begins with ``start``.

Three forms. A Markov table looks at (step, state) only. A controller moves between finitely many nodes on each
reward, and its value in any model is exact. A belief policy updates a posterior over contexts and decides by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from rewardmix import belief as bayes
from rewardmix._core.brevity import short
from rewardmix._core.checks import (
    MOST,
    Floats,
    Ints,
    as_array,
    as_floats,
    as_indices,
    as_instance,
    as_number,
    check_probabilities,
    owned,
    quoted,
    refuse,
    shown,
)
from rewardmix._core.limits import afford_table
from rewardmix._core.storage import Arrays, Packed, entry
from rewardmix._core.widths import width_of
from rewardmix.model import RewardMixingMDP
from rewardmix.prediction import Predicting
from rewardmix.reward_scale import RewardScale


class Policy(Protocol):
    """The common protocol. ``memory`` is whatever ``start`` and ``observe`` return."""

    def start(self, state: Any) -> Any:
        """Memory at the beginning of an episode that starts in ``state``."""

    def act(self, memory: Any, rng: np.random.Generator) -> int:
        """The action to play now."""

    def observe(self, memory: Any, action: Any, reward: float, next_state: Any) -> Any:
        """Memory after one step."""


@short
@dataclass(frozen=True, eq=False)
class MarkovPolicy(Predicting):
    """A law over actions for each step and state.

    Attributes:
        table: (H, S, A) probabilities.
    """

    table: Floats

    def __post_init__(self) -> None:
        table = as_floats("table", self.table, (None, None, None))
        check_probabilities("table", table, "actions")
        object.__setattr__(self, "table", table)

    needs_rewards = False

    @property
    def horizon(self) -> int:
        """H."""
        return int(self.table.shape[0])

    @property
    def num_states(self) -> int:
        """S."""
        return int(self.table.shape[1])

    def check_fits(self, model: RewardMixingMDP) -> None:
        """Refuse a model that this table does not belong to."""
        shape = model.horizon, model.num_states, model.num_actions
        if self.table.shape != shape:
            refuse("policy", f"a table of shape {self.table.shape}", f"{shape} for this model")

    def start(self, state: int) -> tuple[int, int]:
        """(step, state)."""
        return 0, _as_index("state", state, self.table.shape[1])

    def act(self, memory: tuple[int, int], rng: np.random.Generator) -> int:
        """Draw from the row of this step and state."""
        step, state = memory
        _check_step(step, self.table.shape[0])
        row = self.table[step, state]
        likely = int(row.argmax())
        return likely if row[likely] == 1.0 else int(np.searchsorted(row.cumsum(), rng.random() * row.sum(), "right"))

    def surest(self, memory: tuple[int, int]) -> int:
        """The likeliest action of the row."""
        _check_step(memory[0], self.table.shape[0])
        return int(self.table[memory].argmax())

    def observe(self, memory: tuple[int, int], action: int, reward: float, next_state: int) -> tuple[int, int]:
        """(step + 1, next state)."""
        _check_step(memory[0], self.table.shape[0])
        return memory[0] + 1, _as_index("next_state", next_state, self.table.shape[1])


@dataclass(frozen=True, eq=False)
class Controller(Predicting):
    """A finite-state controller: node k of K_t at step t, moved by the outcome of each reward.

    Its tables are checked, and copied where somebody could still write to them.

    In state s at step t with node k it plays actions[t][s, k]; after reward value z it moves to node
    successors[t][s, k, z] of step t + 1, whatever the next state is.

    Attributes:
        actions: H arrays of shape (S, K_t).
        successors: H arrays of shape (S, K_t, Z); those of the last step are never used.
        first: (S,) node at step 0 for each first state.
        reward_values: (Z,).
        state_names: S names that ``start`` and ``observe`` take for states too, or empty.
        reward_cuts: (Z - 1,) where raw rewards are put into bins, as in a model; or None.
    """

    actions: tuple[Ints, ...]
    successors: tuple[Ints, ...]
    first: Ints
    reward_values: Floats
    state_names: tuple[str, ...] = ()
    reward_cuts: InitVar[Floats | None] = None  # ``reward_scale`` has them

    def __post_init__(self, reward_cuts: Floats | None) -> None:
        scale = RewardScale(self.reward_values, reward_cuts)
        values = scale.values
        actions = as_tables("actions", self.actions)
        given = as_instance("successors", self.successors, tuple)
        if len(actions) != len(given):
            refuse("successors", f"{len(given)} steps", f"{len(actions)} steps, as many as actions")
        nodes = [table.shape[1] for table in actions[1:]] + [MOST]  # those of the last step are never used
        successors = tuple(
            as_table(f"successors[{t}]", moves, nodes[t], (*actions[t].shape, values.size))
            for t, moves in enumerate(given)
        )
        first = as_table("first", self.first, actions[0].shape[1], (actions[0].shape[0],))
        if len(self.state_names) not in (0, first.size):
            refuse("state_names", f"{len(self.state_names)} names", f"{first.size} names, or none")
        parts = {"actions": actions, "successors": successors, "first": first, "reward_values": values}
        for name, value in (parts | {"reward_cuts": scale.cuts}).items():
            object.__setattr__(self, name, value)

    @cached_property
    def reward_scale(self) -> RewardScale:
        """Which of the values a reward counts as."""
        return RewardScale(self.reward_values, vars(self)["reward_cuts"])

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.actions)

    def __repr__(self) -> str:
        values = ", ".join(f"{value:g}" for value in self.reward_values[:4])
        more = ", ..." * (self.reward_values.size > 4)
        sizes = f"horizon={self.horizon}, states={self.first.size}, nodes={self.size}"
        return f"Controller({sizes}, reward_values=({values}{more}))"

    @property
    def num_states(self) -> int:
        """S."""
        return int(self.first.size)

    @cached_property
    def most(self) -> int:
        """The largest action."""
        return max(int(actions.max()) for actions in self.actions)

    @property
    def size(self) -> int:
        """Number of nodes, counted once for each step and state."""
        return sum(actions.size for actions in self.actions)

    @property
    def nbytes(self) -> int:
        """Memory that the tables take."""
        return sum(part.nbytes for part in (*self.actions, *self.successors, self.first))

    def check_fits(self, model: RewardMixingMDP) -> None:
        """Refuse a model that this controller cannot be played in."""
        mine = self.horizon, self.first.size, self.reward_values.size
        wanted = model.horizon, model.num_states, model.num_values
        if mine != wanted:
            refuse("policy", f"a controller of (horizon, states, reward values) = {mine}", f"{wanted} for this model")
        if self.most >= model.num_actions:
            refuse("policy", f"a controller that plays action {self.most}", f"actions below {model.num_actions}")

    def start(self, state: int | str) -> tuple[int, int, int]:
        """(step, state, node)."""
        place = _as_index("state", state, self.first.size, self.state_names)
        return 0, place, int(self.first[place])

    def act(self, memory: tuple[int, int, int], rng: np.random.Generator) -> int:
        """The action of this node."""
        step, state, node = memory
        _check_step(step, self.horizon)
        return int(self.actions[step][state, node])

    def observe(
        self, memory: tuple[int, int, int], action: int | str, reward: float, next_state: int | str
    ) -> tuple[int, int, int]:
        """(step + 1, next state, successor node); a controller moves by the reward alone, whatever the action was."""
        step, state, node = memory
        _check_step(step, len(self.actions))
        following = _as_index("next_state", next_state, self.first.size, self.state_names)
        outcome = self.reward_scale.level(reward)
        return step + 1, following, int(self.successors[step][state, node, outcome])


@short
@dataclass(frozen=True, eq=False)
class BeliefPolicy(Predicting):
    """Decides by step, state and the posterior over contexts under a model.

    Attributes:
        model: the world as the policy believes it to be.
        decide: (step, state, belief (M,)) -> action.
    """

    model: RewardMixingMDP
    decide: Callable[[int, int, Floats], int]

    def __post_init__(self) -> None:
        as_instance("model", self.model, RewardMixingMDP)
        if not callable(self.decide):
            refuse("decide", type(self.decide).__name__, "a function (step, state, belief) -> action")
        check_fits = getattr(self.decide, "check_fits", None)
        if check_fits is not None:
            check_fits(self.model)

    @property
    def horizon(self) -> int:
        """H."""
        return self.model.horizon

    @property
    def num_states(self) -> int:
        """S."""
        return self.model.num_states

    def posterior(self, memory: tuple[int, int, Floats]) -> Floats:
        """(M,): how likely each context is, given the memory."""
        return memory[2]

    def start(self, state: int | str) -> tuple[int, int, Floats]:
        """(step, state, belief)."""
        return 0, _as_index("state", state, self.model.num_states, self.model.state_names), self.model.weights

    def act(self, memory: tuple[int, int, Floats], rng: np.random.Generator) -> int:
        """What ``decide`` says."""
        _check_step(memory[0], self.model.horizon)
        return int(self.decide(*memory))

    def observe(
        self, memory: tuple[int, int, Floats], action: int | str, reward: float, next_state: int | str
    ) -> tuple[int, int, Floats]:
        """(step + 1, next state, posterior)."""
        step, state, belief = memory
        _check_step(step, self.model.horizon)
        played = _as_index("action", action, self.model.num_actions, self.model.action_names)
        following = _as_index("next_state", next_state, self.model.num_states, self.model.state_names)
        outcome = self.model.reward_scale.level(reward)
        return step + 1, following, bayes.update(belief, self.model.laws[:, state, played, outcome])


@short
@dataclass(frozen=True, eq=False)
class Exploring(Predicting):
    """Another policy, but with a small chance any action: what it writes supports the next fit.

    A controller moves by the reward alone, also after an action that was not its own.

    Attributes:
        policy: the other one.
        explore: chance of a step to play any action, all equally likely.
        num_actions: A.
    """

    policy: Policy
    explore: float
    num_actions: int

    def __post_init__(self) -> None:
        _as_share("explore", self.explore)

    @property
    def num_states(self) -> int:
        """S of the other."""
        return int(getattr(self.policy, "num_states", 0))

    def surest(self, memory: Any) -> int:
        """What the other plays."""
        return self.policy.act(memory, None)  # type: ignore[arg-type]  # it draws nothing, or it is a Markov table

    def start(self, state: int) -> Any:
        """As the other."""
        return self.policy.start(state)

    def act(self, memory: Any, rng: np.random.Generator) -> int:
        """As the other, or any action."""
        own = self.policy.act(memory, rng)
        return int(rng.integers(self.num_actions)) if rng.random() < self.explore else own

    def observe(self, memory: Any, action: int, reward: float, next_state: int) -> Any:
        """As the other."""
        return self.policy.observe(memory, action, reward, next_state)


def exploring(policy: Policy, explore: float, num_actions: int) -> Policy:
    """The policy with a floor: any action with chance ``explore``; a Markov table stays one."""
    share = _as_share("explore", explore)
    if not share:
        return policy
    if isinstance(policy, MarkovPolicy):
        return MarkovPolicy((1.0 - share) * policy.table + share / num_actions)
    return Exploring(policy, share, num_actions)


def _as_share(argument: str, value: object) -> float:
    share = as_number(argument, value)
    if not 0.0 <= share <= 1.0:
        refuse(argument, share, "a number from 0 to 1")
    return share


def uniform(model: RewardMixingMDP) -> MarkovPolicy:
    """Every action equally likely, always."""
    as_instance("model", model, RewardMixingMDP)
    shape = model.horizon, model.num_states, model.num_actions
    afford_table(*shape)
    return MarkovPolicy(np.full(shape, 1.0 / model.num_actions))


def markov(table: ArrayLike, model: RewardMixingMDP) -> MarkovPolicy:
    """A Markov policy from what people have: (S,) or (H, S) actions, or (S, A) or (H, S, A) probabilities."""
    as_instance("model", model, RewardMixingMDP)
    array = as_array("table", table)
    full = model.horizon, model.num_states, model.num_actions
    afford_table(*full)
    if array.dtype.kind in "iu" and array.shape in (full[:2], full[1:2]):
        actions = as_indices("table", array, model.num_actions)
        return MarkovPolicy(certain(np.broadcast_to(actions, full[:2]), model.num_actions))
    if array.shape not in (full, full[1:]):
        refuse(
            "table",
            f"shape {array.shape} of {array.dtype}",
            f"whole numbers of shape {full[1:2]} or {full[:2]}, or probabilities of shape {full[1:]} or {full}",
        )
    return MarkovPolicy(np.broadcast_to(array, full))


def as_tables(argument: str, tables: Any) -> tuple[Ints, ...]:
    """The tables (S, K_t) of actions of each step: the same states in all, and at least one node."""
    if not as_instance(argument, tables, tuple):
        refuse(argument, "no steps", "a table for each step, at least one")
    found = tuple(as_table(f"{argument}[{t}]", table, MOST, (None, None)) for t, table in enumerate(tables))
    for t, table in enumerate(found):
        if table.size == 0 or table.shape[0] != found[0].shape[0]:
            wanted = f"a row for each of {found[0].shape[0]} states, with at least one node"
            refuse(f"{argument}[{t}]", f"shape {table.shape}", wanted)
    return found


def as_table(argument: str, values: Any, count: int, shape: tuple[int | None, ...]) -> Ints:
    """Whole numbers in 0..count-1, signed, in an array that nobody can write to."""
    array = as_indices(argument, values, count, shape)
    signed = array.dtype if array.dtype.kind == "i" else width_of(int(array.max(initial=0)) + 1)
    table: Ints = owned(array, signed.newbyteorder("="))
    return table


def certain(actions: Ints, num_actions: int) -> Floats:
    """(..., A): the law that plays each of ``actions`` (...) for sure."""
    laws = np.zeros((*actions.shape, num_actions))
    np.put_along_axis(laws, actions[..., None].astype(np.int64), 1.0, axis=-1)
    return laws


def _as_index(argument: str, value: Any, count: int, names: tuple[str, ...] = ()) -> int:
    """A state or action as its number, which may be given by name."""
    if type(value) is int and 0 <= value < count:
        return value
    if isinstance(value, str):
        if value in names:
            return names.index(value)
        refuse(argument, repr(value), f"one of {shown(', '.join(names))}" if names else f"a number below {count}")
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < count:
        known = " or a name" if names else ""
        refuse(argument, quoted(value), f"a whole number from 0 to {count - 1}{known}")
    return int(value)


def _check_step(step: int, horizon: int) -> None:
    if step >= horizon:
        refuse("memory", f"step {step}", f"a step before the horizon {horizon}; start the next episode with start()")


def pack_controller(policy: Controller) -> Packed:
    """Arrays and numbers, for a file."""
    arrays: Arrays = {"first": policy.first, "reward_values": policy.reward_values}
    if policy.reward_scale.cuts is not None:  # files without are of any version
        arrays["reward_cuts"] = policy.reward_scale.cuts
    for t, (actions, successors) in enumerate(zip(policy.actions, policy.successors, strict=True)):
        arrays |= {f"actions.{t}": actions, f"successors.{t}": successors}
    names = {"state_names": policy.state_names} if policy.state_names else {}  # files without are of any version
    return arrays, {"horizon": policy.horizon, **names}


def unpack_controller(arrays: Arrays, meta: dict[str, Any]) -> Controller:
    """What ``pack_controller`` packed, checked."""
    steps = stored_steps(meta, arrays)
    return Controller(
        tuple(arrays[f"actions.{t}"] for t in steps),
        tuple(arrays[f"successors.{t}"] for t in steps),
        arrays["first"],
        arrays["reward_values"],
        stored_names(meta, "state_names") if "state_names" in meta else (),
        arrays.get("reward_cuts"),
    )


def stored_names(meta: dict[str, Any], name: str) -> tuple[str, ...]:
    """Names that are stored, all of them texts."""
    names = entry(meta, name, list)
    if any(type(one) is not str for one in names):
        refuse(name, "something that is no text", "names")
    return tuple(names)


def stored_steps(meta: dict[str, Any], arrays: Arrays) -> range:
    """The steps of tables that are stored one by one."""
    horizon = entry(meta, "horizon", int)
    if not 1 <= horizon <= len(arrays):
        refuse("horizon", horizon, f"as many steps as there are tables, at most {len(arrays)}")
    return range(horizon)
