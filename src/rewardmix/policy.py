"""Define policies: which action to take, given the history of an episode.

A policy is immutable. What it remembers of an episode is a value that the caller keeps:

    memory = policy.start(state)
    action = policy.act(memory, rng)
    memory = policy.observe(memory, action, reward, next_state)

States are integers, or names if the policy knows them; others raise an ``InputError``. After the last step of its
horizon a policy does not act or observe; the next episode begins with ``start``.

A Markov policy depends on (step, state) only. A controller (finite-state controller) has finitely many nodes and moves
on each reward; its value in any model can be computed exactly. A belief policy updates the posterior over types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from rewardmix import belief as bayes
from rewardmix._core.budget import check_budget_table
from rewardmix._core.checks import (
    MAX_COUNT,
    Floats,
    Ints,
    as_array,
    as_floats,
    as_indices,
    as_instance,
    as_number,
    as_readonly_copy,
    check_probabilities,
    format_value,
    quote_value,
    raise_input_error,
)
from rewardmix._core.int_dtypes import smallest_int_dtype
from rewardmix._core.short_repr import use_short_repr
from rewardmix._core.storage import Arrays, Packed, get_metadata
from rewardmix.model import RewardMixingMDP
from rewardmix.reward_scale import RewardScale
from rewardmix.sb3_compat import SB3PredictMixin


class Policy(Protocol):
    """Protocol of all policies. ``memory`` is whatever ``start`` and ``observe`` return.

    Attributes:
        start: Method that begins an episode in a state and returns the memory.
        act: Method that returns the action for a memory.
        observe: Method that returns the memory after one step.

    Examples:
        >>> import numpy as np
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> policy = rm.plan(model).policy
        >>> memory = policy.start("lobby")
        >>> action = policy.act(memory, np.random.default_rng(0))
        >>> model.action_names[action]
        'ask'
        >>> memory = policy.observe(memory, action, 1.0, "lobby")
        >>> model.action_names[policy.act(memory, np.random.default_rng(0))]
        'left door'
    """

    def start(self, state: Any) -> Any:
        """Return the memory at the beginning of an episode that starts in ``state``."""

    def act(self, memory: Any, rng: np.random.Generator) -> int:
        """Return the action for the current memory; ``rng`` is used by randomized policies."""

    def observe(self, memory: Any, action: Any, reward: float, next_state: Any) -> Any:
        """Return the memory after one step."""


@use_short_repr
@dataclass(frozen=True, eq=False)
class MarkovPolicy(SB3PredictMixin):
    """Randomized policy that depends on step and state only.

    Attributes:
        table: Action probabilities, shape (H, S, A).

    Examples:
        >>> import numpy as np
        >>> import rewardmix as rm
        >>> policy = rm.MarkovPolicy(np.full((8, 3, 4), 0.25))
        >>> policy.horizon, policy.num_states
        (8, 3)
        >>> round(rm.evaluate(policy, rm.make_model("probe")).value, 2)
        3.55
    """

    table: Floats

    def __post_init__(self) -> None:
        table = as_floats("table", self.table, (None, None, None))
        check_probabilities("table", table, "actions")
        object.__setattr__(self, "table", table)

    needs_rewards = False

    @property
    def horizon(self) -> int:
        """Return the number of steps, H."""
        return int(self.table.shape[0])

    @property
    def num_states(self) -> int:
        """Return the number of states, S."""
        return int(self.table.shape[1])

    def check_fits(self, model: RewardMixingMDP) -> None:
        """Raise an ``InputError`` for a model with other sizes than this table."""
        shape = model.horizon, model.num_states, model.num_actions
        if self.table.shape != shape:
            raise_input_error("policy", f"a table of shape {self.table.shape}", f"{shape} for this model")

    def start(self, state: int) -> tuple[int, int]:
        """Return the memory (step, state) at the beginning of an episode."""
        return 0, _as_index("state", state, self.table.shape[1])

    def act(self, memory: tuple[int, int], rng: np.random.Generator) -> int:
        """Draw an action from the row of this step and state."""
        step, state = memory
        _check_step(step, self.table.shape[0])
        row = self.table[step, state]
        # A deterministic row draws no random number. Other rows are scaled by their sum, so that rounding
        # cannot select an index behind the last one.
        likely = int(row.argmax())
        return likely if row[likely] == 1.0 else int(np.searchsorted(row.cumsum(), rng.random() * row.sum(), "right"))

    def most_likely_action(self, memory: tuple[int, int]) -> int:
        """Return the action with the highest probability."""
        _check_step(memory[0], self.table.shape[0])
        return int(self.table[memory].argmax())

    def observe(self, memory: tuple[int, int], action: int, reward: float, next_state: int) -> tuple[int, int]:
        """Return the memory (step + 1, next state)."""
        _check_step(memory[0], self.table.shape[0])
        return memory[0] + 1, _as_index("next_state", next_state, self.table.shape[1])


@dataclass(frozen=True, eq=False)
class Controller(SB3PredictMixin):
    """Finite-state controller: a deterministic policy with K_t nodes at step t that moves on each reward.

    In state s at step t with node k it plays actions[t][s, k]. After reward index z the next node is
    next_nodes[t][s, k, z], whatever the next state is. All tables are checked and stored read-only.

    Attributes:
        actions: Action of each state and node, H arrays of shape (S, K_t).
        next_nodes: Next node for each reward, H arrays of shape (S, K_t, Z); those of the last step are not used.
        initial_nodes: Node at step 0 for each initial state, shape (S,).
        reward_values: Possible rewards, shape (Z,).
        state_names: Names that ``start`` and ``observe`` accept for states, or empty.
        reward_cuts: Bin edges of rewards, shape (Z - 1,), or None if rewards are not binned.

    Examples:
        >>> import rewardmix as rm
        >>> controller = rm.plan(rm.make_model("probe")).policy
        >>> controller.horizon, controller.num_states
        (8, 3)
        >>> controller.start("lobby")
        (0, 0, 0)
        >>> controller.observe((0, 0, 0), 1, 1.0, "lobby")
        (1, 0, 2)
    """

    actions: tuple[Ints, ...]
    next_nodes: tuple[Ints, ...]
    initial_nodes: Ints
    reward_values: Floats
    state_names: tuple[str, ...] = ()
    reward_cuts: InitVar[Floats | None] = None  # stored in ``reward_scale``

    def __post_init__(self, reward_cuts: Floats | None) -> None:
        scale = RewardScale(self.reward_values, reward_cuts)
        values = scale.values
        actions = check_tables("actions", self.actions)
        next_nodes = as_instance("next_nodes", self.next_nodes, tuple)
        if len(actions) != len(next_nodes):
            raise_input_error("next_nodes", f"{len(next_nodes)} steps", f"{len(actions)} steps, as many as actions")
        # The next nodes of the last step are not used, so any number is allowed there.
        nodes = [table.shape[1] for table in actions[1:]] + [MAX_COUNT]
        next_nodes = tuple(
            check_table(f"next_nodes[{t}]", table, nodes[t], (*actions[t].shape, values.size))
            for t, table in enumerate(next_nodes)
        )
        initial_nodes = check_table("initial_nodes", self.initial_nodes, actions[0].shape[1], (actions[0].shape[0],))
        if len(self.state_names) not in (0, initial_nodes.size):
            raise_input_error("state_names", f"{len(self.state_names)} names", f"{initial_nodes.size} names, or none")
        fields = {
            "actions": actions,
            "next_nodes": next_nodes,
            "initial_nodes": initial_nodes,
            "reward_values": values,
            "reward_cuts": scale.cuts,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @cached_property
    def reward_scale(self) -> RewardScale:
        """Return the mapping of raw rewards to reward values."""
        return RewardScale(self.reward_values, vars(self)["reward_cuts"])

    @property
    def horizon(self) -> int:
        """Return the number of steps, H."""
        return len(self.actions)

    def __repr__(self) -> str:
        values = ", ".join(f"{value:g}" for value in self.reward_values[:4])
        more = ", ..." * (self.reward_values.size > 4)
        sizes = f"horizon={self.horizon}, states={self.initial_nodes.size}, nodes={self.size}"
        return f"Controller({sizes}, reward_values=({values}{more}))"

    @property
    def num_states(self) -> int:
        """Return the number of states, S."""
        return int(self.initial_nodes.size)

    @cached_property
    def max_action(self) -> int:
        """Return the largest action of the tables."""
        return max(int(actions.max()) for actions in self.actions)

    @property
    def size(self) -> int:
        """Return the number of nodes, counted for each step and state."""
        return sum(actions.size for actions in self.actions)

    @property
    def nbytes(self) -> int:
        """Return the memory of the tables in bytes."""
        return sum(array.nbytes for array in (*self.actions, *self.next_nodes, self.initial_nodes))

    def check_fits(self, model: RewardMixingMDP) -> None:
        """Raise an ``InputError`` for a model in which this controller cannot be played."""
        own_shape = self.horizon, self.initial_nodes.size, self.reward_values.size
        model_shape = model.horizon, model.num_states, model.num_values
        if own_shape != model_shape:
            raise_input_error(
                "policy",
                f"a controller of (horizon, states, reward values) = {own_shape}",
                f"{model_shape} for this model",
            )
        if self.max_action >= model.num_actions:
            raise_input_error(
                "policy", f"a controller that plays action {self.max_action}", f"actions below {model.num_actions}"
            )

    def start(self, state: int | str) -> tuple[int, int, int]:
        """Return the memory (step, state, node) at the beginning of an episode."""
        index = _as_index("state", state, self.initial_nodes.size, self.state_names)
        return 0, index, int(self.initial_nodes[index])

    def act(self, memory: tuple[int, int, int], rng: np.random.Generator) -> int:
        """Return the action of the current node."""
        step, state, node = memory
        _check_step(step, self.horizon)
        return int(self.actions[step][state, node])

    def observe(
        self, memory: tuple[int, int, int], action: int | str, reward: float, next_state: int | str
    ) -> tuple[int, int, int]:
        """Return the memory (step + 1, next state, next node); the reward alone determines the next node."""
        step, state, node = memory
        _check_step(step, len(self.actions))
        next_index = _as_index("next_state", next_state, self.initial_nodes.size, self.state_names)
        reward_index = self.reward_scale.level(reward)
        return step + 1, next_index, int(self.next_nodes[step][state, node, reward_index])


@use_short_repr
@dataclass(frozen=True, eq=False)
class BeliefPolicy(SB3PredictMixin):
    """Policy that decides by step, state and the belief (posterior over types) under a model.

    Attributes:
        model: Model that defines the belief.
        decision_rule: Function (step, state, belief of shape (M,)) -> action.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> policy = rm.BeliefPolicy(model, lambda step, state, belief: int(belief.argmax()))
        >>> memory = policy.start("lobby")
        >>> step, state, belief = policy.observe(memory, "ask", 1.0, "lobby")
        >>> belief.tolist()
        [1.0, 0.0]
    """

    model: RewardMixingMDP
    decision_rule: Callable[[int, int, Floats], int]

    def __post_init__(self) -> None:
        as_instance("model", self.model, RewardMixingMDP)
        if not callable(self.decision_rule):
            raise_input_error(
                "decision_rule", type(self.decision_rule).__name__, "a function (step, state, belief) -> action"
            )
        # Decision rules such as alpha vectors belong to a model of certain sizes; plain functions have no such
        # check.
        check_fits = getattr(self.decision_rule, "check_fits", None)
        if check_fits is not None:
            check_fits(self.model)

    @property
    def horizon(self) -> int:
        """Return the number of steps, H."""
        return self.model.horizon

    @property
    def num_states(self) -> int:
        """Return the number of states, S."""
        return self.model.num_states

    def posterior(self, memory: tuple[int, int, Floats]) -> Floats:
        """Return the belief that a memory contains, shape (M,)."""
        return memory[2]

    def start(self, state: int | str) -> tuple[int, int, Floats]:
        """Return the memory (step, state, belief) at the beginning of an episode."""
        return 0, _as_index("state", state, self.model.num_states, self.model.state_names), self.model.weights

    def act(self, memory: tuple[int, int, Floats], rng: np.random.Generator) -> int:
        """Return the action of ``decision_rule``."""
        _check_step(memory[0], self.model.horizon)
        return int(self.decision_rule(*memory))

    def observe(
        self, memory: tuple[int, int, Floats], action: int | str, reward: float, next_state: int | str
    ) -> tuple[int, int, Floats]:
        """Return the memory (step + 1, next state, updated belief)."""
        step, state, belief = memory
        _check_step(step, self.model.horizon)
        action_index = _as_index("action", action, self.model.num_actions, self.model.action_names)
        next_index = _as_index("next_state", next_state, self.model.num_states, self.model.state_names)
        reward_index = self.model.reward_scale.level(reward)
        return step + 1, next_index, bayes.update(belief, self.model.reward_probs[:, state, action_index, reward_index])


@use_short_repr
@dataclass(frozen=True, eq=False)
class EpsilonGreedyPolicy(SB3PredictMixin):
    """Policy that plays another policy, but a uniformly random action with a small probability.

    Its log has support for all actions, which the next fit and off-policy evaluation need. A wrapped controller moves
    by the reward also after a random action.

    Attributes:
        policy: Wrapped policy.
        explore_prob: Probability of a random action at each step.
        num_actions: Number of actions, A.

    Examples:
        >>> import numpy as np
        >>> import rewardmix as rm
        >>> policy = rm.EpsilonGreedyPolicy(rm.plan(rm.make_model("probe")).policy, 0.1, num_actions=4)
        >>> memory, rng = policy.start("lobby"), np.random.default_rng(0)
        >>> [policy.act(memory, rng) for _ in range(8)]
        [1, 1, 0, 1, 1, 1, 1, 1]
    """

    policy: Policy
    explore_prob: float
    num_actions: int

    def __post_init__(self) -> None:
        _check_prob("explore_prob", self.explore_prob)

    @property
    def num_states(self) -> int:
        """Return the number of states of the wrapped policy, or 0 if it is unknown."""
        return int(getattr(self.policy, "num_states", 0))

    def most_likely_action(self, memory: Any) -> int:
        """Return the action of the wrapped policy."""
        return self.policy.act(memory, None)  # type: ignore[arg-type]  # no random number is drawn

    def start(self, state: int) -> Any:
        """Return the initial memory of the wrapped policy."""
        return self.policy.start(state)

    def act(self, memory: Any, rng: np.random.Generator) -> int:
        """Return the action of the wrapped policy, or a uniformly random one."""
        # The wrapped policy draws first and always, so its random numbers do not depend on the exploration.
        policy_action = self.policy.act(memory, rng)
        return int(rng.integers(self.num_actions)) if rng.random() < self.explore_prob else policy_action

    def observe(self, memory: Any, action: int, reward: float, next_state: int) -> Any:
        """Return the next memory of the wrapped policy."""
        return self.policy.observe(memory, action, reward, next_state)


def make_epsilon_greedy(policy: Policy, explore: float, num_actions: int) -> Policy:
    """Mix a policy with uniformly random actions of probability ``explore``; a Markov policy stays one."""
    explore_prob = _check_prob("explore", explore)
    if not explore_prob:
        return policy
    # Folding the exploration into the table keeps the policy Markov, with exact value and compiled simulation.
    if isinstance(policy, MarkovPolicy):
        return MarkovPolicy((1.0 - explore_prob) * policy.table + explore_prob / num_actions)
    return EpsilonGreedyPolicy(policy, explore_prob, num_actions)


def _check_prob(argument: str, value: object) -> float:
    """Check a probability."""
    prob = as_number(argument, value)
    if not 0.0 <= prob <= 1.0:
        raise_input_error(argument, prob, "a number from 0 to 1")
    return prob


def uniform_policy(model: RewardMixingMDP) -> MarkovPolicy:
    """Make the policy that plays every action with equal probability.

    Args:
        model: Model that gives the numbers of steps, states and actions.

    Returns:
        Policy whose table has the entries 1 / A.

    Raises:
        InputError: If ``model`` is no model, or the table does not fit into memory.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> policy = rm.uniform_policy(model)
        >>> policy.table[0, 0].tolist()
        [0.25, 0.25, 0.25, 0.25]
        >>> round(rm.evaluate(policy, model).value, 2)
        3.55
    """
    as_instance("model", model, RewardMixingMDP)
    shape = model.horizon, model.num_states, model.num_actions
    check_budget_table(*shape)
    return MarkovPolicy(np.full(shape, 1.0 / model.num_actions))


def markov_policy(table: ArrayLike, model: RewardMixingMDP) -> MarkovPolicy:
    """Make a Markov policy from a table of actions or of action probabilities.

    Args:
        table: Actions (integers) of shape (S,) or (H, S), or action probabilities of shape (S, A) or (H, S, A). A table
            without the axis H is used at every step.
        model: Model that gives the numbers of steps, states and actions.

    Returns:
        Policy with a table of shape (H, S, A).

    Raises:
        InputError: If the table has another shape, an unknown action, or rows that are no probabilities.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> policy = rm.markov_policy([0, 0, 0], model)
        >>> policy.table.shape
        (8, 3, 4)
        >>> round(rm.evaluate(policy, model).value, 2)
        2.4
    """
    as_instance("model", model, RewardMixingMDP)
    array = as_array("table", table)
    full = model.horizon, model.num_states, model.num_actions
    check_budget_table(*full)
    if array.dtype.kind in "iu" and array.shape in (full[:2], full[1:2]):
        actions = as_indices("table", array, model.num_actions)
        return MarkovPolicy(one_hot_actions(np.broadcast_to(actions, full[:2]), model.num_actions))
    if array.shape not in (full, full[1:]):
        raise_input_error(
            "table",
            f"shape {array.shape} of {array.dtype}",
            f"whole numbers of shape {full[1:2]} or {full[:2]}, or probabilities of shape {full[1:]} or {full}",
        )
    # The constructor checks the rows and copies, so the broadcast view does not remain.
    return MarkovPolicy(np.broadcast_to(array, full))


def check_tables(argument: str, tables: Any) -> tuple[Ints, ...]:
    """Check the action tables of all steps: equal numbers of states, and at least one node."""
    if not as_instance(argument, tables, tuple):
        raise_input_error(argument, "no tables", "a table for each of at least one step")
    checked_tables = tuple(
        check_table(f"{argument}[{t}]", table, MAX_COUNT, (None, None)) for t, table in enumerate(tables)
    )
    for t, table in enumerate(checked_tables):
        if table.size == 0 or table.shape[0] != checked_tables[0].shape[0]:
            expected = f"a row for each of {checked_tables[0].shape[0]} states, with at least one node"
            raise_input_error(f"{argument}[{t}]", f"shape {table.shape}", expected)
    return checked_tables


def check_table(argument: str, values: Any, count: int, shape: tuple[int | None, ...]) -> Ints:
    """Check integers in 0..count-1 and return them as a read-only, signed array."""
    array = as_indices(argument, values, count, shape)
    # Kernels mix these indices with signed integers; NumPy would convert unsigned 64-bit indices to float.
    signed = array.dtype if array.dtype.kind == "i" else smallest_int_dtype(int(array.max(initial=0)) + 1)
    table: Ints = as_readonly_copy(array, signed.newbyteorder("="))
    return table


def one_hot_actions(actions: Ints, num_actions: int) -> Floats:
    """Return the probabilities (..., A) that put 1 on each of ``actions`` (...)."""
    probs = np.zeros((*actions.shape, num_actions))
    np.put_along_axis(probs, actions[..., None].astype(np.int64), 1.0, axis=-1)
    return probs


def _as_index(argument: str, value: Any, count: int, names: tuple[str, ...] = ()) -> int:
    """Convert a state or action, given as index or name, to its index."""
    # Fast path: this function runs at every step of every episode.
    if type(value) is int and 0 <= value < count:
        return value
    if isinstance(value, str):
        if value in names:
            return names.index(value)
        raise_input_error(
            argument, repr(value), f"one of {format_value(', '.join(names))}" if names else f"a number below {count}"
        )
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < count:
        suffix = " or a name" if names else ""
        raise_input_error(argument, quote_value(value), f"a whole number from 0 to {count - 1}{suffix}")
    return int(value)


def _check_step(step: int, horizon: int) -> None:
    """Raise an ``InputError`` for a step beyond the horizon."""
    if step >= horizon:
        raise_input_error(
            "memory", f"step {step}", f"a step before the horizon {horizon}; start the next episode with start()"
        )


def pack_controller(policy: Controller) -> Packed:
    """Convert a controller to arrays and metadata for a file."""
    arrays: Arrays = {"initial_nodes": policy.initial_nodes, "reward_values": policy.reward_values}
    # Optional entries are written only if they are present.
    if policy.reward_scale.cuts is not None:
        arrays["reward_cuts"] = policy.reward_scale.cuts
    for t, (actions, next_nodes) in enumerate(zip(policy.actions, policy.next_nodes, strict=True)):
        arrays |= {f"actions.{t}": actions, f"next_nodes.{t}": next_nodes}
    names = {"state_names": policy.state_names} if policy.state_names else {}
    return arrays, {"horizon": policy.horizon, **names}


def unpack_controller(arrays: Arrays, meta: dict[str, Any]) -> Controller:
    """Build a controller from arrays and metadata of a file, with all checks."""
    steps = get_steps(meta, arrays)
    return Controller(
        tuple(arrays[f"actions.{t}"] for t in steps),
        tuple(arrays[f"next_nodes.{t}"] for t in steps),
        arrays["initial_nodes"],
        arrays["reward_values"],
        get_names(meta, "state_names") if "state_names" in meta else (),
        arrays.get("reward_cuts"),
    )


def get_names(meta: dict[str, Any], name: str) -> tuple[str, ...]:
    """Read names from metadata and check that all of them are strings."""
    names = get_metadata(meta, name, list)
    if any(type(label) is not str for label in names):
        raise_input_error(name, "a value that is not a string", "strings")
    return tuple(names)


def get_steps(meta: dict[str, Any], arrays: Arrays) -> range:
    """Read the horizon from metadata and return the steps of tables stored one by one."""
    horizon = get_metadata(meta, "horizon", int)
    if not 1 <= horizon <= len(arrays):
        raise_input_error("horizon", horizon, f"the number of tables, from 1 to {len(arrays)}")
    return range(horizon)
