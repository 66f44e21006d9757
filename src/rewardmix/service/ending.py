"""End a service on a signal: the signal is a normal end, after which all resources are closed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""Signals that request an end, as far as the system has them; Python itself handles Ctrl-C."""


class Stoppable(Protocol):
    """Server that ends when ``should_exit`` is set."""

    should_exit: bool


class StopHandler:
    """Signal handler that stops the server, or exits with code 0 while no server runs.

    Attributes:
        server: Running server, or None.
    """

    def __init__(self) -> None:
        self.server: Stoppable | None = None
        self._is_stopping = False

    def __call__(self, number: int, frame: Any) -> None:
        """Request the end once; a second signal must not interrupt the cleanup."""
        if self._is_stopping:
            return
        self._is_stopping = True
        if self.server is None:
            raise SystemExit(0)
        self.server.should_exit = True


@contextmanager
def handle_stop_signals() -> Iterator[StopHandler]:
    """Install the signal handlers within this context; a nested call reuses the outer handler."""
    old_handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    outer_handler = old_handlers[signal.SIGTERM]
    if isinstance(outer_handler, StopHandler) or threading.current_thread() is not threading.main_thread():
        yield outer_handler if isinstance(outer_handler, StopHandler) else StopHandler()
        return
    stop_handler = StopHandler()
    for number, handler in old_handlers.items():
        # nohup makes a process ignore SIGHUP; that choice is kept.
        if handler is not signal.SIG_IGN:
            signal.signal(number, stop_handler)
    try:
        yield stop_handler
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
