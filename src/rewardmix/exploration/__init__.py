"""Pure exploration of pairs of state-actions: Algorithm 2 of the paper, from line by line to trillions of episodes."""

from rewardmix.exploration.augmented import optimistic
from rewardmix.exploration.baselines import first_order, uniformly
from rewardmix.exploration.confidence import Confidence, Practical, paper, practical, theory
from rewardmix.exploration.counting import all_pairs, selected
from rewardmix.exploration.coverage import Coverage, coverage
from rewardmix.exploration.loop import batched, compiled, explore
from rewardmix.exploration.results import Exploration, ExplorationError, Info, Update

__all__ = [
    "Confidence",
    "Coverage",
    "Exploration",
    "ExplorationError",
    "Info",
    "Practical",
    "Update",
    "all_pairs",
    "batched",
    "compiled",
    "coverage",
    "explore",
    "first_order",
    "optimistic",
    "paper",
    "practical",
    "selected",
    "theory",
    "uniformly",
]
