"""Logs at scale: reading, counting, EM passes; beside polars and duckdb.

python -m benchmarks.logs.run [--quick]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np

from benchmarks.cells import show
from benchmarks.logs import analysis, selfjoin, settings
from benchmarks.record import record
from rewardmix import logs, problems, simulate, uniform_policy
from rewardmix.logs.fitting import compute_statistics
from rewardmix.recovery.likelihood import Mixture

BLOCK = 1 << 17


def write_log(path: Path, episodes: int) -> None:
    model = problems.make_model("random", states=settings.STATES, actions=settings.ACTIONS, horizon=settings.HORIZON)

    def blocks() -> Iterator[Any]:
        for begin in range(0, episodes, BLOCK):
            yield simulate(uniform_policy(model), model, min(BLOCK, episodes - begin), seed=begin)

    logs.write_log(path, blocks())


def measure(path: str) -> dict[str, float]:
    """In a process of its own, so that its peak memory is that of the work alone."""
    logs.read_log(path, rows_per_partition=1 << 21) if os.path.getsize(path) < 1 << 22 else None
    columns = {"next_state": None}  # the long form of five columns
    begin = time.process_time()
    log = logs.read_log(path, columns=columns)
    read = time.process_time() - begin
    begin = time.process_time()
    moments = log.sum_int_over_partitions()
    count = time.process_time() - begin
    rng = np.random.default_rng(0)
    size = settings.STATES * settings.ACTIONS
    mixture = Mixture(np.array([0.5, 0.5]), rng.dirichlet(np.ones(2), size=(2, size)))
    passes = []
    for _ in range(settings.PASSES):
        begin = time.process_time()
        log.sum_over_partitions(compute_statistics, mixture)
        passes.append(time.process_time() - begin)
    rows = log.read_report.num_rows
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "episodes": moments.num_episodes, "rows": rows, "read_seconds": read, "count_seconds": count,
        "moments_rows_per_second": rows / (read + count), "count_rows_per_second": rows / count,
        "em_rows_per_second": rows / min(passes), "peak_gib": peak,
    }  # fmt: skip


def alone(path: Path) -> dict[str, float]:
    """``measure`` in a fresh process, after a small log has compiled (or loaded) the kernels."""
    code = "import json, sys; from benchmarks.logs import run; run.warm(); print(json.dumps(run.measure(sys.argv[1])))"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def warm() -> None:
    model = problems.make_model("random", states=settings.STATES, actions=settings.ACTIONS, horizon=settings.HORIZON)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.parquet"
        logs.write_log(path, simulate(uniform_policy(model), model, 1000))
        log = logs.read_log(path, columns={"next_state": None})
        log.sum_int_over_partitions()
        size = settings.STATES * settings.ACTIONS
        log.sum_over_partitions(compute_statistics, Mixture(np.array([0.5, 0.5]), np.full((2, size, 2), 0.5)))


def joins(path: Path) -> list[dict[str, Any]]:
    """The same pair tables by self-join, and whether they are equal."""
    warm()
    begin = time.process_time()
    log = logs.read_log(path, columns={"next_state": None})
    moments = log.sum_int_over_partitions()
    ours = time.process_time() - begin
    size = moments.num_state_actions
    tables = np.zeros((size, size, 2, 2), np.int64)
    tables[moments.pairs] = moments.pair_tables
    rows: list[dict[str, Any]] = [{"by": "rewardmix", "seconds": ours, "ratio": 1.0, "equal": True}]
    for name, join in {"polars": selfjoin.with_polars, "duckdb": selfjoin.with_duckdb}.items():
        if importlib.util.find_spec(name) is None:
            print(f"{name} is not installed: pip install 'rewardmix[bench]'")
            continue
        begin = time.process_time()
        result = join(str(path), settings.ACTIONS)
        seconds = time.process_time() - begin
        equal = bool(np.array_equal(selfjoin.tables(result, size), tables))
        rows.append({"by": name, "seconds": seconds, "ratio": seconds / ours, "equal": equal})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    kind = "quick" if parser.parse_args().quick else "full"
    scale, beside = [], []
    with tempfile.TemporaryDirectory() as folder:
        for episodes in settings.EPISODES[kind]:
            path = Path(folder) / "log.parquet"
            write_log(path, episodes)
            scale.append(alone(path))
            path.unlink()
        path = Path(folder) / "join.parquet"
        write_log(path, settings.SELF_JOIN[kind])
        beside = joins(path)
    show(analysis.speed(scale, beside, settings.SELF_JOIN[kind]))
    if kind == "full":
        record("logs", "scale", scale)
        record("logs", "self_join", beside)


if __name__ == "__main__":
    main()
