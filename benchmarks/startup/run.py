"""CPU seconds of ``rewardmix learn shop`` in a fresh home: the first run compiles, the second has what the first kept.

python -m benchmarks.startup.run [--quick] [--before FOLDER]

With ``--before`` the source in FOLDER/src takes turns with this one, so that both meet the same load of the machine:
seconds follow the load, ratios hardly do. Every round begins with an empty home.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.record import record, table

HERE = Path(__file__).parents[2]

JOBS = {
    "first": ["-m", "rewardmix", "learn", "shop", "--out", "one"],
    "second": ["-m", "rewardmix", "learn", "shop", "--out", "two"],
    "help": ["-m", "rewardmix", "--help"],
    "import": ["-c", "import rewardmix"],
}


def used() -> float:
    """CPU seconds of all children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def measured(source: Path) -> dict[str, float]:
    """CPU seconds of each job, one after the other in a home that was empty."""
    if not (source / "src" / "rewardmix").is_dir():
        sys.exit(f"{source} is no checkout: src/rewardmix is not there")
    seconds = {}
    with tempfile.TemporaryDirectory() as home:
        places = {"HOME": home, "XDG_CACHE_HOME": f"{home}/cache", "NUMBA_CACHE_DIR": f"{home}/kernels"}
        env = {**os.environ, **places, "PYTHONPATH": str((source / "src").resolve())}
        for job, arguments in JOBS.items():
            before = used()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=env, cwd=home)
            seconds[job] = used() - before
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--before", type=Path, help="a checkout to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    sources = {"before": args.before} if args.before else {}
    rows = []
    for number in range(1 if args.quick else args.rounds):
        for name, source in {**sources, "after": HERE}.items():
            rows.append({"round": number, "source": name, **measured(source)})
            print(rows[-1], file=sys.stderr, flush=True)
    middle = {
        name: {job: statistics.median(row[job] for row in rows if row["source"] == name) for job in JOBS}
        for name in [*sources, "after"]
    }
    lines = [[job, *(f"{middle[name][job]:.2f}" for name in middle)] for job in JOBS]
    if args.before:
        lines = [[*line, f"{middle['after'][line[0]] / middle['before'][line[0]]:.2f}"] for line in lines]
    table(["CPU seconds, median", *middle, *["ratio"] * bool(args.before)], lines)
    if not args.quick:
        folder = str(args.before)
        sys.argv = [
            "CHECKOUT" if argument == folder else argument for argument in sys.argv
        ]  # a place on this machine is nobody's
        record("startup", "fresh home", rows)


if __name__ == "__main__":
    main()
