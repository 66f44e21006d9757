"""How kernels are compiled: numba, cached on disk, the lock of the interpreter released.

A kernel takes arrays and scalars, fills ``out`` arrays, and knows nothing else. Modules with kernels import numba,
which takes a third of a second, so they are imported only where something is to be computed.

Machine code holds what other kernels it calls and constants it uses were when it was compiled. numba looks at the
kernel's own file alone, and would go on with the old code after an edit elsewhere. So what is kept on disk is also
marked with a hash of everything that the kernel is made of; with another mark it is compiled anew, over the old. And
what a named tuple of arguments is made of is part of the key: code for fields in another order would read other arrays.

To compile a kernel takes a fifth of a second and more, as long as Python takes for the loops of a small problem. So
kernels that have little to do in a first run are ``deferred``: played by Python until it would have been worth it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast

import numba
import numpy as np

from rewardmix._core import numba_parts

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE = __name__.split(".")[0]
"""Modules of this package are looked into for kernels and constants."""

DEFERRED = 50_000
"""Steps of Python that are worth a compilation, two microseconds each: what a small problem takes once, not twice."""

MISSING_PARTS = numba_parts.find_missing_parts()
"""Private parts that the installed numba lacks; where there are any, kernels are plain ``njit(cache=True)``."""

FunctionCache: Any = object if MISSING_PARTS else numba_parts.load_part("numba.core.caching:FunctionCache")
Dispatcher: Any = () if MISSING_PARTS else numba_parts.load_part("numba.core.dispatcher:Dispatcher")
njit: Any = numba.njit  # its types do not know no_cfunc_wrapper


def kernel(function: F) -> F:
    """Compile ``function`` on first call; keep the machine code on disk where there is a place for it.

    Without one (a read-only install and no home) numba refuses to make a cache; then the kernel is compiled once in
    every process, which is slower and works. No option lets the compiler change the order or the rounding of sums.
    A second way in, for C, is left out: nobody takes it, and it is a sixth of all compiling.
    """
    if MISSING_PARTS:
        return cast(F, compile_plainly(function))
    compiled: Any = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    with contextlib.suppress(RuntimeError):
        cache = Cache(function)
        if not numba_parts.has_cache_attributes(cache):
            return cast(F, compile_plainly(function))
        compiled._cache = cache
    return cast(F, compiled)


def compile_plainly(function: Callable[..., Any]) -> Any:
    """Make a kernel by numba's public options alone."""
    try:
        return njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no place for a cache: a read-only install and no home
        return njit(nogil=True, error_model="numpy")(function)


def deferred(
    steps: Callable[..., Any],
    *,
    left: Callable[..., Any] | None = None,
    play: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """A kernel that Python plays until its calls would come to more than ``DEFERRED`` steps, and that is compiled then.

    Where its machine code is on disk already that is used at once, and in other kernels it is compiled as ever. All
    ways give the same bits: such a kernel has its scalars in 64 bits, divides by no Python number that may be 0, and
    ``tests/test_deferred.py`` holds the ways against each other.

    Args:
        steps: from the arguments, how many steps a call takes at most.
        left: from the arguments after a call, how many of these it did not take. None: it took all.
        play: the same with NumPy, to be played instead. None: Python plays the kernel as it is written.
    """

    def defer(function: F) -> F:
        compiled: Any = kernel(function)
        if isinstance(compiled, Dispatcher):  # not where NUMBA_DISABLE_JIT asks for Python alone
            compiled._compile_for_args = Deferral(compiled, steps, left, play)
        return cast(F, compiled)

    return defer


class Deferral:
    """What a dispatcher asks for something to call, when it has no machine code for the arguments."""

    def __init__(self, compiled: Any, steps: Any, left: Any, play: Any) -> None:
        self.compiled, self.steps, self.left, self.play = compiled, steps, left, play
        self.compile = compiled._compile_for_args
        self.worth = DEFERRED
        self.asked = False

    def __call__(self, *args: Any) -> Any:
        """The kernel, compiled or to be played."""
        if not self.asked:
            self.asked = True
            self.worth = 0 if self._on_disk(args) else self.worth
        return self.compile(*args) if self.steps(*args) > self.worth else self._played

    def _played(self, *args: Any) -> Any:
        if self.play is None:
            self.play = python_form(self.compiled.py_func)
        at_most = self.steps(*args)
        with np.errstate(all="ignore"):  # machine code does not warn either
            result = self.play(*args)
        self.worth -= at_most - (self.left(*args) if self.left else 0)
        return result.item() if isinstance(result, np.generic) else result

    def _on_disk(self, args: tuple[Any, ...]) -> bool:
        cache = self.compiled._cache
        if not isinstance(cache, Cache):
            return False
        kinds = tuple(self.compiled.typeof_pyval(arg) for arg in args)
        return cache.find(kinds, self.compiled.targetctx) is not None


def python_form(function: Any) -> Any:
    """A kernel as Python has it, with the kernels that it calls in the same form: one call less for each."""
    known = function.__globals__
    inner = {name: known[name].py_func for name in function.__code__.co_names if hasattr(known.get(name), "py_func")}
    return FunctionType(
        function.__code__,
        {**known, **{name: python_form(one) for name, one in inner.items()}},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


_tell: Callable[[], None] | None = None


def when_compiling(tell: Callable[[], None] | None) -> None:
    """Call ``tell`` once, before the first kernel is compiled that is not on disk yet."""
    global _tell
    _tell = tell


def _announce() -> None:
    global _tell
    if _tell is not None:
        tell, _tell = _tell, None
        tell()


class Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache of one kernel, marked by ``fingerprint``.

    It is taken at the first use, when all that the kernel calls is there.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code from disk, or None: then it is compiled next."""
        found = self.find(sig, target_context)
        if found is None:
            _announce()
        return found

    def find(self, sig: Any, target_context: Any) -> Any:
        """Machine code from disk, or None.

        numba would first learn everything that it can compile, a sixth of a second, and to load asks for memory only.
        """
        self._mark()
        numba_parts.load_part("numba.core.runtime.nrt:rtsys").initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

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
