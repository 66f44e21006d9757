"""What survives: kills under load, a full disk, a database that goes away.

Five kills here; ``REWARDMIX_KILLS=20 python -m pytest tests/service/test_store_crashes.py`` for more.
"""

import contextlib
import os
import shutil
import sqlite3
import threading
import time

import pytest

import rewardmix as rm
from helpers.postgres_server import KINDS, place_of, small_disk
from helpers.service_process import Client, as_process, free_port, in_thread, need_server
from helpers.service_users import SimulatedUser, check_store, finish, played, turned_away
from rewardmix.service import ServeSettings, SessionService, Store, export_log, replay

need_server()

KILLS = int(os.environ.get("REWARDMIX_KILLS", "5"))
VISITORS = 6


@pytest.fixture(params=KINDS)
def place(request):
    return place_of(request.param, request)


@pytest.fixture(scope="module")
def saved(plan, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.safetensors"
    rm.save(path, plan)
    return path


def test_nothing_that_was_acknowledged_is_lost_or_counted_twice_by_kills_under_load(saved, place, tmp_path):
    port, stop = free_port(), threading.Event()
    users = [SimulatedUser(port, f"visitor {i}", stop) for i in range(VISITORS)]
    options = ["--explore-prob", "0.3", "--holdout-share", "0.3", "--refit", "--refit-every", "60"]
    for kill in range(KILLS + 1):
        with as_process(saved, place, port, *options, log=tmp_path / "log"):
            if kill == 0:
                for user in users:
                    user.start()
            played(users, 30)
            if kill == KILLS:
                finish(users)
                versions(port, 2)
    assert sum(user.again for user in users) >= KILLS
    rewards = check_store(place, users)
    assert export_log(place, tmp_path / "log.parquet").num_rows == rewards
    again = replay(place)
    assert again
    assert all(item.is_identical for item in again)
    if "://" not in place:
        with contextlib.closing(sqlite3.connect(place)) as rows:
            assert rows.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def versions(port, number):
    """Wait until there are so many versions."""
    client = Client(port)
    while len(client.ask("GET", "/v1/versions")[1]["versions"]) < number:
        time.sleep(0.1)
    client.close()


@contextlib.contextmanager
def served(plan, place):
    """A service with a store of its own; (service, client)."""
    store = Store(place)
    try:
        service = SessionService(store, plan, ServeSettings(0.0, 0.0))
        with in_thread(service) as client:
            yield service, client
    finally:
        store.close()


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_full_disk_is_a_503_and_passes(plan, place):
    with served(plan, place) as (service, client):
        first = client.ask("POST", "/v1/sessions", {"state": "home"})[1]
        ask = service.store.database.execute
        ask(f"PRAGMA max_page_count={ask('PRAGMA page_count').fetchone()[0]}")
        response, statuses = [], set()
        for number in range(300):
            body = {"state": "home", "idempotency_key": f"{number} {'x' * 150}"}
            status, answer = client.ask("POST", "/v1/sessions", body)
            response.append((body, status, answer))
            statuses.add(status)
        assert statuses == {200, 503}
        assert {answer["error"] for _, status, answer in response if status == 503} == {"store_unavailable"}
        assert client.ask("GET", "/v1/health")[0] == 200
        assert client.ask("GET", f"/v1/sessions/{first['session']}")[0] == 200  # what can be read is
        ask("PRAGMA max_page_count=1000000")
        for body, status, answer in response:
            again = client.ask("POST", "/v1/sessions", body)
            assert again[0] == 200
            assert status == 503 or again[1] == answer
        assert service.count_open().result() == 301
        assert ask("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_database_that_goes_away_is_a_503_and_comes_back_by_itself(plan, postgres):
    place, stop = postgres.fresh(), threading.Event()
    with served(plan, place) as (_, client):
        users = [SimulatedUser(client.connection.port, f"visitor {i}", stop) for i in range(3)]
        for user in users:
            user.start()
        for _ in range(2):
            played(users, 12)
            postgres.stop()
            assert client.ask("GET", "/v1/ready")[0] == 503
            assert client.ask("GET", "/v1/health")[0] == 200
            status, answer = client.ask(
                "POST", "/v1/sessions", {"state": "home", "idempotency_key": "while it is away"}
            )
            assert (status, answer["error"]) == (503, "store_unavailable")
            postgres.start()
        played(users, 12)
        finish(users)
    assert sum(user.turned_away for user in users) > 0
    check_store(place, users)


class SaysFull:
    """A PostgreSQL that refuses every new step as it does on a full disk."""

    def __init__(self, postgres):
        self._sql = postgres.sql

    def fill(self):
        self._sql(
            "CREATE FUNCTION rewardmix.full() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END$$; "
            "CREATE TRIGGER fails BEFORE INSERT ON rewardmix.steps EXECUTE FUNCTION rewardmix.full()"
        )

    def free(self):
        self._sql("DROP FUNCTION rewardmix.full() CASCADE")


@contextlib.contextmanager
def tables_on_small_disk(postgres):
    """Everything that the store writes is on a file system of 8 MiB."""
    with small_disk(postgres.folder / "small") as disk:
        (disk.folder / "tables").mkdir()
        shutil.chown(disk.folder / "tables", disk.folder.owner())
        postgres.sql(f"CREATE TABLESPACE small LOCATION '{disk.folder / 'tables'}'")
        postgres.sql("ALTER ROLE rewardmix SET default_tablespace = small")
        try:
            yield disk
        finally:
            postgres.sql("ALTER ROLE rewardmix RESET default_tablespace")
            postgres.fresh()
            postgres.sql("DROP TABLESPACE small")


@pytest.mark.parametrize("disk_of", [tables_on_small_disk, lambda postgres: contextlib.nullcontext(SaysFull(postgres))])
def test_a_full_disk_below_postgresql_is_a_503_and_passes(plan, postgres, disk_of, tmp_path):
    with disk_of(postgres) as disk:
        place, stop = postgres.fresh(), threading.Event()
        with served(plan, place) as (_, client):
            users = [SimulatedUser(client.connection.port, f"visitor {i}", stop) for i in range(3)]
            for user in users:
                user.start()
            for _ in range(2):
                played(users, 12)
                disk.fill()
                turned_away(users, 5)
                assert client.ask("GET", "/v1/health")[0] == client.ask("GET", "/v1/ready")[0] == 200  # it can read
                disk.free()
            played(users, 12)
            finish(users)
        check_store(place, users)
        assert export_log(place, tmp_path / "log.parquet").num_rows == sum(len(user.paid) for user in users)


def test_a_server_that_hangs_in_its_turn_does_not_hold_up_the_others(plan, postgres, monkeypatch):
    import psycopg

    monkeypatch.setitem(
        __import__("rewardmix.service.databases", fromlist=["TRANSACTION_TIMEOUTS"]).TRANSACTION_TIMEOUTS,
        "lock_timeout",
        "100ms",
    )
    place = postgres.fresh()
    with served(plan, place) as (_, client):
        with psycopg.connect(place) as other:
            other.execute("SELECT pg_advisory_xact_lock(%s)", (0x726D7831,))
            assert client.ask("POST", "/v1/sessions", {"state": "home"})[0] == 503
        assert client.ask("POST", "/v1/sessions", {"state": "home"})[0] == 200
