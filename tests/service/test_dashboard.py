"""The live page: what it is told, the honest comparison behind it, and how it looks in a browser."""

import random

import numpy as np
import pytest

from helpers.service_process import in_thread, need_server
from rewardmix import InputError
from rewardmix.bounded_mean import ReturnBounds
from rewardmix.service.ab_test import BettingSequence
from rewardmix.service.arm_totals import MAX_INTERVALS, ArmTotals, FinishedSession

need_server()


def test_the_ledger_adds_up_in_bounded_memory():
    rng, arm_totals, rows = random.Random(0), ArmTotals(ReturnBounds(0.0, 1.0)), []
    for number in range(1, 3001):
        rows.append(
            FinishedSession(
                number, 1 + number // 1500, rng.choice(["adaptive", "holdout"]), number % 3 > 0, rng.random(), 0.5
            )
        )
    for start in range(0, 3000, 37):
        arm_totals.add(rows[start : start + 37])
    for arm in ("adaptive", "holdout"):
        values = [row.total_reward for row in rows if row.arm == arm]
        assert arm_totals.arm(arm).num_sessions == len(values)
        assert arm_totals.arm(arm).mean == pytest.approx(np.mean(values))
        assert arm_totals.arm(arm).variance == pytest.approx(np.var(values, ddof=1))
        assert sum(stretch[arm].num_sessions for stretch in arm_totals.intervals) == len(values)
    assert len(arm_totals.intervals) <= MAX_INTERVALS
    assert (arm_totals.sessions, arm_totals.abandoned, arm_totals.last) == (3000, 1000, 3000)
    compared = BettingSequence(ReturnBounds(0.0, 1.0))
    for row in rows:
        compared.add(row.arm == "adaptive", 0.5, row.total_reward)
    assert arm_totals.comparison.comparison() == compared.comparison()


def play(client, state="home", reward=1, end=True):
    session = client.ask("POST", "/v1/sessions", {"state": state})[1]["session"]
    step = {"step": 0, "reward": reward, "state": None if end else "list"}
    assert client.ask("POST", f"/v1/sessions/{session}/steps", step)[0] == 200
    return client.ask("GET", f"/v1/sessions/{session}")[1]["arm"]


def test_the_page_is_told_what_sessions_earned(make_service, monkeypatch):
    monkeypatch.setattr("rewardmix.service.dashboard.MAX_AGE_SECONDS", 0.0)
    with in_thread(make_service(holdout_share=0.5)) as client:
        first = client.ask("GET", "/v1/dashboard")[1]
        assert (first["comparison"], first["history"], first["alarms"]) == (None, [], [])
        arms = [play(client, reward=number % 2) for number in range(60)]
        play(client, end=False)
        play(client, state="</script><img src=x onerror=alert(1)>")
        response = client.ask("GET", "/v1/dashboard")[1]
    assert (response["open_sessions"], response["finished_sessions"], response["counted_sessions"]) == (1, 61, 61)
    for arm in ("adaptive", "holdout"):
        rewards = [number % 2 for number in range(60) if arms[number] == arm]
        assert abs(response["arms"][arm]["sessions"] - len(rewards)) <= 1  # the one of an unknown state is in either
        assert response["versions"][0]["returns"][arm] == response["arms"][arm]
    assert response["comparison"]["lower"] < 0 < response["comparison"]["upper"]
    assert (response["comparison"]["min_return"], response["comparison"]["max_return"]) == (0.0, 4.0)  # the horizon
    assert (response["comparison"]["sessions"], response["comparison"]["clipped"], response["excluded_sessions"]) == (
        61,
        0,
        0,
    )
    assert [alarm["kind"] for alarm in response["alarms"]] == ["unknown_states"]
    assert [type["weight"] for type in response["types"]] == pytest.approx([type["weight"] for type in first["types"]])
    assert all(type["name"] in type["text"] for type in response["types"])


