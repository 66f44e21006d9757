"""Executors that process the partitions of a log: this process, several processes, or a Dask cluster.

All are a ``concurrent.futures.Executor``. Functions of this package are sent with descriptions (paths, columns, schema,
mixture); rows are sent only for tables in memory. Counts and sums come back. Serialization is left to the executor.
Results are combined in the order of the partitions, so numbers do not depend on the executor.

A partition stays in memory or in a file of a temporary directory. A worker on another machine, which does not see that
file, rebuilds the partition from the source, so a worker that fails loses no data.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate, count
from multiprocessing import get_context
from pathlib import Path
from threading import Lock
from typing import Any

from rewardmix._core.budget import check_budget
from rewardmix._core.checks import as_count, raise_input_error

ProgressCallback = Callable[[int, int], None]
"""Called with (partitions done, partitions in total)."""

MAX_ROWS_IN_MEMORY = 1 << 24
"""Rows kept in memory; partitions of a longer log are spilled to files."""

PROCESS_BYTES = 150 * 2**20
"""Memory of a process before any work, in bytes: the interpreter with its libraries."""


KILLED_MESSAGE = (
    "processes: got processes that were killed, also when their work was repeated, expected them to finish; usually "
    "memory ran out (use fewer processes, or fewer rows per partition), or a script starts processes outside of "
    "if __name__ == '__main__'"
)
"""Message for processes that are killed repeatedly."""


class SerialExecutor(Executor):
    """Executor that runs every call in this process, one after the other."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the call at once and return its future."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], **_: Any) -> Iterator[Any]:
        """Return the results lazily: each is computed when it is requested."""
        return map(fn, *iterables)


class ProcessPool(Executor):
    """Pool of processes on this machine that repeats the work of killed processes once, in new ones."""

    def __init__(self, processes: int) -> None:
        self._num_processes, self._lock, self._is_shut_down = processes, Lock(), False
        # Processes are spawned, not forked: a fork of a process with threads (Numba, Arrow) can deadlock.
        self._pool = self._start_pool()

    def _start_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._num_processes, mp_context=get_context("spawn"))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the call in one of the processes."""
        future: Future[Any] = Future()
        # The future is independent of the pool's own futures, because a repeated call gets a new one there.
        future.set_running_or_notify_cancel()
        self._submit_call(future, partial(fn, *args, **kwargs), last=False)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop the processes."""
        with self._lock:
            self._is_shut_down = True
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def _submit_call(self, future: Future[Any], call: Callable[[], Any], *, last: bool) -> None:
        pool = self._pool
        try:
            pool_future = pool.submit(call)
        except BrokenProcessPool:
            self._resubmit(future, call, pool, last=last)
            return
        pool_future.add_done_callback(lambda done: self._pass_on(future, call, pool, done, last=last))

    def _pass_on(
        self, future: Future[Any], call: Callable[[], Any], pool: ProcessPoolExecutor, done: Future[Any], *, last: bool
    ) -> None:
        """Pass on the outcome of a call, or repeat it if its process was killed."""
        try:
            error = done.exception()
        except Exception as withdrawn:  # raised, not returned, if the call was withdrawn before it began
            error = withdrawn
        if isinstance(error, BrokenProcessPool):
            self._resubmit(future, call, pool, last=last)
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())

    def _resubmit(
        self, future: Future[Any], call: Callable[[], Any], broken: ProcessPoolExecutor, *, last: bool
    ) -> None:
        if last:
            future.set_exception(ChildProcessError(KILLED_MESSAGE))
            return
        try:
            with self._lock:
                # One killed process breaks all pending calls of the pool. The first of them replaces the pool; the
                # others find the new one.
                if self._pool is broken and not self._is_shut_down:
                    self._pool = self._start_pool()
            self._submit_call(future, call, last=True)
        except Exception as error:
            # An exception in this thread would be lost, and the caller would wait for the result forever.
            future.set_exception(error)


