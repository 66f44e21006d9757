"""Limit the request rate of each client by a token bucket."""

from __future__ import annotations

from collections import OrderedDict

MAX_CLIENTS = 10_000
"""Number of remembered clients; the least recently active ones are forgotten."""


class RateLimiter:
    """Token buckets of clients: each refills at the rate and holds at most one second's worth of requests."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, client: str, now: float) -> bool:
        """Return whether a client may send a request now, in seconds of any monotonic clock."""
        tokens, last_time = self._buckets.pop(client, (self._rate, now))
        tokens = min(self._rate, tokens + (now - last_time) * self._rate)
        is_allowed = tokens >= 1.0
        self._buckets[client] = (tokens - is_allowed, now)
        # A forgotten client starts with a full bucket, so the memory limit does not block anyone.
        if len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return is_allowed
