"""Algorithm 2 to the threshold of the theorem, with parts of its bonuses left out to see what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.scaling import settings
from benchmarks.scaling.settings import Point
from rewardmix import problems, theory
from rewardmix.exploration import explore, make_batched_engine, paper_bonus, selected_pairs
from rewardmix.exploration import theory_bonus as explicit
from rewardmix.exploration.bonuses import Bonus, ProblemSize
from rewardmix.model import RewardMixingMDP

SIZES = ("states", "actions", "horizon")
MIN_VISITS = 1000
"""Visits below which a transition is unknown, where its bonus is left out."""


@dataclass(frozen=True)
class Fixed:
    """The paper's formulas with a constant instead of the logarithm; ``pairs`` and ``transitions`` switch parts off."""

    name: str
    pairs: bool = True
    transitions: bool = True
    scales_with_value: bool = False
    unseen_pair_weight: float = 1.0
    guarantee: str = "none: an ablation"

    def pair(self, counts: ArrayLike, size: ProblemSize) -> Any:
        """sqrt(L / n), or nothing."""
        return theory.bonus_width(settings.LEVEL, counts) * self.pairs

    def transition(self, counts: ArrayLike, size: ProblemSize) -> Any:
        """sqrt(S L / n), or nothing beyond the first visits."""
        full = theory.bonus_width(size.num_states * settings.LEVEL, counts)
        return full if self.transitions else np.where(np.asarray(counts) < MIN_VISITS, 1.0, 0.0)

    def initial(self, size: ProblemSize) -> Any:
        """sqrt(S L / K), or nothing."""
        return theory.bonus_width(size.num_states * settings.LEVEL, size.num_episodes) * self.transitions


SETTINGS: dict[str, Bonus] = {
    "paper": paper_bonus(1.0),
    "theory": explicit,
    "no logarithm": Fixed("no logarithm"),
    "pairs only": Fixed("pairs only", transitions=False),
    "moves only": Fixed("moves only", pairs=False),
}
CHANGES: dict[str, tuple[str, ...]] = {
    "paper": tuple(settings.ENDS),
    "theory": ("states", "actions", "horizon", "accuracy", "failure"),
    "no logarithm": ("states", "actions", "horizon", "accuracy"),
    "pairs only": ("states", "actions", "horizon"),
    "moves only": ("states", "actions", "horizon"),
}
"""Which factors each setting is swept over."""


def world_of(point: Point, seed: int, equal: bool = False) -> RewardMixingMDP:
    """A random model of this size. Exploration never looks at rewards, so the separation is only asked for.

    In a model of ``equal`` moves every action leads to every state with the same probability: nobody can steer.
    """
    size = {"states": point.states, "actions": point.actions, "horizon": point.horizon}
    env = problems.make_model("random", **size, seed=seed)
    if not equal:
        return env
    same = 1.0 / point.states
    transitions = np.full((point.states, point.actions, point.states), same)
    return replace(env, transition=transitions, initial=np.full(point.states, same))


def ended(point: Point, seed: int, bonus: Bonus, stop: float | None = None, equal: bool = False) -> int:
    """Episodes of Algorithm 2 until V_0 is at the threshold."""
    stop = theory.uncertainty_threshold(point.accuracy, point.separation, point.horizon) if stop is None else stop
    result = explore(
        world_of(point, seed, equal),
        uncertainty_threshold=stop,
        failure_prob=point.failure,
        bonus=bonus,
        counting=selected_pairs,
        engine=make_batched_engine,
        replan_growth=settings.GROWTH,
        seed=seed,
    )
    return result.num_episodes


def points(factor: str, base: Point, values: tuple[float, ...]) -> list[Point]:
    """The base with one factor changed."""
    return [base._replace(**{factor: int(value) if factor in SIZES else value}) for value in values]


def sweeps(quick: bool) -> Iterator[tuple[str, str, Point, tuple[float, ...], float | None]]:
    """(setting, name of the sweep, base, values, threshold if it is to stay the same)."""
    fixed = theory.uncertainty_threshold(settings.BASE.accuracy, settings.BASE.separation, settings.BASE.horizon)
    if quick:
        for factor in settings.QUICK:
            yield "paper", factor, settings.BASE, settings.ENDS[factor][:2], None
        return
    for setting, factors in CHANGES.items():
        for factor in factors:
            yield setting, factor, settings.BASE, settings.ENDS[factor], None
    for setting in ("no logarithm", "pairs only"):
        yield setting, "states, equal moves", settings.BASE, settings.ENDS["states"], None
    yield "paper", "accuracy, separation 0", settings.BASE._replace(separation=0.0), settings.ENDS["accuracy"], None
    yield "paper", "horizon, threshold fixed", settings.BASE, settings.ENDS["horizon"], fixed


def rows_of(quick: bool) -> Iterator[dict[str, Any]]:
    """One row for each sweep and model."""
    for setting, name, base, values, stop in sweeps(quick):
        factor = name.split(",")[0]
        full = settings.END_WORLDS if setting == "paper" else settings.ABLATION_WORLDS
        for seed in range(2 if quick else full):
            equal = name.endswith("equal moves")
            runs = [ended(point, seed, SETTINGS[setting], stop, equal) for point in points(factor, base, values)]
            yield {"setting": setting, "sweep": name, "world": seed, "values": list(values), "episodes": runs}


def printed(name: str, values: tuple[float, ...], form: str) -> list[float]:
    """What a bound says on the same grid: "theorem", or "lemma" (eq:required_episodes)."""
    factor = name.split(",")[0]
    base = settings.BASE._replace(separation=0.0) if name.endswith("separation 0") else settings.BASE
    fixed = theory.uncertainty_threshold(base.accuracy, base.separation, base.horizon)
    out = []
    for point in points(factor, base, values):
        stop = (
            fixed
            if name.endswith("fixed")
            else theory.uncertainty_threshold(point.accuracy, point.separation, point.horizon)
        )
        size = point.states, point.actions, point.horizon
        if form == "theorem":
            out.append(theory.upper_bound(*size, point.accuracy, point.separation, point.failure))
        else:
            out.append(theory.episode_bound(*size, stop, point.failure))
    return out


def other_worlds() -> list[dict[str, Any]]:
    """Models that are not dense and random, at one threshold: episodes as a share of eq:required_episodes."""
    stop, failure_prob = settings.STOP, settings.BASE.failure
    cases: list[tuple[str, dict[str, Any]]] = [
        ("random", {"states": 8, "actions": 3, "horizon": 8}),
        ("random", {"states": 8, "actions": 3, "horizon": 8, "next_states": 2}),
        ("random", {"states": 8, "actions": 3, "horizon": 8, "next_states": 1}),
        ("riverswim", {"states": 8}),
        ("lock", {"steps": 6}),
        ("hard", {"actions": 6}),
    ]
    rows = []
    for name, options in cases:
        env = problems.make_model(name, **options)
        result = explore(
            env,
            uncertainty_threshold=stop,
            failure_prob=failure_prob,
            bonus=paper_bonus(1.0),
            counting=selected_pairs,
            engine=make_batched_engine,
            replan_growth=1.5,
        )
        size = env.num_states, env.num_actions, env.horizon
        rows.append(
            {
                "world": name + (f", {options['next_states']} next states" if "next_states" in options else ""),
                "size": size,
                "episodes": result.num_episodes,
                "bound": theory.episode_bound(*size, stop, failure_prob),
            }
        )
    return rows
