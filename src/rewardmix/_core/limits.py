"""What a call would take, estimated before it begins, and the limits beyond which it is refused.

A call that can be asked for more than any machine has says so at once, with the estimate and what to change, instead of
failing halfway or never ending. The limits are constants, so that the same call is refused on every machine; two
environment variables replace them where somebody has a larger machine, or more patience.

An estimate is the peak of the memory and the number of simple steps (an addition in a compiled loop, a cell of a
table), within a factor of a few, from the sizes alone.
"""

from __future__ import annotations

import math
import os

from rewardmix._core.errors import refuse

GIB = 1 << 30

MEMORY = 16.0
"""GiB that a call may take, unless the environment variable REWARDMIX_MEMORY says otherwise."""

OPERATIONS = 1e14
"""Simple steps that a call may take, about a day; the environment variable REWARDMIX_OPERATIONS replaces it."""


def afford(what: str, *, memory: float = 0.0, operations: float = 0.0, change: str) -> None:
    """Refuse ``what`` if it would take more memory (bytes) or more simple steps than the limits allow.

    Args:
        what: the argument that decides, as an error names it.
        memory: bytes at the peak; whole numbers of any size.
        operations: simple steps in all.
        change: what to change to make it fit, as in "fewer states".
    """
    most = limit("REWARDMIX_MEMORY", MEMORY)
    if memory > most * GIB:
        found = f"a need of about {_figure(memory, GIB)} GiB of memory"
        refuse(what, found, f"at most {most:g} GiB: {change}, or set REWARDMIX_MEMORY (in GiB)")
    most = limit("REWARDMIX_OPERATIONS", OPERATIONS)
    if operations > most:
        found = f"a need of about {_figure(operations, 1)} operations"
        refuse(what, found, f"at most {most:g}: {change}, or set REWARDMIX_OPERATIONS")


