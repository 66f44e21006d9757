"""Pure exploration of pairs of state-actions: Algorithm 2 of the paper, from line by line to trillions of episodes."""

from rewardmix.exploration.algorithm2 import ExploreSettings, batched, compiled, explore, explore_with
from rewardmix.exploration.bonuses import Confidence, Practical, paper, practical, theory
from rewardmix.exploration.exploration_result import (
    Coverage,
    Exploration,
    ExplorationError,
    ExplorationInfo,
    Update,
    coverage,
)
from rewardmix.exploration.strategies import first_order, optimistic, uniformly
from rewardmix.exploration.tally import all_pairs, all_triples, selected

__all__ = [
    "Confidence",
    "Coverage",
    "Exploration",
    "ExplorationError",
    "ExplorationInfo",
    "ExploreSettings",
    "Practical",
    "Update",
    "all_pairs",
    "all_triples",
    "batched",
    "compiled",
    "coverage",
    "explore",
    "explore_with",
    "first_order",
    "optimistic",
    "paper",
    "practical",
    "selected",
    "theory",
    "uniformly",
]
