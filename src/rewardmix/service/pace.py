"""How fast clients may ask: so many requests a second each, and a second's worth at once."""

from __future__ import annotations

from collections import OrderedDict

MOST_CLIENTS = 10_000
"""Clients that are remembered; those that were silent longest are forgotten first."""


class Pace:
    """Counts requests of clients. Each has a store of them that fills up with time (a token bucket)."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, client: str, now: float) -> bool:
        """Whether a client may ask now; ``now`` in seconds of any clock that does not go back."""
        left, before = self._left.pop(client, (self._rate, now))
        left = min(self._rate, left + (now - before) * self._rate)
        allowed = left >= 1.0
        self._left[client] = (left - allowed, now)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return allowed
