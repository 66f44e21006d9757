"""Where records are kept: an SQLite file for one machine, or PostgreSQL for several servers at once.

Both are asked the same SQL, with ``?`` for values, and many rows are written by one statement. In both one transaction
writes at a time, so what a job has read is still true when it writes, whoever else has the same database open; and a
commit returns when it is on the disk.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from rewardmix._core.checks import InputError, refuse

STORE_ID = 0x726D7831
"""Application id of a file, and the lock that writers of PostgreSQL take."""

SCHEMES = ("postgresql://", "postgres://")
"""How the address of a PostgreSQL begins."""

SCHEMA_OF_STORE = """
CREATE TABLE versions (
    version {whole} PRIMARY KEY, digest TEXT NOT NULL, plan {bytes} NOT NULL, world TEXT NOT NULL,
    added {real} NOT NULL, parent {whole}, learned_from {whole} UNIQUE, state TEXT NOT NULL, reason TEXT NOT NULL,
    evidence TEXT NOT NULL);
CREATE TABLE sessions (
    number {number}, id TEXT NOT NULL UNIQUE, retry_key TEXT UNIQUE, visitor TEXT,
    version {whole} NOT NULL, arm TEXT NOT NULL, touched {real} NOT NULL,
    open {whole} NOT NULL, ended {whole} NOT NULL DEFAULT 0, finished {whole} UNIQUE, paid {whole}, holdout {real});
CREATE INDEX visitors ON sessions (visitor) WHERE visitor IS NOT NULL;
CREATE INDEX ages ON sessions (touched);
CREATE INDEX waiting ON sessions (touched) WHERE open = 1;
CREATE TABLE steps (
    number {whole} NOT NULL, step {whole} NOT NULL, state {whole}, said TEXT,
    action {whole} NOT NULL, propensity {real} NOT NULL, node {whole}, belief TEXT NOT NULL, decided {real} NOT NULL,
    reward {real}, PRIMARY KEY (number, step)){layout};
CREATE TABLE totals (name TEXT PRIMARY KEY, value {whole} NOT NULL);
INSERT INTO totals VALUES ('open', 0), ('finished', 0), ('current', 0), ('given', 0), ('held', 0);
"""
"""Tables; the types of their columns are what the database calls them.

