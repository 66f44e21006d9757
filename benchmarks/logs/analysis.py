"""Tables of the study of logs: python -m benchmarks.logs.analysis."""

from __future__ import annotations

from benchmarks.cells import grid, many, show
from benchmarks.logs import settings
from benchmarks.record import Rows, rows_of


def speed(scale: Rows, self_join: Rows, episodes: int = settings.SELF_JOIN["full"]) -> list[str]:
    """Speed on long logs, and beside joins of a log of so many episodes."""
    speeds = ("moments_rows_per_second", "em_rows_per_second")
    lines = [[f"{row['rows']:,}", *(many(row[key]) for key in speeds), f"{row['peak_gib']:.2f} GiB"] for row in scale]
    columns = ["rows", "moments, rows a second", "EM pass, rows a second", "peak memory"]
    rivals = [row for row in self_join if row["by"] != "rewardmix"]
    joins = ", ".join(f"{row['by']} takes {row['ratio']:.0f} times as long" for row in rivals)
    counts = "the counts are equal" if all(row["equal"] for row in rivals) else "the counts DIFFER"
    rows = episodes * settings.HORIZON
    text = f"Equal pair tables by joining a log of {rows:,} rows with itself: {joins}; {counts}."
    return [grid(columns, lines), text]


TABLES = {"speed": speed}

if __name__ == "__main__":
    show(speed(rows_of("logs", "scale"), rows_of("logs", "self_join")))
