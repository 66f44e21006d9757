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
from rewardmix.exploration import batched, explore, paper, selected
from rewardmix.exploration import theory as explicit
from rewardmix.exploration.bonuses import Confidence, Size
from rewardmix.model import RewardMixingMDP

SIZES = ("states", "actions", "horizon")
LEAST = 1000
"""Visits below which a move is unknown, where its bonus is left out."""


@dataclass(frozen=True)
class Fixed:
    """The paper's forms with a constant in the place of its logarithm; ``pairs`` and ``moves`` switch parts off."""

    name: str
    pairs: bool = True
    moves: bool = True
    scaled: bool = False
    guarantee: str = "none: an ablation"

    def pair(self, counts: ArrayLike, size: Size) -> Any:
        """sqrt(L / n), or nothing."""
        return theory.bonus(settings.LEVEL, counts) * self.pairs

    def move(self, counts: ArrayLike, size: Size) -> Any:
        """sqrt(S L / n), or nothing beyond the first visits."""
        full = theory.bonus(size.num_states * settings.LEVEL, counts)
        return full if self.moves else np.where(np.asarray(counts) < LEAST, 1.0, 0.0)

    def start(self, size: Size) -> Any:
        """sqrt(S L / K), or nothing."""
        return theory.bonus(size.num_states * settings.LEVEL, size.episodes) * self.moves


SETTINGS: dict[str, Confidence] = {
    "paper": paper(1.0),
    "theory": explicit,
    "no logarithm": Fixed("no logarithm"),
    "pairs only": Fixed("pairs only", moves=False),
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
    """A random world of this size. Exploration never looks at rewards, so the separation is only asked for.

    In a world of ``equal`` moves every action leads to every state with the same probability: nobody can steer.
    """
    size = {"states": point.states, "actions": point.actions, "horizon": point.horizon}
    world = problems.make("random", **size, seed=seed)
    if not equal:
        return world
    same = 1.0 / point.states
    moves = np.full((point.states, point.actions, point.states), same)
    return replace(world, transition=moves, initial=np.full(point.states, same))


def ended(point: Point, seed: int, confidence: Confidence, stop: float | None = None, equal: bool = False) -> int:
    """Episodes of Algorithm 2 until V_0 is at the threshold."""
    stop = theory.threshold(point.accuracy, point.separation, point.horizon) if stop is None else stop
    found = explore(
        world_of(point, seed, equal),
        threshold=stop,
        failure=point.failure,
        confidence=confidence,
        counts=selected,
        engine=batched,
        growth=settings.GROWTH,
        seed=seed,
    )
    return found.episodes


def points(factor: str, base: Point, values: tuple[float, ...]) -> list[Point]:
    """The base with one factor changed."""
    return [base._replace(**{factor: int(value) if factor in SIZES else value}) for value in values]


def sweeps(quick: bool) -> Iterator[tuple[str, str, Point, tuple[float, ...], float | None]]:
    """(setting, name of the sweep, base, values, threshold if it is to stay the same)."""
    fixed = theory.threshold(settings.BASE.accuracy, settings.BASE.separation, settings.BASE.horizon)
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
    """One row for each sweep and world."""
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
    fixed = theory.threshold(base.accuracy, base.separation, base.horizon)
    out = []
    for point in points(factor, base, values):
        stop = fixed if name.endswith("fixed") else theory.threshold(point.accuracy, point.separation, point.horizon)
        size = point.states, point.actions, point.horizon
        if form == "theorem":
            out.append(theory.upper_bound(*size, point.accuracy, point.separation, point.failure))
        else:
            out.append(theory.episode_bound(*size, stop, point.failure))
    return out


def other_worlds() -> list[dict[str, Any]]:
    """Worlds that are not dense and random, at one threshold: episodes as a share of eq:required_episodes."""
    stop, failure = settings.STOP, settings.BASE.failure
    known: list[tuple[str, dict[str, Any]]] = [
        ("random", {"states": 8, "actions": 3, "horizon": 8}),
        ("random", {"states": 8, "actions": 3, "horizon": 8, "successors": 2}),
        ("random", {"states": 8, "actions": 3, "horizon": 8, "successors": 1}),
        ("riverswim", {"states": 8}),
        ("lock", {"steps": 6}),
        ("hard", {"actions": 6}),
    ]
    rows = []
    for name, options in known:
        world = problems.make(name, **options)
        found = explore(
            world, threshold=stop, failure=failure, confidence=paper(1.0), counts=selected, engine=batched, growth=1.5
        )
        size = world.num_states, world.num_actions, world.horizon
        rows.append(
            {
                "world": name + (f", {options['successors']} next states" if "successors" in options else ""),
                "size": size,
                "episodes": found.episodes,
                "bound": theory.episode_bound(*size, stop, failure),
            }
        )
    return rows