def limit(variable: str, default: float) -> float:
    """The limit that an environment variable sets, or the default."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0:
        refuse(variable, repr(text), "a number above 0")
    return value


def _figure(amount: float, unit: int) -> str:
    """Two digits of ``amount / unit``, however large it is."""
    try:
        return f"{amount / unit:.2g}"
    except OverflowError:
        return f"1e{math.floor(math.log10(amount) - math.log10(unit))}"


# ---------------------------------------------------------------------------------------------------------------------
# What things take, by their sizes

COMPILED_STEP = 30.0
"""Simple steps of one step of an episode in a compiled loop ..."""
PLAYED_STEP = 1e4
"""... and through the interface of an environment."""
RESAMPLE = 1e6
"""Simple steps of one resample of a bootstrap, at least."""
PLAIN = 50.0
"""Simple steps of one line of Python on one element."""


def afford_model(states: int, actions: int, contexts: int = 2, values: int = 2, moves: int | None = None) -> None:
    """Refuse a model whose tables do not fit.

    Args:
        states: S.
        actions: A.
        contexts: M.
        values: Z.
        moves: entries of a sparse transition; left out, it is dense.
    """
    rows = states * actions
    entries = rows * states if moves is None else moves
    afford(
        "states",
        memory=(32 if moves is None else 64) * entries + 40 * rows * contexts * values,
        operations=PLAIN * (entries + rows * contexts * values) + (0 if moves is None else 1e3 * rows),
        change="fewer states or actions" + (", or few successors of each" if moves is None else ""),
    )


def afford_episodes(episodes: int, horizon: int, per_step: float = COMPILED_STEP) -> None:
    """Refuse more episodes than fit, or can be played at ``per_step`` simple steps for each of their steps."""
    afford(
        "episodes",
        memory=12 * episodes * (horizon + 1),
        operations=per_step * episodes * horizon,
        change="fewer episodes, or a shorter horizon",
    )


def afford_exploration(
    states: int,
    actions: int,
    horizon: int,
    values: int,
    episodes: int | None,
    growth: float,
    per_step: float = COMPILED_STEP,
) -> None:
    """Refuse a world whose plans and pair tables do not fit, or more episodes than can be played.

    Args:
        states: S.
        actions: A.
        horizon: H.
        values: Z.
        episodes: budget, None where a threshold or the size of a batch decides.
        growth: everything is planned anew when the episodes have grown by this factor.
        per_step: simple steps for each step of an episode.
    """
    rows = states * actions
    record = 8 * (-(-(3 + values**2) // 8) * 8)
    one = horizon * (horizon + 1) // 2
    pairs = rows**2 if rows**2 <= 1 << 18 else max(1 << 18, one, min(rows * (rows + 1) // 2, _times(episodes, one)))
    afford(
        "env_or_model",
        memory=(2 * horizon + 4) * min(rows * states, 8 * pairs) + 32 * horizon * rows + (3 * record + 80) * pairs,
        operations=2 * horizon * rows * states,
        change="fewer states, actions or reward values, or a shorter horizon",
    )
    if episodes is not None:
        plans = min(episodes, (1 + _log(1 + episodes * (growth - 1))) / (growth - 1)) if growth > 1 else episodes
        afford(
            "episodes",
            operations=episodes * (per_step * horizon + min(one, rows**2)) + 2 * plans * horizon * rows,
            change="fewer episodes, a shorter horizon, or a larger growth",
        )


def afford_triples(states: int, actions: int, horizon: int, values: int, episodes: int | None) -> None:
    """Refuse a world whose plans and tables of triples do not fit; arguments as of ``afford_exploration``."""
    rows = states * actions
    pairs, one = rows * (rows + 1) // 2, horizon * (horizon + 1) * (horizon + 2) // 6
    record = 8 * (-(-(3 + values**3) // 8) * 8)
    possible = rows * (rows + 1) * (rows + 2) // 6
    triples = rows**3 if rows**3 <= 1 << 18 else max(1 << 18, one, min(possible, _times(episodes, one)))
    afford(
        "order",
        memory=2 * horizon * states * (pairs + rows) + 8 * horizon * rows**2 + (3 * record + 80) * triples,
        operations=2 * horizon * rows * states * pairs + one * (episodes or 1),
        change="fewer states, actions or reward values, a shorter horizon, or order 2",
    )


def afford_table(horizon: int, states: int, actions: int) -> None:
    """Refuse a table over steps, states and actions that does not fit."""
    afford("model", memory=32 * horizon * states * actions, change="fewer states or actions, or a shorter horizon")


def afford_planning(states: int, actions: int, horizon: int, values: int, contexts: int, moves: int) -> None:
    """Refuse a model in which not even the coarsest plan can be made (``moves``: entries of its transition)."""
    rows = states * actions
    afford(
        "model",
        memory=horizon * (rows + 2 * states * (1 + values)) + 8 * rows * contexts * (values + 2),
        operations=2 * horizon * (rows * values * contexts + moves),
        change="fewer states or actions, or a shorter horizon",
    )


def afford_recovery(points: int, values: int, contexts: int, pairs: int, steps: int) -> None:
    """Refuse data whose covariances and likelihood do not fit.

    Args:
        points: X = S*A.
        values: Z.
        contexts: M.
        pairs: of state-actions that were seen.
        steps: of all episodes, 0 where only moments were kept.
    """
    width = 1 if values == 2 else values
    cells, size = pairs * width**2, points * width
    dense = size**2 if contexts > 2 else 0
    laws = contexts * points * values
    afford(
        "num_contexts" if 200 * laws > 400 * cells else "data",
        memory=300 * cells + 32 * dense + 200 * laws + 16 * steps * (1 + contexts / 4),
        operations=3e3 * cells + 100 * dense * size + 1e4 * laws + 2e3 * steps * contexts,
        change="fewer contexts, states, actions or reward values",
    )


def _times(count: int | None, each: int) -> float:
    return math.inf if count is None else count * each


def _log(number: float) -> float:
    return math.log(number)  # also of whole numbers beyond all floats
