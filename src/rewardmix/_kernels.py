"""How kernels are compiled: numba, cached on disk, the lock of the interpreter released.

A kernel takes arrays and scalars, fills ``out`` arrays, and knows nothing else. Modules with kernels import numba,
which takes a third of a second, so they are imported only where something is to be computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile ``function`` on first call; keep the machine code on disk where there is a place for it.

    Without one (a read-only install and no home) numba refuses to make a cached function; then it is compiled
    once in every process, which is slower and works.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return cast(F, numba.njit(cache=True, **options)(function))
    except RuntimeError:
        return cast(F, numba.njit(**options)(function))
