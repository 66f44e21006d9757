"""A reward-mixing MDP, as a frozen struct of arrays.

    S states, A actions, horizon H, M contexts, Z reward values v_0 < ... < v_{Z-1}
    initial     nu[s]            law of the first state
    transition  T[s, a, s']      law of the next state, the same in every context
    weights     w[m]             law of the hidden context, drawn once an episode and kept
    rewards     R_m(z | s, a)    law of the reward value, the only thing that differs between contexts

An episode draws m ~ w and s_1 ~ nu, then H times an action, a reward from R_m(. | s, a) and a next state
from T[s, a]. The value of a policy is its expected sum of the H rewards.

Written for Z = 2 (R is then the probability of the larger value), with x = (s, a):

    average(x)       = sum_m w[m] p_m(x)                                      p_+ of the paper
    gap(x)           = p_1(x) - p_2(x)                                        two contexts
    spread(x)        = sqrt(w[0] w[1]) gap(x)                                 p_- of the paper at w = 1/2
    covariance(x, y) = sum_m w[m] (p_m(x) - average(x)) (p_m(y) - average(y))
                     = spread(x) spread(y)                                    two contexts

For Z > 2 the same formulas hold for the indicators of each reward value, and carry a last axis of length Z.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardmix._core.checks import (
    Floats,
    as_count,
    as_floats,
    at,
    check_probabilities,
    check_shape,
    check_unit_interval,
    first,
    refuse,
    shown,
)
from rewardmix._core.sparse_rows import checked, close
from rewardmix.reward_scale import RewardScale

if TYPE_CHECKING:
    from scipy.sparse import csr_array

BINARY = (0.0, 1.0)
"""Reward values of a Bernoulli reward."""


@dataclass(frozen=True, eq=False)
class RewardMixingMDP:
    """What is known (or believed) about a world whose episodes secretly differ in their rewards.

    Attributes:
        transition: (S, A, S) array, or a scipy CSR array of shape (S*A, S) with row s*A + a.
        initial: (S,).
        weights: (M,), all positive; one context is a Markov decision process.
        rewards: (M, S, A) probability of the larger of two reward values, or (M, S, A, Z) laws.
            Laws over two values are stored as (M, S, A), so the shape depends on Z alone; ``laws`` always has Z.
        horizon: H, the number of actions (and rewards) of an episode.
        reward_values: (Z,), increasing.
        state_names: S names for people, or empty.
        action_names: A names for people, or empty.
        context_names: M names of the types of episodes for people, or empty.
        reward_cuts: (Z - 1,) where raw rewards were put into bins: the smallest of each value but the first; or None.
    """

    transition: Any
    initial: Floats
    weights: Floats
    rewards: Floats
    horizon: int
    reward_values: Floats = BINARY  # type: ignore[assignment]  # stored as an array, given as any sequence
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    context_names: tuple[str, ...] = ()
    reward_cuts: InitVar[Floats | None] = None  # ``reward_scale`` has them

    def __post_init__(self, reward_cuts: Floats | None) -> None:
        initial = as_floats("initial", self.initial, (None,))
        weights = as_floats("weights", self.weights, (None,))
        scale = RewardScale(self.reward_values, reward_cuts)
        values = scale.values
        rewards = _rewards(self.rewards, weights, initial.size, values)
        transition = _transition(self.transition, initial.size, rewards.shape[2])
        check_probabilities("initial", initial, "states")
        _check_weights(weights)
        horizon = as_count("horizon", self.horizon)
        _check_returns(values, horizon)
        for name, value in {
            "transition": transition,
            "initial": initial,
            "weights": weights,
            "rewards": rewards,
            "horizon": horizon,
            "reward_values": values,
            "state_names": _names("state_names", self.state_names, initial.size),
            "action_names": _names("action_names", self.action_names, rewards.shape[2]),
            "context_names": _names("context_names", self.context_names, weights.size),
            "reward_cuts": scale.cuts,
        }.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return (
            f"RewardMixingMDP(states={self.num_states}, actions={self.num_actions}, horizon={self.horizon}, "
            f"contexts={self.num_contexts}, reward_values={tuple(self.reward_values.tolist())}, {kind})"
        )

    @property
    def state_labels(self) -> tuple[str, ...]:
        """What people read for the states, which is their names, or numbers from 1."""
        return self.state_names or _numbered("state", self.num_states)

    @property
    def action_labels(self) -> tuple[str, ...]:
        """The same for the actions."""
        return self.action_names or _numbered("action", self.num_actions)

    @property
    def type_labels(self) -> tuple[str, ...]:
        """The same for the contexts, which people call types."""
        return self.context_names or _numbered("type", self.num_contexts)

    @property
    def num_states(self) -> int:
        """S."""
        return int(self.initial.size)

    @property
    def num_actions(self) -> int:
        """A."""
        return int(self.rewards.shape[2])

    @property
    def num_contexts(self) -> int:
        """M."""
        return int(self.weights.size)

    @property
    def num_values(self) -> int:
        """Z, the number of reward values."""
        return int(self.reward_values.size)

    @cached_property
    def reward_scale(self) -> RewardScale:
        """Which of the values a reward counts as."""
        return RewardScale(self.reward_values, vars(self)["reward_cuts"])

    @property
    def is_sparse(self) -> bool:
        """Whether ``transition`` is a CSR array."""
        return not isinstance(self.transition, np.ndarray)

    @cached_property
    def transition_rows(self) -> Any:
        """(S*A, S): the transition with one row for each x = s*A + a, as an array or a CSR array."""
        return self.transition if self.is_sparse else self.transition.reshape(-1, self.num_states)

    @cached_property
    def laws(self) -> Floats:
        """(M, S, A, Z): the law of the reward in each context."""
        return np.stack([1.0 - self.rewards, self.rewards], axis=-1) if self.num_values == 2 else self.rewards

    @cached_property
    def means(self) -> Floats:
        """(M, S, A): the expected reward in each context."""
        return mixed(self.reward_values, np.moveaxis(self.laws, -1, 0))

    @cached_property
    def mean(self) -> Floats:
        """(S, A): the expected reward over contexts."""
        return mixed(self.weights, self.means)

    @cached_property
    def average(self) -> Floats:
        """(S, A) or (S, A, Z): ``rewards`` averaged over contexts (p_+ of the paper)."""
        return mixed(self.weights, self.rewards)

    @property
    def gap(self) -> Floats:
        """(S, A) or (S, A, Z): p_1 - p_2. Two contexts only."""
        if self.num_contexts != 2:
            refuse("model", f"{self.num_contexts} contexts", "2 contexts, for gap and spread; covariance() takes any")
        return np.asarray(self.rewards[0] - self.rewards[1])

    @property
    def spread(self) -> Floats:
        """(S, A) or (S, A, Z): sqrt(w (1-w)) * gap, so that covariance = outer(spread, spread) (departure 1)."""
        return math.sqrt(self.weights.prod()) * self.gap

    def covariance(self) -> Floats:
        """(X, X), X = S*A, or (X, Z, X, Z): covariance of rewards (of value indicators) at two steps of one episode.

        The diagonal is that of two separate visits of the same x, not the variance of one reward.
        """
        centred = (self.rewards - self.average).reshape(self.num_contexts, -1)
        covariance = mixed(self.weights, [row[:, None] * row for row in centred])
        if self.num_values == 2:
            return covariance
        return covariance.reshape(self.num_states * self.num_actions, self.num_values, -1, self.num_values)


def mixed(weights: Sequence[Any] | Floats, tables: Sequence[Floats] | Floats) -> Floats:
    """sum_m weights[m] tables[m], added in the order of m: the same bits on every machine."""
    total: Floats = np.zeros(np.shape(tables[0]))
    for weight, table in zip(weights, tables, strict=True):
        total = total + weight * table
    return total


def state_action(states: Any, actions: Any, num_actions: int) -> Any:
    """x = (s, a) as one index: s * A + a. The only place that says so."""
    return states * num_actions + actions


def _rewards(rewards: ArrayLike, weights: Floats, num_states: int, values: Floats) -> Floats:
    if weights.size < 1:
        refuse("weights", "no contexts", "at least 1 context")
    array = as_floats("rewards", rewards)
    if array.ndim == 3 and values.size == 2:
        check_shape("rewards", array, (weights.size, num_states, None))
        check_unit_interval("rewards", array)
    elif array.ndim == 4:
        check_shape("rewards", array, (weights.size, num_states, None, values.size))
        check_probabilities("rewards", array, "reward values")
        array = array[..., 1] if values.size == 2 else array
    else:
        m, s, z = weights.size, num_states, values.size
        short = f"({m}, {s}, A) or " if z == 2 else ""
        refuse("rewards", f"shape {array.shape}", f"shape {short}({m}, {s}, A, {z}) for {z} reward values")
    if array.shape[2] < 1:
        refuse("rewards", f"shape {array.shape}", "at least one action")
    return array


def _transition(transition: Any, num_states: int, num_actions: int) -> Any:
    if hasattr(transition, "tocsr"):
        return _sparse_transition(transition, num_states, num_actions)
    array = as_floats("transition", transition, (num_states, num_actions, num_states))
    check_probabilities("transition", array, "next states")
    return array


def _sparse_transition(transition: Any, num_states: int, num_actions: int) -> csr_array:
    from scipy.sparse import csr_array, issparse

    if not issparse(transition):
        refuse("transition", type(transition).__name__, "an array, or a sparse array of scipy")
    wanted = num_states * num_actions, num_states
    if transition.shape != wanted:
        refuse("transition", f"sparse shape {transition.shape}", f"shape (S*A, S) = {wanted}")
    rows = csr_array(checked("transition", transition), dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    bad = ~np.isfinite(rows.data) | (rows.data < 0) | (rows.data > 1)
    if bad.any():
        entry = first(bad)[0]
        where = (*divmod(int(owner[entry]), num_actions), int(rows.indices[entry]))
        refuse(at("transition", where), float(rows.data[entry]), "a probability between 0 and 1")
    sums = np.asarray(rows.sum(axis=1)).ravel()
    off = np.abs(sums - 1.0) > 1e-8
    if off.any():
        row = first(off)[0]
        refuse(
            at("transition", divmod(row, num_actions)),
            f"sum {sums[row]:.12g}",
            "probabilities over next states that sum to 1",
        )
    return close(rows)


def _check_weights(weights: Floats) -> None:
    check_probabilities("weights", weights, "contexts")
    zero = weights <= 0
    if zero.any():
        refuse(at("weights", first(zero)), 0.0, "a positive weight (leave out a context that never occurs)")


def _check_returns(values: Floats, horizon: int) -> None:
    """Refuse rewards whose sums over an episode, or differences of such sums, are no floats."""
    largest = float(np.abs(values).max())
    if largest > sys.float_info.max / 2 / horizon:
        most = f"rewards up to {sys.float_info.max / 2 / horizon:.3g}, of which {horizon} add up to a number"
        refuse("reward_values", f"{largest:g} with a horizon of {horizon}", f"{most}; divide them by a scale")


def _names(argument: str, names: Sequence[str], count: int) -> tuple[str, ...]:
    try:
        given = tuple(names)
    except TypeError:
        refuse(argument, type(names).__name__, f"{count} names, or none")
    if isinstance(names, str) or len(given) not in (0, count):
        refuse(argument, f"{len(given)} names", f"{count} names, or none")
    return tuple(str(name) for name in given)


def with_type_names(model: RewardMixingMDP, names: Sequence[str]) -> RewardMixingMDP:
    """The model with names for its types, all different; none takes them away."""
    return dataclasses.replace(model, context_names=_type_names(names, model.num_contexts))


def _type_names(names: Sequence[str], count: int) -> tuple[str, ...]:
    given = _names("names", names, count)
    again = next((name for i, name in enumerate(given) if name in given[:i]), None)
    if again is not None:
        refuse("names", f"{again!r} twice", "a name of its own for each type")
    return given


def check_type_names(names: Sequence[str], num_contexts: int | str) -> None:
    """Refuse names before anything is learned if they cannot be those of so many types."""
    if isinstance(num_contexts, str):
        if names:
            refuse("names", shown(names), "none where the number of types is left open; named() gives them afterwards")
    elif isinstance(num_contexts, int):
        _type_names(names, num_contexts)


def _numbered(what: str, count: int) -> tuple[str, ...]:
    return tuple(f"{what} {i + 1}" for i in range(count))


def dense_transition(model: RewardMixingMDP) -> NDArray[np.float64]:
    """(S, A, S): the transition as a dense array, whatever its form."""
    if not model.is_sparse:
        return np.asarray(model.transition)
    dense: NDArray[np.float64] = model.transition.toarray()
    return dense.reshape(model.num_states, model.num_actions, model.num_states)
