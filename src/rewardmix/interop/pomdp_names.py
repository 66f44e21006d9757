"""Name states in exported files, and convert a finite horizon to a discount.

A solver with discount g < 1 and no horizon plays one opening step with reward 0, which shows the initial state, then
the H steps of the episode, then stays in an end state with reward 0. Step t of the episode (from 0) is weighted by
g^(t+1), so its reward is multiplied by g^-(t+1): the discounted sum is then exactly the undiscounted return.
"""

from __future__ import annotations

import math

from rewardmix._core.budget import check_budget
from rewardmix._core.checks import as_instance, as_number, raise_input_error
from rewardmix.model import RewardMixingMDP

DISCOUNT = 0.99
"""Default discount of exported files."""

MAX_LOG_FACTOR = 600.0
"""Largest logarithm of a reward factor; float64 overflows at about 709."""


def index_names(letter: str, count: int) -> list[str]:
    """Return names ``s0 s1 ...``, which every solver accepts."""
    return [f"{letter}{i}" for i in range(count)]


def format_float(value: float) -> str:
    """Format a float as the shortest text that reads back as that float."""
    return repr(float(value))


def format_row(values: object) -> str:
    """Format numbers separated by spaces."""
    return " ".join(format_float(value) for value in values)  # type: ignore[attr-defined]


def discount_factors(model: RewardMixingMDP, discount: float) -> list[float]:
    """Return the reward factors g^-(t+1) for the steps t; raise InputError if a file would be too large."""
    checked = as_number("discount", discount, above=0.0, below=1.0)
    as_instance("model", model, RewardMixingMDP)
    # Compared in logs, because the factor itself would overflow.
    if -model.horizon * math.log(checked) > MAX_LOG_FACTOR:
        raise_input_error(
            "discount", discount, f"a value nearer to 1; rewards are multiplied by its power -{model.horizon}"
        )
    cells = model.horizon * model.num_states * model.num_values * model.num_types * model.num_actions
    lines = cells * (1 + model.num_states * model.num_values)
    check_budget("model", memory=100 * lines, operations=1e3 * lines, remedy="a smaller model")
    return [checked ** -(t + 1) for t in range(model.horizon)]
