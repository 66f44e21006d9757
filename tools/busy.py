"""Run a command on a busy machine: one process per core computes all the time.

    python tools/busy.py pytest tests/service

Tests that pass here wait for events, not for times that suffice on an idle machine. The busy processes end with the
command, after ``MAX_SECONDS``, or when this process is gone, whichever comes first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

MAX_SECONDS = 1200
"""Seconds after which a busy process ends by itself."""

BUSY = f"""
import os, time
parent, until = os.getppid(), time.monotonic() + {MAX_SECONDS}
while os.getppid() == parent and time.monotonic() < until:
    sum(range(100_000))
"""


def main(command: list[str]) -> int:
    """Run a command beside busy processes; return its exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the command is killed then, too
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count() or 1)]
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
