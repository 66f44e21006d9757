"""Where a service keeps its records: an SQLite file.

One thread writes. It takes all jobs that wait, runs them in one transaction, and tells their results only when the
commit is on the disk (write-ahead log, ``synchronous=FULL``): what was acknowledged survives a kill and a cut of the
power. A job reads, decides and writes as one, so nothing comes between.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from rewardmix._core.checks import refuse
from rewardmix.service.records import SCHEMA_OF_STORE, Records

_T = TypeVar("_T")

STORE_ID = 0x726D7831
"""Application id of the file."""

AT_ONCE = 256
"""Most jobs of one transaction."""


class StoreDown(Exception):
    """The store cannot be written or read now; nothing of the job was kept."""


class Store:
    """An SQLite file with one thread that writes to it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._connection = open_store(self.path)
        self._records = Records(self._connection)
        self._jobs: queue.SimpleQueue[tuple[Callable[[Records], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="store", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[Records], _T]) -> Future[_T]:
        """Run a job in a transaction; its result is there when it is durable."""
        future: Future[_T] = Future()
        self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Finish what waits, and close the file."""
        self._jobs.put(None)
        self._thread.join()
        self._connection.close()

    def _work(self) -> None:
        while True:
            batch = [self._jobs.get()]
            while len(batch) < AT_ONCE and not self._jobs.empty():
                batch.append(self._jobs.get())
            asked = [one for one in batch if one is not None and one[1].set_running_or_notify_cancel()]
            if asked:
                self._commit(asked)
            if None in batch:
                return

    def _commit(self, batch: list[tuple[Callable[[Records], Any], Future[Any]]]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            outcomes = [self._outcome(job) for job, _ in batch]
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            for _, future in batch:
                future.set_exception(StoreDown(str(error)))
            return
        for (_, future), (result, failure) in zip(batch, outcomes, strict=True):
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

    def _outcome(self, job: Callable[[Records], Any]) -> tuple[Any, Exception | None]:
        """(result, None), or (None, why the job failed) with its changes undone."""
        self._connection.execute("SAVEPOINT job")
        try:
            outcome: tuple[Any, Exception | None] = job(self._records), None
        except sqlite3.Error:
            raise
        except Exception as error:
            self._connection.execute("ROLLBACK TO job")
            outcome = None, error
        self._connection.execute("RELEASE job")
        return outcome

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # the next BEGIN tells


def open_store(path: Path, *, new: bool = True) -> sqlite3.Connection:
    """The file, made if it is not there (and may be ``new``); refused if it is something else."""
    if not new and not is_store(path):
        refuse("store", f"{str(path)!r}", "a store of rewardmix serve")
    connection = None
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)
        _prepare(connection, path)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        refuse("store", f"{str(path)!r} that cannot be opened ({error})", "a store of rewardmix serve, or a new file")
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Tables where there are none; and what is written is on disk before it is acknowledged."""
    (found,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if found != STORE_ID and tables:
        connection.close()
        refuse("store", f"another database in {str(path)!r}", "a store of rewardmix serve, or a new file")
    connection.execute("PRAGMA synchronous=FULL")
    if not tables:  # before there is a write-ahead log, so that the file itself says what it is
        connection.executescript(f"BEGIN;{SCHEMA_OF_STORE}PRAGMA application_id={STORE_ID};COMMIT;")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA secure_delete=ON")


def is_store(path: str | Path) -> bool:
    """Whether a file is a store: an SQLite file with its application id."""
    try:
        with open(path, "rb") as file:
            head = file.read(72)
    except (OSError, ValueError):
        return False
    return head.startswith(b"SQLite format 3\0") and head[68:72] == STORE_ID.to_bytes(4, "big")
