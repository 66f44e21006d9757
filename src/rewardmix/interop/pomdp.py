"""The flat .pomdp format: a state is (time, state, last outcome, context); state and outcome are observed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from rewardmix._core import storage
from rewardmix.interop.naming import DISCOUNT, number, numbered, row, scales
from rewardmix.model import RewardMixingMDP, dense_transition


def export_pomdp(model: RewardMixingMDP, path: str | os.PathLike[str], *, discount: float = DISCOUNT) -> None:
    """Write ``model`` as a .pomdp file."""
    storage.replace(path, "\n".join(pomdp_lines(model, discount=discount)).encode())


def pomdp_lines(model: RewardMixingMDP, *, discount: float = DISCOUNT) -> Iterator[str]:
    """The lines of the .pomdp file of ``model``."""
    scale = scales(model, discount)
    openings = [f"opening_m{m}" for m in range(model.num_contexts)]
    states = [*openings, *(_name(t, s, z, m) for t, s, z, m in np.ndindex(_shape(model))), "end"]
    observations = [f"s{s}z{z}" for s in range(model.num_states) for z in range(model.num_values)]
    yield f"# Reward-mixing MDP with horizon {model.horizon}; its value is the undiscounted sum"
    yield f"discount: {discount!r}"
    yield "values: reward"
    yield f"states: {' '.join(states)}"
    yield f"actions: {' '.join(numbered('a', model.num_actions))}"
    yield f"observations: {' '.join([*observations, 'over'])}"
    yield f"start: {row([*model.weights, *[0.0] * (len(states) - len(openings))])}"
    yield from _opening(model)
    yield from _episode(model)
    yield "T: * : end : end 1.0"
    for t, s, z, m in np.ndindex(_shape(model)):
        yield f"O: * : {_name(t, s, z, m)} : s{s}z{z} 1.0"
    for opening in [*openings, "end"]:
        yield f"O: * : {opening} : over 1.0"
    for t, s, z, m in np.ndindex(_shape(model)):
        for a in range(model.num_actions):
            yield f"R: a{a} : {_name(t, s, z, m)} : * : * {number(model.means[m, s, a] * scale[t])}"


def _shape(model: RewardMixingMDP) -> tuple[int, int, int, int]:
    return model.horizon, model.num_states, model.num_values, model.num_contexts


def _name(t: int, s: int, z: int, m: int) -> str:
    return f"t{t}_s{s}_z{z}_m{m}"


def _opening(model: RewardMixingMDP) -> Iterator[str]:
    """The first state is shown, with the lowest outcome, which says nothing."""
    for m in range(model.num_contexts):
        for s in np.flatnonzero(model.initial):
            yield f"T: * : opening_m{m} : {_name(0, int(s), 0, m)} {number(model.initial[s])}"


def _episode(model: RewardMixingMDP) -> Iterator[str]:
    transition = dense_transition(model)
    for t, s, last, m in np.ndindex(_shape(model)):
        here = _name(t, s, last, m)
        if t + 1 == model.horizon:
            yield f"T: * : {here} : end 1.0"
            continue
        for a in range(model.num_actions):
            for following in np.flatnonzero(transition[s, a]):
                for z in np.flatnonzero(model.laws[m, s, a]):
                    chance = transition[s, a, following] * model.laws[m, s, a, z]
                    yield f"T: a{a} : {here} : {_name(t + 1, int(following), int(z), m)} {number(chance)}"
