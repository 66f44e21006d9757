"""The private parts of numba that kernels use, and whether the installed version has them.

numba has no public way to mark the machine code that it keeps on disk, to know whether a kernel is there already, or to
decide when it compiles. What ``jit.py`` takes from its inside for that is listed here, by name. Where a part is missing
(another version of numba renamed or removed it) kernels are plain ``njit(cache=True)``: they give the same results,
start more slowly, and do not notice edits in other files than their own.
"""

from __future__ import annotations

import importlib
from typing import Any

NUMBA_PARTS = (
    "numba.core.caching:FunctionCache._guard_against_spurious_io_errors",
    "numba.core.caching:FunctionCache._index_key",
    "numba.core.caching:FunctionCache._load_overload",
    "numba.core.caching:IndexDataCacheFile",
    "numba.core.dispatcher:Dispatcher._compile_for_args",
    "numba.core.dispatcher:Dispatcher.typeof_pyval",
    "numba.core.options:DefaultOptions.no_cfunc_wrapper",
    "numba.core.runtime.nrt:rtsys.initialize",
)
"""Module and attribute of each class, method or option."""

CACHE_ATTRIBUTES = ("_cache_file", "_py_func")
"""Attributes of an instance of numba's cache of one function."""


def find_missing_parts() -> tuple[str, ...]:
    """List the parts that the installed numba lacks."""
    return tuple(part for part in NUMBA_PARTS if not _has_part(part))


def load_part(part: str) -> Any:
    """Import one part by its name."""
    module, _, path = part.partition(":")
    value: Any = importlib.import_module(module)
    for name in path.split("."):
        value = getattr(value, name)
    return value


def has_cache_attributes(cache: Any) -> bool:
    """Check that an instance of numba's cache has the attributes that marking it needs."""
    return all(hasattr(cache, name) for name in CACHE_ATTRIBUTES) and hasattr(cache._cache_file, "_source_stamp")


def _has_part(part: str) -> bool:
    try:
        load_part(part)
    except (ImportError, AttributeError):
        return False
    return True
