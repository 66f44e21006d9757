"""Many connections: who says nothing keeps nobody out, and who asks is known by the address that it has."""

import contextlib
import http.client
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from helpers.service_process import Client, hold_up, in_thread, need_server
from rewardmix._core.errors import InputError
from rewardmix.service import ServerAddress
from rewardmix.service.api import MAX_CLIENT_LENGTH
from rewardmix.service.rate_limit import RateLimiter
from rewardmix.service.server import RESERVED_FILES, limit_connections, raise_file_limit

need_server()

MOST = 20
SESSION = (
    b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{"
)
PARTS = {"nothing": b"", "half a head": SESSION[:40], "half a body": SESSION}


@contextlib.contextmanager
def opened(port, number, sent=b""):
    """So many connections on which nothing more is said."""
    with contextlib.ExitStack() as stack:
        lines = []
        for _ in range(number):
            lines.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)))
            with contextlib.suppress(ConnectionError):
                lines[-1].sendall(sent)
        yield lines


def is_open(line):
    """Whether the other side has not closed a connection."""
    line.setblocking(False)
    try:
        while line.recv(1000):
            pass
        return False
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def healthy(port):
    """What somebody who comes now is told."""
    client = Client(port)
    try:
        return client.ask("GET", "/v1/health")
    finally:
        client.close()


@pytest.mark.parametrize("text", PARTS)
def test_connections_that_say_nothing_keep_nobody_out(make_service, text):
    with (
        in_thread(make_service(), most_connections=MOST) as client,
        opened(client.connection.port, 8 * MOST, PARTS[text]) as lines,
    ):
        for _ in range(5):
            assert healthy(client.connection.port) == (200, {"status": "ok"})
        assert sum(map(is_open, lines)) <= MOST
        assert client.ask("POST", "/v1/sessions", {"state": "home"})[0] == 200


def test_who_opens_many_connections_closes_their_own(make_service):
    """A client at another address, who has one and asks now and then, keeps it."""
    with in_thread(make_service(), most_connections=MOST) as client:
        other = http.client.HTTPConnection("127.0.0.1", client.connection.port, 60, ("127.0.0.2", 0))
        try:
            other.connect()
        except OSError:
            pytest.skip("this machine has one loopback address only")
        socket = other.sock
        with opened(client.connection.port, 5 * MOST):
            for _ in range(3):
                other.request("GET", "/v1/health", headers={"Host": "localhost"})
                assert other.getresponse().read() == b'{"status": "ok"}'
            assert other.sock is socket
        other.close()


def test_the_first_to_wait_is_the_first_to_go(make_service):
    with in_thread(make_service(), most_connections=MOST) as client:
        port = client.connection.port
        with opened(port, MOST) as old, opened(port, MOST // 2):
            assert healthy(port)[0] == 200
            closed = [not is_open(line) for line in old]
            assert closed == sorted(closed, reverse=True)
            assert MOST // 2 <= sum(closed) <= MOST // 2 + 1


def test_a_request_that_is_worked_on_is_not_closed(make_service):
    service = make_service()
    with in_thread(service, most_connections=MOST) as client:
        port, response = client.connection.port, []
        hold = hold_up(service.store)
        asking = threading.Thread(
            target=lambda: response.append(client.ask("POST", "/v1/sessions", {"state": "home"})[0])
        )
        asking.start()
        while not service.store._jobs.qsize():
            time.sleep(0.01)
        with opened(port, 5 * MOST):
            assert healthy(port)[0] == 200
            hold.set()
            asking.join()
    assert response == [200]


def test_there_are_no_more_connections_than_files():
    assert limit_connections(1000, 3 * 1000 + RESERVED_FILES) == 1000
    assert limit_connections(1000, 1024) == (1024 - RESERVED_FILES) // 3
    assert limit_connections(1000, 10) == 1


def test_files_are_asked_for_as_far_as_the_system_allows(monkeypatch):
    resource = pytest.importorskip("resource")
    limits_set = []
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: limits_set.append(limits))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 1024))
    assert [raise_file_limit(expected) for expected in (200, 700, 5000)] == [200, 700, 1024]
    assert limits_set == [(700, 1024), (1024, 1024)]

    def refuse(which, limits):
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_file_limit(5000) == 256


def forwarded(client, number, value="10.0.0.{}"):
    """Statuses of requests, each of which says that somebody else has asked."""
    headers = [{"X-Forwarded-For": value.format(item)} for item in range(number)]
    return [client.ask("GET", "/v1/health", **header)[0] for header in headers]


@pytest.mark.parametrize(
    ("proxy", "believed"), [(None, False), ("10.1.2.3", False), ("127.0.0.1", True), ("127.0.0.0/8", True)]
)
def test_who_asks_is_believed_of_a_proxy_that_was_named_only(make_service, proxy, believed, monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    monkeypatch.setattr("rewardmix.service.api.time", SimpleNamespace(monotonic=lambda: 100.0))  # all in one moment
    with in_thread(make_service(), rate=1.001, proxy=proxy) as client:
        statuses = forwarded(client, 60)
    assert statuses == [200] + [200 if believed else 429] * 59


def test_what_a_proxy_passes_on_is_kept_as_far_as_an_address_is_long(make_service, monkeypatch):
    names, allows = [], RateLimiter.allow
    monkeypatch.setattr(
        RateLimiter,
        "allow",
        lambda rate_limit, client, now: (names.append(client), allows(rate_limit, client, now))[1],
    )
    with in_thread(make_service(), rate=1e6, proxy="127.0.0.1") as client:
        assert forwarded(client, 1, "x" * 10_000) == [200]
    assert [len(name) for name in names] == [MAX_CLIENT_LENGTH]


def test_a_proxy_is_an_address_or_a_network():
    for text in ("", "proxy", "10.0.0.0/33", "10.0.0.1, 10.0.0.2", "*"):
        with pytest.raises(InputError, match="proxy: got"):
            ServerAddress(proxy=text)
    with pytest.raises(InputError, match="most_connections"):
        ServerAddress(most_connections=0)
