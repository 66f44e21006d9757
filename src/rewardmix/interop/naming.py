"""Names in exported files, and the discount that stands for a finite horizon.

A solver with discount g < 1 and no horizon plays one opening step, in which nothing is earned and the first state is
shown, then the H steps of the episode, then rests for ever at nothing. Its step t (0 for the first of the episode) is
weighted g^(t+1), so the reward there is multiplied by g^-(t+1): the sum is the undiscounted one, exactly.
"""

from __future__ import annotations

import math

from rewardmix._core.checks import as_instance, as_number, refuse
from rewardmix._core.limits import afford
from rewardmix.model import RewardMixingMDP

DISCOUNT = 0.99

LARGEST_LOG = 600.0
"""Of the largest factor on a reward; beyond it there are no numbers."""


def numbered(letter: str, count: int) -> list[str]:
    """``s0 s1 ...``: what solvers accept whatever people call the states."""
    return [f"{letter}{i}" for i in range(count)]


def number(value: float) -> str:
    """The shortest text that reads back as the same float."""
    return repr(float(value))


def row(values: object) -> str:
    """Numbers separated by spaces."""
    return " ".join(number(value) for value in values)  # type: ignore[attr-defined]


def scales(model: RewardMixingMDP, discount: float) -> list[float]:
    """g^-(t+1) for the steps t of the episode."""
    checked = as_number("discount", discount, above=0.0, below=1.0)
    as_instance("model", model, RewardMixingMDP)
    if -model.horizon * math.log(checked) > LARGEST_LOG:
        refuse("discount", discount, f"one nearer to 1: rewards are multiplied by its power -{model.horizon}")
    cells = model.horizon * model.num_states * model.num_values * model.num_contexts * model.num_actions
    lines = cells * (1 + model.num_states * model.num_values)
    afford("model", memory=100 * lines, operations=1e3 * lines, change="a smaller model")
    return [checked ** -(t + 1) for t in range(model.horizon)]
