"""Tables of the study of orders: python -m benchmarks.order.analysis."""

from __future__ import annotations

import numpy as np

from benchmarks.cells import grid, short, show
from benchmarks.record import Rows, rows_of

EXPLORED = {2: "pairs", 3: "triples"}


def parity(rows: Rows) -> list[str]:
    """Share of the gain with pairs and with triples, and how many episodes of exploration show the three rewards."""
    lines = [
        [
            row["problem"],
            f"{row['episodes']:,}",
            EXPLORED[row["order"]],
            f"{short(np.mean(row['share']))} ({short(min(row['share']))})",
            sum(share >= 0.99 for share in row["share"]),
            f"{np.median(row['together']):,.0f}",
        ]
        for row in sorted(rows, key=lambda row: (row["problem"], row["episodes"], row["order"]))
    ]
    columns = ["problem", "episodes", "explored", "normalized score", "runs at .99", "informative episodes"]
    text = (
        f"Score: means over {len(rows[0]['share'])} seeds, with the worst; each seed has its own special actions. The "
        "last column is the median number of explored episodes with all three rewards that together reveal the types."
    )
    return [grid(columns, lines), text]


def tables(rows: Rows) -> list[str]:
    """Errors of the rewards from tables of triples, and from episodes."""
    lines = [
        [
            row["problem"],
            *(f"{short(np.mean(row[key]))} ({short(max(row[key]))})" for key in ("from_tables", "from_episodes")),
        ]
        for row in rows
    ]
    text = (
        f"Root mean square error of the rewards of all types, means over {len(rows[0]['from_tables'])} seeds, with the "
        f"worst; {rows[0]['episodes']:,} episodes of `explore(moment_order=3)`."
    )
    return [grid(["problem", "from tables of triples", "from the episodes"], lines), text]


TABLES = {"parity": parity, "alone": parity, "tables": tables}

if __name__ == "__main__":
    for name, make_table in TABLES.items():
        show(make_table(rows_of("order", name)))
