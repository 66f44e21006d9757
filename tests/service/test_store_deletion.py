"""What is forgotten: sessions of a visitor, sessions beyond their time; and who is kept waiting."""

import shutil
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.postgres_server import KINDS, place_of
from helpers.service_process import Client, in_thread, need_server
from rewardmix._core.errors import InputError
from rewardmix.service import ServeSettings, SessionLimits, SessionService, Store
from rewardmix.service.rate_limit import MAX_CLIENTS, RateLimiter
from rewardmix.service.request_schema import StartSession, StepFeedback
from rewardmix.service.store import open_snapshot

TIMEOUTS = 300
"""Seconds; far more than anything here takes beside other work."""

sqlite_only = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


@pytest.fixture(params=KINDS)
def place(request):
    return place_of(request.param, request)


def count(service):
    """(sessions, steps) that are stored."""

    def job(records):
        ask = service.store.database.execute
        return tuple(ask(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in ("sessions", "steps"))

    return service.store.submit(job).result()


def test_all_sessions_of_a_visitor_are_deleted_and_no_other(make_service, monkeypatch):
    need_server()
    monkeypatch.setattr("rewardmix.service.session_service.DELETE_BATCH", 3)
    service = make_service()
    for number in range(10):
        session = (
            service.start_session(StartSession("home", None, "anna" if number < 8 else None)).result().body["session"]
        )
        service.add_step(session, StepFeedback(0, 1.0, "list")).result()
    service.start_session(StartSession("home", "anna", "bert")).result()  # a key of the same text is no visitor
    with in_thread(service) as client:
        assert client.ask("DELETE", "/v1/users/nobody") == (200, {"deleted": 0})
        assert client.ask("DELETE", "/v1/users/anna") == (200, {"deleted": 8})
        assert client.ask("DELETE", "/v1/users/anna") == (200, {"deleted": 0})
        _, text = client.ask("GET", "/v1/metrics")
        assert "rewardmix_sessions_deleted_total 8" in text
    assert count(service) == (3, 5)
    assert service.count_open().result() == 3


def test_who_a_visitor_is_cannot_be_read_in_the_store(store, make_service):
    make_service().start_session(StartSession("home", "a secret key", "anna@example.org")).result()
    rows = store.submit(lambda records: store.database.execute("SELECT * FROM sessions").fetchall()).result()
    assert "secret" not in str(rows)
    assert "anna" not in str(rows)


def left_in_files(place, *texts):
    """Which of some texts can be read in the files of a store: the database and what SQLite keeps beside it."""
    content = b"".join(path.read_bytes() for path in Path(place).parent.glob(f"{Path(place).name}*"))
    return [text for text in texts if text.encode() in content]


def wait_until(good):
    """Wait for a condition, for as long as a machine may need that does much else."""
    until = time.monotonic() + TIMEOUTS
    while not good():
        assert time.monotonic() < until
        time.sleep(0.02)


def visited(service, user="ann", state="odd 4711"):
    """What must not be left of a session that was forgotten: its id, and a state that only it was in."""
    session = service.start_session(StartSession(state, None, user)).result().body["session"]
    service.add_step(session, StepFeedback(0, 1.0, "list")).result()
    return session, state


def stay(service, number=30):
    """Sessions that stay."""
    for _ in range(number):
        service.start_session(StartSession("home", None)).result()


@sqlite_only
def test_nothing_of_a_forgotten_session_is_left_in_the_files(place, plan):
    store = Store(place)
    service = SessionService(store, plan, ServeSettings(0.0, 0.0))
    for delete in (lambda session: service.delete_user("ann"), service.delete_session):
        texts = visited(service)
        stay(service)
        assert left_in_files(place, *texts) == list(texts)
        delete(texts[0]).result()
        wait_until(lambda texts=texts: not left_in_files(place, *texts))
        stay(service)
    store.close()
    assert not left_in_files(place, *texts)


@sqlite_only
def test_a_deletion_is_erased_before_it_is_told(place, plan, monkeypatch):
    """As long as it is not one of many in a second."""
    monkeypatch.setattr("rewardmix.service.store.ERASE_SECONDS", 0.0)
    store = Store(place)
    service = SessionService(store, plan, ServeSettings(0.0, 0.0))
    texts = visited(service)
    service.delete_user("ann").result()
    assert not left_in_files(place, *texts)
    store.close()


@sqlite_only
def test_who_reads_meanwhile_puts_the_erasing_off(place, plan, monkeypatch):
    monkeypatch.setattr("rewardmix.service.store.ERASE_SECONDS", 0.01)
    store = Store(place)
    service = SessionService(store, plan, ServeSettings(0.0, 0.0))
    texts = visited(service)
    with open_snapshot(place) as records:
        assert records.count_sessions() == 1
        service.delete_user("ann").result()
        stay(service)  # nobody else is kept waiting
        assert records.count_sessions() == 1
        assert left_in_files(place, *texts) == list(texts)
    wait_until(lambda: not left_in_files(place, *texts))  # nothing is asked of the store meanwhile
    stay(service)
    store.close()


@sqlite_only
def test_a_server_that_stops_erases_what_it_deleted_though_another_has_the_file(place, plan, monkeypatch):
    first, second = Store(place), Store(place)
    try:
        services = [SessionService(store, plan, ServeSettings(0.0, 0.0)) for store in (first, second)]
        texts = visited(services[0])
        stay(services[1])
        monkeypatch.setattr("rewardmix.service.store.ERASE_SECONDS", 1e9)
        services[0].delete_user("ann").result()
        assert left_in_files(place, *texts)
        first.close()
        assert not left_in_files(place, *texts)
        stay(services[1])
    finally:
        second.close()


@sqlite_only
def test_what_a_kill_left_is_erased_at_the_next_start(place, plan, tmp_path, monkeypatch):
    store = Store(place)
    service = SessionService(store, plan, ServeSettings(0.0, 0.0))
    texts = visited(service)
    monkeypatch.setattr("rewardmix.service.store.ERASE_SECONDS", 1e9)
    service.delete_user("ann").result()
    (tmp_path / "killed").mkdir()
    for path in Path(place).parent.glob(f"{Path(place).name}*"):
        shutil.copy(path, tmp_path / "killed")
    store.close()
    after = tmp_path / "killed" / Path(place).name
    assert left_in_files(after, *texts)
    store = Store(after)
    SessionService(store, plan, ServeSettings(0.0, 0.0))
    try:
        assert not left_in_files(after, *texts)
    finally:
        store.close()


def test_sessions_beyond_their_time_are_deleted_as_others_begin(store, plan, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    service = SessionService(store, plan, ServeSettings(0.0, 0.0), SessionLimits(retention_days=2.0))
    old = [service.start_session(StartSession("home", None)).result().body["session"] for _ in range(20)]
    now[0] += 1.5 * 86_400
    service.add_step(old[0], StepFeedback(0, 1.0, "list")).result()  # it goes on, and has two days more
    now[0] += 86_400
    assert service.start_session(StartSession("home", None)).result().events[("sessions_deleted", "")] == 16
    assert count(service) == (5, 6)
    assert service.delete_expired().result() == 3
    assert count(service) == (2, 3)
    assert service.count_open().result() == 1  # the one that went on is silent since
    assert service.delete_expired().result() == 0


def test_nothing_is_deleted_unless_it_is_asked_for(make_service, monkeypatch):
    service = make_service()
    service.start_session(StartSession("home", None)).result()
    monkeypatch.setattr("time.time", lambda: 1e12)
    assert service.delete_expired().result() == 0
    service.start_session(StartSession("home", None)).result()
    assert count(service) == (2, 2)
    with pytest.raises(InputError, match="retention_days"):
        SessionLimits(retention_days=0.0)


def test_a_client_may_ask_so_often_a_second():
    rate_limit = RateLimiter(2.0)
    assert [rate_limit.allow("a", 0.0) for _ in range(3)] == [True, True, False]
    assert rate_limit.allow("b", 0.0)
    assert [rate_limit.allow("a", 0.5) for _ in range(2)] == [True, False]
    assert [rate_limit.allow("a", 100.0) for _ in range(3)] == [True, True, False]
    for number in range(2 * MAX_CLIENTS):
        rate_limit.allow(str(number), 101.0)
    assert len(rate_limit._buckets) == MAX_CLIENTS


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_too_many_requests_are_a_429(make_service, monkeypatch):
    need_server()
    monkeypatch.setattr("rewardmix.service.api.time", SimpleNamespace(monotonic=lambda: 100.0))  # all in one moment
    with in_thread(make_service(), rate=5.0) as client:
        statuses = [client.ask("POST", "/v1/sessions", {"state": "home"})[0] for _ in range(50)]
    assert statuses == [200] * 5 + [429] * 45


def say_more(raw):
    """Until the connection is gone."""
    while True:
        raw.send(b"x")
        time.sleep(0.02)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_who_does_not_take_the_answers_is_given_up(make_service, monkeypatch):
    """Far more is asked for than what the sockets between hold."""
    need_server()
    monkeypatch.setattr("rewardmix.service.connection_timeouts.WRITE_TIMEOUT_SECONDS", 0.3)
    with in_thread(make_service()) as client, socket.socket() as raw:
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
    from rewardmix.service.connection_timeouts import WRITE_TIMEOUT_SECONDS, _BufferedTransport

    called, later = [], []
    loop = SimpleNamespace(call_soon=lambda call: None, call_later=lambda *call: later.append(call))
    below = SimpleNamespace(
        is_closing=lambda: False,
        write=called.append,
        close=lambda: called.append("close"),
        abort=lambda: None,
        get_write_buffer_size=lambda: left,
    )
    piece = _BufferedTransport(below, loop)
    piece.write(b"head")
    piece.write(b"body")
    piece.close()
    assert called == [b"headbody", "close"]
    assert later == ([(WRITE_TIMEOUT_SECONDS, below.abort)] if left else [])


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_head_that_does_not_arrive_is_given_up_and_others_are_answered(make_service, monkeypatch):
    need_server()
    monkeypatch.setattr("rewardmix.service.connection_timeouts.HEADER_TIMEOUT_SECONDS", 2.0)
    with in_thread(make_service()) as client:
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
