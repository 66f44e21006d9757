"""Several servers on one PostgreSQL: the same answers as one."""

import itertools
import subprocess
import sys
import threading
import time

import pytest

from helpers.service_process import hold_up, in_thread, need_server
from helpers.service_users import SimulatedUser, check_store, finish, played
from rewardmix.service import ServeSettings, SessionService, Store
from rewardmix.service.request_schema import ActivateVersion, StartSession, StepFeedback


@pytest.fixture
def make_services(plan):
    """Makes services of servers at one address, each with a connection of its own."""
    stores = []

    def make(place, number, **settings):
        chosen = ServeSettings(**{"explore_prob": 0.3, "holdout_share": 0.2, **settings})
        made = [Store(place) for _ in range(number)]
        stores.extend(made)
        return [SessionService(store, plan, chosen) for store in made]

    yield make
    for store in stores:
        store.close()


def answers_of(services, monkeypatch):
    """What ten sessions are answered, each step by the next server."""
    numbers = itertools.count()
    monkeypatch.setattr(
        "rewardmix.service.session_service.secrets.token_urlsafe", lambda size: f"session {next(numbers)}"
    )
    turns, answers = itertools.cycle(services), []
    for user in range(10):
        answer = next(turns).start_session(StartSession(user % 3, f"key {user}")).result().body
        answers.append(answer)
        for step in range(6):
            feedback = StepFeedback(step, float((user + step) % 2), None if step == 5 else (user * step) % 3)
            answer = next(turns).add_step(answer["session"], feedback).result().body
            assert (
                next(turns).add_step(answer["session"], feedback).result().body == answer
            )  # the other one knows it too
            answers.append(answer)
        answers.append(next(turns).get_session(answer["session"]).result().body)
    return answers


def test_sessions_that_alternate_between_two_servers_get_the_answers_of_one(
    postgres, make_services, tmp_path, monkeypatch
):
    alone = answers_of(make_services(tmp_path / "sessions.sqlite", 1), monkeypatch)
    assert answers_of(make_services(postgres.fresh(), 1), monkeypatch) == alone
    assert answers_of(make_services(postgres.fresh(), 2), monkeypatch) == alone
    assert answers_of(make_services(postgres.fresh(), 3), monkeypatch) == alone


def test_a_version_that_is_chosen_at_one_server_is_current_at_all(postgres, make_services, plan):
    from dataclasses import replace

    import rewardmix as rm

    first, second = make_services(postgres.fresh(), 2)
    newer = SessionService(first.store, rm.plan(replace(plan.model, rewards=1.0 - plan.model.rewards)))
    assert newer.version == 2
    assert second.start_session(StartSession("home", None)).result().body["version"] == 2
    second.activate_version(1, ActivateVersion(pin=True)).result()
    assert first.start_session(StartSession("home", None)).result().body["version"] == 1


def test_two_servers_under_load_lose_nothing_and_count_once(postgres, make_services):
    need_server()
    place, stop = postgres.fresh(), threading.Event()
    first, second = make_services(place, 2)
    with in_thread(first) as item, in_thread(second) as two:
        users = [SimulatedUser([item.connection.port, two.connection.port], f"visitor {i}", stop) for i in range(4)]
        for user in users:
            user.start()
        played(users, 24)
        finish(users)
    check_store(place, users)


def test_the_same_key_at_two_servers_at_once_is_one_session(postgres, make_services):
    first, second = make_services(postgres.fresh(), 2)
    futures = [
        service.start_session(StartSession("home", f"key {i // 2}"))
        for i, service in zip(range(100), itertools.cycle([first, second]))
    ]
    ids = [future.result().body["session"] for future in futures]
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 50
    assert first.count_open().result() == 50


def test_an_id_that_is_no_text_takes_no_other_session_down(postgres, make_services):
    """Requests share a transaction: one that the store would refuse must not get there."""
    need_server()
    (service,) = make_services(postgres.fresh(), 1)
    with in_thread(service) as client, in_thread(service) as other:
        session = client.ask("POST", "/v1/sessions", {"state": "home"})[1]["session"]
        step, answers = {"step": 0, "reward": 1, "state": "list"}, []
        hold = hold_up(service.store)
        asked = [(client, session), (other, "%00")]
        threads = [
            threading.Thread(
                target=lambda item=item, id=id: answers.append(item.ask("POST", f"/v1/sessions/{id}/steps", step)[0])
            )
            for item, id in asked
        ]
        for thread in threads:
            thread.start()
        while service.store._jobs.qsize() < 2:
            time.sleep(0.01)
        hold.set()
        for thread in threads:
            thread.join()
    assert sorted(answers) == [200, 404]


def test_a_transaction_is_few_ways_to_the_server_and_back(postgres, make_services, monkeypatch):
    """Reading and writing are one way each, for one session and for thirty."""
    (service,) = make_services(postgres.fresh(), 1)
    sent, send = [], service.store.database._flush
    ids = [service.start_session(StartSession("home", None)).result().body["session"] for _ in range(30)]
    monkeypatch.setattr(service.store.database, "_flush", lambda: (sent.append(1), send())[1])
    service.add_step(ids[0], StepFeedback(0, 1.0, "list")).result()
    assert len(sent) == 2
    hold = hold_up(service.store)
    decisions = [
        service.add_step(id, StepFeedback(0, 1.0, "list" if number % 2 else None)) for number, id in enumerate(ids[1:])
    ]
    decisions += [service.start_session(StartSession("home", f"key {number}")) for number in range(30)]
    sent.clear()
    hold.set()
    assert all(decision.result().body is not None for decision in decisions)
    assert len(sent) <= 6  # the job that waited; sessions, keys, totals, who is idle; all that is written


def test_fit_reads_the_sessions_of_all_servers_and_tells_no_password(postgres, make_services, tmp_path):
    place = postgres.fresh()
    answers = itertools.cycle(make_services(place, 2, explore_prob=1.0))
    for user in range(60):
        session = next(answers).start_session(StartSession(user % 3, None)).result().body["session"]
        for step in range(4):
            feedback = StepFeedback(step, float((user * step) % 2), (user + step) % 3 if step < 3 else None)
            next(answers).add_step(session, feedback).result()
    address = place.replace("rewardmix@", "rewardmix:pass-of-shop@")
    command = [
        sys.executable,
        "-m",
        "rewardmix",
        "fit",
        address,
        "--num-resamples",
        "0",
        "--out",
        str(tmp_path / "run"),
    ]
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
