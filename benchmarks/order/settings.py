"""What the study of orders runs."""

from __future__ import annotations

from typing import Any

WORLDS: dict[str, dict[str, Any]] = {"parity": {}, "parity, A = 4": {"actions": 4}}
"""Name in tables -> options of the problem ``parity``."""

BUDGETS = (5000, 20_000)
ORDERS = (2, 3)
SEEDS = 20

TABLED: dict[str, tuple[str, dict[str, Any], int]] = {
    "random (4,2,6), three types": ("random", {"states": 4, "actions": 2, "horizon": 6, "num_types": 3}, 3),
    "parity": ("parity", {}, 4),
}
"""Name in tables -> (problem, options, types): those that are recovered from tables of triples."""

TABLED_BUDGET = 20_000
