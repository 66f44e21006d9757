"""The one kind of error that bad input gets. Here, without numpy, so that the command line starts at once."""

from __future__ import annotations

from typing import NoReturn


class InputError(ValueError):
    """An argument, or a file, is not what it has to be."""


def refuse(argument: str, found: object, expected: str) -> NoReturn:
    """Raise an InputError that names the argument, what was found and what was expected."""
    raise InputError(f"{argument}: found {found}, expected {expected}")
