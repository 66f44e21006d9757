"""The only folder that imports gymnasium: environments, wrappers, registration, and playing a policy in them."""

from rewardmix.environments.households import HouseholdEnv
from rewardmix.environments.playing import (
    check_horizon,
    expected_rewards,
    horizon_of,
    is_vector,
    named_like,
    play,
    reward_values_of,
    sizes_of,
    step_copies,
    was_seeded,
)
from rewardmix.environments.single import RewardMixingEnv
from rewardmix.environments.vector import RewardMixingVectorEnv
from rewardmix.environments.wrappers import MixRewards, PreviousActionReward

__all__ = [
    "HouseholdEnv",
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
    "reward_values_of",
    "sizes_of",
    "step_copies",
    "was_seeded",
]
