"""Numbers and answers as people say them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

NOTHING = "\N{EN DASH}"
"""In place of a number that there is not."""

WIDE = 2e-3
"""Brackets of regret wider than this are mentioned."""


def number(value: float | None, digits: int = 2) -> str:
    """A number for reading: fixed digits, a true minus sign, and a dash where there is none."""
    if value is None:
        return NOTHING
    text = f"{value:.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def fine(value: float | None) -> str:
    """A small number with the digits that tell something: 0.62, 0.031, 0.0007."""
    if value is None:
        return NOTHING
    size = abs(value)
    if 0 < size < 1e-4:
        return f"{'<' if value > 0 else '>'}\N{NARROW NO-BREAK SPACE}{number(math.copysign(1e-4, value), 4)}"
    return number(value, 2 if size >= 0.1 or size == 0 else 3 if size >= 0.01 else 4)


def between(low: float, high: float) -> str:
    """A bracket, with as many digits as it takes to see that it has two ends."""
    digits = next((d for d in (2, 3, 4) if number(low, d) != number(high, d)), 4)
    return f"{number(low, digits)} to {number(high, digits)}"


def signed(value: float | None) -> str:
    """A difference, with its sign."""
    return NOTHING if value is None else ("+" if value >= 0 else "") + fine(value)


def count(value: float | None) -> str:
    """A whole number with thin spaces between thousands."""
    return NOTHING if value is None else f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def share(value: float | None, digits: int = 0) -> str:
    """A share in percent."""
    return NOTHING if value is None else f"{number(100 * value, digits)}\N{NARROW NO-BREAK SPACE}%"


def value_of(values: list[float], z: int) -> str:
    """A reward value; the usual two have names."""
    if values == [0.0, 1.0]:
        return ("no reward", "reward")[z]
    return f"reward {values[z]:g}".replace("-", "\N{MINUS SIGN}")


MEASURED = {
    "exact": "exact, in the true model",
    "played": "measured by playing",
    "logged": "estimated from a log that others played",
    "planned": "planned in the recovered model, so optimistic",
}


def earns(answer: Mapping[str, Any]) -> str:
    """Where the headline value comes from."""
    if answer["measured"] == "exact":
        return "Computed exactly in the true model, which is known here."
    if answer["measured"] == "played":
        between = f"{fine(answer['lower'])} to {fine(answer['upper'])}"
        return f"Measured in {count(answer.get('episodes'))} fresh episodes; 95 % interval {between}."
    if answer["measured"] == "logged":
        between = f"{fine(answer['lower'])} to {fine(answer['upper'])}"
        held = f"{count(answer.get('episodes'))} held-out episodes of the log"
        return f"Estimated from {held}, for the policy planned without them; 95 % interval {between}."
    return (
        "Planned: what it would earn if the recovered model were right. Such values are optimistic; "
        "it has not been tried in fresh episodes."
    )


def regret(answer: Mapping[str, Any]) -> str:
    """What the headline regret is."""
    if answer["regret_measured"] == "exact":
        least = answer.get("regret_least")
        wide = least is not None and answer["regret"] - least > WIDE
        more = f" It is at least {fine(least)}: the best policy is known within a bracket." if wide else ""
        return f"At most, against an upper bound of the best policy in the true model, which is known here.{more}"
    if answer["regret_measured"] == "bootstrap":
        upper = answer.get("regret_upper")
        most = f"; {fine(upper)} in the worst resample" if upper is not None else ""
        gap = answer.get("regret_gap")
        more = f" Better plans may add {fine(gap)} to it." if gap is not None and gap > WIDE else ""
        return f"A bootstrap of the episodes estimates so{most}. Not a guarantee.{more}"
    return "How far it is from the best possible policy was not estimated."


def gain(answer: Mapping[str, Any]) -> str:
    """What adapting is worth, in words."""
    if answer["gain"] is None:
        return "The best policy that does not adapt was not computed."
    relative = f" ({signed_share(answer['gain'] / answer['fixed'])})" if answer["fixed"] > 0 else ""
    where = MEASURED.get(answer.get("gain_measured") or "", "")
    text = f"over the best policy that ignores rewards{relative}; {where}." if where else "over the best fixed policy."
    if answer.get("share") is not None:
        text += f" That is {share(answer['share'], 1)} of what adapting can be worth."
    return text


def signed_share(value: float) -> str:
    """A relative difference in percent, with its sign."""
    return ("+" if value >= 0 else "") + share(value)
