"""What a decision costs beside a bare endpoint of the same framework that writes one row durably to the same store.

python -m benchmarks.serve.run [--quick] [--parts disk,memory] [--store URL]

Most of a durable request is the wait for the disk, and on a shared machine that wait changes by ten times from second
to second: a long round of one and then of the other compares the weather. So both run as processes of their own for the
whole time and are asked in short turns, the order changing. What is told is the median of the ratios of neighbouring
turns (p99: of blocks of turns), with the interval that the ranks give at 95 %. CPU time of the server a request, which
the disk does not touch, is the primary figure. Part ``memory`` has both stores on a file system in memory, where a
commit costs nothing and the ratio is at its worst.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.record import Rows, record, table
from benchmarks.serve.load import run_users, with_bare, with_service

NUM_USERS = (1, 16, 64)
SIZES = {"cpu": 5, "throughput": 1, "p99": 5}
"""Figure -> neighbouring turns that make one ratio: ticks of CPU time are coarse, and a turn has few slow requests."""
WARM_SESSIONS = 400
"""Sessions before anything is measured: while a write-ahead log grows, every commit also waits for the file system."""
UNITS = {"cpu": "CPU ms a request", "throughput": "requests a second", "p99": "p99 in ms"}
LIMITS = {"throughput": ("at least", 0.6), "p99": ("at most", 2.0)}


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[tuple[int, int]]:
    """(process id, port) of a server that answers. Its log is made but kept nowhere: the disk is for the store."""
    arguments = [sys.executable, "-m", *command]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("serving at"):
            raise RuntimeError(f"{command} did not start")
        yield process.pid, int(line.split()[2].rstrip(",").rpartition(":")[2])
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def cpu_of(process: int) -> float:
    """CPU seconds of all threads of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(server: tuple[int, int], play: Any, users: int, sessions: int, seed: int) -> dict[str, Any]:
    """One turn."""
    process, port = server
    before = cpu_of(process)
    elapsed, seconds = asyncio.run(run_users(port, play, users, sessions, seed))
    return {"requests": len(seconds), "cpu": cpu_of(process) - before, "elapsed": elapsed, "seconds": sorted(seconds)}


def turns(service: tuple[int, int], bare: tuple[int, int], users: int, quick: bool) -> Iterator[dict[str, Any]]:
    """Pairs of turns, the order changing."""
    sessions, count = max(users, 5), 10 if quick else 20
    for number in range(count):
        both = [("service", service, with_service), ("bare", bare, with_bare)]
        if number % 2:
            both.reverse()
        yield {name: measured(server, play, users, sessions, number) for name, server, play in both}


def blocks(pairs: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """Neighbouring turns taken together."""
    result = []
    for at in range(0, len(pairs) - size + 1, size):
        block: dict[str, Any] = {}
        for who in ("service", "bare"):
            ours = [pair[who] for pair in pairs[at : at + size]]
            count = sum(turn["requests"] for turn in ours)
            seconds = sorted(second for turn in ours for second in turn["seconds"])
            block[who] = {
                "requests": count,
                "cpu": sum(turn["cpu"] for turn in ours) / count,
                "throughput": count / sum(turn["elapsed"] for turn in ours),
                "p50": seconds[count // 2],
                "p99": seconds[math.ceil(0.99 * count) - 1],
            }
        result.append(block)
    return result


def compared(pairs: list[dict[str, Any]], users: int) -> Iterator[dict[str, Any]]:
    """A row for each figure: median of the ratios, its interval, and what both were in the middle."""
    for name, size in SIZES.items():
        result = blocks(pairs, size)
        each = sorted(block["service"][name] / block["bare"][name] for block in result if block["bare"][name] > 0)
        lower, upper = _band(each)
        both = {who: median(block[who][name] for block in result) for who in ("service", "bare")}
        yield {"users": users, "figure": name, "ratio": median(each), "lower": lower, "upper": upper,
               "ratios": len(each), "requests": result[0]["bare"]["requests"], **both}  # fmt: skip


def _band(ordered: list[float]) -> tuple[float, float]:
    """Ranks between which the median lies with a chance of 95 %, whatever the distribution."""
    count, below, rank = len(ordered), 0.0, 0
    while below + math.comb(count, rank) / 2**count <= 0.025:
        below += math.comb(count, rank) / 2**count
        rank += 1
    return ordered[max(rank - 1, 0)], ordered[min(count - rank, count - 1)]


def tell(part: str, rows: Rows) -> bool:
    """Print the ratios; whether all that is asked for holds."""
    lines, good = [], True
    for row in rows:
        word, limit = LIMITS.get(row["figure"], ("", 0.0)) if part != "memory" else ("", 0.0)
        holds = not word or (row["ratio"] >= limit if word == "at least" else row["ratio"] <= limit)
        good &= holds
        scale = 1.0 if row["figure"] == "throughput" else 1e3
        limit_text = f"{word} {limit:g}: {'yes' if holds else 'NO'}" if word else "told only"
        figures = [f"{row[who] * scale:.3g}" for who in ("service", "bare")]
        band = f"{row['lower']:.2f} to {row['upper']:.2f}"
        lines.append([str(row["users"]), UNITS[row["figure"]], *figures, f"{row['ratio']:.2f}", band, limit_text])
    print(f"== {part}")
    table(["concurrent users", "figure", "service", "bare", "ratio", "95 % of the median", "asked for"], lines)
    return good


def run_part(part: str, store: str, quick: bool) -> Rows:
    """Both servers on the same kind of store, asked in turns."""
    base = "/dev/shm" if part == "memory" else None
    with tempfile.TemporaryDirectory(dir=base) as top, contextlib.ExitStack() as stack:
        plan = Path(top) / "shop.safetensors"
        make = [sys.executable, "-m", "rewardmix", "plan", "shop", "--out", str(plan)]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        serve = ["rewardmix", "serve", str(plan), "--store", store or f"{top}/sessions.sqlite", "--port", "0"]
        service = stack.enter_context(running(serve))
        bare = stack.enter_context(running(["benchmarks.serve.bare", store or f"{top}/rows.sqlite"]))
        for server, play in ((service, with_service), (bare, with_bare)):
            measured(server, play, max(NUM_USERS), WARM_SESSIONS, 10**6)
        rows = []
        for users in NUM_USERS:
            rows += compared(list(turns(service, bare, users, quick)), users)
        return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", default="disk,memory")
    parser.add_argument("--store", default="", help="address of a PostgreSQL; left out, SQLite files")
    args = parser.parse_args()
    good = True
    for part in ["postgresql"] if args.store else args.parts.split(","):
        rows = run_part(part, args.store, args.quick)
        good &= tell(part, rows)
        if not args.quick:
            record("serve", part, rows)
    sys.exit(not good and not args.quick)


if __name__ == "__main__":
    main()
