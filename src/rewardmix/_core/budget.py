"""Estimate the memory and operations of a call before it starts, and reject calls beyond the limits.

A call that would exceed any machine fails at once, with the estimate and what to change, instead of failing halfway or
running without end. The limits are constants, so that a call is rejected on every machine or on none; two environment
variables replace them.

An estimate is the peak memory and the number of elementary operations (an addition in a compiled loop, a cell of a
table), within a factor of a few, from the sizes alone.
"""

from __future__ import annotations

import math
import os

from rewardmix._core.errors import raise_input_error

GIB = 1 << 30
"""Bytes of one GiB."""

MAX_MEMORY_GIB = 16.0
"""Maximum memory of a call in GiB; the environment variable REWARDMIX_MEMORY replaces it."""

MAX_OPERATIONS = 1e14
"""Maximum elementary operations of a call, about a day; the environment variable REWARDMIX_OPERATIONS replaces it."""


def check_budget(argument: str, *, memory: float = 0.0, operations: float = 0.0, remedy: str) -> None:
    """Raise InputError if a call would take more memory (bytes) or more elementary operations than the limits allow.

    Args:
        argument: Name of the argument that decides, for the message.
        memory: Peak memory in bytes; integers of any size.
        operations: Elementary operations in total.
        remedy: What to change to make it fit, as in "fewer states".

    Raises:
        InputError: If a limit is exceeded, or an environment variable holds no positive number.
    """
    limit = read_limit("REWARDMIX_MEMORY", MAX_MEMORY_GIB)
    if memory > limit * GIB:
        actual = f"a need of about {_format_ratio(memory, GIB)} GiB of memory"
        raise_input_error(argument, actual, f"at most {limit:g} GiB: {remedy}, or set REWARDMIX_MEMORY (in GiB)")
    limit = read_limit("REWARDMIX_OPERATIONS", MAX_OPERATIONS)
    if operations > limit:
        actual = f"a need of about {_format_ratio(operations, 1)} operations"
        raise_input_error(argument, actual, f"at most {limit:g}: {remedy}, or set REWARDMIX_OPERATIONS")


