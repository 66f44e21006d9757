"""Wrap Gymnasium environments: add hidden reward functions, or add the last action and reward to the observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import ArrayLike, NDArray

from rewardmix._core.checks import (
    Floats,
    as_count,
    as_floats,
    check_probabilities,
    check_unit_interval,
    raise_input_error,
)
from rewardmix._core.random_streams import Role, make_generator
from rewardmix.environments.rollouts import get_env_sizes, get_reward_values
from rewardmix.environments.single_env import check_type_index, sample

RewardFunction = Callable[[int, int, int, float], float] | ArrayLike
"""Reward of a type: a function (state, action, next state, original reward) -> reward, or a table.

A table (S, A) holds probabilities of the larger reward value.
"""


class RewardMixingWrapper(gymnasium.Wrapper[int, int, int, int], RecordConstructorArgs):
    """Turn an environment with Discrete spaces into a reward-mixing one.

    Each episode draws one of several reward functions (its hidden type) and keeps it until the end. For evaluation, an
    option of ``reset`` fixes the hidden type.

    Args:
        env: Gymnasium environment with Discrete observations and actions.
        reward_functions: One for each type: a function (state, action, next state, original reward) -> reward, or an
            array (S, A) of probabilities of the larger reward value.
        weights: (M,) probability of each type; uniform if None.
        reward_values: (Z,) values that a reward can take, increasing.
        horizon: End every episode after this many steps; None leaves the end to ``env``.

    Attributes:
        reward_values: (Z,) possible rewards.
        horizon: The given horizon; otherwise the attribute of the wrapped environment, if it has one.

    Examples:
        >>> import gymnasium, numpy as np, rewardmix as rm
        >>> lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
        >>> seldom, often = np.full((16, 4), 0.2), np.full((16, 4), 0.8)
        >>> env = rm.RewardMixingWrapper(lake, [seldom, often], horizon=20)
        >>> state, info = env.reset(seed=0)
        >>> [env.step(2)[1] for _ in range(5)]
        [1.0, 1.0, 1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        reward_functions: Sequence[RewardFunction],
        weights: ArrayLike | None = None,
        *,
        reward_values: ArrayLike = (0.0, 1.0),
        horizon: int | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, reward_functions=reward_functions, weights=weights, reward_values=reward_values, horizon=horizon
        )
        gymnasium.Wrapper.__init__(self, env)
        sizes = get_env_sizes(env)
        count = len(reward_functions)
        if count < 2:
            raise_input_error("reward_functions", f"{count} functions", "at least 2, one for each type")
        self.reward_values = as_floats("reward_values", reward_values, (None,))
        self._functions = [_reward_function(m, function, sizes) for m, function in enumerate(reward_functions)]
        self._weights = as_floats("weights", np.full(count, 1 / count) if weights is None else weights, (count,))
        check_probabilities("weights", self._weights, "types")
        if horizon is not None:
            self.horizon = as_count("horizon", horizon)
        self._limit = horizon
        self._rng = np.random.default_rng()
        self._type_index, self._state, self._steps = 0, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Start an episode and draw its hidden type; return (state, info)."""
        inner_options = dict(options or {})
        given_type = inner_options.pop("type", None)
        self._state, info = self.env.reset(seed=seed, options=inner_options or None)
        if seed is not None:  # a separate stream: the paths of ``env`` stay those without the wrapper
            self._rng = make_generator(seed, Role.MIXED_REWARDS)
        # The type is drawn also if it is given, so that later rewards do not depend on the option.
        sampled_type = sample(self._rng, self._weights)
        self._type_index = sampled_type if given_type is None else check_type_index(given_type, len(self._functions))
        self._steps = 0
        return self._state, info

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Play an action; the reward is that of the hidden type."""
        state, original_reward, terminated, truncated, info = self.env.step(action)
        function = self._functions[self._type_index]
        if callable(function):
            reward = float(function(int(self._state), int(action), int(state), float(original_reward)))
        else:
            reward = float(self.reward_values[int(self._rng.random() < function[int(self._state), int(action)])])
        # A tolerance: reward functions compute in floating point, 0.1 + 0.2 must count as 0.3.
        if not np.isclose(self.reward_values, reward, rtol=0, atol=1e-9).any():
            name = f"reward_functions[{self._type_index}]({self._state}, {action}, {state}, {original_reward:g})"
            raise_input_error(name, reward, f"one of the reward values {self.reward_values.tolist()}")
        self._state, self._steps = state, self._steps + 1
        return state, reward, bool(terminated) or self._steps == self._limit, truncated, info


class PreviousActionRewardObservation(gymnasium.Wrapper[Any, int, int, int], RecordConstructorArgs):
    """Add the previous action and reward to the observation, for recurrent deep reinforcement learning.

    The observation is a vector of S + A + 1 numbers: the state one-hot, the previous action one-hot (zeros at the first
    step), and the previous reward.

    Attributes:
        observation_space: Box of shape (S + A + 1,).

    Examples:
        >>> import rewardmix as rm
        >>> env = rm.PreviousActionRewardObservation(rm.make_env("probe"))
        >>> observation, info = env.reset(seed=0)
        >>> observation.tolist()
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        >>> env.step(1)[0].tolist()
        [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self._num_states, self._num_actions = get_env_sizes(env)
        values = get_reward_values(env)
        # The interval always contains 0, the previous reward of the first step.
        lowest, highest = (-np.inf, np.inf) if values is None else (min(values[0], 0.0), max(values[-1], 1.0))
        size = self._num_states + self._num_actions
        low, high = np.append(np.zeros(size), lowest), np.append(np.ones(size), highest)
        self.observation_space = spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; return (observation, info)."""
        state, info = self.env.reset(seed=seed, options=options)
        return self._encode(state, None, 0.0), info

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play an action; return (observation, reward, terminated, truncated, info)."""
        state, reward, terminated, truncated, info = self.env.step(action)
        return self._encode(state, int(action), float(reward)), float(reward), terminated, truncated, info

    def _encode(self, state: int, action: int | None, reward: float) -> NDArray[np.float32]:
        """Return the observation vector."""
        observation = np.zeros(self._num_states + self._num_actions + 1, np.float32)
        observation[int(state)] = 1.0
        if action is not None:
            observation[self._num_states + action] = 1.0
        observation[-1] = reward
        return observation


def _reward_function(m: int, function: RewardFunction, sizes: tuple[int, int]) -> Callable[..., float] | Floats:
    """Return a function unchanged, or a table as an array; raise InputError unless its entries are in [0, 1]."""
    if callable(function):
        return function
    table = as_floats(f"reward_functions[{m}]", function, sizes)
    check_unit_interval(f"reward_functions[{m}]", table)
    return table
