"""Tables of what was measured of the service, for its page."""

from __future__ import annotations

from benchmarks.record import Rows


def attacks(rows: Rows) -> list[str]:
    """The list of attacks, with counts."""
    lines = ["| attack | tries | responses | passed |", "|---|---|---|---|"]
    for row in rows:
        responses = ", ".join(f"{name}: {count:,}" for name, count in row["responses"].items())
        lines.append(f"| {row['attack']} | {row['tries']:,} | {responses} | {'yes' if row['passed'] else '**no**'} |")
    total, failed = sum(row["tries"] for row in rows), sum(not row["passed"] for row in rows)
    end = "all passed" if not failed else f"{failed} failed"
    return ["\n".join(lines), f"{len(rows)} attacks with {total:,} tries in all: {end}."]


TABLES = {"attacks": attacks}
