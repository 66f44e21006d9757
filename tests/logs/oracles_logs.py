"""Slow and plain versions of what logs computes, and a policy that follows rewards."""

from dataclasses import dataclass

import numpy as np

from rewardmix import problems, simulate, uniform
from rewardmix.episodes import ABSENT, Episodes


def world(states=4, actions=3, horizon=6, seed=1, **options):
    return problems.make("random", states=states, actions=actions, horizon=horizon, seed=seed, **options)


def uniform_log(count=2000, **options):
    model = world(**options)
    return simulate(uniform(model), model, count)


def shortened(episodes, seed=0):
    """The same episodes, some of them ended early or with an unknown last state."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, episodes.horizon + 1, len(episodes)).astype(np.int32)
    here = np.arange(episodes.horizon) < lengths[:, None]
    there = np.arange(episodes.horizon + 1) <= lengths[:, None] - (rng.random((len(episodes), 1)) < 0.3)
    return Episodes(
        np.where(there, episodes.states, ABSENT),
        np.where(here, episodes.actions, ABSENT).astype(np.int16),
        np.where(here, episodes.outcomes, ABSENT).astype(np.int8),
        lengths, episodes.num_states, episodes.num_actions, episodes.reward_values,
    )  # fmt: skip


def rows_of(episodes):
    """The long form as a dictionary of lists, written out step by step."""
    columns = {name: [] for name in ("episode", "step", "state", "action", "reward")}
    for k in range(len(episodes)):
        for t in range(int(episodes.lengths[k])):
            reward = float(episodes.reward_values[episodes.outcomes[k, t]])
            for name, value in zip(
                columns, (k, t, int(episodes.states[k, t]), int(episodes.actions[k, t]), reward), strict=True
            ):
                columns[name].append(value)
    return columns


@dataclass
class WinStay:
    """Repeats a rewarded action nine times out of ten; otherwise any."""

    num_actions: int

    def start(self, state):
        return -1, 0.0

    def act(self, memory, rng):
        action, reward = memory
        stays = action >= 0 and reward > 0 and rng.random() < 0.9
        return action if stays else int(rng.integers(self.num_actions))

    def observe(self, memory, action, reward, next_state):
        return action, reward


def same(one, two):
    return all(
        np.array_equal(getattr(one, name), getattr(two, name)) for name in ("states", "actions", "outcomes", "lengths")
    )
