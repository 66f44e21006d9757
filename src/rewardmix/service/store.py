"""What a service remembers: versions of the policy, sessions and their steps, in an SQLite file.

One thread writes. It takes all jobs that wait, runs them in one transaction, and tells their results only when the
commit is on the disk (write-ahead log, ``synchronous=FULL``): what was acknowledged survives a kill and a cut of the
power. A job reads, decides and writes as one, so nothing comes between.
"""

from __future__ import annotations

import json
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rewardmix._core.checks import refuse
from rewardmix.service.deciding import Decided

_T = TypeVar("_T")

STORE_ID = 0x726D7831
"""Application id of the file."""

AT_ONCE = 256
"""Most jobs of one transaction."""

SCHEMA_OF_STORE = """
CREATE TABLE versions (
    version INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, plan BLOB NOT NULL, world TEXT NOT NULL,
    added REAL NOT NULL);
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, retry_key TEXT UNIQUE,
    version INTEGER NOT NULL REFERENCES versions, arm TEXT NOT NULL, touched REAL NOT NULL,
    open INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0);
CREATE INDEX waiting ON sessions (touched) WHERE open = 1;
CREATE TABLE steps (
    number INTEGER NOT NULL REFERENCES sessions, step INTEGER NOT NULL, state INTEGER, said TEXT,
    action INTEGER NOT NULL, propensity REAL NOT NULL, node INTEGER, belief TEXT NOT NULL, decided REAL NOT NULL,
    reward REAL, PRIMARY KEY (number, step)) WITHOUT ROWID;
CREATE TABLE totals (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO totals VALUES ('open', 0);
"""


_STEP = "step, state, action, propensity, node, belief, said, reward"
"""Columns of a step, as ``_step_of`` takes them."""


class StoreDown(Exception):
    """The store cannot be written or read now; nothing of the job was kept."""


@dataclass(frozen=True)
class SessionRow:
    """A session as it is stored.

    Attributes:
        number: in the order of their beginnings.
        id: what its owner knows it by.
        version: of the policy that it follows to its end.
        arm: which policy of that version.
        open: whether it counts as open: neither ended nor idle.
        ended: whether its owner ended it.
    """

    number: int
    id: str
    version: int
    arm: str
    open: bool
    ended: bool


@dataclass(frozen=True)
class StepRow:
    """A step as it is stored.

    Attributes:
        choice: what was decided.
        said: the state as it was told, where the plan does not know it.
        reward: None as long as nobody told it.
    """

    choice: Decided
    said: str | None
    reward: float | None


