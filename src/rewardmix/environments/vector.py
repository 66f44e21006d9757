"""Many copies of a reward-mixing environment at once, in NumPy.

All three of Gymnasium's conventions for what happens at the end of an episode are kept, as its documentation
describes them: NEXT_STEP (the step after the end resets, ignores the action and pays nothing), SAME_STEP (the last
step resets at once, and the final observation is in ``info["final_obs"]``), DISABLED (``reset`` with a
``reset_mask``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rewardmix._core.checks import as_count, as_indices, refuse
from rewardmix._core.streams import Role, seed_for
from rewardmix.environments.single import RENDER_MODES, as_picture
from rewardmix.model import RewardMixingMDP, state_action


class RewardMixingVectorEnv(VectorEnv[Any, Any, Any]):
    """``num_envs`` independent copies. ``reset(options={"context": m})`` takes one context or one for each copy."""

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
        self._contexts = np.zeros(self.num_envs, np.int64)
        self._states = np.zeros(self.num_envs, np.int64)
        self._steps = np.full(self.num_envs, -1)  # -1: not yet reset
        self._initial = np.cumsum(model.initial)
        self._weights = np.cumsum(model.weights)
        self._laws = np.cumsum(model.laws, axis=-1)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int64], dict[str, Any]]:
        """Start an episode in every copy, or in those of ``options["reset_mask"]``."""
        super().reset(seed=_one_seed(seed))
        options = dict(options or {})
        mask = np.asarray(options.get("reset_mask", np.ones(self.num_envs, bool)))
        if mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            found = f"{mask.dtype} of shape {mask.shape}" if mask.any() else "no copy to reset"
            refuse('options["reset_mask"]', found, f"a bool array of shape ({self.num_envs},) that is not all False")
        self._begin(mask, options.get("context"))
        return self._states.copy(), self._info(mask)

    def step(
        self, actions: Any
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Play one action in each copy."""
        actions = as_indices("actions", actions, self.model.num_actions, (self.num_envs,))
        ended = self._check_running()
        rewards = self._advance(actions, ~ended)
        terminated = (self._steps == self.horizon) & ~ended
        if self.autoreset_mode is AutoresetMode.NEXT_STEP:
            self._begin(ended)
        info = self._info(np.ones(self.num_envs, bool))
        if self.autoreset_mode is AutoresetMode.SAME_STEP and terminated.any():
            info = self._info_with_final(terminated)
        return self._states.copy(), rewards, terminated, np.zeros(self.num_envs, bool), info

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """One picture for each copy (``rgb_array``)."""
        if self.render_mode != "rgb_array":
            return None
        values = self.reward_values.tolist()
        return tuple(
            as_picture(int(state), self.model.num_states, paid[: max(steps, 0)].tolist(), self.horizon, values)
            for state, paid, steps in zip(self._states, self._rewards, self._steps, strict=True)
        )

    def _check_running(self) -> NDArray[np.bool_]:
        if (self._steps < 0).any():
            refuse("actions", "no running episode", "reset() before step()")
        ended = self._steps >= self.horizon
        if ended.any() and self.autoreset_mode is AutoresetMode.DISABLED:
            refuse(f"actions[{int(ended.argmax())}]", "a finished episode", "reset() with a reset_mask first")
        return ended

    def _begin(self, mask: NDArray[np.bool_], context: Any = None) -> None:
        count = int(mask.sum())
        self._states[mask] = _draw(self._initial, self.np_random.random(count))
        drawn = _draw(self._weights, self.np_random.random(count))
        if context is not None:
            given = np.broadcast_to(np.asarray(context), (self.num_envs,))
            drawn = as_indices('options["context"]', given, self.model.num_contexts)[mask].astype(np.int64)
        self._contexts[mask] = drawn
        self._steps[mask] = 0

    def _advance(self, actions: Any, running: NDArray[np.bool_]) -> NDArray[np.float64]:
        uniform = self.np_random.random((2, self.num_envs))
        laws = self._laws[self._contexts, self._states, actions]
        outcomes = _draw(laws, uniform[0])
        rewards = np.where(running, self.reward_values[outcomes], 0.0)
        rows = state_action(self._states, actions, self.model.num_actions)
        following = self._following(rows, uniform[1])
        self._states = np.where(running, following, self._states)
        self._rewards[running, self._steps[running]] = rewards[running]
        self._steps += running
        return rewards

    def _following(self, rows: Any, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        table = self.model.transition_rows
        chosen = table[rows].toarray() if self.model.is_sparse else table[rows]
        return _draw(np.cumsum(chosen, axis=1), uniform)

    def _info(self, mask: NDArray[np.bool_]) -> dict[str, Any]:
        return {"step": np.where(mask, self._steps, 0), "_step": mask.copy()}

    def _info_with_final(self, terminated: NDArray[np.bool_]) -> dict[str, Any]:
        final_obs = np.full(self.num_envs, None, dtype=object)
        final_obs[terminated] = list(self._states[terminated])
        final_info = self._info(terminated)
        self._begin(terminated)
        info = self._info(np.ones(self.num_envs, bool))
        both = {"final_obs": final_obs, "_final_obs": terminated.copy(), "_final_info": terminated.copy()}
        return {**info, **both, "final_info": final_info}


def _draw(cumulative: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each draw, the first index whose cumulative probability exceeds it; rows of ``cumulative``, or one law."""
    scaled = uniform * cumulative[..., -1]
    drawn: NDArray[np.int64] = (cumulative <= scaled[..., None]).sum(axis=-1)
    return drawn


def _one_seed(seed: int | list[int | None] | None) -> int | None:
    """One stream serves all copies; a list of seeds (Gymnasium allows it) is folded into one."""
    given = seed if isinstance(seed, list | tuple) else [seed]
    known = [0 if one is None else int(one) for one in given]
    return seed_for(known, Role.VECTOR_ENVIRONMENT) if any(one is not None for one in given) else None
