"""What requests mean: answers, retries, order, versions and limits."""

import math

import pytest

import rewardmix as rm
from helpers.postgres_server import KINDS, place_of
from rewardmix import belief as bayes
from rewardmix._core.errors import InputError
from rewardmix.service import SessionService, Store
from rewardmix.service.request_schema import (
    ApiError,
    StartSession,
    StepFeedback,
    parse_body,
    parse_start_session,
    parse_step_feedback,
)


@pytest.fixture(params=KINDS)
def place(request):
    return place_of(request.param, request)


def begun(service, state="home", key=None):
    return service.start_session(StartSession(state, key)).result().body


def on(service, session, step, reward=1.0, state="list"):
    return service.add_step(session, StepFeedback(step, reward, state)).result().body


def shown(service, session):
    return service.get_session(session).result().body


def refused(call, *arguments, **named):
    with pytest.raises(ApiError) as caught:
        call(*arguments, **named)
    return caught.value.status, caught.value.code


def test_names_in_names_out_and_numbers_in_numbers_out(make_service, plan):
    service = make_service()
    named, numbered = begun(service, "home"), begun(service, 0)
    assert set(named) == {"session", "step", "action", "propensity", "version"}
    assert named["action"] == plan.model.action_names[numbered["action"]]
    assert (named["step"], named["propensity"], named["version"]) == (0, 1.0, 1)
    assert isinstance(on(service, numbered["session"], 0, 1.0, 1)["action"], int)
    assert isinstance(on(service, named["session"], 0, 1.0, "list")["action"], str)


def test_a_step_that_is_sent_again_is_answered_as_before_and_counts_once(make_service):
    service = make_service(explore_prob=0.5)
    session = begun(service)["session"]
    answers = [on(service, session, step) for step in range(3)]
    again = [on(service, session, step) for step in (2, 0, 1, 2)]
    assert again == [answers[step] for step in (2, 0, 1, 2)]
    assert [item["reward"] for item in shown(service, session)["history"]] == [1.0, 1.0, 1.0, None]
    assert service.add_step(session, StepFeedback(0, 1.0, "list")).result().events == {("retries", ""): 1}


def test_a_step_out_of_order_changes_nothing(make_service):
    service = make_service()
    session = begun(service)["session"]
    on(service, session, 0, 1.0, "list")
    before = shown(service, session)
    assert refused(on, service, session, 2) == (409, "step_out_of_order")
    assert refused(on, service, session, 1 << 80) == (409, "step_out_of_order")
    assert refused(on, service, session, 0, 0.0, "list") == (409, "step_out_of_order")
    assert refused(on, service, session, 0, 1.0, "item") == (409, "step_out_of_order")
    assert refused(on, service, session, 0, 1.0, None) == (409, "step_out_of_order")
    assert refused(on, service, session, 1, 0.5) == (422, "invalid")
    assert shown(service, session) == before


def test_the_same_key_gives_the_same_session(make_service):
    service = make_service()
    first = begun(service, key="visit 1")
    assert begun(service, key="visit 1") == first
    assert begun(service, key="visit 2") != first
    assert refused(begun, service, "item", key="visit 1") == (409, "idempotency_key_conflict")
    assert service.count_open().result() == 2


@pytest.mark.parametrize("user", ["ann", None])
@pytest.mark.parametrize("other", ["bob", "ann", None])
def test_a_key_gives_nobody_the_session_of_another_visitor(make_service, user, other):
    service = make_service()
    first = service.start_session(StartSession("home", "visit 1", user)).result().body
    again = service.start_session(StartSession("home", "visit 1", other))
    if other == user:
        assert again.result().body == first
    else:
        assert refused(again.result) == (409, "idempotency_key_conflict")
    together = [
        service.start_session(StartSession("home", "visit 1", name)) for name in (user, other)
    ]  # read ahead for both
    assert together[0].result().body == first
    assert (together[1].exception() is None) == (other == user)
    assert service.delete_user(user or "nobody").result().body == {"deleted": 0 if user is None else 1}


