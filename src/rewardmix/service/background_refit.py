"""Start refits in the background whenever enough sessions have finished.

A refit is a separate process: it takes nothing from requests but a core, and the service continues with its version
however the process ends.
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

from rewardmix.service.refit import RefitSettings, next_refit
from rewardmix.service.session_service import SessionService
from rewardmix.service.store import StoreUnavailable

_LOG = logging.getLogger("rewardmix.service")

REFIT_COMMAND = "from rewardmix.service.refit import run_refit_subprocess; run_refit_subprocess()"
"""Command of the process."""


class BackgroundRefitter:
    """Run refits of a session service one at a time, each when enough sessions have finished."""

    def __init__(self, service: SessionService, store: str | Path, settings: RefitSettings) -> None:
        self._service, self._address, self._settings = service, str(store), settings
        self._due = 0
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run_loop, name="refit", daemon=True)
        service.refit_settings = settings
        service.on_finished = self._on_finished
        # A refit may have become due while the service was down.
        self._wake.set()
        self._thread.start()

    def _on_finished(self, num_finished: int) -> None:
        """Wake the thread if the next refit is due."""
        if num_finished >= self._due:
            self._wake.set()

    def close(self) -> None:
        """Stop the thread and kill a running refit; the next start repeats it."""
        self._stopped.set()
        self._wake.set()
        with self._lock:
            if self._process is not None:
                self._process.kill()
        self._thread.join()

    def _run_loop(self) -> None:
        """Run due refits whenever the thread is woken."""
        while not self._stopped.is_set():
            self._wake.wait()
            self._wake.clear()
            while not self._stopped.is_set() and self._run_due_refit():
                pass

    def _run_due_refit(self) -> bool:
        """Run the refit that is due; return whether there was one and it succeeded."""
        try:
            finished, until = self._service.store.submit(
                lambda records: (records.totals().num_finished, next_refit(records, self._settings))
            ).result()
        except StoreUnavailable:
            # The next session that finishes wakes the thread again.
            return False
        self._due = until
        if finished < until:
            return False
        error = self._refit(until)
        if error and not self._stopped.is_set():
            self._service.refit_error = error
            # After an error the next attempt waits for new sessions: an immediate one would probably fail again.
            self._due = finished + self._settings.min_new_sessions
            _LOG.error("refit_failed", extra={"sessions": until, "error": error})
            return False
        self._service.refit_error = ""
        return True

    def _refit(self, until: int) -> str:
        """Run a refit and return the error message, or an empty string."""
        try:
            # The folder is removed here, since a killed process cannot remove its own files.
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                job = {"store": self._address, "until": until, "folder": folder}
                code, output = self._run_subprocess(json.dumps(job))
        except OSError as error:
            return f"cannot start a refit: {error}"
        if code:
            return f"the refit ended with code {code}: {output[:300]}"
        _LOG.info("refit", extra={"sessions": until, "version": json.loads(output)["version"]})
        return ""

    def _run_subprocess(self, job_json: str) -> tuple[int, str]:
        """Return (exit code, last line of output) of a refit process with these settings."""
        pipe = subprocess.PIPE
        with self._lock:
            if self._stopped.is_set():
                return 1, "stopped"
            command = [sys.executable, "-c", REFIT_COMMAND]
            process = subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT)
            self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        # The input stays open until the process ends: if the service is killed, the refit ends too.
        try:
            with suppress(OSError):
                process.stdin.write(job_json + "\n")
                process.stdin.flush()
            output_lines = process.stdout.read().strip().splitlines() or ["no output"]
            return process.wait(), output_lines[-1]
        finally:
            with self._lock:
                self._process = None
            process.stdout.close()
            with suppress(OSError):
                process.stdin.close()
