"""Compile kernels with numba: cached on disk, without the interpreter lock.

A kernel takes arrays and scalars, fills ``out`` arrays, and uses nothing else. Modules with kernels import numba,
which takes a third of a second, so they are imported only where something is computed.

Machine code contains the other kernels that it calls and the constants that it uses, as they were when it was compiled.
numba checks the kernel's own file only, and would use outdated code after an edit elsewhere. The cache on disk is
therefore also stamped with a hash of everything the kernel is made of; with another stamp the kernel is compiled again.
The fields of named tuples among the arguments are part of the key: machine code for another order of fields would read
the wrong arrays.

Compiling a kernel takes a fifth of a second or more, as long as Python takes for the loops of a small problem. Kernels
with little to do in a first run are therefore compiled lazily (``lazy_jit``): Python runs them until compiling would
have been cheaper.
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
"""Name of this package; kernels and constants of its modules are part of the fingerprint."""

PYTHON_STEP_BUDGET = 50_000
"""Python steps (two microseconds each) that cost as much as a compilation; a small problem needs fewer."""

MISSING_PARTS = numba_parts.find_missing_parts()
"""Private parts that the installed numba lacks; if there are any, kernels are plain ``njit(cache=True)``."""

FunctionCache: Any = object if MISSING_PARTS else numba_parts.load_part("numba.core.caching:FunctionCache")
Dispatcher: Any = () if MISSING_PARTS else numba_parts.load_part("numba.core.dispatcher:Dispatcher")
njit: Any = numba.njit  # numba's type hints lack no_cfunc_wrapper


def kernel(function: F) -> F:
    """Compile ``function`` at its first call; store the machine code on disk if possible.

    Without a writable folder (a read-only install and no home) numba raises an error; the kernel is then compiled once
    per process. Fast-math is off, so the compiler does not change the order or the rounding of sums. The C callback
    wrapper, a sixth of the compile time, is not built because no code uses it.
    """
    if MISSING_PARTS:
        return cast(F, compile_plainly(function))
    compiled: Any = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    with contextlib.suppress(RuntimeError):
        cache = KernelCache(function)
        if not numba_parts.has_cache_attributes(cache):
            return cast(F, compile_plainly(function))
        compiled._cache = cache
    return cast(F, compiled)


def compile_plainly(function: Callable[..., Any]) -> Any:
    """Compile a kernel with numba's public options only."""
    try:
        return njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no writable folder for a cache
        return njit(nogil=True, error_model="numpy")(function)


