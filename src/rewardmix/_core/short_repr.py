"""Write short reprs: one line for an object of any size."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

_Class = TypeVar("_Class")

MAX_REPR_LENGTH = 300
"""Maximum length of a repr in characters."""

MAX_INLINE_ITEMS = 4
"""Maximum number of items of a tuple that are written out."""

_SCALARS = (bool, int, str, type(None), np.bool_, np.integer)


def use_short_repr(cls: type[_Class]) -> type[_Class]:
    """Give a dataclass a repr that names its fields and shows their sizes instead of their content."""
    cls.__repr__ = _repr  # type: ignore[method-assign]  # replaces the method of dataclass
    return cls


def _repr(instance: Any) -> str:
    """Format an object as ``Name(field=value, ...)`` with abbreviated values."""
    names = [field.name for field in dataclasses.fields(instance)]
    fields = [f"{name}={abbreviate_value(getattr(instance, name))}" for name in names]
    return truncate_text(f"{type(instance).__name__}({', '.join(fields)})")


def truncate_text(text: str, max_length: int = MAX_REPR_LENGTH) -> str:
    """Shorten a text by leaving out its end, except the last character."""
    return text if len(text) <= max_length else f"{text[: max_length - 4]}...{text[-1]}"


def abbreviate_value(value: Any) -> str:
    """Abbreviate any value to a few characters."""
    if isinstance(value, np.ndarray):
        return f"array{value.shape}"
    if isinstance(value, float | np.floating):
        return f"{float(value):.6g}"
    if isinstance(value, _SCALARS):
        return truncate_text(repr(value), 60)
    if isinstance(value, tuple | list | set | frozenset):
        if len(value) <= MAX_INLINE_ITEMS and all(isinstance(element, (*_SCALARS, float)) for element in value):
            return f"({', '.join(abbreviate_value(element) for element in value)})"
        kinds = {type(element).__name__ for element in value}
        return f"<{len(value)} {kinds.pop() if len(kinds) == 1 else 'values'}>"
    if isinstance(value, Mapping):
        return f"<{len(value)} entries>"
    return getattr(value, "__name__", None) or f"{type(value).__name__}(...)"
