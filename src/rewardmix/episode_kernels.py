"""Compiled kernels on the arrays of episodes: validate the contents, and list the steps as symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix._core.jit import kernel, lazy_jit

NO_FAULT, LENGTH, STATE, ACTION, REWARD_INDEX, DATA_AFTER_END = 0, 1, 2, 3, 4, 5
"""Kinds of faults: none; an invalid length, state, action or reward index; data after the end of an episode."""


@kernel
def find_first_fault(
    states: Any, actions: Any, reward_indices: Any, lengths: Any, num_states: Any, num_actions: Any, num_values: Any
) -> Any:
    """Find the first invalid entry and return (kind, episode, step); the final state of an episode may be missing."""
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
            if reward_indices[k, t] < 0 or reward_indices[k, t] >= num_values:
                return REWARD_INDEX, k, t
        # The state after the last step may be padding: some logs do not contain it.
        if states[k, steps] < -1 or states[k, steps] >= num_states:
            return STATE, k, steps
        for t in range(steps, horizon):
            if actions[k, t] != -1 or reward_indices[k, t] != -1 or states[k, t + 1] != -1:
                return DATA_AFTER_END, k, t
    return NO_FAULT, 0, 0


def _list_symbols_numpy(
    states: Any, actions: Any, reward_indices: Any, lengths: Any, num_actions: Any, num_values: Any, out: Any
) -> None:
    """List the symbols by NumPy; used while compiling the kernel would take longer."""
    step_mask = np.arange(actions.shape[1]) < lengths[:, None]
    state_actions = states[:, :-1][step_mask].astype(np.int64) * num_actions + actions[step_mask]
    out[:] = state_actions * num_values + reward_indices[step_mask]


@lazy_jit(lambda states, *_: 10 + states.size // 100, numpy_impl=_list_symbols_numpy)
def list_symbols(
    states: Any, actions: Any, reward_indices: Any, lengths: Any, num_actions: Any, num_values: Any, out: Any
) -> None:
    """Write the symbols (N,), x * Z + z with x = s * A + a, of all steps, episode after episode."""
    i = 0
    for k in range(lengths.size):
        for t in range(lengths[k]):
            x = np.int64(states[k, t]) * num_actions + actions[k, t]
            out[i] = x * num_values + reward_indices[k, t]
            i += 1
