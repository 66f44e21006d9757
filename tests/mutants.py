"""Check that the tests notice small errors: put each of ``mutations.toml`` into a copy of the source and run its tests.

    make mutants                          all of them, on two cores
    python tests/mutants.py --only NAME   those whose name contains NAME (may be given more than once)
    python tests/mutants.py --jobs 4      on four cores

A mutation has a name, a file of ``src/rewardmix``, a piece of one line that occurs there exactly once, its replacement,
and the tests that should fail with it. One that changes no result gives the reason (``equivalent``). The program fails
if a mutation survives without a reason, is noticed in spite of one, no longer applies, or names tests that fail
without it.

Each worker changes its own copy in place and restores it, modification times included, so that numba's cache stays
valid. A change of a file with kernels gets a copy of the cache, in which changed kernels are compiled again.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("mutations.toml")

TIMEOUTS = 600
"""Seconds after which tests that have not ended count as noticing the error."""

SURVIVED, KILLED, HUNG, BROKEN = "SURVIVED", "killed", "hung", "BROKEN"


@dataclass(frozen=True)
class Mutation:
    """Describe one small error.

    Attributes:
        name: what is wrong with it.
        file: below ``src/rewardmix``.
        old: a piece of one line of it, occurring once.
        new: its replacement.
        tests: pytest ids of the tests that should fail.
        equivalent: why no test can fail; empty if one can.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""

    def fault(self, source: str) -> str:
        """Return why it does not apply to the text of its file, or an empty text."""
        result = source.count(self.old)
        if result != 1:
            return f"{self.name}: {self.old!r} occurs {result} times in {self.file}, expected once"
        if "\n" in self.old or "\n" in self.new or self.old == self.new:
            return f"{self.name}: expected a change within one line"
        return ""


@dataclass(frozen=True)
class Outcome:
    """Hold the status of a mutation, the output of pytest, and its seconds."""

    mutation: Mutation
    status: str
    output: str
    seconds: float

    @property
    def is_wrong(self) -> bool:
        """Return whether the list or the tests have to be corrected."""
        return self.status == BROKEN or (self.status == SURVIVED) != bool(self.mutation.equivalent)


def read_mutations() -> tuple[Mutation, ...]:
    """Read all mutations of the list."""
    entries = tomllib.loads(LIST.read_text())["mutation"]
    return tuple(Mutation(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries)


def faults(mutations: Iterable[Mutation]) -> list[str]:
    """Return why mutations do not apply to the unchanged source."""
    return [fault for mutation in mutations if (fault := mutation.fault(_source(mutation.file).read_text()))]


class WorkingCopy:
    """Hold a copy of the source, the tests and what they import, which one worker changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for path in (Path("src") / "rewardmix", Path("tests"), Path("benchmarks"), Path("examples")):
            shutil.copytree(ROOT / path, folder / path, dirs_exist_ok=True)
        shutil.copy2(ROOT / "pyproject.toml", folder)
        self.changes = 0

    def run(self, tests: Iterable[str], cache: Path, *options: str) -> tuple[int, str, float]:
        """Run tests on the copy; return (exit code of pytest, output, seconds), with code -1 if they did not end."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src"), "NUMBA_CACHE_DIR": str(cache)}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        quick = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile", "unshrunk"]
        command = [sys.executable, "-m", "pytest", *quick, *options, *tests]
        began = time.monotonic()
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=TIMEOUTS, check=False
            )
        except subprocess.TimeoutExpired:
            return -1, "no end", time.monotonic() - began
        return done.returncode, done.stdout + done.stderr, time.monotonic() - began

    def try_mutation(self, mutation: Mutation) -> Outcome:
        """Apply it, run its tests, and restore the source."""
        target = self.folder / "src" / "rewardmix" / mutation.file
        with self._mutate(target, mutation), self._open_cache(target) as cache:
            code, text, seconds = self.run(mutation.tests, cache)
        status = {0: SURVIVED, 1: KILLED, -1: HUNG}.get(code, BROKEN)
        return Outcome(mutation, status, text, seconds)

    @contextmanager
    def _mutate(self, target: Path, mutation: Mutation) -> Iterator[None]:
        """Put the error in place, with a modification time of its own: caches compare time and size."""
        text, stamp = target.read_text(), target.stat().st_mtime_ns
        self.changes += 1
        target.write_text(text.replace(mutation.old, mutation.new))
        later = stamp + 2_000_000_000 * self.changes
        os.utime(target, ns=(later, later))
        try:
            yield
        finally:
            target.write_text(text)
            os.utime(target, ns=(stamp, stamp))

    @contextmanager
    def _open_cache(self, target: Path) -> Iterator[Path]:
        if "@kernel" not in target.read_text() and "@lazy_jit" not in target.read_text():
            yield self.folder / "cache"
            return
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            if (self.folder / "cache").exists():
                shutil.copytree(self.folder / "cache", folder, dirs_exist_ok=True)
            yield Path(folder)


