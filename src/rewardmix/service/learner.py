"""Learning in the background: a thread that starts a refit when enough sessions have finished.

The refit is a process of its own: its work takes nothing from the requests but a core, and however it ends, the service
goes on with the version that it has.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from rewardmix.service.desk import Desk
from rewardmix.service.refitting import RefitSettings, next_refit
from rewardmix.service.store import StoreDown

_LOG = logging.getLogger("rewardmix.service")

REFIT = "from rewardmix.service.refitting import refit_as_asked; refit_as_asked()"
"""What the process runs."""


class BackgroundLearner:
    """Refits for a desk, one at a time, each when its number of sessions has finished."""

    def __init__(self, desk: Desk, store: str | Path, settings: RefitSettings) -> None:
        self._desk, self._address, self._settings = desk, str(store), settings
        self._due = 0
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="learner", daemon=True)
        desk.learning = settings
        desk.on_finished = self._notice
        self._wake.set()  # what is due since the last time
        self._thread.start()

    def _notice(self, finished: int) -> None:
        """So many sessions have finished."""
        if finished >= self._due:
            self._wake.set()

    def close(self) -> None:
        """Stop, and leave a refit that runs undone."""
        self._stopped.set()
        self._wake.set()
        with self._lock:
            if self._process is not None:
                self._process.kill()
        self._thread.join()

    def _work(self) -> None:
        while not self._stopped.is_set():
            self._wake.wait()
            self._wake.clear()
            while not self._stopped.is_set() and self._step():
                pass

    def _step(self) -> bool:
        """Do the refit that is due; whether there was one and it was done."""
        try:
            finished, until = self._desk.store.submit(
                lambda records: (records.totals().finished, next_refit(records, self._settings))
            ).result()
        except StoreDown:
            return False  # the next session that finishes asks again
        self._due = until
        if finished < until:
            return False
        problem = self._refit(until)
        if problem and not self._stopped.is_set():
            self._desk.problem = problem
            self._due = finished + self._settings.every
            _LOG.error("refit", extra={"sessions": until, "problem": problem})
            return False
        self._desk.problem = ""
        return True

    def _refit(self, until: int) -> str:
        """Run a refit; what went wrong, or ""."""
        try:
            with tempfile.TemporaryDirectory(
                ignore_cleanup_errors=True
            ) as folder:  # for what it would leave if it is killed
                code, told = self._run(json.dumps({"store": self._address, "until": until, "folder": folder}))
        except OSError as error:
            return f"a refit cannot be started: {error}"
        if code:
            return f"a refit ended with code {code}: {told[:300]}"
        _LOG.info("refit", extra={"sessions": until, "version": json.loads(told)["version"]})
        return ""

    def _run(self, asked: str) -> tuple[int, str]:
        """(exit code, last line) of a process that does what is asked."""
        pipe = subprocess.PIPE
        with self._lock:
            if self._stopped.is_set():
                return 1, "stopped"
            command = [sys.executable, "-c", REFIT]
            process = subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT)
            self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        try:  # its input stays open until it ends: if this process is killed, so is the refit
            with suppress(OSError):
                process.stdin.write(asked + "\n")
                process.stdin.flush()
            told = process.stdout.read().strip().splitlines() or ["it said nothing"]
            return process.wait(), told[-1]
        finally:
            with self._lock:
                self._process = None
            process.stdout.close()
            with suppress(OSError):
                process.stdin.close()
