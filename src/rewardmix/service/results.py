"""Between the loop of the server and the thread of the store: jobs go over together, and so do their results."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

_T = TypeVar("_T")


class Results:
    """Results of another thread, awaited in one loop.

    A thread that gets jobs one by one begins with the first, and both then take the interpreter from each other at
    every call of the system. So what requests ask for in one turn of the loop is handed over at its end and shares a
    transaction, and the first result that is there wakes the loop for all of them.
    """

    def __init__(self) -> None:
        self._asked: list[tuple[Callable[[], Future[Any]], asyncio.Future[Any]]] = []
        self._done: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._woken = False

    async def of(self, ask: Callable[[], Future[_T]]) -> _T:
        """The result of what ``ask`` begins. Who stops waiting stops no job: it may be half done."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[_T] = loop.create_future()
        if not self._asked:
            loop.call_soon(self._hand_over, loop)
        self._asked.append((ask, waiting))
        return await waiting

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        asked, self._asked = self._asked, []
        for ask, waiting in asked:
            try:
                future = ask()
            except Exception as error:
                _settle(waiting, error, None)
            else:
                future.add_done_callback(partial(self._tell, loop, waiting))

    def _tell(self, loop: asyncio.AbstractEventLoop, waiting: asyncio.Future[Any], done: Future[Any]) -> None:
        self._done.append((waiting, done))
        if not self._woken:
            self._woken = True
            loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._woken = False  # first: what is done from here on wakes again
        while self._done:
            waiting, done = self._done.popleft()
            error = done.exception()
            _settle(waiting, error, None if error else done.result())


def _settle(waiting: asyncio.Future[Any], error: BaseException | None, result: Any) -> None:
    if waiting.done():
        return
    if error is None:
        waiting.set_result(result)
    else:
        waiting.set_exception(error)
