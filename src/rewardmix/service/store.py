"""The store of a service: one thread that works on its records.

It takes all jobs that wait, runs them in one transaction, and tells their results only when the commit is on the disk:
what was acknowledged survives a kill and a cut of the power. A job reads, decides and writes as one, so nothing comes
between.
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

from rewardmix.service.databases import open_database, readable
from rewardmix.service.records import Records

_T = TypeVar("_T")

AT_ONCE = 256
"""Most jobs of one transaction."""

Outcome = tuple[Any, Exception | None]
"""(result, None), or (None, why a job failed)."""


ERASE_SECONDS = 1.0
"""From one try to erase what is left of deleted sessions to the next."""

CLOSE_SECONDS = 2.0
"""How long a store that is closed tries to."""

_Asked = tuple[Callable[[Records], Any], Future[Any], str | None, str | None, bool]
"""A job, where its result goes, the session or the key that it will ask for, and whether it only reads."""


class StoreDown(Exception):
    """The store cannot be written or read now. What was asked may be sent again."""


class _HalfDone(Exception):
    """A job failed after it had written."""


class Store:
    """A database with one thread that works on it."""

    def __init__(self, place: str | Path) -> None:
        self.place = str(place)
        self.database = open_database(place)
        self._remains, self._tried = True, -ERASE_SECONDS  # whoever was killed before may have left something
        self._jobs: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="store", daemon=True)
        self._thread.start()

    def submit(
        self,
        job: Callable[[Records], _T],
        session: str | None = None,
        key: str | None = None,
        *,
        only_reads: bool = False,
    ) -> Future[_T]:
        """Run a job in a transaction; its result is there when it is durable. A job may be run more than once.

        Args:
            job: what to do.
            session: id of the one that it will ask for, which is read with those of other jobs.
            key: of the session that it will begin, if it is not there.
            only_reads: it writes nothing, and shares no transaction with jobs that write: theirs may fail.
        """
        future: Future[_T] = Future()
        self._jobs.put((job, future, session, key, only_reads))
        return future

    def close(self) -> None:
        """Finish what waits, erase what is left of deleted sessions, and close the database."""
        self._jobs.put(None)
        self._thread.join()
        until = time.monotonic() + CLOSE_SECONDS
        while self._remains and time.monotonic() < until:
            self._erase()
            time.sleep(0.05 if self._remains else 0.0)
        self.database.close()

    def _work(self) -> None:
        while True:
            batch = self._next()
            asked = [one for one in batch if one is not None and one[1].set_running_or_notify_cancel()]
            for only_reads in (False, True):
                together = [one for one in asked if one[4] == only_reads]
                if together:
                    self._commit(together, only_reads)
            self._erase_in_time()
            if None in batch:
                return

    def _next(self) -> list[_Asked | None]:
        """Jobs that wait, once there is one; none where something has to be erased meanwhile."""
        try:
            batch = [self._jobs.get(timeout=ERASE_SECONDS if self._remains else None)]
        except queue.Empty:
            return []
        while len(batch) < AT_ONCE and not self._jobs.empty():
            batch.append(self._jobs.get())
        return batch

    def _erase_in_time(self) -> None:
        """Erase what is left of deleted sessions: at once, but only so often."""
        if self._remains and time.monotonic() - self._tried >= ERASE_SECONDS:
            self._erase()

    def _erase(self) -> None:
        try:
            self._remains = not self.database.erase()
        except self.database.failures:
            self._remains = True
        self._tried = time.monotonic()

    def _commit(self, batch: list[_Asked], only_reads: bool) -> None:
        try:
            outcomes = self._outcomes(batch, only_reads)
            self._erase_in_time()  # before anybody is told that something is deleted
        except self.database.failures as error:
            self.database.roll_back()
            for _, future, *_ in batch:
                future.set_exception(StoreDown(str(error)))
            return
        for (_, future, *_), (result, failure) in zip(batch, outcomes, strict=True):
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

    def _outcomes(self, batch: list[_Asked], only_reads: bool) -> list[Outcome]:
        """What jobs come to in one transaction; only where one has to be undone alone, each with a way back."""
        ids = list(dict.fromkeys(session for _, _, session, *_ in batch if session is not None))
        keys = list(dict.fromkeys(key for *_, key, _ in batch if key is not None))
        for run in (self._run, self._run_with_way_back):
            if only_reads:
                self.database.look(by_key=True)
            else:
                self.database.begin()
            records = Records(self.database)
            try:
                if len(batch) > 1:
                    records.read_ahead(ids, keys)
                outcomes = [run(job, records) for job, *_ in batch]
                records.flush()
            except _HalfDone:
                self.database.roll_back()
                continue
            self.database.commit()
            self._remains |= records.deleted > 0
            return outcomes
        raise AssertionError("a job with a way back is never half done")

    def _run(self, job: Callable[[Records], Any], records: Records) -> Outcome:
        before = records.writes
        try:
            return job(records), None
        except self.database.failures:
            raise
        except Exception as error:
            if records.writes > before:
                raise _HalfDone from error
            return None, error

    def _run_with_way_back(self, job: Callable[[Records], Any], records: Records) -> Outcome:
        records.flush()
        self.database.ask("SAVEPOINT job")
        try:
            outcome: Outcome = job(records), None
        except self.database.failures:
            raise
        except Exception as error:
            self.database.ask("ROLLBACK TO job")
            records.forget()
            outcome = None, error
        self.database.ask("RELEASE job")
        return outcome


@contextmanager
def reading_store(place: str | Path) -> Iterator[Records]:
    """One moment of a store that is there, however long somebody reads and whoever else uses it."""
    with closing(open_database(place, new=False)) as database, readable(place, database.failures):
        database.look()
        yield Records(database)
        database.commit()
