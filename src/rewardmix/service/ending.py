"""The end of a service: a signal that asks for it is an ordinary end, after which nothing is left open."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

ENDS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""Signals that ask for an end, as far as the system has them; Python itself minds Ctrl-C."""


class Stoppable(Protocol):
    """A server that ends when it is told so."""

    should_exit: bool


class Ending:
    """What a signal does: the server stops, or, as long as there is none, the program leaves with code 0.

    Attributes:
        server: what runs now; None: nothing.
    """

    def __init__(self) -> None:
        self.server: Stoppable | None = None
        self._begun = False

    def __call__(self, number: int, frame: Any) -> None:
        """End, once: a second signal must not come between while things are closed."""
        if self._begun:
            return
        self._begun = True
        if self.server is None:
            raise SystemExit(0)
        self.server.should_exit = True


@contextmanager
def ending_in_order() -> Iterator[Ending]:
    """Let signals end what happens here so that it can be closed; within another one, that one."""
    before = {number: signal.getsignal(number) for number in ENDS}
    outer = before[signal.SIGTERM]
    if isinstance(outer, Ending) or threading.current_thread() is not threading.main_thread():
        yield outer if isinstance(outer, Ending) else Ending()
        return
    ending = Ending()
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, ending)
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