def test_an_unknown_state_is_kept_as_it_was_said_and_counted(make_service):
    service = make_service(default_action=1)
    reply = service.start_session(StartSession("<script>", None)).result()
    assert (reply.body["action"], reply.body["propensity"]) == ("b", 1.0)
    assert reply.events[("unknown_states", "")] == 1
    session = reply.body["session"]
    answer = on(service, session, 0, 1.0, 99)
    assert answer["action"] == 1
    assert on(service, session, 0, 1.0, 99) == answer
    assert refused(on, service, session, 0, 1.0, 98) == (409, "step_out_of_order")
    assert [item["state"] for item in shown(service, session)["history"]] == ["<script>", 99]


@pytest.mark.parametrize(
    "text",
    [
        "'; DROP TABLE steps; --",
        "\\'",
        "\\",
        "%s %(x)s %",
        "? $1",
        "{0} {x}",
        '"}, {"number": 1',
        "\0\n\r\x1b[2J",
        "é\u2028😀",
    ],
)
def test_whatever_is_said_is_kept_as_it_is_and_does_nothing(make_service, text):
    service = make_service()
    sessions = [
        service.start_session(StartSession(text, f"{text} {number}", text)) for number in range(3)
    ]  # some share a transaction
    first = sessions[0].result().body["session"]
    assert service.start_session(StartSession(text, f"{text} 0", text)).result().body["session"] == first
    on(service, first, 0, 1.0, f"next {text}")
    assert [item["state"] for item in shown(service, first)["history"]] == [text, f"next {text}"]
    assert service.delete_user(text).result().body == {"deleted": 3}


def test_what_is_stored_is_what_was_decided_to_the_last_bit(make_service, plan):
    """Beliefs and propensities come back with every digit, so that an answer does not depend on the store."""
    service = make_service(explore_prob=0.3)
    sessions = [begun(service)["session"] for _ in range(8)]
    answers = []
    for step in range(5):
        futures = [
            service.add_step(id, StepFeedback(step, float((step + i) % 2), (step * i) % 3))
            for i, id in enumerate(sessions)
        ]
        answers.append([future.result().body for future in futures])
    for i, id in enumerate(sessions):
        stored = shown(service, id)
        assert [event["propensity"] for event in stored["history"][1:]] == [row[i]["propensity"] for row in answers]
        believed = service.served.model.weights
        for event in stored["history"][:-1]:
            believed = bayes.update(
                believed,
                plan.model.reward_probs[:, number_of(plan, event), action_of(plan, event), int(event["reward"])],
            )
        assert stored["belief"] == believed.tolist()


def number_of(plan, item):
    return plan.model.state_names.index(item["state"])


def action_of(plan, item):
    return plan.model.action_names.index(item["action"])


def test_a_session_ends_and_is_deleted(make_service):
    service = make_service()
    session = begun(service)["session"]
    end = on(service, session, 0, 1.0, None)
    assert (end["step"], end["action"], end["propensity"]) == (1, None, None)
    assert on(service, session, 0, 1.0, None) == end
    assert refused(on, service, session, 1) == (409, "step_out_of_order")
    assert shown(service, session)["ended"] is True
    assert service.count_open().result() == 0
    assert service.delete_session(session).result().body is None
    assert service.delete_session(session).result().events == {}
    assert refused(shown, service, session) == (404, "session_not_found")
    assert refused(on, service, session, 0) == (404, "session_not_found")
    assert service.store.submit(lambda records: records.list_steps(1)).result() == []


