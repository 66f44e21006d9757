"""Play many copies of a reward-mixing environment at once, in NumPy.

All three autoreset modes of Gymnasium are implemented, as its documentation describes them: NEXT_STEP (the step after
the end resets, ignores the action and gives reward 0), SAME_STEP (the last step resets at once, and the final
observation is in ``info["final_obs"]``), DISABLED (``reset`` with a ``reset_mask``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rewardmix._core.checks import as_count, as_indices, raise_input_error
from rewardmix._core.random_streams import Role, derive_seed
from rewardmix.environments.single_env import RENDER_MODES, render_image
from rewardmix.model import RewardMixingMDP, state_action_index


class RewardMixingVectorEnv(VectorEnv[Any, Any, Any]):
    """Play ``num_envs`` independent copies of a model, each with its own hidden type.

    For evaluation, an option of ``reset`` fixes the hidden type of all copies or of each copy.

    Attributes:
        model: The model.
        num_envs: Number of copies.
        horizon: H, number of steps of every episode.
        reward_values: (Z,) possible rewards.
        autoreset_mode: When finished copies are reset.

    Examples:
        >>> import rewardmix as rm
        >>> envs = rm.RewardMixingVectorEnv(rm.make_model("shop"), 3)
        >>> states, info = envs.reset(seed=0)
        >>> states, rewards, terminated, truncated, info = envs.step([0, 1, 2])
        >>> states.tolist(), rewards.tolist()
        ([1, 3, 3], [1.0, 0.0, 0.0])
    """

    def __init__(
        self,
        model: RewardMixingMDP,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": RENDER_MODES[1:], "render_fps": 4, "autoreset_mode": self.autoreset_mode}
        self.model, self.num_envs, self.render_mode = model, as_count("num_envs", num_envs), render_mode
        self.horizon, self.reward_values = model.horizon, model.reward_values
        self.single_observation_space = spaces.Discrete(model.num_states)
        self.single_action_space = spaces.Discrete(model.num_actions)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._rewards = np.full((self.num_envs, model.horizon), np.nan)
        self._types = np.zeros(self.num_envs, np.int64)
        self._states = np.zeros(self.num_envs, np.int64)
        self._steps = np.full(self.num_envs, -1)  # -1: not yet reset
        self._initial = np.cumsum(model.initial)
        self._weights = np.cumsum(model.weights)
        self._cumulative_probs = np.cumsum(model.reward_probs, axis=-1)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int64], dict[str, Any]]:
        """Start an episode in every copy, or in those of ``options["reset_mask"]``."""
        super().reset(seed=_fold_seeds(seed))
        options = dict(options or {})
        mask = np.asarray(options.get("reset_mask", np.ones(self.num_envs, bool)))
        if mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            actual = f"{mask.dtype} of shape {mask.shape}" if mask.any() else "no copy to reset"
            raise_input_error(
                'options["reset_mask"]', actual, f"a bool array of shape ({self.num_envs},) that is not all False"
            )
        self._begin(mask, options.get("type"))
        return self._states.copy(), self._info(mask)

    def step(
        self, actions: Any
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Play one action in each copy; return (states, rewards, terminated, truncated, info)."""
        actions = as_indices("actions", actions, self.model.num_actions, (self.num_envs,))
        ended = self._find_finished_episodes()
        rewards = self._advance(actions, ~ended)
        terminated = (self._steps == self.horizon) & ~ended
        # Copies that ended in the last step begin an episode in this one: their action was ignored, their reward is 0.
        if self.autoreset_mode is AutoresetMode.NEXT_STEP:
            self._begin(ended)
        info = self._info(np.ones(self.num_envs, bool))
        if self.autoreset_mode is AutoresetMode.SAME_STEP and terminated.any():
            info = self._info_with_final(terminated)
        return self._states.copy(), rewards, terminated, np.zeros(self.num_envs, bool), info

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Draw one image for each copy (``rgb_array``)."""
        if self.render_mode != "rgb_array":
            return None
        values = self.reward_values.tolist()
        return tuple(
            render_image(int(state), self.model.num_states, rewards[: max(steps, 0)].tolist(), self.horizon, values)
            for state, rewards, steps in zip(self._states, self._rewards, self._steps, strict=True)
        )

    def _find_finished_episodes(self) -> NDArray[np.bool_]:
        """Return the mask of copies whose episode has ended; raise InputError if they may not be stepped."""
        if (self._steps < 0).any():
            raise_input_error("actions", "no running episode", "reset() before step()")
        ended = self._steps >= self.horizon
        if ended.any() and self.autoreset_mode is AutoresetMode.DISABLED:
            raise_input_error(
                f"actions[{int(ended.argmax())}]", "a finished episode", "reset() with a reset_mask first"
            )
        return ended

    def _begin(self, mask: NDArray[np.bool_], type_index: Any = None) -> None:
        """Start an episode in the copies of ``mask``."""
        count = int(mask.sum())
        self._states[mask] = _sample(self._initial, self.np_random.random(count))
        # Types are drawn also if they are given, so that later random numbers do not depend on the option.
        types = _sample(self._weights, self.np_random.random(count))
        if type_index is not None:
            given_types = np.broadcast_to(np.asarray(type_index), (self.num_envs,))
            types = as_indices('options["type"]', given_types, self.model.num_types)[mask].astype(np.int64)
        self._types[mask] = types
        self._steps[mask] = 0

    def _advance(self, actions: Any, running: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Play the actions in the running copies and return the rewards; other copies get 0 and keep their state."""
        # Every copy uses two numbers per step, running or not, so all copies are stepped in one call without a mask.
        uniform = self.np_random.random((2, self.num_envs))
        probs = self._cumulative_probs[self._types, self._states, actions]
        reward_indices = _sample(probs, uniform[0])
        rewards = np.where(running, self.reward_values[reward_indices], 0.0)
        rows = state_action_index(self._states, actions, self.model.num_actions)
        next_states = self._sample_next_states(rows, uniform[1])
        self._states = np.where(running, next_states, self._states)
        self._rewards[running, self._steps[running]] = rewards[running]
        self._steps += running
        return rewards

    def _sample_next_states(self, rows: Any, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Draw the next states of these state-actions."""
        table = self.model.transition_rows
        probs = table[rows].toarray() if self.model.is_sparse else table[rows]
        return _sample(np.cumsum(probs, axis=1), uniform)

    def _info(self, mask: NDArray[np.bool_]) -> dict[str, Any]:
        return {"step": np.where(mask, self._steps, 0), "_step": mask.copy()}

    def _info_with_final(self, terminated: NDArray[np.bool_]) -> dict[str, Any]:
        """Reset the terminated copies, and return an info with their final observations."""
        final_obs = np.full(self.num_envs, None, dtype=object)
        final_obs[terminated] = list(self._states[terminated])
        final_info = self._info(terminated)
        self._begin(terminated)
        info = self._info(np.ones(self.num_envs, bool))
        final = {"final_obs": final_obs, "_final_obs": terminated.copy(), "_final_info": terminated.copy()}
        return {**info, **final, "final_info": final_info}


def _sample(cumulative: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each draw the first index whose cumulative probability exceeds it.

    ``cumulative`` holds one row for all draws, or one row each.
    """
    # Scaling by the last sum keeps the index in range if rounding leaves the sum slightly off one.
    scaled = uniform * cumulative[..., -1]
    drawn: NDArray[np.int64] = (cumulative <= scaled[..., None]).sum(axis=-1)
    return drawn


def _fold_seeds(seed: int | list[int | None] | None) -> int | None:
    """Fold a list of seeds, which Gymnasium allows, into one: a single stream serves all copies."""
    seeds = seed if isinstance(seed, list | tuple) else [seed]
    entropy = [0 if value is None else int(value) for value in seeds]
    return derive_seed(entropy, Role.VECTOR_ENVIRONMENT) if any(value is not None for value in seeds) else None
