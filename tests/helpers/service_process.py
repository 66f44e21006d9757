"""Services that run, in a thread or as a process, and a client that speaks to them."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def need_server():
    """Skip where Starlette is not installed, but not in CI."""
    if not os.environ.get("CI"):
        pytest.importorskip("starlette", reason="needs rewardmix[serve]")
        pytest.importorskip("uvicorn", reason="needs rewardmix[serve]")


class Client:
    """One connection, kept as long as it lasts."""

    def __init__(self, port, token=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def ask(self, method, path, body=None, **headers):
        """(status, JSON data or text)."""
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kind = {} if sent is None else {"Content-Type": "application/json"}
        try:
            self.connection.request(method, path, sent, {**self.headers, **kind, **headers})
            response = self.connection.getresponse()
            text = response.read().decode()
        except Exception:
            self.connection.close()
            raise
        if response.getheader("Content-Type") == "application/json" and method != "HEAD":
            return response.status, json.loads(text)
        return response.status, text

    def close(self):
        self.connection.close()


@contextlib.contextmanager
def in_thread(service, token=None, rate=None, traffic=None, **address):
    """A service in a thread; its client."""
    import uvicorn

    from rewardmix.service import ServerAddress
    from rewardmix.service.api import make_application
    from rewardmix.service.server import make_server_config, open_socket

    config = make_server_config(make_application(service, token, rate, traffic), ServerAddress(**address))
    config.timeout_keep_alive = (
        600  # on a busy machine a test may say nothing for longer than the five seconds of before
    )
    server = uvicorn.Server(config)
    with open_socket("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        client = Client(listening.getsockname()[1], token)
        try:
            yield client
        finally:
            client.close()
            server.should_exit = True
            thread.join()


def free_port():
    """A port that was free just now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def with_source(variables):
    """The environment of a process that runs this source."""
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": paths, **variables}


def hold_up(store):
    """Keep a store at one job until the event that is returned is set: what is asked meanwhile comes together next."""
    begun, go_on = threading.Event(), threading.Event()
    store.submit(lambda records: (begun.set(), go_on.wait(300)))
    assert begun.wait(300)
    return go_on


def _take_signals():
    """Take signals as usual: where the tests run under nohup, a service would ignore SIGHUP as they do."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


hear_signals = _take_signals if os.name == "posix" else None
"""What a process does before it becomes a service."""


@contextlib.contextmanager
def as_process(source, store, port, *options, log=None):
    """``rewardmix serve`` once it answers; killed at the end."""
    command = [sys.executable, "-m", "rewardmix", "serve", str(source), "--store", str(store), "--port", str(port)]
    log = log or Path(store).with_suffix(".log")
    with open(log, "ab") as file:
        process = subprocess.Popen(
            [*command, *options], stdout=file, stderr=file, env=with_source({}), preexec_fn=hear_signals
        )
    try:
        while not answers(port):
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def answers(port):
    """Whether a service is ready."""
    client = Client(port)
    try:
        return client.ask("GET", "/v1/ready")[0] == 200
    except OSError:
        return False
    finally:
        client.close()
