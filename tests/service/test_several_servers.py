"""Several servers on one PostgreSQL: the same answers as one."""

import itertools
import subprocess
import sys
import threading
import time

import pytest

from rewardmix.service import Desk, ServeSettings, Store
from rewardmix.service.messages import Begin, Choose, Observed
from service.running_service import hold_up, in_thread, need_server
from service.visitors import Visitor, check_store, finish, played


@pytest.fixture
def desks_at(plan):
    """Makes desks of servers at one address, each with a connection of its own."""
    stores = []

    def make(place, number, **settings):
        chosen = ServeSettings(**{"explore": 0.3, "holdout": 0.2, **settings})
        made = [Store(place) for _ in range(number)]
        stores.extend(made)
        return [Desk(store, plan, chosen) for store in made]

    yield make
    for store in stores:
        store.close()


def answers_of(desks, monkeypatch):
    """What ten sessions are answered, each step by the next server."""
    numbers = itertools.count()
    monkeypatch.setattr("rewardmix.service.desk.secrets.token_urlsafe", lambda size: f"session {next(numbers)}")
    turns, answers = itertools.cycle(desks), []
    for visitor in range(10):
        answer = next(turns).begin(Begin(visitor % 3, f"key {visitor}")).result().body
        answers.append(answer)
        for step in range(6):
            told = Observed(step, float((visitor + step) % 2), None if step == 5 else (visitor * step) % 3)
            answer = next(turns).go_on(answer["session"], told).result().body
            assert next(turns).go_on(answer["session"], told).result().body == answer  # the other one knows it too
            answers.append(answer)
        answers.append(next(turns).show(answer["session"]).result().body)
    return answers


def test_sessions_that_alternate_between_two_servers_get_the_answers_of_one(postgres, desks_at, tmp_path, monkeypatch):
    alone = answers_of(desks_at(tmp_path / "sessions.sqlite", 1), monkeypatch)
    assert answers_of(desks_at(postgres.fresh(), 1), monkeypatch) == alone
    assert answers_of(desks_at(postgres.fresh(), 2), monkeypatch) == alone
    assert answers_of(desks_at(postgres.fresh(), 3), monkeypatch) == alone


def test_a_version_that_is_chosen_at_one_server_is_current_at_all(postgres, desks_at, plan):
    from dataclasses import replace

    import rewardmix as rm

    one, two = desks_at(postgres.fresh(), 2)
    newer = Desk(one.store, rm.plan(replace(plan.model, rewards=1.0 - plan.model.rewards)))
    assert newer.version == 2
    assert two.begin(Begin("home", None)).result().body["version"] == 2
    two.choose(1, Choose(hold=True)).result()
    assert one.begin(Begin("home", None)).result().body["version"] == 1


def test_two_servers_under_load_lose_nothing_and_count_once(postgres, desks_at):
    need_server()
    place, stop = postgres.fresh(), threading.Event()
    first, second = desks_at(place, 2)
    with in_thread(first) as one, in_thread(second) as two:
        visitors = [Visitor([one.connection.port, two.connection.port], f"visitor {i}", stop) for i in range(4)]
        for visitor in visitors:
            visitor.start()
        played(visitors, 24)
        finish(visitors)
    check_store(place, visitors)


def test_the_same_key_at_two_servers_at_once_is_one_session(postgres, desks_at):
    first, second = desks_at(postgres.fresh(), 2)
    futures = [
        desk.begin(Begin("home", f"key {i // 2}")) for i, desk in zip(range(100), itertools.cycle([first, second]))
    ]
    ids = [future.result().body["session"] for future in futures]
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 50
    assert first.count().result() == 50


def test_an_id_that_is_no_text_takes_no_other_session_down(postgres, desks_at):
    """Requests share a transaction: one that the store would refuse must not get there."""
    need_server()
    (desk,) = desks_at(postgres.fresh(), 1)
    with in_thread(desk) as client, in_thread(desk) as other:
        session = client.ask("POST", "/v1/sessions", {"state": "home"})[1]["session"]
        told, answers = {"step": 0, "reward": 1, "state": "list"}, []
        hold = hold_up(desk.store)
        asked = [(client, session), (other, "%00")]
        threads = [
            threading.Thread(
                target=lambda one=one, id=id: answers.append(one.ask("POST", f"/v1/sessions/{id}/steps", told)[0])
            )
            for one, id in asked
        ]
        for thread in threads:
            thread.start()
        while desk.store._jobs.qsize() < 2:
            time.sleep(0.01)
        hold.set()
        for thread in threads:
            thread.join()
    assert sorted(answers) == [200, 404]


def test_a_transaction_is_few_ways_to_the_server_and_back(postgres, desks_at, monkeypatch):
    """Reading and writing are one way each, for one session and for thirty."""
    (desk,) = desks_at(postgres.fresh(), 1)
    sent, send = [], desk.store.database._send
    ids = [desk.begin(Begin("home", None)).result().body["session"] for _ in range(30)]
    monkeypatch.setattr(desk.store.database, "_send", lambda: (sent.append(1), send())[1])
    desk.go_on(ids[0], Observed(0, 1.0, "list")).result()
    assert len(sent) == 2
    hold = hold_up(desk.store)
    told = [desk.go_on(id, Observed(0, 1.0, "list" if number % 2 else None)) for number, id in enumerate(ids[1:])]
    told += [desk.begin(Begin("home", f"key {number}")) for number in range(30)]
    sent.clear()
    hold.set()
    assert all(one.result().body is not None for one in told)
    assert len(sent) <= 6  # the job that waited; sessions, keys, totals, who is idle; all that is written


def test_fit_reads_the_sessions_of_all_servers_and_tells_no_password(postgres, desks_at, tmp_path):
    place = postgres.fresh()
    answers = itertools.cycle(desks_at(place, 2, explore=1.0))
    for visitor in range(60):
        session = next(answers).begin(Begin(visitor % 3, None)).result().body["session"]
        for step in range(4):
            told = Observed(step, float((visitor * step) % 2), (visitor + step) % 3 if step < 3 else None)
            next(answers).go_on(session, told).result()
    address = place.replace("rewardmix@", "rewardmix:pass-of-shop@")
    command = [sys.executable, "-m", "rewardmix", "fit", address, "--resamples", "0", "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "60 episodes, 240 rows" in done.stdout
    texts = [
        done.stdout,
        done.stderr,
        *((tmp_path / "run" / name).read_text() for name in ("result.json", "report.html")),
    ]
    assert not any("pass-of-shop" in text for text in texts)
    assert "postgresql:///postgres" in texts[2]
    wrong = [*command[:4], address.replace("/postgres?", "/nothing?")]
    done = subprocess.run(wrong, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "that cannot be opened" in done.stderr
    assert "pass-of-shop" not in done.stderr
