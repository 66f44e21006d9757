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

from rewardmix._errors import refuse

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
