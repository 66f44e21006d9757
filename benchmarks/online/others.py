"""What people would use instead, in the same worlds: RecurrentPPO (sb3-contrib) and a contextual bandit (mabwiser).

python -m benchmarks.online.others [--quick] [--parts "recurrent,bandit"]

It needs ``pip install rewardmix[bench] mabwiser`` and torch, and imports them only when a part is run. What counts is
the reward that is collected on the way, with all the trying that it takes: in the first 2,000 episodes and in 20,000.
RecurrentPPO sees state, previous action and previous reward, in the setting that ``benchmarks.learning`` chose and in
one that learns from fewer episodes at a time. The bandit sees (state, step, last reward) and takes each step by itself.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cells import show
from benchmarks.online import analysis, settings
from benchmarks.record import Rows, rows_of, run
from rewardmix.model import RewardMixingMDP

WORLDS = ("shop", "random 5x3x6", "probe")
SEEDS = 3

RECURRENT: dict[str, dict[str, Any]] = {
    "RecurrentPPO, 256 at a time": {"num_envs": 64, "batch_size": 1280},
    "RecurrentPPO, 64 at a time": {"num_envs": 16, "batch_size": 320},
}
"""Episodes between two updates; the rest as the sweep of ``benchmarks.learning`` chose it."""

BANDITS = {"LinUCB 0.3": ("LinUCB", 0.3), "LinTS 0.3": ("LinTS", 0.3), "LinUCB 1": ("LinUCB", 1.0)}
"""Policies of mabwiser, with their width."""

RANDOM_FIRST = 20
"""Episodes that the bandit plays at random, so that every arm was tried."""

BATCH_DIVISOR = 50
"""The bandit learns from batches of at most one part in so many of the episodes so far, as ``learn_online`` does."""


def row_of(problem: str, method: str, seed: int, returns: np.ndarray, seconds: float) -> dict[str, Any]:
    """What was collected."""
    return {
        "world": problem,
        "method": method,
        "seed": seed,
        "episodes": int(returns.size),
        "first": float(returns[: settings.FIRST].sum()),
        "total": float(returns.sum()),
        "cpu_seconds": seconds,
    }


def runs_of(part: str, methods: Any, collected: Any, quick: bool) -> Iterator[dict[str, Any]]:
    """Every method on every problem, one seed after the other; runs that were recorded are kept."""
    episodes = 300 if quick else settings.EPISODES
    recorded = {(row["world"], row["method"], row["seed"]): row for row in (() if quick else rows_of("online", part))}
    for seed in range(1 if quick else SEEDS):
        for method, options in methods.items():
            for problem in WORLDS:
                if row := recorded.get((problem, method, seed)):
                    yield row
                    continue
                begin = time.process_time()
                returns = collected(settings.MODELS[problem](seed), options, episodes, seed)
                yield row_of(problem, method, seed, returns, time.process_time() - begin)


def recurrent(quick: bool) -> Iterator[dict[str, Any]]:
    """RecurrentPPO."""
    return runs_of("recurrent", RECURRENT, trained_returns, quick)


def trained_returns(model: RewardMixingMDP, options: dict[str, Any], episodes: int, seed: int) -> np.ndarray:
    """(episodes,) returns of RecurrentPPO while it is trained, in the order in which they ended."""
    import torch
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.callbacks import BaseCallback

    from benchmarks.learning.recurrent import ManyCopies

    class Collected(BaseCallback):
        """Adds up rewards; all copies begin and end together, since every episode has H steps."""

        def __init__(self) -> None:
            super().__init__()
            self.rewards: list[np.ndarray] = []

        def _on_step(self) -> bool:
            self.rewards.append(np.asarray(self.locals["rewards"], float).copy())
            return True

    torch.set_num_threads(1)
    torch.distributions.Distribution.set_default_validate_args(False)
    learner = RecurrentPPO(
        "MlpLstmPolicy",
        ManyCopies(model, options["num_envs"], seed),
        learning_rate=1e-2,
        n_steps=4 * model.horizon,
        batch_size=options["batch_size"],
        n_epochs=5,
        ent_coef=0.01,
        gamma=1.0,
        policy_kwargs={"lstm_hidden_size": 32, "net_arch": [32]},
        seed=seed,
        device="cpu",
    )
    watch = Collected()
    learner.learn(episodes * model.horizon, callback=watch)
    steps = np.array(watch.rewards).reshape(-1, model.horizon, options["num_envs"])
    return np.asarray(steps.sum(axis=1).ravel()[:episodes])


def bandit(quick: bool) -> Iterator[dict[str, Any]]:
    """Contextual bandits."""
    return runs_of("bandit", BANDITS, bandit_returns, quick)


def bandit_returns(model: RewardMixingMDP, options: tuple[str, float], episodes: int, seed: int) -> np.ndarray:
    """(episodes,) returns of a linear contextual bandit; the more it has heard of, the more are played at once."""
    from mabwiser.mab import MAB, LearningPolicy

    from rewardmix.environments import RewardMixingVectorEnv

    name, width = options
    actions = list(range(model.num_actions))
    chooser, rng = MAB(actions, getattr(LearningPolicy, name)(alpha=width), seed=seed), np.random.default_rng(seed)
    returns: list[np.ndarray] = []
    done = 0
    while done < episodes:
        number = RANDOM_FIRST if done == 0 else min(max(1, done // BATCH_DIVISOR), episodes - done)
        env = RewardMixingVectorEnv(model, number, autoreset_mode="SameStep")
        states, _ = env.reset(seed=int(rng.integers(2**31)))
        last, totals = np.full(number, -1), np.zeros(number)
        all_inputs: list[np.ndarray] = []
        all_actions: list[np.ndarray] = []
        rewards: list[np.ndarray] = []
        for step in range(model.horizon):
            inputs = features(model, states, step, last)
            chosen_actions = (
                rng.integers(model.num_actions, size=number) if done == 0 else np.atleast_1d(chooser.predict(inputs))
            )
            states, reward, _, _, _ = env.step(np.asarray(chosen_actions))
            last = np.searchsorted(model.reward_values, reward)
            totals += reward
            all_inputs, all_actions, rewards = (
                [*all_inputs, inputs],
                [*all_actions, np.asarray(chosen_actions)],
                [*rewards, reward],
            )
        learn = chooser.fit if done == 0 else chooser.partial_fit
        learn(np.concatenate(all_actions), np.concatenate(rewards), np.concatenate(all_inputs))
        returns.append(totals)
        done += number
    return np.concatenate(returns)[:episodes]


def features(model: RewardMixingMDP, states: np.ndarray, step: int, last: np.ndarray) -> np.ndarray:
    """(n, F): one of (state, last reward), and one of the steps."""
    kinds = model.num_values + 1
    out = np.zeros((states.size, model.num_states * kinds + model.horizon))
    out[np.arange(states.size), states * kinds + last + 1] = 1.0
    out[:, model.num_states * kinds + step] = 1.0
    return out


def print_rows(part: str, rows: Rows, quick: bool) -> None:
    """What was collected."""
    show(analysis.collected(rows))


PARTS = {"recurrent": recurrent, "bandit": bandit}

if __name__ == "__main__":
    run(__doc__, "online", PARTS, print_rows, program="others")
