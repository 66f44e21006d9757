"""Attacks by sheer number, and by doing nothing for long."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import secrets
import socket
import time
from collections.abc import Iterator

from benchmarks.serve.hostile import STATES, Target, hear, request, say

MOST_CONNECTIONS = 50
"""Of a service that is to have too many."""

LONGEST = 40.0
"""Seconds after which a slow client counts as not given up: the service says 10."""


def line_to(target: Target) -> http.client.HTTPConnection:
    """A connection that stays."""
    return http.client.HTTPConnection("127.0.0.1", target.port, timeout=60)


def answer(line: http.client.HTTPConnection, target: Target, method: str, path: str, body: object = None) -> str:
    """The status of one request; what it says is read and dropped."""
    return str(heard(line, target, method, path, body)[0])


def heard(
    line: http.client.HTTPConnection, target: Target, method: str, path: str, body: object = None
) -> tuple[int, bytes]:
    """(status, body) of one request on a connection that stays."""
    headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    if body is not None:
        headers["Content-Type"] = "application/json"
    line.request(method, path, None if body is None else json.dumps(body), headers)
    result = line.getresponse()
    return result.status, result.read()


def guessed(target: Target, quick: bool) -> Iterator[str]:
    """Ids at random, and ids that are nearly one that there is."""
    line = line_to(target)
    real = json.loads(heard(line, target, "POST", "/v1/sessions", {"state": 0})[1])["session"]
    for _ in range(300 if quick else 10_000):
        yield answer(line, target, "GET", f"/v1/sessions/{secrets.token_urlsafe(24)}")
    near = [real[:i] + ("A" if real[i] != "A" else "B") + real[i + 1 :] for i in range(len(real))]
    near += [
        real[:-1],
        real + "A",
        real[1:],
        real.swapcase(),
        real[::-1],
        f"{real}%00",
        f"%20{real}",
        f"{real}%0A",
        "*",
        "%2A",
        "%",
    ]
    body = {"step": 0, "reward": 1, "state": 0}
    for id in near:
        yield answer(line, target, "GET", f"/v1/sessions/{id}")
        yield answer(line, target, "POST", f"/v1/sessions/{id}/steps", body)
    line.close()


def abandoned(target: Target, quick: bool) -> Iterator[str]:
    """Sessions of which nobody hears again."""
    line = line_to(target)
    for number in range(300 if quick else 10_000):
        yield answer(line, target, "POST", "/v1/sessions", {"state": number % len(STATES)})
    line.close()


def answered(target: Target, quick: bool) -> Iterator[str]:
    """Sessions from their beginning to their end."""
    line = line_to(target)
    for _ in range(10 if quick else 100):
        status, text = heard(line, target, "POST", "/v1/sessions", {"state": 0})
        yield str(status)
        path = f"/v1/sessions/{json.loads(text)['session']}/steps"
        for step in range(4):
            yield answer(line, target, "POST", path, {"step": step, "reward": 1, "state": None if step == 3 else 1})
    line.close()


def too_many(target: Target, quick: bool) -> Iterator[str]:
    """More sessions than may be open."""
    for _ in range(150):
        yield say(target.port, request("POST", "/v1/sessions", b'{"state": 0}', token="")).status
        time.sleep(0.02)  # below the rate


def silent(target: Target, quick: bool) -> Iterator[str]:
    """Many times more connections than there may be, on which nothing or a part of a request is said."""
    with contextlib.ExitStack() as stack:
        for number in range(MOST_CONNECTIONS * (4 if quick else 10)):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", target.port), timeout=60))
            with contextlib.suppress(ConnectionError):
                line.sendall(SLOW[number % len(SLOW)])
            if number % 20 == 19:
                yield say(target.port, request("GET", "/v1/health", token="")).status
                time.sleep(0.2)  # below the rate


def too_fast(target: Target, quick: bool) -> Iterator[str]:
    """Requests in one go: the first answers are taken when all were sent."""
    yield from _in_one_go(target, b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", quick)


def as_others(target: Target, quick: bool) -> Iterator[str]:
    """The same in the name of as many others."""
    sent = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 10.0.%d.%d\r\n\r\n"
    yield from _in_one_go(target, sent, quick)


def _in_one_go(target: Target, sent: bytes, quick: bool) -> Iterator[str]:
    lines = [socket.create_connection(("127.0.0.1", target.port), timeout=60) for _ in range(20)]
    count = 60 if quick else 200
    for number, line in enumerate(lines):
        named = [sent % (number, other) if b"%d" in sent else sent for other in range(count)]
        line.sendall(b"".join(named))
    for line in lines:
        line.shutdown(socket.SHUT_WR)
        result = b""
        while piece := line.recv(65536):
            result += piece
        line.close()
        for chunk in result.split(b"HTTP/1.1 ")[1:]:
            yield chunk[:3].decode()


HALF_HEAD = b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nX: "
HALF_BODY = request("POST", "/v1/sessions", b"x" * 200).replace(b"Connection: close", b"X: x")[:-199]
MANY_PAGES = b"GET /v1/docs HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400
SLOW = (b"", HALF_HEAD, HALF_BODY)


def slow(target: Target, quick: bool) -> Iterator[str]:
    """Clients that say nothing, or a byte now and then, or take nothing; others are answered beside them."""
    count = 5 if quick else 200
    lines = [socket.create_connection(("127.0.0.1", target.port)) for _ in range(count * len(SLOW))]
    kinds = [sent for sent in SLOW for _ in range(count)]
    takers = [_deaf(target) for _ in range(3 if quick else 20)]
    for line, sent in zip(lines, kinds, strict=True):
        line.sendall(sent)
    other, waiting, began = line_to(target), list(zip(lines, kinds, strict=True)), time.monotonic()
    ends: list[str] = []
    while (waiting or takers) and time.monotonic() - began < LONGEST:
        yield answer(other, target, "POST", "/v1/sessions", {"state": random.randrange(3)})
        time.sleep(0.2)
        still_waiting = []
        for line, sent in waiting:
            end = _ended(line, b"x" if sent else b"")
            still_waiting += [] if end else [(line, sent)]
            ends += [end] if end else []
        waiting = still_waiting
        ends += ["closed" for line in takers if _reset(line)]
        takers = [line for line in takers if line.fileno() >= 0]
    other.close()
    yield from ends
    yield from ["still open"] * (len(waiting) + len(takers))


def _deaf(target: Target) -> socket.socket:
    """A client that asks for many pages and takes none."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect(("127.0.0.1", target.port))
    line.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        line.send(MANY_PAGES)
    return line


def _reset(line: socket.socket) -> bool:
    """Whether a client that takes nothing was given up; its socket is closed then."""
    try:
        line.send(b"x")
    except BlockingIOError:
        return False
    except ConnectionError:
        line.close()
        return True
    return False


def _ended(line: socket.socket, more: bytes) -> str:
    """How a connection has ended, which is sent another byte; "" if it has not."""
    line.settimeout(0.0)
    try:
        if more:
            line.send(more)
        result = line.recv(64, socket.MSG_PEEK)
    except BlockingIOError:
        return ""
    except ConnectionError:
        result = b""
    line.settimeout(5.0)
    with line:
        return hear(line).status if result else "closed"
