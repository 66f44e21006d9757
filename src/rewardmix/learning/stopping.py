"""When a run of ``learn`` ends that has no budget: after rounds, or at the threshold of the paper's theorem.

Rounds double until a rule is met. The threshold is eps_pe, and takes so many episodes that it is forecast first: what
no run can play is refused, and of a model it is played at once, by the batched engine.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rewardmix import theory
from rewardmix._core import storage
from rewardmix._core.checks import quoted, refuse
from rewardmix.exploration.bonuses import Confidence, Paper, Theory
from rewardmix.learning.learn_settings import LearnSettings

MOST_EPISODES = 20_000_000
"""Without a budget no run that plays episode by episode goes on beyond this; the certificate then says that the rule
was not met."""

MOST_BATCHED = 1 << 52
"""Episodes that the batched engine may be asked for: more cannot be counted without rounding."""

MOST_ROUNDS = 15
"""The number of the round that is at least ``MOST_EPISODES`` long, the last one."""


def to_threshold(confidence: Confidence) -> bool:
    """Whether a setting stops at the threshold of the theorem, as Algorithm 1 does."""
    return isinstance(confidence, Theory | Paper)


@dataclass(frozen=True)
class Goal:
    """What exploration to the threshold of the theorem takes.

    Attributes:
        target: eps_pe, where V_0 has to be.
        forecast: episodes, about.
        most: episodes after which it is given up.
        at_once: whether the batched engine has to play them.
    """

    target: float
    forecast: float
    most: int
    at_once: bool


def goal_of(asked: LearnSettings) -> Goal:
    """The threshold of theorem:upper_bound and what it takes; refused if that cannot be played."""
    target = theory.threshold(asked.accuracy, asked.separation, asked.sizes[2])
    constant = asked.confidence.constant if isinstance(asked.confidence, Paper) else 1.0
    forecast = theory.fluid_episodes(*asked.sizes, target, asked.failure, constant)
    at_once = forecast > MOST_EPISODES and asked.known
    most = MOST_BATCHED if at_once else MOST_EPISODES
    if forecast > most:
        refuse(
            "accuracy",
            f"{asked.accuracy:g}, for which V_0 has to fall to {target:.2g} in a world of size {asked.sizes}: about "
            f"{forecast:.1g} episodes",
            f"what {most:.1g} episodes are enough for: a larger accuracy, a separation, a budget of episodes, or the "
            "practical setting",
        )
    return Goal(target, forecast, most, at_once)


def rounds_passed(folder: Path | None) -> int:
    """Rounds that an earlier, interrupted call had found too short, as its checkpoint says."""
    path = None if folder is None else folder / "rounds.json"
    if path is None or not path.is_file():
        return 0
    text = path.read_bytes()
    try:
        number = json.loads(text)["passed"]
    except (ValueError, TypeError, KeyError):
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MOST_ROUNDS:
        wanted = f'{{"passed": a whole number from 0 to {MOST_ROUNDS}}}, as learn writes it; or another folder'
        refuse("checkpoint", f"{quoted(text)} in {path}", wanted)
    return number


def pass_round(folder: Path | None, number: int) -> None:
    """Say in a checkpoint that so many rounds were too short."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        storage.replace(folder / "rounds.json", json.dumps({"passed": number}).encode())
