"""What the study of earning runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rewardmix as rm
from rewardmix import problems
from rewardmix.model import RewardMixingMDP
from rewardmix.online import rivals

EPISODES = 20_000
EARLY = 5_000
"""Episodes after which the regret is looked at for the first time."""

SEEDS = 20
"""Of the world, where it has one, and of the learner."""

WORLDS: dict[str, Callable[[int], RewardMixingMDP]] = {
    "random 5x3x6": lambda seed: problems.make("random", states=5, actions=3, horizon=6, seed=seed),
    "lock 5": lambda seed: problems.make("lock", steps=5, seed=seed),
    "hard A=3 e=.04": lambda seed: problems.make("hard", actions=3, accuracy=0.04, seed=seed),
    "hard A=8 e=.16": lambda seed: problems.make("hard", actions=8, accuracy=0.16, seed=seed),
    "probe": lambda seed: problems.make("probe", horizon=8),
    "riverswim 6": lambda seed: problems.make("riverswim", states=6),
    "lock 8": lambda seed: problems.make("lock", steps=8, seed=seed),
    "shop": lambda seed: problems.make("shop"),
    "random 3 types": lambda seed: problems.make("random", states=5, actions=3, horizon=6, contexts=3, seed=seed),
    "random 4 types": lambda seed: problems.make("random", states=5, actions=3, horizon=6, contexts=4, seed=seed),
}
"""The six of the feasibility study, as far as the catalogue has them (its probe was another), two more, and more types.
"""

TARGETS = {
    "random 5x3x6": 240,
    "lock 5": 230,
    "hard A=3 e=.04": 250,
    "hard A=8 e=.16": 600,
    "probe": 220,
    "riverswim 6": 240,
    "lock 8": 300,
    "shop": 250,
}
"""Mean regret that is asked for, where some is."""

UNTOLD, TOO_MANY = 1.35, 1.3
"""What not knowing the number of types may cost, and one type too many: times the regret of an agent that knows."""

GROWTH = 1.3
"""Growth of the regret from ``EARLY`` to ``EPISODES`` that is asked for, in the median."""

TAIL, RARE = 3.0, 1 / 40
"""A run is bad if it costs this many times the best median; such runs should be at most this rare."""


def untold(*, num_contexts: int, **sizes: Any) -> rm.Agent:
    """An agent that finds out how many types there are."""
    return rm.Agent(**sizes, num_contexts="auto")


def one_too_many(*, num_contexts: int, **sizes: Any) -> rm.Agent:
    """An agent that is told of one type more than there are."""
    return rm.Agent(**sizes, num_contexts=num_contexts + 1)


METHODS: dict[str, Any] = {
    "agent": rm.Agent,
    "agent not told": untold,
    "agent told one more": one_too_many,
    "context-blind": rivals.blind,
    "certainty equivalence": rivals.CertaintyEquivalence,
    "epsilon-greedy": rivals.epsilon_greedy(20),
    "explore 500 then commit": rivals.explore_then_commit(500),
    "explore 2000 then commit": rivals.explore_then_commit(2000),
}
