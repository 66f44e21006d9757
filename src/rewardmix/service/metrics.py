"""Count events and export them in the Prometheus text format. Counts start at 0 with the process."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Mapping

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds in seconds of the buckets of the request duration histogram."""

METRIC_DESCRIPTIONS = {
    "sessions": ("arm", "Sessions started."),
    "sessions_ended": ("arm", "Sessions ended by the client."),
    "sessions_deleted": ("", "Sessions deleted."),
    "decisions": ("arm", "Actions decided."),
    "rewards": ("arm", "Rewards received."),
    "reward_sum": ("arm", "Sum of the rewards received; it decreases if rewards are negative."),
    "retries": ("", "Repeated requests that got the stored answer."),
    "unknown_states": ("", "Decisions in states that the policy does not know."),
    "versions_activated": ("", "Versions of the policy activated by hand."),
    "errors": ("status", "Requests answered by an error."),
}
"""Metric name -> (label, description)."""


class Metrics:
    """Counts by name and label, and a histogram of request durations."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], float] = {}
        self._durations = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def add(self, events: Mapping[tuple[str, str], float]) -> None:
        """Add increments of metrics."""
        with self._lock:
            for key, amount in events.items():
                self._counts[key] = self._counts.get(key, 0) + amount

    def time(self, seconds: float) -> None:
        """Add a request duration in seconds."""
        with self._lock:
            self._durations[bisect_left(BUCKETS, seconds)] += 1
            self._seconds += seconds

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Format all metrics; ``gauges`` maps a name to (description, current value)."""
        with self._lock:
            # Copies are formatted outside of the lock, so that requests do not wait.
            counts, durations, total = dict(self._counts), list(self._durations), self._seconds
        lines = []
        for name, (label, description) in METRIC_DESCRIPTIONS.items():
            labeled_counts = {value: amount for (metric, value), amount in sorted(counts.items()) if metric == name}
            values = {f'{{{label}="{value}"}}' if label else "": amount for value, amount in labeled_counts.items()}
            # Counters must not decrease, but a sum of rewards does when rewards are negative.
            kind = "gauge" if name == "reward_sum" else "counter"
            lines += _format_metric(name if kind == "gauge" else f"{name}_total", kind, description, values or {"": 0})
        # Prometheus histograms are cumulative: each bucket counts all shorter requests too.
        cumulative = 0
        values = {}
        for end, count in zip((*map(str, BUCKETS), "+Inf"), durations, strict=True):
            cumulative += count
            values[f'_bucket{{le="{end}"}}'] = cumulative
        values |= {"_sum": total, "_count": cumulative}
        lines += _format_metric("request_seconds", "histogram", "Request duration in seconds.", values)
        for name, (description, value) in gauges.items():
            lines += _format_metric(name, "gauge", description, {"": value})
        return "\n".join(lines) + "\n"


def _format_metric(name: str, kind: str, description: str, values: Mapping[str, float]) -> list[str]:
    """Format one metric; a labeled counter without counts is reported as 0 without label."""
    full_name = f"rewardmix_{name}"
    rows = [f"{full_name}{label} {int(value) if value == int(value) else value!r}" for label, value in values.items()]
    return [f"# HELP {full_name} {description}", f"# TYPE {full_name} {kind}", *rows]
