"""A service to be attacked, and a client that says whatever it is told to, byte for byte."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rewardmix import plan, problems, save

TOKEN = "a token that nobody has to guess"
FORGED = "forged-by-a-name"
"""What every injected text says, so that it can be looked for."""

INJECTED = (
    f"</script><script>alert('{FORGED}')</script>",
    f"<img src=x onerror=alert('{FORGED}')>",
    f"\" onmouseover=\"alert('{FORGED}')",
    f'x\n{{"event": "{FORGED}", "level": "info"}}',
    f'x\r\nSet-Cookie: {FORGED}=1\r\n\r\n{{"event": "{FORGED}"}}',
    f'x"}} 1\nrewardmix_{FORGED.replace("-", "_")}_total{{a="b"}} 1\n# {FORGED}',
    f"'; DROP TABLE sessions; -- {FORGED}",
    f"' OR '1'='1 {FORGED}",
    f"\x1b[2J\x1b[31m{FORGED}\x07",
    f"{FORGED}\u202e\u2066txt.exe",
    f"{FORGED}\u2028\u0085next line",
    f"{FORGED}\x00\x7f",
    f"%s%n%x {FORGED} {{7*7}} ${{jndi:ldap://{FORGED}}}",
    f"../../../etc/passwd {FORGED}",
    f"{FORGED} 𝕏é\u0301" + "x" * 150,
)
"""For pages, logs, headers, metrics, SQL, terminals, formats, templates and paths."""

STATES = tuple(f"state {text}" for text in INJECTED)
ACTIONS = tuple(f"action {text}" for text in INJECTED[:4])


@dataclass(frozen=True)
class Target:
    """A service that runs.

    Attributes:
        port: on loopback.
        process: its id.
        log: file that it writes its log to.
        store: file with its sessions.
        token: that it asks for, or "".
    """

    port: int
    process: int
    log: Path
    store: Path
    token: str = TOKEN


@contextlib.contextmanager
def attacked(*options: str, token: str = TOKEN) -> Iterator[Target]:
    """``rewardmix serve`` with a policy whose states, actions and types have injected names."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        env = problems.make_model("random", states=len(STATES), actions=len(ACTIONS), horizon=4, seed=0)
        types = tuple(f"type {text}" for text in INJECTED[:2])
        named = replace(env, state_names=STATES, action_names=ACTIONS, type_names=types)
        save(path / "plan.safetensors", plan(named, gap=0.1))
        command = [sys.executable, "-m", "rewardmix", "serve", str(path / "plan.safetensors"), "--port", "0"]
        command += ["--store", str(path / "sessions.sqlite"), *options]
        if token:
            (path / "token").write_text(token, "ascii")
            command += ["--token-file", str(path / "token")]
        with open(path / "log", "wb") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("serving at"):
                raise RuntimeError((path / "log").read_text("utf-8", "replace"))
            port = int(line.split()[2].rstrip(",").rpartition(":")[2])
            yield Target(port, process.pid, path / "log", path / "sessions.sqlite", token)
        finally:
            process.terminate()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@dataclass(frozen=True)
class Heard:
    """What came back.

    Attributes:
        status: of HTTP, or "closed" where the connection ended without an answer.
        head: of the answer.
        body: of the answer.
    """

    status: str
    head: bytes
    body: bytes


def say(port: int, sent: bytes, *, seconds: float = 30.0) -> Heard:
    """Send bytes, and read until the other side closes or has answered."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as line:
        with contextlib.suppress(ConnectionError):  # it may have answered and closed before it has heard all
            line.sendall(sent)
        return hear(line)


def hear(line: socket.socket) -> Heard:
    """The answer on a connection."""
    result = b""
    with contextlib.suppress(ConnectionError):
        while not _whole(result):
            piece = line.recv(65536)
            if not piece:
                break
            result += piece
    status = re.match(rb"HTTP/1\.1 (\d{3}) ", result)
    head, _, body = result.partition(b"\r\n\r\n")
    return Heard(status[1].decode() if status else "closed", head, body)


def _whole(result: bytes) -> bool:
    head, gap, body = result.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", head.lower())
    return bool(gap) and length is not None and len(body) >= int(length[1])


def request(
    method: str,
    path: bytes | str,
    body: bytes | None = None,
    headers: tuple[bytes, ...] = (),
    *,
    token: str = TOKEN,
    host: str = "localhost",
    kind: str = "application/json",
) -> bytes:
    """A request as bytes, with nothing made safe."""
    path_bytes = path if isinstance(path, bytes) else path.encode()
    lines = [method.encode() + b" " + path_bytes + b" HTTP/1.1", b"Host: " + host.encode(), *headers]
    lines += [b"Authorization: Bearer " + token.encode()] if token else []
    if body is not None:
        lines += [b"Content-Type: " + kind.encode(), b"Content-Length: " + str(len(body)).encode()]
    return b"\r\n".join([*lines, b"Connection: close", b"", body or b""])
