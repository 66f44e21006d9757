"""What the study measures: one problem, logs of growing length."""

from __future__ import annotations

STATES, ACTIONS, HORIZON = 10, 4, 10
EPISODES = {"quick": [20_000, 100_000], "full": [100_000, 1_000_000, 10_000_000]}
"""Lengths of the logs."""
SELF_JOIN = {"quick": 20_000, "full": 200_000}
"""Episodes of the log on which polars and duckdb join it with itself (their memory grows with the pairs)."""
PASSES = 3
