"""A reward-mixing MDP as a Gymnasium environment, and what its episodes look like: text, or plain rectangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rewardmix._core.checks import as_count, refuse
from rewardmix._core.streams import Role, seed_for
from rewardmix.model import RewardMixingMDP, state_action

RENDER_MODES = ["ansi", "rgb_array"]

PAPER, INK, HERE, QUIET = (250, 248, 243), (70, 70, 80), (222, 110, 60), (222, 220, 212)
CELL, MARGIN, BAR = 36, 12, 26


class FiniteEnv(gymnasium.Env[int, int]):
    """What every environment here shares: Discrete spaces, a fixed horizon, a record of the episode, rendering.

    The hidden type is a private attribute and appears in no observation and no info.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 4}  # noqa: RUF012 - Gymnasium's own way to say it
    observation_space: spaces.Discrete[Any]
    action_space: spaces.Discrete[Any]

    def __init__(
        self,
        num_states: int,
        num_actions: int,
        horizon: int,
        reward_values: NDArray[np.float64],
        *,
        state_names: tuple[str, ...] = (),
        action_names: tuple[str, ...] = (),
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in RENDER_MODES:
            refuse("render_mode", repr(render_mode), f"None or one of {RENDER_MODES}")
        self.observation_space = spaces.Discrete(num_states)
        self.action_space = spaces.Discrete(num_actions)
        self.horizon = horizon
        self.reward_values = reward_values
        self.state_names, self.action_names = state_names, action_names
        self.render_mode = render_mode
        self._state = 0
        self._played: list[tuple[int, float]] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Start an episode. What ``options`` may hold is said by the environment's own class."""
        super().reset(seed=None if seed is None else seed_for(seed, Role.ENVIRONMENT))
        self._state = self._begin(options or {})
        self._played = []
        return self._state, self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Play an action; ``terminated`` is True at the horizon."""
        if self._played is None or len(self._played) >= self.horizon:
            refuse("action", "no running episode", "reset() before step(), and again after the last step")
        if not self.action_space.contains(action):
            refuse("action", repr(action), f"a whole number from 0 to {self.action_space.n - 1}")
        reward, self._state = self._advance(int(action))
        self._played.append((int(action), reward))
        return self._state, reward, len(self._played) == self.horizon, False, self._info()

    def render(self) -> Any:
        """The episode so far as text (``ansi``) or as a picture (``rgb_array``)."""
        played = self._played or []
        if self.render_mode == "ansi":
            named = [(_name(self.action_names, a), reward) for a, reward in played]
            return as_text(_name(self.state_names, self._state), named, self.horizon)
        if self.render_mode == "rgb_array":
            rewards = [reward for _, reward in played]
            count = int(self.observation_space.n)
            return as_picture(self._state, count, rewards, self.horizon, self.reward_values.tolist())
        return None

    def _info(self) -> dict[str, Any]:
        return {"step": len(self._played or [])}

    def _begin(self, options: dict[str, Any]) -> int:
        raise NotImplementedError

    def _advance(self, action: int) -> tuple[float, int]:
        raise NotImplementedError


class RewardMixingEnv(FiniteEnv):
    """Episodes of a model. ``reset(options={"context": m})`` fixes the hidden context, for evaluation only."""

    def __init__(self, model: RewardMixingMDP, *, render_mode: str | None = None) -> None:
        super().__init__(
            model.num_states,
            model.num_actions,
            model.horizon,
            model.reward_values,
            state_names=model.state_names,
            action_names=model.action_names,
            render_mode=render_mode,
        )
        self.model = model
        self._context = 0

    def _begin(self, options: dict[str, Any]) -> int:
        if "context" in options:
            self._context = checked_context(options["context"], self.model.num_contexts)
        else:
            self._context = draw(self.np_random, self.model.weights)
        return draw(self.np_random, self.model.initial)

    def _advance(self, action: int) -> tuple[float, int]:
        model = self.model
        outcome = draw(self.np_random, model.laws[self._context, self._state, action])
        return float(model.reward_values[outcome]), draw_next(model, self.np_random, self._state, action)


def draw(rng: np.random.Generator, law: NDArray[np.float64]) -> int:
    """An index drawn by a law."""
    sums = law.cumsum()
    return int(np.searchsorted(sums, rng.random() * sums[-1], "right"))


def draw_next(model: RewardMixingMDP, rng: np.random.Generator, state: int, action: int) -> int:
    """A next state, from a dense or a sparse transition."""
    row = state_action(state, action, model.num_actions)
    if not model.is_sparse:
        return draw(rng, model.transition_rows[row])
    begin, end = model.transition_rows.indptr[row : row + 2]
    return int(model.transition_rows.indices[begin + draw(rng, model.transition_rows.data[begin:end])])


def checked_context(context: object, num_contexts: int) -> int:
    """A context named in the options of reset."""
    index = as_count('options["context"]', context, least=0)
    if index >= num_contexts:
        refuse('options["context"]', index, f"a whole number from 0 to {num_contexts - 1}")
    return index


def _name(names: tuple[str, ...], index: int) -> str:
    return names[index] if names else str(index)


def as_text(state: str, steps: Sequence[tuple[str, float]], horizon: int) -> str:
    """``step 2/10  at sports  played promote -> 1  earned 2``."""
    last = f"  played {steps[-1][0]} -> {steps[-1][1]:g}" if steps else ""
    return f"step {len(steps)}/{horizon}  at {state}{last}  earned {sum(reward for _, reward in steps):g}\n"


def as_picture(
    state: int, num_states: int, rewards: Sequence[float], horizon: int, values: Sequence[float]
) -> NDArray[np.uint8]:
    """(height, width, 3): the states as cells, the present one filled, and a strip with a bar for every reward."""
    columns = int(np.ceil(np.sqrt(num_states)))
    rows = -(-num_states // columns)
    width = max(columns * CELL, 180) + 2 * MARGIN
    picture = np.full((rows * CELL + BAR + 3 * MARGIN, width, 3), PAPER, np.uint8)
    for s in range(num_states):
        top, left = MARGIN + (s // columns) * CELL, MARGIN + (s % columns) * CELL
        picture[top : top + CELL - 4, left : left + CELL - 4] = HERE if s == state else QUIET
    _draw_rewards(picture, rewards, horizon, values)
    return picture


def _draw_rewards(picture: NDArray[np.uint8], rewards: Sequence[float], horizon: int, values: Sequence[float]) -> None:
    bottom, slot = picture.shape[0] - MARGIN, (picture.shape[1] - 2 * MARGIN) / horizon
    picture[bottom : bottom + 1, MARGIN:-MARGIN] = INK
    lowest, highest = min(values), max(values)
    for t, reward in enumerate(rewards):
        height = 2 + round((BAR - 2) * (reward - lowest) / (highest - lowest))
        left, right = MARGIN + int(t * slot), MARGIN + int((t + 1) * slot) - 1
        picture[bottom - height : bottom, left : max(right, left + 1)] = INK