Nothing refers to anything by a constraint: one writer at a time keeps them together, and a check for every step costs
more than the step.
"""

SQLITE_TYPES = {"number": "INTEGER PRIMARY KEY", "whole": "INTEGER", "real": "REAL", "bytes": "BLOB"}
SQLITE_TYPES["layout"] = " WITHOUT ROWID"
POSTGRES_TYPES = {"number": "BIGINT PRIMARY KEY", "whole": "BIGINT", "real": "DOUBLE PRECISION", "bytes": "BYTEA"}
POSTGRES_TYPES["layout"] = " WITH (fillfactor = 60)"
"""What the columns of ``SCHEMA_OF_STORE`` are; and where steps are put: a reward finds room beside its step."""

WAIT_MILLISECONDS, ERASE_MILLISECONDS = 10_000, 50
"""How long who writes to a file waits for others; and who empties its log, since nobody else can write then."""

PATIENCE = {"lock_timeout": "10s", "statement_timeout": "30s", "idle_in_transaction_session_timeout": "30s"}
"""A server that was stopped in the middle of a transaction holds up the others no longer than this."""

BY_KEY = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off"}
BY_KEY |= {"max_parallel_workers_per_gather": "0", "plan_cache_mode": "force_generic_plan"}
"""Jobs ask for few rows by their keys. Without statistics, as in a new store, PostgreSQL would read whole tables."""


HAS_HOLDOUT = "SELECT 1 FROM pg_attribute WHERE attrelid = 'rewardmix.sessions'::regclass AND attname = 'holdout'"
"""Asked before the column is added: to add one waits for all who read, also where it is there."""


@dataclass(frozen=True)
class RowChange:
    """How rows of a table change, any number of them by one statement.

    Attributes:
        table: which.
        columns: that a row has, in this order.
        keys: of these, what the rows that change are found by; none: rows are new.
    """

    table: str
    columns: tuple[str, ...]
    keys: tuple[str, ...] = ()

    def others(self) -> list[str]:
        """The columns that change."""
        return [name for name in self.columns if name not in self.keys]


class Database(Protocol):
    """One connection to where records are kept.

    Attributes:
        failures: what it raises when it cannot do what it is asked.
    """

    failures: type[Exception]

    def ask(self, text: str, values: Sequence[Any] = (), /) -> Any:
        """A cursor with the answer to one statement."""

    def change(self, how: RowChange, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows, or change them."""

    def among(self, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """(what follows a column, its values) for a column that is one of some values."""

    def begin(self) -> None:
        """Begin a transaction that nobody else writes in; connect again if the connection was lost."""

    def look(self, *, by_key: bool = False) -> None:
        """Begin a transaction that sees one moment and writes nothing; ``by_key``: which asks for few rows."""

    def commit(self) -> None:
        """Keep what was written, on the disk."""

    def roll_back(self) -> None:
        """Undo what was written, as far as anything is left to undo."""

    def erase(self) -> bool:
        """Leave nothing of deleted rows in files beside the tables; False: somebody is in the way, ask again later."""

    def close(self) -> None:
        """Give the connection up."""


def open_database(store: str | Path, *, new: bool = True) -> Database:
    """The store at a path or address, made if it is not there (and may be ``new``); refused if it is something else."""
    return PostgresDatabase(str(store), new) if is_address(store) else SqliteFile(Path(store), new)


def is_address(store: str | Path) -> bool:
    """Whether a store is meant by the address of a PostgreSQL."""
    return str(store).startswith(SCHEMES)


def shown_store(store: str | Path) -> str:
    """A store as people may read it: an address without user, password and options."""
    if not is_address(store):
        return str(store)
    parts = urlsplit(str(store))
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"


@cache
def _columns() -> dict[str, frozenset[str]]:
    """The columns of each table of a store, as SQLite reads the statements that make them."""
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(SCHEMA_OF_STORE.format(**SQLITE_TYPES))
        tables = [row[0] for row in empty.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: frozenset(row[1] for row in empty.execute(f"PRAGMA table_info({name})")) for name in tables}


LATER_COLUMNS = frozenset({("sessions", "holdout")})
"""Columns that stores of before lack: a service adds them when it starts, readers do without."""


def _check_columns(store: str | Path, rows: Iterable[tuple[str, str]]) -> None:
    """Refuse a store in which a table or a column is missing: later nothing could be written. Rows: (table, column)."""
    there = set(rows)
    if any(table == "sessions" for table, _ in there):
        there |= LATER_COLUMNS
    for table, columns in _columns().items():
        missing = sorted(columns - {column for name, column in there if name == table})
        if missing:
            without = f"column {table}.{missing[0]}" if len(missing) < len(columns) else f"table {table}"
            refuse("store", f"{shown_store(store)!r} without the {without}", WHOLE_STORE)


WHOLE_STORE = "a store of rewardmix serve that is whole (a copy of it from before it was damaged)"
"""What is expected where a store is damaged."""


@contextmanager
def readable(store: str | Path, *failures: type[Exception]) -> Iterator[None]:
    """Refuse a store that fails while it is read or begun to be used."""
    known: tuple[type[Exception], ...] = (*failures, UnicodeDecodeError)  # SQLite says damaged names as they are
    try:
        yield
    except known as error:
        refuse(
            "store",
            f"{shown_store(store)!r} that fails ({str(error).splitlines()[0] if str(error) else error!r})",
            WHOLE_STORE,
        )


class SqliteFile:
    """An SQLite file with a write-ahead log."""

    failures: type[Exception] = sqlite3.Error

    def __init__(self, path: Path, new: bool) -> None:
        if not new and not is_store(path):
            refuse("store", f"{str(path)!r}", "a store of rewardmix serve")
        connection = None
        try:
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            connection.execute(f"PRAGMA busy_timeout={WAIT_MILLISECONDS}")
            _prepare(connection, path)
            if new:
                _add_columns(connection)
        except (sqlite3.Error, UnicodeDecodeError, InputError) as error:
            if connection is not None:
                connection.close()
            if isinstance(error, InputError):
                raise
            expected = "a store of rewardmix serve, or a new file"
            refuse("store", f"{str(path)!r} that cannot be opened ({error})", expected)
        self._connection = connection
        self.ask = connection.execute

    def change(self, how: RowChange, rows: Sequence[tuple[Any, ...]]) -> None:
        """See ``Database``."""
        self._connection.executemany(_sqlite_change(how), rows)

    def among(self, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """See ``Database``."""
        return f"IN ({', '.join('?' * len(values))})", tuple(values)

    def begin(self) -> None:
        """See ``Database``."""
        self.ask("BEGIN IMMEDIATE")

    def look(self, *, by_key: bool = False) -> None:
        """See ``Database``."""
        self.ask("BEGIN")

    def commit(self) -> None:
        """See ``Database``."""
        self.ask("COMMIT")

    def roll_back(self) -> None:
        """See ``Database``."""
        with suppress(sqlite3.Error):  # the next BEGIN tells
            if self._connection.in_transaction:
                self.ask("ROLLBACK")

    def erase(self) -> bool:
        """See ``Database``. The write-ahead log has rows as they were: its pages go to the tables, and it is emptied.

        Nobody writes meanwhile, so it waits for those who read only shortly.
        """
        self.ask(f"PRAGMA busy_timeout={ERASE_MILLISECONDS}")
        try:
            return not self.ask("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.Error:  # a full disk, or somebody who writes: both pass
            return False
        finally:
            self.ask(f"PRAGMA busy_timeout={WAIT_MILLISECONDS}")

    def close(self) -> None:
        """See ``Database``."""
        self._connection.close()


@cache
def _sqlite_change(how: RowChange) -> str:
    place = {name: f"?{index + 1}" for index, name in enumerate(how.columns)}
    if not how.keys:
        return f"INSERT INTO {how.table} ({', '.join(place)}) VALUES ({', '.join(place.values())})"
    changed = ", ".join(f"{name} = {place[name]}" for name in how.others())
    return f"UPDATE {how.table} SET {changed} WHERE " + " AND ".join(f"{name} = {place[name]}" for name in how.keys)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Tables where there are none; and what is written is on disk before it is acknowledged."""
    (found,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if found != STORE_ID and tables:
        refuse("store", f"another database in {str(path)!r}", "a store of rewardmix serve, or a new file")
    connection.execute("PRAGMA synchronous=FULL")
    if not tables:  # before there is a write-ahead log, so that the file itself says what it is
        schema = SCHEMA_OF_STORE.format(**SQLITE_TYPES)
        connection.executescript(f"BEGIN;{schema}PRAGMA application_id={STORE_ID};COMMIT;")
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    columns = "SELECT name FROM pragma_table_info(?)"
    _check_columns(path, [(table, row[0]) for table in names for row in connection.execute(columns, (table,))])
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA secure_delete=ON")


def _add_columns(connection: sqlite3.Connection) -> None:
    """What sessions of a store of before do not have yet; readers do without, and change nothing."""
    columns = "SELECT name FROM pragma_table_info('sessions')"
    if ("holdout",) in connection.execute(columns).fetchall():
        return
    connection.execute("BEGIN IMMEDIATE")
    if ("holdout",) not in connection.execute(columns).fetchall():  # another server may have started just now
        connection.execute("ALTER TABLE sessions ADD COLUMN holdout REAL")
    connection.execute("COMMIT")


def is_store(path: str | Path) -> bool:
    """Whether a path is a store: an SQLite file with its application id, or the address of a PostgreSQL."""
    if is_address(path):
        return True
    try:
        with open(path, "rb") as file:
            head = file.read(72)
    except (OSError, ValueError):
        return False
    return head.startswith(b"SQLite format 3\0") and head[68:72] == STORE_ID.to_bytes(4, "big")


class PostgresDatabase:
    """A schema called rewardmix in a PostgreSQL. Transactions that write take one lock, so that they come in a row.

    Statements wait until somebody asks for rows, and are sent together: a transaction that reads once and writes is two
    ways to the server and back. The server prepares each once, and is told only its name and values from then on.
    """

    def __init__(self, address: str, new: bool) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise ImportError("PostgreSQL needs psycopg: pip install 'rewardmix[postgres]'") from error
        self._library, self._address = psycopg, address
        self._waiting: list[str] = []
        self._prepared: dict[str, str] = {}
        self.failures: type[Exception] = psycopg.Error
        try:
            self._connection = self._connect()
            self._prepare(new)
        except psycopg.Error as error:
            found = f"{shown_store(address)!r} that cannot be opened ({str(error).splitlines()[0]})"
            refuse("store", found, "the address of a PostgreSQL: postgresql://USER@HOST/DATABASE")

    def _connect(self) -> Any:
        connection = self._library.connect(
            self._address,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=5,
            application_name=f"rewardmix {os.getpid()}",
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
        )
        settings = {**PATIENCE, **BY_KEY, "synchronous_commit": "on", "search_path": "rewardmix"}
        connection.execute("; ".join(f"SET {name} = '{value}'" for name, value in settings.items()))
        return connection

    def _prepare(self, new: bool) -> None:
        """Tables where there are none."""
        self.begin()
        (found,) = self.ask("SELECT to_regclass('rewardmix.totals')").fetchone()
        if found is None and not new:
            self.close()
            refuse("store", repr(shown_store(self._address)), "a store of rewardmix serve")
        if found is None:
            self.ask("CREATE SCHEMA IF NOT EXISTS rewardmix")
            for statement in SCHEMA_OF_STORE.format(**POSTGRES_TYPES).strip().rstrip(";").split(";"):
                self.ask(statement)
        elif new and not self.ask(HAS_HOLDOUT).fetchall():  # a store of before; who only reads does without
            self.ask("ALTER TABLE rewardmix.sessions ADD COLUMN holdout DOUBLE PRECISION")
        columns = "SELECT table_name::text, column_name::text FROM information_schema.columns"
        rows = self.ask(f"{columns} WHERE table_schema = 'rewardmix'").fetchall()
        self.commit()
        try:
            _check_columns(self._address, rows)
        except InputError:
            self.close()
            raise

    def ask(self, text: str, values: Sequence[Any] = (), /) -> Any:
        """See ``Database``."""
        rows = text.startswith("SELECT")
        self._waiting.append(self._called(text, values) if rows or values else text)
        return self._send() if rows else None

    def change(self, how: RowChange, rows: Sequence[tuple[Any, ...]]) -> None:
        """See ``Database``."""
        named = [dict(zip(how.columns, row, strict=True)) for row in rows]
        self._waiting.append(self._called(_postgres_change(how), (json.dumps(named),)))

    def among(self, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """See ``Database``."""
        return "= ANY(?)", (list(values),)

    def _called(self, text: str, values: Sequence[Any]) -> str:
        """A statement by the name that it is prepared under."""
        name = self._prepared.get(text)
        if name is None:
            name = self._prepared[text] = f"statement_{len(self._prepared)}"
            parts = text.split("?")
            numbered = "".join(f"{part}${index + 1}" for index, part in enumerate(parts[:-1])) + parts[-1]
            self._waiting.append(f"PREPARE {name} AS {numbered}")
        if not values:
            return f"EXECUTE {name}"
        places = ", ".join(["%s"] * len(values))
        return str(self._library.ClientCursor(self._connection).mogrify(f"EXECUTE {name} ({places})", values))

    def _send(self) -> Any:
        """Send what waits; a cursor with the answer to the last statement."""
        text = ";".join(self._waiting)
        self._waiting.clear()
        cursor = self._connection.execute(text)
        while cursor.nextset():
            pass
        return cursor

    def begin(self) -> None:
        """See ``Database``."""
        self._connect_again()
        self._waiting = ["BEGIN", f"SELECT pg_advisory_xact_lock({STORE_ID})"]

    def look(self, *, by_key: bool = False) -> None:
        """See ``Database``."""
        self._connect_again()
        self._waiting = ["BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"]
        if not by_key:  # who looks at everything does it in any way
            self._waiting += [f"SET LOCAL {name} = DEFAULT" for name in BY_KEY]

    def _connect_again(self) -> None:
        if self._connection.closed:
            self._connection = self._connect()
            self._prepared.clear()

    def commit(self) -> None:
        """See ``Database``."""
        self._waiting.append("COMMIT")
        self._send()

    def roll_back(self) -> None:
        """See ``Database``."""
        self._prepared.clear()
        self._waiting = ["ROLLBACK", "DEALLOCATE ALL"]  # what was not sent was not prepared
        try:
            if not self._connection.closed:
                self._send()
        except self.failures:
            self.close()  # the next transaction connects again

    def erase(self) -> bool:
        """See ``Database``. What is left of deleted rows is for the server's VACUUM."""
        return True

    def close(self) -> None:
        """See ``Database``."""
        self._connection.close()


@cache
def _postgres_change(how: RowChange) -> str:
    """Rows go over as one JSON text, which has the types of the table in the end, and every digit."""
    names, new = ", ".join(how.columns), f"json_populate_recordset(NULL::{how.table}, ?::json) AS new"
    if not how.keys:
        return f"INSERT INTO {how.table} ({names}) SELECT {names} FROM {new}"
    changed = ", ".join(f"{name} = new.{name}" for name in how.others())
    found = " AND ".join(f"{how.table}.{name} = new.{name}" for name in how.keys)
    return f"UPDATE {how.table} SET {changed} FROM {new} WHERE {found}"
