"""Connect to the database of a service: an SQLite file for one machine, PostgreSQL for several servers.

Both get identical SQL with ``?`` as placeholder, and write many rows with one statement. Only one transaction writes at
a time, in all processes. What a job has read is therefore still true when it writes. ``commit`` returns after the data
are on disk.
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

from rewardmix._core.checks import InputError, raise_input_error

STORE_ID = 0x726D7831
"""Application id in the header of an SQLite file, and the advisory lock of writers in PostgreSQL."""

SCHEMES = ("postgresql://", "postgres://")
"""URL schemes of PostgreSQL."""

SCHEMA_VERSION = 2
"""Version of the tables. It increases when the name or the meaning of a column changes."""

STORE_SCHEMA = """
CREATE TABLE versions (
    version {whole} PRIMARY KEY, digest TEXT NOT NULL, policy {bytes} NOT NULL, spec TEXT NOT NULL,
    created_at {real} NOT NULL, parent {whole}, num_training_sessions {whole} UNIQUE, state TEXT NOT NULL,
    reason TEXT NOT NULL, evidence TEXT NOT NULL);
CREATE TABLE sessions (
    number {number}, id TEXT NOT NULL UNIQUE, idempotency_key TEXT UNIQUE, user_hash TEXT,
    version {whole} NOT NULL, arm TEXT NOT NULL, last_seen {real} NOT NULL,
    open {whole} NOT NULL, ended {whole} NOT NULL DEFAULT 0, finished {whole} UNIQUE, num_rewards {whole},
    holdout {real});
CREATE INDEX sessions_by_user ON sessions (user_hash) WHERE user_hash IS NOT NULL;
CREATE INDEX sessions_by_last_seen ON sessions (last_seen);
CREATE INDEX open_sessions_by_last_seen ON sessions (last_seen) WHERE open = 1;
CREATE TABLE steps (
    number {whole} NOT NULL, step {whole} NOT NULL, state {whole}, raw_state TEXT,
    action {whole} NOT NULL, propensity {real} NOT NULL, node {whole}, belief TEXT NOT NULL,
    decided_at {real} NOT NULL, reward {real}, PRIMARY KEY (number, step)){layout};
CREATE TABLE totals (name TEXT PRIMARY KEY, value {whole} NOT NULL);
INSERT INTO totals VALUES ('schema_version', {schema_version}), ('open', 0), ('finished', 0), ('active_version', 0),
    ('initial_version', 0), ('pinned', 0);
"""
"""Statements that create the tables; placeholders are the column types of the database and the schema version.

There are no foreign keys. One writer at a time keeps the tables consistent, and a check for every step costs more than
the insertion of the step.
"""

SQLITE_TYPES = {
    "schema_version": str(SCHEMA_VERSION),
    "number": "INTEGER PRIMARY KEY",
    "whole": "INTEGER",
    "real": "REAL",
    "bytes": "BLOB",
}
SQLITE_TYPES["layout"] = " WITHOUT ROWID"
POSTGRES_TYPES = {
    "schema_version": str(SCHEMA_VERSION),
    "number": "BIGINT PRIMARY KEY",
    "whole": "BIGINT",
    "real": "DOUBLE PRECISION",
    "bytes": "BYTEA",
}
POSTGRES_TYPES["layout"] = " WITH (fillfactor = 60)"
"""Column types of ``STORE_SCHEMA``. The fill factor leaves room to store a reward on the page of its step."""

WAIT_MILLISECONDS, ERASE_MILLISECONDS = 10_000, 50
"""Lock timeouts in SQLite: for writers, and for emptying the write-ahead log, which blocks all writers."""

TRANSACTION_TIMEOUTS = {"lock_timeout": "10s", "statement_timeout": "30s", "idle_in_transaction_session_timeout": "30s"}
"""Timeouts after which PostgreSQL ends a transaction, so that a suspended server cannot block the others for longer."""

KEY_LOOKUP_SETTINGS = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off"}
KEY_LOOKUP_SETTINGS |= {"max_parallel_workers_per_gather": "0", "plan_cache_mode": "force_generic_plan"}
"""Planner settings of PostgreSQL that force index lookups.

