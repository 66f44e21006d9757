"""Settings of ``learn`` for tests of its stages."""

from rewardmix import problems
from rewardmix.exploration import practical
from rewardmix.learning.learn_settings import LearnSettings
from rewardmix.recovery import best


def settings(**changes):
    """The defaults of ``learn`` with a budget of 1,000 episodes, but for these changes."""
    usual = {
        "world": problems.make("hard"), "accuracy": 0.1, "failure": 0.05, "episodes": 1000, "num_contexts": 2,
        "weights": None, "seed": 0, "confidence": practical, "method": best, "refine": 0.5, "separation": 0.0,
        "resamples": 8, "validate": 0, "horizon": None, "reward_values": None, "on_update": None, "checkpoint": None,
    }  # fmt: skip
    return LearnSettings(**{**usual, **changes})
