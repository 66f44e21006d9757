"""Policies asked in the way of stable-baselines3: ``actions, states = policy.predict(observations, states, starts)``.

Its evaluation hands on observations and no rewards, and a policy that adapts lives on rewards. So they have to be in
the observation: play in ``PreviousActionReward(env)``, whose observation is the state as one-hot, the action before as
one-hot, and the reward before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, refuse


class Predicting:
    """A policy that ``stable_baselines3.common.evaluation.evaluate_policy`` takes for a model."""

    needs_rewards = True

    if TYPE_CHECKING:

        @property
        def num_states(self) -> int:
            """S."""

        def start(self, state: Any) -> Any:
            """Memory at the beginning of an episode."""

        def act(self, memory: Any, rng: Any) -> int:
            """The action to play now."""

        def observe(self, memory: Any, action: Any, reward: float, next_state: Any) -> Any:
            """Memory after one step."""

    def surest(self, memory: Any) -> int:
        """The action that is most likely to be played."""
        return self.act(memory, None)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, Any]:
        """Actions for one observation or several, and what to hand in as ``state`` next time.

        Args:
            observation: (N, S + A + 1) or (S + A + 1,) of ``PreviousActionReward(env)``; a policy that looks at no
                rewards takes plain states too.
            state: what the last call returned; None at first.
            episode_start: (N,) where an episode begins; left out, where ``state`` is None.
            deterministic: play the most likely action, where a policy draws.

        Returns:
            the actions, (N,) or a single one, and (memory, action) of each copy.
        """
        seen, alone = self._seen(observation)
        fresh = np.ones(len(seen), np.bool_) if state is None else np.zeros(len(seen), np.bool_)
        if episode_start is not None:
            fresh = fresh | np.broadcast_to(np.asarray(episode_start, np.bool_), fresh.shape)
        if state is not None and len(state) != len(seen):
            refuse("state", f"memories of {len(state)} copies", f"{len(seen)}, as many as observations")
        rng = None if deterministic else np.random.default_rng()
        memories = []
        for i, (now, reward) in enumerate(seen):
            memory = self.start(now) if fresh[i] else self.observe(state[i][0], state[i][1], reward, now)
            action = self.surest(memory) if rng is None else self.act(memory, rng)
            memories.append((memory, action))
        actions = np.array([action for _, action in memories])
        return (actions[0] if alone else actions), memories

    def _seen(self, observation: Any) -> tuple[list[tuple[int, float]], bool]:
        """(state, reward before) of each observation, and whether there is only one that is no list."""
        given: NDArray[Any] = np.asarray(observation)
        if given.dtype.kind in "iu" and given.ndim < 2 and not self.needs_rewards:
            return [(int(state), 0.0) for state in given.ravel()], given.ndim == 0
        least = self.num_states + 1  # recovery may have added a state for the end of episodes
        if given.dtype.kind != "f" or given.ndim not in (1, 2) or given.shape[-1] < least:
            found = f"{given.dtype} of shape {given.shape}"
            refuse("observation", found, "those of PreviousActionReward(env): a policy that adapts has to see rewards")
        rows: Floats = np.atleast_2d(given)
        states = rows[:, : self.num_states].argmax(axis=1)
        return [(int(s), float(row[-1])) for s, row in zip(states, rows, strict=True)], given.ndim == 1
