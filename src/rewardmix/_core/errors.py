"""Define the error for invalid input, without importing NumPy, so that the command line starts quickly."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

MAX_VALUE_LENGTH = 400
"""Maximum number of characters of an invalid value in a message."""


class InputError(ValueError):
    """Report an invalid argument or file; a subclass of ValueError.

    The message names the argument, the value and what was expected.

    Attributes:
        args: Tuple with the message.

    Examples:
        >>> import rewardmix as rm
        >>> try:
        ...     rm.make_model("no such problem")
        ... except rm.InputError as error:
        ...     print(str(error).split(":")[0])
        name
        >>> issubclass(rm.InputError, ValueError)
        True
    """


def raise_input_error(argument: str, actual: object, expected: str) -> NoReturn:
    """Raise InputError with a message that names the argument, the value and what was expected."""
    raise InputError(f"{argument}: got {format_value(actual)}, expected {expected}")


def quote_value(value: object) -> str:
    """Format a value by its repr, shortened to fit into a message."""
    return format_value(value, repr)


def format_value(value: object, write: Callable[[object], str] = str) -> str:
    """Format a value as a short text that can be printed with any encoding."""
    try:
        text = write(value)
    except ValueError:  # Python does not format integers of thousands of digits
        text = f"{type(value).__name__} with thousands of digits"
    # Lone surrogates, as in file names that are no valid UTF-8, would make printing fail.
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH // 2]} ... ({len(text)} characters)"
