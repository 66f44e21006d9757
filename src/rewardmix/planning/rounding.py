"""How far floating-point arithmetic can move a bound: brackets are widened by it, so they hold in exact arithmetic.

One backward step sums at most ``width`` products over next states and a few for each outcome; each operation errs
by at most one unit of rounding relative to the sum of magnitudes, which H * max|reward| bounds. H steps add up.
"""

from __future__ import annotations

import numpy as np

from rewardmix.model import RewardMixingMDP


def rounding_bound(model: RewardMixingMDP, width: int) -> float:
    """Most by which a bound of the value may be off after H backward steps with sums of ``width`` terms."""
    scale = model.horizon * float(np.abs(model.reward_values).max())
    operations = width + 4 * model.num_contexts * model.num_values + 8
    return float(np.finfo(np.float64).eps) * model.horizon * operations * scale
