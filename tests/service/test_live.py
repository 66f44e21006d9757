"""The live page: what it is told, the honest comparison behind it, and how it looks in a browser."""

import random

import numpy as np
import pytest

from rewardmix import InputError
from rewardmix.bounded_mean import ReturnBounds
from rewardmix.service.comparison import BettingSequence
from rewardmix.service.ledger import MOST_STRETCHES, FinishedRow, Ledger
from service.running_service import in_thread, need_server

need_server()


def test_the_ledger_adds_up_in_bounded_memory():
    rng, ledger, rows = random.Random(0), Ledger(ReturnBounds(0.0, 1.0)), []
    for number in range(1, 3001):
        rows.append(
            FinishedRow(
                number, 1 + number // 1500, rng.choice(["adaptive", "fixed"]), number % 3 > 0, rng.random(), 0.5
            )
        )
    for start in range(0, 3000, 37):
        ledger.take(rows[start : start + 37])
    for arm in ("adaptive", "fixed"):
        values = [row.earned for row in rows if row.arm == arm]
        assert ledger.arm(arm).sessions == len(values)
        assert ledger.arm(arm).mean == pytest.approx(np.mean(values))
        assert ledger.arm(arm).variance == pytest.approx(np.var(values, ddof=1))
        assert sum(stretch[arm].sessions for stretch in ledger.stretches) == len(values)
    assert len(ledger.stretches) <= MOST_STRETCHES
    assert (ledger.sessions, ledger.abandoned, ledger.last) == (3000, 1000, 3000)
    compared = BettingSequence(ReturnBounds(0.0, 1.0))
    for row in rows:
        compared.add(row.arm == "adaptive", 0.5, row.earned)
    assert ledger.compared.comparison() == compared.comparison()


def play(client, state="home", reward=1, end=True):
    session = client.ask("POST", "/v1/sessions", {"state": state})[1]["session"]
    told = {"step": 0, "reward": reward, "state": None if end else "list"}
    assert client.ask("POST", f"/v1/sessions/{session}/steps", told)[0] == 200
    return client.ask("GET", f"/v1/sessions/{session}")[1]["arm"]


def test_the_page_is_told_what_sessions_earned(desk_of, monkeypatch):
    monkeypatch.setattr("rewardmix.service.live.FRESH_SECONDS", 0.0)
    with in_thread(desk_of(holdout=0.5)) as client:
        first = client.ask("GET", "/v1/live")[1]
        assert (first["comparison"], first["over_time"], first["alarms"]) == (None, [], [])
        arms = [play(client, reward=number % 2) for number in range(60)]
        play(client, end=False)
        play(client, state="</script><img src=x onerror=alert(1)>")
        told = client.ask("GET", "/v1/live")[1]
    assert (told["open_sessions"], told["finished_sessions"], told["counted_sessions"]) == (1, 61, 61)
    for arm in ("adaptive", "fixed"):
        rewards = [number % 2 for number in range(60) if arms[number] == arm]
        assert abs(told["arms"][arm]["sessions"] - len(rewards)) <= 1  # the one of an unknown state is in either
        assert told["versions"][0]["earned"][arm] == told["arms"][arm]
    assert told["comparison"]["lower"] < 0 < told["comparison"]["upper"]
    assert (told["comparison"]["least_return"], told["comparison"]["most_return"]) == (0.0, 4.0)  # the horizon
    assert (told["comparison"]["sessions"], told["comparison"]["clipped"], told["left_out_sessions"]) == (61, 0, 0)
    assert [alarm["kind"] for alarm in told["alarms"]] == ["unknown_states"]
    assert [type["share"] for type in told["types"]] == pytest.approx([type["share"] for type in first["types"]])
    assert all(type["name"] in type["words"] for type in told["types"])


def test_an_answer_is_made_once_a_second_whoever_asks(desk_of, monkeypatch):
    monkeypatch.setattr("rewardmix.service.live.FRESH_SECONDS", 1e9)
    with in_thread(desk_of()) as client:
        before = client.ask("GET", "/v1/live")
        play(client)
        assert client.ask("GET", "/v1/live") == before


def test_a_look_is_one_job_of_the_store(desk_of, monkeypatch):
    monkeypatch.setattr("rewardmix.service.live.AT_A_TIME", 20)
    desk, jobs = desk_of(holdout=0.5), []
    with in_thread(desk) as client:
        client.ask("GET", "/v1/live")
        submit = desk.store.submit
        for sessions, looks in ((0, 1), (3, 1), (45, 3)):
            for _ in range(sessions):
                play(client)
            monkeypatch.setattr("rewardmix.service.live.FRESH_SECONDS", 0.0)
            monkeypatch.setattr(desk.store, "submit", lambda *job, **how: (jobs.append(job), submit(*job, **how))[1])
            told = client.ask("GET", "/v1/live")[1]
            monkeypatch.setattr(desk.store, "submit", submit)
            monkeypatch.setattr("rewardmix.service.live.FRESH_SECONDS", 1e9)
            assert len(jobs) == looks
            assert told["counted_sessions"] == told["finished_sessions"]
            jobs.clear()


def test_pages_are_for_anybody_and_their_data_for_those_with_the_token(desk_of):
    with in_thread(desk_of(), "a token that is long enough") as client:
        client.headers = {}
        assert client.ask("GET", "/")[0] == client.ask("GET", "/v1/docs")[0] == 200
        assert client.ask("GET", "/v1/live")[0] == 401
    with in_thread(desk_of()) as client:
        assert client.ask("GET", "/", Host="elsewhere.example")[0] == 403
        text = client.ask("GET", "/")[1]
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "/v1/sessions/{id}/steps" in client.ask("GET", "/v1/docs")[1]


def test_what_a_session_counts_at_most_is_said_and_who_earned_more(desk_of, monkeypatch):
    monkeypatch.setattr("rewardmix.service.live.FRESH_SECONDS", 0.0)
    with in_thread(desk_of(holdout=0.5, max_session_return=0.5)) as client:
        for number in range(80):
            play(client, reward=number % 2)
        told = client.ask("GET", "/v1/live")[1]["comparison"]
    assert (told["sessions"], told["most_return"], told["clipped"]) == (80, 0.5, 40)
    assert -0.5 <= told["lower"] < told["upper"] <= 0.5


def test_what_a_session_counts_at_most_lies_above_the_least(desk_of):
    with pytest.raises(InputError, match="max_session_return: found 0.0, expected more than 0, the least"):
        desk_of(max_session_return=0.0)
    with pytest.raises(InputError, match="max_session_return"):
        desk_of(max_session_return=float("inf"))


def test_sessions_are_compared_by_the_holdout_that_they_began_with(desk_of, monkeypatch):
    """A service that is started again with another holdout, or without one, forgets no chance of before."""
    monkeypatch.setattr("rewardmix.service.live.FRESH_SECONDS", 0.0)
    arms = []
    for holdout in (0.5, 0.1, 0.0):
        with in_thread(desk_of(holdout=holdout)) as client:
            arms += [(play(client, reward=number % 2), holdout, float(number % 2)) for number in range(60)]
            told = client.ask("GET", "/v1/live")[1]
    compared = BettingSequence(ReturnBounds(0.0, 4.0))
    for arm, holdout, earned in arms:
        compared.add(arm == "adaptive", holdout, earned)
    assert told["comparison"] == vars(compared.comparison())
    assert told["left_out_sessions"] == 60