def process_pool(processes: int | None = None) -> ProcessPool:
    """Make a pool of processes on this machine, one per CPU by default; use it as a context manager.

    Processes are spawned, so a script must guard its main code with ``if __name__ == "__main__"``. The work of a killed
    process is repeated once with equal results; if that fails too, a ``ChildProcessError`` is raised.

    Args:
        processes: Number of processes. ``None`` uses the number of CPUs.

    Returns:
        Executor for ``read_log``, ``fit`` and other functions with an argument ``executor``.

    Raises:
        InputError: If the number is not positive or the processes exceed the memory limit.
    """
    number = as_count("processes", (os.cpu_count() or 1) if processes is None else processes)
    check_budget("processes", memory=PROCESS_BYTES * number, remedy="fewer processes")
    return ProcessPool(number)


def connect_dask(address: str) -> Any:
    """Connect to the Dask scheduler at an address such as tcp://host:8786."""
    try:
        import distributed
    except ImportError as error:
        raise ImportError("A cluster needs Dask: pip install 'rewardmix[cluster]'") from error
    try:
        client: Any = distributed.Client  # untyped
        return client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise_input_error(
            "scheduler", f"no answer from {address!r} ({error})", "the address of a running Dask scheduler"
        )


@contextmanager
def open_executor(scheduler: str | None, processes: int) -> Iterator[Executor]:
    """Open a cluster if there is a scheduler, otherwise several processes or this one."""
    if scheduler is not None:
        with connect_dask(scheduler) as client:
            yield to_executor(client)
    elif processes > 1:
        pool = process_pool(processes)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
    else:
        yield SerialExecutor()


def to_executor(executor: Any) -> Executor:
    """Return an executor: the given one, that of a Dask client, or this process for ``None``."""
    if executor is None:
        return SerialExecutor()
    if callable(getattr(executor, "get_executor", None)):
        # pure=False: Dask must not treat two equal calls as one, because calls may write files.
        executor = executor.get_executor(pure=False)
    if not isinstance(executor, Executor):
        raise_input_error(
            "executor", type(executor).__name__, "a concurrent.futures.Executor, or a dask.distributed Client"
        )
    return executor


def iter_results(executor: Executor, function: Callable[..., Any], items: Sequence[Any]) -> Iterator[Any]:
    """Iterate over function(item) of all items in the order of completion."""
    if isinstance(executor, SerialExecutor):
        return executor.map(function, items)
    return (future.result() for future in as_completed([executor.submit(function, item) for item in items]))


class TemporaryFolder:
    """Temporary directory that is created on first use and removed with this object."""

    def __init__(self) -> None:
        self._numbers = count()

    @cached_property
    def _path(self) -> Path:
        directory = tempfile.TemporaryDirectory(prefix="rewardmix-log-", ignore_cleanup_errors=True)
        # A finalizer also runs at interpreter exit, which ``__del__`` does not guarantee.
        weakref.finalize(self, directory.cleanup)
        return Path(directory.name)

    def file(self, ending: str) -> str:
        """Return the path of a new file."""
        return str(self._path / f"{next(self._numbers)}{ending}")

    def remove(self, path: str) -> None:
        """Delete a file that is not needed any more."""
        Path(path).unlink(missing_ok=True)


@dataclass(frozen=True, eq=False)
class ExecutorPool:
    """Executor with a temporary directory for its partitions."""

    executor: Executor = field(default_factory=SerialExecutor)
    folder: TemporaryFolder = field(default_factory=TemporaryFolder)

    def map(self, function: Callable[..., Any], *items: Sequence[Any], common: Sequence[Any] = ()) -> Iterator[Any]:
        """Call function(*items[i], *common) for all i and iterate over the results in order."""
        # Common arguments are sent with every task: data scattered to one worker would be lost if that worker fails.
        return self.executor.map(function, *items, *([value] * len(items[0]) for value in common))

    def files(self, sizes: Iterable[int]) -> list[str | None]:
        """Return a file for each partition, or None for those that fit into the memory of this process."""
        max_rows = MAX_ROWS_IN_MEMORY if isinstance(self.executor, SerialExecutor) else 0
        return [None if rows <= max_rows else self.folder.file(".part") for rows in accumulate(sizes)]


def report_each(results: Iterable[Any], total: int, callback: ProgressCallback | None) -> Iterator[Any]:
    """Iterate over results and call ``callback`` after each."""
    for done, result in enumerate(results, 1):
        yield result
        if callback:
            callback(done, total)
