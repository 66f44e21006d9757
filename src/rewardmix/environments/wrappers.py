"""Wrappers: make any small environment a reward-mixing one, and give memory to agents that have none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import ArrayLike, NDArray

from rewardmix._core.checks import Floats, as_count, as_floats, check_probabilities, check_unit_interval, refuse
from rewardmix._core.streams import Role, generator
from rewardmix.environments.playing import reward_values_of, sizes_of
from rewardmix.environments.single import checked_context, draw

RewardFunction = Callable[[int, int, int, float], float] | ArrayLike
"""(state, action, next state, original reward) -> reward; or (S, A) probabilities of the larger reward value."""


class MixRewards(gymnasium.Wrapper[int, int, int, int], RecordConstructorArgs):
    """Draw one of several reward functions at the start of each episode and keep it hidden until the end.

    Args:
        env: any environment with Discrete observations and actions.
        reward_functions: one for each context, see ``RewardFunction``.
        weights: probability of each context; uniform if left out.
        reward_values: the values that a reward can take.
        horizon: end every episode after this many steps (left out: when ``env`` does).
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
        sizes = sizes_of(env)
        count = len(reward_functions)
        if count < 2:
            refuse("reward_functions", f"{count} functions", "at least 2, one for each context")
        self.reward_values = as_floats("reward_values", reward_values, (None,))
        self._functions = [_reward_function(m, given, sizes) for m, given in enumerate(reward_functions)]
        self._weights = as_floats("weights", np.full(count, 1 / count) if weights is None else weights, (count,))
        check_probabilities("weights", self._weights, "contexts")
        if horizon is not None:
            self.horizon = as_count("horizon", horizon)
        self._limit = horizon
        self._rng = np.random.default_rng()
        self._context, self._state, self._steps = 0, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Start an episode; ``options={"context": m}`` fixes the hidden context, for evaluation only."""
        inner = dict(options or {})
        context = inner.pop("context", None)
        self._state, info = self.env.reset(seed=seed, options=inner or None)
        if seed is not None:  # a stream of its own, so that the paths of ``env`` are those of the bare environment
            self._rng = generator(seed, Role.MIXED_REWARDS)
        drawn = draw(self._rng, self._weights)
        self._context = drawn if context is None else checked_context(context, len(self._functions))
        self._steps = 0
        return self._state, info

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Play an action; the reward is that of the hidden context."""
        state, original, terminated, truncated, info = self.env.step(action)
        chosen = self._functions[self._context]
        if callable(chosen):
            reward = float(chosen(int(self._state), int(action), int(state), float(original)))
        else:
            reward = float(self.reward_values[int(self._rng.random() < chosen[int(self._state), int(action)])])
        if not np.isclose(self.reward_values, reward, rtol=0, atol=1e-9).any():
            name = f"reward_functions[{self._context}]({self._state}, {action}, {state}, {original:g})"
            refuse(name, reward, f"one of the reward values {self.reward_values.tolist()}")
        self._state, self._steps = state, self._steps + 1
        return state, reward, bool(terminated) or self._steps == self._limit, truncated, info


class PreviousActionReward(gymnasium.Wrapper[Any, int, int, int], RecordConstructorArgs):
    """Observation for recurrent agents: one-hot state, one-hot previous action (zeros at first), previous reward."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self._num_states, self._num_actions = sizes_of(env)
        values = reward_values_of(env)
        lowest, highest = (-np.inf, np.inf) if values is None else (min(values[0], 0.0), max(values[-1], 1.0))
        size = self._num_states + self._num_actions
        low, high = np.append(np.zeros(size), lowest), np.append(np.ones(size), highest)
        self.observation_space = spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        state, info = self.env.reset(seed=seed, options=options)
        return self._encode(state, None, 0.0), info

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play an action."""
        state, reward, terminated, truncated, info = self.env.step(action)
        return self._encode(state, int(action), float(reward)), float(reward), terminated, truncated, info

    def _encode(self, state: int, action: int | None, reward: float) -> NDArray[np.float32]:
        observation = np.zeros(self._num_states + self._num_actions + 1, np.float32)
        observation[int(state)] = 1.0
        if action is not None:
            observation[self._num_states + action] = 1.0
        observation[-1] = reward
        return observation


def _reward_function(m: int, given: RewardFunction, sizes: tuple[int, int]) -> Callable[..., float] | Floats:
    if callable(given):
        return given
    table = as_floats(f"reward_functions[{m}]", given, sizes)
    check_unit_interval(f"reward_functions[{m}]", table)
    return table