def read_limit(variable: str, default: float) -> float:
    """Return the limit set by an environment variable, or the default."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # This form also rejects NaN, for which every comparison is false.
    if not value > 0:
        raise_input_error(variable, repr(text), "a number above 0")
    return value


def _format_ratio(amount: float, unit: int) -> str:
    """Format ``amount / unit`` with two digits, however large it is."""
    try:
        return f"{amount / unit:.2g}"
    except OverflowError:
        # Integers beyond the largest float cannot be divided to a float, but their logarithms can be subtracted.
        return f"1e{math.floor(math.log10(amount) - math.log10(unit))}"


# ---------------------------------------------------------------------------------------------------------------------
# Estimates from sizes

COMPILED_STEP_COST = 30.0
"""Elementary operations of one step of an episode in a compiled loop."""
ENV_STEP_COST = 1e4
"""Elementary operations of one step through the Python interface of an environment."""
RESAMPLE_COST = 1e6
"""Minimum elementary operations of one bootstrap resample."""
PYTHON_LINE_COST = 50.0
"""Elementary operations of one line of Python for one element."""


def check_budget_model(
    states: int, actions: int, num_types: int = 2, values: int = 2, transitions: int | None = None
) -> None:
    """Raise InputError for a model whose tables do not fit.

    Args:
        states: S.
        actions: A.
        num_types: M, the number of types.
        values: Z, the number of reward values.
        transitions: Entries of a sparse transition; None for a dense one.
    """
    rows = states * actions
    entries = rows * states if transitions is None else transitions
    check_budget(
        "states",
        memory=(32 if transitions is None else 64) * entries + 40 * rows * num_types * values,
        operations=PYTHON_LINE_COST * (entries + rows * num_types * values)
        + (0 if transitions is None else 1e3 * rows),
        remedy="fewer states or actions" + (", or few next states of each" if transitions is None else ""),
    )


def check_budget_episodes(episodes: int, horizon: int, per_step: float = COMPILED_STEP_COST) -> None:
    """Raise InputError for more episodes than fit, or than can be played at ``per_step`` operations for each step."""
    check_budget(
        "episodes",
        memory=12 * episodes * (horizon + 1),
        operations=per_step * episodes * horizon,
        remedy="fewer episodes, or a shorter horizon",
    )


def check_budget_exploration(
    states: int,
    actions: int,
    horizon: int,
    values: int,
    episodes: int | None,
    growth: float,
    per_step: float = COMPILED_STEP_COST,
) -> None:
    """Raise InputError for a problem whose plans and pair tables do not fit, or for too many episodes.

    Args:
        states: S.
        actions: A.
        horizon: H.
        values: Z.
        episodes: Number of episodes; None if a threshold or the size of a batch decides.
        growth: Everything is replanned when the number of episodes has grown by this factor.
        per_step: Operations for each step of an episode.
    """
    rows = states * actions
    record = 8 * (-(-(3 + values**2) // 8) * 8)
    pairs_per_episode = horizon * (horizon + 1) // 2
    pairs = (
        rows**2
        if rows**2 <= 1 << 18
        else max(1 << 18, pairs_per_episode, min(rows * (rows + 1) // 2, _multiply_or_inf(episodes, pairs_per_episode)))
    )
    check_budget(
        "env_or_model",
        memory=(2 * horizon + 4) * min(rows * states, 8 * pairs) + 32 * horizon * rows + (3 * record + 80) * pairs,
        operations=2 * horizon * rows * states,
        remedy="fewer states, actions or reward values, or a shorter horizon",
    )
    if episodes is not None:
        # Replans at geometrically growing episode counts: log(1 + K (g - 1)) / (g - 1) of them, never more than K.
        plans = min(episodes, (1 + _log_of_int(1 + episodes * (growth - 1))) / (growth - 1)) if growth > 1 else episodes
        check_budget(
            "episodes",
            operations=episodes * (per_step * horizon + min(pairs_per_episode, rows**2)) + 2 * plans * horizon * rows,
            remedy="fewer episodes, a shorter horizon, or a larger replan_growth",
        )


def check_budget_triples(states: int, actions: int, horizon: int, values: int, episodes: int | None) -> None:
    """Raise InputError for a problem whose plans and tables of triples do not fit."""
    rows = states * actions
    pairs, triples_per_episode = rows * (rows + 1) // 2, horizon * (horizon + 1) * (horizon + 2) // 6
    record = 8 * (-(-(3 + values**3) // 8) * 8)
    max_triples = rows * (rows + 1) * (rows + 2) // 6
    triples = (
        rows**3
        if rows**3 <= 1 << 18
        else max(1 << 18, triples_per_episode, min(max_triples, _multiply_or_inf(episodes, triples_per_episode)))
    )
    check_budget(
        "moment_order",
        memory=2 * horizon * states * (pairs + rows) + 8 * horizon * rows**2 + (3 * record + 80) * triples,
        operations=2 * horizon * rows * states * pairs + triples_per_episode * (episodes or 1),
        remedy="fewer states, actions or reward values, a shorter horizon, or moment_order=2",
    )


def check_budget_table(horizon: int, states: int, actions: int) -> None:
    """Raise InputError for a table over steps, states and actions that does not fit."""
    check_budget(
        "model", memory=32 * horizon * states * actions, remedy="fewer states or actions, or a shorter horizon"
    )


def check_budget_planning(
    states: int, actions: int, horizon: int, values: int, num_types: int, transitions: int
) -> None:
    """Raise InputError for a model whose coarsest plan does not fit; ``transitions`` counts its entries."""
    rows = states * actions
    check_budget(
        "model",
        memory=horizon * (rows + 2 * states * (1 + values)) + 8 * rows * num_types * (values + 2),
        operations=2 * horizon * (rows * values * num_types + transitions),
        remedy="fewer states or actions, or a shorter horizon",
    )


def check_budget_recovery(points: int, values: int, num_types: int, pairs: int, steps: int) -> None:
    """Raise InputError for data whose covariances and likelihood do not fit.

    Args:
        points: X = S*A.
        values: Z.
        num_types: M, the number of types.
        pairs: Number of observed pairs of state-actions.
        steps: Steps of all episodes; 0 if only moments are available.
    """
    width = 1 if values == 2 else values
    cells, size = pairs * width**2, points * width
    dense = size**2 if num_types > 2 else 0
    probs = num_types * points * values
    check_budget(
        # Name the argument that dominates the estimate, so that the message suggests a change that helps.
        "num_types" if 200 * probs > 400 * cells else "data",
        memory=300 * cells + 32 * dense + 200 * probs + 16 * steps * (1 + num_types / 4),
        operations=3e3 * cells + 100 * dense * size + 1e4 * probs + 2e3 * steps * num_types,
        remedy="fewer types, states, actions or reward values",
    )


def _multiply_or_inf(count: int | None, each: int) -> float:
    """Multiply, with infinity for an unlimited count."""
    return math.inf if count is None else count * each


def _log_of_int(number: float) -> float:
    """Compute the natural logarithm, also of integers beyond the largest float."""
    return math.log(number)  # accepts integers beyond the largest float
