"""Run a command on a machine that is busy with something else: one process a core that computes without end.

    python tools/busy.py pytest tests/service

Tests that pass here only wait for what they wait for, not for a time in which an idle machine would have done it. The
busy processes end with the command, after ``LONGEST`` seconds, or when this process is gone, whatever comes first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

LONGEST = 1200
"""Seconds after which a busy process ends by itself."""

BUSY = f"""
import os, time
asked_by, until = os.getppid(), time.monotonic() + {LONGEST}
while os.getppid() == asked_by and time.monotonic() < until:
    sum(range(100_000))
"""


def main(command: list[str]) -> int:
    """The code of a command that is run beside busy processes."""
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
