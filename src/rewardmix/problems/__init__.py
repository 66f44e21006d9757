"""Named problems: worlds to try things on, from the paper's hardest family to real households."""

from rewardmix.problems.catalogue import identifiers, make, make_env, names, register, world_of
from rewardmix.problems.coupons import coupons, panel

__all__ = ["coupons", "identifiers", "make", "make_env", "names", "panel", "register", "world_of"]