def test_open_sessions_are_limited_and_idle_ones_make_room(make_service, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    service = make_service(max_open_sessions=3, idle_seconds=60.0)
    sessions = [begun(service)["session"] for _ in range(3)]
    assert refused(begun, service) == (503, "too_many_sessions")
    service.delete_session(sessions[0]).result()
    begun(service)
    now[0] += 61.0
    begun(service)
    assert service.count_open().result() == 1
    on(service, sessions[1], 0)  # it was idle, and goes on
    assert service.count_open().result() == 2


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_ten_thousand_abandoned_sessions_break_nothing(make_service, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    service = make_service(max_open_sessions=9000, idle_seconds=60.0)
    futures = [service.start_session(StartSession("home", None)) for _ in range(10_000)]
    ends = [future.exception() for future in futures]
    assert sum(end is None for end in ends) == service.count_open().result() == 9000
    assert {end.status for end in ends if end is not None} == {503}
    now[0] += 61.0
    for begun_since in range(1, 200):
        begun(service)
        assert service.count_open().result() == max(9000 - 64 * begun_since, 0) + begun_since
    assert on(service, futures[0].result().body["session"], 0)["step"] == 1


def test_sessions_finish_on_the_version_that_they_began_with(tmp_path, plan, make_service):
    service = make_service()
    session = begun(service)["session"]
    flipped = rm.plan(replaced(plan.model, 1.0 - plan.model.rewards))
    newer = make_service(served=flipped)
    assert newer.version == 2
    expected = plan.policy.observe(plan.policy.start(0), plan.policy.act(plan.policy.start(0), None), 1.0, 1)
    answer = on(newer, session, 0)
    assert (answer["version"], answer["action"]) == (1, plan.model.action_names[plan.policy.act(expected, None)])
    assert begun(newer)["version"] == 2
    assert make_service().version == 1


def replaced(model, rewards):
    from dataclasses import replace

    return replace(model, rewards=rewards)


def test_a_store_of_another_world_is_refused(store, make_service):
    make_service()
    other = rm.plan(rm.problems.make_model("random", states=2, actions=2, horizon=2, seed=0))
    with pytest.raises(InputError, match="store: got sessions of other states"):
        SessionService(store, other)


def test_after_a_restart_sessions_go_on_as_if_nothing_had_happened(tmp_path, plan):
    from rewardmix.service import ServeSettings

    def played(restart):
        path = tmp_path / f"{restart}"
        store = Store(path)
        answers = []
        for step in range(6):
            if step == 0:
                answer = begun(SessionService(store, plan, ServeSettings(0.0, 0.0)), key="one")
            else:
                answer = on(
                    SessionService(store, plan, ServeSettings(0.0, 0.0)), answer["session"], step - 1, step % 2 * 1.0
                )
            answers.append((answer["action"], answer["propensity"]))
            if restart:
                store.close()
                store = Store(path)
        store.close()
        return answers

    assert played(True) == played(False)


def test_ids_cannot_be_guessed(make_service):
    service = make_service()
    ids = [begun(service)["session"] for _ in range(50)]
    assert len(set(ids)) == 50
    assert all(len(id) == 32 for id in ids)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"state": NaN}', b"\xff", b"[" * 10_000, b'{"state": ' + b"9" * 5000 + b"}"],
)
def test_malformed_bodies_are_refused(body):
    assert refused(parse_body, body) == (400, "malformed")


@pytest.mark.parametrize(
    "body",
    [{}, {"state": True}, {"state": 1.5}, {"state": ""}, {"state": "x" * 201}, {"state": "\ud800"}, {"state": None},
     {"state": 1 + (1 << 61)}, {"state": []}, {"state": "a", "more": 1}, {"state": "a", "idempotency_key": 5},
     {"state": "a", "idempotency_key": ""}],
)  # fmt: skip
def test_invalid_beginnings_are_refused(body):
    assert refused(parse_start_session, body) == (422, "invalid")


@pytest.mark.parametrize(
    ("field", "value"),
    [("step", True), ("step", -1), ("step", 0.5), ("step", "0"), ("reward", "1"), ("reward", None), ("reward", True),
     ("reward", math.inf), ("reward", 10**400), ("state", 1.5), ("state", ["x"]), ("more", 1)],
)  # fmt: skip
def test_invalid_steps_are_refused(field, value):
    good = {"step": 0, "reward": 1, "state": "list"}
    assert parse_step_feedback(good) == StepFeedback(0, 1.0, "list")
    assert parse_step_feedback({"step": 0.0, "reward": 1, "state": 2.0}) == StepFeedback(
        0, 1.0, 2
    )  # whole numbers, says JSON Schema
    assert refused(parse_step_feedback, {**good, field: value}) == (422, "invalid")
    if field in good:
        assert refused(parse_step_feedback, {name: good[name] for name in good if name != field}) == (422, "invalid")


def test_a_version_that_was_given_may_explore_more_than_one_that_was_learned(make_service):
    assert begun(make_service(initial_explore_prob=1.0))["propensity"] == pytest.approx(1 / 3)
    assert begun(make_service(explore_prob=0.0))["propensity"] == 1.0
