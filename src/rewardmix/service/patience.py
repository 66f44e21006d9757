"""Connections on which nobody asks: they are closed, so that slow clients do not keep others out."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 10.0
"""How long the head of a request may take to arrive."""


class PatientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP on a connection that is given up when the head of a request does not arrive in time.

    The server below waits for a head for ever; bodies have a limit of their own (``api``), pauses between requests too.
    """

    _due: float | None = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head, or no longer if it is there."""
        self._wait()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._due = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._due = None
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._due is None:
            self._due = self.loop.time() + HEAD_SECONDS
        if self._timer is None:
            self._timer = self.loop.call_at(self._due, self._look)

    def _look(self) -> None:
        """Give the connection up, or look again when it may be time to; one timer serves many requests."""
        self._timer = None
        if self._due is None:
            return
        if self.loop.time() < self._due:
            self._timer = self.loop.call_at(self._due, self._look)
        elif self.cycle is None or self.cycle.response_complete:
            self.transport.close()
