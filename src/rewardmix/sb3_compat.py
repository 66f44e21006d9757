"""Evaluate policies with stable-baselines3: ``actions, states = policy.predict(observations, states, starts)``.

Its evaluation passes observations but no rewards, which adaptive policies need. The rewards therefore have to be part
of the observation: use ``PreviousActionRewardObservation(env)``, which appends the last action and reward to the
one-hot state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, raise_input_error


class SB3PredictMixin:
    """Mixin of policies that ``stable_baselines3.common.evaluation.evaluate_policy`` accepts as a model."""

    needs_rewards = True

    if TYPE_CHECKING:

        @property
        def num_states(self) -> int:
            """Return the number of states, S."""

        def start(self, state: Any) -> Any:
            """Return the memory at the beginning of an episode."""

        def act(self, memory: Any, rng: Any) -> int:
            """Return the action for the current memory."""

        def observe(self, memory: Any, action: Any, reward: float, next_state: Any) -> Any:
            """Return the memory after one step."""

    def most_likely_action(self, memory: Any) -> int:
        """Return the most likely action."""
        return self.act(memory, None)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, Any]:
        """Return the actions for one or several observations, and the states for the next call.

        Args:
            observation: Observations of ``PreviousActionRewardObservation(env)``, shape (N, S + A + 1) or (S + A + 1,);
                a policy that does not use rewards also accepts plain states.
            state: Second return value of the last call; None in the first call.
            episode_start: Where an episode begins, shape (N,); None: everywhere if ``state`` is None, else nowhere.
            deterministic: Whether a randomized policy takes its most likely action.

        Returns:
            Actions of shape (N,) or a single one, and (memory, action) of each copy of the environment.
        """
        observations, is_single = self._parse_observation(observation)
        starts = np.ones(len(observations), np.bool_) if state is None else np.zeros(len(observations), np.bool_)
        if episode_start is not None:
            starts = starts | np.broadcast_to(np.asarray(episode_start, np.bool_), starts.shape)
        if state is not None and len(state) != len(observations):
            raise_input_error("state", f"{len(state)} memories", f"{len(observations)}, one for each observation")
        rng = None if deterministic else np.random.default_rng()
        memories = []
        for i, (current, reward) in enumerate(observations):
            # At the first step the observation contains no last action and reward, so the memory starts without
            # them.
            memory = self.start(current) if starts[i] else self.observe(state[i][0], state[i][1], reward, current)
            action = self.most_likely_action(memory) if rng is None else self.act(memory, rng)
            memories.append((memory, action))
        actions = np.array([action for _, action in memories])
        return (actions[0] if is_single else actions), memories

    def _parse_observation(self, observation: Any) -> tuple[list[tuple[int, float]], bool]:
        """Return (state, last reward) of each observation, and whether a single observation was given."""
        array: NDArray[Any] = np.asarray(observation)
        if array.dtype.kind in "iu" and array.ndim < 2 and not self.needs_rewards:
            return [(int(state), 0.0) for state in array.ravel()], array.ndim == 0
        # Recovery may have added an end state, which observations of the environment do not have.
        min_width = self.num_states + 1
        if array.dtype.kind != "f" or array.ndim not in (1, 2) or array.shape[-1] < min_width:
            actual = f"{array.dtype} of shape {array.shape}"
            raise_input_error(
                "observation",
                actual,
                "observations of PreviousActionRewardObservation(env); an adaptive policy needs the rewards",
            )
        rows: Floats = np.atleast_2d(array)
        states = rows[:, : self.num_states].argmax(axis=1)
        return [(int(s), float(row[-1])) for s, row in zip(states, rows, strict=True)], array.ndim == 1
