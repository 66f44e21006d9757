"""Runs tries in worker processes, so that a crash or a hang is an outcome like any other.

A module of tries has ``attempt(seed, number, folder)``, which returns the name of an outcome or raises. Every try is a
function of (seed, number), so one that went wrong is repeated by ``--only number``.
"""

from __future__ import annotations

import argparse
import os
import select
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

FINE = ("refused", "valid")
OUTCOMES = (*FINE, "WRONG", "TRACEBACK", "crashed", "hung")

BATCH = 1000
"""Tries of one worker process."""

TIMEOUT_SECONDS = 60.0
"""Seconds of a single try after which it hangs; they take milliseconds."""

LIMITS = {"REWARDMIX_MEMORY": "1", "REWARDMIX_OPERATIONS": "1e9"}
"""What is let through is small."""


def fuzz(script: str, budget: int, seed: int = 0) -> Counter[str]:
    """Tries 0 .. budget - 1 of a script, and how many ended how; what went wrong is printed with its number."""
    total: Counter[str] = Counter()
    done = 0
    while done < budget:
        result, reached = _batch(script, seed, done, min(done + BATCH, budget))
        total += result
        done = reached
    print(f"{Path(script).stem}: tried {budget}, " + ", ".join(f"{name} {total[name]}" for name in OUTCOMES))
    return total


def _batch(script: str, seed: int, begin: int, end: int) -> tuple[Counter[str], int]:
    """Outcomes of the tries from ``begin`` on, and the first that is still to be done."""
    command = [sys.executable, script, "--seed", str(seed), "--range", str(begin), str(end)]
    environment = {**os.environ, **LIMITS}
    result: Counter[str] = Counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as worker:
        assert worker.stdout is not None
        number, ending = begin, ""
        while number < end:
            line = _line(worker)
            if line is None:
                worker.kill()
                ending = "hung"
            elif line == "":
                ending = "crashed"
            if ending:
                print(f"{ending}: {' '.join(command[1:4])} --only {number}", flush=True)
                result[ending] += 1
                return result, number + 1
            outcome, _, text = line.rstrip("\n").partition(" ")
            result[outcome] += 1
            if outcome not in FINE:
                print(f"{outcome}: {' '.join(command[1:4])} --only {number}: {text}", flush=True)
            number += 1
    return result, end


def _line(worker: subprocess.Popen[str]) -> str | None:
    """The next line of a worker, "" if it is gone, None if nothing comes."""
    assert worker.stdout is not None
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if select.select([worker.stdout], [], [], 1.0)[0]:
            return worker.stdout.readline()
    return None


def main(script: str, attempt: Callable[[int, int, Path], str]) -> None:
    """The command line of a script of tries."""
    from rewardmix import InputError

    arguments = argparse.ArgumentParser()
    arguments.add_argument("--tries", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--range", type=int, nargs=2, help="the tries that a worker makes")
    arguments.add_argument("--only", type=int, help="one try, with its traceback")
    value = arguments.parse_args()
    if value.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(attempt(value.seed, value.only, Path(folder)))
        return
    if value.range is None:
        total = fuzz(script, value.tries, value.seed)
        sys.exit(any(total[name] for name in OUTCOMES if name not in FINE))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(*value.range):
            try:
                reward_index = attempt(value.seed, number, Path(folder))
            except InputError:
                reward_index = "refused"
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                text = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
                reward_index = "TRACEBACK " + " ".join(text.split())
            print(reward_index, flush=True)
