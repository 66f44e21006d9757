"""Connections: those on which nobody asks are closed, so that slow clients do not keep others out; answers go whole."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 10.0
"""How long the head of a request may take to arrive."""

TAKEN_SECONDS = 10.0
"""How long a client may take none of what it is sent, or of what is left when its connection closes."""


class PatientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP on a connection that is given up when the head of a request, or who takes its answer, is too slow.

    The server below waits for both for ever; bodies have a limit of their own (``api``), pauses between requests too.
    """

    waiting: Waiting
    _due: float | None = None
    _timer: asyncio.TimerHandle | None = None
    _untaken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head, in the place of somebody who has asked for nothing for longer if all are taken."""
        super().connection_made(_InOnePiece(transport, self.loop))
        self._wait()
        oldest = self.waiting.oldest() if len(self.connections) > self.waiting.most else None
        self.waiting.add(self)
        if oldest is not None:
            oldest.give_up()

    @property
    def host(self) -> str:
        """The address at the other end."""
        return self.client[0] if self.client else ""

    def give_up(self) -> None:
        """Close this connection now, and count it no more."""
        self.waiting.remove(self)
        self.connections.discard(self)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head, or no longer if it is there."""
        self._wait()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._due = None
        self._note()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._note()

    def _note(self) -> None:
        """Whether it is the client's turn: there is no request, or a part of one only."""
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            self.waiting.add(self)
        else:
            self.waiting.remove(self)

    def pause_writing(self) -> None:
        """Much is written and not taken: wait no longer than for a head."""
        super().pause_writing()
        self._untaken = self.loop.call_later(TAKEN_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Most of it was taken."""
        self._taken()
        super().resume_writing()

    def _taken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self.waiting.remove(self)
        self._due = None
        self._taken()
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


class Waiting:
    """Connections on which it is the client's turn, those of each address in the order in which that began.

    Attributes:
        most: connections at a time, of all kinds.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._of: dict[str, dict[PatientProtocol, None]] = {}

    def add(self, connection: PatientProtocol) -> None:
        """It is the client's turn, for some time already or from now on."""
        if not connection.transport.is_closing():
            self._of.setdefault(connection.host, {}).setdefault(connection)

    def remove(self, connection: PatientProtocol) -> None:
        """It is not, or the connection is gone."""
        of_host = self._of.get(connection.host, {})
        of_host.pop(connection, None)
        if not of_host:
            self._of.pop(connection.host, None)

    def oldest(self) -> PatientProtocol | None:
        """The one that waits longest, of the address that has most of them: who opens many closes their own."""
        if not self._of:
            return None
        return next(iter(self._of[max(self._of, key=lambda host: len(self._of[host]))]))


def patient_protocol(most: int) -> type[PatientProtocol]:
    """The protocol of one server, with so many connections at a time."""
    return type("PatientProtocolOfServer", (PatientProtocol,), {"waiting": Waiting(most)})


class _InOnePiece:
    """A transport that sends what was written in one turn of the loop together.

    The server below writes the head of an answer and its body apart; each is a call of the system in which the thread
    of the store may take the interpreter.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._pieces = transport, loop, list[bytes]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send with what comes in this turn."""
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)

    def close(self) -> None:
        """Close when all is sent, or when nobody takes it."""
        self._flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(TAKEN_SECONDS, self._transport.abort)

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces and not self._transport.is_closing():
            self._transport.write(b"".join(pieces))
