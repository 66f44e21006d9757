"""The store: jobs are whole or not there, alone or together."""

import sqlite3

import pytest

from helpers.service_process import hold_up
from rewardmix._core.errors import InputError
from rewardmix.service.databases import is_store, open_database
from rewardmix.service.records import ACTIVATED, NewSession, PolicyBlob, Records, VersionRow
from rewardmix.service.request_schema import StartSession, StepFeedback
from rewardmix.service.store import Store, StoreUnavailable


def versioned(records, digest, plan=b"plan"):
    """The version of a digest, added if it is not there."""
    row = VersionRow(0, digest, 0.0, None, None, ACTIVATED, "", "{}")
    return records.find_version(digest) or records.add_version(PolicyBlob(digest, plan, "{}"), row)


def add(number):
    def job(records: Records):
        version = versioned(records, "digest")
        return records.add_session(NewSession(f"session {number}"), version, "adaptive", float(number)).number

    return job


def test_what_was_acknowledged_is_in_the_file(store):
    numbers = [future.result() for future in [store.submit(add(i)) for i in range(600)]]
    assert len(set(numbers)) == 600
    other = sqlite3.connect(store.address)
    assert other.execute("SELECT COUNT(*) FROM sessions").fetchone() == (600,)
    assert other.execute("SELECT value FROM totals WHERE name = 'open'").fetchone() == (600,)
    other.close()


def test_a_job_that_fails_is_undone_alone(store):
    def fails(records):
        add(7)(records)
        records.flush()  # written already, not only meant to be
        raise KeyError("nothing")

    futures = [store.submit(job) for job in (add(1), fails, add(2))]
    assert [futures[0].result(), futures[2].result()] == [1, 2]
    with pytest.raises(KeyError):
        futures[1].result()
    assert store.submit(lambda records: (records.count_sessions(), records.totals().num_open)).result() == (2, 2)


def test_a_full_disk_refuses_whole_jobs_and_the_store_recovers(store):
    store.submit(add(0)).result()
    ask = store.database.execute
    pages = store.submit(lambda records: ask("PRAGMA page_count").fetchone()[0]).result()
    ask(f"PRAGMA max_page_count={pages}")

    def large(records):
        return versioned(records, "large", b"x" * 100_000)

    with pytest.raises(StoreUnavailable, match="full"):
        store.submit(large).result()
    assert store.submit(lambda records: records.count_sessions()).result() == 1
    ask("PRAGMA max_page_count=1000000")
    assert store.submit(large).result() == 2
    assert ask("PRAGMA integrity_check").fetchone() == ("ok",)


def test_who_only_reads_is_answered_beside_writes_that_fail(store, make_service):
    """Jobs that wait at the same moment share a transaction, but what only reads does not fail with what writes."""
    service = make_service()
    session = service.start_session(StartSession("home", None)).result().body["session"]
    ask = store.database.execute
    ask(f"PRAGMA max_page_count={ask('PRAGMA page_count').fetchone()[0]}")
    hold = hold_up(store)
    large = store.submit(lambda records: versioned(records, "large", b"x" * 100_000))
    answers = [service.count_open(), service.get_session(session), service.versions(), service.policy()]
    hold.set()
    with pytest.raises(StoreUnavailable, match="full"):
        large.result()
    assert answers[0].result() == 1
    assert answers[1].result().body["session"] == session
    assert answers[2].result().body["active_version"] == 1
    assert '"version":1' in answers[3].result()


def test_jobs_of_one_transaction_see_what_those_before_them_did(store, make_service):
    """Sessions are read ahead for all jobs; what a job has changed is not told as it was before."""
    service = make_service()
    ids = [service.start_session(StartSession("home", None, "anna")).result().body["session"] for _ in range(3)]
    hold = hold_up(store)
    futures = [service.add_step(ids[0], StepFeedback(step, 1.0, "list")) for step in range(3)]
    futures += [
        service.add_step(ids[1], StepFeedback(0, 1.0, None)),
        service.add_step(ids[1], StepFeedback(0, 1.0, None)),
    ]
    again = service.add_step(ids[1], StepFeedback(1, 1.0, "list"))
    service.delete_user("anna")
    late = service.add_step(ids[2], StepFeedback(0, 1.0, "list"))
    hold.set()
    assert [future.result().body["step"] for future in futures] == [1, 2, 3, 1, 1]
    assert futures[4].result().events == {("retries", ""): 1}
    assert again.exception().code == "step_out_of_order"
    assert late.exception().code == "session_not_found"


def test_who_falls_silent_takes_nothing_from_what_was_read_ahead(store, make_service, monkeypatch):
    """A beginning closes idle sessions; the others of the transaction are answered by what was read for all."""
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    service = make_service(idle_seconds=60.0)
    ids = [service.start_session(StartSession("home", None)).result().body["session"] for _ in range(6)]
    now[0] += 50.0
    for id in ids[:5]:
        service.add_step(id, StepFeedback(0, 1.0, "list")).result()
    now[0] += 20.0
    hold, statements = hold_up(store), []
    futures = [service.start_session(StartSession("home", f"key {number}")) for number in range(3)]
    futures += [service.add_step(id, StepFeedback(1, 1.0, "item")) for id in ids[:5]] + [
        service.add_step(ids[5], StepFeedback(0, 1.0, "list"))
    ]
    ask = store.database.execute
    monkeypatch.setattr(store.database, "execute", lambda *value: (statements.append(value[0]), ask(*value))[1])
    hold.set()
    assert [future.result().body["step"] for future in futures] == [0, 0, 0, 2, 2, 2, 2, 2, 1]
    assert service.count_open().result() == 9  # the silent one is closed, and goes on
    alone = [text for text in statements if text.startswith("SELECT number, id") and "ORDER BY step" in text]
    assert len(alone) == 1  # only of the one that was closed meanwhile


def test_settings_that_make_it_durable(store):
    assert store.database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store.database.execute("PRAGMA synchronous").fetchone() == (2,)


def test_idle_sessions_do_not_count_as_open(store):
    for number in range(10):
        store.submit(add(number)).result()
    assert store.submit(lambda records: records.close_idle(4.5, 3)).result() == 3
    assert store.submit(lambda records: records.close_idle(4.5, 3)).result() == 2
    assert store.submit(lambda records: records.totals().num_open).result() == 5


def test_a_store_is_known_by_its_file_and_nothing_else_is_taken_for_one(tmp_path):
    path = tmp_path / "store"
    Store(path).close()
    assert is_store(path)
    (tmp_path / "text").write_text("no store")
    other = sqlite3.connect(tmp_path / "other")
    other.execute("CREATE TABLE mine (x)")
    other.close()
    for name in ("text", "other"):
        assert not is_store(tmp_path / name)
        with pytest.raises(InputError, match="store: got"):
            Store(tmp_path / name)
    with pytest.raises(InputError, match="store: got"):
        open_database(tmp_path / "nothing", new=False)
    assert not (tmp_path / "nothing").exists()
