"""Stores of an older schema: refused with a message that says what to do, and left as they are."""

import sqlite3
from contextlib import closing

import pytest

from helpers.postgres_server import place_of
from rewardmix._core.errors import InputError
from rewardmix.service import Store, export_log
from rewardmix.service.databases import SCHEMA_VERSION

REFUSED = (
    rf"^store: got .* of schema 1, expected a store of schema {SCHEMA_VERSION}; export it with the version of "
    r"rewardmix that wrote it, and start the service with a new store$"
)


def make_old_totals(execute, table):
    """Change a new store to what schema 1 had: no schema version, and other names of columns."""
    execute(f"DELETE FROM {table}totals WHERE name = 'schema_version'")
    execute(f"ALTER TABLE {table}sessions RENAME COLUMN user_hash TO visitor")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_stores_of_an_older_schema_are_refused(kind, request, tmp_path):
    place = place_of(kind, request)
    Store(place).close()
    if kind == "sqlite":
        with closing(sqlite3.connect(place)) as database:
            make_old_totals(database.execute, "")
            database.commit()
    else:
        make_old_totals(request.getfixturevalue("postgres").sql, "rewardmix.")
    with pytest.raises(InputError, match=REFUSED):
        Store(place)
    with pytest.raises(InputError, match=REFUSED):
        export_log(place, tmp_path / "log.parquet")
    assert not (tmp_path / "log.parquet").exists()
    if kind == "postgres":
        place_of(kind, request)


def test_stores_of_a_newer_schema_are_refused(tmp_path):
    place = tmp_path / "sessions.sqlite"
    Store(place).close()
    with closing(sqlite3.connect(place)) as database:
        database.execute("UPDATE totals SET value = 99 WHERE name = 'schema_version'")
        database.commit()
    with pytest.raises(InputError, match="of schema 99, expected a store of schema"):
        Store(place)