Jobs read few rows by key. In a new store there are no statistics yet, and PostgreSQL would scan whole tables.
"""

VERSION_QUERY = "SELECT value FROM totals WHERE name = 'schema_version'"
"""Query of the schema version; stores of schema 1 have no such row."""


@dataclass(frozen=True)
class RowChange:
    """Kind of change of table rows; one statement applies it to any number of rows.

    Attributes:
        table: Name of the table.
        columns: Columns of a row, in this order.
        keys: Columns that identify the rows to update; empty for insertion.
    """

    table: str
    columns: tuple[str, ...]
    keys: tuple[str, ...] = ()

    def changed_columns(self) -> list[str]:
        """Return the columns that an update sets."""
        return [name for name in self.columns if name not in self.keys]


class Database(Protocol):
    """Connection to the database of a service.

    Attributes:
        exceptions: Exception type that failed statements raise.
    """

    exceptions: type[Exception]

    def execute(self, text: str, values: Sequence[Any] = (), /) -> Any:
        """Execute one statement and return a cursor with its result."""

    def write_rows(self, change: RowChange, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert or update rows."""

    def in_clause(self, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """Return the SQL condition and its values for a column that equals one of some values."""

    def begin(self) -> None:
        """Begin a transaction with the exclusive right to write; reconnect if the connection was lost."""

    def begin_snapshot(self, *, by_key: bool = False) -> None:
        """Begin a read-only transaction on one snapshot; ``by_key`` tells that it reads few rows by key."""

    def commit(self) -> None:
        """Commit and return after all changes are on disk."""

    def roll_back(self) -> None:
        """Roll back the transaction, if one is still open."""

    def erase(self) -> bool:
        """Remove deleted rows from files besides the tables; return False if another connection prevents it now."""

    def close(self) -> None:
        """Close the connection."""


def open_database(store: str | Path, *, new: bool = True) -> Database:
    """Open the store at a path or address and create it if it does not exist and ``new`` allows it.

    Anything that is not a store of the service raises an ``InputError``.
    """
    return PostgresDatabase(str(store), new) if is_address(store) else SqliteDatabase(Path(store), new)


def is_address(store: str | Path) -> bool:
    """Return whether a store is given as a PostgreSQL address."""
    return str(store).startswith(SCHEMES)


def redact_address(store: str | Path) -> str:
    """Format a store for messages: an address without user, password and options."""
    if not is_address(store):
        return str(store)
    url = urlsplit(str(store))
    return f"postgresql://{url.netloc.rpartition('@')[2]}{url.path}"


@cache
def _schema_columns() -> dict[str, frozenset[str]]:
    """Return the columns of each table of the schema, as SQLite parses it."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(STORE_SCHEMA.format(**SQLITE_TYPES))
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: frozenset(row[1] for row in connection.execute(f"PRAGMA table_info({name})")) for name in tables}


def _check_schema_version(store: str | Path, row: tuple[Any, ...] | None) -> None:
    """Raise an ``InputError`` unless a store has the present schema; ``row`` is the result of ``VERSION_QUERY``."""
    version = 1 if row is None else row[0]
    if not isinstance(version, int):
        raise_input_error("store", f"{redact_address(store)!r} with the schema version {version!r}", EXPECTED_STORE)
    if version != SCHEMA_VERSION:
        advice = "export it with the version of rewardmix that wrote it, and start the service with a new store"
        raise_input_error(
            "store", f"{redact_address(store)!r} of schema {version}", f"a store of schema {SCHEMA_VERSION}; {advice}"
        )


def _check_columns(store: str | Path, rows: Iterable[tuple[str, str]]) -> None:
    """Raise an ``InputError`` if a table or column is missing; ``rows`` are the existing (table, column) pairs."""
    existing = set(rows)
    for table, columns in _schema_columns().items():
        missing = sorted(columns - {column for name, column in existing if name == table})
        if missing:
            missing_part = f"column {table}.{missing[0]}" if len(missing) < len(columns) else f"table {table}"
            raise_input_error("store", f"{redact_address(store)!r} without the {missing_part}", EXPECTED_STORE)


EXPECTED_STORE = "an undamaged store of rewardmix serve; restore a backup"
"""Expectation in error messages about a damaged store."""


@contextmanager
def convert_database_errors(store: str | Path, *exception_types: type[Exception]) -> Iterator[None]:
    """Convert database errors during reading or startup to an ``InputError``."""
    # SQLite reports names of a damaged file as raw bytes, which raises UnicodeDecodeError.
    exceptions: tuple[type[Exception], ...] = (*exception_types, UnicodeDecodeError)
    try:
        yield
    except exceptions as error:
        raise_input_error(
            "store",
            f"{redact_address(store)!r} that fails ({str(error).splitlines()[0] if str(error) else error!r})",
            EXPECTED_STORE,
        )


class SqliteDatabase:
    """SQLite file with a write-ahead log."""

    exceptions: type[Exception] = sqlite3.Error

    def __init__(self, path: Path, new: bool) -> None:
        if not new and not is_store(path):
            raise_input_error("store", f"{str(path)!r}", "a store of rewardmix serve")
        connection = None
        try:
            # Autocommit mode: transactions are begun explicitly, with the lock that each of them needs. The
            # thread check is off because the store opens the connection in one thread and uses it in another.
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            connection.execute(f"PRAGMA busy_timeout={WAIT_MILLISECONDS}")
            _prepare(connection, path)
        except (sqlite3.Error, UnicodeDecodeError, InputError) as error:
            # A connection that stays open would hold a lock on the file.
            if connection is not None:
                connection.close()
            if isinstance(error, InputError):
                raise
            expected = "a store of rewardmix serve, or a new file"
            raise_input_error("store", f"{str(path)!r} that cannot be opened ({error})", expected)
        self._connection = connection
        self.execute = connection.execute

    def write_rows(self, change: RowChange, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert or update rows with ``executemany``."""
        self._connection.executemany(_sqlite_statement(change), rows)

    def in_clause(self, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """Return an ``IN (?, ...)`` condition with one placeholder for each value."""
        return f"IN ({', '.join('?' * len(values))})", tuple(values)

    def begin(self) -> None:
        """Begin a transaction that holds the write lock of the file."""
        self.execute("BEGIN IMMEDIATE")

    def begin_snapshot(self, *, by_key: bool = False) -> None:
        """Begin a transaction that reads one snapshot of the write-ahead log."""
        self.execute("BEGIN")

    def commit(self) -> None:
        """Commit the transaction; ``synchronous=FULL`` flushes the log to disk."""
        self.execute("COMMIT")

    def roll_back(self) -> None:
        """Roll back if a transaction is open."""
        # The connection may be broken. Then the next BEGIN fails and reports it.
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self.execute("ROLLBACK")

    def erase(self) -> bool:
        """Move the pages of the write-ahead log to the tables and truncate the log; return whether it succeeded.

        The log still contains deleted rows. Writers wait meanwhile, so the timeout for readers is short.
        """
        self.execute(f"PRAGMA busy_timeout={ERASE_MILLISECONDS}")
        try:
            return not self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        # A full disk or a writer are temporary; the caller tries again later.
        except sqlite3.Error:
            return False
        finally:
            self.execute(f"PRAGMA busy_timeout={WAIT_MILLISECONDS}")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@cache
def _sqlite_statement(change: RowChange) -> str:
    """Build the INSERT or UPDATE statement of a change, with numbered placeholders."""
    placeholders = {name: f"?{index + 1}" for index, name in enumerate(change.columns)}
    # Numbered placeholders let one row tuple serve both the SET and the WHERE part.
    if not change.keys:
        return f"INSERT INTO {change.table} ({', '.join(placeholders)}) VALUES ({', '.join(placeholders.values())})"
    changed = ", ".join(f"{name} = {placeholders[name]}" for name in change.changed_columns())
    return f"UPDATE {change.table} SET {changed} WHERE " + " AND ".join(
        f"{name} = {placeholders[name]}" for name in change.keys
    )


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in a new file and configure durability, the write-ahead log and secure deletion."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if application_id != STORE_ID and tables:
        raise_input_error("store", f"another database {str(path)!r}", "a store of rewardmix serve, or a new file")
    # Acknowledged requests have to survive a power failure: every commit is flushed to disk.
    connection.execute("PRAGMA synchronous=FULL")
    # The application id is written before the write-ahead log is enabled, so that the file itself contains it
    # and is_store can read it.
    if not tables:
        schema = STORE_SCHEMA.format(**SQLITE_TYPES)
        connection.executescript(f"BEGIN;{schema}PRAGMA application_id={STORE_ID};COMMIT;")
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    # Without the table the store is damaged, which the check of the columns reports.
    if "totals" in names:
        with convert_database_errors(path, sqlite3.Error):
            version = connection.execute(VERSION_QUERY).fetchone()
        _check_schema_version(path, version)
    columns = "SELECT name FROM pragma_table_info(?)"
    _check_columns(path, [(table, row[0]) for table in names for row in connection.execute(columns, (table,))])
    connection.execute("PRAGMA journal_mode=WAL")
    # Deleted rows are overwritten with zeros, since deletion is a privacy request.
    connection.execute("PRAGMA secure_delete=ON")


def is_store(path: str | Path) -> bool:
    """Return whether a path is a store: a PostgreSQL address, or an SQLite file with the application id."""
    if is_address(path):
        return True
    try:
        with open(path, "rb") as file:
            # Bytes 68 to 71 of the SQLite header contain the application id. Reading them does not touch locks.
            header = file.read(72)
    except (OSError, ValueError):
        return False
    return header.startswith(b"SQLite format 3\0") and header[68:72] == STORE_ID.to_bytes(4, "big")


class PostgresDatabase:
    """Schema ``rewardmix`` in a PostgreSQL database. Writing transactions take one advisory lock and so run one by one.

    Statements are collected until a result is needed and then sent together: a transaction with one query and some
    writes takes two round trips. Each statement is prepared once; later calls send its name and values only.
    """

    def __init__(self, address: str, new: bool) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise ImportError("PostgreSQL needs psycopg: pip install 'rewardmix[postgres]'") from error
        self._library, self._address = psycopg, address
        self._collected: list[str] = []
        self._prepared: dict[str, str] = {}
        self.exceptions: type[Exception] = psycopg.Error
        try:
            self._connection = self._connect()
            self._prepare(new)
        except psycopg.Error as error:
            actual = f"{redact_address(address)!r} that cannot be opened ({str(error).splitlines()[0]})"
            raise_input_error("store", actual, "a PostgreSQL address, postgresql://USER@HOST/DATABASE")

    def _connect(self) -> Any:
        """Open a connection with timeouts, planner settings and search path."""
        connection = self._library.connect(
            self._address,
            # psycopg would otherwise begin transactions and prepare statements by itself.
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=5,
            application_name=f"rewardmix {os.getpid()}",
            # A dead server is noticed after about 25 seconds instead of the two hours that systems wait by default.
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
        )
        settings = {
            **TRANSACTION_TIMEOUTS,
            **KEY_LOOKUP_SETTINGS,
            "synchronous_commit": "on",
            "search_path": "rewardmix",
        }
        connection.execute("; ".join(f"SET {name} = '{value}'" for name, value in settings.items()))
        return connection

    def _prepare(self, new: bool) -> None:
        """Create the tables if they do not exist, and check them."""
        self.begin()
        (table,) = self.execute("SELECT to_regclass('rewardmix.totals')").fetchone()
        if table is None and not new:
            self.close()
            raise_input_error("store", repr(redact_address(self._address)), "a store of rewardmix serve")
        if table is None:
            self.execute("CREATE SCHEMA IF NOT EXISTS rewardmix")
            for statement in STORE_SCHEMA.format(**POSTGRES_TYPES).strip().rstrip(";").split(";"):
                self.execute(statement)
        columns = "SELECT table_name::text, column_name::text FROM information_schema.columns"
        rows = self.execute(f"{columns} WHERE table_schema = 'rewardmix'").fetchall()
        version = self.execute(VERSION_QUERY).fetchone()
        self.commit()
        try:
            _check_schema_version(self._address, version)
            _check_columns(self._address, rows)
        except InputError:
            self.close()
            raise

    def execute(self, text: str, values: Sequence[Any] = (), /) -> Any:
        """Execute a statement; only SELECT is sent at once, other statements are collected."""
        is_query = text.startswith("SELECT")
        # BEGIN, COMMIT and other statements without values are not worth a prepared statement.
        self._collected.append(self._prepared_call(text, values) if is_query or values else text)
        return self._flush() if is_query else None

    def write_rows(self, change: RowChange, rows: Sequence[tuple[Any, ...]]) -> None:
        """Collect a statement that inserts or updates rows, which it takes as one JSON array."""
        # One parameter for all rows: the prepared statement serves batches of any size.
        row_dicts = [dict(zip(change.columns, row, strict=True)) for row in rows]
        self._collected.append(self._prepared_call(_postgres_statement(change), (json.dumps(row_dicts),)))

    def in_clause(self, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """Return an ``= ANY(?)`` condition with one array: the statement serves any number of values."""
        return "= ANY(?)", (list(values),)

    def _prepared_call(self, text: str, values: Sequence[Any]) -> str:
        """Return the EXECUTE call of a statement, after adding its PREPARE if it is new."""
        name = self._prepared.get(text)
        if name is None:
            name = self._prepared[text] = f"statement_{len(self._prepared)}"
            parts = text.split("?")
            numbered = "".join(f"{part}${i + 1}" for i, part in enumerate(parts[:-1])) + parts[-1]
            self._collected.append(f"PREPARE {name} AS {numbered}")
        if not values:
            return f"EXECUTE {name}"
        placeholders = ", ".join(["%s"] * len(values))
        return str(self._library.ClientCursor(self._connection).mogrify(f"EXECUTE {name} ({placeholders})", values))

    def _flush(self) -> Any:
        """Send all collected statements and return a cursor with the result of the last one."""
        text = ";".join(self._collected)
        self._collected.clear()
        cursor = self._connection.execute(text)
        # Errors of later statements are raised while their results are fetched.
        while cursor.nextset():
            pass
        return cursor

    def begin(self) -> None:
        """Begin a transaction and take the advisory lock of writers."""
        self._reconnect_if_closed()
        # The lock is released by the end of the transaction, also if the connection breaks.
        self._collected = ["BEGIN", f"SELECT pg_advisory_xact_lock({STORE_ID})"]

    def begin_snapshot(self, *, by_key: bool = False) -> None:
        """Begin a read-only transaction on one snapshot."""
        self._reconnect_if_closed()
        self._collected = ["BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"]
        # A reader of whole tables is better served by the default planner settings.
        if not by_key:
            self._collected += [f"SET LOCAL {name} = DEFAULT" for name in KEY_LOOKUP_SETTINGS]

    def _reconnect_if_closed(self) -> None:
        """Reconnect if the connection was lost; prepared statements are gone then."""
        if self._connection.closed:
            self._connection = self._connect()
            self._prepared.clear()

    def commit(self) -> None:
        """Send the collected statements with a COMMIT."""
        self._collected.append("COMMIT")
        self._flush()

    def roll_back(self) -> None:
        """Roll back and forget all prepared statements; close the connection if that fails."""
        self._prepared.clear()
        # Statements that were collected but not sent were not prepared, so the names known here and on the
        # server may differ.
        self._collected = ["ROLLBACK", "DEALLOCATE ALL"]
        try:
            if not self._connection.closed:
                self._flush()
        except self.exceptions:
            # The next transaction reconnects.
            self.close()

    def erase(self) -> bool:
        """Return True: PostgreSQL removes deleted rows by its own VACUUM."""
        return True

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@cache
def _postgres_statement(change: RowChange) -> str:
    """Build the INSERT or UPDATE statement of a change.

    Rows are sent as one JSON array and converted to the column types by the server, which preserves all digits of
    numbers.
    """
    names, new = ", ".join(change.columns), f"json_populate_recordset(NULL::{change.table}, ?::json) AS new"
    if not change.keys:
        return f"INSERT INTO {change.table} ({names}) SELECT {names} FROM {new}"
    changed = ", ".join(f"{name} = new.{name}" for name in change.changed_columns())
    conditions = " AND ".join(f"{change.table}.{name} = new.{name}" for name in change.keys)
    return f"UPDATE {change.table} SET {changed} FROM {new} WHERE {conditions}"
