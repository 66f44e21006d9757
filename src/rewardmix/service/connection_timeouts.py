"""Close connections of slow or inactive clients, so that they do not block others, and send answers in one piece."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEADER_TIMEOUT_SECONDS = 10.0
"""Time in seconds within which the header of a request has to arrive."""

WRITE_TIMEOUT_SECONDS = 10.0
"""Time in seconds that a client may take to receive sent data, also after its connection is closed."""


class TimeoutProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP protocol that closes a connection if the request header arrives, or the answer is received, too slowly.

    Uvicorn itself waits for both without limit. Bodies and pauses between requests have limits of their own.
    """

    waiting: WaitingConnections
    _deadline: float | None = None
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the header timeout; if all connections are taken, close the one that has been inactive longest."""
        super().connection_made(_BufferedTransport(transport, self.loop))
        self._start_header_timeout()
        # The oldest is chosen before the new connection is added, so that a new one does not replace itself.
        oldest = self.waiting.oldest() if len(self.connections) > self.waiting.max_connections else None
        self.waiting.add(self)
        if oldest is not None:
            oldest.abort()

    @property
    def host(self) -> str:
        """Return the client address."""
        return self.client[0] if self.client else ""

    def abort(self) -> None:
        """Close this connection at once and stop counting it."""
        self.waiting.remove(self)
        self.connections.discard(self)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Continue or stop the header timeout, depending on whether the header is complete."""
        self._start_header_timeout()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._deadline = None
        self._update_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._update_waiting()

    def _update_waiting(self) -> None:
        """Register whether the connection waits for its client: no request, or an incomplete one."""
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            self.waiting.add(self)
        else:
            self.waiting.remove(self)

    def pause_writing(self) -> None:
        """Start the write timeout: the client does not receive the data in the buffer."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_TIMEOUT_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the write timeout: the client has received most of the data."""
        self._cancel_write_timeout()
        super().resume_writing()

    def _cancel_write_timeout(self) -> None:
        """Cancel the write timeout."""
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timeouts."""
        self.waiting.remove(self)
        self._deadline = None
        self._cancel_write_timeout()
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _start_header_timeout(self) -> None:
        """Start the header timeout, if it does not run."""
        if self._deadline is None:
            # A running timeout is not extended by further bytes: a client could keep the connection by sending slowly.
            self._deadline = self.loop.time() + HEADER_TIMEOUT_SECONDS
        if self._timer is None:
            self._timer = self.loop.call_at(self._deadline, self._check_header_timeout)

    def _check_header_timeout(self) -> None:
        """Close the connection if the header is late, or check again when it may be; one timer serves many requests."""
        self._timer = None
        if self._deadline is None:
            return
        if self.loop.time() < self._deadline:
            self._timer = self.loop.call_at(self._deadline, self._check_header_timeout)
        elif self.cycle is None or self.cycle.response_complete:
            self.transport.close()


class WaitingConnections:
    """Connections that wait for their client, grouped by address and ordered by the start of the wait.

    Attributes:
        max_connections: Maximum number of connections of all kinds.
    """

    def __init__(self, max_connections: int) -> None:
        self.max_connections = max_connections
        self._by_host: dict[str, dict[TimeoutProtocol, None]] = {}

    def add(self, connection: TimeoutProtocol) -> None:
        """Register a connection that waits for its client; an earlier start of the wait is kept."""
        if not connection.transport.is_closing():
            self._by_host.setdefault(connection.host, {}).setdefault(connection)

    def remove(self, connection: TimeoutProtocol) -> None:
        """Remove a connection that is active or closed."""
        connections = self._by_host.get(connection.host, {})
        connections.pop(connection, None)
        if not connections:
            self._by_host.pop(connection.host, None)

    def oldest(self) -> TimeoutProtocol | None:
        """Return the longest waiting connection of the address that has most of them."""
        if not self._by_host:
            return None
        # A client that opens many connections loses its own first and cannot displace other clients.
        return next(iter(self._by_host[max(self._by_host, key=lambda host: len(self._by_host[host]))]))


def make_protocol_class(max_connections: int) -> type[TimeoutProtocol]:
    """Make the protocol class of one server with at most ``max_connections`` connections."""
    return type("ServerTimeoutProtocol", (TimeoutProtocol,), {"waiting": WaitingConnections(max_connections)})


class _BufferedTransport:
    """Transport that joins all writes of one iteration of the event loop.

    Uvicorn writes header and body separately. Each write is a system call, during which the store's thread may take the
    interpreter lock.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._chunks = transport, loop, list[bytes]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Queue data until the end of this iteration of the event loop."""
        if not self._chunks:
            # All writes of this iteration are made before the callback runs.
            self._loop.call_soon(self._flush)
        self._chunks.append(data)

    def close(self) -> None:
        """Close after all data are sent, or after the write timeout."""
        self._flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(WRITE_TIMEOUT_SECONDS, self._transport.abort)

    def _flush(self) -> None:
        """Send the queued data with one write."""
        chunks, self._chunks = self._chunks, []
        if chunks and not self._transport.is_closing():
            self._transport.write(b"".join(chunks))
