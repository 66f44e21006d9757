"""The one kind of error that bad input gets. Here, without numpy, so that the command line starts at once."""

from __future__ import annotations

from typing import NoReturn

LONGEST = 400
"""Characters of what was found that a message repeats."""


class InputError(ValueError):
    """An argument, or a file, is not what it has to be."""


def refuse(argument: str, found: object, expected: str) -> NoReturn:
    """Raise an InputError that names the argument, what was found and what was expected."""
    raise InputError(f"{argument}: found {shown(found)}, expected {expected}")


def shown(value: object) -> str:
    """``value`` as text that fits into a message: one line, not too long, printable wherever it goes."""
    try:
        text = str(value)
    except ValueError:  # Python writes out no whole number of thousands of digits
        text = f"a {type(value).__name__} of very many digits"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... ({len(text)} characters)"
