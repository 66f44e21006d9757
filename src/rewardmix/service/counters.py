"""What a service counts, in the text format that Prometheus reads. Counts begin with the process."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Mapping

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper ends, in seconds, of the histogram of how long requests take."""

MEANINGS = {
    "sessions": ("arm", "Sessions that began."),
    "sessions_ended": ("arm", "Sessions that were ended by their owner."),
    "sessions_deleted": ("", "Sessions that were deleted."),
    "decisions": ("arm", "Actions that were decided."),
    "rewards": ("arm", "Rewards that were told."),
    "reward_sum": ("arm", "Sum of the rewards that were told; it may fall where rewards are negative."),
    "retries": ("", "Requests that had been answered before."),
    "unknown_states": ("", "Decisions in a state that the policy does not know."),
    "versions_chosen": ("", "Versions of the policy that were chosen by hand."),
    "refusals": ("status", "Requests that were refused."),
}
"""Counter -> its label, and what it counts."""


class Counters:
    """Counts by name and label, and a histogram of durations."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], float] = {}
        self._durations = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def add(self, events: Mapping[tuple[str, str], float]) -> None:
        """Count what happened."""
        with self._lock:
            for key, amount in events.items():
                self._counts[key] = self._counts.get(key, 0) + amount

    def time(self, seconds: float) -> None:
        """Count a request by how long it took."""
        with self._lock:
            self._durations[bisect_left(BUCKETS, seconds)] += 1
            self._seconds += seconds

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All counts; ``gauges``: name -> (what it is, its value now)."""
        with self._lock:
            counts, durations, total = dict(self._counts), list(self._durations), self._seconds
        lines = []
        for name, (label, meaning) in MEANINGS.items():
            found = {which: amount for (known, which), amount in sorted(counts.items()) if known == name}
            values = {f'{{{label}="{which}"}}' if label else "": amount for which, amount in found.items()}
            kind = "gauge" if name == "reward_sum" else "counter"
            lines += _lines(name if kind == "gauge" else f"{name}_total", kind, meaning, values or {"": 0})
        below = 0
        values = {}
        for end, count in zip((*map(str, BUCKETS), "+Inf"), durations, strict=True):
            below += count
            values[f'_bucket{{le="{end}"}}'] = below
        values |= {"_sum": total, "_count": below}
        lines += _lines("request_seconds", "histogram", "How long requests take.", values)
        for name, (meaning, value) in gauges.items():
            lines += _lines(name, "gauge", meaning, {"": value})
        return "\n".join(lines) + "\n"


def _lines(name: str, kind: str, meaning: str, values: Mapping[str, float]) -> list[str]:
    """One metric; a counter with labels that has counted nothing yet says 0 without them."""
    full = f"rewardmix_{name}"
    rows = [f"{full}{label} {int(value) if value == int(value) else value!r}" for label, value in values.items()]
    return [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}", *rows]
