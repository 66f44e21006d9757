"""Named problems: models to experiment with, from the paper's hardest family to a web shop."""

from rewardmix.problems.catalogue import as_world, identifiers, make, make_env, names, register

__all__ = ["as_world", "identifiers", "make", "make_env", "names", "register"]
