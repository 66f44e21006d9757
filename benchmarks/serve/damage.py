"""Attacks by requests that are damaged, too large, or not what is asked for."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

from benchmarks.serve.hostile import Target, hear, request, say

LIMIT = 16 * 1024
"""Bytes of a body that the service says it takes."""

ODD = (
    None, True, -1, 0, 1.5, 1e300, 10**30, -(10**30), "", "x" * 201, "\x00", "\ud800", [], {}, [[]], {"a": 1}, "é", "1",
)  # fmt: skip

MALFORMED = (
    b"", b" ", b"{", b"}", b"[1]", b"null", b"1", b'"x"', b"\xff\xfe", b"\xef\xbb\xbf{}", b"{'state': 0}",
    b'{"state": }',
    b'{"state": NaN}', b'{"state": Infinity}', b'{"state": -Infinity}', b'{"state": 1e400}', b"[" * 8000,
    b'{"a":' * 2700 + b"1", b'{"state": "\\ud800"}', b'{"state": 0} {"state": 0}', b'{"state": 0', b"\x00" * 100,
    b'{"state": 0x10}', b'{"state": 01}', b'{"state": ' + b"9" * 5000 + b"}",
    b'{"state": "home", "more": 1}', b'{"pin": 7}', b'{"state": 0, "state": 1}',
    b'{"step": 0, "reward": 1, "state": 0, "step": 1}',
    b'{"pin": true, "pin": false}',
)  # fmt: skip

GARBLED = (
    b"\x00" * 64 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /v1/policy HTTP/9.9\r\n\r\n",
    b"GET /v1/policy HTTP/1.1\r\nHost : localhost\r\n\r\n",
    b"GET /v1/policy HTTP/1.1\r\nno colon\r\n\r\n",
    b"GET /v1/policy HTTP/1.1\r\nHost: localhost\r\n folded\r\nConnection: close\r\n\r\n",
    b"GET /\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"G\x00ET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"GET http://elsewhere.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1e3\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n"
    b"Authorization: Bearer a token that nobody has to guess\r\n\r\nzz\r\n",
)  # fmt: skip


def start_session(target: Target) -> str:
    """A session that there is."""
    session = json.loads(say(target.port, request("POST", "/v1/sessions", b'{"state": 0}')).body)
    return str(session["session"])


def list_paths(target: Target) -> list[str]:
    """Addresses that take a body."""
    return ["/v1/sessions", f"/v1/sessions/{start_session(target)}/steps", "/v1/versions/1"]


def too_large(target: Target, quick: bool) -> Iterator[str]:
    """Beyond what is taken, with and without a length said beforehand."""
    for path in list_paths(target):
        for size in (LIMIT + 1, 4 * LIMIT, 1 << 20, 1 << 23):
            yield say(target.port, request("POST", path, b'{"state": "' + b"x" * size + b'"}')).status
            yield _in_pieces(target, path, size)
    for size in (1 << 17, 1 << 20, 1 << 22):
        yield say(target.port, request("GET", "/v1/sessions/" + "x" * size)).status
        yield say(target.port, request("GET", "/v1/policy", headers=(b"X: " + b"x" * size,))).status
        yield say(target.port, request("GET", "/v1/policy", headers=(b"X: x",) * (size // 4))).status
        yield say(target.port, request("x" * size, "/v1/policy")).status


def _in_pieces(target: Target, path: str, size: int) -> str:
    head = request("POST", path, b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with socket.create_connection(("127.0.0.1", target.port), timeout=30) as line:
        try:
            line.sendall(head)
            for _ in range(size // 1024 + 1):
                line.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
        except ConnectionError:
            pass  # it has said enough
        return hear(line).status


def malformed(target: Target, quick: bool) -> Iterator[str]:
    """Bodies that nobody can take for what was asked."""
    for path in list_paths(target):
        for body in MALFORMED:
            yield say(target.port, request("POST", path, body)).status


def odd(target: Target, quick: bool) -> Iterator[str]:
    """JSON of the wrong kind, field by field."""
    id = start_session(target)
    good = {
        "/v1/sessions": {"state": 0, "idempotency_key": "x", "user": "y"},
        f"/v1/sessions/{id}/steps": {"step": 0, "reward": 1, "state": 0},
        "/v1/sessions/nobody/steps": {"step": 0, "reward": 1, "state": 0},
        "/v1/versions/1": {"pin": False},
    }
    for path, body in good.items():
        for field in body:
            for value in ODD:
                yield say(target.port, request("POST", path, json.dumps({**body, field: value}).encode())).status


def garbled(target: Target, quick: bool) -> Iterator[str]:
    """Bytes that are no request, and such that two readers might take for different ones."""
    for sent in GARBLED:
        yield say(target.port, sent).status
    smuggled = b"GET /v1/policy HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = b"0\r\n\r\n" + smuggled
    both = request("POST", "/v1/sessions", body, (b"Transfer-Encoding: chunked",))
    yield say(target.port, both).status
    with socket.create_connection(("127.0.0.1", target.port), timeout=30) as line:
        line.sendall(both.replace(b"Connection: close", b"X: x"))
        response = b""
        while piece := line.recv(65536):  # it has to close the connection, too
            response += piece
    yield "two answers" if response.count(b"HTTP/1.1 ") > 1 else response[9:12].decode()
