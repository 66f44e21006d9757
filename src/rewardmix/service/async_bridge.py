"""Pass jobs from the event loop to the store's thread and results back, in batches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

_T = TypeVar("_T")


class AsyncBridge:
    """Awaitable results of another thread, for one event loop.

    If jobs were submitted one by one, the thread would start with the first one, and both threads would take the
    interpreter lock from each other at every system call. Therefore all jobs of one loop iteration are submitted at its
    end and share a transaction. The first available result wakes the loop for all of them.
    """

    def __init__(self) -> None:
        self._submitted: list[tuple[Callable[[], Future[Any]], asyncio.Future[Any]]] = []
        self._done: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._is_woken = False

    async def submit(self, submit_job: Callable[[], Future[_T]]) -> _T:
        """Await the result of the job that ``submit_job`` submits. Cancelling the wait does not cancel the job."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[_T] = loop.create_future()
        if not self._submitted:
            loop.call_soon(self._submit_all, loop)
        self._submitted.append((submit_job, waiting))
        return await waiting

    def _submit_all(self, loop: asyncio.AbstractEventLoop) -> None:
        """Submit all jobs of this loop iteration."""
        jobs, self._submitted = self._submitted, []
        for submit_job, waiting in jobs:
            try:
                future = submit_job()
            except Exception as error:
                _set_result(waiting, error, None)
            else:
                future.add_done_callback(partial(self._on_done, loop, waiting))

    def _on_done(self, loop: asyncio.AbstractEventLoop, waiting: asyncio.Future[Any], done: Future[Any]) -> None:
        """Queue a finished job and wake the loop; runs in the store's thread."""
        self._done.append((waiting, done))
        if not self._is_woken:
            self._is_woken = True
            loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        """Set the results of all finished jobs; runs in the loop."""
        # The flag is cleared first: a job that finishes from here on wakes the loop again.
        self._is_woken = False
        while self._done:
            waiting, done = self._done.popleft()
            error = done.exception()
            _set_result(waiting, error, None if error else done.result())


def _set_result(waiting: asyncio.Future[Any], error: BaseException | None, result: Any) -> None:
    """Set the result or exception of a future, unless its waiter is gone."""
    if waiting.done():
        return
    if error is None:
        waiting.set_result(result)
    else:
        waiting.set_exception(error)
