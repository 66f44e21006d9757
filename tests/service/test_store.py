"""The store: jobs are whole or not there, alone or together."""

import sqlite3

import pytest

from rewardmix._core.errors import InputError
from rewardmix.service.databases import is_store, open_database
from rewardmix.service.messages import Begin, Observed
from rewardmix.service.records import PROMOTED, NewSession, Records, StoredPolicy, VersionRow
from rewardmix.service.store import Store, StoreDown
from service.running_service import hold_up


def versioned(records, digest, plan=b"plan"):
    """The version of a digest, added if it is not there."""
    row = VersionRow(0, digest, 0.0, None, None, PROMOTED, "", "{}")
    return records.version_of(digest) or records.add_version(StoredPolicy(digest, plan, "{}"), row)


def add(number):
    def job(records: Records):
        version = versioned(records, "digest")
        return records.add_session(NewSession(f"session {number}"), version, "adaptive", float(number)).number

    return job


def test_what_was_acknowledged_is_in_the_file(store):
    numbers = [future.result() for future in [store.submit(add(i)) for i in range(600)]]
    assert len(set(numbers)) == 600
    other = sqlite3.connect(store.place)
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
    assert store.submit(lambda records: (records.count_sessions(), records.totals().open)).result() == (2, 2)


def test_a_full_disk_refuses_whole_jobs_and_the_store_recovers(store):
    store.submit(add(0)).result()
    ask = store.database.ask
    pages = store.submit(lambda records: ask("PRAGMA page_count").fetchone()[0]).result()
    ask(f"PRAGMA max_page_count={pages}")

    def large(records):
        return versioned(records, "large", b"x" * 100_000)

    with pytest.raises(StoreDown, match="full"):
        store.submit(large).result()
    assert store.submit(lambda records: records.count_sessions()).result() == 1
    ask("PRAGMA max_page_count=1000000")
    assert store.submit(large).result() == 2
    assert ask("PRAGMA integrity_check").fetchone() == ("ok",)


def test_who_only_reads_is_answered_beside_writes_that_fail(store, desk_of):
    """Jobs that wait at the same moment share a transaction, but what only reads does not fail with what writes."""
    desk = desk_of()
    session = desk.begin(Begin("home", None)).result().body["session"]
    ask = store.database.ask
    ask(f"PRAGMA max_page_count={ask('PRAGMA page_count').fetchone()[0]}")
    hold = hold_up(store)
    large = store.submit(lambda records: versioned(records, "large", b"x" * 100_000))
    told = [desk.count(), desk.show(session), desk.versions(), desk.policy()]
    hold.set()
    with pytest.raises(StoreDown, match="full"):
        large.result()
    assert told[0].result() == 1
    assert told[1].result().body["session"] == session
    assert told[2].result().body["current"] == 1
    assert '"version":1' in told[3].result()


def test_jobs_of_one_transaction_see_what_those_before_them_did(store, desk_of):
    """Sessions are read ahead for all jobs; what a job has changed is not told as it was before."""
    desk = desk_of()
    ids = [desk.begin(Begin("home", None, "anna")).result().body["session"] for _ in range(3)]
    hold = hold_up(store)
    told = [desk.go_on(ids[0], Observed(step, 1.0, "list")) for step in range(3)]
    told += [desk.go_on(ids[1], Observed(0, 1.0, None)), desk.go_on(ids[1], Observed(0, 1.0, None))]
    again = desk.go_on(ids[1], Observed(1, 1.0, "list"))
    desk.forget("anna")
    late = desk.go_on(ids[2], Observed(0, 1.0, "list"))
    hold.set()
    assert [one.result().body["step"] for one in told] == [1, 2, 3, 1, 1]
    assert told[4].result().events == {("retries", ""): 1}
    assert again.exception().word == "out_of_order"
    assert late.exception().word == "no_such_session"


def test_who_falls_silent_takes_nothing_from_what_was_read_ahead(store, desk_of, monkeypatch):
    """A beginning closes idle sessions; the others of the transaction are answered by what was read for all."""
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    desk = desk_of(idle=60.0)
    ids = [desk.begin(Begin("home", None)).result().body["session"] for _ in range(6)]
    now[0] += 50.0
    for id in ids[:5]:
        desk.go_on(id, Observed(0, 1.0, "list")).result()
    now[0] += 20.0
    hold, asked = hold_up(store), []
    told = [desk.begin(Begin("home", f"key {number}")) for number in range(3)]
    told += [desk.go_on(id, Observed(1, 1.0, "item")) for id in ids[:5]] + [
        desk.go_on(ids[5], Observed(0, 1.0, "list"))
    ]
    ask = store.database.ask
    monkeypatch.setattr(store.database, "ask", lambda *given: (asked.append(given[0]), ask(*given))[1])
    hold.set()
    assert [one.result().body["step"] for one in told] == [0, 0, 0, 2, 2, 2, 2, 2, 1]
    assert desk.count().result() == 9  # the silent one is closed, and goes on
    alone = [text for text in asked if text.startswith("SELECT number, id") and "ORDER BY step" in text]
    assert len(alone) == 1  # only of the one that was closed meanwhile


def test_settings_that_make_it_durable(store):
    assert store.database.ask("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store.database.ask("PRAGMA synchronous").fetchone() == (2,)


def test_idle_sessions_do_not_count_as_open(store):
    for number in range(10):
        store.submit(add(number)).result()
    assert store.submit(lambda records: records.close_idle(4.5, 3)).result() == 3
    assert store.submit(lambda records: records.close_idle(4.5, 3)).result() == 2
    assert store.submit(lambda records: records.totals().open).result() == 5


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
        with pytest.raises(InputError, match="store: found"):
            Store(tmp_path / name)
    with pytest.raises(InputError, match="store: found"):
        open_database(tmp_path / "nothing", new=False)
    assert not (tmp_path / "nothing").exists()
