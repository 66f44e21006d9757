"""``serve``: a plan at an address, until somebody stops it."""

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

from rewardmix._core.checks import as_count, as_number, refuse
from rewardmix.planning import Plan
from rewardmix.service.databases import readable
from rewardmix.service.deciding import ServeSettings
from rewardmix.service.desk import Desk, DeskLimits
from rewardmix.service.ending import ending_in_order
from rewardmix.service.learner import BackgroundLearner
from rewardmix.service.refitting import RefitSettings
from rewardmix.service.store import Store, StoreDown
from rewardmix.service.visitors import Crowd

SHORTEST_TOKEN = 16
"""Characters of a token."""

SPARE_FILES = 100
"""Files that a service has open beside its connections, and more."""

_ENCODED = json.JSONEncoder(default=str).encode

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


@dataclass(frozen=True)
class Address:
    """Where a service is, and who may ask.

    Attributes:
        host: an address of this machine; one that others can reach needs a token.
        port: from 0 (any that is free) to 65535.
        token: that requests have to carry.
        rate: requests a second of each client.
        most_connections: at a time; beyond, one on which nobody asks is closed for each that comes.
        proxy: address or network of a proxy, whose word for who asks (``X-Forwarded-For``) is taken; None: nobody's.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    rate: float = 5000.0
    most_connections: int = 1000
    proxy: str | None = None

    def __post_init__(self) -> None:
        as_number("rate", self.rate, above=0.0)
        as_count("most_connections", self.most_connections)
        if self.proxy is not None and not is_network(self.proxy):
            refuse("proxy", repr(self.proxy), "an IP address or a network, as 127.0.0.1 or 10.0.0.0/8")
        if as_count("port", self.port, 0) > 65535:
            refuse("port", self.port, "a port from 0 to 65535")
        if self.token is None and not is_loopback(self.host):
            refuse("host", repr(self.host), "a loopback address, or a token for an address that others can reach")
        if self.token is not None and not (len(self.token) >= SHORTEST_TOKEN and is_plain(self.token)):
            refuse("token", f"{len(self.token)} characters", f"at least {SHORTEST_TOKEN}, all printable ASCII")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_network(text: str) -> bool:
    """Whether a text is an IP address or a network."""
    try:
        return bool(ipaddress.ip_network(text))
    except ValueError:
        return False


def is_plain(text: str) -> bool:
    """Whether every header can carry a text."""
    return text.isascii() and text.isprintable()


def token_in(path: Path) -> str:
    """The token in a file: its text without the blanks around it."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        refuse("token_file", f"{str(path)!r} that cannot be read ({error})", "a text file with a token")


def serve(
    plan: Plan,
    store: str | Path,
    *,
    settings: ServeSettings | None = None,
    limits: DeskLimits | None = None,
    address: Address | None = None,
    learning: RefitSettings | None = None,
    demo: bool = False,
    on_start: Callable[[str], None] | None = None,
) -> None:
    """Reply requests until the process is told to stop (Ctrl-C, SIGTERM, SIGHUP), which is an ordinary end.

    Args:
        plan: what sessions are answered by.
        store: file that keeps them, made if it is not there, or the address of a PostgreSQL.
        settings: exploration, holdout and the default action.
        limits: of open sessions.
        address: host, port and token.
        learning: when to learn from the sessions; None: never.
        demo: whether made-up visitors of the shop come, and its page is shown.
        on_start: called with the address once it answers.
    """
    try:
        import uvicorn

        from rewardmix.service.api import application
    except ImportError as error:
        raise ImportError("serve needs Starlette and uvicorn: pip install 'rewardmix[serve]'") from error
    where = address or Address()
    with ExitStack() as stack:
        ending = stack.enter_context(ending_in_order())
        listening = stack.enter_context(closing(listening_at(where.host, where.port)))
        kept = stack.enter_context(closing(Store(store)))
        with readable(store, StoreDown):
            desk = Desk(kept, plan, settings, limits)
            while desk.delete_old().result():
                pass
        log_as_json(sys.stderr)
        host, port = f"[{where.host}]" if ":" in where.host else where.host, listening.getsockname()[1]
        if learning is not None:
            stack.enter_context(closing(BackgroundLearner(desk, store, learning)))
        crowd = None
        if demo:
            crowd = stack.enter_context(closing(Crowd(where.host, port, where.token)))
            crowd.start()
            stack.callback(listening.close)  # first: visitors whom nobody will answer must not wait
        app = application(desk, where.token, where.rate, crowd)
        if on_start is not None:
            on_start(f"http://{host}:{port}")
        server = uvicorn.Server(configured(app, where))
        gc.collect()
        gc.freeze()  # what is there before the first request is not looked through again and again
        ending.server = server
        server.run(sockets=[listening])


def configured(app: Any, where: Address) -> Any:
    """How the server below runs an application: a ``uvicorn.Config``."""
    import uvicorn

    from rewardmix.service.patience import patient_protocol

    most = connections_within(where.most_connections, more_files(3 * where.most_connections + SPARE_FILES))
    return uvicorn.Config(
        app,
        http=patient_protocol(most),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=where.proxy is not None,
        forwarded_allow_ips=where.proxy or "",
        backlog=most,
        limit_concurrency=2 * most + 1,  # beyond what was to be closed by now, all of it is at work
        timeout_graceful_shutdown=10,
        lifespan="off",
    )


def more_files(wanted: int) -> int:
    """How many files this process may have open, after it has asked for as many as are wanted."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        return allowed
    return soft


def connections_within(most: int, files: int) -> int:
    """How many connections there may be; as many again may be at work, and as many arrive before others are closed."""
    return max(1, min(most, (files - SPARE_FILES) // 3))


def listening_at(host: str, port: int) -> socket.socket:
    """A socket that waits for connections.

    It says that it is TCP, which ``socket.create_server`` does not: only then asyncio sends small answers at once;
    otherwise each may wait 40 ms for the one before to be confirmed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # elsewhere it would let another process take the same port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(socket.SOMAXCONN)
    except OSError as error:
        listening.close()
        why = f"{host}:{port} that cannot be listened at ({error.strerror})"
        refuse("port", why, "one that is free, at an address of this machine; 0: any")
    return listening


def log_as_json(stream: TextIO) -> None:
    """One JSON object a line, for the service and the server below it."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name in ("rewardmix.service", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "rewardmix.service" else logging.WARNING)


class JsonLines(logging.Formatter):
    """A record as JSON in one line: whatever is in it, it stays one."""

    _second = 0, ""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, event and what belongs to it."""
        second = int(record.created)
        if self._second[0] != second:
            self._second = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        line = {"time": f"{self._second[1]}.{int(record.msecs):03d}Z", "level": record.levelname.lower()}
        line |= {"event": record.getMessage()}
        line |= getattr(record, "about", None) or {
            name: value for name, value in vars(record).items() if name not in _OWN
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return _ENCODED(line)
