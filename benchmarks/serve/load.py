"""Visitors of the shop, some at a time, each on a connection that stays: a bounded load, on loopback only."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

STATES = ("home", "outdoor", "reading", "kitchen")
STEPS = 10
MAX_USERS = 256

Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a body to a path, and returns the answer."""


class Connection:
    """One connection, and how long each answer took."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.seconds = reader, writer, list[float]()

    async def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        began = time.perf_counter()
        self.writer.write(f"{head}{len(content)}\r\n\r\n".encode() + content)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        result = await self.reader.readexactly(length)
        self.seconds.append(time.perf_counter() - began)
        if b" 200 " not in answer[:16]:
            raise RuntimeError(f"{path}: {answer.decode()} {result.decode()}")
        answered: dict[str, Any] = json.loads(result)
        return answered


def bodies(rng: random.Random) -> list[dict[str, Any]]:
    """What a visitor says, from the first page to the last reward."""
    steps = [{"step": step, "reward": rng.randrange(2), "state": rng.choice(STATES)} for step in range(STEPS)]
    return [{"state": "home"}, *steps[:-1], {**steps[-1], "state": None}]


async def with_service(ask: Ask, session_bodies: list[dict[str, Any]]) -> None:
    """A session of the service."""
    session = (await ask("/v1/sessions", session_bodies[0]))["session"]
    for body in session_bodies[1:]:
        await ask(f"/v1/sessions/{session}/steps", body)


async def with_bare(ask: Ask, session_bodies: list[dict[str, Any]]) -> None:
    """The same bodies, each written as a row."""
    for body in session_bodies:
        await ask("/row", body)


async def run_users(
    port: int, play: Callable[[Ask, list[dict[str, Any]]], Awaitable[None]], users: int, sessions: int, seed: int
) -> tuple[float, list[float]]:
    """(seconds of all, seconds of each request) of sessions that some visitors at a time play."""
    if users > MAX_USERS:
        raise ValueError(f"at most {MAX_USERS} visitors at a time")
    rng = random.Random(seed)
    waiting = [bodies(rng) for _ in range(sessions)]
    connections = [Connection(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(users)]

    async def play_on(connection: Connection) -> None:
        while waiting:
            await play(connection.ask, waiting.pop())

    began = time.perf_counter()
    await asyncio.gather(*map(play_on, connections))
    elapsed = time.perf_counter() - began
    for connection in connections:
        connection.writer.close()
    return elapsed, [seconds for connection in connections for seconds in connection.seconds]
