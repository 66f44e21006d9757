"""Run the service: ``serve`` answers requests by a plan until the process is stopped."""

from __future__ import annotations

import gc
import ipaddress
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from rewardmix._core.checks import as_count, as_number, raise_input_error
from rewardmix.planning import Plan
from rewardmix.service.background_refit import BackgroundRefitter
from rewardmix.service.databases import convert_database_errors
from rewardmix.service.demo_traffic import DemoTraffic
from rewardmix.service.ending import handle_stop_signals
from rewardmix.service.policy_server import ServeSettings
from rewardmix.service.refit import RefitSettings
from rewardmix.service.session_service import SessionLimits, SessionService
from rewardmix.service.store import Store, StoreUnavailable

MIN_TOKEN_LENGTH = 16
"""Minimum length of a token in characters."""

RESERVED_FILES = 100
"""File descriptors reserved for everything besides connections."""

_encode_json = json.JSONEncoder(default=str).encode

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


@dataclass(frozen=True)
class ServerAddress:
    """Network address of the service and its access rules.

    Attributes:
        host: Address of this machine; an address that others can reach requires a token.
        port: Port from 0 (any free port) to 65535.
        token: Token that requests have to carry.
        rate_limit: Requests per second and client.
        most_connections: Number of simultaneous connections; above it, each new connection closes a waiting one.
        proxy: Address or network of a trusted proxy, whose ``X-Forwarded-For`` names the client; None trusts no proxy.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    rate_limit: float = 5000.0
    most_connections: int = 1000
    proxy: str | None = None

    def __post_init__(self) -> None:
        as_number("rate_limit", self.rate_limit, above=0.0)
        as_count("most_connections", self.most_connections)
        if self.proxy is not None and not is_network(self.proxy):
            raise_input_error("proxy", repr(self.proxy), "an IP address or network such as 127.0.0.1 or 10.0.0.0/8")
        if as_count("port", self.port, 0) > 65535:
            raise_input_error("port", self.port, "a port from 0 to 65535")
        if self.token is None and not is_loopback(self.host):
            raise_input_error(
                "host", repr(self.host), "a loopback address; an address that others can reach needs a token"
            )
        if self.token is not None and not (len(self.token) >= MIN_TOKEN_LENGTH and is_printable_ascii(self.token)):
            raise_input_error(
                "token", f"{len(self.token)} characters", f"at least {MIN_TOKEN_LENGTH} characters, all printable ASCII"
            )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_network(text: str) -> bool:
    """Return whether a text is an IP address or network."""
    try:
        return bool(ipaddress.ip_network(text))
    except ValueError:
        return False


def is_printable_ascii(text: str) -> bool:
    """Return whether a text is printable ASCII, which every HTTP header can carry."""
    return text.isascii() and text.isprintable()


def load_token(path: Path) -> str:
    """Read the token from a file, without surrounding whitespace."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise_input_error(
            "token_file", f"{str(path)!r}, which cannot be read ({error})", "a text file that contains the token"
        )


