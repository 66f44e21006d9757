"""Named problems: worlds to try things on, from the paper's hardest family to real households."""

from rewardmix.problems.catalogue import as_world, identifiers, make, make_env, names, register
from rewardmix.problems.coupons import coupons, panel

__all__ = ["as_world", "coupons", "identifiers", "make", "make_env", "names", "panel", "register"]
