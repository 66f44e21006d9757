"""What is forgotten: sessions of a visitor, sessions beyond their time; and who is kept waiting."""

import shutil
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rewardmix._core.errors import InputError
from rewardmix.service import Desk, DeskLimits, ServeSettings, Store
from rewardmix.service.messages import Begin, Observed
from rewardmix.service.pace import MOST_CLIENTS, Pace
from rewardmix.service.store import reading_store
from service.running_postgres import KINDS, place_of
from service.running_service import Client, in_thread, need_server

PATIENCE = 300
"""Seconds; far more than anything here takes beside other work."""

sqlite_only = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


@pytest.fixture(params=KINDS)
def place(request):
    return place_of(request.param, request)


def count(desk):
    """(sessions, steps) that are stored."""

    def job(records):
        ask = desk.store.database.ask
        return tuple(ask(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in ("sessions", "steps"))

    return desk.store.submit(job).result()


def test_all_sessions_of_a_visitor_are_deleted_and_no_other(desk_of, monkeypatch):
    need_server()
    monkeypatch.setattr("rewardmix.service.desk.DELETED_AT_ONCE", 3)
    desk = desk_of()
    for number in range(10):
        session = desk.begin(Begin("home", None, "anna" if number < 8 else None)).result().body["session"]
        desk.go_on(session, Observed(0, 1.0, "list")).result()
    desk.begin(Begin("home", "anna", "bert")).result()  # a key of the same text is no visitor
    with in_thread(desk) as client:
        assert client.ask("DELETE", "/v1/visitors/nobody") == (200, {"deleted": 0})
        assert client.ask("DELETE", "/v1/visitors/anna") == (200, {"deleted": 8})
        assert client.ask("DELETE", "/v1/visitors/anna") == (200, {"deleted": 0})
        _, text = client.ask("GET", "/v1/metrics")
        assert "rewardmix_sessions_deleted_total 8" in text
    assert count(desk) == (3, 5)
    assert desk.count().result() == 3


def test_who_a_visitor_is_cannot_be_read_in_the_store(store, desk_of):
    desk_of().begin(Begin("home", "a secret key", "anna@example.org")).result()
    rows = store.submit(lambda records: store.database.ask("SELECT * FROM sessions").fetchall()).result()
    assert "secret" not in str(rows)
    assert "anna" not in str(rows)


def left_in_files(place, *texts):
    """Which of some texts can be read in the files of a store: the database and what SQLite keeps beside it."""
    content = b"".join(path.read_bytes() for path in Path(place).parent.glob(f"{Path(place).name}*"))
    return [text for text in texts if text.encode() in content]


def wait_until(good):
    """Wait for a condition, for as long as a machine may need that does much else."""
    until = time.monotonic() + PATIENCE
    while not good():
        assert time.monotonic() < until
        time.sleep(0.02)


def visited(desk, visitor="ann", state="odd 4711"):
    """What must not be left of a session that was forgotten: its id, and a state that only it was in."""
    session = desk.begin(Begin(state, None, visitor)).result().body["session"]
    desk.go_on(session, Observed(0, 1.0, "list")).result()
    return session, state


def stay(desk, number=30):
    """Sessions that stay."""
    for _ in range(number):
        desk.begin(Begin("home", None)).result()


@sqlite_only
def test_nothing_of_a_forgotten_session_is_left_in_the_files(place, plan):
    store = Store(place)
    desk = Desk(store, plan, ServeSettings(0.0, 0.0))
    for delete in (lambda session: desk.forget("ann"), desk.delete):
        texts = visited(desk)
        stay(desk)
        assert left_in_files(place, *texts) == list(texts)
        delete(texts[0]).result()
        wait_until(lambda texts=texts: not left_in_files(place, *texts))
        stay(desk)
    store.close()
    assert not left_in_files(place, *texts)


@sqlite_only
def test_a_deletion_is_erased_before_it_is_told(place, plan, monkeypatch):
    """As long as it is not one of many in a second."""
    monkeypatch.setattr("rewardmix.service.store.ERASE_SECONDS", 0.0)
    store = Store(place)
    desk = Desk(store, plan, ServeSettings(0.0, 0.0))
    texts = visited(desk)
    desk.forget("ann").result()
    assert not left_in_files(place, *texts)
    store.close()


@sqlite_only
def test_who_reads_meanwhile_puts_the_erasing_off(place, plan, monkeypatch):
    monkeypatch.setattr("rewardmix.service.store.ERASE_SECONDS", 0.01)
    store = Store(place)
    desk = Desk(store, plan, ServeSettings(0.0, 0.0))
    texts = visited(desk)
    with reading_store(place) as records:
        assert records.count_sessions() == 1
        desk.forget("ann").result()
        stay(desk)  # nobody else is kept waiting
        assert records.count_sessions() == 1
        assert left_in_files(place, *texts) == list(texts)
    wait_until(lambda: not left_in_files(place, *texts))  # nothing is asked of the store meanwhile
    stay(desk)
    store.close()


@sqlite_only
def test_a_server_that_stops_erases_what_it_deleted_though_another_has_the_file(place, plan, monkeypatch):
    one, two = Store(place), Store(place)
    try:
        desks = [Desk(store, plan, ServeSettings(0.0, 0.0)) for store in (one, two)]
        texts = visited(desks[0])
        stay(desks[1])
        monkeypatch.setattr("rewardmix.service.store.ERASE_SECONDS", 1e9)
        desks[0].forget("ann").result()
        assert left_in_files(place, *texts)
        one.close()
        assert not left_in_files(place, *texts)
        stay(desks[1])
    finally:
        two.close()


@sqlite_only
def test_what_a_kill_left_is_erased_at_the_next_start(place, plan, tmp_path, monkeypatch):
    store = Store(place)
    desk = Desk(store, plan, ServeSettings(0.0, 0.0))
    texts = visited(desk)
    monkeypatch.setattr("rewardmix.service.store.ERASE_SECONDS", 1e9)
    desk.forget("ann").result()
    (tmp_path / "killed").mkdir()
    for path in Path(place).parent.glob(f"{Path(place).name}*"):
        shutil.copy(path, tmp_path / "killed")
    store.close()
    after = tmp_path / "killed" / Path(place).name
    assert left_in_files(after, *texts)
    store = Store(after)
    Desk(store, plan, ServeSettings(0.0, 0.0))
    try:
        assert not left_in_files(after, *texts)
    finally:
        store.close()


def test_sessions_beyond_their_time_are_deleted_as_others_begin(store, plan, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    desk = Desk(store, plan, ServeSettings(0.0, 0.0), DeskLimits(keep_days=2.0))
    old = [desk.begin(Begin("home", None)).result().body["session"] for _ in range(20)]
    now[0] += 1.5 * 86_400
    desk.go_on(old[0], Observed(0, 1.0, "list")).result()  # it goes on, and has two days more
    now[0] += 86_400
    assert desk.begin(Begin("home", None)).result().events[("sessions_deleted", "")] == 16
    assert count(desk) == (5, 6)
    assert desk.delete_old().result() == 3
    assert count(desk) == (2, 3)
    assert desk.count().result() == 1  # the one that went on is silent since
    assert desk.delete_old().result() == 0


def test_nothing_is_deleted_unless_it_is_asked_for(desk_of, monkeypatch):
    desk = desk_of()
    desk.begin(Begin("home", None)).result()
    monkeypatch.setattr("time.time", lambda: 1e12)
    assert desk.delete_old().result() == 0
    desk.begin(Begin("home", None)).result()
    assert count(desk) == (2, 2)
    with pytest.raises(InputError, match="keep_days"):
        DeskLimits(keep_days=0.0)


def test_a_client_may_ask_so_often_a_second():
    pace = Pace(2.0)
    assert [pace.allows("a", 0.0) for _ in range(3)] == [True, True, False]
    assert pace.allows("b", 0.0)
    assert [pace.allows("a", 0.5) for _ in range(2)] == [True, False]
    assert [pace.allows("a", 100.0) for _ in range(3)] == [True, True, False]
    for number in range(2 * MOST_CLIENTS):
        pace.allows(str(number), 101.0)
    assert len(pace._left) == MOST_CLIENTS


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_too_many_requests_are_a_429(desk_of, monkeypatch):
    need_server()
    monkeypatch.setattr("rewardmix.service.api.time", SimpleNamespace(monotonic=lambda: 100.0))  # all in one moment
    with in_thread(desk_of(), rate=5.0) as client:
        statuses = [client.ask("POST", "/v1/sessions", {"state": "home"})[0] for _ in range(50)]
    assert statuses == [200] * 5 + [429] * 45


def say_more(raw):
    """Until the connection is gone."""
    while True:
        raw.send(b"x")
        time.sleep(0.02)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_who_does_not_take_the_answers_is_given_up(desk_of, monkeypatch):
    """Far more is asked for than what the sockets between hold."""
    need_server()
    monkeypatch.setattr("rewardmix.service.patience.TAKEN_SECONDS", 0.3)
    with in_thread(desk_of()) as client, socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(60)
        raw.connect(("127.0.0.1", client.connection.port))
        raw.sendall(b"GET /v1/docs HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400)
        assert client.ask("GET", "/v1/health")[0] == 200
        with pytest.raises(ConnectionResetError):
            say_more(raw)
        assert client.ask("GET", "/v1/health")[0] == 200


@pytest.mark.parametrize("left", [0, 100])
def test_what_is_not_taken_of_the_last_answer_is_given_up(left):
    need_server()
    from rewardmix.service.patience import TAKEN_SECONDS, _InOnePiece

    called, later = [], []
    loop = SimpleNamespace(call_soon=lambda call: None, call_later=lambda *call: later.append(call))
    below = SimpleNamespace(
        is_closing=lambda: False,
        write=called.append,
        close=lambda: called.append("close"),
        abort=lambda: None,
        get_write_buffer_size=lambda: left,
    )
    piece = _InOnePiece(below, loop)
    piece.write(b"head")
    piece.write(b"body")
    piece.close()
    assert called == [b"headbody", "close"]
    assert later == ([(TAKEN_SECONDS, below.abort)] if left else [])


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_head_that_does_not_arrive_is_given_up_and_others_are_answered(desk_of, monkeypatch):
    need_server()
    monkeypatch.setattr("rewardmix.service.patience.HEAD_SECONDS", 2.0)
    with in_thread(desk_of()) as client:
        port = client.connection.port
        closed = []

        def slow(first, more):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as raw:
                raw.sendall(first)
                for _ in range(200):  # a byte now and then keeps nothing alive
                    try:
                        raw.sendall(more)
                        raw.settimeout(0.05)
                        if raw.recv(100) == b"":
                            break
                    except TimeoutError:
                        continue
                    except OSError:
                        break
                else:
                    return
                closed.append(first)

        heads = [b"", b"GET /v1/health HTTP/1.1\r\n", b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: "]
        threads = [
            threading.Thread(target=slow, args=(head, b"x" if head else b"")) for head in heads for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        other = Client(port)
        while any(thread.is_alive() for thread in threads):
            assert other.ask("GET", "/v1/health")[0] == 200
        other.close()
        assert len(closed) == 15
        assert client.ask("POST", "/v1/sessions", {"state": "home"})[0] == 200
