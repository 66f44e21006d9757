"""Visitors of the demo shop: made up, of hidden tastes, asking the service over HTTP as a site would.

Nothing here knows the policy, and the service does not know the tastes. A visitor who is refused or loses the
connection is gone, and another one comes.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewardmix._core.streams import Role, generator
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan, plan
from rewardmix.problems import make

NOTHING_KNOWN = 0.3
"""What everything is said to pay by the model that the demo begins with ..."""
DOUBT = 0.05
"""... give or take so much by chance, since two types that are the same in everything are one."""

WALKERS = 12
"""Visitors at a time."""

PAUSE = 0.12
"""Seconds that a visitor looks at what is shown."""


def first_plan(seed: int = 0) -> Plan:
    """A policy for the shop that knows nothing of what visitors like."""
    shop, rng = make("shop"), generator(seed, Role.DEMO_SHOP)
    rewards = NOTHING_KNOWN + DOUBT * rng.uniform(-1.0, 1.0, shop.rewards.shape)
    return plan(replace(shop, rewards=rewards, weights=np.array([0.5, 0.5])))


@dataclass(frozen=True)
class CrowdSettings:
    """How visitors come.

    Attributes:
        walkers: at a time.
        pause: seconds between the steps of one.
        most: visitors after which nobody comes any more; None: no end.
        seed: of tastes, ways and clicks.
        keys: what the keys begin with that visitors begin their sessions with; None: they have none.
    """

    walkers: int = WALKERS
    pause: float = PAUSE
    most: int | None = None
    seed: int = 0
    keys: str | None = None


class Crowd:
    """Visitors who walk through a shop, in a thread of their own."""

    def __init__(self, host: str, port: int, token: str | None, settings: CrowdSettings | None = None) -> None:
        self.host, self.port, self._token = host, port, token
        self._settings = settings or CrowdSettings()
        self.shop: RewardMixingMDP = make("shop")
        self.walking: dict[int, dict[str, Any]] = {}
        self.lately: deque[dict[str, Any]] = deque(maxlen=8)
        self._next, self._stopped = 0, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), name="visitors", daemon=True)

    def start(self) -> None:
        """Let them come."""
        self._thread.start()

    def wait(self) -> None:
        """Until the last one has gone."""
        self._thread.join()

    def close(self) -> None:
        """Send them away."""
        self._stopped.set()
        self._thread.join()

    def told(self) -> dict[str, Any]:
        """Who is where, what was shown, and what they clicked on; and their tastes, which only this side knows."""
        return {
            "pages": list(self.shop.state_names),
            "walking": list(self.walking.values()),
            "lately": list(self.lately),
        }

    async def _all(self) -> None:
        await asyncio.gather(*(self._walker() for _ in range(self._settings.walkers)))

    async def _walker(self) -> None:
        while not self._stopped.is_set() and self._next != self._settings.most:
            number, self._next = self._next, self._next + 1
            try:
                reader, writer = await asyncio.open_connection(self.host, self.port)
                try:
                    await self._visit(number, _Line(reader, writer, self._token))
                finally:
                    writer.close()
            except (OSError, EOFError, ValueError, KeyError):
                await asyncio.sleep(1.0)
            finally:
                self.walking.pop(number, None)

    async def _visit(self, number: int, line: _Line) -> None:
        shop, rng = self.shop, generator(self._settings.seed, Role.DEMO_VISITORS, number)
        taste = int(rng.choice(shop.num_contexts, p=shop.weights))
        page = int(rng.choice(shop.num_states, p=shop.initial))
        clicks = 0
        told: dict[str, Any] = {
            "visitor": number + 1,
            "taste": TASTES[taste],
            "page": shop.state_names[page],
            "clicks": 0,
            "steps": 0,
        }
        key = None if self._settings.keys is None else f"{self._settings.keys} {number}"
        decision = await line.ask("/v1/sessions", {"state": shop.state_names[page], "key": key})
        for step in range(shop.horizon):
            if self._stopped.is_set():
                return
            action = shop.action_names.index(decision["action"])
            click = int(rng.random() < shop.rewards[taste, page, action])
            clicks += click
            told = {**told, "shown": decision["action"], "clicked": bool(click),
                    "clicks": clicks, "version": decision["version"]}  # fmt: skip
            self.walking[number] = told
            if self._settings.pause:
                await asyncio.sleep(self._settings.pause * float(rng.uniform(0.5, 1.5)))
            page = int(rng.choice(shop.num_states, p=shop.transition[page, action]))
            told = {**told, "page": shop.state_names[page]}
            last = step + 1 == shop.horizon
            body = {"step": step, "reward": click, "state": None if last else shop.state_names[page]}
            decision = await line.ask(f"/v1/sessions/{decision['session']}/steps", body)
        self.lately.appendleft(told)


TASTES = ("outdoor person", "reader")
"""Who the types of the shop are."""


class _Line:
    """A connection to the service that stays."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str | None) -> None:
        self._reader, self._writer = reader, writer
        self._door = "" if token is None else f"Authorization: Bearer {token}\r\n"

    async def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What a path answers to a body."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{self._door}Content-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        told = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        found = await self._reader.readexactly(int(told.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]))
        answer: dict[str, Any] = json.loads(found)
        if b" 200 " not in told[:16]:
            raise ValueError(answer.get("message", "refused"))
        return answer
