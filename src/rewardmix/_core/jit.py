"""How kernels are compiled: numba, cached on disk, the lock of the interpreter released.

A kernel takes arrays and scalars, fills ``out`` arrays, and knows nothing else. Modules with kernels import numba,
which takes a third of a second, so they are imported only where something is to be computed.

Machine code holds what other kernels it calls and constants it uses were when it was compiled. numba looks at the
kernel's own file alone, and would go on with the old code after an edit elsewhere. So what is kept on disk is also
marked with a hash of everything that the kernel is made of; with another mark it is compiled anew, over the old. And
what a named tuple of arguments is made of is part of the key: code for fields in another order would read other arrays.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any, TypeVar, cast

import numba
from numba.core import caching

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE = __name__.split(".")[0]
"""Modules of this package are looked into for kernels and constants."""

FunctionCache: Any = caching.FunctionCache  # numba has no types


def kernel(function: F) -> F:
    """Compile ``function`` on first call; keep the machine code on disk where there is a place for it.

    Without one (a read-only install and no home) numba refuses to make a cache; then the kernel is compiled once in
    every process, which is slower and works. No option lets the compiler change the order or the rounding of sums.
    """
    compiled: Any = numba.njit(nogil=True, error_model="numpy")(function)
    with contextlib.suppress(RuntimeError):
        compiled._cache = Cache(function)
    return cast(F, compiled)


class Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache of one kernel, marked by ``fingerprint``.

    It is taken at the first use, when all that the kernel calls is there.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code from disk, or None."""
        self._mark()
        return super().load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code on disk."""
        self._mark()
        super().save_overload(sig, data)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """numba's key, and the fields of named tuples: it knows these by their class, and fields may change places."""
        return (*super()._index_key(sig, codegen), fields_of(sig))

    def _mark(self) -> None:
        stamp = self._cache_file._source_stamp
        if not (isinstance(stamp, tuple) and stamp[:1] == ("kernels",)):
            self._cache_file._source_stamp = ("kernels", stamp, fingerprint(self._py_func))


def fields_of(types: Any) -> tuple[Any, ...]:
    """The names of the fields of every named tuple among numba's types, and within them."""
    found = []
    for one in types:
        if isinstance(one, numba.types.BaseTuple):
            found += [getattr(one, "fields", ()), *fields_of(getattr(one, "types", ()))]
    return tuple(found)


def fingerprint(function: Callable[..., Any]) -> str:
    """A hash of the instructions and constants of a kernel, and of all kernels and constants that it names."""
    digest = hashlib.sha256()
    for part in _parts(function, set()):
        digest.update(part.encode() + b"\n")
    return digest.hexdigest()


def _parts(function: Any, seen: set[int]) -> Iterator[str]:
    """What ``function`` is made of, depth first; a function that was met before is not entered again."""
    if id(function) in seen:
        return
    seen.add(id(function))
    yield function.__qualname__
    names: list[str] = []
    for code in _codes(function.__code__):
        yield code.co_code.hex()
        yield repr([const for const in code.co_consts if not isinstance(const, CodeType | str)])
        yield repr((code.co_names, code.co_varnames))
        names += code.co_names
    known = function.__globals__
    modules = [known[name] for name in names if isinstance(known.get(name), ModuleType)]
    ours = [vars(module) for module in modules if module.__name__.split(".")[0] == PACKAGE]
    for name in names:
        for value in (place[name] for place in (known, *ours) if name in place):
            inner = getattr(value, "py_func", None)
            if inner is not None:
                yield from _parts(inner, seen)
            elif isinstance(value, int | float | str | tuple):
                yield f"{name} = {value!r}"


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those inside it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)
