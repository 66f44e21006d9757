"""Executors that work on the parts of a log: this process, several processes, or a Dask cluster.

All are a ``concurrent.futures.Executor``. Sent are functions of this package with descriptions (paths, columns, schema,
mixture), rows only of a table in memory; back come counts and sums. How an executor sends them is its own business:
nothing is serialised here. Results come in the order of the parts and are added in it, so the numbers do not depend on
the executor.

A part waits in memory, or in a file of a temporary directory. A worker that does not see that file, because it is on
another machine, makes the part again from the rows of the log: nothing is lost with a worker that dies.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate, count
from multiprocessing import get_context
from pathlib import Path
from threading import Lock
from typing import Any

from rewardmix._core.checks import as_count, refuse
from rewardmix._core.limits import afford

Callback = Callable[[int, int], None]
"""Called with (parts done, parts in all)."""

IN_MEMORY = 1 << 24
"""Rows that are kept in memory; the parts of a longer log wait in files."""

PROCESS = 150 * 2**20
"""Bytes that a process takes before it has any work: the interpreter with its libraries."""


KILLED = (
    "processes: found the processes at work killed, and killed again when the work was done a second time, expected "
    "them to live; most often memory ran out (fewer processes, or fewer rows at a time, take less), or a script starts "
    "processes outside of if __name__ == '__main__'"
)
"""What is said where processes do not live."""


class SerialExecutor(Executor):
    """This process: every call is made when its result is asked for, one after the other."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The call, made at once."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], **_: Any) -> Iterator[Any]:
        """The results, each computed when it is its turn."""
        return map(fn, *iterables)


class ProcessPool(Executor):
    """Several processes of this machine; what was under way when one is killed is done again, once, by new ones."""

    def __init__(self, processes: int) -> None:
        self._number, self._lock, self._ended = processes, Lock(), False
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._number, mp_context=get_context("spawn"))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The call, made by one of the processes."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._send(future, partial(fn, *args, **kwargs), last=False)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes."""
        with self._lock:
            self._ended = True
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def _send(self, future: Future[Any], call: Callable[[], Any], *, last: bool) -> None:
        pool = self._pool
        try:
            sent = pool.submit(call)
        except BrokenProcessPool:
            self._send_again(future, call, pool, last=last)
            return
        sent.add_done_callback(lambda done: self._take(future, call, pool, done, last=last))

    def _take(
        self, future: Future[Any], call: Callable[[], Any], pool: ProcessPoolExecutor, done: Future[Any], *, last: bool
    ) -> None:
        """Hand on what became of a call; one that a killed process had is made again."""
        if done.cancelled():
            future.set_exception(CancelledError())
        elif isinstance(done.exception(), BrokenProcessPool):
            self._send_again(future, call, pool, last=last)
        elif (error := done.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())

    def _send_again(
        self, future: Future[Any], call: Callable[[], Any], broken: ProcessPoolExecutor, *, last: bool
    ) -> None:
        if last:
            future.set_exception(ChildProcessError(KILLED))
            return
        try:
            with self._lock:
                if self._pool is broken and not self._ended:
                    self._pool = self._started()
            self._send(future, call, last=True)
        except Exception as error:  # nobody waits for this thread, but somebody for the result
            future.set_exception(error)


def process_pool(processes: int | None = None) -> ProcessPool:
    """Several processes of this machine (left out: one for each CPU), to be used as a context manager.

    From a script only under ``if __name__ == "__main__"``: processes are spawned. What a process that is killed was at
    is done again once, with the same numbers; if that is killed too, it ends with a ChildProcessError.
    """
    number = as_count("processes", (os.cpu_count() or 1) if processes is None else processes)
    afford("processes", memory=PROCESS * number, change="fewer processes")
    return ProcessPool(number)


def connected(address: str) -> Any:
    """A Dask client of the scheduler at an address such as tcp://host:8786."""
    try:
        import distributed
    except ImportError as error:
        raise ImportError("A cluster needs Dask: pip install 'rewardmix[cluster]'") from error
    try:
        client: Any = distributed.Client  # untyped
        return client(address, timeout="10s")
    except (OSError, ValueError) as error:
        refuse("scheduler", f"no answer from {address!r} ({error})", "the address of a running Dask scheduler")


@contextmanager
def executor_of(scheduler: str | None, processes: int) -> Iterator[Executor]:
    """A cluster if there is a scheduler, otherwise this process or several."""
    if scheduler is not None:
        with connected(scheduler) as client:
            yield as_executor(client)
    elif processes > 1:
        pool = process_pool(processes)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
    else:
        yield SerialExecutor()


def as_executor(executor: Any) -> Executor:
    """An executor, that of a Dask client, or that of this process if nothing is given."""
    if executor is None:
        return SerialExecutor()
    if callable(getattr(executor, "get_executor", None)):
        executor = executor.get_executor(pure=False)
    if not isinstance(executor, Executor):
        refuse("executor", type(executor).__name__, "a concurrent.futures.Executor, or a dask.distributed Client")
    return executor


def as_finished(executor: Executor, function: Callable[..., Any], items: Sequence[Any]) -> Iterator[Any]:
    """function(item) of every item, whichever is ready first."""
    if isinstance(executor, SerialExecutor):
        return executor.map(function, items)
    return (future.result() for future in as_completed([executor.submit(function, item) for item in items]))


class TemporaryFolder:
    """A temporary directory, made when it is first needed and removed with this object."""

    def __init__(self) -> None:
        self._numbers = count()

    @cached_property
    def _path(self) -> Path:
        directory = tempfile.TemporaryDirectory(prefix="rewardmix-log-", ignore_cleanup_errors=True)
        weakref.finalize(self, directory.cleanup)
        return Path(directory.name)

    def file(self, ending: str) -> str:
        """The path of a new file."""
        return str(self._path / f"{next(self._numbers)}{ending}")

    def remove(self, path: str) -> None:
        """Take a file away that is not needed any more."""
        Path(path).unlink(missing_ok=True)


@dataclass(frozen=True, eq=False)
class Workers:
    """An executor, and a temporary directory for what it works on."""

    executor: Executor = field(default_factory=SerialExecutor)
    folder: TemporaryFolder = field(default_factory=TemporaryFolder)

    def map(self, function: Callable[..., Any], *items: Sequence[Any], common: Sequence[Any] = ()) -> Iterator[Any]:
        """function(one of each of ``items``, *common), in order."""
        # what is common travels with every task: scattered data would be lost for good with the worker that has it
        return self.executor.map(function, *items, *([value] * len(items[0]) for value in common))

    def files(self, sizes: Iterable[int]) -> list[str | None]:
        """Files for parts of so many rows; None for what this process, if it does the work, can keep in memory."""
        most = IN_MEMORY if isinstance(self.executor, SerialExecutor) else 0
        return [None if rows <= most else self.folder.file(".part") for rows in accumulate(sizes)]


def reported(results: Iterable[Any], total: int, on_update: Callback | None) -> Iterator[Any]:
    """The results, with a call of ``on_update`` after each."""
    for done, result in enumerate(results, 1):
        yield result
        if on_update:
            on_update(done, total)
