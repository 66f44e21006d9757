"""The one kind of error that bad input gets. Here, without numpy, so that the command line starts at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

LONGEST = 400
"""Characters of what was found that a message repeats."""


class InputError(ValueError):
    """An argument, or a file, is not what it has to be."""


def refuse(argument: str, found: object, expected: str) -> NoReturn:
    """Raise an InputError that names the argument, what was found and what was expected."""
    raise InputError(f"{argument}: found {shown(found)}, expected {expected}")


def quoted(value: object) -> str:
    """``value`` as a program would write it, as far as it fits into a message."""
    return shown(value, repr)


def shown(value: object, write: Callable[[object], str] = str) -> str:
    """``value`` as text that fits into a message: not too long, printable wherever it goes."""
    try:
        text = write(value)
    except ValueError:  # Python writes out no whole number of thousands of digits
        text = f"a {type(value).__name__} of very many digits"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... ({len(text)} characters)"