class Records:
    """What a job may ask and change."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._ask = connection.execute

    def version_of(self, digest: str, plan: bytes, world: str, now: float) -> int:
        """The number of a policy, stored if it is new."""
        found = self._ask("SELECT version FROM versions WHERE digest = ?", (digest,)).fetchone()
        if found is None:
            row = (digest, plan, world, now)
            added = self._ask("INSERT INTO versions (digest, plan, world, added) VALUES (?, ?, ?, ?)", row)
            return int(added.lastrowid or 0)
        return int(found[0])

    def worlds(self) -> list[str]:
        """What the versions say of their states, actions and reward values, each once."""
        return [str(row[0]) for row in self._ask("SELECT DISTINCT world FROM versions")]

    def plan_of(self, version: int) -> bytes:
        """The stored plan of a version."""
        return bytes(self._ask("SELECT plan FROM versions WHERE version = ?", (version,)).fetchone()[0])

    def session(self, id: str) -> SessionRow | None:
        """A session by its id."""
        return self._session("id", id)

    def session_of_key(self, key: str) -> SessionRow | None:
        """A session by the key that it was begun with."""
        return self._session("retry_key", key)

    def _session(self, column: str, value: str) -> SessionRow | None:
        columns = "number, id, version, arm, open, ended"
        row = self._ask(f"SELECT {columns} FROM sessions WHERE {column} = ?", (value,)).fetchone()
        return None if row is None else SessionRow(row[0], row[1], row[2], row[3], bool(row[4]), bool(row[5]))

    def add_session(self, id: str, key: str | None, version: int, arm: str, now: float) -> SessionRow:
        """A new session."""
        row = (id, key, version, arm, now)
        added = self._ask(
            "INSERT INTO sessions (id, retry_key, version, arm, touched, open) VALUES (?, ?, ?, ?, ?, 1)", row
        )
        self._count_open(1)
        return SessionRow(int(added.lastrowid or 0), id, version, arm, True, False)

    def step(self, number: int, step: int | None = None) -> StepRow | None:
        """A step of a session; the last one if none is named."""
        which, values = ("", (number,)) if step is None else (" AND step = ?", (number, step))
        text = f"SELECT {_STEP} FROM steps WHERE number = ?{which} ORDER BY step DESC LIMIT 1"
        row = self._ask(text, values).fetchone()
        return None if row is None else _step_of(row)

    def steps(self, number: int) -> list[StepRow]:
        """All steps of a session."""
        rows = self._ask(f"SELECT {_STEP} FROM steps WHERE number = ? ORDER BY step", (number,))
        return [_step_of(row) for row in rows]

    def add_step(self, session: SessionRow, choice: Decided, said: str | None, now: float) -> None:
        """A new choice of a session."""
        self._ask(
            "INSERT INTO steps (number, step, state, said, action, propensity, node, belief, decided) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                session.number,
                choice.step,
                choice.state,
                said,
                choice.action,
                choice.propensity,
                choice.node,
                json.dumps(choice.belief),
                now,
            ),
        )
        self._ask("UPDATE sessions SET touched = ?, open = 1 WHERE number = ?", (now, session.number))
        self._count_open(not session.open)

    def pay(self, number: int, step: int, reward: float) -> None:
        """The reward of a step that had none."""
        self._ask("UPDATE steps SET reward = ? WHERE number = ? AND step = ?", (reward, number, step))

    def end(self, session: SessionRow, now: float) -> None:
        """Nothing follows in this session."""
        self._ask("UPDATE sessions SET touched = ?, open = 0, ended = 1 WHERE number = ?", (now, session.number))
        self._count_open(-session.open)

    def delete(self, session: SessionRow) -> None:
        """Remove a session and all of its steps."""
        self._ask("DELETE FROM steps WHERE number = ?", (session.number,))
        self._ask("DELETE FROM sessions WHERE number = ?", (session.number,))
        self._count_open(-session.open)

    def count_open(self) -> int:
        """How many sessions are open."""
        return int(self._ask("SELECT value FROM totals WHERE name = 'open'").fetchone()[0])

    def count_sessions(self) -> int:
        """How many sessions are stored."""
        return int(self._ask("SELECT COUNT(*) FROM sessions").fetchone()[0])

    def close_idle(self, before: float, most: int) -> int:
        """Count sessions that were last heard of before some time as open no more; how many they were."""
        closed = self._ask(
            "UPDATE sessions SET open = 0 WHERE number IN "
            "(SELECT number FROM sessions WHERE open = 1 AND touched < ? ORDER BY touched LIMIT ?)",
            (before, most),
        ).rowcount
        self._count_open(-closed)
        return closed

    def _count_open(self, change: int) -> None:
        if change:
            self._ask("UPDATE totals SET value = value + ? WHERE name = 'open'", (int(change),))

    def paid_rows(self) -> Iterator[tuple[Any, ...]]:
        """(id, step, state, action, reward, propensity, version, arm, next state) of each step with a reward."""
        return iter(
            self._ask(
                "SELECT sessions.id, steps.step, steps.state, steps.action, steps.reward, steps.propensity, version, "
                "arm, after.state FROM sessions JOIN steps USING (number) LEFT JOIN steps AS after "
                "ON after.number = steps.number AND after.step = steps.step + 1 "
                "WHERE steps.reward IS NOT NULL ORDER BY steps.number, steps.step"
            )
        )


def _step_of(row: tuple[Any, ...]) -> StepRow:
    step, state, action, propensity, node, belief, said, reward = row
    return StepRow(Decided(step, state, action, propensity, node, tuple(json.loads(belief))), said, reward)


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
