"""The models and targets of the study."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewardmix import RewardMixingMDP, problems

SUCCESSORS = 3
SEPARATION = 0.02


@dataclass(frozen=True)
class Case:
    """A model, a gap, and the CPU seconds in which it has to be reached (None: no target)."""

    family: str
    states: int
    actions: int
    horizon: int
    gap: float
    target: float | None = None
    num_types: int = 2

    @property
    def name(self) -> str:
        return f"{self.family} M={self.num_types} S={self.states} A={self.actions} H={self.horizon} gap {self.gap:g}"

    def model(self, seed: int = 0) -> RewardMixingMDP:
        return FAMILIES[self.family](self.states, self.actions, self.horizon, self.num_types, seed)


def dense(states, actions, horizon, num_types, seed) -> RewardMixingMDP:
    return problems.make_model(
        "random", states=states, actions=actions, horizon=horizon, num_types=num_types, seed=seed
    )


def sparse(states, actions, horizon, num_types, seed) -> RewardMixingMDP:
    size = {"states": states, "actions": actions, "horizon": horizon, "num_types": num_types}
    return problems.make_model("random", **size, next_states=SUCCESSORS, seed=seed)


def small_separation(states, actions, horizon, num_types, seed) -> RewardMixingMDP:
    size = {"states": states, "actions": actions, "horizon": horizon, "num_types": num_types}
    return problems.make_model("random", **size, separation=SEPARATION, seed=seed)


def probe(states, actions, horizon, num_types, seed) -> RewardMixingMDP:
    """Half lobbies, half rooms without a way back: asking pays little, rooms pay much in one type and little else.

    In a lobby action 0 asks (and tells), action 1 waits, the others are doors; the laws of asking and of rooms vary.
    """
    rng = np.random.default_rng(seed)
    lobbies = states // 2
    transition = np.zeros((states, actions, states))
    transition[:lobbies, :2, :lobbies] = rng.dirichlet(np.ones(lobbies), (lobbies, 2))
    rooms = rng.integers(lobbies, states, size=(lobbies, actions - 2))
    transition[np.arange(lobbies)[:, None], np.arange(2, actions), rooms] = 1.0
    transition[lobbies:, :, lobbies:] = np.eye(states - lobbies)[:, None]
    rewards = np.full((num_types, states, actions), 0.3)
    rewards[:, :lobbies, 0] = 0.0
    rewards[0, :lobbies, 0] = rng.uniform(0.2, 0.5, lobbies)
    home = rng.integers(num_types, size=states - lobbies)
    pays = rng.uniform(0.7, 0.95, states - lobbies)
    rewards[:, lobbies:] = np.where(np.arange(num_types)[:, None] == home, pays, 1 - pays)[:, :, None]
    initial = np.zeros(states)
    initial[:lobbies] = 1 / lobbies
    return RewardMixingMDP(transition, initial, np.full(num_types, 1 / num_types), rewards, horizon)


FAMILIES = {"dense": dense, "sparse": sparse, "small separation": small_separation, "probe": probe}

TARGETS = [
    Case("dense", 20, 4, 10, 1e-4, 0.02),
    Case("dense", 50, 5, 10, 1e-4, 0.1),
    Case("dense", 50, 5, 10, 1e-6, 0.8),
    Case("dense", 200, 10, 50, 2e-4, 4.0),
    Case("dense", 200, 10, 50, 1e-5, 16.0),
    Case("sparse", 20, 4, 10, 1e-3, 3.0, num_types=3),
]
OTHERS = [
    *(Case(family, 50, 5, 10, 1e-5) for family in FAMILIES),
    *(Case(family, 200, 10, 50, 1e-5) for family in ("sparse", "small separation", "probe")),
]
QUICK = 3
"""How many of each list a quick run takes."""
MANY = [
    Case(family, *sizes, 1e-3, num_types=num_types)
    for family, sizes in (("dense", (10, 3, 8)), ("sparse", (20, 4, 10)))
    for num_types in (3, 4, 5, 6, 8)
]
MANY_WORK = 1e10
"""Simple steps."""

GAPS = [1e-5, 1e-6, 1e-7, 1e-8]
HORIZONS = [10, 20, 40, 80]
ACTIONS = [4, 8, 16, 32]
ENTRIES = [2, 8, 32, 128]
RIVALS = [Case("dense", 3, 2, 4, 1e-2), Case("dense", 5, 3, 6, 1e-2), Case("sparse", 10, 3, 8, 1e-2)]
RIVAL_SECONDS = 20.0
