"""List the private parts of numba that kernels use, and find out whether the installed version has them.

numba has no public way to stamp the machine code that it stores on disk, to know whether a kernel is there already, or
to decide when it compiles. The private names that ``jit.py`` uses for this are listed here. If a part is missing
(another version of numba renamed or removed it), kernels are plain ``njit(cache=True)``: they give equal results, start
more slowly, and do not notice edits in files other than their own.
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
    return tuple(name for name in NUMBA_PARTS if not _has_part(name))


def load_part(name: str) -> Any:
    """Import one part by its name."""
    module, _, path = name.partition(":")
    value: Any = importlib.import_module(module)
    for attribute in path.split("."):
        value = getattr(value, attribute)
    return value


def has_cache_attributes(cache: Any) -> bool:
    """Check that an instance of numba's cache has the attributes that stamping needs."""
    return all(hasattr(cache, name) for name in CACHE_ATTRIBUTES) and hasattr(cache._cache_file, "_source_stamp")


def _has_part(name: str) -> bool:
    """Return whether the installed numba has this part."""
    try:
        load_part(name)
    except (ImportError, AttributeError):
        return False
    return True
