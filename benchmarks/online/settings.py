"""What the study of earning runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from examples.purchases import make_purchase_env

import rewardmix as rm
from benchmarks.online import baselines
from rewardmix import problems
from rewardmix.model import RewardMixingMDP

EPISODES = 20_000
EARLY = 5_000
"""Episodes after which the regret is looked at for the first time."""

FIRST = 2_000
"""Episodes whose reward is told beside that of all."""

SEEDS = 20
"""Of the problem, where it has one, and of the learner."""

FEWER_SEEDS = 10
"""Of rivals, and of agents that are told less or too much: what is asked is how many times as much they cost."""

MODELS: dict[str, Callable[[int], RewardMixingMDP]] = {
    "random 5x3x6": lambda seed: problems.make_model("random", states=5, actions=3, horizon=6, seed=seed),
    "lock 5": lambda seed: problems.make_model("lock", steps=5, seed=seed),
    "hard A=3 e=.04": lambda seed: problems.make_model("hard", actions=3, epsilon=0.04, seed=seed),
    "hard A=8 e=.16": lambda seed: problems.make_model("hard", actions=8, epsilon=0.16, seed=seed),
    "probe": lambda seed: problems.make_model("probe", horizon=8),
    "riverswim 6": lambda seed: problems.make_model("riverswim", states=6),
    "lock 8": lambda seed: problems.make_model("lock", steps=8, seed=seed),
    "shop": lambda seed: problems.make_model("shop"),
}
"""The six of the feasibility study, as far as the catalogue has them (its probe was another), and two more."""

HOUSEHOLDS = "crackers"
"""Real households in random order: a world without a model, so that only what was collected is known."""

HOUSEHOLD_TYPES = 4
"""Nobody knows how many types of households there are: the agent finds it out, and rivals, which cannot, are told this
many, which serves them better than two."""

NUMBERS: dict[str, Callable[[int], RewardMixingMDP]] = {
    "random 5x3x6": MODELS["random 5x3x6"],
    "random 3 types": lambda seed: problems.make_model(
        "random", states=5, actions=3, horizon=6, num_types=3, seed=seed
    ),
    "random 4 types": lambda seed: problems.make_model(
        "random", states=5, actions=3, horizon=6, num_types=4, seed=seed
    ),
}
"""Two, three and four types."""

WORLDS: dict[str, Callable[[int], Any]] = {
    **MODELS,
    HOUSEHOLDS: lambda seed: make_purchase_env("cracker", seed=seed),
    **NUMBERS,
}

GOALS = {
    "random 5x3x6": 240,
    "lock 5": 230,
    "hard A=3 e=.04": 250,
    "hard A=8 e=.16": 600,
    "probe": 220,
    "riverswim 6": 240,
    "lock 8": 300,
    "shop": 250,
}
"""Mean regret that is asked for."""

UNTOLD, TOO_MANY = 1.35, 1.3
"""What not knowing the number of types may cost, and one type too many: times the regret of an agent that knows."""

GROWTH = 1.3
"""Growth of the regret from ``EARLY`` to ``EPISODES`` that is asked for, in the median."""

TAIL, RARE = 3.0, 1 / 40
"""A run is bad if it costs this many times the best median; such runs should be at most this rare."""


def untold(*, num_types: int, **sizes: Any) -> rm.PosteriorSamplingAgent:
    """An agent that finds out how many types there are."""
    return rm.PosteriorSamplingAgent(**sizes, num_types="auto")


def one_too_many(*, num_types: int, **sizes: Any) -> rm.PosteriorSamplingAgent:
    """An agent that is told of one type more than there are."""
    return rm.PosteriorSamplingAgent(**sizes, num_types=num_types + 1)


METHODS: dict[str, Any] = {
    "agent": rm.PosteriorSamplingAgent,
    "told": rm.PosteriorSamplingAgent,
    "not told": untold,
    "told one more": one_too_many,
    "blind": baselines.single_type_agent,  # as in results.jsonl
    "certainty equivalence": baselines.CertaintyEquivalence,
    "epsilon greedy": baselines.epsilon_greedy(20),
    "commit after 500": baselines.explore_then_commit(500),
    "commit after 2000": baselines.explore_then_commit(2000),
}
"""Each is a part of the study. ``told`` is the agent where there are more types than two."""

RIVALS = ("blind", "certainty equivalence", "epsilon greedy", "commit after 500", "commit after 2000")
"""Those that the agent is judged beside."""


def types_told(problem: str, env_or_model: Any, method: str) -> int | str:
    """How many types a method is told of."""
    if problem == HOUSEHOLDS:
        return "auto" if method == "agent" else HOUSEHOLD_TYPES
    return int(env_or_model.num_types)


def worlds_of(method: str) -> tuple[str, ...]:
    """Where a method is played."""
    if method == "agent" or method in RIVALS:
        return (*MODELS, HOUSEHOLDS)
    return tuple(problem for problem in NUMBERS if method != "told" or problem not in MODELS)


def seeds_of(method: str) -> int:
    """How often."""
    return SEEDS if method == "agent" else FEWER_SEEDS
