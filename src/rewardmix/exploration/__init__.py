"""Explore without rewards: collect pairs or triples of state-actions (Algorithm 2), by three engines.

Use ``explore`` for a model or a Gymnasium environment. The compiled engine plays a model episode by episode, the
environment engine uses ``reset`` and ``step``, and the batched engine draws up to trillions of episodes at once.
"""

from rewardmix.exploration.algorithm2 import (
    ExplorationSettings,
    explore,
    explore_with,
    make_batched_engine,
    make_compiled_engine,
)
from rewardmix.exploration.bonuses import Bonus, PracticalBonus, paper_bonus, practical_bonus, theory_bonus
from rewardmix.exploration.exploration_result import (
    Coverage,
    ExplorationError,
    ExplorationInfo,
    ExplorationProgress,
    ExplorationResult,
    pair_coverage_stats,
)
from rewardmix.exploration.running_counts import all_pairs, all_triples, selected_pairs
from rewardmix.exploration.strategies import optimistic_strategy, state_action_strategy, uniform_strategy

__all__ = [
    "Bonus",
    "Coverage",
    "ExplorationError",
    "ExplorationInfo",
    "ExplorationProgress",
    "ExplorationResult",
    "ExplorationSettings",
    "PracticalBonus",
    "all_pairs",
    "all_triples",
    "explore",
    "explore_with",
    "make_batched_engine",
    "make_compiled_engine",
    "optimistic_strategy",
    "pair_coverage_stats",
    "paper_bonus",
    "practical_bonus",
    "selected_pairs",
    "state_action_strategy",
    "theory_bonus",
    "uniform_strategy",
]