def lazy_jit(
    cost: Callable[..., Any],
    *,
    unused: Callable[..., Any] | None = None,
    numpy_impl: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """Make a kernel that runs in Python until its calls exceed ``PYTHON_STEP_BUDGET`` steps, and is compiled then.

    Machine code that is already on disk is used at once, and other kernels call the compiled form. All forms give the
    bits of the compiled one: such a kernel has 64-bit scalars and divides by no Python number that may be 0. The tests
    compare the forms.

    Args:
        cost: Function of the arguments that returns the largest number of Python steps a call takes.
        unused: Function of the arguments after a call that returns how many of these steps were not used. None: none.
        numpy_impl: NumPy implementation to run instead of the kernel's Python form. None: the kernel as it is written.

    Returns:
        A decorator for the kernel.
    """

    def defer(function: F) -> F:
        compiled: Any = kernel(function)
        if isinstance(compiled, Dispatcher):  # false with NUMBA_DISABLE_JIT
            compiled._compile_for_args = LazyCompiler(compiled, cost, unused, numpy_impl)
        return cast(F, compiled)

    return defer


class LazyCompiler:
    """Replace the compile hook of a dispatcher: choose between compiling and running in Python."""

    def __init__(self, compiled: Any, cost: Any, unused: Any, python_impl: Any) -> None:
        self.compiled, self.steps, self.unused_steps, self.python_impl = compiled, cost, unused, python_impl
        self.compile = compiled._compile_for_args
        self.remaining_steps = PYTHON_STEP_BUDGET
        self.checked_disk = False

    def __call__(self, *args: Any) -> Any:
        """Return the function to call for these arguments: compiled or in Python."""
        if not self.checked_disk:
            self.checked_disk = True
            # The disk is checked once per kernel: reading machine code costs milliseconds, far less than a
            # compilation.
            self.remaining_steps = 0 if self._on_disk(args) else self.remaining_steps
        return self.compile(*args) if self.steps(*args) > self.remaining_steps else self._run_in_python

    def _run_in_python(self, *args: Any) -> Any:
        """Run the kernel in Python and subtract its steps from the remaining budget."""
        if self.python_impl is None:
            self.python_impl = to_python(self.compiled.py_func)
        max_steps = self.steps(*args)
        with np.errstate(all="ignore"):  # machine code gives no warnings either
            result = self.python_impl(*args)
        self.remaining_steps -= max_steps - (self.unused_steps(*args) if self.unused_steps else 0)
        # Machine code returns Python scalars; NumPy scalars would behave differently in later arithmetic.
        return result.item() if isinstance(result, np.generic) else result

    def _on_disk(self, args: tuple[Any, ...]) -> bool:
        """Return whether machine code for arguments of these types is on disk."""
        cache = self.compiled._cache
        if not isinstance(cache, KernelCache):
            return False
        arg_types = tuple(self.compiled.typeof_pyval(arg) for arg in args)
        return cache.load_from_disk(arg_types, self.compiled.targetctx) is not None


def to_python(function: Any) -> Any:
    """Return a kernel as a Python function that calls other kernels in their Python form, without dispatch."""
    namespace = function.__globals__
    inner = {
        name: namespace[name].py_func for name in function.__code__.co_names if hasattr(namespace.get(name), "py_func")
    }
    return FunctionType(
        function.__code__,
        {**namespace, **{name: to_python(kernel_fn) for name, kernel_fn in inner.items()}},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


_compile_hook: Callable[[], None] | None = None
"""Callback that reports the first compilation, or None."""


def set_compile_hook(hook: Callable[[], None] | None) -> None:
    """Set a function to call once, before the first kernel is compiled that is not on disk."""
    global _compile_hook
    _compile_hook = hook


def _call_compile_hook() -> None:
    """Call the compile callback, once."""
    global _compile_hook
    if _compile_hook is not None:
        # The callback is removed before the call, so that a callback that compiles a kernel is not called again.
        hook, _compile_hook = _compile_hook, None
        hook()


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Stamp numba's cache of one kernel with the kernel's fingerprint.

    The stamp is computed at the first use, when all functions that the kernel calls are defined.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return machine code from disk, or None, in which case numba compiles next."""
        machine_code = self.load_from_disk(sig, target_context)
        if machine_code is None:
            _call_compile_hook()
        return machine_code

    def load_from_disk(self, sig: Any, target_context: Any) -> Any:
        """Return machine code from disk, or None.

        numba's own method first loads all its type rules (a sixth of a second), which reading machine code does not
        need.
        """
        self._stamp_fingerprint()
        numba_parts.load_part("numba.core.runtime.nrt:rtsys").initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store machine code on disk."""
        self._stamp_fingerprint()
        super().save_overload(sig, data)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """Return numba's key extended by the fields of named tuples, which numba identifies by their class only."""
        return (*super()._index_key(sig, codegen), tuple_field_names(sig))

    def _stamp_fingerprint(self) -> None:
        """Add the fingerprint to the stamp of the cache file, unless it is there."""
        stamp = self._cache_file._source_stamp
        if not (isinstance(stamp, tuple) and stamp[:1] == ("kernels",)):
            self._cache_file._source_stamp = ("kernels", stamp, fingerprint(self._py_func))


def tuple_field_names(types: Any) -> tuple[Any, ...]:
    """Return the field names of every named tuple among numba types, nested ones included."""
    names = []
    for numba_type in types:
        if isinstance(numba_type, numba.types.BaseTuple):
            names += [getattr(numba_type, "fields", ()), *tuple_field_names(getattr(numba_type, "types", ()))]
    return tuple(names)


def fingerprint(function: Callable[..., Any]) -> str:
    """Hash the instructions and constants of a kernel, and of all kernels and constants that it names."""
    digest = hashlib.sha256()
    for text in _iter_fingerprint_items(function, set()):
        digest.update(text.encode() + b"\n")
    return digest.hexdigest()


def _iter_fingerprint_items(function: Any, visited: set[int]) -> Iterator[str]:
    """Yield the texts that make up ``function``, depth first; functions that were visited before are skipped."""
    if id(function) in visited:
        return
    visited.add(id(function))
    yield function.__qualname__
    names: list[str] = []
    for code in _iter_code_objects(function.__code__):
        yield code.co_code.hex()
        # Strings are left out: they are docstrings and messages, and do not change what the kernel computes.
        yield repr([const for const in code.co_consts if not isinstance(const, CodeType | str)])
        yield repr((code.co_names, code.co_varnames))
        names += code.co_names
    namespace = function.__globals__
    modules = [namespace[name] for name in names if isinstance(namespace.get(name), ModuleType)]
    package_namespaces = [vars(module) for module in modules if module.__name__.split(".")[0] == PACKAGE]
    for name in names:
        for value in (scope[name] for scope in (namespace, *package_namespaces) if name in scope):
            inner = getattr(value, "py_func", None)
            if inner is not None:
                yield from _iter_fingerprint_items(inner, visited)
            elif isinstance(value, int | float | str | tuple):
                yield f"{name} = {value!r}"


def _iter_code_objects(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those nested in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _iter_code_objects(const)
