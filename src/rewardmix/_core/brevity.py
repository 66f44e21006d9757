"""Short reprs: what a noun is, in one line, whatever it holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

_Noun = TypeVar("_Noun")

LONGEST_REPR = 300
"""Characters of a repr."""

FEW = 4
"""Entries of a tuple that are written out."""

_SCALARS = (bool, int, str, type(None), np.bool_, np.integer)


def short(noun: type[_Noun]) -> type[_Noun]:
    """A dataclass whose repr names its fields and shows their sizes, not all that is in them."""
    noun.__repr__ = _repr  # type: ignore[method-assign]  # in place of what dataclass wrote
    return noun


def _repr(noun: Any) -> str:
    parts = [f"{field.name}={brief(getattr(noun, field.name))}" for field in dataclasses.fields(noun)]
    return cut(f"{type(noun).__name__}({', '.join(parts)})")


def cut(text: str, most: int = LONGEST_REPR) -> str:
    """The text, with its end left out if it is long."""
    return text if len(text) <= most else f"{text[: most - 4]}...{text[-1]}"


def brief(value: Any) -> str:
    """A few characters for any value."""
    if isinstance(value, np.ndarray):
        return f"array{value.shape}"
    if isinstance(value, float | np.floating):
        return f"{float(value):.6g}"
    if isinstance(value, _SCALARS):
        return cut(repr(value), 60)
    if isinstance(value, tuple | list | set | frozenset):
        if len(value) <= FEW and all(isinstance(one, (*_SCALARS, float)) for one in value):
            return f"({', '.join(brief(one) for one in value)})"
        kinds = {type(one).__name__ for one in value}
        return f"<{len(value)} {kinds.pop() if len(kinds) == 1 else 'values'}>"
    if isinstance(value, Mapping):
        return f"<{len(value)} entries>"
    return getattr(value, "__name__", None) or f"{type(value).__name__}(...)"
