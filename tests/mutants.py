"""Do the tests notice small errors? Puts each error of ``mutations.toml`` into a copy of the source and runs its tests.

    make mutants                          all of them, on two cores
    python tests/mutants.py --only NAME   those whose name contains NAME (may be given more than once)
    python tests/mutants.py --jobs 4      on four cores

A mutation is plain data: a name, a file of ``src/rewardmix``, a piece of one line that occurs there exactly once, what
is put in its place, and the tests that should fail then. One that cannot be noticed because it changes nothing says why
(``equivalent``). The end is an error if a mutation survives without such a reason, is noticed in spite of one, no
longer applies, or names tests that fail without it.

Each worker changes its own copy in place and puts it back, times included, so that numba's cache stays valid; a change
of a file with kernels gets a copy of the cache, where what is made of them is compiled anew.
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

PATIENCE = 600
"""Seconds after which an endless loop counts as noticed."""

SURVIVED, KILLED, HUNG, BROKEN = "SURVIVED", "killed", "hung", "BROKEN"


@dataclass(frozen=True)
class Mutation:
    """One small error.

    Attributes:
        name: what is wrong then.
        file: below ``src/rewardmix``.
        old: a piece of one line of it, occurring once.
        new: what stands there instead.
        tests: pytest's names of the tests that should notice.
        equivalent: why no test can notice, or nothing.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""

    def fault(self, source: str) -> str:
        """Why it does not apply to the text of its file; nothing if it does."""
        found = source.count(self.old)
        if found != 1:
            return f"{self.name}: {self.old!r} occurs {found} times in {self.file}, expected once"
        if "\n" in self.old or "\n" in self.new or self.old == self.new:
            return f"{self.name}: expected a change within one line"
        return ""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutation: one of the words above, what pytest said, and the seconds it took."""

    mutation: Mutation
    word: str
    said: str
    seconds: float

    @property
    def bad(self) -> bool:
        """Whether the list or the tests have to be mended."""
        return self.word == BROKEN or (self.word == SURVIVED) != bool(self.mutation.equivalent)


def listed() -> tuple[Mutation, ...]:
    """Every mutation of the list."""
    entries = tomllib.loads(LIST.read_text())["mutation"]
    return tuple(Mutation(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries)


def faults(mutations: Iterable[Mutation]) -> list[str]:
    """Why mutations do not apply to the source as it is."""
    return [fault for one in mutations if (fault := one.fault(_source(one.file).read_text()))]


class Copy:
    """A copy of source, tests and benchmarks that one worker may spoil, whatever happens to the originals meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for part in (Path("src") / "rewardmix", Path("tests"), Path("benchmarks")):  # whose worlds tests play in
            shutil.copytree(ROOT / part, folder / part, dirs_exist_ok=True)
        shutil.copy2(ROOT / "pyproject.toml", folder)
        self.changes = 0

    def run(self, tests: Iterable[str], cache: Path, *options: str) -> tuple[int, str, float]:
        """(pytest's exit code, what it said, seconds) of tests on the copy; code -1 if they did not end."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src"), "NUMBA_CACHE_DIR": str(cache)}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        quick = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile", "unshrunk"]
        command = [sys.executable, "-m", "pytest", *quick, *options, *tests]
        began = time.monotonic()
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            return -1, "no end", time.monotonic() - began
        return done.returncode, done.stdout + done.stderr, time.monotonic() - began

    def tried(self, mutation: Mutation) -> Outcome:
        """Apply it, run its tests, put the source back."""
        target = self.folder / "src" / "rewardmix" / mutation.file
        with self._spoiled(target, mutation), self._cache(target) as cache:
            code, said, seconds = self.run(mutation.tests, cache)
        word = {0: SURVIVED, 1: KILLED, -1: HUNG}.get(code, BROKEN)
        return Outcome(mutation, word, said, seconds)

    @contextmanager
    def _spoiled(self, target: Path, mutation: Mutation) -> Iterator[None]:
        """The error in place, at a time that no other version of the file has: caches go by time and size."""
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
    def _cache(self, target: Path) -> Iterator[Path]:
        if "@kernel" not in target.read_text() and "@deferred" not in target.read_text():
            yield self.folder / "cache"
            return
        with tempfile.TemporaryDirectory(dir=self.folder) as fresh:
            if (self.folder / "cache").exists():
                shutil.copytree(self.folder / "cache", fresh, dirs_exist_ok=True)
            yield Path(fresh)


def run(mutations: tuple[Mutation, ...], jobs: int, folder: Path) -> list[Outcome]:
    """Try them all; one whose tests fail on the source as it is counts as broken."""
    copies: queue.Queue[Copy] = queue.Queue()
    for number in range(jobs):
        copies.put(Copy(folder / f"copy{number}"))
    named = sorted({test for one in mutations for test in one.tests})
    with ThreadPoolExecutor(jobs) as pool:
        said = "\n".join(pool.map(lambda part: _before(copies, part), (named[k::jobs] for k in range(jobs))))
        failing = [line for line in said.splitlines() if line.startswith("FAILED")]
        return list(pool.map(lambda one: _tried(copies, one, failing), mutations))


def _before(copies: queue.Queue[Copy], tests: list[str]) -> str:
    """What the tests say of the source as it is, if they do not all pass; without an answer nothing can be tried."""
    copy = copies.get()
    try:
        code, said, _ = copy.run(tests, copy.folder / "cache", "--maxfail=1000") if tests else (0, "", 0.0)
    finally:
        copies.put(copy)
    if code not in (0, 1):
        raise SystemExit(f"pytest ended with {code} on the source as it is:\n{said}")
    return said if code else ""


def _tried(copies: queue.Queue[Copy], mutation: Mutation, failing: list[str]) -> Outcome:
    copy = copies.get()
    try:
        before = [line for line in failing if any(test in line for test in mutation.tests)]
        outcome = Outcome(mutation, BROKEN, "\n".join(before), 0.0) if before else copy.tried(mutation)
    finally:
        copies.put(copy)
    print(f"{outcome.word:9} {outcome.seconds:6.1f} s  {mutation.file}: {mutation.name}", flush=True)
    return outcome


def _source(file: str) -> Path:
    return ROOT / "src" / "rewardmix" / file


def _children_seconds() -> float:
    """CPU seconds of the tests that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def main() -> int:
    """Run, print a table and the survivors."""
    parser = argparse.ArgumentParser(description="Do the tests notice small errors in the source?")
    parser.add_argument("--only", action="append", default=[], help="part of the names to try")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--folder", type=Path, help="keep the copies and their caches here")
    options = parser.parse_args()
    chosen = tuple(one for one in listed() if not options.only or any(part in one.name for part in options.only))
    if wrong := faults(chosen):
        print(*wrong, sep="\n")
        return 1
    began, wall = _children_seconds(), time.monotonic()
    with tempfile.TemporaryDirectory() as fresh:
        outcomes = run(chosen, options.jobs, options.folder or Path(fresh))
    bad = [outcome for outcome in outcomes if outcome.bad]
    for outcome in bad:
        said = "\n".join(outcome.said.splitlines()[-12:]) if outcome.word == BROKEN else ""
        print(f"\n{outcome.word}: {outcome.mutation.name} ({outcome.mutation.file})\n{said}")
    noticed = sum(outcome.word in (KILLED, HUNG) for outcome in outcomes)
    same = sum(bool(outcome.mutation.equivalent) for outcome in outcomes)
    print(
        f"\n{len(outcomes)} mutations: {noticed} noticed, {same} equivalent, {len(bad)} to be mended; "
        f"{_children_seconds() - began:.0f} CPU s, {time.monotonic() - wall:.0f} s"
    )
    for outcome in outcomes:
        if outcome.mutation.equivalent:
            print(f"equivalent: {outcome.mutation.name}: {outcome.mutation.equivalent}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
