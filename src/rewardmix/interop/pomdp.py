"""Export models in the flat .pomdp format.

A state of the file is (time, state, last reward, type); state and reward are observed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from rewardmix._core import storage
from rewardmix.interop.pomdp_names import DISCOUNT, discount_factors, format_float, format_row, index_names
from rewardmix.model import RewardMixingMDP, dense_transition


def export_pomdp(model: RewardMixingMDP, path: str | os.PathLike[str], *, discount: float = DISCOUNT) -> None:
    """Write a model as a .pomdp file.

    Args:
        model: Model to export.
        path: File to write; an existing file is replaced.
        discount: Discount of the file, between 0 and 1; rewards are scaled so that the value is the undiscounted one.

    Raises:
        InputError: If the path cannot be written, or the file would be too large.
    """
    storage.write_atomic(path, "\n".join(pomdp_lines(model, discount=discount)).encode())


def pomdp_lines(model: RewardMixingMDP, *, discount: float = DISCOUNT) -> Iterator[str]:
    """Yield the lines of the .pomdp file of a model."""
    scale = discount_factors(model, discount)
    openings = [f"opening_m{m}" for m in range(model.num_types)]
    states = [*openings, *(_name(t, s, z, m) for t, s, z, m in np.ndindex(_shape(model))), "end"]
    observations = [f"s{s}z{z}" for s in range(model.num_states) for z in range(model.num_values)]
    yield f"# Reward-mixing MDP with horizon {model.horizon}; its value is the undiscounted sum"
    yield f"discount: {discount!r}"
    yield "values: reward"
    yield f"states: {' '.join(states)}"
    yield f"actions: {' '.join(index_names('a', model.num_actions))}"
    yield f"observations: {' '.join([*observations, 'over'])}"
    yield f"start: {format_row([*model.weights, *[0.0] * (len(states) - len(openings))])}"
    yield from _initial_transitions(model)
    yield from _episode_transitions(model)
    # The end state loops for ever with reward 0, because the format knows no finite horizon.
    yield "T: * : end : end 1.0"
    for t, s, z, m in np.ndindex(_shape(model)):
        yield f"O: * : {_name(t, s, z, m)} : s{s}z{z} 1.0"
    for opening in [*openings, "end"]:
        yield f"O: * : {opening} : over 1.0"
    for t, s, z, m in np.ndindex(_shape(model)):
        for a in range(model.num_actions):
            reward = format_float(model.mean_rewards_by_type[m, s, a] * scale[t])
            yield f"R: a{a} : {_name(t, s, z, m)} : * : * {reward}"


def _shape(model: RewardMixingMDP) -> tuple[int, int, int, int]:
    """Return the numbers of times, states, reward values and types."""
    return model.horizon, model.num_states, model.num_values, model.num_types


def _name(t: int, s: int, z: int, m: int) -> str:
    """Return the name of a state of the file."""
    return f"t{t}_s{s}_z{z}_m{m}"


def _initial_transitions(model: RewardMixingMDP) -> Iterator[str]:
    """Yield transitions to the initial states, with the lowest reward as a placeholder that carries no information."""
    for m in range(model.num_types):
        for s in np.flatnonzero(model.initial):
            yield f"T: * : opening_m{m} : {_name(0, int(s), 0, m)} {format_float(model.initial[s])}"


def _episode_transitions(model: RewardMixingMDP) -> Iterator[str]:
    """Yield the transitions between the steps of the episode."""
    transition = dense_transition(model)
    for t, s, last, m in np.ndindex(_shape(model)):
        here = _name(t, s, last, m)
        if t + 1 == model.horizon:
            yield f"T: * : {here} : end 1.0"
            continue
        for a in range(model.num_actions):
            for next_state in np.flatnonzero(transition[s, a]):
                # Entries of probability 0 are left out, as the format allows; most are 0, since time only increases.
                for z in np.flatnonzero(model.reward_probs[m, s, a]):
                    prob = transition[s, a, next_state] * model.reward_probs[m, s, a, z]
                    yield f"T: a{a} : {here} : {_name(t + 1, int(next_state), int(z), m)} {format_float(prob)}"
