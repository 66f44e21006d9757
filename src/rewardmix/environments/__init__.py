"""The only folder that imports gymnasium: environments, wrappers, registration, and playing a policy in them.

Gymnasium takes as long to import as all of NumPy does, and a run in a model has no use for it: so what is here comes
when it is first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rewardmix.environments.labelling import named_like

if TYPE_CHECKING:
    from rewardmix.environments.playing import (
        check_horizon,
        expected_rewards,
        horizon_of,
        is_vector,
        play,
        play_returns,
        reward_values_of,
        sizes_of,
        step_copies,
        was_seeded,
    )
    from rewardmix.environments.single import RewardMixingEnv
    from rewardmix.environments.vector import RewardMixingVectorEnv
    from rewardmix.environments.wrappers import MixRewards, PreviousActionReward

__all__ = [
    "MixRewards",
    "PreviousActionReward",
    "RewardMixingEnv",
    "RewardMixingVectorEnv",
    "check_horizon",
    "expected_rewards",
    "horizon_of",
    "is_vector",
    "named_like",
    "play",
    "play_returns",
    "reward_values_of",
    "sizes_of",
    "step_copies",
    "was_seeded",
]

_FILES = {
    "MixRewards": "wrappers",
    "PreviousActionReward": "wrappers",
    "RewardMixingEnv": "single",
    "RewardMixingVectorEnv": "vector",
}
"""Name -> the file that has it; what is not here is in ``playing``."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_FILES.get(name, 'playing')}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