def serve(
    plan: Plan,
    store: str | Path,
    *,
    settings: ServeSettings | None = None,
    limits: SessionLimits | None = None,
    address: ServerAddress | None = None,
    learning: RefitSettings | None = None,
    demo: bool = False,
    on_start: Callable[[str], None] | None = None,
) -> None:
    """Answer requests until the process is stopped (Ctrl-C, SIGTERM or SIGHUP), which is a normal end.

    Args:
        plan: Plan that decides the actions of sessions.
        store: SQLite file, created if it does not exist, or PostgreSQL address.
        settings: Exploration, holdout and default action.
        limits: Limits of open sessions and of their retention.
        address: Host, port, token and rate limit.
        learning: Schedule of refits; None disables them.
        demo: Whether to run the demo shop with simulated users.
        on_start: Function that is called with the URL once the service answers.
    """
    try:
        import uvicorn

        from rewardmix.service.api import make_application
    except ImportError as error:
        raise ImportError("serve needs Starlette and uvicorn: pip install 'rewardmix[serve]'") from error
    address = address or ServerAddress()
    with ExitStack() as stack:
        stop_handler = stack.enter_context(handle_stop_signals())
        # The port is bound before the store is opened: a second service on this port fails without any change.
        listener = stack.enter_context(closing(open_socket(address.host, address.port)))
        store_handle = stack.enter_context(closing(Store(store)))
        with convert_database_errors(store, StoreUnavailable):
            # Errors of a damaged store are reported as input errors at startup; later ones are answered by
            # status 503.
            service = SessionService(store_handle, plan, settings, limits)
            # Sessions that expired while the service was down are deleted before the first request.
            while service.delete_expired().result():
                pass
        use_json_logging(sys.stderr)
        host, port = f"[{address.host}]" if ":" in address.host else address.host, listener.getsockname()[1]
        if learning is not None:
            stack.enter_context(closing(BackgroundRefitter(service, store, learning)))
        traffic = None
        if demo:
            traffic = stack.enter_context(closing(DemoTraffic(address.host, port, address.token)))
            traffic.start()
            # The socket closes before the simulated users stop. Otherwise they would wait for answers without end.
            stack.callback(listener.close)
        app = make_application(service, address.token, address.rate_limit, traffic)
        if on_start is not None:
            on_start(f"http://{host}:{port}")
        server = uvicorn.Server(make_server_config(app, address))
        gc.collect()
        # Objects that exist before the first request live as long as the process; later collections skip them.
        gc.freeze()
        stop_handler.server = server
        server.run(sockets=[listener])


def make_server_config(app: Any, address: ServerAddress) -> Any:
    """Make the ``uvicorn.Config`` of the server."""
    import uvicorn

    from rewardmix.service.connection_timeouts import make_protocol_class

    num_files = raise_file_limit(3 * address.most_connections + RESERVED_FILES)
    max_connections = limit_connections(address.most_connections, num_files)
    return uvicorn.Config(
        app,
        http=make_protocol_class(max_connections),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=address.proxy is not None,
        forwarded_allow_ips=address.proxy or "",
        backlog=max_connections,
        # Above this number even the connections that should have been closed by now are active.
        limit_concurrency=2 * max_connections + 1,
        timeout_graceful_shutdown=10,
        lifespan="off",
    )


def raise_file_limit(num_files: int) -> int:
    """Raise the limit of open files towards ``num_files`` and return the number that is allowed."""
    try:
        import resource
    # Windows has no such limit.
    except ImportError:
        return num_files
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= num_files:
        return num_files
    allowed = num_files if hard == resource.RLIM_INFINITY else min(num_files, hard)
    # Some systems allow less than the hard limit they report.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        return allowed
    return soft


def limit_connections(most_connections: int, num_files: int) -> int:
    """Return the number of connections that the file limit allows.

    It is a third of the files: as many again may be active, and as many may arrive before others are closed.
    """
    return max(1, min(most_connections, (num_files - RESERVED_FILES) // 3))


def open_socket(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    The protocol is given as TCP, unlike in ``socket.create_server``. Only then does asyncio disable Nagle's algorithm;
    otherwise each small answer may wait 40 ms for the acknowledgment of the one before.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # On Windows this option would let another process take the port.
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(socket.SOMAXCONN)
    except OSError as error:
        listener.close()
        actual = f"{host}:{port}, which cannot be opened ({error.strerror})"
        raise_input_error("port", actual, "a free port at an address of this machine; 0 selects any")
    return listener


def use_json_logging(stream: TextIO) -> None:
    """Write the log of the service and of its server as one JSON object per line."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    for name in ("rewardmix.service", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "rewardmix.service" else logging.WARNING)


class JsonFormatter(logging.Formatter):
    """Format log records as JSON in one line, whatever text they contain."""

    _second = 0, ""

    def format(self, record: logging.LogRecord) -> str:
        """Format time, level, event and extra fields of a record."""
        # The formatted second is cached: strftime would dominate the cost of a log line.
        second = int(record.created)
        if self._second[0] != second:
            self._second = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        line = {"time": f"{self._second[1]}.{int(record.msecs):03d}Z", "level": record.levelname.lower()}
        line |= {"event": record.getMessage()}
        line |= getattr(record, "fields", None) or {
            name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return _encode_json(line)
