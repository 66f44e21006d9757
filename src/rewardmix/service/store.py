"""Run jobs on the records of a service in one thread.

The thread takes all waiting jobs, runs them in one transaction and returns their results after the commit is on disk:
what was acknowledged survives a crash and a power failure. A job reads, decides and writes atomically.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rewardmix.service.databases import convert_database_errors, open_database
from rewardmix.service.records import Records

_T = TypeVar("_T")

MAX_JOBS_PER_TRANSACTION = 256
"""Maximum number of jobs in one transaction."""

Outcome = tuple[Any, Exception | None]
"""(result, None), or (None, exception of the job)."""


ERASE_SECONDS = 1.0
"""Minimum time between attempts to erase the remains of deleted sessions."""

CLOSE_SECONDS = 2.0
"""Time that closing a store may spend on erasing them."""

_QueuedJob = tuple[Callable[[Records], Any], Future[Any], str | None, str | None, bool]
"""Job, future of its result, session id and key that it will look up, and whether it only reads."""


class StoreUnavailable(Exception):
    """Report that the store cannot be read or written now; the request may be repeated."""


class _PartialWrite(Exception):
    """Signal that a job failed after it had written."""


class Store:
    """Database with one thread that runs all jobs."""

    def __init__(self, address: str | Path) -> None:
        self.address = str(address)
        self.database = open_database(address)
        # A previous process may have been killed before it erased deleted rows.
        self._has_remains, self._last_erase = True, -ERASE_SECONDS
        self._jobs: queue.SimpleQueue[_QueuedJob | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run_loop, name="store", daemon=True)
        self._thread.start()

    def submit(
        self,
        job: Callable[[Records], _T],
        session: str | None = None,
        key: str | None = None,
        *,
        only_reads: bool = False,
    ) -> Future[_T]:
        """Run a job in a transaction; the result is available once it is durable. A job may run more than once.

        Args:
            job: Function of the records of the transaction.
            session: Id of the session that the job looks up, for prefetching.
            key: Idempotency key that the job looks up, for prefetching.
            only_reads: Whether the job writes nothing. It then shares no transaction with writing jobs, which may fail.
        """
        future: Future[_T] = Future()
        self._jobs.put((job, future, session, key, only_reads))
        return future

    def close(self) -> None:
        """Finish the queued jobs, erase the remains of deleted sessions, and close the database."""
        self._jobs.put(None)
        self._thread.join()
        until = time.monotonic() + CLOSE_SECONDS
        while self._has_remains and time.monotonic() < until:
            self._erase()
            time.sleep(0.05 if self._has_remains else 0.0)
        self.database.close()

    def _run_loop(self) -> None:
        """Take batches of jobs until the end mark; readers and writers get separate transactions."""
        while True:
            batch = self._next_batch()
            jobs = [job for job in batch if job is not None and job[1].set_running_or_notify_cancel()]
            # Writers first: readers then see the newest state.
            for only_reads in (False, True):
                group = [job for job in jobs if job[4] == only_reads]
                if group:
                    self._commit(group, only_reads)
            self._erase_in_time()
            if None in batch:
                return

    def _next_batch(self) -> list[_QueuedJob | None]:
        """Wait for a job and return all waiting ones; return none if there is something to erase."""
        try:
            # While one transaction is being flushed, the next jobs queue up. The batch size therefore adapts to
            # the load.
            batch = [self._jobs.get(timeout=ERASE_SECONDS if self._has_remains else None)]
        except queue.Empty:
            return []
        while len(batch) < MAX_JOBS_PER_TRANSACTION and not self._jobs.empty():
            batch.append(self._jobs.get())
        return batch

    def _erase_in_time(self) -> None:
        """Erase the remains of deleted sessions, unless the last attempt is too recent."""
        if self._has_remains and time.monotonic() - self._last_erase >= ERASE_SECONDS:
            self._erase()

    def _erase(self) -> None:
        """Try to erase the remains of deleted sessions and remember whether that worked."""
        try:
            self._has_remains = not self.database.erase()
        # A failure of the database concerns the whole transaction and not this job.
        except self.database.exceptions:
            self._has_remains = True
        self._last_erase = time.monotonic()

    def _commit(self, batch: list[_QueuedJob], only_reads: bool) -> None:
        """Run a batch in a transaction and set the results of its jobs after the commit."""
        try:
            outcomes = self._run_batch(batch, only_reads)
            # Before the results are set: a client that gets the answer may rely on the deletion.
            self._erase_in_time()
        except self.database.exceptions as database_error:
            self.database.roll_back()
            for _, future, *_ in batch:
                future.set_exception(StoreUnavailable(str(database_error)))
            return
        for (_, future, *_), (result, error) in zip(batch, outcomes, strict=True):
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def _run_batch(self, batch: list[_QueuedJob], only_reads: bool) -> list[Outcome]:
        """Run the jobs of a batch in one transaction; repeat it with savepoints if a job failed after writing."""
        ids = list(dict.fromkeys(session for _, _, session, *_ in batch if session is not None))
        keys = list(dict.fromkeys(key for *_, key, _ in batch if key is not None))
        # Savepoints cost two statements per job and failures after a write are rare, so they are used in the
        # second attempt only.
        for run in (self._run, self._run_in_savepoint):
            if only_reads:
                self.database.begin_snapshot(by_key=True)
            else:
                self.database.begin()
            records = Records(self.database)
            try:
                # For one job, prefetching would not save a query.
                if len(batch) > 1:
                    records.prefetch(ids, keys)
                outcomes = [run(job, records) for job, *_ in batch]
                records.flush()
            except _PartialWrite:
                self.database.roll_back()
                continue
            self.database.commit()
            self._has_remains |= records.deleted > 0
            return outcomes
        raise AssertionError("jobs in savepoints are never partially written")

    def _run(self, job: Callable[[Records], Any], records: Records) -> Outcome:
        """Run a job; raise ``_PartialWrite`` if it fails after it has written."""
        before = records.writes
        try:
            return job(records), None
        except self.database.exceptions:
            raise
        except Exception as error:
            if records.writes > before:
                raise _PartialWrite from error
            return None, error

    def _run_in_savepoint(self, job: Callable[[Records], Any], records: Records) -> Outcome:
        """Run a job in a savepoint and undo its writes alone if it fails."""
        records.flush()
        self.database.execute("SAVEPOINT job")
        try:
            outcome: Outcome = job(records), None
        except self.database.exceptions:
            raise
        except Exception as error:
            self.database.execute("ROLLBACK TO job")
            records.reset()
            outcome = None, error
        self.database.execute("RELEASE job")
        return outcome


@contextmanager
def open_snapshot(store: str | Path) -> Iterator[Records]:
    """Open a snapshot of an existing store, however long it is read and whoever else uses it."""
    with closing(open_database(store, new=False)) as database, convert_database_errors(store, database.exceptions):
        database.begin_snapshot()
        yield Records(database)
        database.commit()
