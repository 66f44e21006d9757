"""Decide when a run of ``learn`` without a budget ends: after rounds, or at the threshold of the paper's theorem.

Rounds double until the stopping rule is met. The threshold is eps_pe, and needs so many episodes that their number is
predicted first: a run that needs too many is rejected, and a model is then played by the batched engine.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rewardmix import theory
from rewardmix._core import storage
from rewardmix._core.checks import quote_value, raise_input_error
from rewardmix.exploration.bonuses import Bonus, PaperBonus, TheoryBonus
from rewardmix.learning.learn_settings import LearnSettings

MAX_EPISODES = 20_000_000
"""Largest number of episodes of a run without a budget that plays episode by episode; the certificate then states that
the rule was not met.
"""

MAX_BATCHED_EPISODES = 1 << 52
"""Largest number of episodes of the batched engine: more cannot be counted without rounding in float64."""

MAX_ROUND = 15
"""Index of the last round, the first with at least ``MAX_EPISODES`` episodes."""


def runs_to_threshold(bonus: Bonus) -> bool:
    """Return whether a bonus stops at the threshold of the theorem, as Algorithm 1 does."""
    return isinstance(bonus, TheoryBonus | PaperBonus)


@dataclass(frozen=True)
class ThresholdGoal:
    """Exploration that the threshold of the theorem requires.

    Attributes:
        uncertainty_target: eps_pe, the threshold of V_0.
        predicted_episodes: Approximate number of episodes.
        max_episodes: Number of episodes after which exploration stops without success.
        use_batched_engine: Whether the batched engine has to play them.
    """

    uncertainty_target: float
    predicted_episodes: float
    max_episodes: int
    use_batched_engine: bool


def plan_threshold_run(settings: LearnSettings) -> ThresholdGoal:
    """Compute the threshold of theorem:upper_bound and its number of episodes; reject what cannot be played."""
    target = theory.threshold_of_target(
        "target_regret", settings.target_regret, settings.min_separation, settings.sizes[2]
    )
    # The theory bonus has constant 1; ``paper_bonus(c)`` scales it, and the number of episodes with it.
    constant = settings.bonus.scale if isinstance(settings.bonus, PaperBonus) else 1.0
    predicted = theory.estimate_paper_episodes(*settings.sizes, target, settings.failure_prob, constant)
    use_batched_engine = predicted > MAX_EPISODES and settings.has_model
    max_episodes = MAX_BATCHED_EPISODES if use_batched_engine else MAX_EPISODES
    if predicted > max_episodes:
        raise_input_error(
            "target_regret",
            f"{settings.target_regret:g}, which requires V_0 <= {target:.2g} and about {predicted:.1g} episodes",
            f"one that at most {max_episodes:.1g} episodes reach; raise target_regret, or give min_separation, "
            "num_episodes or bonus=practical_bonus",
        )
    return ThresholdGoal(target, predicted, max_episodes, use_batched_engine)


def load_round(folder: Path | None) -> int:
    """Load the number of rounds that an earlier, interrupted call found too short."""
    path = None if folder is None else folder / "rounds.json"
    if path is None or not path.is_file():
        return 0
    text = path.read_bytes()
    try:
        number = json.loads(text)["round"]
    except (ValueError, TypeError, KeyError):
        number = None
    # JSON true is an int in Python, and the file may have been edited by hand.
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_ROUND:
        expected = f'{{"round": a whole number from 0 to {MAX_ROUND}}}; choose another folder'
        raise_input_error("checkpoint", f"{quote_value(text)} in {path}", expected)
    return number


def save_round(folder: Path | None, number: int) -> None:
    """Save the number of rounds that were too short."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        # The file is replaced atomically, so an interrupt leaves either the old or the new number.
        storage.write_atomic(folder / "rounds.json", json.dumps({"round": number}).encode())
