"""What learning needs: exact regret over budgets, in random models of a given size and separation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.scaling import settings
from benchmarks.scaling.ends import points
from benchmarks.scaling.settings import Point
from rewardmix import problems
from rewardmix.evaluation import controller_value
from rewardmix.exploration import explore, make_batched_engine, selected_pairs
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import plan, plan_markov
from rewardmix.recovery import RecoveryResult, align_types, recover


class ModelValues(NamedTuple):
    """A model with its best value and what adapting gains there."""

    world: RewardMixingMDP
    best: float
    gain: float


def evaluate_model(point: Point, seed: int) -> ModelValues:
    """Model ``seed`` of this size: p_1 and p_2 are ``separation`` above and below their average, everywhere."""
    size = {"states": point.states, "actions": point.actions, "horizon": point.horizon}
    env = problems.make_model("random", **size, separation=point.separation, seed=seed)
    best = plan(env, gap=settings.GAP).upper
    return ModelValues(env, best, best - plan_markov(env).value)


def everything(env: RewardMixingMDP, episodes: int, seed: int) -> RecoveryResult:
    """Explore and recover as ``learn`` does."""
    return recover(explore(env, num_episodes=episodes, seed=seed).episodes, seed=seed)


def one_pair(env: RewardMixingMDP, episodes: int, seed: int) -> RecoveryResult:
    """The same from one picked pair of each episode, the paper's counts."""
    result = explore(env, num_episodes=episodes, seed=seed, counting=selected_pairs, engine=make_batched_engine)
    return recover(result.moments, weights="uniform", seed=seed)


WAYS = {"learn": everything, "one pair": one_pair}


MEASURES = ("regret", "value error", "rmse")


def run(way: str, judge: ModelValues, episodes: int, seed: int) -> dict[str, float]:
    """Regret, the error of the policy's own value, and that of the rewards."""
    result = WAYS[way](judge.world, episodes, seed).model
    policy = plan(result, gap=settings.GAP).policy
    value = controller_value(policy, judge.world)
    off = align_types(result, judge.world).rewards - judge.world.rewards
    return {
        "regret": max(judge.best - value, 0.0),
        "value error": abs(controller_value(policy, result) - value),
        "rmse": float(np.sqrt((off**2).mean())),
    }


def curve_of(way: str, factor: str, point: Point, targets: dict[str, float], envs: int) -> dict[str, Any]:
    """Budgets upwards until means over models are at half of their targets, so that resamples of models cross too.

    The target "share" is one for the mean regret as a share of the mean gain.
    """
    judges = [evaluate_model(point, seed) for seed in range(envs)]
    gains = [judge.gain for judge in judges]
    bounds = {key: target * (np.mean(gains) if key == "share" else 1.0) / 2 for key, target in targets.items()}
    table: dict[str, list[list[float]]] = {name: [] for name in MEASURES}
    used: list[int] = []
    for episodes in settings.BUDGETS:
        runs = [run(way, judge, episodes, seed) for seed, judge in enumerate(judges)]
        used.append(episodes)
        for name, rows in table.items():
            rows.append([round(result[name], 7) for result in runs])
        if all(np.mean(table["regret" if key == "share" else key][-1]) <= bound for key, bound in bounds.items()):
            break
    rounded = [round(gain, 6) for gain in gains]
    return {"way": way, "factor": factor, "point": point._asdict(), "budgets": used, "gain": rounded, **table}


def curves(quick: bool) -> Iterator[dict[str, Any]]:
    """The base far down, then every factor."""
    base, envs = settings.LEARNED, 2 if quick else settings.WORLDS
    base_targets = {"regret": settings.ACCURACIES[-3 if quick else -1], "value error": 0.0 if not quick else 1.0}
    yield curve_of("learn", "accuracy", base, base_targets, envs)
    for factor, values in settings.FACTORS.items():
        if quick and factor != "horizon":
            continue
        targets = {"regret": base.accuracy, "share": settings.SHARE if factor == "separation" else 1.0}
        for point in points(factor, base, values[1:3] if quick else values):
            yield curve_of("learn", factor, point, targets, envs)


def pair_curves(quick: bool) -> Iterator[dict[str, Any]]:
    """The same with one pair an episode."""
    envs = 2 if quick else settings.PAIR_WORLDS
    for factor, values in settings.PAIR_FACTORS.items():
        if quick and factor != "horizon":
            continue
        for point in points(factor, settings.LEARNED, values[:1] if quick else values):
            yield curve_of("one pair", factor, point, {"regret": settings.LEARNED.accuracy}, envs)
