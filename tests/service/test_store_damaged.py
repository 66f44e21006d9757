"""Stores that are damaged: told in one sentence, and never taken for something else."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest

import rewardmix as rm
from helpers.service_process import need_server, with_source
from rewardmix._core.errors import InputError
from rewardmix.service import ServerAddress, ServeSettings, SessionService, Store, export_log, serve
from rewardmix.service.request_schema import StartSession, StepFeedback
from rewardmix.service.store import open_snapshot

need_server()
pytest.importorskip("pyarrow", reason="needs rewardmix[logs]")

ROWS = {
    "a state below zero": "UPDATE steps SET state = -1 WHERE number = 3 AND step = 1",
    "a state beyond the last": "UPDATE steps SET state = 99 WHERE number = 3 AND step = 1",
    "a state that is text": "UPDATE steps SET state = 'home' WHERE number = 3 AND step = 1",
    "an action below zero": "UPDATE steps SET action = -1 WHERE number = 3 AND step = 1",
    "an action beyond the last": "UPDATE steps SET action = 99 WHERE number = 3 AND step = 1",
    "a reward that is text": "UPDATE steps SET reward = 'much' WHERE number = 3 AND step = 1",
    "an infinite propensity": "UPDATE steps SET propensity = 9e999 WHERE number = 3 AND step = 1",
}
SPECS = {
    "no versions": "DELETE FROM versions",
    "a spec that is no JSON": "UPDATE versions SET spec = 'nothing'",
    "a spec of another shape": "UPDATE versions SET spec = '[]'",
    "a spec without rewards": "UPDATE versions SET spec = json_remove(spec, '$.reward_values')",
}
TABLES = {
    "without steps": ("DROP TABLE steps", "the table steps"),
    "without totals": ("DROP TABLE totals", "the table totals"),
    "without rewards": ("ALTER TABLE steps DROP COLUMN reward", "the column steps.reward"),
    "without numbers of what was paid": (
        "ALTER TABLE sessions DROP COLUMN num_rewards",
        "the column sessions.num_rewards",
    ),
}
COUNTS = {
    "without a total": "DELETE FROM totals WHERE name = 'open'",
    "a total that is text": "UPDATE totals SET value = 'x'",
}


@pytest.fixture(scope="module")
def good(plan, tmp_path_factory):
    """A store with thirty sessions."""
    path = tmp_path_factory.mktemp("good") / "sessions.sqlite"
    store = Store(path)
    service = SessionService(store, plan, ServeSettings(0.5, 0.0))
    for number in range(30):
        session = service.start_session(StartSession(number % 3, None)).result().body["session"]
        for step in range(3):
            service.add_step(
                session, StepFeedback(step, float(step % 2), (number + step) % 3 if step < 2 else None)
            ).result()
    store.close()
    return path


@pytest.fixture
def path(good, tmp_path):
    return shutil.copy(good, tmp_path / "sessions.sqlite")


def damage(path, statement):
    with closing(sqlite3.connect(path)) as rows:
        rows.execute(statement)
        rows.commit()


def overwrite(path):
    """All pages but the first."""
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))


class Started(Exception):
    """A service has begun."""


def begun(plan, path):
    """Whether a service begins with a store."""

    def on_start(address):
        raise Started

    with pytest.raises(Started):
        serve(plan, path, address=ServerAddress(port=0), on_start=on_start)


def refused(call, *words):
    """A sentence that says that the store is damaged, and how."""
    with pytest.raises(InputError, match=r"^store: got .*an undamaged store") as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_store_that_is_whole_is_taken(plan, path, tmp_path):
    begun(plan, path)
    assert export_log(path, tmp_path / "log.parquet").num_rows == 90


@pytest.mark.parametrize("name", [*ROWS, *SPECS])
def test_rows_that_no_service_has_written_are_not_exported(path, tmp_path, name):
    damage(path, {**ROWS, **SPECS}[name])
    where = ("of session",) if name in ROWS else ()
    refused(lambda: export_log(path, tmp_path / "log.parquet"), *where)
    assert not (tmp_path / "log.parquet").exists()


@pytest.mark.parametrize("name", [*TABLES])
def test_what_is_missing_is_told_at_the_start_and_not_when_it_is_needed(plan, path, tmp_path, name):
    statement, missing = TABLES[name]
    damage(path, statement)
    refused(lambda: begun(plan, path), missing)
    refused(lambda: export_log(path, tmp_path / "log.parquet"), missing)


@pytest.mark.parametrize("name", [*COUNTS, "no versions"])
def test_a_service_does_not_begin_without_what_it_counts_on(plan, path, name):
    damage(path, {**COUNTS, **SPECS}[name])
    refused(lambda: begun(plan, path))


def test_pages_that_were_overwritten_are_told(plan, path, tmp_path):
    overwrite(path)
    refused(lambda: export_log(path, tmp_path / "log.parquet"), "malformed")
    refused(lambda: begun(plan, path), "malformed")


def test_names_of_tables_that_are_no_text_are_told(plan, path):
    content = path.read_bytes()
    path.write_bytes(content.replace(b"CREATE TABLE totals", b"CREAT\xa8 T\xd4BLE totals", 1))
    with pytest.raises(InputError, match=r"^store: got"):
        begun(plan, path)


@pytest.mark.parametrize("column", ["state", "action"])
def test_a_number_below_zero_is_no_name_in_a_session_either(plan, path, column):
    damage(path, f"UPDATE steps SET {column} = -1 WHERE number = 3 AND step = 1")
    store = Store(path)
    try:
        service = SessionService(store, plan, ServeSettings(0.0, 0.0))
        with open_snapshot(path) as records:
            id = records._execute("SELECT id FROM sessions WHERE number = 3").fetchone()[0]
        refused(lambda: service.get_session(id).result(), column, "-1")
        assert service.start_session(StartSession("home", None)).result().body["step"] == 0
    finally:
        store.close()


def test_a_column_that_is_missing_in_postgresql_is_told_at_the_start(postgres, plan):
    place = postgres.fresh()
    Store(place).close()
    postgres.sql("ALTER TABLE rewardmix.steps DROP COLUMN reward")
    refused(lambda: Store(place), "the column steps.reward")
    postgres.fresh()


def command(*arguments, before=""):
    """(code, what is said) of a command."""
    words = ["-m", "rewardmix", *map(str, arguments)]
    shell = ["sh", "-c", f'{before}exec "$0" "$@"', sys.executable] if before else [sys.executable]
    done = subprocess.run([*shell, *words], capture_output=True, text=True, check=False, env=with_source({}))
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def saved(plan, tmp_path_factory):
    file = tmp_path_factory.mktemp("plan") / "plan.safetensors"
    rm.save(file, plan)
    return file


@pytest.mark.parametrize("name", ["export", "fit", "diagnose", "serve"])
def test_commands_say_one_sentence(path, saved, tmp_path, name):
    overwrite(path)
    out = ["--out", tmp_path / "out"]
    arguments = {
        "export": [path, "--format", "parquet", *out],
        "fit": [path, *out],
        "diagnose": [path],
        "serve": [saved, "--store", path, "--port", "0"],
    }
    code, text = command(name, *arguments[name])
    assert (code, text.count("\n")) == (2, 1), text
    assert "store: got" in text
    assert "malformed" in text


@pytest.mark.skipif(os.name != "posix", reason="a shell limits the size of files")
def test_a_disk_that_is_full_at_the_start_is_told(path, plan, saved, tmp_path):
    other = tmp_path / "other.safetensors"
    rm.save(
        other, rm.plan(replace(plan.model, rewards=1.0 - plan.model.rewards))
    )  # it has to be written into the store
    for value, store in ((saved, tmp_path / "new.sqlite"), (other, path)):
        code, text = command("serve", value, "--store", store, "--port", "0", before="ulimit -f 1; ")
        assert (code, text.count("\n")) == (2, 1), text
        assert "store: got" in text