def test_an_answer_is_made_once_a_second_whoever_asks(make_service, monkeypatch):
    monkeypatch.setattr("rewardmix.service.dashboard.MAX_AGE_SECONDS", 1e9)
    with in_thread(make_service()) as client:
        before = client.ask("GET", "/v1/dashboard")
        play(client)
        assert client.ask("GET", "/v1/dashboard") == before


def test_a_look_is_one_job_of_the_store(make_service, monkeypatch):
    monkeypatch.setattr("rewardmix.service.dashboard.ROWS_PER_JOB", 20)
    service, jobs = make_service(holdout_share=0.5), []
    with in_thread(service) as client:
        client.ask("GET", "/v1/dashboard")
        submit = service.store.submit
        for sessions, looks in ((0, 1), (3, 1), (45, 3)):
            for _ in range(sessions):
                play(client)
            monkeypatch.setattr("rewardmix.service.dashboard.MAX_AGE_SECONDS", 0.0)
            monkeypatch.setattr(service.store, "submit", lambda *job, **how: (jobs.append(job), submit(*job, **how))[1])
            response = client.ask("GET", "/v1/dashboard")[1]
            monkeypatch.setattr(service.store, "submit", submit)
            monkeypatch.setattr("rewardmix.service.dashboard.MAX_AGE_SECONDS", 1e9)
            assert len(jobs) == looks
            assert response["counted_sessions"] == response["finished_sessions"]
            jobs.clear()


def test_pages_are_for_anybody_and_their_data_for_those_with_the_token(make_service):
    with in_thread(make_service(), "a token that is long enough") as client:
        client.headers = {}
        assert client.ask("GET", "/")[0] == client.ask("GET", "/v1/docs")[0] == 200
        assert client.ask("GET", "/v1/dashboard")[0] == 401
    with in_thread(make_service()) as client:
        assert client.ask("GET", "/", Host="elsewhere.example")[0] == 403
        text = client.ask("GET", "/")[1]
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "/v1/sessions/{id}/steps" in client.ask("GET", "/v1/docs")[1]


def test_what_a_session_counts_at_most_is_said_and_who_earned_more(make_service, monkeypatch):
    monkeypatch.setattr("rewardmix.service.dashboard.MAX_AGE_SECONDS", 0.0)
    with in_thread(make_service(holdout_share=0.5, max_session_return=0.5)) as client:
        for number in range(80):
            play(client, reward=number % 2)
        comparison = client.ask("GET", "/v1/dashboard")[1]["comparison"]
    assert (comparison["sessions"], comparison["max_return"], comparison["clipped"]) == (80, 0.5, 40)
    assert -0.5 <= comparison["lower"] < comparison["upper"] <= 0.5


def test_what_a_session_counts_at_most_lies_above_the_least(make_service):
    with pytest.raises(
        InputError, match="max_session_return: got 0.0, expected more than 0, the smallest possible return"
    ):
        make_service(max_session_return=0.0)
    with pytest.raises(InputError, match="max_session_return"):
        make_service(max_session_return=float("inf"))


def test_sessions_are_compared_by_the_holdout_that_they_began_with(make_service, monkeypatch):
    """A service that is started again with another holdout, or without one, forgets no chance of before."""
    monkeypatch.setattr("rewardmix.service.dashboard.MAX_AGE_SECONDS", 0.0)
    arms = []
    for holdout in (0.5, 0.1, 0.0):
        with in_thread(make_service(holdout_share=holdout)) as client:
            arms += [(play(client, reward=number % 2), holdout, float(number % 2)) for number in range(60)]
            response = client.ask("GET", "/v1/dashboard")[1]
    compared = BettingSequence(ReturnBounds(0.0, 4.0))
    for arm, holdout, value in arms:
        compared.add(arm == "adaptive", holdout, value)
    assert response["comparison"] == vars(compared.comparison())
    assert response["excluded_sessions"] == 60
