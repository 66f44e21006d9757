"""Make a reward-mixing MDP a Gymnasium environment, and render its episodes as text or images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rewardmix._core.checks import as_count, raise_input_error
from rewardmix._core.random_streams import Role, derive_seed
from rewardmix.model import RewardMixingMDP, state_action_index

RENDER_MODES = ["ansi", "rgb_array"]

BACKGROUND_COLOR, FOREGROUND_COLOR, CURRENT_STATE_COLOR, STATE_COLOR = (
    (250, 248, 243),
    (70, 70, 80),
    (222, 110, 60),
    (222, 220, 212),
)
"""Colors (red, green, blue) of the background, the foreground, the present state and other states."""
CELL, MARGIN, BAR = 36, 12, 26
"""Sizes in pixels of a state's cell, the margin and the tallest reward bar."""


class FiniteEnv(gymnasium.Env[int, int]):
    """Share what all environments here have: Discrete spaces, a fixed horizon, a record of the episode, rendering.

    The hidden type is a private attribute; observations and infos do not contain it.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 4}  # as Gymnasium declares it  # noqa: RUF012
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
            raise_input_error("render_mode", repr(render_mode), f"None or one of {RENDER_MODES}")
        self.observation_space = spaces.Discrete(num_states)
        self.action_space = spaces.Discrete(num_actions)
        self.horizon = horizon
        self.reward_values = reward_values
        self.state_names, self.action_names = state_names, action_names
        self.render_mode = render_mode
        self._state = 0
        self._history: list[tuple[int, float]] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Start an episode; return (state, info). The subclass documents ``options``."""
        # The stream is derived by role, so an environment and an agent that share a seed draw independent numbers.
        super().reset(seed=None if seed is None else derive_seed(seed, Role.ENVIRONMENT))
        self._state = self._begin(options or {})
        self._history = []
        return self._state, self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Play an action; return (state, reward, terminated, truncated, info), terminated at the horizon."""
        if self._history is None or len(self._history) >= self.horizon:
            raise_input_error("action", "no running episode", "reset() before step(), and again after the last step")
        if not self.action_space.contains(action):
            raise_input_error("action", repr(action), f"a whole number from 0 to {self.action_space.n - 1}")
        reward, self._state = self._advance(int(action))
        self._history.append((int(action), reward))
        return self._state, reward, len(self._history) == self.horizon, False, self._info()

    def render(self) -> Any:
        """Render the episode so far as text (``ansi``) or as an image (``rgb_array``)."""
        steps = self._history or []
        if self.render_mode == "ansi":
            named_steps = [(_name(self.action_names, a), reward) for a, reward in steps]
            return render_text(_name(self.state_names, self._state), named_steps, self.horizon)
        if self.render_mode == "rgb_array":
            rewards = [reward for _, reward in steps]
            count = int(self.observation_space.n)
            return render_image(self._state, count, rewards, self.horizon, self.reward_values.tolist())
        return None

    def _info(self) -> dict[str, Any]:
        return {"step": len(self._history or [])}

    def _begin(self, options: dict[str, Any]) -> int:
        """Draw what is hidden and return the initial state."""
        raise NotImplementedError

    def _advance(self, action: int) -> tuple[float, int]:
        """Return (reward, next state) of an action."""
        raise NotImplementedError


class RewardMixingEnv(FiniteEnv):
    """Play episodes of a model; each draws a hidden type that the observation does not contain.

    For evaluation, an option of ``reset`` fixes the hidden type.

    Attributes:
        model: The model.
        horizon: H, number of steps of every episode.
        reward_values: (Z,) possible rewards.
        state_names: Names of the states, or an empty tuple.
        action_names: Names of the actions, or an empty tuple.

    Examples:
        >>> import rewardmix as rm
        >>> env = rm.RewardMixingEnv(rm.make_model("shop"))
        >>> env.reset(seed=0)
        (0, {'step': 0})
        >>> env.step(1)
        (3, 1.0, False, False, {'step': 1})
    """

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
        self._type_index = 0

    def _begin(self, options: dict[str, Any]) -> int:
        """Draw the hidden type and the initial state."""
        if "type" in options:
            self._type_index = check_type_index(options["type"], self.model.num_types)
        else:
            self._type_index = sample(self.np_random, self.model.weights)
        return sample(self.np_random, self.model.initial)

    def _advance(self, action: int) -> tuple[float, int]:
        """Draw the reward, then the next state."""
        model = self.model
        reward_index = sample(self.np_random, model.reward_probs[self._type_index, self._state, action])
        return float(model.reward_values[reward_index]), sample_next_state(model, self.np_random, self._state, action)


def sample(rng: np.random.Generator, probs: NDArray[np.float64]) -> int:
    """Draw an index with these probabilities."""
    sums = probs.cumsum()
    # Scaling by the last sum keeps the index in range if rounding leaves the sum slightly off one.
    return int(np.searchsorted(sums, rng.random() * sums[-1], "right"))


def sample_next_state(model: RewardMixingMDP, rng: np.random.Generator, state: int, action: int) -> int:
    """Draw a next state from a dense or a sparse transition."""
    row = state_action_index(state, action, model.num_actions)
    if not model.is_sparse:
        return sample(rng, model.transition_rows[row])
    begin, end = model.transition_rows.indptr[row : row + 2]
    return int(model.transition_rows.indices[begin + sample(rng, model.transition_rows.data[begin:end])])


def check_type_index(type_index: object, num_types: int) -> int:
    """Return the type index from the options of ``reset``; raise InputError if it is out of range."""
    index = as_count('options["type"]', type_index, min_value=0)
    if index >= num_types:
        raise_input_error('options["type"]', index, f"a whole number from 0 to {num_types - 1}")
    return index


def _name(names: tuple[str, ...], index: int) -> str:
    return names[index] if names else str(index)


def render_text(state: str, steps: Sequence[tuple[str, float]], horizon: int) -> str:
    """Format ``step 2/10  at sports  played promote -> 1  earned 2``."""
    last = f"  played {steps[-1][0]} -> {steps[-1][1]:g}" if steps else ""
    return f"step {len(steps)}/{horizon}  at {state}{last}  earned {sum(reward for _, reward in steps):g}\n"


def render_image(
    state: int, num_states: int, rewards: Sequence[float], horizon: int, values: Sequence[float]
) -> NDArray[np.uint8]:
    """Draw an image (height, width, 3): states as cells, the present one in color, and one bar for each reward."""
    # The most square arrangement of the cells.
    columns = int(np.ceil(np.sqrt(num_states)))
    rows = -(-num_states // columns)
    width = max(columns * CELL, 180) + 2 * MARGIN
    image = np.full((rows * CELL + BAR + 3 * MARGIN, width, 3), BACKGROUND_COLOR, np.uint8)
    for s in range(num_states):
        top, left = MARGIN + (s // columns) * CELL, MARGIN + (s % columns) * CELL
        image[top : top + CELL - 4, left : left + CELL - 4] = CURRENT_STATE_COLOR if s == state else STATE_COLOR
    _draw_rewards(image, rewards, horizon, values)
    return image


def _draw_rewards(image: NDArray[np.uint8], rewards: Sequence[float], horizon: int, values: Sequence[float]) -> None:
    """Draw the rewards as bars along the bottom, scaled between the smallest and the largest reward value."""
    bottom, bar_width = image.shape[0] - MARGIN, (image.shape[1] - 2 * MARGIN) / horizon
    image[bottom : bottom + 1, MARGIN:-MARGIN] = FOREGROUND_COLOR
    lowest, highest = min(values), max(values)
    for t, reward in enumerate(rewards):
        # Two pixels more keep the smallest reward visible.
        height = 2 + round((BAR - 2) * (reward - lowest) / (highest - lowest))
        left, right = MARGIN + int(t * bar_width), MARGIN + int((t + 1) * bar_width) - 1
        image[bottom - height : bottom, left : max(right, left + 1)] = FOREGROUND_COLOR
