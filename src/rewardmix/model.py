"""Define the reward-mixing MDP as an immutable set of arrays.

    S states, A actions, horizon H, M types, Z reward values v_0 < ... < v_{Z-1}
    initial     nu[s]            distribution of the initial state
    transition  T[s, a, s']      distribution of the next state, equal for all types
    weights     w[m]             distribution of the hidden type, drawn once per episode
    rewards     p_m(z | s, a)    distribution of the reward value; types differ in nothing else

An episode draws m ~ w and s_1 ~ nu. Each of its H steps takes an action, draws a reward from p_m(. | s, a) and a next
state from T[s, a]. The value of a policy is the expected sum of the H rewards. The model is also known as latent MDP or
hidden-mode MDP; it is a POMDP whose hidden state, the type, does not change within an episode.

For Z = 2, p_m(x) is the probability of the larger value at x = (s, a), and

    marginal_rewards(x)   = sum_m w[m] p_m(x)                                       p_+ of the paper
    reward_difference(x)  = p_1(x) - p_2(x)                                         two types
    loadings(x)           = sqrt(w[0] w[1]) reward_difference(x)                    p_- of the paper at w = 1/2
    covariance(x, y)      = sum_m w[m] (p_m(x) - p_+(x)) (p_m(y) - p_+(y))
                          = loadings(x) loadings(y)                                 two types

For Z > 2 these formulas hold for the indicator of each reward value, and the arrays have a last axis of length Z.
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
    check_probabilities,
    check_shape,
    check_unit_interval,
    first_index,
    format_index,
    format_value,
    raise_input_error,
)
from rewardmix._core.csr_checks import check_sparse, mark_csr_readonly
from rewardmix.reward_scale import RewardScale

if TYPE_CHECKING:
    from scipy.sparse import csr_array

BERNOULLI_VALUES = (0.0, 1.0)
"""Reward values of a Bernoulli reward."""


@dataclass(frozen=True, eq=False)
class RewardMixingMDP:
    """Model of an environment whose episodes have one of several hidden types with different rewards.

    All arrays are checked and stored read-only.

    Attributes:
        transition: Transition probabilities, shape (S, A, S), or a SciPy CSR array of shape (S*A, S) with row s*A + a.
        initial: Probabilities of the initial state, shape (S,).
        weights: Probabilities of the types, shape (M,), all positive. One type is an ordinary Markov decision process.
        rewards: Probability of the larger of two reward values, shape (M, S, A), or reward probabilities, shape
            (M, S, A, Z). Two values are always stored as (M, S, A); ``reward_probs`` always has the axis Z.
        horizon: Number of steps of an episode, H.
        reward_values: Possible rewards in increasing order, shape (Z,).
        state_names: Names of the states, or empty.
        action_names: Names of the actions, or empty.
        type_names: Names of the types, or empty.
        reward_cuts: Bin edges of rewards, shape (Z - 1,): the smallest raw reward of each value but the first. None if
            rewards are not binned.

    Examples:
        >>> import numpy as np
        >>> import rewardmix as rm
        >>> model = rm.RewardMixingMDP(
        ...     transition=np.ones((1, 2, 1)),
        ...     initial=[1.0],
        ...     weights=[0.5, 0.5],
        ...     rewards=[[[0.9, 0.1]], [[0.1, 0.9]]],
        ...     horizon=4,
        ... )
        >>> model.num_types, model.mean_rewards.tolist()
        (2, [[0.5, 0.5]])
        >>> model.reward_difference.tolist()
        [[0.8, -0.8]]
        >>> round(rm.plan(model).lower, 2)
        3.02
    """

    transition: Any
    initial: Floats
    weights: Floats
    rewards: Floats
    horizon: int
    reward_values: Floats = BERNOULLI_VALUES  # type: ignore[assignment]  # any sequence, stored as array
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    type_names: tuple[str, ...] = ()
    reward_cuts: InitVar[Floats | None] = None  # stored in ``reward_scale``

    def __post_init__(self, reward_cuts: Floats | None) -> None:
        initial = as_floats("initial", self.initial, (None,))
        weights = as_floats("weights", self.weights, (None,))
        scale = RewardScale(self.reward_values, reward_cuts)
        values = scale.values
        rewards = _check_rewards(self.rewards, weights, initial.size, values)
        transition = _check_transition(self.transition, initial.size, rewards.shape[2])
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
            "state_names": _check_names("state_names", self.state_names, initial.size),
            "action_names": _check_names("action_names", self.action_names, rewards.shape[2]),
            "type_names": _check_names("type_names", self.type_names, weights.size),
            "reward_cuts": scale.cuts,
        }.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return (
            f"RewardMixingMDP(states={self.num_states}, actions={self.num_actions}, horizon={self.horizon}, "
            f"types={self.num_types}, reward_values={tuple(self.reward_values.tolist())}, {kind})"
        )

    @property
    def state_labels(self) -> tuple[str, ...]:
        """Return the state names, or "state 1", "state 2", ... if there are none."""
        return self.state_names or _numbered_names("state", self.num_states)

    @property
    def action_labels(self) -> tuple[str, ...]:
        """Return the action names, or "action 1", "action 2", ... if there are none."""
        return self.action_names or _numbered_names("action", self.num_actions)

    @property
    def type_labels(self) -> tuple[str, ...]:
        """Return the type names, or "type 1", "type 2", ... if there are none."""
        return self.type_names or _numbered_names("type", self.num_types)

    @property
    def num_states(self) -> int:
        """Return the number of states, S."""
        return int(self.initial.size)

    @property
    def num_actions(self) -> int:
        """Return the number of actions, A."""
        return int(self.rewards.shape[2])

    @property
    def num_types(self) -> int:
        """Return the number of types, M."""
        return int(self.weights.size)

    @property
    def num_values(self) -> int:
        """Return the number of reward values, Z."""
        return int(self.reward_values.size)

    @cached_property
    def reward_scale(self) -> RewardScale:
        """Return the mapping of raw rewards to reward values."""
        return RewardScale(self.reward_values, vars(self)["reward_cuts"])

    @property
    def is_sparse(self) -> bool:
        """Return whether ``transition`` is a CSR array."""
        return not isinstance(self.transition, np.ndarray)

    @cached_property
    def transition_rows(self) -> Any:
        """Return the transition with one row per state-action x = s*A + a, shape (S*A, S), dense or CSR."""
        return self.transition if self.is_sparse else self.transition.reshape(-1, self.num_states)

    @cached_property
    def reward_probs(self) -> Floats:
        """Return the reward probabilities of each type, shape (M, S, A, Z)."""
        return np.stack([1.0 - self.rewards, self.rewards], axis=-1) if self.num_values == 2 else self.rewards

    @cached_property
    def mean_rewards_by_type(self) -> Floats:
        """Return the expected reward of each type, shape (M, S, A)."""
        return weighted_sum(self.reward_values, np.moveaxis(self.reward_probs, -1, 0))

    @cached_property
    def mean_rewards(self) -> Floats:
        """Return the expected reward averaged over types, shape (S, A)."""
        return weighted_sum(self.weights, self.mean_rewards_by_type)

    @cached_property
    def marginal_rewards(self) -> Floats:
        """Return ``rewards`` averaged over types (p_+ of the paper), shape (S, A) or (S, A, Z)."""
        return weighted_sum(self.weights, self.rewards)

    @property
    def reward_difference(self) -> Floats:
        """Return p_1 - p_2 for two types, shape (S, A) or (S, A, Z)."""
        if self.num_types != 2:
            raise_input_error(
                "model",
                f"{self.num_types} types",
                "2 types for reward_difference and loadings; covariance() takes any number",
            )
        return np.asarray(self.rewards[0] - self.rewards[1])

    @property
    def loadings(self) -> Floats:
        """Return sqrt(w (1 - w)) * reward_difference for two types, shape (S, A) or (S, A, Z).

        Then covariance = outer(loadings, loadings) for any weight w (departure 1 of docs/concepts/paper-and-code.md).
        """
        return math.sqrt(self.weights.prod()) * self.reward_difference

    def covariance(self) -> Floats:
        """Compute the covariance of rewards at two steps of one episode.

        The shape is (X, X), X = S*A; for Z > 2 it is (X, Z, X, Z), for the indicators of reward values. Entries of the
        diagonal belong to two separate visits of x; they are not the variance of one reward.
        """
        # Centering before the product avoids the cancellation in E[xy] - E[x] E[y].
        centered = (self.rewards - self.marginal_rewards).reshape(self.num_types, -1)
        covariance = weighted_sum(self.weights, [row[:, None] * row for row in centered])
        if self.num_values == 2:
            return covariance
        return covariance.reshape(self.num_states * self.num_actions, self.num_values, -1, self.num_values)


def weighted_sum(weights: Sequence[Any] | Floats, tables: Sequence[Floats] | Floats) -> Floats:
    """Compute sum_m weights[m] tables[m], added in the order of m."""
    # A matrix product would leave the order of summation to the BLAS library. A fixed order gives identical
    # bits on all machines.
    total: Floats = np.zeros(np.shape(tables[0]))
    for weight, table in zip(weights, tables, strict=True):
        total = total + weight * table
    return total


def state_action_index(states: Any, actions: Any, num_actions: int) -> Any:
    """Compute the state-action index x = s * A + a."""
    return states * num_actions + actions


def _check_rewards(rewards: ArrayLike, weights: Floats, num_states: int, values: Floats) -> Floats:
    """Check the rewards and return them as (M, S, A) for two values, else as (M, S, A, Z)."""
    if weights.size < 1:
        raise_input_error("weights", "no types", "at least 1 type")
    array = as_floats("rewards", rewards)
    if array.ndim == 3 and values.size == 2:
        check_shape("rewards", array, (weights.size, num_states, None))
        check_unit_interval("rewards", array)
    elif array.ndim == 4:
        check_shape("rewards", array, (weights.size, num_states, None, values.size))
        check_probabilities("rewards", array, "reward values")
        # One shape for each Z: two models that differ only in how their rewards were given are then equal.
        array = array[..., 1] if values.size == 2 else array
    else:
        m, s, z = weights.size, num_states, values.size
        short = f"({m}, {s}, A) or " if z == 2 else ""
        raise_input_error("rewards", f"shape {array.shape}", f"shape {short}({m}, {s}, A, {z}) for {z} reward values")
    if array.shape[2] < 1:
        raise_input_error("rewards", f"shape {array.shape}", "at least one action")
    return array


def _check_transition(transition: Any, num_states: int, num_actions: int) -> Any:
    """Check a dense or sparse transition."""
    if hasattr(transition, "tocsr"):
        return _check_sparse_transition(transition, num_states, num_actions)
    array = as_floats("transition", transition, (num_states, num_actions, num_states))
    check_probabilities("transition", array, "next states")
    return array


def _check_sparse_transition(transition: Any, num_states: int, num_actions: int) -> csr_array:
    """Check a sparse transition and return it as canonical, read-only CSR array."""
    from scipy.sparse import csr_array, issparse

    if not issparse(transition):
        raise_input_error("transition", type(transition).__name__, "an array, or a sparse array of SciPy")
    expected = num_states * num_actions, num_states
    if transition.shape != expected:
        raise_input_error("transition", f"sparse shape {transition.shape}", f"shape (S*A, S) = {expected}")
    # The copy is needed: the two calls below work in place and would change the caller's array.
    rows = csr_array(check_sparse("transition", transition), dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    row_of_entry = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    bad = ~np.isfinite(rows.data) | (rows.data < 0) | (rows.data > 1)
    if bad.any():
        entry = first_index(bad)[0]
        index = (*divmod(int(row_of_entry[entry]), num_actions), int(rows.indices[entry]))
        raise_input_error(format_index("transition", index), float(rows.data[entry]), "a probability between 0 and 1")
    sums = np.asarray(rows.sum(axis=1)).ravel()
    # Rounding of user-supplied probabilities stays far below this tolerance, mistakes far above it.
    bad_rows = np.abs(sums - 1.0) > 1e-8
    if bad_rows.any():
        row = first_index(bad_rows)[0]
        raise_input_error(
            format_index("transition", divmod(row, num_actions)),
            f"sum {sums[row]:.12g}",
            "probabilities over next states that sum to 1",
        )
    return mark_csr_readonly(rows)


def _check_weights(weights: Floats) -> None:
    """Raise an ``InputError`` unless the weights are positive and sum to 1."""
    check_probabilities("weights", weights, "types")
    zero = weights <= 0
    if zero.any():
        raise_input_error(
            format_index("weights", first_index(zero)), 0.0, "a positive weight (leave out a type that never occurs)"
        )


def _check_returns(values: Floats, horizon: int) -> None:
    """Raise an ``InputError`` if a sum of H rewards, or a difference of such sums, may overflow a float."""
    # Half of the largest float, so that differences of two returns do not overflow either.
    largest = float(np.abs(values).max())
    if largest > sys.float_info.max / 2 / horizon:
        expected = f"rewards up to {sys.float_info.max / 2 / horizon:.3g}, of which {horizon} add up to a number"
        raise_input_error(
            "reward_values", f"{largest:g} with a horizon of {horizon}", f"{expected}; divide them by a scale"
        )


def _check_names(argument: str, names: Sequence[str], count: int) -> tuple[str, ...]:
    """Check that there are ``count`` names, or none."""
    try:
        value = tuple(names)
    except TypeError:
        raise_input_error(argument, type(names).__name__, f"{count} names, or none")
    if isinstance(names, str) or len(value) not in (0, count):
        raise_input_error(argument, f"{len(value)} names", f"{count} names, or none")
    return tuple(str(name) for name in value)


def set_type_names(model: RewardMixingMDP, names: Sequence[str]) -> RewardMixingMDP:
    """Return the model with distinct names for its types; an empty sequence removes them."""
    return dataclasses.replace(model, type_names=_check_type_names(names, model.num_types))


def _check_type_names(names: Sequence[str], count: int) -> tuple[str, ...]:
    """Check that the type names are distinct."""
    value = _check_names("names", names, count)
    duplicate = next((name for i, name in enumerate(value) if name in value[:i]), None)
    if duplicate is not None:
        raise_input_error("names", f"{duplicate!r} twice", "unique type names")
    return value


def check_type_names(names: Sequence[str], num_types: int | str) -> None:
    """Raise an ``InputError`` if type names do not fit the number of types, before anything is computed."""
    if isinstance(num_types, str):
        if names:
            raise_input_error(
                "names",
                format_value(names),
                "no names while the number of types is open; use with_type_names() on the result",
            )
    elif isinstance(num_types, int):
        _check_type_names(names, num_types)


def _numbered_names(what: str, count: int) -> tuple[str, ...]:
    """Return the names "<what> 1", "<what> 2", ..."""
    return tuple(f"{what} {i + 1}" for i in range(count))


def dense_transition(model: RewardMixingMDP) -> NDArray[np.float64]:
    """Return the transition as a dense array of shape (S, A, S)."""
    if not model.is_sparse:
        return np.asarray(model.transition)
    dense: NDArray[np.float64] = model.transition.toarray()
    return dense.reshape(model.num_states, model.num_actions, model.num_states)
