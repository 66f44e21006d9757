"""Names in exported files, and the discount that stands for a finite horizon.

A solver with discount g < 1 and no horizon plays one opening step, in which nothing is earned and the first state is
shown, then the H steps of the episode, then rests for ever at nothing. Its step t (0 for the first of the episode) is
weighted g^(t+1), so the reward there is multiplied by g^-(t+1): the sum is the undiscounted one, exactly.
"""

from __future__ import annotations

from rewardmix._check import as_number
from rewardmix.model import RewardMixingMDP

DISCOUNT = 0.99


def names(letter: str, count: int) -> list[str]:
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
    return [checked ** -(t + 1) for t in range(model.horizon)]