def run(mutations: tuple[Mutation, ...], jobs: int, folder: Path) -> list[Outcome]:
    """Try all mutations; one whose tests fail on the unchanged source counts as broken."""
    copies: queue.Queue[WorkingCopy] = queue.Queue()
    for number in range(jobs):
        copies.put(WorkingCopy(folder / f"copy{number}"))
    all_tests = sorted({test for mutation in mutations for test in mutation.tests})
    with ThreadPoolExecutor(jobs) as pool:
        text = "\n".join(pool.map(lambda part: _find_failing(copies, part), (all_tests[k::jobs] for k in range(jobs))))
        failing = [line for line in text.splitlines() if line.startswith("FAILED")]
        return list(pool.map(lambda mutation: _try_mutation(copies, mutation, failing), mutations))


def _find_failing(copies: queue.Queue[WorkingCopy], tests: list[str]) -> str:
    """Return the output of the tests on the unchanged source if any fail; exit if pytest itself fails."""
    copy = copies.get()
    try:
        code, text, _ = copy.run(tests, copy.folder / "cache", "--maxfail=1000") if tests else (0, "", 0.0)
    finally:
        copies.put(copy)
    if code not in (0, 1):
        raise SystemExit(f"pytest ended with {code} on the unchanged source:\n{text}")
    return text if code else ""


def _try_mutation(copies: queue.Queue[WorkingCopy], mutation: Mutation, failing: list[str]) -> Outcome:
    copy = copies.get()
    try:
        before = [line for line in failing if any(test in line for test in mutation.tests)]
        outcome = Outcome(mutation, BROKEN, "\n".join(before), 0.0) if before else copy.try_mutation(mutation)
    finally:
        copies.put(copy)
    print(f"{outcome.status:9} {outcome.seconds:6.1f} s  {mutation.file}: {mutation.name}", flush=True)
    return outcome


def _source(file: str) -> Path:
    return ROOT / "src" / "rewardmix" / file


def _children_seconds() -> float:
    """Return the CPU seconds of the tests that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def main() -> int:
    """Run the mutations; print a table and the survivors."""
    parser = argparse.ArgumentParser(description="Check that the tests notice small errors in the source.")
    parser.add_argument("--only", action="append", default=[], help="part of the names to try")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--folder", type=Path, help="keep the copies and their caches here")
    options = parser.parse_args()
    chosen = tuple(
        mutation
        for mutation in read_mutations()
        if not options.only or any(name_part in mutation.name for name_part in options.only)
    )
    if wrong := faults(chosen):
        print(*wrong, sep="\n")
        return 1
    began, wall = _children_seconds(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run(chosen, options.jobs, options.folder or Path(folder))
    bad = [outcome for outcome in outcomes if outcome.is_wrong]
    for outcome in bad:
        text = "\n".join(outcome.output.splitlines()[-12:]) if outcome.status == BROKEN else ""
        print(f"\n{outcome.status}: {outcome.mutation.name} ({outcome.mutation.file})\n{text}")
    noticed = sum(outcome.status in (KILLED, HUNG) for outcome in outcomes)
    same = sum(bool(outcome.mutation.equivalent) for outcome in outcomes)
    print(
        f"\n{len(outcomes)} mutations: {noticed} noticed, {same} equivalent, {len(bad)} to be corrected; "
        f"{_children_seconds() - began:.0f} CPU s, {time.monotonic() - wall:.0f} s"
    )
    for outcome in outcomes:
        if outcome.mutation.equivalent:
            print(f"equivalent: {outcome.mutation.name}: {outcome.mutation.equivalent}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
