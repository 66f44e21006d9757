"""Simulate users of the demo shop, who call the service over HTTP like a website.

The simulation does not know the policy and the service does not know the types. After an error or a lost connection the
session is abandoned and another one starts.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewardmix._core.random_streams import Role, make_generator
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan, plan
from rewardmix.problems import make_model

INITIAL_REWARD = 0.3
"""Reward probability of every state-action pair in the initial model of the demo."""
INITIAL_REWARD_NOISE = 0.05
"""Amplitude of uniform noise on it. Without noise all types would be equal, and a fit that starts there stays there."""

NUM_CONCURRENT = 12
"""Number of concurrent sessions."""

STEP_PAUSE_SECONDS = 0.12
"""Mean time in seconds between the steps of a session."""


def make_initial_plan(seed: int = 0) -> Plan:
    """Plan for the shop in an initial model without information about the types."""
    shop, rng = make_model("shop"), make_generator(seed, Role.DEMO_SHOP)
    rewards = INITIAL_REWARD + INITIAL_REWARD_NOISE * rng.uniform(-1.0, 1.0, shop.rewards.shape)
    return plan(replace(shop, rewards=rewards, weights=np.array([0.5, 0.5])))


@dataclass(frozen=True)
class TrafficSettings:
    """Settings of the simulated traffic.

    Attributes:
        num_concurrent: Number of concurrent sessions.
        step_pause_seconds: Mean time between the steps of a session.
        max_sessions: Number of sessions after which the traffic ends; None: no end.
        seed: Seed of types, transitions and clicks.
        key_prefix: Prefix of the idempotency keys of sessions; None sends no keys.
    """

    num_concurrent: int = NUM_CONCURRENT
    step_pause_seconds: float = STEP_PAUSE_SECONDS
    max_sessions: int | None = None
    seed: int = 0
    key_prefix: str | None = None


class DemoTraffic:
    """Simulated users of the shop, in a thread of their own."""

    def __init__(self, host: str, port: int, token: str | None, settings: TrafficSettings | None = None) -> None:
        self.host, self.port, self._token = host, port, token
        self._settings = settings or TrafficSettings()
        self.shop: RewardMixingMDP = make_model("shop")
        self.active_sessions: dict[int, dict[str, Any]] = {}
        self.recent_sessions: deque[dict[str, Any]] = deque(maxlen=8)
        self._next, self._stopped = 0, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run_all()), name="demo", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last session has ended."""
        self._thread.join()

    def close(self) -> None:
        """Stop all sessions and wait for the thread."""
        self._stopped.set()
        self._thread.join()

    def get_state(self) -> dict[str, Any]:
        """Return the current and recent sessions with their types, which only the simulation knows."""
        return {
            "pages": list(self.shop.state_names),
            "active": list(self.active_sessions.values()),
            "recent": list(self.recent_sessions),
        }

    async def _run_all(self) -> None:
        """Run all clients concurrently."""
        await asyncio.gather(*(self._run_client() for _ in range(self._settings.num_concurrent)))

    async def _run_client(self) -> None:
        """Run sessions one after another until the limit; a failed one is followed by a pause."""
        while not self._stopped.is_set() and self._next != self._settings.max_sessions:
            number, self._next = self._next, self._next + 1
            try:
                reader, writer = await asyncio.open_connection(self.host, self.port)
                try:
                    await self._run_session(number, _HttpConnection(reader, writer, self._token))
                finally:
                    writer.close()
            except (OSError, EOFError, ValueError, KeyError):
                # The pause prevents a busy loop while the service is down.
                await asyncio.sleep(1.0)
            finally:
                self.active_sessions.pop(number, None)

    async def _run_session(self, number: int, connection: _HttpConnection) -> None:
        """Run one session: draw its type, then alternate clicks and requests."""
        # A random stream for each session: results do not depend on the order in which sessions run.
        shop, rng = self.shop, make_generator(self._settings.seed, Role.DEMO_USERS, number)
        m = int(rng.choice(shop.num_types, p=shop.weights))
        page = int(rng.choice(shop.num_states, p=shop.initial))
        clicks = 0
        status: dict[str, Any] = {
            "user": number + 1,
            "type": TYPE_NAMES[m],
            "page": shop.state_names[page],
            "clicks": 0,
            "steps": 0,
        }
        key = None if self._settings.key_prefix is None else f"{self._settings.key_prefix} {number}"
        decision = await connection.post("/v1/sessions", {"state": shop.state_names[page], "idempotency_key": key})
        for step in range(shop.horizon):
            if self._stopped.is_set():
                return
            action = shop.action_names.index(decision["action"])
            clicked = int(rng.random() < shop.rewards[m, page, action])
            clicks += clicked
            status = {**status, "shown": decision["action"], "clicked": bool(clicked),
                      "clicks": clicks, "version": decision["version"]}  # fmt: skip
            self.active_sessions[number] = status
            if self._settings.step_pause_seconds:
                await asyncio.sleep(self._settings.step_pause_seconds * float(rng.uniform(0.5, 1.5)))
            page = int(rng.choice(shop.num_states, p=shop.transition[page, action]))
            status = {**status, "page": shop.state_names[page]}
            is_last = step + 1 == shop.horizon
            body = {"step": step, "reward": clicked, "state": None if is_last else shop.state_names[page]}
            decision = await connection.post(f"/v1/sessions/{decision['session']}/steps", body)
        self.recent_sessions.appendleft(status)


TYPE_NAMES = ("outdoor person", "reader")
"""Display names of the types of the shop."""


class _HttpConnection:
    """Persistent HTTP connection to the service."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str | None) -> None:
        self._reader, self._writer = reader, writer
        self._auth_header = "" if token is None else f"Authorization: Bearer {token}\r\n"

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a POST request and return the JSON answer."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{self._auth_header}Content-Type: application/json\r\n"
        # The request is written by hand: an HTTP client library would be a dependency of the demo alone.
        self._writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        headers = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        body_bytes = await self._reader.readexactly(int(headers.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]))
        answer: dict[str, Any] = json.loads(body_bytes)
        if b" 200 " not in headers[:16]:
            raise ValueError(answer.get("message", "unknown error"))
        return answer
