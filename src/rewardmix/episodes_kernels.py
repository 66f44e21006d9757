"""Kernels that read episodes: look for what cannot be in them, and list their steps as symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.jit import deferred, kernel

SOUND, LENGTH, STATE, ACTION, OUTCOME, LEFT_OVER = 0, 1, 2, 3, 4, 5
"""What is wrong: nothing, or the length, a state, an action or an outcome; or something behind the end."""


@kernel
def first_fault(
    states: Any, actions: Any, outcomes: Any, lengths: Any, num_states: Any, num_actions: Any, num_values: Any
) -> Any:
    """(what, episode, step) of the first thing that is out of range. The last state of an episode may be absent."""
    horizon = actions.shape[1]
    for k in range(lengths.size):
        steps = lengths[k]
        if steps < 1 or steps > horizon:
            return LENGTH, k, 0
        for t in range(steps):
            if states[k, t] < 0 or states[k, t] >= num_states:
                return STATE, k, t
            if actions[k, t] < 0 or actions[k, t] >= num_actions:
                return ACTION, k, t
            if outcomes[k, t] < 0 or outcomes[k, t] >= num_values:
                return OUTCOME, k, t
        if states[k, steps] < -1 or states[k, steps] >= num_states:
            return STATE, k, steps
        for t in range(steps, horizon):
            if actions[k, t] != -1 or outcomes[k, t] != -1 or states[k, t + 1] != -1:
                return LEFT_OVER, k, t
    return SOUND, 0, 0


def _select_symbols(
    states: Any, actions: Any, outcomes: Any, lengths: Any, num_actions: Any, num_values: Any, out: Any
) -> None:
    """``list_symbols`` by NumPy."""
    played = np.arange(actions.shape[1]) < lengths[:, None]
    points = states[:, :-1][played].astype(np.int64) * num_actions + actions[played]
    out[:] = points * num_values + outcomes[played]


@deferred(lambda states, *_: 10 + states.size // 100, play=_select_symbols)
def list_symbols(
    states: Any, actions: Any, outcomes: Any, lengths: Any, num_actions: Any, num_values: Any, out: Any
) -> None:
    """``out`` (N,): x*Z + z of the steps that took place, episode after episode."""
    place = 0
    for k in range(lengths.size):
        for t in range(lengths[k]):
            x = np.int64(states[k, t]) * num_actions + actions[k, t]
            out[place] = x * num_values + outcomes[k, t]
            place += 1
