"""Tables of what was measured of the service, for its page."""

from __future__ import annotations

from benchmarks.record import Rows


def attacks(rows: Rows) -> list[str]:
    """The list of attacks, with counts."""
    lines = ["| attack | tries | came of it | nothing broke |", "|---|---|---|---|"]
    for row in rows:
        came = ", ".join(f"{name}: {count:,}" for name, count in row["answers"].items())
        lines.append(f"| {row['attack']} | {row['tries']:,} | {came} | {'yes' if row['held'] else '**no**'} |")
    total, broken = sum(row["tries"] for row in rows), sum(not row["held"] for row in rows)
    end = "nothing broke" if not broken else f"{broken} of them broke something"
    return ["\n".join(lines), f"{len(rows)} attacks with {total:,} tries in all: {end}."]


TABLES = {"attacks": attacks}
