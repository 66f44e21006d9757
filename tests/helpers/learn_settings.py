"""Make settings of ``learn`` for tests of its stages."""

from rewardmix import problems
from rewardmix.exploration import practical_bonus
from rewardmix.learning.learn_settings import LearnSettings
from rewardmix.recovery import maximum_likelihood


def make_learn_settings(**changes):
    """Return the defaults of ``learn`` with a budget of 1,000 episodes and these changes."""
    defaults = {
        "env": problems.make_model("hard"), "target_regret": 0.1, "failure_prob": 0.05, "num_episodes": 1000,
        "num_types": 2, "weights": None, "seed": 0, "bonus": practical_bonus, "method": maximum_likelihood,
        "refinement_fraction": 0.5, "min_separation": 0.0, "num_resamples": 8, "num_validation_episodes": 0,
        "horizon": None, "reward_values": None, "callback": None, "checkpoint_dir": None,
    }  # fmt: skip
    return LearnSettings(**{**defaults, **changes})
