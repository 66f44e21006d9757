"""Models with the names of the world that they were learned in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rewardmix.model import RewardMixingMDP


def named_like(model: RewardMixingMDP, world: Any) -> RewardMixingMDP:
    """The model with the names of the world that it was learned in; a state that the world has not is the end."""
    if isinstance(world, RewardMixingMDP):
        states, actions = world.state_names, world.action_names
    else:
        from rewardmix.environments.playing import names_of_env  # imports Gymnasium, which a model does not need

        states, actions = names_of_env(world)
    ended = ("end",) * (model.num_states - len(states)) if states else ()
    return replace(model, state_names=(*states, *ended), action_names=actions)
