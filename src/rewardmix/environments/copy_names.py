"""Copy the names of states and actions from an environment to a model that was learned in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rewardmix.model import RewardMixingMDP


def copy_names(model: RewardMixingMDP, env: Any) -> RewardMixingMDP:
    """Return the model with the names of the environment; a state that the environment does not have is named "end"."""
    if isinstance(env, RewardMixingMDP):
        states, actions = env.state_names, env.action_names
    else:
        from rewardmix.environments.rollouts import get_env_names  # imports Gymnasium, which a model does not need

        states, actions = get_env_names(env)
    ended = ("end",) * (model.num_states - len(states)) if states else ()
    return replace(model, state_names=(*states, *ended), action_names=actions)
