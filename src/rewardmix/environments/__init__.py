"""Provide Gymnasium environments and wrappers, and play policies in any environment with Discrete spaces.

Importing Gymnasium takes as long as importing NumPy, and runs in a model do not need it. Names are therefore imported
when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rewardmix.environments.copy_names import copy_names

if TYPE_CHECKING:
    from rewardmix.environments.rollouts import (
        check_horizon,
        describe_reward_values,
        get_env_sizes,
        get_horizon,
        get_reward_values,
        has_rng,
        is_vector,
        play_returns,
        rollout,
        step_vector_env,
    )
    from rewardmix.environments.single_env import RewardMixingEnv
    from rewardmix.environments.vector_env import RewardMixingVectorEnv
    from rewardmix.environments.wrappers import PreviousActionRewardObservation, RewardMixingWrapper

__all__ = [
    "PreviousActionRewardObservation",
    "RewardMixingEnv",
    "RewardMixingVectorEnv",
    "RewardMixingWrapper",
    "check_horizon",
    "copy_names",
    "describe_reward_values",
    "get_env_sizes",
    "get_horizon",
    "get_reward_values",
    "has_rng",
    "is_vector",
    "play_returns",
    "rollout",
    "step_vector_env",
]

_CLASS_MODULES = {
    "RewardMixingWrapper": "wrappers",
    "PreviousActionRewardObservation": "wrappers",
    "RewardMixingEnv": "single_env",
    "RewardMixingVectorEnv": "vector_env",
}
"""Name -> module that defines it; all other names are in ``rollouts``."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_CLASS_MODULES.get(name, 'rollouts')}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
